"""Changes of Oniguruma's source: it counts the steps of a match, and stops at a limit.

Its own limit counts retries only, so a possessive loop, a reference to a group or a row of flags takes quadratic time
unnoticed. Here each instruction is a step, and so is each byte or entry that one instruction visits in a loop.
It also counts the bytes that it allocates, of which a short pattern may need many.
"""

_STEPS = "steps++;"

# File to pairs of a text and what replaces it everywhere in the file. A text that is not found is an error.
ONIGURUMA_CHANGES = {
    "src/regexec.c": [
        # Fields, and functions for them.
        "  void*           callout_user_data; /* used in callback each match */\n",
        "  void*           callout_user_data;\n  unsigned long   steps;\n  unsigned long   most_steps;\n",
        "  mp->callout_user_data = 0;\n",
        "  mp->callout_user_data = 0;\n  mp->steps = 0;\n  mp->most_steps = ~0UL;\n",
        "extern int\nonig_initialize_match_param(OnigMatchParam* mp)\n",
        """\
extern void
onig_limit_steps_of_match_param(OnigMatchParam* mp, unsigned long most)
{
  mp->steps = 0;
  mp->most_steps = most;
}

extern unsigned long
onig_get_steps_of_match_param(OnigMatchParam* mp)
{
  return mp->steps;
}

extern __thread unsigned long onig_looked_around;

extern int
onig_initialize_match_param(OnigMatchParam* mp)
""",
        # One match.
        "  StackType *stkp; /* used as any purpose. */\n",
        "  StackType *stkp;\n  unsigned long steps = 0, most_steps;\n",
        "  options = msa->options;\n\n#ifdef USE_CALLOUT\n",
        "  options = msa->options;\n  most_steps = msa->mp->most_steps;\n\n#ifdef USE_CALLOUT\n",
        " match_at_end:\n",
        " match_at_end:\n  msa->mp->steps += steps;\n",
        "#define SOP_IN(opcode)\n#define SOP_OUT\n#endif\n\n\n/* matching region",
        """\
#define SOP_IN(opcode)  if (++steps > most_steps) MATCH_AT_ERROR_RETURN(ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER);
#define SOP_OUT
#endif


/* matching region""",
        # Instructions that read several bytes.
        "#define DATA_ENSURE(n)         if (right_range - s < (n)) goto fail\n",
        "#define DATA_ENSURE(n)         do { if (right_range - s < (n)) goto fail; steps += (n); } while (0)\n",
        "  is_fail = 0;\\\n  while (len-- > 0) {\\\n",
        "  is_fail = 0;\\\n  steps += len;\\\n  while (len-- > 0) {\\\n",
        "  if (string_cmp_ic(encode, case_fold_flag, s1, ps2, len) == 0) \\\n",
        "  steps += 8 * (unsigned long )len;\\\n  if (string_cmp_ic(encode, case_fold_flag, s1, ps2, len) == 0) \\\n",
        "    CASE_OP(BACKREF_WITH_LEVEL)\n      {\n",
        "    CASE_OP(BACKREF_WITH_LEVEL)\n      {\n        steps += (stk - stk_base) + 8 * (end - s);\n",
        "    CASE_OP(MOVE)\n",
        "    CASE_OP(MOVE)\n      steps += p->move.n < 0 ? -p->move.n : p->move.n;\n",
        "      tlen = p->step_back_start.initial;\n",
        "      tlen = p->step_back_start.initial;\n      steps += tlen;\n",
        "        if (p->text_segment_boundary.not != 0)\n",
        "        steps += 16 * onig_looked_around;\n        onig_looked_around = 0;\n" +
        "        if (p->text_segment_boundary.not != 0)\n",
        # Instructions that search their stack.
        "    k--;\\\n",
        "    k--; %s\\\n" % _STEPS,
        "    klow--;\\\n",
        "    klow--; %s\\\n" % _STEPS,
        " kk++;\\\n",
        " kk++; %s\\\n" % _STEPS,
        "    k++;\\\n",
        "    k++; %s\\\n" % _STEPS,
    ],
    "src/regint.h": [
        "#define xmalloc    malloc\n#define xrealloc   realloc\n#define xcalloc    calloc\n",
        """\
extern __thread unsigned long onig_allocated_bytes;
#define xmalloc(size)          (onig_allocated_bytes += (size), malloc(size))
#define xrealloc(memory, size) (onig_allocated_bytes += (size), realloc((memory), (size)))
#define xcalloc(count, size)   (onig_allocated_bytes += (count) * (size), calloc((count), (size)))
""",
    ],
    "src/unicode.c": [
        "#include \"regint.h\"\n",
        "#include \"regint.h\"\n\n__thread unsigned long onig_looked_around;\n" +
        "__thread unsigned long onig_allocated_bytes;\n\n" +
        "extern unsigned long\nonig_allocated(void)\n{\n  return onig_allocated_bytes;\n}\n",
        "onigenc_get_prev_char_head(enc, start, prev)) != NULL) {\n",
        "onigenc_get_prev_char_head(enc, start, prev)) != NULL) {\n      onig_looked_around++;\n",
        "  while (TRUE) {\n    p += enclen(enc, p);\n",
        "  while (TRUE) {\n    onig_looked_around++;\n    p += enclen(enc, p);\n",
    ],
}
