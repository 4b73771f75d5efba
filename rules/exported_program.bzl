"""et_exported_program: a model, exported once for many recipes."""

load("//rules:providers.bzl", "EtModelInfo")
load("//rules/private:exporter_action.bzl", "LOWERING_FLAG", "exporter_action")
load("//rules/private:lowerable.bzl", "LowerableInfo", "model_info")
load("//rules/private:target_lowering.bzl", "for_exec")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "first_repeated")

def _target_export_impl(ctx):
    label = ctx.label.same_package_label(ctx.attr.of)
    model = ctx.attr.model[EtModelInfo].lowerable
    if model.programs:
        fail("%s: model: %s is exported already (et_exported_program). Give the et_model %s, or use that export." %
             (label, model.label, model.original.label))
    if model.exported:
        fail(("%s: model: %s consists of .pt2 files (%s), so there is nothing to export. Use it in programs " +
              "directly.") % (label, model.label, model.exported[0].file.basename))
    methods = ctx.attr.methods
    repeated = first_repeated(methods)
    if repeated:
        fail("%s: methods lists \"%s\" twice. Remove one of them." % (label, repeated))
    directory = ctx.actions.declare_directory(label.name + ".exported")
    exporter_action(
        ctx,
        command = "export",
        label = label,
        model = model,
        recipe = None,
        methods = methods,
        output = directory,
        mnemonic = "EtExport",
        progress_message = "Exporting %{label}",
    )
    return [
        DefaultInfo(files = depset([directory])),
        model_info(LowerableInfo(
            label = label,
            programs = directory,
            original = model,
            expected = model.expected,
            methods = methods,
            packages = model.packages,
            memory_mb = model.memory_mb,
        )),
    ]

_target_export = rule(
    implementation = _target_export_impl,
    attrs = LOWERING_FLAG | {
        "methods": attr.string_list(),
        "model": attr.label(mandatory = True, providers = [EtModelInfo]),
        "of": attr.string(mandatory = True, doc = "Name of the target that the export is of, for messages."),
    },
    provides = [EtModelInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)

def _et_exported_program_impl(ctx):
    model = ctx.attr.export[EtModelInfo]
    return [DefaultInfo(files = model.files), model]

et_exported_program_rule = rule(
    implementation = _et_exported_program_impl,
    doc = "An exported model, in the configuration of tools. `et_exported_program` declares it, and its doc describes it.",
    attrs = {
        "export": attr.label(
            # As lowerings are: target_lowering.bzl says why.
            cfg = "exec",
            doc = "Set by the macro.",
            mandatory = True,
            providers = [EtModelInfo],
        ),
    },
    provides = [EtModelInfo],
)

def et_exported_program(*, name, model, methods = None, **kwargs):
    """A model that `torch.export` has run on, once for all programs that use it.

    It replaces the `et_model` in programs:

    ```starlark
    et_exported_program(name = "net_exported", model = ":net")
    et_program(name = "net_xnnpack", model = ":net_exported", recipe = "//backends/xnnpack:fp32")
    et_program(name = "net_portable", model = ":net_exported", recipe = "//backends/portable:fp32")
    ```

    A changed recipe then neither loads the checkpoint nor exports again, and a change of the model's code
    that leaves the exported methods as they are (a comment, for example) lowers nothing. The programs are
    those of the model itself, byte for byte.

    Output: a directory with a .pt2 file a method, the model's constant methods, test inputs and
    calibration inputs. Tests and companions of programs compare with the eager model.

    Recipes that quantize the layers of an eager model (torchao) take the `et_model`; so do models with
    operators that their own code registers. A lowering with what doesn't fit fails and says so.

    Args:
      name: of the exported model.
      model: label of the et_model.
      methods: the model's methods that are exported; default: all.
      **kwargs: the attributes of all rules.
    """
    _target_export(
        name = name + ".export",
        methods = methods,
        model = model,
        of = name,
        **for_exec(kwargs)
    )
    et_exported_program_rule(name = name, export = ":%s.export" % name, **kwargs)
