"""A second edge to a program, for what runs it on this machine.

An emulator may have hundreds of megabytes, and Bazel fetches what a target depends on when it analyzes the target. So
backends name their emulators only where a build setting is on, and only this edge turns it on. Actions of that
configuration run only for twins: where an emulator refuses what methods share on the device (`not_emulated` of
et_backend), the program is lowered once more without it, and the twin runs. Of all other programs there,
nothing but the recipe is read.
"""

load("//rules/private:providers.bzl", "EtProgramInfo", "EtSharedDataInfo")
load("//toolchains/runner:runner.bzl", "EMULATING")

def _emulating_impl(_settings, _attr):
    return {EMULATING: True}

_emulating = transition(
    implementation = _emulating_impl,
    inputs = [],
    outputs = [EMULATING],
)

def _program_of(program):
    return program

# For an edge to a recipe alone.
EMULATED_RECIPE = _emulating

# Of rules with an attribute `program`.
EMULATED = {
    "_emulated": attr.label(
        cfg = _emulating,
        default = _program_of,
        providers = [EtProgramInfo],
    ),
}

def emulated_recipe(ctx):
    """Reads the recipe of a rule's program, whose backends name their emulators.

    Args:
      ctx: rule context with EMULATED.

    Returns:
      EtRecipeInfo.
    """
    return ctx.attr._emulated[0][EtProgramInfo].recipe

def not_emulated(recipe, methods):
    """Lists what a program is lowered without, as the emulators of its backends refuse it.

    Args:
      recipe: EtRecipeInfo, analyzed with or without this file's build setting.
      methods: list of strings: the program's methods; empty: all that the model has, whose number is not known.

    Returns:
      List of strings; empty without the build setting.
    """
    if len(methods) == 1:
        return []
    return [backend.not_emulated for backend in recipe.backends.to_list() if backend.not_emulated]

def running_program(ctx):
    """Finds the program that runs on this machine; called once by a rule, as it declares files of twins.

    Args:
      ctx: rule context with EMULATED and an attribute `program`.

    Returns:
      struct(info, twin): EtProgramInfo; None, or where it is a twin struct(of, lacks): EtProgramInfo of the target's own
      program, and what the twin does without.
    """
    own = ctx.attr.program[EtProgramInfo]
    emulated = ctx.attr._emulated[0][EtProgramInfo]
    lacks = not_emulated(emulated.recipe, emulated.lowered.methods)
    if not lacks:
        return struct(info = own, twin = None)
    return struct(info = _apart(ctx, emulated), twin = struct(of = own, lacks = " and ".join(lacks)))

def _apart(ctx, info):
    """A twin whose files have paths of their own: they may lie beside the program's among runfiles."""
    folder = ctx.label.name + ".twin/"
    fields = {name: getattr(info, name) for name in dir(info) if name not in ("to_json", "to_proto")}
    return EtProgramInfo(**(fields | {
        "manifest": _link(ctx, folder, info.manifest),
        "own_data": _link(ctx, folder, info.own_data) if info.own_data else None,
        "program": _link(ctx, folder, info.program),
        "shared_data": [
            EtSharedDataInfo(
                label = shared.label,
                data = _link(ctx, folder, shared.data),
                manifest = shared.manifest,
                lowered = shared.lowered,
            )
            for shared in info.shared_data
        ],
    }))

def _link(ctx, folder, file):
    link = ctx.actions.declare_file(folder + file.short_path)
    ctx.actions.symlink(output = link, target_file = file)
    return link
