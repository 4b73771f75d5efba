"""kernels_aspect: what the libraries of an app's own operators register."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/runtime:registered.bzl", "read_registered")

KernelsInfo = provider(
    doc = "A cc_library with operators.",
    fields = {
        "files": "List of Files: its objects and archives, and those of what it depends on, the runtime's aside.",
        "linked_whole": "Bool: whether a part of it is linked although nothing calls it (alwayslink).",
        "registered": "File: the operators that it registers (JSON).",
    },
)

def _kernels_aspect_impl(target, ctx):
    files = []
    linked_whole = False
    for linked in target[CcInfo].linking_context.linker_inputs.to_list():
        for library in linked.libraries:
            static = library.pic_static_library or library.static_library
            file = static or library.dynamic_library
            if file:
                files.append(file)
                linked_whole = linked_whole or library.alwayslink or not static
    registered = read_registered(ctx, label = target.label, name = target.label.name, files = files, backends = [])
    return [KernelsInfo(files = files, linked_whole = linked_whole, registered = registered)]

kernels_aspect = aspect(
    implementation = _kernels_aspect_impl,
    doc = "Reads what a cc_library registers, once for all apps.",
    required_providers = [CcInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)

def check_kernels(label, kernels):
    """Fails where an app's linker would drop what registers operators.

    Args:
      label: Label of the app.
      kernels: list of targets with KernelsInfo.
    """
    for kernel in kernels:
        info = kernel[KernelsInfo]
        if info.files and not info.linked_whole:
            fail(("%s: kernels: %s: got alwayslink = False, expected alwayslink = True. Nothing calls what registers " +
                  "operators, so linkers drop it. Set alwayslink = True on the cc_library.") % (label, kernel.label))
