"""et_variants: programs that stand for each other, each for the devices on which it runs best."""

load("//rules:providers.bzl", "EtProgramInfo", "EtVariantsInfo")
load("//rules/private:budget_test.bzl", "et_budget_test")
load("//rules/private:conditions.bzl", "encoded_conditions", "parse_condition")
load("//rules/private:cost_bounds.bzl", "parse_budgets")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")

# Attributes of all rules that the companion has, too.
_OF_TESTS = ("tags", "target_compatible_with", "visibility")

def _et_variants_impl(ctx):
    texts = {target.label: value for target, value in ctx.attr.programs.items()}
    labels = [target.label for target in ctx.attr.order]
    if sorted([str(l) for l in labels]) != sorted([str(l) for l in texts]):
        fail("%s: order: got %s, expected each of programs once: %s." %
             (ctx.label, _listed(labels), _listed(texts.keys())))
    choices = [
        struct(
            program = target[EtProgramInfo],
            conditions = [parse_condition(ctx.label, text) for text in texts[target.label].split("\n") if text],
        )
        for target in ctx.attr.order
    ]
    if not choices:
        fail("%s: programs: got none, expected at least one." % ctx.label)
    table = ctx.actions.declare_file(ctx.label.name + ".variants.json")
    page = ctx.actions.declare_file(ctx.label.name + ".variants.md")
    _prove(ctx, choices, table, page)
    return [
        DefaultInfo(files = depset([table, page])),
        OutputGroupInfo(report = depset([table, page]), _validation = depset([table])),
        EtVariantsInfo(
            label = ctx.label,
            name = ctx.label.name,
            choices = choices,
            table = table,
            page = page,
        ),
    ]

def _listed(labels):
    return ", ".join(["\"%s\"" % l for l in labels]) or "none"

def _prove(ctx, choices, table, page):
    """EtFit: each device of the table gets a program, and each program a device."""
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    inputs = []
    for choice in choices:
        program = choice.program
        args.add("--variant")
        args.add_all([program.label, program.program, program.manifest, encoded_conditions(choice.conditions)])
        inputs += [program.program, program.manifest]
    args.add("--devices", ctx.file.devices)
    args.add_all(ctx.attr.platforms, before_each = "--platform")
    for budget in parse_budgets(ctx.label, ctx.attr.budgets):
        args.add_all("--budget", [encoded_conditions([budget.condition]), json.encode(budget.bounds)])
    args.add("--table", table)
    args.add("--page", page)
    linker_action(
        ctx,
        module = "etbundle.variants.proof",
        arguments = args,
        inputs = inputs + [ctx.file.devices],
        outputs = [table, page],
        mnemonic = "EtFit",
        progress_message = "Checking that each device gets a program of %{label}",
    )

et_variants_rule = rule(
    implementation = _et_variants_impl,
    doc = "Variants. `et_variants` declares them.",
    attrs = {
        "budgets": attr.string_list_dict(doc = "Classes of devices, as conditions, to bounds of et_program_test."),
        "devices": attr.label(
            allow_single_file = [".json"],
            default = "//rules:devices.json",
            doc = "The devices that there are; see docs/howto/fleet.md for the form.",
        ),
        "order": attr.label_list(
            doc = "The programs, best first.",
            mandatory = True,
            providers = [EtProgramInfo],
        ),
        "platforms": attr.string_list(
            doc = "Platforms whose devices must all get a program, such as \"android_arm64\". Default: all of `devices`.",
        ),
        "programs": attr.label_keyed_string_dict(
            doc = "Programs to their conditions, one a line.",
            mandatory = True,
            providers = [EtProgramInfo],
        ),
    },
    provides = [EtVariantsInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)

def et_variants(name, programs, order = None, budgets = {}, **kwargs):
    """Programs that stand for each other: one name in an app, and on each device the best of them that runs there.

    ```starlark
    et_variants(
        name = "assistant",
        platforms = ["android_arm64"],
        programs = {
            ":assistant_qnn": ["ram_gb >= 8"],       # its chip is read from its payloads
            ":assistant_vulkan": ["os_level >= 33"],
            ":assistant_xnnpack": [],                # runs everywhere
        },
    )
    et_runner_app(
        name = "chat_android",
        platform = "@rules_executorch//toolchains/platforms:android_arm64",
        programs = [":assistant"],
    )
    ```

    A condition is a fact of a device, a sign and values: `soc = SM8650 SM8750` (one of them), `ram_gb >= 8`,
    `os_level < 31`. All conditions of a program must hold, and those that follow from its payloads: the chip of
    Qualcomm's, a Vulkan driver, Apple's systems. docs/howto/fleet.md lists the facts.

    The build fails, unless each device gets a program, the last one that it could get runs on all devices of its
    platform, and each program is the choice of some device. The outputs say for each device which and why, and what
    each program adds to the bytes of those before it: `<name>.variants.md`, and the same as JSON.

    Programs that should share weights take the same `shared_data`.

    An app has the programs whose conditions on `platform`, `os` and `cpu` hold for its own platform. Its interface
    chooses when the app is opened: see executorch_app_open, and `runner --variant`.

    **Budgets.** A class of devices may have bounds on costs, as et_program_test has them:

    ```starlark
    et_variants(
        name = "assistant",
        budgets = {
            "ram_gb = 4": ["max_rss_mb 900"],
            "ram_gb >= 8": ["max_rss_mb 2500", "max_instructions 4e9"],
        },
        …
    )
    ```

    Then `assistant.budget_test` runs each program that a device of a class may run, on the machine that tests. It fails
    with the figure where one exceeds a bound. Programs that this machine does not run itself are left out.

    Args:
      name: of the target, and of the program in apps.
      programs: dict of label to list of conditions (strings).
      order: labels, best first; default: the order of `programs`.
      budgets: dict of a condition to a list of bounds (strings).
      **kwargs: the attributes of the rule, in the table below, and those of all rules.
    """
    conditions = {program: "\n".join(texts) for program, texts in programs.items()}
    et_variants_rule(
        name = name,
        budgets = budgets,
        order = programs.keys() if order == None else order,
        programs = conditions,
        **kwargs
    )
    if budgets:
        et_budget_test(
            name = name + ".budget_test",
            size = "medium",
            counts_instructions = "max_instructions" in str(budgets),
            variants = name,
            **{key: value for key, value in kwargs.items() if key in _OF_TESTS}
        )
