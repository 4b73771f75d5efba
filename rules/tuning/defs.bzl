"""Cost of quantization by layer, recipes chosen for each layer, and training with quantization."""

load("//rules/tuning:sensitivity.bzl", _et_sensitivity = "et_sensitivity")
load("//rules/tuning:trained_checkpoint.bzl", _et_trained_checkpoint = "et_trained_checkpoint")
load("//rules/tuning:tuned_recipe.bzl", _et_tuned_recipe = "et_tuned_recipe")

et_sensitivity = _et_sensitivity
et_trained_checkpoint = _et_trained_checkpoint
et_tuned_recipe = _et_tuned_recipe
