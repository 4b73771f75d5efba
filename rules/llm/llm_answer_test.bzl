"""et_llm_answer_test: a question to a language model's program, and what its answer must contain."""

load("//rules/llm/private:llm_program.bzl", "LLM_PROGRAM_ATTRIBUTES", "LLM_PROGRAM_TOOLCHAINS", "llm_program", "quoted")

_ANSWER = """answer=$(%{command} --prompt %{prompt} "$@")
printf '%s\\n' "$answer"
case "$answer" in
*%{expect}*) ;;
*)
  echo "FAILED: the answer does not contain "%{expect}. >&2
  exit 1
  ;;
esac
"""

def _llm_answer_test_impl(ctx):
    script = _ANSWER.replace("%{prompt}", quoted(ctx.attr.prompt)).replace("%{expect}", quoted(ctx.attr.expect))
    return llm_program(ctx, script)

et_llm_answer_test = rule(
    implementation = _llm_answer_test_impl,
    doc = """Asks a language model's program one question; the answer must contain a text.

```starlark
et_llm_answer_test(
    name = "llama_answer_test",
    expect = "Paris",
    program = ":llama_xnnpack",
    prompt = "What is the capital of France?",
    tokenizer = ":tokenizer",
)
```
""",
    attrs = LLM_PROGRAM_ATTRIBUTES | {
        "expect": attr.string(mandatory = True, doc = "Text that the answer must contain."),
        "prompt": attr.string(mandatory = True, doc = "The question."),
    },
    test = True,
    toolchains = LLM_PROGRAM_TOOLCHAINS,
)
