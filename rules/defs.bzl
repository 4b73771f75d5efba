"""Models, recipes, programs, shared data, apps and releases, and the environments they need."""

load("//rules:backend.bzl", _et_backend = "et_backend")
load("//rules:lowering.bzl", _et_lowering = "et_lowering")
load("//rules:model.bzl", _et_model = "et_model")
load("//rules:program.bzl", _et_program = "et_program")
load("//rules:program_test.bzl", _et_program_test = "et_program_test")
load("//rules:recipe.bzl", _et_recipe = "et_recipe")
load("//rules:release.bzl", _et_release = "et_release")
load("//rules:runner_app.bzl", _et_runner_app = "et_runner_app")
load("//rules:shared_data.bzl", _et_shared_data = "et_shared_data")
load("//rules:size_test.bzl", _et_size_test = "et_size_test")
load("//rules:variants.bzl", _et_variants = "et_variants")
load("//toolchains/exporter:exporter.bzl", _et_exporter = "et_exporter")
load("//toolchains/exporter:packages.bzl", _et_packages = "et_packages")
load("//toolchains/runtime:import.bzl", _et_runtime_import = "et_runtime_import")
load("//toolchains/runtime:library.bzl", _et_runtime_library = "et_runtime_library")
load("//toolchains/runtime:toolchain.bzl", _et_runtime_toolchain = "et_runtime_toolchain")

et_backend = _et_backend
et_exporter = _et_exporter
et_lowering = _et_lowering
et_model = _et_model
et_packages = _et_packages
et_program = _et_program
et_program_test = _et_program_test
et_recipe = _et_recipe
et_release = _et_release
et_runner_app = _et_runner_app
et_runtime_import = _et_runtime_import
et_runtime_library = _et_runtime_library
et_runtime_toolchain = _et_runtime_toolchain
et_shared_data = _et_shared_data
et_size_test = _et_size_test
et_variants = _et_variants
