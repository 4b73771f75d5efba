#include "tools/runner/base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

namespace runner {

std::string text_of(const char* path) {
  std::string text;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  char piece[4096];
  ssize_t length = 0;
  while (file >= 0 && (length = read(file, piece, sizeof(piece))) > 0) {
    text.append(piece, static_cast<size_t>(length));
  }
  if (file >= 0) {
    close(file);
  }
  return text;
}

}  // namespace runner
