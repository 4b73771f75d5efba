"""et_tuned_recipe: a recipe for each layer of a model, within a budget of bytes or of exactness."""

load("//rules:providers.bzl", "EtRecipeInfo")
load("//rules/private:amounts.bzl", "check_bytes", "check_number", "number_of")
load("//rules/private:target_lowering.bzl", "for_exec")
load("//rules/tuning:sensitivity.bzl", "et_sensitivity")
load("//rules/tuning/private:choices.bzl", "combined")
load("//rules/tuning/private:sensitivity_action.bzl", "MeasuredInfo", "sensitivity_page")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/python:paths.bzl", "readable_label")

_BOUNDS = ("max_bytes", "min_sqnr_db", "max_perplexity")

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
        if not ctx.attr.sensitivity[MeasuredInfo].is_text:
            fail("%s: max_perplexity: got no text to predict, expected a .txt file. Give data = \"text.txt\"." %
                 ctx.label)
    return name, value

def _et_tuned_recipe_impl(ctx):
    name, value = _bound(ctx)
    infos = [choice[EtRecipeInfo] for choice in ctx.attr.choices]
    if len(infos) < 2:
        fail("%s: choices: got %d recipes, expected at least two." % (ctx.label, len(infos)))
    measured = ctx.attr.sensitivity[MeasuredInfo].sensitivity
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
    page = ctx.actions.declare_file(ctx.label.name + ".html")
    sensitivity_page(ctx, measured = measured, page = page, choice = chosen)
    return [
        DefaultInfo(files = depset([chosen])),
        OutputGroupInfo(
            chosen = depset([chosen]),
            sensitivity = depset([measured, page]),
        ),
        combined(ctx.label, infos, chosen),
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
        "min_sqnr_db": attr.string(
            doc = "Minimum signal-to-quantization-noise ratio in dB of each output (\"25\"). The choice is the " +
                  "smallest mixture.",
        ),
        "sensitivity": attr.label(
            cfg = "exec",
            doc = "Set by the macro.",
            mandatory = True,
            providers = [MeasuredInfo],
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

    The et_sensitivity `<name>.sensitivity` measures mixtures of the recipes. EtChoose takes one of these, so another
    bound measures nothing again. A bound that no mixture keeps is an error that names the nearest one.

    Outputs: `<name>.chosen.json`, the number of each layer's recipe. Output group: `sensitivity` (JSON and a page:
    layers, and all mixtures with the chosen one).

    Args:
      name: of the recipe.
      model: label of the et_model, of code.
      choices: recipes of the same backends, at least two. The first one is also for what is no layer with weights.
      data: what to measure with, as in et_sensitivity.
      tokens: number of the text's tokens to read; default: 256.
      **kwargs: the attributes of the rule, in the table below, and those of all rules.
    """
    measured = {"data": data, "tokens": tokens}
    et_sensitivity(
        name = name + ".sensitivity",
        model = model,
        recipes = choices,
        **(for_exec(kwargs) | {key: value for key, value in measured.items() if value != None})
    )
    et_tuned_recipe_rule(
        name = name,
        choices = choices,
        sensitivity = ":%s.sensitivity" % name,
        **kwargs
    )
