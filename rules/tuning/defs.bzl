"""Recipes chosen layer by layer, and training with quantization."""

load("//rules/tuning:trained_checkpoint.bzl", _et_trained_checkpoint = "et_trained_checkpoint")
load("//rules/tuning:tuned_recipe.bzl", _et_tuned_recipe = "et_tuned_recipe")

et_trained_checkpoint = _et_trained_checkpoint
et_tuned_recipe = _et_tuned_recipe
