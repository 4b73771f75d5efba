"""Reads what Bazel's `starlark_doc_extract` writes: a `ModuleInfo` message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "stardoc_output"

# The part of Bazel's stardoc_output.proto that the pages need: number, name and type of each field;
# "*" for repeated ones. Fields that are not listed are skipped.
_MESSAGES = {
    "ModuleInfo": [
        (1, "rule_info", "RuleInfo*"),
        (2, "provider_info", "ProviderInfo*"),
        (3, "func_info", "FunctionInfo*"),
        (5, "module_docstring", "string"),
        (6, "file", "string"),
        (7, "module_extension_info", "ExtensionInfo*"),
    ],
    "RuleInfo": [
        (1, "rule_name", "string"),
        (2, "doc_string", "string"),
        (3, "attribute", "AttributeInfo*"),
        (6, "test", "bool"),
        (7, "executable", "bool"),
    ],
    "AttributeInfo": [
        (1, "name", "string"),
        (2, "doc_string", "string"),
        (3, "type", "int32"),
        (4, "mandatory", "bool"),
        (6, "default_value", "string"),
        (9, "values", "string*"),
    ],
    "FunctionInfo": [
        (1, "function_name", "string"),
        (2, "parameter", "ParameterInfo*"),
        (3, "doc_string", "string"),
        (4, "returns", "ReturnInfo"),
    ],
    "ParameterInfo": [
        (1, "name", "string"),
        (2, "doc_string", "string"),
        (3, "default_value", "string"),
        (4, "mandatory", "bool"),
    ],
    "ReturnInfo": [(1, "doc_string", "string")],
    "ProviderInfo": [
        (1, "provider_name", "string"),
        (2, "doc_string", "string"),
        (3, "field_info", "FieldInfo*"),
    ],
    "FieldInfo": [(1, "name", "string"), (2, "doc_string", "string")],
    "ExtensionInfo": [
        (1, "extension_name", "string"),
        (2, "doc_string", "string"),
        (3, "tag_class", "TagInfo*"),
    ],
    "TagInfo": [
        (1, "tag_name", "string"),
        (2, "doc_string", "string"),
        (3, "attribute", "AttributeInfo*"),
    ],
}

# By AttributeType's numbers.
TYPES = (
    "unknown",
    "name",
    "int",
    "label",
    "string",
    "list of strings",
    "list of ints",
    "list of labels",
    "bool",
    "dict: label → string",
    "dict: string → string",
    "dict: string → list of strings",
    "output",
    "list of outputs",
    "dict: string → label",
    "dict: string → list of labels",
)


def _module_info() -> type:
    field_type = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "bool": field_type.TYPE_BOOL,
        "int32": field_type.TYPE_INT32,
        "string": field_type.TYPE_STRING,
    }
    file = descriptor_pb2.FileDescriptorProto(
        name="stardoc_output.proto", package=_PACKAGE, syntax="proto3"
    )
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, name, kind in fields:
            field = described.field.add(name=name, number=number)
            repeated = kind.endswith("*")
            field.label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            if kind in scalars:
                field.type = scalars[kind]
            else:
                field.type, field.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModuleInfo"))


ModuleInfo = _module_info()


def read(path: Path) -> Any:
    """The `ModuleInfo` in a file that `starlark_doc_extract` wrote.

    Args:
      path: of the .binaryproto.
    """
    return repaired(ModuleInfo.FromString(path.read_bytes()))


def repaired(message: Any) -> Any:
    """The message with text as it stands in the source.

    Bazel up to 8 takes each byte of UTF-8 for a character of Latin-1 and encodes that once more.
    """
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if field.is_repeated else [value]:
                repaired(part)
        elif isinstance(value, str):
            setattr(message, field.name, _text(value))
    return message


def _text(text: str) -> str:
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def undocumented(module: Any) -> list[str]:
    """Lists what lacks a docstring: "//rules:defs.bzl: et_model: attribute srcs", in order.

    Args:
      module: a `ModuleInfo`.
    """
    missing = []

    def check(thing: str, text: str) -> None:
        if not text.strip():
            missing.append(f"{module.file}: {thing}")

    check("the file", module.module_docstring)
    for rule in module.rule_info:
        check(rule.rule_name, rule.doc_string)
        for attribute in rule.attribute:
            check(f"{rule.rule_name}: attribute {attribute.name}", attribute.doc_string)
    for provider in module.provider_info:
        check(provider.provider_name, provider.doc_string)
        for field in provider.field_info:
            check(f"{provider.provider_name}: field {field.name}", field.doc_string)
    for function in module.func_info:
        check(function.function_name, function.doc_string)
        for parameter in function.parameter:
            check(f"{function.function_name}: parameter {parameter.name}", parameter.doc_string)
    for extension in module.module_extension_info:
        check(extension.extension_name, extension.doc_string)
        for tag in extension.tag_class:
            name = f"{extension.extension_name}.{tag.tag_name}"
            check(name, tag.doc_string)
            for attribute in tag.attribute:
                check(f"{name}: attribute {attribute.name}", attribute.doc_string)
    return missing
