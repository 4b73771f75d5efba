"""Bounds on what a program's calls cost on this machine, as attributes of its test."""

load("//rules/private:amounts.bzl", "check_count")

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

def cost_bounds(ctx, recipe):
    """Checks the bounds of a test.

    Args:
      ctx: rule context with COST_ATTRIBUTES.
      recipe: EtRecipeInfo of the program that runs, with the emulators of its backends.

    Returns:
      struct(words, files): arguments of the test; list of Files.
    """
    given = {name: getattr(ctx.attr, name) for name in _BOUNDS if getattr(ctx.attr, name)}
    for name, value in given.items():
        check_count(ctx.label, name, value)
    emulated = [str(backend.label) for backend in recipe.backends.to_list() if backend.emulator]
    if given and emulated:
        fail(("%s: %s: an emulator runs programs of %s on this machine, so figures say nothing about the device. " +
              "Remove %s, or bound a program that this machine runs itself.") %
             (ctx.label, ", ".join(given), ", ".join(emulated), "it" if len(given) == 1 else "them"))
    words = [word for name, value in given.items() for word in ("--" + name, value)]
    programs = [file for file in ctx.files._valgrind if file.basename == "valgrind.bin"]
    words += ["--valgrind", programs[0].short_path] if programs else []
    return struct(words = words, files = ctx.files._valgrind)
