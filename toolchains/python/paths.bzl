"""Paths of files in a runfiles tree, and import roots."""

load("@rules_python//python:defs.bzl", "PyInfo")

MAIN = "_main"

def runfiles_path(file):
    """Path of a file in a runfiles tree: "_main/models/llama.py", "other/nets.py".

    Args:
      file: a File.

    Returns:
      A string.
    """
    if file.short_path.startswith("../"):
        return file.short_path[3:]
    return MAIN + "/" + file.short_path

def pair(name, path):
    """A name and a path as one argument, which etbuild.arguments.split_pair reads.

    The first "=" ends the name, so one in the name is written as "%3D".

    Args:
      name: a string.
      path: a string.

    Returns:
      A string: "name=path".
    """
    return name.replace("%", "%25").replace("=", "%3D") + "=" + path

def pair_format(name):
    """The same as `format` of Args.add, for the path of a File.

    Args:
      name: a string.

    Returns:
      A string with one "%s".
    """
    return pair(name, "").replace("%", "%%") + "%s"

def path_pair(file):
    """A file as "runfiles path=execution path", for Args.add_all.

    Args:
      file: a File.

    Returns:
      A string.
    """
    return pair(runfiles_path(file), file.path)

def runfiles_pair(file):
    """A file as "runfiles path=path from the main repository's runfiles", for tests.

    Args:
      file: a File.

    Returns:
      A string.
    """
    return pair(runfiles_path(file), file.short_path)

def repository_root(label):
    """Import root of a target's repository, as a runfiles path.

    Args:
      label: its Label.

    Returns:
      A string: "_main" or the repository's canonical name.
    """
    return label.repo_name or MAIN

def python_sources(ctx, extra = []):
    """Files and import roots of a target's `srcs`, `deps` and `imports`.

    Args:
      ctx: rule context with attributes srcs, deps and imports.
      extra: Files that lie beside the sources.

    Returns:
      Struct of sources (depset of Files) and roots (list of strings, own repository first).
    """
    root = repository_root(ctx.label)
    roots = [_normalized(ctx.label, i) for i in ctx.attr.imports] + [root]
    transitive = []
    for dep in ctx.attr.deps:
        transitive.append(dep[PyInfo].transitive_sources)
        transitive.append(dep[DefaultInfo].default_runfiles.files)
        roots.extend(dep[PyInfo].imports.to_list())
        roots.append(repository_root(dep.label))
    return struct(
        sources = depset(ctx.files.srcs + extra, transitive = transitive),
        roots = unique(roots),
    )

def unique(items):
    """A list without repetitions, in order of first occurrence.

    Args:
      items: list of strings.

    Returns:
      List of strings.
    """
    return {item: None for item in items}.keys()

def first_repeated(items):
    """The first item that occurs in a list twice.

    Args:
      items: list of strings.

    Returns:
      A string; None: all differ.
    """
    seen = {}
    for item in items:
        if item in seen:
            return item
        seen[item] = True
    return None

def readable_label(label):
    """A label as people write it.

    Args:
      label: a Label.

    Returns:
      A string: "//x:y" for the main repository, "@repo//x:y" for others.
    """
    text = str(label)
    return text[2:] if text.startswith("@@//") else text

def _normalized(label, path):
    """An import root in a target's package, as a runfiles path without "..": "_main/models"."""
    parts = [p for p in label.package.split("/") if p]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                fail("%s: imports: got \"%s\", expected a folder of the repository." % (label, path))
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join([repository_root(label)] + parts)

def own_name(repository):
    """The name that a module extension gave a repository.

    Args:
      repository: its canonical name: "rules_executorch~~executorch~executorch_lavapipe".

    Returns:
      A string: "executorch_lavapipe"; empty: the main repository's.
    """
    return repository.split("~")[-1].split("+")[-1]
