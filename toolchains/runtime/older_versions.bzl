"""older_versions: the older runtimes that tests can name; and the transition that chooses one."""

EtOlderVersionsInfo = provider(
    doc = "Older runtimes that are bundled or that tags declare.",
    fields = {"versions": "List of strings: versions of ExecuTorch, sorted as text."},
)

older_versions = rule(
    implementation = lambda ctx: [EtOlderVersionsInfo(versions = ctx.attr.versions)],
    doc = "EtOlderVersionsInfo of the repository of older runtimes.",
    attrs = {"versions": attr.string_list(mandatory = True)},
    provides = [EtOlderVersionsInfo],
)

_VERSION = str(Label("//toolchains/runtime:older_version"))
_PLATFORMS = "//command_line_option:platforms"
_HOST_PLATFORM = "//command_line_option:host_platform"

def _older_transition_impl(settings, attr):
    # Tests run on the host's platform, whatever platform is built for.
    return {
        version: {_VERSION: version, _PLATFORMS: [settings[_HOST_PLATFORM]]}
        for version in attr.runtimes
    }

older_transition = transition(
    implementation = _older_transition_impl,
    inputs = [_HOST_PLATFORM],
    outputs = [_PLATFORMS, _VERSION],
)
