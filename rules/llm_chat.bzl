"""llm_chat: a conversation with a language model's program on this machine."""

load("//rules/private:llm_program.bzl", "LLM_PROGRAM_ATTRIBUTES", "llm_program")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _llm_chat_impl(ctx):
    return llm_program(ctx, "etllm.chat", [])

llm_chat = rule(
    implementation = _llm_chat_impl,
    doc = """A program to `bazel run`: answers a prompt, prints tokens as they come and their speed.

```starlark
llm_chat(name = "llama_chat", program = ":llama_xnnpack", tokenizer = ":tokenizer")
```

`bazel run :llama_chat -- "What is the capital of France?"`
""",
    attrs = LLM_PROGRAM_ATTRIBUTES,
    executable = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)
