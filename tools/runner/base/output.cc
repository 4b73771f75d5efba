#include "tools/runner/base/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/os.h"

namespace runner {
namespace {

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

void print(std::string_view text) {
  if (!write_all(STDOUT_FILENO, text)) {
    fail("standard output can't be written.");
  }
}

void write_file(const std::string& path, const std::vector<std::string_view>& pieces) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool good = file >= 0;
  for (const std::string_view piece : pieces) {
    good = good && write_all(file, piece);
  }
  const std::string reason = good ? "" : last_error();
  const bool closed = file < 0 || close(file) == 0;
  if (!good || !closed) {
    fail(path + " can't be written: " + (good ? last_error() : reason) + ".");
  }
}

void make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0777) != 0 && !is_folder(folder)) {
      const std::string reason = last_error();
      fail(path + " can't be made: " + reason + ".");
    }
    if (slash == std::string::npos) {
      return;
    }
  }
}

std::string with_digits(double number, int digits) {
  char text[64];
  snprintf(text, sizeof(text), "%.*f", digits, number);
  return text;
}

std::string short_text(double number) {
  char text[64];
  snprintf(text, sizeof(text), "%.8g", number);
  return text;
}

}  // namespace runner
