"""Makes ExecuTorch 1.4 look like the exporter's version to this package.

Its recipes lack the fields of 1.5 for training and for passes around quantization. As attributes
of the class, they have their defaults.
"""

from __future__ import annotations

from executorch.export import QuantizationRecipe

_FIELDS = {
    "calibration_inputs_fn": None,
    "dynamic_batch_size": False,
    "is_qat": False,
    "post_convert_passes": None,
    "post_prepare_passes": None,
    "pre_convert_passes": None,
    "pre_prepare_passes": None,
    "train_fn": None,
}


def add_missing_fields() -> None:
    """Adds the fields that recipes of this exporter's version lack."""
    for name, default in _FIELDS.items():
        if not hasattr(QuantizationRecipe, name):
            setattr(QuantizationRecipe, name, default)
