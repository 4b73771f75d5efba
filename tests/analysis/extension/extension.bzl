"""Tests of the repositories that tags of several modules declare."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//toolchains:repository_names.bzl", "is_new")
load("//toolchains:supported_hosts.bzl", "check_host")

_WEIGHTS = struct(requirement = "weights==1", sha256 = "1")

def _equal_tags_impl(ctx):
    env = unittest.begin(ctx)
    declared = {}
    found = [
        is_new(declared, name = name, module = module, tag = struct(requirement = "weights==1", sha256 = "1"))
        for name, module in [("weights", "app"), ("weights", "nets"), ("other", "nets")]
    ]
    asserts.equals(env, [True, False, True], found)
    return unittest.end(env)

equal_tags_test = unittest.make(_equal_tags_impl)

def _different_tags_impl(_ctx):
    declared = {}
    is_new(declared, name = "weights", module = "app", tag = _WEIGHTS)
    is_new(declared, name = "weights", module = "nets", tag = struct(requirement = "weights==2", sha256 = "2"))

different_tags = rule(
    implementation = _different_tags_impl,
    doc = "Declares one repository with tags of two modules, as a module extension would.",
)

def _hosts_impl(ctx):
    env = unittest.begin(ctx)
    for name in ("linux", "mac os x", "macos"):
        check_host(name)
    return unittest.end(env)

supported_hosts_test = unittest.make(_hosts_impl)

def _host_impl(ctx):
    check_host(ctx.attr.os_name)

other_host = rule(
    implementation = _host_impl,
    doc = "Loads the extension on a machine.",
    attrs = {"os_name": attr.string(doc = "Its operating system.")},
)
