"""LowerableInfo: a model as the exporter takes it.

`EtModelInfo` says what a model is, and holds this as what lowers it. A field is declared once, with its default
and its doc.
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
    "entry_point": _field("", "String \"module:function\"."),
    "expected": _field(None, "File: what the eager model gives for its inputs (EtExpect); None: nothing says."),
    "label": _field(None, "Label of the model."),
    "memory_mb": _field(0, "Int: expected peak of a lowering in MiB; 0: estimated."),
    "packages": _field([], "List of EtPackagesInfo that the model's code imports."),
    "placeholders": _field([], "List of struct(file, placeholder): Files that replace files of `data`."),
    "roots": _field([], "List of strings: import roots as runfiles paths (\"_main\", \"repo/folder\")."),
    "preprocessing": _field({}, "Dict of strings: how images of `test_inputs` become inputs."),
    "sources": _field(depset(), "Depset of Files that the model's code may import or find beside itself."),
    "test_inputs": _field([], "List of Files with inputs to compare programs on. No lowering reads them."),
}

def _lowerable(*, label, **values):
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
        [pair.placeholder for pair in lowerable.placeholders],
        transitive = [lowerable.sources, lowerable.data],
    )
