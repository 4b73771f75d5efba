"""What a .pt2 file could run when it is read, and doesn't; and that others are read as before."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError
from etbuild.zip_check import ArchiveError
from etexport import model, pt2_read
from etexport.pt2_check import check_expression
from request_files import request

Members = dict[str, bytes]


class Net(torch.nn.Module):
    """Two layers, with an expanded buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("one", torch.ones(1).expand(4))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu() * scale + self.one


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A program with a dynamic dimension."""
    path = tmp_path / "good.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    inputs, named = (torch.ones(4, 4),), {"scale": torch.ones(4)}
    shapes = {"x": {0: 2 * batch}, "scale": None}
    torch.export.save(torch.export.export(Net(), inputs, named, dynamic_shapes=shapes), path)
    return path


def changed(source: Path, target: Path, change: Callable[[Members], None]) -> Path:
    """Writes an archive again, with other members."""
    with zipfile.ZipFile(source) as archive:
        result = {name: archive.read(name) for name in archive.namelist()}
    root = next(name.partition("/")[0] for name in result)
    inner = {name.removeprefix(f"{root}/"): data for name, data in result.items()}
    change(inner)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in inner.items():
            archive.writestr(f"{target.stem}/{name}", data)
    return target


def edited(change: Callable[[Any], None], name: str = "models/model.json") -> Any:
    """A change of a member that is JSON."""

    def change_member(result: Members) -> None:
        value = json.loads(result[name])
        change(value)
        result[name] = json.dumps(value).encode()

    return change_member


def replaced(old: str, new: str) -> Callable[[Members], None]:
    """A change of all of the graph's text."""

    def change(result: Members) -> None:
        text = result["models/model.json"].decode()
        assert old in text
        result["models/model.json"] = text.replace(old, new).encode()

    return change


class Runs:
    """A value whose pickle calls a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("import sys; sys.ran_from_a_file = True",))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether something out of a file has run."""
    monkeypatch.delattr(sys, "ran_from_a_file", raising=False)
    return lambda: hasattr(sys, "ran_from_a_file")


# Without quotes, which would have to fit those around it.
CALL = f"exec(bytes({list(b'import sys; sys.ran_from_a_file = True')}))"


def saved(value: Any) -> bytes:
    """What torch.save writes."""
    import io

    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def in_sample_inputs(result: Members) -> None:
    result["data/sample_inputs/model.pt"] = saved(Runs())


def in_a_weight(result: Members) -> None:
    result["data/weights/weight_0"] = saved(Runs())
    name = "data/weights/model_weights_config.json"
    edited(lambda v: v["config"]["linear.weight"].update(use_pickle=True), name)(result)


def in_a_constant(result: Members) -> None:
    result["data/constants/opaque_obj_0"] = pickle.dumps(Runs())
    payload = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}
    name = "data/constants/model_constants_config.json"
    edited(lambda v: v["config"].update(x={**payload, "tensor_meta": None}), name)(result)


def in_an_expression(result: Members) -> None:
    call = "setattr(__import__('sys'), 'ran_from_a_file', True)"
    replaced('"expr_str": "', f'"expr_str": "{call} or ')(result)


def in_a_name(result: Members) -> None:
    # The last one: what has a default must not stand before others.
    replaced('"scale"', f'"scale={CALL}"')(result)


def in_an_argument(result: Members) -> None:
    def change(value: Any) -> None:
        signature = value["graph_module"]["module_call_graph"][0]["signature"]
        assert signature["in_spec"].count("scale") == 1
        signature["in_spec"] = signature["in_spec"].replace("scale", f"scale':{CALL},'b")

    edited(change)(result)


def in_argument_names(result: Members) -> None:
    def change(value: Any) -> None:
        signature = value["graph_module"]["module_call_graph"][0]["signature"]
        signature["forward_arg_names"][1] = f"scale={CALL}"

    edited(change)(result)


def compiled(result: Members) -> None:
    result["data/aotinductor/model/a.so"] = b"\x7fELF"


RUN = {
    "pickle": (in_sample_inputs, 'would run code: it names "builtins.exec"'),
    "weight": (in_a_weight, 'would run code: it names "builtins.exec"'),
    "constant": (in_a_constant, '"x" is an object in a pickle ("opaque_obj_0"), which would run'),
    "expression": (in_an_expression, 'an expression of sizes is more than that: "setattr(__import'),
    "name": (in_a_name, "a name in its graph is 'scale=exec(bytes(["),
    "argument": (in_an_argument, "an argument of its graph is called \"scale':exec("),
    "argument names": (in_argument_names, "a name in its graph is 'scale=exec(bytes(["),
    "compiled": (compiled, 'it has compiled code ("evil/data/aotinductor/model/a.so")'),
}


@pytest.mark.parametrize("kind", RUN)
def test_nothing_in_a_file_runs(
    kind: str, good: Path, tmp_path: Path, ran: Callable[[], bool]
) -> None:
    change, message = RUN[kind]
    path = changed(good, tmp_path / "evil.pt2", change)
    with pytest.raises(BuildError) as caught:
        model.load_spec(request(exported={"forward": path}))
    assert message in caught.value.what
    assert '"forward", evil.pt2, cannot be read: ' in caught.value.what
    assert "\n" not in caught.value.what
    assert not ran()


@pytest.mark.parametrize("kind", ["pickle", "weight", "constant", "expression", "name"])
def test_torch_itself_would_run_it(
    kind: str, good: Path, tmp_path: Path, ran: Callable[[], bool]
) -> None:
    path = changed(good, tmp_path / "evil.pt2", RUN[kind][0])
    try:
        torch.export.load(path).module()(torch.ones(4, 4), scale=torch.ones(4))
    except Exception as error:
        assert ran(), error
    assert ran()


def test_the_code_that_checks_inputs_is_left_out(
    good: Path, tmp_path: Path, ran: Callable[[], bool]
) -> None:
    guards = edited(lambda v: v.update(guards_code=[f"{CALL} is None"]))
    path = changed(good, tmp_path / "evil.pt2", guards)
    x = torch.randn(4, 4)
    expected = torch.export.load(good).module()(x, scale=torch.ones(4))
    program = pt2_read.load(path)
    assert torch.equal(program.module()(x, scale=torch.ones(4)), expected)
    assert not ran()
    # Which torch would make a function of.
    assert torch.export.load(path)._guards_code and not program._guards_code


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            edited(
                lambda v: v["config"]["linear.bias"]["tensor_meta"].update(
                    sizes=[{"as_int": 1 << 40}]
                ),
                "data/weights/model_weights_config.json",
            ),
            '"linear.bias" has the shape [1099511627776] and 16 bytes',
        ),
        (
            edited(
                lambda v: v["config"]["linear.bias"].update(path_name="../../etc/passwd"),
                "data/weights/model_weights_config.json",
            ),
            '"linear.bias" is an object in a pickle ("../../etc/passwd")',
        ),
        (
            lambda result: result.update({"models/model.json": b'{"a": ' + b"[" * 100_000}),
            '"evil/models/model.json" is nested too deeply',
        ),
        (
            replaced('"expr_str": "', '"expr_str": "Pow(Integer(9), Integer(99999999)) * '),
            'an expression of sizes is more than that: "Pow(Integer(9), Integer(99999999))',
        ),
        (
            replaced('"torch.ops.aten.relu.default"', '"torch.os.system"'),
            "is not an allowed operator type",
        ),
    ],
    ids=["gigantic", "elsewhere", "deep", "power", "operator"],
)
def test_malformed_files_are_refused(
    change: Callable[[Members], None], message: str, good: Path, tmp_path: Path
) -> None:
    path = changed(good, tmp_path / "evil.pt2", change)
    with pytest.raises(BuildError) as caught:
        model.load_spec(request(exported={"forward": path}))
    assert message in caught.value.what
    assert "\n" not in caught.value.what


def test_modules_are_not_imported(good: Path, tmp_path: Path) -> None:
    def change(value: Any) -> None:
        signature = value["graph_module"]["module_call_graph"][0]["signature"]
        spec = json.loads(signature["out_spec"])
        context = json.dumps({"__enum__": True, "fqn": "antigravity:Enum", "name": "x"})
        spec[1] = {"type": "builtins.dict", "context": context, "children_spec": [spec[1]]}
        signature["out_spec"] = json.dumps(spec)

    path = changed(good, tmp_path / "evil.pt2", edited(change))
    with pytest.raises(BuildError, match='wants to import "antigravity"'):
        model.load_spec(request(exported={"forward": path}))
    assert "antigravity" not in sys.modules


class Branches(torch.nn.Module):
    """Control flow, sizes that depend on data, and nested inputs and outputs."""

    def forward(self, x: dict[str, torch.Tensor], n: torch.Tensor) -> dict[str, Any]:
        size = n.item()
        torch._check(size >= 2)
        torch._check(size <= 8)
        rows = torch.cond(x["a b"].sum() > 0, lambda t: t + 1, lambda t: t - 1, (x["a b"],))
        return {"rows": (rows, rows.shape[0] // 2), "more": torch.zeros(size)}


def test_what_torch_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "branches.pt2"
    inputs = ({"a b": torch.ones(6, 2)}, torch.tensor(5))
    shapes = {"x": {"a b": {0: torch.export.Dim("rows", min=4)}}, "n": None}
    program = torch.export.export(Branches(), inputs, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, path)
    got, expected = (p.module()(*inputs) for p in (pt2_read.load(path), program))
    assert torch.equal(got["rows"][0], expected["rows"][0])
    assert got["rows"][1] == 3
    assert torch.equal(got["more"], torch.zeros(5))


@pytest.mark.parametrize(
    "text",
    [
        "2*s0 + 1",
        "Mul(Integer(2), Symbol('s0', positive=True, integer=True))",
        "Pow(Symbol('s0'), Integer(2))",
        "s0**2",
        "Max(1, s0 // 4)",
        "FloorDiv(Symbol('s0'), Integer(-3))",
        "StrictLessThan(Symbol('u0'), Float('1e30', precision=53))",
    ],
)
def test_expressions_of_sizes(text: str) -> None:
    check_expression(text, frozenset({"FloorDiv"}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x" * 30_000,
        "(" * 5000,
        "__import__('os')",
        "s0.__class__",
        "s0[0]",
        "lambda: 1",
        "[s0 for s0 in s1]",
        "exec('1')",
        "f'{s0}'",
        "9**9**9",
        "(64**64)**64",
        "LShift(1, 10**18)",
        "Pow(Integer(2), Mul(Integer(64), Integer(64)))",
        f"{1 << 200}",
    ],
)
def test_what_is_no_expression_of_sizes(text: str) -> None:
    with pytest.raises(ArchiveError, match="^an expression of sizes "):
        check_expression(text, frozenset({"LShift"}))
