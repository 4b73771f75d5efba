"""Where what apps hold comes from, as package URLs, and its licences, as SPDX expressions; for SBOMs."""

EXECUTORCH_LICENSE = "BSD-3-Clause"

NLOHMANN_JSON_VERSION = "3.12.0"

# Of the C library in the source of its Python bindings, which have versions of their own.
_PCRE2_VERSION = "10.47"

# What the runner is linked with.
RUNNER_PACKAGES = {
    "pkg:github/pcre2project/pcre2@pcre2-" + _PCRE2_VERSION: "BSD-3-Clause WITH PCRE2-exception",
    "pkg:pypi/nlohmann-json@" + NLOHMANN_JSON_VERSION: "MIT",
}
