"""et_shared_data: one .ptd that many programs load."""

load("//rules:providers.bzl", "EtLoweredInfo", "EtSharedDataInfo")
load("//rules/private:link_action.bzl", "share")
load("//rules/private:target_lowering.bzl", "declare_lowering", "has_settings")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_shared_data_impl(ctx):
    file, file_manifest = _prebuilt(ctx)
    lowered = [t[EtLoweredInfo] for t in ctx.attr.lowerings]
    for info in lowered:
        if info.adapter:
            fail(("%s: lowerings: %s was lowered for any values of its adapter, so it cannot be shared. Give the " +
                  "lowering of the model without the adapter.") % (ctx.label, info.label))
    if bool(lowered) == bool(file):
        fail(("%s: got %s, expected one source of weights. Give a model and a recipe, lowerings, or a .ptd " +
              "that was built before in srcs.") %
             (ctx.label, "both a .ptd and a lowering" if file else "no source"))
    if file and (ctx.attr.exclude or ctx.attr.shared_data):
        fail("%s: exclude and shared_data do not apply to a .ptd that was built before. Remove them." % ctx.label)
    data = ctx.actions.declare_file(ctx.label.name + ".ptd")
    manifest = ctx.actions.declare_file(ctx.label.name + ".manifest.json")
    beside = [t[EtSharedDataInfo] for t in ctx.attr.shared_data]
    share(
        ctx,
        lowered = [info.directory for info in lowered],
        exclude = ctx.attr.exclude,
        beside = [info.manifest for info in beside],
        file = file,
        file_manifest = file_manifest,
        data = data,
        manifest = manifest,
    )
    return [
        DefaultInfo(
            files = depset([data, manifest]),
            runfiles = ctx.runfiles([data, manifest]),
        ),
        OutputGroupInfo(
            data = depset([data]),
            manifest = depset([manifest]),
            lowered = depset([info.directory for info in lowered]),
        ),
        EtSharedDataInfo(label = ctx.label, data = data, manifest = manifest, lowered = lowered),
    ]

def _prebuilt(ctx):
    """The .ptd of srcs and its manifest, or None."""
    data = [f for f in ctx.files.srcs if f.extension == "ptd"]
    manifest = [f for f in ctx.files.srcs if f.extension == "json"]
    if ctx.files.srcs and len(data) != 1 or len(manifest) > 1:
        fail("%s: srcs: got %s, expected one .ptd and its manifest (.json)." %
             (ctx.label, ", ".join([f.basename for f in ctx.files.srcs])))
    return (data[0] if data else None), (manifest[0] if manifest else None)

et_shared_data_rule = rule(
    implementation = _et_shared_data_impl,
    doc = "The file alone. `et_shared_data` declares it and its lowering, and its doc describes both.",
    attrs = {
        "exclude": attr.string_list(
            doc = "Qualified names, or patterns (\"layers.*.mask\"), of weights to omit.",
        ),
        "lowerings": attr.label_list(
            cfg = "exec",
            providers = [EtLoweredInfo],
            doc = "Lowered programs (et_lowering, et_program); the file contains the union of their " +
                  "weights.",
        ),
        "shared_data": attr.label_list(
            providers = [EtSharedDataInfo],
            doc = "Files that programs load beside this one. It omits their contents, because a runtime " +
                  "refuses duplicate keys.",
        ),
        "srcs": attr.label_list(
            allow_files = [".ptd", ".json"],
            doc = "An existing .ptd, such as that of a release, and its manifest, instead of a lowering. " +
                  "The build checks the bytes against the manifest.",
        ),
    },
    provides = [EtSharedDataInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)

def et_shared_data(*, name, lowerings = [], **kwargs):
    """Weights in one `.ptd` that many programs load.

    ```starlark
    et_shared_data(
        name = "foundation",
        model = ":llama",
        recipe = "//backends/xnnpack:int8_dynamic_act_int4_weight",
    )
    ```

    Outputs: `<name>.ptd`, with sorted keys, and `<name>.manifest.json`: for each key its sha256, size,
    dtype, shape and the qualified names of the weights that use it.

    It contains all weights of its sources: delegates' data under the backends' keys (XNNPACK and Vulkan: the
    sha256 of the bytes), portable constants under their qualified names. Programs that list it in `shared_data`
    omit its contents. It takes `model`, `recipe`, `methods`, `quantize`, `trained_checkpoint` and `calibration` as
    et_lowering does. A program of the same model and recipe reuses its lowering.

    Args:
      name: of the file.
      lowerings: labels of lowered programs (et_lowering, et_program), instead of model and recipe or beside
        them; the file contains the union of their weights.
      **kwargs: the settings of et_lowering, such as `model` and `recipe`; the attributes of the rule, in the table
        below; and those of all rules.
    """
    own = [declare_lowering(name, kwargs)] if has_settings(kwargs) else []
    et_shared_data_rule(name = name, lowerings = lowerings + own, **kwargs)
