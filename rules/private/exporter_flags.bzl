"""Flags that describe a program to the exporter: the same for an action and for a test's runfiles."""

load("//rules/private:lowerable.bzl", "lowerable_files")
load("//toolchains/python:paths.bzl", "pair", "path_pair", "runfiles_pair", "runfiles_path")

def add_request(args, *, label, model, recipe, methods, in_runfiles = False):
    """Adds the flags of a request, one a line; tools/etlower/flags.py reads them.

    Args:
      args: Args to add to.
      label: Label for messages.
      model: LowerableInfo.
      recipe: EtRecipeInfo, or None.
      methods: list of strings; empty: all.
      in_runfiles: whether paths are relative to the main repository's runfiles, instead of the
        execution root.
    """
    as_pair = runfiles_pair if in_runfiles else path_pair
    args.set_param_file_format("multiline")
    args.add(label, format = "--label=%s")
    args.add(model.label, format = "--model_label=%s")
    args.add(model.entry_point, format = "--entry_point=%s")

    # Encoded where the line is written: what analysis keeps is the providers' own values.
    args.add_all([model.args], map_each = _encoded, format_each = "--args=%s")
    args.add_all(methods, format_each = "--method=%s")
    _add_files(args, "--data=%s", model.data, as_pair)
    args.add_all(model.placeholders, map_each = placeholder_flag, format_each = "--data=%s")
    _add_files(args, "--source=%s", model.sources, as_pair)
    args.add_all(model.roots, format_each = "--root=%s")
    if recipe:
        add_recipe(args, recipe, in_runfiles)

def add_recipe(args, recipe, in_runfiles = False):
    """Adds the flags of a recipe, one a line.

    Args:
      args: Args to add to.
      recipe: EtRecipeInfo.
      in_runfiles: as for `add_request`.
    """
    as_pair = runfiles_pair if in_runfiles else path_pair
    args.add_all([recipe.tree], map_each = _encoded, format_each = "--recipe=%s")
    _add_files(args, "--recipe_data=%s", recipe.data, as_pair)
    _add_files(args, "--source=%s", recipe.sources, as_pair)
    args.add_all(recipe.roots, format_each = "--root=%s")

def request_files(*, model, recipe):
    """The files that the flags of a request name.

    Args:
      model: LowerableInfo.
      recipe: EtRecipeInfo, or None.

    Returns:
      Depset of Files.
    """
    return depset(transitive = [lowerable_files(model)] + ([recipe.sources, recipe.data] if recipe else []))

def placeholder_flag(pair_of_files):
    """A placeholder as "runfiles path of the file=execution path of the placeholder", for Args.add_all.

    Args:
      pair_of_files: struct(file, placeholder).

    Returns:
      A string.
    """
    return pair(runfiles_path(pair_of_files.file), pair_of_files.placeholder.path)

def _encoded(value):
    return json.encode(value)

def _add_files(args, flag, files, as_pair):
    args.add_all(files, map_each = as_pair, format_each = flag, expand_directories = False)
