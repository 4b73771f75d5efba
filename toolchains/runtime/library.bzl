"""et_runtime_library: one library of an ExecuTorch runtime, and what it registers."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/runtime:providers.bzl", "EtRuntimeLibraryInfo")
load("//toolchains/runtime:registered.bzl", "read_registered")

def _et_runtime_library_impl(ctx):
    static = ctx.file.library.extension in ("a", "lo", "o")
    if static and ctx.attr.folder:
        fail("%s: %s is static and becomes part of the binary. Remove folder = \"%s\"." %
             (ctx.label, ctx.file.library.basename, ctx.attr.folder))
    deps = [d[EtRuntimeLibraryInfo] for d in ctx.attr.deps]
    info = EtRuntimeLibraryInfo(
        label = ctx.label,
        file = ctx.file.library,
        folder = "" if static else ctx.attr.folder or "lib",
        resources = ctx.files.resources,
        backends = ctx.attr.backends,
        registered = read_registered(
            ctx,
            label = ctx.label,
            name = ctx.label.name,
            files = [ctx.file.library],
            backends = ctx.attr.backends,
        ),
        deps = depset(deps, transitive = [d.deps for d in deps], order = "topological"),
        purl = ctx.attr.purl,
        license = ctx.attr.license,
    )
    return [info, DefaultInfo(files = depset([ctx.file.library]))]

et_runtime_library = rule(
    implementation = _et_runtime_library_impl,
    doc = """A library of an ExecuTorch runtime. The build reads the operators that it registers from the file.

```starlark
et_runtime_library(
    name = "backend_xnnpack",
    backends = ["XnnpackBackend"],
    library = "lib/libexecutorch_backend_xnnpack.so",
    deps = [":threadpool"],
)
```
""",
    attrs = {
        "backends": attr.string_list(
            doc = "Names under which it registers backends. Checked against the file.",
        ),
        "deps": attr.label_list(
            providers = [EtRuntimeLibraryInfo],
            doc = "Libraries that it needs.",
        ),
        "library": attr.label(
            allow_single_file = True,
            mandatory = True,
            doc = "A .so, .dylib or .a file, or the binary of a framework.",
        ),
        "license": attr.string(
            doc = "SPDX expression of that package's license, e.g. \"BSD-3-Clause\".",
        ),
        "folder": attr.string(
            doc = "Folder of an app that a shared library goes to; default: \"lib\".",
        ),
        "purl": attr.string(
            doc = "Package that it comes from, for SBOMs, as a package URL: \"pkg:pypi/executorch@1.5.1\".",
        ),
        "resources": attr.label_list(
            allow_files = True,
            doc = "Files that go to the same folder, e.g. the rest of a framework.",
        ),
    },
    provides = [EtRuntimeLibraryInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)
