"""sources: the source files that targets are made of."""

SourcesInfo = provider(
    doc = "Source files of a target and of what it depends on.",
    fields = {"files": "Depset of Files of the main repository."},
)

_FOLLOWED = ["data", "deps", "implementation_deps", "srcs"]

def _collect_impl(_target, ctx):
    own = []
    for name in ("srcs", "hdrs", "textual_hdrs"):
        own += [f for f in getattr(ctx.rule.files, name, []) if f.is_source and not f.owner.repo_name]
    transitive = []
    for name in _FOLLOWED:
        for dep in getattr(ctx.rule.attr, name, None) or []:
            if type(dep) == "Target" and SourcesInfo in dep:
                transitive.append(dep[SourcesInfo].files)
    return [SourcesInfo(files = depset(own, transitive = transitive))]

_collect = aspect(
    implementation = _collect_impl,
    attr_aspects = _FOLLOWED,
    doc = "Collects source files.",
)

def _sources_impl(ctx):
    files = depset(transitive = [t[SourcesInfo].files for t in ctx.attr.of])
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

sources = rule(
    implementation = _sources_impl,
    doc = "Source files of targets, all in the main repository.",
    attrs = {
        "of": attr.label_list(aspects = [_collect], doc = "Targets; what they depend on counts, too."),
    },
)
