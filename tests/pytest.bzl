"""pytest_test: runs a folder's pytest files through py_test."""

load("@rules_python//python:defs.bzl", "py_test")

def pytest_test(
        *,
        name,
        srcs,
        deps = [],
        torch = False,
        fast_path = False,
        data = [],
        env = {},
        release = False,
        release_shards = None,
        tags = [],
        **kwargs):
    """A py_test whose sources pytest collects.

    Args:
      name: of the test.
      srcs: pytest files, and conftest.py or helpers beside them.
      deps: py_library targets.
      torch: whether it needs the exporter environment (torch, executorch).
      fast_path: whether it lowers by the fast path, as the exporter does; with `torch` alone.
      data: files that it reads.
      env: variables.
      release: whether some tests have the mark `release` or `few`, so that the target `<name>_release` runs the rest.
      release_shards: in how many shards that target runs them; None: in one.
      tags: of the test.
      **kwargs: for py_test: size, args, …
    """
    environments = ["@executorch_exporter//:packages"] if torch else ["@executorch_exporter//:light_packages"]
    selections = [(name, {"PYTEST_SELECTION": "not release"} if release else {}, [], None)]
    if fast_path:
        env = env | {"FAST_PATH": "1"}
    if release:
        selections.append((name + "_release", {"PYTEST_SELECTION": "release"}, ["manual"], release_shards))
    for target, selection, more_tags, shards in selections:
        py_test(
            name = target,
            srcs = srcs + [Label("//tests:pytest_main.py")],
            args = ["$(rootpath %s)" % s for s in srcs if s.split("/")[-1].startswith("test_")],
            data = data,
            env = env | selection,
            main = Label("//tests:pytest_main.py"),
            shard_count = shards,
            tags = tags + more_tags,
            deps = deps + environments + ["@executorch_dev//:packages"],
            **kwargs
        )

def bazel_test(*, name, srcs, data = [], memory_mb = 6000, tags = [], **kwargs):
    """A pytest_test that starts Bazel itself, with what Bazel needs of the machine.

    Args:
      name: of the test.
      srcs: pytest files, and helpers beside them.
      data: files that it reads, beside bazelw.
      memory_mb: what its processes take: by default, those of one Bazel server and an exporter.
      tags: more tags: "manual" for what only //tests:release runs.
      **kwargs: for pytest_test.
    """
    pytest_test(
        name = name,
        srcs = srcs,
        data = ["//:bazelw"] + data,
        env_inherit = [
            "BAZEL",
            "HOME",
            "PATH",
            "USER",
            "XDG_CACHE_HOME",
        ],
        tags = tags + [
            "local",
            "requires-network",
            "resources:memory:%d" % memory_mb,
        ],
        **kwargs
    )
