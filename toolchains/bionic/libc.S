// Android's libc.so for the bench: each function jumps to what libbench.so found for it. No function
// is written here or in C, as the C library's own names would then mean these functions.

#if defined(__x86_64__)
#define JUMP(name) jmp *slot_##name(%rip)
#elif defined(__aarch64__)
// x16 is for such jumps: no caller expects it to be kept.
#define JUMP(name)                \
  adrp x16, slot_##name;          \
  ldr x16, [x16, :lo12:slot_##name]; \
  br x16
#else
#error "The bench is for x86_64 and arm64."
#endif

#define FUNCTION(name)         \
  .text;                       \
  .balign 16;                  \
  .globl name;                 \
  .type name, %function;       \
  name:;                       \
  JUMP(name);                  \
  .size name, .- name;         \
  .bss;                        \
  .balign 8;                   \
  slot_##name : .skip 8;       \
  .section .rodata.names, "a"; \
  name_##name : .asciz #name;  \
  .section .data.rel.ro.functions, "aw"; \
  .balign 8;                   \
  .quad name_##name, slot_##name;

// Pairs of name and place, which libc_data.c hands to libbench.so.
.section .data.rel.ro.functions, "aw"
.balign 8
.globl bench_functions
.hidden bench_functions
bench_functions:

#include "functions.inc"

.section .data.rel.ro.functions, "aw"
.balign 8
.quad 0, 0

.section .note.GNU-stack, "", %progbits
