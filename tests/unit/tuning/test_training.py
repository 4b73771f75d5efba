"""Quantization-aware training: one prepared module, a checkpoint, and the program of it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import request_files
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelContext, ModelSpec, Options, RecipeContext
from etlower import lower, stages, training
from etlower.outputs import sqnr_db
from etlower.progress import Progress
from ettune import commands, qat
from executorch.export import ExportRecipe
from executorch.runtime import Runtime
from safetensors.torch import save_file
from torch import Tensor, nn

lower.make_deterministic()

pytestmark = pytest.mark.usefixtures("fast_path")

BATCH = 16
# A link to the source tree, as an example is a workspace of its own.
EXAMPLE = Path(os.path.realpath("bazelw")).parent / "examples/qat"
BUILDERS = [xnnpack_recipes.int8_dynamic_act_int4_weight, xnnpack_recipes.int8_static_per_channel]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.drop = nn.Dropout(0.1)
        self.second = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.drop(torch.relu(self.first(x))))


def spec() -> ModelSpec:
    torch.manual_seed(1)
    return ModelSpec({"forward": Method(Net().eval(), (torch.randn(BATCH, 32),))})


def made(builder: Callable[..., ExportRecipe], qat: bool = True) -> ExportRecipe:
    return builder(RecipeContext(Options({}), "//r:recipe", qat=qat))


def train(module: nn.Module, steps: int = 30) -> nn.Module:
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    torch.manual_seed(2)
    for _ in range(steps):
        x = torch.randn(BATCH, 32)
        optimizer.zero_grad()
        nn.functional.mse_loss(module(x), x).backward()
        optimizer.step()
    return module


def saved(module: nn.Module, folder: Path) -> Path:
    file = folder / "trained.safetensors"
    save_file({k: v.clone() for k, v in module.state_dict().items()}, file)
    return file


def lowered(recipe: ExportRecipe, model: ModelSpec, checkpoint: Path | None) -> bytes:
    if checkpoint:
        asked = request_files.request(
            quantize="qat", trained_checkpoint=checkpoint, label="//m:net_qat"
        )
        training.with_checkpoint(recipe, model, asked)
    return stages.run(model, recipe, Progress(), "//m:net", etrecord=False).buffer


@pytest.mark.parametrize(
    "builder", [BUILDERS[0], pytest.param(BUILDERS[1], marks=pytest.mark.release)]
)
def test_the_program_is_what_was_trained(builder: Any, tmp_path: Path) -> None:
    """Its outputs are those of the trained module, and not those of the quantized model."""
    module = train(qat.prepare(spec(), builder))
    checkpoint = saved(module, tmp_path)
    program = lowered(made(builder), spec(), checkpoint)
    [inputs] = [spec().methods["forward"].example_inputs]
    [got] = Runtime.get().load_program(program).load_method("forward").execute(inputs)
    if builder is BUILDERS[0]:
        expected = module.eval()(*inputs)
    else:
        from executorch.export.stages import move_exported_model_to_eval

        expected = move_exported_model_to_eval(module)(*inputs)
    untrained = spec().methods["forward"].module(*inputs)
    assert (got - expected).std() < 0.1 * expected.std()
    assert (got - untrained).std() > 0.3 * untrained.std()
    assert lowered(made(builder), spec(), checkpoint) == program


@pytest.mark.release
def test_the_example_is_better_than_without_training() -> None:
    """By at least 2 dB, against what its data come from; with another seed than the example's."""
    found = importlib.util.spec_from_file_location("example_qat", EXAMPLE / "net.py")
    net = importlib.util.module_from_spec(found)
    found.loader.exec_module(net)
    ctx = ModelContext({"seed": "1"})
    model = net.build(ctx)
    module = qat.prepare(model, BUILDERS[0])
    net.train(module, ctx)
    state = module.state_dict()
    [(x, y)] = net.batches(1, seed=1)

    def ratio(recipe: ExportRecipe) -> float:
        modules = {"forward": model.methods["forward"].module}
        [quantized] = stages.quantized_sources(modules, recipe, "//m:net").values()
        with torch.no_grad():
            return sqnr_db(quantized(x), y)

    trained = made(BUILDERS[0])
    training.make_trainable(trained, "//m:net")
    trained.quantization_recipe.train_fn = lambda prepared: prepared.load_state_dict(state)
    assert ratio(trained) > ratio(made(BUILDERS[0])) + 2


def test_a_build_that_trains(tmp_path: Path) -> None:
    """The checkpoint is the same each time, and the program's."""
    request_files.install(
        tmp_path / "sources",
        mine="def few(module):\n    import test_training\n    test_training.train(module, 3)\n",
    )
    files = [tmp_path / name for name in ("one.safetensors", "other.safetensors")]
    for file in files:
        asked = request_files.request(quantize="qat", training="mine:few", output=file)
        commands.train(spec(), made(BUILDERS[1]), asked)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert lowered(made(BUILDERS[1]), spec(), files[0])


@pytest.mark.parametrize("builder", BUILDERS)
def test_script_and_build_prepare_the_same(builder: Any) -> None:
    """By builder and by recipe; the model stays as it was."""
    model = spec()
    before = {
        name: tensor.clone()
        for name, tensor in model.methods["forward"].module.state_dict().items()
    }
    one, other = (qat.prepare(model, each) for each in (builder, made(builder)))
    assert [(n, t.shape) for n, t in one.state_dict().items()] == [
        (n, t.shape) for n, t in other.state_dict().items()
    ]
    train(one, steps=1)
    after = model.methods["forward"].module
    assert not after.training
    assert all(torch.equal(before[name], tensor) for name, tensor in after.state_dict().items())


def test_options_reach_the_builder(tmp_path: Path) -> None:
    module = qat.prepare(spec(), BUILDERS[0], {"group_size": "32"})
    other = BUILDERS[0](RecipeContext(Options({"group_size": "64"}), "//r:recipe"))
    with pytest.raises(
        BuildError, match="was prepared for another recipe: got .*32.*expected .*64"
    ):
        lowered(other, spec(), saved(module, tmp_path))


def test_observers_of_another_recipe(tmp_path: Path) -> None:
    """They have the same names, and take scales of any shape."""
    checkpoint = saved(qat.prepare(spec(), xnnpack_recipes.int8_static_per_tensor), tmp_path)
    with pytest.raises(BuildError, match=r"another recipe: got .*per_tensor_sym.*per_channel_sym"):
        lowered(made(xnnpack_recipes.int8_static_per_channel), spec(), checkpoint)


@pytest.mark.parametrize(
    ("builder", "lacking"),
    [(BUILDERS[0], "qat_configuration"), (BUILDERS[1], "activation_post_process_0.")],
)
def test_a_checkpoint_that_was_not_prepared(builder: Any, lacking: str, tmp_path: Path) -> None:
    checkpoint = saved(spec().methods["forward"].module, tmp_path)
    with pytest.raises(BuildError) as caught:
        lowered(made(builder), spec(), checkpoint)
    message = str(caught.value)
    assert message.startswith(
        "//m:net_qat: trained_checkpoint: trained.safetensors is not of the module that this "
        f"recipe prepares: it lacks {lacking}"
    )
    assert message.endswith(
        "Train the module that ettune.qat.prepare returns for this model and recipe, and save its "
        "state_dict."
    )


def test_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    wide = ModelSpec({"forward": Method(nn.Sequential(nn.Linear(64, 32)), (torch.ones(1, 64),))})
    checkpoint = saved(qat.prepare(wide, BUILDERS[0]), tmp_path)
    with pytest.raises(BuildError, match=r"lacks first\.bias, .*, and has 0\.bias, 0\.weight"):
        lowered(made(BUILDERS[0]), spec(), checkpoint)
    narrow = ModelSpec({"forward": Method(nn.Sequential(nn.Linear(32, 32)), (torch.ones(1, 32),))})
    with pytest.raises(BuildError, match=r"does not fit: .*size mismatch for 0.weight"):
        lowered(made(BUILDERS[0]), narrow, checkpoint)


def test_no_state(tmp_path: Path) -> None:
    checkpoint = tmp_path / "list.pt"
    torch.save([torch.ones(1)], checkpoint)
    with pytest.raises(BuildError, match=r"list.pt: got a list, expected tensors by name"):
        lowered(made(BUILDERS[0]), spec(), checkpoint)
    torch.save({"qat_configuration": "text", 1: torch.ones(1)}, checkpoint)
    with pytest.raises(BuildError, match=r"got a dict with other things, expected tensors by name"):
        lowered(made(BUILDERS[0]), spec(), checkpoint)


def test_recipes_that_cannot_be_trained_for() -> None:
    with pytest.raises(BuildError, match="quantizes nothing"):
        qat.prepare(spec(), xnnpack_recipes.fp32)
    with pytest.raises(BuildError, match="has no quantizers for training: its is_qat is false"):
        qat.prepare(spec(), made(BUILDERS[1], qat=False))
    with pytest.raises(BuildError, match="has no train_fn"):
        lowered(made(BUILDERS[1]), spec(), None)


def test_models_that_cannot_be_trained() -> None:
    method = spec().methods["forward"]
    with pytest.raises(BuildError, match="one method: got decode, prefill"):
        qat.prepare(ModelSpec({"prefill": method, "decode": method}), BUILDERS[0])
    program = torch.export.export(method.module, method.example_inputs)
    with pytest.raises(BuildError, match="is exported already"):
        qat.prepare(ModelSpec({"forward": Method(program, ())}), BUILDERS[0])
