"""The eager model of a target."""

from __future__ import annotations

import logging
from pathlib import Path

from etbuild import BuildError, ModelSpec
from etexport import failure, sources
from etexport.progress import Progress

from etcli.console import waiting
from etcli.measure.target import Target


def load(given: Target, work: Path) -> ModelSpec:
    """The model that a program was made from.

    Args:
      given: the target.
      work: a folder for its sources.

    Raises:
      BuildError: its code fails; the message is what a lowering's would be.
    """
    # Upstream's imports warn of their own internals; who evaluates a model has no use for that.
    logging.getLogger("torch").setLevel(logging.ERROR)
    tree, progress = work / "sources", Progress()
    sources.install(tree, given.request.sources, given.request.roots)
    try:
        with waiting(f"Loading {given.request.model_label}"), progress.stage("load"):
            from etexport import lower, model

            lower.settle()
            return model.load_spec(given.request)
    except Exception as error:
        text = failure.message(error, given.label, progress, tree, None)
        raise BuildError(text.removeprefix("ERROR: ").strip()) from error
