"""The repository that says which versions the exporter's locks shall have: `//:lock.json`."""

def _lock_repository_impl(rctx):
    rctx.file("lock.json", json.encode_indent({
        "locks": rctx.attr.locks,
        "versions": {
            "executorch": rctx.attr.executorch_version,
            "torch": rctx.attr.torch_version,
        },
    }) + "\n")
    rctx.file("BUILD.bazel", "exports_files([\"lock.json\"])\n")

lock_repository = repository_rule(
    implementation = _lock_repository_impl,
    doc = "Versions and locks of executorch.exporter(). Needs no lock, so that a program can write it.",
    attrs = {
        "executorch_version": attr.string(mandatory = True, doc = "ExecuTorch's version."),
        "locks": attr.string_list(
            mandatory = True,
            doc = "Canonical labels; strings, for the files may not be there yet.",
        ),
        "torch_version": attr.string(mandatory = True, doc = "PyTorch's version."),
    },
)
