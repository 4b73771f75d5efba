"""A second edge to a program, for what runs it on this machine.

An emulator may have hundreds of megabytes, and Bazel fetches what a target depends on when it analyzes the target. So
backends name their emulators only where a build setting is on, and only this edge turns it on. No action of that
configuration ever runs: of the program there, nothing but its recipe is read.
"""

load("//rules/private:providers.bzl", "EtProgramInfo")

_SETTING = str(Label("//rules/private:emulating"))

def _emulating_impl(_settings, _attr):
    return {_SETTING: True}

_emulating = transition(
    implementation = _emulating_impl,
    inputs = [],
    outputs = [_SETTING],
)

def _program_of(program):
    return program

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
