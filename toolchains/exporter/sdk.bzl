"""Repositories with a vendor's SDK, or with the news that there is none."""

load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "find_host_python")
load("//toolchains/exporter:sdk_versions.bzl", "check_sdk")

_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["sdk.json"])

filegroup(
    name = "files",
    srcs = {srcs},
)
"""

_DIGEST = Label("//toolchains/exporter:tree_digest.py")

def _digest(rctx, root):
    """The sha256 of all files of the SDK, whose path does not matter. Bazel sees from then on what changes in it."""
    if hasattr(rctx, "watch_tree") and rctx.attr.path:
        rctx.watch_tree(root)
    rctx.report_progress("reading " + str(root))
    result = rctx.execute([find_host_python(rctx), "-I", "-B", rctx.path(_DIGEST), root], timeout = 3600)
    if result.return_code:
        fail("@%s: the SDK in %s cannot be read: %s" % (rctx.name, root, result.stderr))
    return result.stdout.strip()

def _sdk_repository_impl(rctx):
    root = None
    if rctx.attr.top:
        root = rctx.path(rctx.attr.top).dirname
    elif rctx.attr.path:
        given = rctx.attr.path
        absolute = given.startswith("/")
        root = rctx.path(given) if absolute else rctx.path(rctx.workspace_root).get_child(*given.split("/"))
    if root:
        if not root.exists or not root.is_dir:
            fail("executorch.sdk(backend = \"%s\", path = \"%s\"): folder not found." %
                 (rctx.attr.backend, root))
        check_sdk(rctx, rctx.attr.backend, root, rctx.attr.executorch_version)
        rctx.symlink(root, "sdk")

    digest = _digest(rctx, root) if root else ""
    rctx.file("sdk.json", json.encode({"backend": rctx.attr.backend, "files_sha256": digest}) + "\n")
    rctx.file("sdk.bzl", "# Whether executorch.sdk(backend = …) was given.\nPRESENT = %s\n" % bool(root))
    rctx.file("BUILD.bazel", _BUILD.format(srcs = ["sdk"] if root else []))

sdk_repository = repository_rule(
    implementation = _sdk_repository_impl,
    doc = "Links to an SDK: `//:files`, a folder; and `sdk.bzl`, whether there is one.",
    attrs = {
        "backend": attr.string(mandatory = True, doc = "Name of the backend."),
        "executorch_version": attr.string(doc = "Of the exporter, whose adaptor the SDK must fit."),
        "path": attr.string(doc = "Folder of the SDK."),
        "top": attr.label(allow_single_file = True, doc = "Instead of path: a file in that folder."),
    },
    environ = [PYTHON_VARIABLE],
    local = True,
)
