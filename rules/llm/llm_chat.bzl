"""et_llm_chat: a conversation with a language model's program on this machine."""

load("//rules/llm/private:llm_program.bzl", "LLM_PROGRAM_ATTRIBUTES", "LLM_PROGRAM_TOOLCHAINS", "llm_program")

# A first argument that is not an option is the prompt; without a prompt it is a conversation.
_CHAT = """case "${1:--}" in
-*)
  mode=--chat
  for word; do
    case "$word" in --prompt | --prompt=* | --chat | --help | --list) mode= ;; esac
  done
  ;;
*)
  mode=--prompt
  ;;
esac
exec %{command} $mode "$@"
"""

def _llm_chat_impl(ctx):
    return llm_program(ctx, _CHAT)

et_llm_chat = rule(
    implementation = _llm_chat_impl,
    doc = """A chat for `bazel run`: answers a prompt, and prints tokens as they come and their speed.

```starlark
et_llm_chat(name = "llama_chat", program = ":llama_xnnpack", tokenizer = ":tokenizer")
```

`bazel run :llama_chat -- "What is the capital of France?"`, or without a prompt for a conversation.
It is the runner, `//tools/runner`, and takes its options after the prompt.
""",
    attrs = LLM_PROGRAM_ATTRIBUTES,
    executable = True,
    toolchains = LLM_PROGRAM_TOOLCHAINS,
)
