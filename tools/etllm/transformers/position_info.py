"""Numbers that a decoder gets of a position beside its embedding."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from etbuild import BuildError
from torch.nn import functional

from etllm.transformers.pretrained import parameters_of, with_method

# Time, row and column.
_AXES = 3
_HINT = "Take a model whose text goes on behind an image, or declare it with et_model."


class PositionInfo:
    """Numbers that the decoder has to know of a position: here, none.

    Attributes:
      width: how many numbers it is.
    """

    width = 0

    def of_text(self, count: int) -> torch.Tensor:
        """Of tokens: float32 (1, count, width)."""
        return torch.zeros(1, count, self.width)

    def of_media(self, count: int) -> torch.Tensor:
        """Of an image or a recording: float32 (1, count, width)."""
        return torch.zeros(1, count, self.width)

    def arguments(
        self, info: torch.Tensor, start: torch.Tensor, positions: torch.Tensor | None
    ) -> dict[str, Any]:
        """Arguments of the model.

        Args:
          info: of the positions that a call reads.
          start: how many positions the cache has before them, a scalar.
          positions: the buffer of all positions before them, or None.
        """
        return {}


class BlockInfo(PositionInfo):
    """One number: 1 for a position of an image, whose positions attend to each other."""

    width = 1

    def __init__(self, config: Any, length: int) -> None:
        self.window = getattr(config, "sliding_window", None)
        self.length = length

    def of_media(self, count: int) -> torch.Tensor:
        return torch.ones(1, count, 1)

    def arguments(
        self, info: torch.Tensor, start: torch.Tensor, positions: torch.Tensor | None
    ) -> dict[str, Any]:
        queries = (torch.arange(info.shape[1]) + start).view(-1, 1)
        keys = torch.arange(self.length).view(1, -1)
        # A call reads one part of a prompt: what is read with a position of an image is the image.
        block = (info[0] > 0) & (keys >= start) & (keys < start + info.shape[1])
        seen = (keys <= queries) | block
        masks = {"full_attention": seen}
        if self.window:
            masks["sliding_attention"] = seen & (keys > queries - self.window)
        least = torch.finfo(torch.float32).min
        additive = {name: torch.where(mask, 0.0, least)[None, None] for name, mask in masks.items()}
        return {"attention_mask": additive}


class PlaceInfo(PositionInfo):
    """The place of a position in its part of the prompt: in Qwen-VL's case time, row and column.

    Args:
      places: of a picture's or recording's embeddings, counted from its first: int64 (n, axes).
    """

    def __init__(self, places: torch.Tensor) -> None:
        self.places = places.contiguous()
        self.width = places.shape[1]

    def of_text(self, count: int) -> torch.Tensor:
        return torch.arange(count).to(torch.float32).view(1, -1, 1).expand(1, count, self.width)

    def of_media(self, count: int) -> torch.Tensor:
        return self.places.to(torch.float32)[None]

    def arguments(
        self, info: torch.Tensor, start: torch.Tensor, positions: torch.Tensor | None
    ) -> dict[str, Any]:
        before = torch.arange(positions.shape[1]) < start
        # After an image, text goes on behind its longer side.
        first = torch.where(before, positions.amax(0), -1).amax() + 1
        placed = info[0].to(torch.long).transpose(0, 1) + first
        positions.index_copy_(1, torch.arange(info.shape[1]) + start, placed)
        return {"position_ids": placed.unsqueeze(1)}


def position_info_of(
    model: Any, grid: tuple[int, int, int] | None, count: int, length: int
) -> PositionInfo:
    """Makes what an architecture needs.

    Args:
      grid: moments, rows and columns of an image's patches; None: it has no such grid.
      count: how many positions an image or a recording takes.
      length: how many positions the decoder's cache keeps.
    """
    text = model.config.get_text_config(decoder=True)
    if with_method(model, "get_rope_index") is not None:
        return PlaceInfo(_places(model, grid, count))
    if getattr(text, "use_bidirectional_attention", None) is True:
        raise BuildError(
            f"{type(model).__name__}: positions of a prompt read those after them "
            "(use_bidirectional_attention), expected that each part reads what is before it.",
            "Take a model of another architecture: ExecuTorch's runner reads one part a call.",
        )
    forward = inspect.signature(type(model).forward).parameters
    if "token_type_ids" in forward:
        return BlockInfo(text, length)
    return PositionInfo()


def _places(model: Any, grid: tuple[int, int, int] | None, count: int) -> torch.Tensor:
    """Returns the places of an image's or a recording's positions, by the model's own function.

    Returns:
      int64 (count, axes), counted from its first position.

    Raises:
      BuildError: they are not counted from the image's first position, or text does not go on
        behind the largest of them.
    """
    if grid is None:
        return torch.arange(count).view(-1, 1).expand(-1, _AXES)
    owner = with_method(model, "get_rope_index")
    if "mm_token_type_ids" not in parameters_of(owner, "get_rope_index"):
        # It looks for the tokens around the images; the positions are those of Qwen2-VL.
        merged = model.config.vision_config.spatial_merge_size
        sizes = (grid[0], grid[1] // merged, grid[2] // merged)
        places = torch.meshgrid(*(torch.arange(size) for size in sizes), indexing="ij")
        return torch.stack(places, dim=-1).reshape(count, _AXES)
    places = [_places_behind(model, owner, grid, count, tokens) for tokens in (2, 5)]
    if not torch.equal(*places):
        raise BuildError(
            f"{type(model).__name__}: get_rope_index: an image's places depend on where it is, "
            "expected that they are counted from its first.",
            _HINT,
        )
    return places[0]


def _places_behind(
    model: Any, owner: Any, grid: tuple[int, int, int], count: int, tokens: int
) -> torch.Tensor:
    """Places of an image, less the number of tokens of text before it, of which 2 are behind it."""
    types = functional.pad(torch.ones(1, count, dtype=torch.int), (tokens, 2))
    ids = types.long() * model.config.image_token_id
    found, _ = owner.get_rope_index(ids, types, image_grid_thw=torch.tensor([grid]))
    before, places, after = found[:, 0].transpose(0, 1).split([tokens, count, 2])
    around = torch.cat([before, after - places.amax() - 1 + tokens])
    if not torch.equal(around, torch.arange(tokens + 2).view(-1, 1).expand_as(around)):
        raise BuildError(
            f"{type(model).__name__}: get_rope_index: the text behind an image begins at "
            f"{after[0].tolist()}, expected the position after the image's last, "
            f"{int(places.amax()) + 1}.",
            _HINT,
        )
    return places - tokens
