"""The variants of one language model whose speed is compared."""

load("@bazel_skylib//rules:write_file.bzl", "write_file")
load("//rules/llm:defs.bzl", "et_llm")

CONTEXTS = [
    512,
    2048,
    8192,
]

# Upstream's program at a context of 8,192 takes more than ten minutes to lower.
EXPORT_LLM_CONTEXTS = [
    512,
    2048,
]

# Keys of the YAML file, by variant. The first one is the default of et_llm; upstream's own program
# has the keys that upstream recommends for XNNPACK.
_PLAIN = {"embedding_quantize": "8,32", "use_sdpa_with_kv_cache": "false"}
VARIANTS = {
    "plain": _PLAIN,
    "embedding_4": _PLAIN | {"embedding_quantize": "4,32"},
}
_EXPORT_LLM = {"export_llm": _PLAIN | {"use_sdpa_with_kv_cache": "true"}}

_YAML = """\
base:
  model_class: smollm2

model:
  use_kv_cache: true
  use_sdpa_with_kv_cache: {use_sdpa_with_kv_cache}

export:
  max_seq_length: 128
  max_context_length: {context}

quantization:
  qmode: 8da4w
  group_size: 32
  use_hqq: false
  embedding_quantize: {embedding_quantize}

backend:
  xnnpack:
    enabled: true
    extended_ops: true
"""

def speed_programs(name, checkpoint):
    """A program of each variant and context.

    Args:
      name: of the filegroup of all programs and their YAML files; programs are called
        `<name>_<variant>_<context>_xnnpack`, upstream's file `<name>_export_llm_<context>.yaml`.
      checkpoint: as et_llm takes it.
    """
    programs = []
    for variant, keys in (VARIANTS | _EXPORT_LLM).items():
        for context in CONTEXTS:
            one = "%s_%s_%d" % (name, variant, context)
            write_file(
                name = one + "_config",
                testonly = True,
                out = one + ".yaml",
                content = _YAML.format(context = context, **keys).split("\n"),
                tags = ["manual"],
            )
            if variant in _EXPORT_LLM:
                continue
            et_llm(
                name = one,
                testonly = True,
                app = False,
                checkpoint = checkpoint,
                config = one + ".yaml",
                memory_mb = 8000,
                tags = ["manual"],
            )
            programs += [one + "_xnnpack", one + ".yaml"]
    native.filegroup(
        name = name,
        testonly = True,
        srcs = programs,
        tags = ["manual"],
    )
