"""Tests of the tags of models of the Hugging Face hub."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//toolchains/huggingface:tag.bzl", "check_tag")

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_SHA256 = _COMMIT + "89abcdef0123456789abcdef"

def _good_tag_impl(ctx):
    env = unittest.begin(ctx)
    for repo in ("gpt2", "HuggingFaceTB/SmolLM2-135M-Instruct", "org/a_b.c-1.5B"):
        check_tag(
            name = "net",
            repo = repo,
            revision = _COMMIT,
            files = {"1_Pooling/config.json": _SHA256, "model-00001-of-00002.safetensors": _SHA256},
            license = "Apache-2.0 AND (MIT OR LicenseRef-llama3.2)",
        )
    asserts.equals(env, 64, len(_SHA256))
    return unittest.end(env)

good_tag_test = unittest.make(_good_tag_impl)

def _wrong_tag_impl(ctx):
    check_tag(
        name = "net",
        repo = ctx.attr.repo,
        revision = ctx.attr.revision,
        files = {path: ctx.attr.sha256 for path in ctx.attr.paths},
        license = ctx.attr.license,
    )

wrong_tag = rule(
    implementation = _wrong_tag_impl,
    doc = "Checks a tag, as the module extension does.",
    attrs = {
        "license": attr.string(default = "MIT"),
        "paths": attr.string_list(default = ["model.safetensors"]),
        "repo": attr.string(default = "org/net"),
        "revision": attr.string(default = _COMMIT),
        "sha256": attr.string(default = _SHA256),
    },
)
