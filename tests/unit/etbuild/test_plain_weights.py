"""plain_weights: torchao's weights in plain operators, with torchao's own numbers."""

from __future__ import annotations

import pytest
import torch
from etbuild import plain_weights, weight_only
from executorch.export import ExportRecipe
from torchao.quantization import quantize_
from torchao.utils import unwrap_tensor_subclass


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("bits", "group", "stored"), [(8, 0, 64), (4, 32, 32), (4, 16, 32)])
def test_the_numbers_are_torchaos(bits: int, group: int, stored: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.Linear(48, 3)).to(dtype).eval()
    recipe = weight_only(ExportRecipe(name="x"), bits, group)
    (config,) = recipe.quantization_recipe.ao_quantization_configs
    quantize_(model, config.ao_base_config, config.filter_fn)
    unwrap_tensor_subclass(model)
    x = torch.randn(5, 64, dtype=dtype)
    exported = torch.export.export(model, (x,), strict=False)
    plain = plain_weights("forward", exported)

    assert recipe.aten_transform_passes == [plain_weights]
    targets = {str(node.target) for node in plain.graph.nodes if node.op == "call_function"}
    assert not [target for target in targets if target.startswith("torchao")]
    first = plain.state_dict["0.parametrizations.weight.original0"]
    assert first.numel() * first.element_size() == 48 * stored
    assert torch.equal(plain.module()(x), model(x))


def test_layers_whose_columns_do_not_fit_stay_floats() -> None:
    recipe = weight_only(ExportRecipe(name="x"), bits=4, group_size=32)
    (config,) = recipe.quantization_recipe.ao_quantization_configs
    assert not config.filter_fn(torch.nn.Linear(48, 3), "narrow")
    assert config.filter_fn(torch.nn.Linear(64, 3), "wide")


def test_a_program_without_such_weights_is_left_alone() -> None:
    exported = torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), strict=False)
    assert plain_weights("forward", exported) is exported
