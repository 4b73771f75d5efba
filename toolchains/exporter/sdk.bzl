"""Repositories with a vendor's SDK, or with the news that there is none."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["sdk.json"])

filegroup(
    name = "files",
    srcs = {srcs},
)
"""

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
        rctx.symlink(root, "sdk")

    # By names and sizes, so that the path of the SDK does not matter.
    listing = rctx.execute(["sh", "-c", "find -L . -type f -printf '%P %s\\n' | LC_ALL=C sort | sha256sum | cut -c1-64"], working_directory = "sdk") if root else None
    if listing and listing.return_code:
        fail("@%s: the SDK in %s cannot be read: %s" % (rctx.name, root, listing.stderr))
    digest = listing.stdout.strip() if listing else ""
    rctx.file("sdk.json", json.encode({"backend": rctx.attr.backend, "files_sha256": digest}) + "\n")
    rctx.file("sdk.bzl", "# Whether executorch.sdk(backend = …) was given.\nPRESENT = %s\n" % bool(root))
    rctx.file("BUILD.bazel", _BUILD.format(srcs = ["sdk"] if root else []))

sdk_repository = repository_rule(
    implementation = _sdk_repository_impl,
    doc = "Links to an SDK: `//:files`, a folder; and `sdk.bzl`, whether there is one.",
    attrs = {
        "backend": attr.string(mandatory = True, doc = "Name of the backend."),
        "path": attr.string(doc = "Folder of the SDK."),
        "top": attr.label(allow_single_file = True, doc = "Instead of path: a file in that folder."),
    },
    local = True,
)
