"""LowerableInfo: a model as the exporter takes it.

`EtModelInfo` says what a model is, and holds this as what lowers it. A field is declared once, with its default
and its doc. A model is one of three: code (`entry_point`), .pt2 files (`exported`), or the directory of an
et_exported_program (`programs`), which keeps the model it was exported from as `original`; the constructor checks
that, as a request that named two of them would leave the choice to the exporter.
"""

load("//rules/private:providers.bzl", "EtModelInfo")

def _field(default, doc):
    return struct(default = default, doc = doc)

_FIELDS = {
    "adapter": _field(
        None,
        "struct(files, rest, entry_point) of an adapter whose values may change without a lowering: Files of " +
        "`data` with the values, depset of all others, String; None: the model has none.",
    ),
    "args": _field({}, "Dict of strings, for `ModelContext.args`."),
    "data": _field(depset(), "Depset of Files that the model's code asks for with `ModelContext.file`."),
    "entry_point": _field("", "String \"module:function\"; empty: the model is not code."),
    "expected": _field(None, "File: what the eager model gives for its inputs (EtExpect); None: nothing says."),
    "exported": _field([], "List of struct(method, file): .pt2 files by method."),
    "label": _field(None, "Label of the model."),
    "memory_mb": _field(0, "Int: expected peak of a lowering in MiB; 0: estimated."),
    "methods": _field([], "List of strings: methods of `original` that `programs` has; empty: all."),
    "original": _field(None, "LowerableInfo that `programs` were exported from, with which tests compare."),
    "packages": _field([], "List of EtPackagesInfo that the model's code imports."),
    "placeholders": _field([], "List of struct(file, placeholder): Files that replace files of `data`."),
    "programs": _field(None, "File (tree artifact): what `et_exported_program` wrote."),
    "roots": _field([], "List of strings: import roots as runfiles paths (\"_main\", \"repo/folder\")."),
    "sources": _field(depset(), "Depset of Files that the model's code may import or find beside itself."),
}

def _lowerable(*, label, **values):
    kinds = [name for name in ("entry_point", "exported", "programs") if values.get(name)]
    if len(kinds) > 1:
        fail("%s: got %s, expected one of code, .pt2 files and exported programs." % (label, " and ".join(kinds)))
    if bool(values.get("programs")) != bool(values.get("original")):
        fail("%s: programs and original go together: one of them is missing." % label)
    return {name: field.default for name, field in _FIELDS.items()} | {"label": label} | values

LowerableInfo, _ = provider(
    doc = "A model as the exporter takes it.",
    fields = {name: field.doc for name, field in _FIELDS.items()},
    init = _lowerable,
)

def changed(lowerable, **changes):
    """A model with other values of some fields.

    Args:
      lowerable: LowerableInfo.
      **changes: fields and their values.

    Returns:
      LowerableInfo.
    """
    return LowerableInfo(**({name: getattr(lowerable, name) for name in _FIELDS} | changes))

def model_info(lowerable):
    """The public part of a model.

    Args:
      lowerable: LowerableInfo.

    Returns:
      EtModelInfo.
    """
    return EtModelInfo(
        label = lowerable.label,
        entry_point = lowerable.entry_point,
        files = lowerable_files(lowerable),
        lowerable = lowerable,
    )

def lowerable_files(lowerable):
    """The files that a lowering of a model reads.

    Args:
      lowerable: LowerableInfo.

    Returns:
      Depset of Files.
    """
    return depset(
        [exported.file for exported in lowerable.exported] +
        ([lowerable.programs] if lowerable.programs else []) +
        [pair.placeholder for pair in lowerable.placeholders],
        transitive = [lowerable.sources, lowerable.data],
    )
