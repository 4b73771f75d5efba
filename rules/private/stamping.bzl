"""Stamping (`--stamp`), and the files that say what a build is a build of."""

StampingInfo = provider(
    doc = "State of `--stamp`.",
    fields = {"stamped": "Bool."},
)

def _stamping_impl(ctx):
    return [StampingInfo(stamped = ctx.attr.stamped)]

stamping = rule(
    implementation = _stamping_impl,
    doc = "Tells a rule, whose own attributes can't have a select(), of `--stamp`.",
    attrs = {"stamped": attr.bool(mandatory = True)},
)

STAMPING_ATTRIBUTES = {
    "stamp": attr.int(
        default = -1,
        doc = "1: always stamp. 0: never. -1: as `--stamp` says.",
        values = [-1, 0, 1],
    ),
    "_stamping": attr.label(
        default = "//rules/private:stamping",
        providers = [StampingInfo],
    ),
}

def status_files(ctx):
    """Bazel's files of the workspace's status, where the target is stamped.

    Args:
      ctx: context of a rule with STAMPING_ATTRIBUTES.

    Returns:
      struct(stable = File, volatile = File), or None. A change of the stable one runs actions again, a change
      of the volatile one doesn't.
    """
    stamped = ctx.attr.stamp == 1 or (ctx.attr.stamp == -1 and ctx.attr._stamping[StampingInfo].stamped)
    return struct(stable = ctx.info_file, volatile = ctx.version_file) if stamped else None
