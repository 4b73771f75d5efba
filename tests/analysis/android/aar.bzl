"""Tests of what an AAR is made of."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//tests/analysis:actions.bzl", "actions_by_mnemonic")

def _aar_impl(ctx):
    env = analysistest.begin(ctx)
    (aar,) = actions_by_mnemonic(env)["EtPackage"]
    words = aar.argv
    classes = [words[i + 1].split("/")[-1] for i in range(len(words)) if words[i] == "--classes"]
    asserts.equals(env, [ctx.attr.classes], classes)
    libraries = [words[i + 1].split("=")[0] for i in range(len(words)) if words[i] == "--library"]
    asserts.equals(env, ctx.attr.libraries, libraries)
    return analysistest.end(env)

aar_test = analysistest.make(
    _aar_impl,
    attrs = {
        "classes": attr.string(doc = "Name of the .jar."),
        "libraries": attr.string_list(doc = "ABIs that have the classes' native functions."),
    },
)
