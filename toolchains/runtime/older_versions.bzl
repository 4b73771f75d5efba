"""older_versions: the older runtimes that tests can name."""

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
