"""checkpoint_files: what a lowering reads of a checkpoint."""

load("//toolchains/huggingface:tokenizer_files.bzl", "TOKENIZER_FILES")

def _checkpoint_files_impl(ctx):
    # Editing a tokenizer re-lowers nothing.
    files = [file for file in ctx.files.srcs if file.basename not in TOKENIZER_FILES]
    if not files:
        fail("%s: checkpoint: got no file that a model could be read from, expected weights and config.json, a GGUF file, or params.json." %
             ctx.label)
    return [DefaultInfo(files = depset(files))]

checkpoint_files = rule(
    implementation = _checkpoint_files_impl,
    doc = "The files of a checkpoint without those of its tokenizer. In a rule, as macros cannot look into select().",
    attrs = {"srcs": attr.label_list(allow_files = True, mandatory = True)},
)
