#include "tools/runner/base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <new>

#include <executorch/runtime/platform/platform.h>

#include "tools/runner/base/lock.h"
#include "tools/runner/base/os.h"

namespace runner {
namespace {

// Static, because a crash may have corrupted the heap.
int error_output = STDERR_FILENO;
char stage[512] = "starting";
// The runtime's message on a thread with a stage. Not thread_local: older Androids load no library with such variables.
struct Log {
  char message[512];
};
pthread_key_t log_key;
std::atomic<bool> has_log_key{false};
// Of other threads, such as the runtime's own.
Log log_elsewhere;
std::atomic_flag message_is_locked = ATOMIC_FLAG_INIT;
// The runtime's earlier log function.
pal_emit_log_message_method logs_elsewhere = nullptr;
std::atomic<bool> is_ending{false};

// This thread's message, or that of another thread without a stage; may be empty.
const char* last_message() {
  const auto* log = has_log_key ? static_cast<const Log*>(pthread_getspecific(log_key)) : nullptr;
  return log == nullptr || log->message[0] == '\0' ? log_elsewhere.message : log->message;
}

// One thread ends the process with its error; other threads wait here.
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

// Possible causes of an end, and what to do.
constexpr char kAnyCause[] =
    "a backend lacks its driver or an operator, a file is damaged, or memory has run out: compare --runtime_info with "
    "what the manifest needs, and check the files with --manifest and --verify.";
constexpr char kFile[] = "the file has become shorter: copy it again, and check it with --manifest and --verify.";
constexpr char kMemory[] =
    "the program needs more memory than there is, or a file is damaged: check the files with --manifest and --verify.";

// Without allocating: the heap may be corrupted.
[[noreturn]] void fail_in_runtime(const char* what, const char* cause = kAnyCause) {
  claim_the_end();
  write_text("error: ExecuTorch's runtime ");
  write_text(what);
  write_text(" while ");
  write_text(stage);
  // Ends with a zero, even if a thread writes it now.
  const char* message = last_message();
  if (message[0] != '\0') {
    write_text(" (");
    write_text(message);
    write_text(")");
  }
  write_text("; ");
  write_text(cause);
  write_text("\n");
  _exit(1);
}

// Keeps the first message of a stage.
void keep_runtime_message(Log& log, const char* text, size_t length) {
  const Lock lock(message_is_locked);
  if (log.message[0] == '\0') {
    copy_line(log.message, sizeof(log.message), text, length);
  }
}

// Keeps other files from the number of a closed standard file, or output would go to them.
void keep_standard_files() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) < 0) {
      // Gets the lowest free number. Reading input and writing output fail.
      open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

// Reserves stderr for errors: libraries print their own messages to it.
void own_stderr() {
  const int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  const int null_device = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (copy >= 0 && null_device >= 0) {
    error_output = copy;
    dup2(null_device, STDERR_FILENO);
  }
}

// Calls `handler` on a separate stack if possible, because it cannot run on an overflown one.
void handle_signal(int number, void (*handler)(int)) {
#if defined(__ANDROID__)
  signal(number, handler);
#else
  static char memory[1 << 16];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = sizeof(memory);
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(number, &action, nullptr);
#endif
}

void on_signal(int number) {
  switch (number) {
    case SIGBUS:
      fail_in_runtime("read past the end of a file (SIGBUS)", kFile);
    case SIGFPE:
      fail_in_runtime("crashed (SIGFPE)");
    case SIGILL:
      fail_in_runtime("crashed (SIGILL)");
    case SIGABRT:
      fail_in_runtime("aborted (SIGABRT)");
    default:
      fail_in_runtime("crashed (SIGSEGV)");
  }
}

[[noreturn]] void on_runtime_abort() {
  fail_in_runtime("aborted");
}

void on_log(
    et_timestamp_t time,
    et_pal_log_level_t level,
    const char* file,
    const char* function,
    size_t line,
    const char* text,
    size_t length) {
  auto* log = static_cast<Log*>(pthread_getspecific(log_key));
  if (level == kError || level == kFatal) {
    keep_runtime_message(log == nullptr ? log_elsewhere : *log, text, length);
  }
  if (log == nullptr && logs_elsewhere != nullptr) {
    logs_elsewhere(time, level, file, function, line, text, length);
  }
}

// This thread's log; the first call replaces the runtime's. nullptr: there is no memory for it.
Log* own_log() {
  static std::atomic_flag is_locked = ATOMIC_FLAG_INIT;
  const Lock lock(is_locked);
  if (!has_log_key && pthread_key_create(&log_key, [](void* log) { delete static_cast<Log*>(log); }) == 0) {
    has_log_key = true;
    logs_elsewhere = executorch::runtime::get_pal_impl()->emit_log_message;
    executorch::runtime::register_pal(executorch::runtime::PalImpl::create(on_log, __FILE__));
  }
  auto* log = has_log_key ? static_cast<Log*>(pthread_getspecific(log_key)) : nullptr;
  if (has_log_key && log == nullptr) {
    log = new (std::nothrow) Log{};
    pthread_setspecific(log_key, log);
  }
  return log;
}

}  // namespace

void print_error(const std::string& sentence) {
  std::string line = "error: " + sentence;
  for (char& c : line) {
    c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  claim_the_end();
  write_text((line + "\n").c_str());
}

void note(const std::string& sentence) {
  write_text(("runner: " + sentence + "\n").c_str());
}

void set_stage(const std::string& now) {
  Log* log = own_log();
  const Lock lock(message_is_locked);
  copy_line(stage, sizeof(stage), now.data(), now.size());
  log_elsewhere.message[0] = '\0';
  if (log != nullptr) {
    log->message[0] = '\0';
  }
}

const char* last_stage() {
  return stage;
}

std::string runtime_message() {
  const Lock lock(message_is_locked);
  return last_message();
}

void guard_process() {
  keep_standard_files();
  own_stderr();
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    handle_signal(number, on_signal);
  }
  // A closed standard output is an ordinary error.
  signal(SIGPIPE, SIG_IGN);
  // So is a file at its size limit.
  signal(SIGXFSZ, SIG_IGN);
  std::set_terminate([] { fail_in_runtime("aborted"); });
  std::set_new_handler([] { fail_in_runtime("ran out of memory", kMemory); });
  executorch::runtime::register_pal(executorch::runtime::PalImpl::create(
      nullptr, on_runtime_abort, nullptr, nullptr, nullptr, nullptr, nullptr, __FILE__));
}

}  // namespace runner
