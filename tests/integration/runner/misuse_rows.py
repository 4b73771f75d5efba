"""Writes the table of misuse: each function of executorch_app.h, by each bad argument.

The header is the only list of functions, parameters and fields. A parameter or a type that this
file does not know is an error, so a new function cannot be left out.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

HANDLES = {
    "executorch_app": "app",
    "executorch_app_session": "session",
    "executorch_app_chat": "chat",
    "executorch_app_tokenizer": "tokenizer",
}
# Texts of parameters and fields that a right call has; "path" depends on the function.
TEXTS = {
    "dtype": '"int64"',
    "manifest": "nullptr",
    "message": '"abc"',
    "method": '"forward"',
    "name": "nullptr",
    "program": "nullptr",
    "state": "nullptr",
    "system": "nullptr",
    "tokenizer": "good.tokenizer_path",
}
PATHS = {
    "executorch_app_open": "good.program_path",
    "executorch_app_open_tokenizer": "good.tokenizer_path",
    "executorch_app_write_events": '"events.etdp"',
    "executorch_app_save_chat": '"saved.chat"',
    "executorch_app_restore_chat": '"saved.chat"',
}
# Parameters that point to arrays.
ARRAYS = ("inputs", "media")
# Numbers that a right call has.
NUMBERS = {"count": "2", "index": "0", "program_index": "0", "turns": "0"}
BAD_TEXTS = ["nullptr", '""', '"\\xFF\\xFE"', "good.long_text"]
BAD_SIZES = ["SIZE_MAX", "SIZE_MAX / 2", "SIZE_MAX / sizeof(executorch_app_tensor) + 1"]
# Of a field or an argument of that type.
BAD = {
    "const char*": BAD_TEXTS,
    "const char* const*": ["nullptr", "kNulls"],
    "const int64_t*": ["nullptr", "kNegative", "kHuge"],
    "const uint32_t*": ["nullptr"],
    "const void*": ["nullptr"],
    "size_t": BAD_SIZES,
    "bool": ["true"],
    "double": ["NAN", "-1.0", "INFINITY"],
    "uint32_t": ["UINT32_MAX"],
    "executorch_app_listener": ["nullptr", "throw_error", "throw_number", "throw_bad_alloc"],
    "void*": ["nullptr"],
}


@dataclass(frozen=True)
class Named:
    """A parameter or a field."""

    type: str
    name: str


@dataclass(frozen=True)
class Function:
    result: str
    name: str
    parameters: list[Named]

    @property
    def returns_code(self) -> bool:
        return self.result == "executorch_app_code"

    @property
    def handles(self) -> list[str]:
        return [HANDLES[t] for p in self.parameters if (t := handle_of(p.type))]


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def named(declaration: str) -> Named:
    match = re.fullmatch(r"(.*?[\s*])(\w+)", " ".join(declaration.split()))
    assert match, f"not a parameter or field: {declaration!r}"
    return Named(match[1].strip(), match[2])


def functions_of(header: str) -> list[Function]:
    text = without_comments(header)
    pattern = r"^([\w ]+?[ *]+)(executorch_app_\w+)\(([^;{]*)\);"
    functions = [
        Function(result.strip(), name, [named(p) for p in parameters.split(",") if p != "void"])
        for result, name, parameters in re.findall(pattern, text, flags=re.MULTILINE)
    ]
    called = set(re.findall(r"\b(executorch_app_\w+)\s*\(", text))
    missing = called - {function.name for function in functions}
    assert not missing, f"executorch_app.h: functions that the table cannot read: {missing}"
    return functions


def structs_of(header: str) -> dict[str, list[Named]]:
    text = without_comments(header)
    structs = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, flags=re.DOTALL):
        fields = [f.strip() for f in body.split(";") if f.strip() and "[" not in f]
        structs[name] = [named(field) for field in fields]
    return structs


def handle_of(kind: str) -> str:
    """The handle's type of "const executorch_app_chat*"; "": it is none."""
    match = re.fullmatch(r"(?:const )?(\w+)\*", kind)
    return match[1] if match and match[1] in HANDLES else ""


def count_of(name: str, all_names: list[Named]) -> str:
    """The count beside a list: "program_count" of "programs"; "": there is none."""
    counts = [f"{name}_count", f"{name.removesuffix('s')}_count"]
    return next((n.name for n in all_names if n.name in counts), "")


class Table:
    def __init__(self, header: str) -> None:
        self.functions = functions_of(header)
        self.structs = structs_of(header)
        self.rows: list[str] = []

    def right(self, function: Function, parameter: Named) -> str:
        """The argument of a right call."""
        kind, name = parameter.type, parameter.name
        if handle := handle_of(kind):
            return f"good.{HANDLES[handle]}"
        if kind == "const char*":
            return PATHS[function.name] if name == "path" else TEXTS[name]
        if kind == "size_t" and name.endswith("_count"):
            return f"good.{name}"
        if kind == "size_t":
            return NUMBERS[name]
        struct = re.fullmatch(r"const (\w+)\*", kind)
        if struct and struct[1] in self.structs:
            return f"good.{name}" if name in ARRAYS else f"&good.right_{struct[1]}"
        fixed = {
            "executorch_app_error*": "&good.error",
            "const char* const*": f"good.{name}",
            "const uint32_t*": "kTokens",
            "uint32_t": "4",
            "bool": "false",
            "executorch_app_listener": "hear",
            "void*": "&good",
            "size_t*": "&good.size",
            "const executorch_app_tensor**": "&good.tensors",
            "executorch_app_method*": "&good.method",
            "executorch_app_answer*": "&good.answer",
        }
        if kind in fixed:
            return fixed[kind]
        out = re.fullmatch(r"(\w+)\*\*", kind)
        assert out and out[1] in HANDLES, f"no right argument for {kind} {name} of {function.name}"
        return f"&good.opened_{HANDLES[out[1]]}"

    def call(self, function: Function, changed: dict[str, str]) -> str:
        arguments = [changed.get(p.name) or self.right(function, p) for p in function.parameters]
        return f"{function.name}({', '.join(arguments)})"

    def row(
        self, function: Function, what: str, expected: str, changed: dict[str, str], first: str = ""
    ) -> None:
        word = what.split(" = ")[0].split(".")[0]
        call = self.call(function, changed)
        if function.result == "void":
            call = f"({call}, 0)"
        title = f"{function.name}: {what}".replace("\\", "\\\\").replace('"', '\\"')
        self.rows.append(
            f'  {{"{title}", "{word}", {expected}, []([[maybe_unused]] Good& good) -> Result '
            f"{{ {first} return result_of({call}); }}}},"
        )

    def misuse(self, function: Function) -> None:
        """Rows for each parameter of a function."""
        has_error = any(p.type == "executorch_app_error*" for p in function.parameters)
        refused = "kRefused" if has_error else "kCode" if function.returns_code else "kNothing"
        other = "kAny" if has_error else "kCode" if function.returns_code else "kValue"
        for parameter in function.parameters:
            kind, name = parameter.type, parameter.name
            if handle := handle_of(kind):
                own = HANDLES[handle]
                strange = "session" if own != "session" else "chat"
                cast = f"reinterpret_cast<{kind}>"
                for what, value in (
                    ("nullptr", "nullptr"),
                    ("closed", f"good.closed_{own}"),
                    ("of another type", f"{cast}(good.{strange})"),
                    ("no handle", f"{cast}(uintptr_t{{0x7FFFFFFFFFF1}})"),
                    ("freed memory", f"{cast}(UINTPTR_MAX)"),
                ):
                    self.row(function, f"{name} = {what}", refused, {name: value})
                continue
            if kind in BAD and not (kind == "size_t" and name.endswith("_count")):
                for value in BAD[kind]:
                    changed = {name: value}
                    if count := count_of(name, function.parameters):
                        changed[count] = "1"
                    self.row(function, f"{name} = {value}", other, changed)
            elif kind == "size_t":
                for value in BAD_SIZES:
                    self.row(function, f"{name} = {value}", other, {name: value})
            elif kind.startswith("const ") and kind.endswith("*") and not kind.endswith("**"):
                struct = kind.removeprefix("const ").removesuffix("*")
                self.row(function, f"{name} = nullptr", other, {name: "nullptr"})
                if count := count_of(name, function.parameters):
                    self.row(function, f"{name}[1] = {{}}", other, {name: "kEmpty", count: "2"})
                self.fields(function, name, struct, other)
            else:
                assert kind.endswith("*"), f"no bad argument for {kind} {name} of {function.name}"
                needed = kind.removesuffix("**") in HANDLES
                self.row(
                    function,
                    f"{name} = nullptr",
                    "kRefused" if needed else other,
                    {name: "nullptr"},
                )

    def fields(self, function: Function, name: str, struct: str, expected: str) -> None:
        """Rows for each field of a parameter that points to a struct."""
        fields = self.structs[struct]
        start = f"{struct} value = good.right_{struct};"
        is_list = bool(count_of(name, function.parameters))
        if is_list:
            start = f"{struct} value = good.{name}[0];"
        for field in fields:
            inner = re.fullmatch(r"const (\w+)\*", field.type)
            bad = list(BAD.get(field.type, []))
            if inner and inner[1] in self.structs:
                bad = ["nullptr", "kEmptyPrograms", "good.null_data", "good.huge_data"]
            assert bad, f"no bad value for {field.type} {field.name} of {struct}"
            for value in bad:
                first = f"{start} value.{field.name} = {value};"
                if count := count_of(field.name, fields):
                    first += f" value.{count} = 1;"
                what = f"{name}.{field.name} = {value}"
                changed = {name: "&value"}
                if is_list:
                    # The second one is right.
                    first += f" const {struct} both[] = {{value, good.{name}[1]}};"
                    changed = {name: "both"}
                self.row(function, what, expected, changed, first)

    def text(self) -> str:
        for function in self.functions:
            self.misuse(function)
        rows = "\n".join(self.rows)
        calls = []
        for function in self.functions:
            call = self.call(function, {})
            if function.result == "void":
                call = f"({call}, 0)"
            has_error = any(p.type == "executorch_app_error*" for p in function.parameters)
            handles = set(function.handles)
            kinds = "|".join(f"k_{handle}" for handle in sorted(handles)) or "0"
            calls.append(
                f'  {{"{function.name}", {kinds}, {str(function.returns_code).lower()}, '
                f"{str(has_error).lower()}, []([[maybe_unused]] Good& good) -> Result {{ "
                f"return result_of({call}); }}}},"
            )
        return (
            "// Made by misuse_rows.py.\n"
            f"const Row kRows[] = {{\n{rows}\n}};\n\nconst Call kCalls[] = {{\n"
            + "\n".join(calls)
            + "\n};\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--header", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.write_text(Table(arguments.header.read_text()).text())


if __name__ == "__main__":
    main()
