"""et_tuned_recipe: a recipe for each layer of a model, within a budget of bytes or of exactness."""

load("//rules:providers.bzl", "EtModelInfo", "EtRecipeInfo")
load("//rules/private:amounts.bzl", "check_bytes", "check_number", "number_of")
load("//rules/private:exporter_action.bzl", "LOWERING_FLAG")
load("//rules/private:target_lowering.bzl", "for_exec")
load("//rules/tuning/private:sensitivity_action.bzl", "sensitivity", "sensitivity_page")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/exporter:packages.bzl", "CLI_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "readable_label", "runfiles_path", "unique")

_BOUNDS = ("max_bytes", "min_sqnr_db", "max_perplexity")

_MeasuredInfo = provider(
    doc = "What the layers of a model cost.",
    fields = {
        "is_text": "Bool: whether they were measured with a text.",
        "sensitivity": "File: JSON.",
    },
)

def _ids(info):
    return sorted([backend.id for backend in info.backends.to_list()])

def _check_choices(label, infos):
    if len(infos) < 2:
        fail("%s: choices: got %d recipes, expected at least two." % (label, len(infos)))
    for info in infos[1:]:
        if _ids(info) != _ids(infos[0]):
            fail(("%s: choices: got %s of the backends %s and %s of %s, expected recipes of the same backends. " +
                  "Layers of one program can have other precisions, but not other backends.") %
                 (
                     label,
                     readable_label(infos[0].label),
                     ", ".join(_ids(infos[0])) or "none",
                     readable_label(info.label),
                     ", ".join(_ids(info)) or "none",
                 ))

def _combined(label, infos, chosen = None):
    """A recipe of choices; without `chosen` one that can only be measured."""
    return EtRecipeInfo(
        label = label,
        backends = infos[0].backends,
        option_types = {},
        sources = depset(transitive = [info.sources for info in infos]),
        roots = unique([root for info in infos for root in info.roots]),
        data = depset([chosen] if chosen else [], transitive = [info.data for info in infos]),
        tree = struct(
            label = readable_label(label),
            choices = [info.tree for info in infos],
            chosen = runfiles_path(chosen) if chosen else "",
        ),
        lowering = "stock" if "stock" in [info.lowering for info in infos] else "fast",
    )

def _measured_choices_impl(ctx):
    label = ctx.label.same_package_label(ctx.attr.of)
    model = ctx.attr.model[EtModelInfo].lowerable
    output = ctx.actions.declare_file(ctx.attr.of + ".sensitivity.json")
    is_text = bool(ctx.file.data) and ctx.file.data.extension == "txt"
    sensitivity(
        ctx,
        label = label,
        model = model,
        recipe = _combined(label, [choice[EtRecipeInfo] for choice in ctx.attr.choices]),
        output = output,
        measured_with = struct(
            inputs = None if is_text else ctx.file.data,
            text = ctx.file.data if is_text else None,
            tokens = ctx.attr.tokens,
            tokenizer = ctx.files._tokenizer if is_text else [],
            packages = [ctx.toolchains[CLI_TOOLCHAIN].packages] if is_text else [],
        ),
    )
    return [
        DefaultInfo(files = depset([output])),
        _MeasuredInfo(is_text = is_text, sensitivity = output),
    ]

_measured_choices = rule(
    implementation = _measured_choices_impl,
    doc = "What the layers of a model cost with each of several recipes. `et_tuned_recipe` declares it.",
    attrs = LOWERING_FLAG | {
        "choices": attr.label_list(allow_empty = False, providers = [EtRecipeInfo], doc = "The recipes."),
        "data": attr.label(allow_single_file = [".safetensors", ".txt"], doc = "What to measure with."),
        "model": attr.label(mandatory = True, providers = [EtModelInfo], doc = "The et_model."),
        "of": attr.string(mandatory = True, doc = "Name of the recipe, for messages."),
        "tokens": attr.int(default = 256, doc = "Number of the text's tokens to read."),
        "_tokenizer": attr.label(default = "//tools/etllm/tokenizer:files"),
    },
    toolchains = [
        CLI_TOOLCHAIN,
        EXPORTER_TOOLCHAIN,
    ],
)

def _bound(ctx):
    """Name and value of the bound, checked."""
    given = [name for name in _BOUNDS if getattr(ctx.attr, name)]
    if len(given) != 1:
        fail("%s: got %s, expected one of max_bytes, min_sqnr_db and max_perplexity." %
             (ctx.label, " and ".join(given) or "no bound"))
    name = given[0]
    value = getattr(ctx.attr, name)
    if name == "max_bytes":
        check_bytes(ctx.label, name, value)
    elif name == "min_sqnr_db":
        check_number(ctx.label, name, value)
    else:
        number = number_of(value.removesuffix("x"))
        if number == None or number <= 0:
            fail("%s: max_perplexity: got \"%s\", expected a number such as \"12.5\", or \"1.02x\": that many " %
                 (ctx.label, value) + "times the float model's.")
        if not ctx.attr.measured[_MeasuredInfo].is_text:
            fail("%s: max_perplexity: got no text to predict, expected a .txt file. Give data = \"text.txt\"." %
                 ctx.label)
    return name, value

def _et_tuned_recipe_impl(ctx):
    name, value = _bound(ctx)
    infos = [choice[EtRecipeInfo] for choice in ctx.attr.choices]
    _check_choices(ctx.label, infos)
    measured = ctx.attr.measured[_MeasuredInfo].sensitivity
    chosen = ctx.actions.declare_file(ctx.label.name + ".chosen.json")
    args = ctx.actions.args()
    args.add("--label", readable_label(ctx.label))
    args.add("--sensitivity", measured)
    args.add("--output", chosen)
    args.add("--" + name, value)
    linker_action(
        ctx,
        module = "ettune.choose",
        arguments = args,
        inputs = [measured],
        outputs = [chosen],
        mnemonic = "EtChoose",
        progress_message = "Choosing recipes for the layers of %{label}",
    )
    page = ctx.actions.declare_file(ctx.label.name + ".sensitivity.html")
    sensitivity_page(ctx, measured = measured, page = page, choice = chosen)
    return [
        DefaultInfo(files = depset([chosen])),
        OutputGroupInfo(
            chosen = depset([chosen]),
            sensitivity = depset([measured, page]),
        ),
        _combined(ctx.label, infos, chosen),
    ]

et_tuned_recipe_rule = rule(
    implementation = _et_tuned_recipe_impl,
    doc = "A tuned recipe. `et_tuned_recipe` declares it and its measurement, and its doc describes both.",
    attrs = {
        "choices": attr.label_list(
            allow_empty = False,
            providers = [EtRecipeInfo],
            doc = "Recipes of the same backends, at least two. The first one is also for what is no layer with " +
                  "weights. fp32 leaves layers as they are.",
        ),
        "max_bytes": attr.string(
            doc = "Maximum bytes of the model's parameters (\"80 MB\"). The choice is the most exact mixture. " +
                  "Buffers, tables and alignment come on top in the file.",
        ),
        "max_perplexity": attr.string(
            doc = "Maximum perplexity of the text: a number, or \"1.02x\", that many times the float model's. " +
                  "The choice is the smallest mixture.",
        ),
        "measured": attr.label(
            cfg = "exec",
            doc = "Set by the macro.",
            mandatory = True,
            providers = [_MeasuredInfo],
        ),
        "min_sqnr_db": attr.string(
            doc = "Minimum signal-to-quantization-noise ratio in dB of each output (\"25\"). The choice is the " +
                  "smallest mixture.",
        ),
    },
    provides = [EtRecipeInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)

def et_tuned_recipe(*, name, model, choices, data = None, tokens = None, **kwargs):
    """A recipe that chooses one of several recipes for each layer of a model, within a bound.

    ```starlark
    et_tuned_recipe(
        name = "tuned",
        model = ":net",
        choices = [
            "@rules_executorch//backends/xnnpack:fp32",
            "@rules_executorch//backends/xnnpack:int8_dynamic_per_channel",
            "@rules_executorch//backends/xnnpack:int8_dynamic_act_int4_weight",
        ],
        max_bytes = "20 MB",
    )

    et_program(name = "net_tuned", model = ":net", recipe = ":tuned")
    ```

    The action EtSensitivity quantizes each layer alone in the eager model, without lowering anything. It then
    measures up to 64 mixtures of the recipes, from the most exact to the smallest. EtChoose takes one of these, so
    another bound measures nothing again. A bound that no mixture keeps is an error that names the nearest one.

    Outputs: `<name>.chosen.json`, the number of each layer's recipe. Output group: `sensitivity` (JSON and a page:
    layers, and all mixtures with the chosen one).

    Args:
      name: of the recipe.
      model: label of the et_model, of code.
      choices: recipes of the same backends, at least two. The first one is also for what is no layer with weights.
      data: what to measure with: a .safetensors file with inputs, as `calibration` of et_program takes it, or a
        text (.txt) for a language model whose files have a tokenizer. Default: the model's calibration inputs, or
        its example and test inputs.
      tokens: number of the text's tokens to read; default: 256.
      **kwargs: the attributes of the rule, in the table below, and those of all rules.
    """
    measured = {"data": data, "tokens": tokens}
    _measured_choices(
        name = name + ".measured",
        choices = choices,
        model = model,
        of = name,
        **(for_exec(kwargs) | {key: value for key, value in measured.items() if value != None})
    )
    et_tuned_recipe_rule(
        name = name,
        choices = choices,
        measured = ":%s.measured" % name,
        **kwargs
    )
