/* Applies an update: update_client FOLDER UPDATE [KEY]. Prints code, sentence and the number of steps.
 *
 * A step is a call that changes the disk. Variables of the environment: KILL_AT ends the process at that step, in the
 * middle of it if it writes; FAIL_AT lets that step fail as on a full disk; DELAY sleeps that many microseconds before
 * each; NO_LINK forbids links, as Android does; NO_EXCHANGE exchanges no folders, as some file systems.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executorch_update.h"

static long number_of(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

static long steps = 0;

static int is_killed(void) {
  ++steps;
  if (number_of("DELAY") > 0) {
    usleep((useconds_t)number_of("DELAY"));
  }
  return steps == number_of("KILL_AT");
}

static int fails(void) {
  if (is_killed()) {
    raise(SIGKILL);
  }
  errno = ENOSPC;
  return steps == number_of("FAIL_AT");
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return (flags & O_CREAT) != 0 && fails() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int file, const void* data, size_t size) {
  if (file > 2 && is_killed()) {
    syscall(SYS_write, file, data, size / 2);
    raise(SIGKILL);
  }
  if (file > 2 && steps == number_of("FAIL_AT")) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_write, file, data, size);
}

int fsync(int file) {
  return fails() ? -1 : (int)syscall(SYS_fsync, file);
}

int mkdir(const char* path, mode_t mode) {
  return fails() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int chmod(const char* path, mode_t mode) {
  return fails() ? -1 : (int)syscall(SYS_fchmodat, AT_FDCWD, path, mode);
}

int link(const char* from, const char* to) {
  if (getenv("NO_LINK") != NULL) {
    errno = EACCES;
    return -1;
  }
  return fails() ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlink(const char* to, const char* path) {
  return fails() ? -1 : (int)syscall(SYS_symlinkat, to, AT_FDCWD, path);
}

int rename(const char* from, const char* to) {
  return fails() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (getenv("NO_EXCHANGE") != NULL) {
    errno = EINVAL;
    return -1;
  }
  return fails() ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  return fails() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int rmdir(const char* path) {
  return fails() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int main(int count, char** values) {
  if (count < 3) {
    return 2;
  }
  executorch_update_options options;
  memset(&options, 0, sizeof(options));
  options.public_key = count > 3 ? values[3] : NULL;
  executorch_update_result result;
  memset(&result, 0, sizeof(result));
  executorch_app_error error;
  const executorch_update_code code = executorch_update_apply(values[1], values[2], &options, &result, &error);
  printf(
      "{\"code\": %d, \"steps\": %ld, \"is_current\": %d, \"files\": %lld, \"written\": %lld}\n%s\n",
      (int)code,
      steps,
      (int)result.is_current,
      (long long)result.files,
      (long long)result.written,
      error.sentence);
  return 0;
}
