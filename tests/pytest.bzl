"""pytest_test: runs a folder's pytest files through py_test."""

load("@rules_python//python:defs.bzl", "py_test")

def pytest_test(*, name, srcs, deps = [], torch = False, data = [], **kwargs):
    """A py_test whose sources pytest collects.

    Args:
      name: of the test.
      srcs: pytest files, and conftest.py or helpers beside them.
      deps: py_library targets.
      torch: whether it needs the exporter environment (torch, executorch).
      data: files that it reads.
      **kwargs: for py_test: size, tags, env, …
    """
    environments = ["@executorch_exporter//:packages"] if torch else ["@executorch_exporter//:light_packages"]
    py_test(
        name = name,
        srcs = srcs + [Label("//tests:pytest_main.py")],
        args = ["$(rootpath %s)" % s for s in srcs if s.split("/")[-1].startswith("test_")],
        data = data,
        main = Label("//tests:pytest_main.py"),
        deps = deps + environments + ["@executorch_dev//:packages"],
        **kwargs
    )

def bazel_test(*, name, srcs, data = [], alone = False, **kwargs):
    """A pytest_test that starts Bazel itself, with what Bazel needs of the machine.

    Args:
      name: of the test.
      srcs: pytest files, and helpers beside them.
      data: files that it reads, beside bazelw.
      alone: whether no other test may run meanwhile.
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
        tags = [
            "local",
            "requires-network",
            # A Bazel server and an exporter.
            "resources:memory:6000",
        ] + (["exclusive"] if alone else []),
        **kwargs
    )
