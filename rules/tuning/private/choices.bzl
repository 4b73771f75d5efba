"""Recipes of the same backends, of which each layer of a model has one."""

load("//rules/private:providers.bzl", "EtRecipeInfo")
load("//toolchains/python:paths.bzl", "readable_label", "runfiles_path", "unique")

def check_choices(label, infos):
    """Fails for recipes that one program cannot have together.

    Args:
      label: Label of the target that lists them in `recipes`.
      infos: list of EtRecipeInfo.
    """
    for info in infos[1:]:
        if _ids(info) != _ids(infos[0]):
            fail(("%s: recipes: got %s of the backends %s and %s of %s, expected recipes of the same backends. " +
                  "Layers of one program can have other precisions, but not other backends.") %
                 (
                     label,
                     readable_label(infos[0].label),
                     ", ".join(_ids(infos[0])) or "none",
                     readable_label(info.label),
                     ", ".join(_ids(info)) or "none",
                 ))

def combined(label, infos, chosen = None):
    """Combines recipes into one.

    Args:
      label: Label of the target.
      infos: list of EtRecipeInfo.
      chosen: File with each layer's recipe; None: the combined recipe can only be measured.

    Returns:
      EtRecipeInfo.
    """
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

def _ids(info):
    return sorted([backend.id for backend in info.backends.to_list()])
