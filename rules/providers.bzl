"""Providers: what rules and toolchains hand to each other. Their fields are part of the public interface."""

load(
    "//rules/private:providers.bzl",
    _EtAppInfo = "EtAppInfo",
    _EtAppPackageInfo = "EtAppPackageInfo",
    _EtAssetsInfo = "EtAssetsInfo",
    _EtBackendInfo = "EtBackendInfo",
    _EtLoweredInfo = "EtLoweredInfo",
    _EtModelInfo = "EtModelInfo",
    _EtProgramInfo = "EtProgramInfo",
    _EtRecipeInfo = "EtRecipeInfo",
    _EtReleaseInfo = "EtReleaseInfo",
    _EtSharedDataInfo = "EtSharedDataInfo",
    _EtVariantsInfo = "EtVariantsInfo",
)
load(
    "//toolchains/exporter:providers.bzl",
    _EtExporterInfo = "EtExporterInfo",
    _EtPackagesInfo = "EtPackagesInfo",
)
load(
    "//toolchains/runtime:providers.bzl",
    _EtRuntimeInfo = "EtRuntimeInfo",
    _EtRuntimeLibraryInfo = "EtRuntimeLibraryInfo",
)

EtAppInfo = _EtAppInfo
EtAppPackageInfo = _EtAppPackageInfo
EtAssetsInfo = _EtAssetsInfo
EtBackendInfo = _EtBackendInfo
EtExporterInfo = _EtExporterInfo
EtLoweredInfo = _EtLoweredInfo
EtModelInfo = _EtModelInfo
EtPackagesInfo = _EtPackagesInfo
EtProgramInfo = _EtProgramInfo
EtRecipeInfo = _EtRecipeInfo
EtReleaseInfo = _EtReleaseInfo
EtRuntimeInfo = _EtRuntimeInfo
EtRuntimeLibraryInfo = _EtRuntimeLibraryInfo
EtSharedDataInfo = _EtSharedDataInfo
EtVariantsInfo = _EtVariantsInfo
