"""platform_transition: what an app links is built for the app's platform; its programs are not."""

load("//toolchains/runner:with_compiler.bzl", "with_compiler")

_PLATFORMS = "//command_line_option:platforms"

def _platform_transition_impl(settings, attr):
    if not attr.platform:
        return {_PLATFORMS: with_compiler(settings[_PLATFORMS])}
    return {_PLATFORMS: [attr.platform]}

platform_transition = transition(
    implementation = _platform_transition_impl,
    inputs = [_PLATFORMS],
    outputs = [_PLATFORMS],
)
