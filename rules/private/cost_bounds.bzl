"""Bounds on what a program's calls cost on this machine, as attributes of its test."""

load("//rules/private:amounts.bzl", "check_count", "number_of")
load("//rules/private:conditions.bzl", "parse_condition")

def _valgrind_of(max_instructions):
    # Fetched by tests that count.
    return Label("//toolchains/valgrind") if max_instructions else None

_BOUNDS = {
    "max_instructions": "Maximum instructions of one call of a method, a number such as \"1.2e6\".",
    "max_rss_mb": "Maximum of the resident memory of the process that runs the cases, in MB (1,000,000 bytes).",
    "max_seconds_per_call": "Maximum seconds of one call of a method, a number such as \"0.02\".",
}

COST_ATTRIBUTES = {name: attr.string(doc = doc) for name, doc in _BOUNDS.items()} | {
    "_valgrind": attr.label(default = _valgrind_of, allow_files = True),
}

def valgrind_words(files):
    """Arguments of a test that counts instructions.

    Args:
      files: list of Files of //toolchains/valgrind; empty: there is none for the machine.

    Returns:
      List of strings.
    """
    programs = [file for file in files if file.basename == "valgrind.bin"]
    return ["--valgrind", programs[0].short_path] if programs else []

def parse_budgets(label, budgets):
    """Reads budgets of classes of devices.

    Args:
      label: Label, for messages.
      budgets: dict of a condition to a list such as ["max_rss_mb 1500"].

    Returns:
      List of struct(condition, bounds): struct of `parse_condition`; dict of attribute of et_program_test to float.
    """
    parsed = []
    for condition, texts in budgets.items():
        bounds = {}
        for text in texts:
            name, _, value = text.partition(" ")
            if name not in _BOUNDS or name in bounds:
                fail(("%s: budgets: \"%s\": got \"%s\", expected a bound, once each, such as \"max_rss_mb 1500\". " +
                      "Bounds are %s.") % (label, condition, text, ", ".join(_BOUNDS)))
            check_count(label, "budgets: \"%s\": %s" % (condition, name), value)
            bounds[name] = number_of(value)
        if not bounds:
            fail("%s: budgets: \"%s\": got no bound, expected some such as \"max_rss_mb 1500\"." % (label, condition))
        parsed.append(struct(condition = parse_condition(label, condition), bounds = bounds))
    return parsed

def emulated_backends(recipe):
    """Backends whose programs an emulator runs here: what it takes says nothing about the device.

    Args:
      recipe: EtRecipeInfo.

    Returns:
      List of labels, as strings.
    """
    return [str(backend.label) for backend in recipe.backends.to_list() if backend.is_emulated]

def cost_bounds(ctx, recipe):
    """Checks the bounds of a test.

    Args:
      ctx: rule context with COST_ATTRIBUTES.
      recipe: EtRecipeInfo of the program that runs.

    Returns:
      struct(words, files): arguments of the test; list of Files.
    """
    given = {name: getattr(ctx.attr, name) for name in _BOUNDS if getattr(ctx.attr, name)}
    for name, value in given.items():
        check_count(ctx.label, name, value)
    emulated = emulated_backends(recipe)
    if given and emulated:
        fail(("%s: %s: an emulator runs programs of %s on this machine, so figures say nothing about the device. " +
              "Remove %s, or bound a program that this machine runs itself.") %
             (ctx.label, ", ".join(given), ", ".join(emulated), "it" if len(given) == 1 else "them"))
    words = [word for name, value in given.items() for word in ("--" + name, value)]
    return struct(words = words + valgrind_words(ctx.files._valgrind), files = ctx.files._valgrind)
