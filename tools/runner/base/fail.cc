#include "tools/runner/base/fail.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace runner {
namespace {

// Static, as a crash may have spoiled the heap.
int error_output = STDERR_FILENO;
char stage[512] = "starting";
char message[512];
std::atomic<bool> has_message{false};
std::atomic<bool> is_ending{false};

// One thread ends the process with its sentence; others that come here meanwhile wait.
void claim_the_end() {
  while (is_ending.exchange(true)) {
    pause();
  }
}

void write_text(const char* text) {
  size_t left = strlen(text);
  while (left > 0) {
    const ssize_t written = write(error_output, text, left);
    if (written <= 0) {
      return;
    }
    text += written;
    left -= static_cast<size_t>(written);
  }
}

void copy_line(char* to, size_t capacity, const char* from, size_t length) {
  const size_t count = length < capacity - 1 ? length : capacity - 1;
  for (size_t i = 0; i < count; ++i) {
    to[i] = static_cast<unsigned char>(from[i]) < ' ' ? ' ' : from[i];
  }
  to[count] = '\0';
}

}  // namespace

void fail(const std::string& sentence) {
  std::string line = "error: " + sentence;
  for (char& c : line) {
    c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  line += '\n';
  claim_the_end();
  write_text(line.c_str());
  // Not exit(): destructors of a runtime in an unknown state would run.
  _exit(1);
}

void note(const std::string& sentence) {
  write_text(("runner: " + sentence + "\n").c_str());
}

void fail_in_runtime(const char* what) {
  claim_the_end();
  write_text("error: ExecuTorch's runtime ");
  write_text(what);
  write_text(" while ");
  write_text(stage);
  write_text(
      "; a file is damaged, or memory has run out: check the files with --manifest and "
      "--verify.\n");
  _exit(1);
}

void own_stderr() {
  const int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (copy >= 0 && nowhere >= 0) {
    error_output = copy;
    dup2(nowhere, STDERR_FILENO);
  }
}

void set_stage(const std::string& now) {
  copy_line(stage, sizeof(stage), now.data(), now.size());
  has_message = false;
}

std::string runtime_message() {
  return has_message ? message : "";
}

void keep_runtime_message(const char* text, size_t length) {
  if (!has_message.exchange(true)) {
    copy_line(message, sizeof(message), text, length);
  }
}

}  // namespace runner
