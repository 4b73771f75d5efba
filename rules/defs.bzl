"""Everything that a user loads."""

load("//rules:backend.bzl", _et_backend = "et_backend")
load("//rules:model.bzl", _et_model = "et_model")
load("//rules:program.bzl", _et_program = "et_program")
load("//rules:program_test.bzl", _et_program_test = "et_program_test")
load("//rules:recipe.bzl", _et_recipe = "et_recipe")
load("//toolchains/exporter:exporter.bzl", _et_exporter = "et_exporter")

et_backend = _et_backend
et_exporter = _et_exporter
et_model = _et_model
et_program = _et_program
et_program_test = _et_program_test
et_recipe = _et_recipe
