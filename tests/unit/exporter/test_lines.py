"""The line of a model that an operator comes from."""

import pytest
from etlower import operators

_TORCH = 'File "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward'
_PACKAGE = 'File "/env/lib/python3.11/site-packages/transformers/llama.py", line 7, in forward'
_MODEL = 'File "models/net.py", line 12, in forward'


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ((_MODEL, _TORCH), "models/net.py:12"),
        ((_MODEL, _PACKAGE, _TORCH), "models/net.py:12"),
        ((_PACKAGE, _TORCH), "transformers/llama.py:7"),
        ((_TORCH,), ""),
        ((), ""),
    ],
)
def test_the_model_and_then_a_package(frames: tuple[str, ...], line: str) -> None:
    assert operators.line_in("\n".join(frames)) == line
