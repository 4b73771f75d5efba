#include "tools/runner/app/load_mark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/runner/base/os.h"

namespace runner {

Result<LoadMark> LoadMark::begin(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) {
    return LoadMark(path, -1);
  }
  // A process keeps the lock as long as it lives.
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    return LoadMark(path, -1);
  }
  struct stat about = {};
  if (fstat(file, &about) == 0 && about.st_size > 0) {
    close(file);
    return error("an earlier process ended while it loaded it; remove " + path + " to try it again.");
  }
  const bool is_written = write(file, "loading\n", 8) == 8 && flush_to_disk(file);
  LoadMark mark(path, file);
  if (!is_written) {
    return LoadMark(path, -1);
  }
  return mark;
}

LoadMark::~LoadMark() {
  if (file_ >= 0) {
    unlink(path_.c_str());
    close(file_);
  }
}

}  // namespace runner
