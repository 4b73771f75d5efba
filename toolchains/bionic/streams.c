// Functions on streams. A stream is glibc's own, or a place in Android's old array of standard streams.

#include "streams.h"

#include <stdarg.h>
#include <stdio.h>
#include <wchar.h>

static struct bionic_file* old_streams;

void bench_set_streams(void** const streams[3], struct bionic_file files[3]) {
  *streams[0] = stdin;
  *streams[1] = stdout;
  *streams[2] = stderr;
  old_streams = files;
}

static FILE* real(FILE* stream) {
  const struct bionic_file* old = (const struct bionic_file*)stream;
  if (old == &old_streams[0]) return stdin;
  if (old == &old_streams[1]) return stdout;
  if (old == &old_streams[2]) return stderr;
  return stream;
}

int bionic_fclose(FILE* stream) { return fclose(real(stream)); }
int bionic_feof(FILE* stream) { return feof(real(stream)); }
int bionic_ferror(FILE* stream) { return ferror(real(stream)); }
int bionic_fflush(FILE* stream) { return fflush(real(stream)); }
char* bionic_fgets(char* to, int size, FILE* stream) { return fgets(to, size, real(stream)); }
int bionic_fileno(FILE* stream) { return fileno(real(stream)); }
int bionic_fputc(int c, FILE* stream) { return fputc(c, real(stream)); }
int bionic_fputs(const char* s, FILE* stream) { return fputs(s, real(stream)); }
wint_t bionic_fputwc(wchar_t c, FILE* stream) { return fputwc(c, real(stream)); }
size_t bionic_fread(void* to, size_t size, size_t n, FILE* stream) {
  return fread(to, size, n, real(stream));
}
int bionic_fseek(FILE* stream, long at, int from) { return fseek(real(stream), at, from); }
int bionic_fseeko(FILE* stream, off_t at, int from) { return fseeko(real(stream), at, from); }
long bionic_ftell(FILE* stream) { return ftell(real(stream)); }
off_t bionic_ftello(FILE* stream) { return ftello(real(stream)); }
size_t bionic_fwrite(const void* from, size_t size, size_t n, FILE* stream) {
  return fwrite(from, size, n, real(stream));
}
int bionic_getc(FILE* stream) { return getc(real(stream)); }
wint_t bionic_getwc(FILE* stream) { return getwc(real(stream)); }
int bionic_setvbuf(FILE* stream, char* buffer, int mode, size_t size) {
  return setvbuf(real(stream), buffer, mode, size);
}
int bionic_ungetc(int c, FILE* stream) { return ungetc(c, real(stream)); }
wint_t bionic_ungetwc(wint_t c, FILE* stream) { return ungetwc(c, real(stream)); }
int bionic_vfprintf(FILE* stream, const char* format, va_list values) {
  return vfprintf(real(stream), format, values);
}
int bionic_fprintf(FILE* stream, const char* format, ...) {
  va_list values;
  va_start(values, format);
  int printed = vfprintf(real(stream), format, values);
  va_end(values);
  return printed;
}
