// Android's liblog.so: its lines go to standard error.

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int __android_log_vprint(int priority, const char* tag, const char* format, va_list values) {
  int printed = fprintf(stderr, "[log %d %s] ", priority, tag != NULL ? tag : "");
  printed += vfprintf(stderr, format, values);
  fputc('\n', stderr);
  return printed + 1;
}

int __android_log_print(int priority, const char* tag, const char* format, ...) {
  va_list values;
  va_start(values, format);
  int printed = __android_log_vprint(priority, tag, format, values);
  va_end(values);
  return printed;
}

int __android_log_write(int priority, const char* tag, const char* message) {
  return __android_log_print(priority, tag, "%s", message);
}

void __android_log_assert(const char* condition, const char* tag, const char* format, ...) {
  va_list values;
  va_start(values, format);
  __android_log_vprint(7, tag, format != NULL ? format : "assertion failed", values);
  va_end(values);
  fprintf(stderr, "[log 7 %s] condition: %s\n", tag != NULL ? tag : "", condition != NULL ? condition : "");
  abort();
}
