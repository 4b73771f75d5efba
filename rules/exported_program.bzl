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
    """A model that is exported once, for all programs that use it.

    It replaces the `et_model` in programs:

    ```starlark
    et_exported_program(name = "net_exported", model = ":net")
    et_program(name = "net_xnnpack", model = ":net_exported", recipe = "//backends/xnnpack:fp32")
    et_program(name = "net_portable", model = ":net_exported", recipe = "//backends/portable:fp32")
    ```

    Changing a recipe then neither loads the checkpoint nor exports again. Editing the model's code lowers
    nothing if the exported methods stay the same, as after editing a comment. The programs have the same bytes
    as those of the `et_model`.

    Output: a directory with a .pt2 file per method, constant methods, test inputs and calibration inputs. Tests
    and companions of programs still compare with the eager model.

    Recipes that quantize layers of the eager model (torchao) need the `et_model`, and so do models whose code
    registers operators. Other combinations fail with a message that says so.

    Args:
      name: of the exported model.
      model: label of the et_model.
      methods: methods of the model to export; default: all.
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
