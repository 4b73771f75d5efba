"""Origins of what apps hold, as package URLs, and licenses, as SPDX expressions; for SBOMs."""

EXECUTORCH_LICENSE = "BSD-3-Clause"

NLOHMANN_JSON_VERSION = "3.12.0"

# Of the C libraries in the sources of Python bindings, which have versions of their own.
_ONIGURUMA_VERSION = "6.9.10"
_QUICKJS_VERSION = "2021-03-27"

# What the runner is linked with.
RUNNER_PACKAGES = {
    "pkg:generic/quickjs@" + _QUICKJS_VERSION: "MIT",
    "pkg:github/kkos/oniguruma@v" + _ONIGURUMA_VERSION: "BSD-2-Clause",
    "pkg:pypi/nlohmann-json@" + NLOHMANN_JSON_VERSION: "MIT",
}
