"""text_files: a repository of given texts, such as what tags of the module extension say."""

def _text_files_impl(rctx):
    for path, text in rctx.attr.files.items():
        rctx.file(path, text, executable = False)
    if "BUILD.bazel" not in rctx.attr.files:
        rctx.file("BUILD.bazel", "exports_files(%r)\n" % sorted(rctx.attr.files), executable = False)

text_files = repository_rule(
    implementation = _text_files_impl,
    doc = "Texts as files.",
    attrs = {
        "files": attr.string_dict(
            doc = "Path in the repository to text. Without BUILD.bazel, each is a target.",
            mandatory = True,
        ),
    },
)
