/* Where a program for Android starts: hands main to bionic's libc. */

typedef void (*function)(void);

/* Lists that end with 0 and begin with -1. Empty: the dynamic linker runs .init_array by itself, and
 * destructors of static objects are registered with __cxa_atexit. The counts are of newer bionics. */
struct structors {
  function *preinit;
  function *init;
  function *fini;
  unsigned long counts[3];
};

extern void __libc_init(void *arguments, void (*unused)(void), int (*main)(int, char **, char **),
                        const struct structors *structors) __attribute__((noreturn));
extern int main(int, char **, char **);

__attribute__((used, visibility("hidden"), noreturn)) void start_main(void *arguments) {
  static function none[2] = {(function)-1, 0};
  const struct structors structors = {none, none, none, {0, 0, 0}};
  __libc_init(arguments, 0, main, &structors);
}

#if defined(__aarch64__)
__asm__(
    ".text\n.globl _start\n.type _start,%function\n"
    "_start:\n mov x29, #0\n mov x30, #0\n mov x0, sp\n b start_main\n");
#elif defined(__x86_64__)
__asm__(
    ".text\n.globl _start\n.type _start,@function\n"
    "_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start_main\n");
#endif

/* Tells the dynamic linker which API level the program was made for. */
__attribute__((used, section(".note.android.ident"))) static const struct {
  int name_size, description_size, type;
  char name[8];
  int api_level;
} note = {sizeof note.name, sizeof note.api_level, 1, "Android", 26};
