"""et_sensitivity: what the quantization of each layer of a model costs."""

load("//rules:providers.bzl", "EtModelInfo", "EtRecipeInfo")
load("//rules/private:exporter_action.bzl", "LOWERING_FLAG")
load("//rules/tuning/private:choices.bzl", "check_choices", "combined")
load("//rules/tuning/private:sensitivity_action.bzl", "MeasuredInfo", "sensitivity", "sensitivity_page")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:packages.bzl", "CLI_TOOLCHAIN")

def _et_sensitivity_impl(ctx):
    infos = [recipe[EtRecipeInfo] for recipe in ctx.attr.recipes]
    check_choices(ctx.label, infos)
    measured = ctx.actions.declare_file(ctx.label.name + ".json")
    page = ctx.actions.declare_file(ctx.label.name + ".html")
    is_text = bool(ctx.file.data) and ctx.file.data.extension == "txt"
    sensitivity(
        ctx,
        label = ctx.label,
        model = ctx.attr.model[EtModelInfo].lowerable,
        recipe = combined(ctx.label, infos) if len(infos) > 1 else infos[0],
        methods = ctx.attr.methods,
        calibration = ctx.file.calibration,
        output = measured,
        measured_with = struct(
            inputs = None if is_text else ctx.file.data,
            text = ctx.file.data if is_text else None,
            tokens = ctx.attr.tokens,
            tokenizer = ctx.files._tokenizer if is_text else [],
            packages = [ctx.toolchains[CLI_TOOLCHAIN].packages] if is_text else [],
        ),
    )
    sensitivity_page(ctx, measured = measured, page = page)
    return [
        DefaultInfo(files = depset([measured, page])),
        MeasuredInfo(is_text = is_text, sensitivity = measured),
    ]

et_sensitivity = rule(
    implementation = _et_sensitivity_impl,
    doc = """Measures what the quantization of each layer of a model costs. It lowers nothing.

```starlark
et_sensitivity(
    name = "layers",
    model = ":net",
    recipes = ["@rules_executorch//backends/xnnpack:int8_dynamic_act_int4_weight"],
)
```

The action EtSensitivity quantizes each layer alone in the eager model, and all layers but that one. With several
recipes, it then measures up to 64 mixtures of them, from the most exact to the smallest; with one, mixtures of it and
the float layers.

Outputs: the page `<name>.html`, and `<name>.json`, one object. A ratio that is `null` has no noise.

| member | contents |
|---|---|
| `recipes`, `samples`, `text`, `tokens` | the choices for a layer, and what they were measured with |
| `float` | `bytes` of the parameters, and the `perplexity` of the model as it is |
| `all` | for each recipe, with all layers quantized: `bytes`, `sqnr_db`, `perplexity` |
| `layers`, `blocks` | `names`, `kind`, `bytes`, and for each recipe: `bytes`, and `sqnr_db` and `perplexity` of `only` this layer and of `all_but` this one |
| `front` | mixtures, the most exact first: `bytes`, `sqnr_db`, `perplexity`, and `layers`: the number of each layer's recipe |
""",
    attrs = LOWERING_FLAG | {
        "calibration": attr.label(
            allow_single_file = [".safetensors"],
            doc = "Inputs for static quantization, as `calibration` of et_lowering takes them; default: the model's.",
        ),
        "data": attr.label(
            allow_single_file = [".safetensors", ".txt"],
            doc = "Data to measure with: a .safetensors file with inputs in the form of `calibration`, or a text " +
                  "(.txt) for a language model whose files have a tokenizer. Default: the model's calibration " +
                  "inputs, or its example and test inputs.",
        ),
        "methods": attr.string_list(doc = "Methods of the model to measure; default: all."),
        "model": attr.label(mandatory = True, providers = [EtModelInfo], doc = "The et_model."),
        "recipes": attr.label_list(
            allow_empty = False,
            mandatory = True,
            providers = [EtRecipeInfo],
            doc = "Recipes of the same backends. One alone is compared with the float model.",
        ),
        "tokens": attr.int(default = 256, doc = "Number of the text's tokens to read."),
        "_tokenizer": attr.label(default = "//tools/etllm/tokenizer:files"),
    },
    toolchains = [
        CLI_TOOLCHAIN,
        EXPORTER_TOOLCHAIN,
    ],
)
