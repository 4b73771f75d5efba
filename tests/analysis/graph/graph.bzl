"""graph_test: what a query finds."""

load("@bazel_skylib//rules:diff_test.bzl", "diff_test")
load("@bazel_skylib//rules:write_file.bzl", "write_file")

def graph_test(*, name, expression, scope, edges):
    """Compares what a query finds with the labels that a person expects.

    Args:
      name: of the query; the test is called name_test.
      expression: of the query.
      scope: labels of targets whose dependencies it may look at.
      edges: list of strings: labels that it finds, by package and name.
    """
    native.genquery(
        name = name,
        expression = expression,
        scope = scope,
        tags = ["manual"],
    )
    write_file(
        name = name + "_expected",
        out = name + ".expected",
        content = edges + [""],
        tags = ["manual"],
    )
    diff_test(
        name = name + "_test",
        file1 = name + "_expected",
        file2 = name,
    )
