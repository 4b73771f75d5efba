"""Pages of reference: generated from docstrings, checked in, and tested to be current."""

load("@bazel_skylib//rules:diff_test.bzl", "diff_test")
load("@bazel_skylib//rules:run_binary.bzl", "run_binary")

PAGES = [
    "etbuild",
    "ettune",
    "java",
    "llm",
    "mobile",
    "providers",
    "rules",
    "setup",
    "tuning",
]

# What describes a package, in its folder.
_PACKAGES = [
    "__init__.py",
    "package-info.java",
]

# What our files load from others.
_OTHERS = [
    "@bazel_tools//tools:bzl_srcs",
    "@rules_cc//cc/common",
    "@rules_python//python:defs_bzl",
]

def extract(name, src, deps):
    """The docstrings of a .bzl file: `<name>.binaryproto`.

    Args:
      name: of the target.
      src: label of the file.
      deps: bzl_library targets of it and of all that it loads from this repository.
    """
    native.starlark_doc_extract(
        name = name,
        src = src,
        render_main_repo_name = True,
        visibility = ["//tests/docs:__pkg__"],
        deps = deps + _OTHERS,
    )

def page(name, title, extracted = [], package = [], rules = [], symbols = [], without = []):
    """`<name>.md` as it should be, and a test that the one in the sources is.

    Args:
      name: of the page.
      title: its heading.
      extracted: targets of `extract`.
      package: instead: the files of a package for Python or Java.
      rules: targets of `extract` with the rules beneath macros: the attributes of the rule `x_rule` are
        those of the macro `x`.
      symbols: names that it shows; default: all.
      without: names that it leaves out.
    """
    run_binary(
        name = name,
        srcs = extracted + package + rules,
        outs = ["generated/%s.md" % name],
        args = [
                   "--title=" + title,
                   "--output=$(execpath generated/%s.md)" % name,
               ] + ["--symbol=" + symbol for symbol in symbols] +
               ["--without=" + symbol for symbol in without] +
               ["--package=$(execpath %s)" % file for file in package if file.split(":")[-1].split("/")[-1] in _PACKAGES] +
               ["--rules=$(execpath %s)" % target for target in rules] +
               ["$(execpath %s)" % target for target in extracted],
        tool = "//tools/dev/reference:render",
        visibility = ["//docs:__pkg__"],
    )
    diff_test(
        name = name + "_test",
        failure_message = "Run: bazel run //docs:update",
        file1 = name + ".md",
        file2 = "generated/%s.md" % name,
    )
