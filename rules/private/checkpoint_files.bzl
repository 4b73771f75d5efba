"""checkpoint_files: what a lowering reads of a checkpoint."""

# Editing these re-lowers nothing.
_OF_TOKENIZERS = [
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
]

def _checkpoint_files_impl(ctx):
    files = [file for file in ctx.files.srcs if file.basename not in _OF_TOKENIZERS]
    if not files:
        fail("%s: checkpoint: got no file that a model could be read from, expected weights and config.json, a GGUF file, or params.json." %
             ctx.label)
    return [DefaultInfo(files = depset(files))]

checkpoint_files = rule(
    implementation = _checkpoint_files_impl,
    doc = "The files of a checkpoint without those of its tokenizer. In a rule, as macros cannot look into select().",
    attrs = {"srcs": attr.label_list(allow_files = True, mandatory = True)},
)
