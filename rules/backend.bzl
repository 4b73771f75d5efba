"""et_backend: what programs delegate to."""

load("//rules:providers.bzl", "EtBackendInfo", "EtPackagesInfo")

def _et_backend_impl(ctx):
    return [EtBackendInfo(
        label = ctx.label,
        id = ctx.attr.id,
        device_files = ctx.attr.device_files,
        packages = [target[EtPackagesInfo] for target in ctx.attr.packages],
        emulator = [target[EtPackagesInfo] for target in ctx.attr.emulator],
        is_emulated = ctx.attr.is_emulated,
        not_emulated = ctx.attr.not_emulated,
    )]

et_backend_rule = rule(
    implementation = _et_backend_impl,
    doc = "A backend alone. `et_backend` declares it.",
    attrs = {
        "device_files": attr.string_list(
            doc = "Files that the backend opens on a device, and that neither an app nor its runtime has: those of a " +
                  "vendor's driver. Reports of apps list them.",
        ),
        "emulator": attr.label_list(
            providers = [EtPackagesInfo],
            doc = "The et_packages that run the backend's programs on the machine that builds, in place of the " +
                  "device: in tests, chats, evaluations and benchmarks, and nowhere else. Bazel fetches them only for " +
                  "those. Default: `packages`.",
        ),
        "id": attr.string(
            doc = "Name in the runtime's registry; empty for ExecuTorch's own kernels.",
        ),
        "is_emulated": attr.bool(doc = "True: it has an emulator. `et_backend` sets it."),
        "not_emulated": attr.string(
            doc = "Name of what methods of one program share on the device, and what runs programs here refuses: \"shared " +
                  "weights\". Tests, chats, evaluations and benchmarks then run a twin: a program of several methods is " +
                  "lowered once more, with `RecipeContext.emulated`, and recipes leave that out. Logs say so.",
        ),
        "packages": attr.label_list(
            providers = [EtPackagesInfo],
            doc = "et_packages targets that lowering for the backend needs. Bazel fetches them only if it " +
                  "lowers a program for the backend.",
        ),
    },
    provides = [EtBackendInfo],
)

def et_backend(name, emulator = [], not_emulated = "", **kwargs):
    """A backend, with the name under which runtimes register it.

    ```starlark
    et_backend(name = "xnnpack", id = "XnnpackBackend")
    et_backend(name = "npu", id = "OurNpuBackend", packages = [":npu_compiler"], emulator = [":npu_simulator"])
    ```

    Args:
      name: of the target.
      emulator: the et_packages that run the backend's programs on the machine that builds, in place of the device.
        Only what runs programs depends on them.
      not_emulated: what methods share on the device, and what runs programs here refuses; see the table.
      **kwargs: the attributes of the rule, in the table below, and those of all rules.
    """
    et_backend_rule(
        name = name,
        is_emulated = type(emulator) != "list" or bool(emulator),
        not_emulated = select({
            Label("//toolchains/runner:emulating_is_on"): not_emulated,
            "//conditions:default": "",
        }) if not_emulated else "",
        emulator = select({
            Label("//toolchains/runner:emulating_is_on"): emulator,
            "//conditions:default": [],
        }) if type(emulator) == "list" and emulator else emulator,
        **kwargs
    )
