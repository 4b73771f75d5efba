"""Tests of the URLs of files that are pinned by hash."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//toolchains/exporter:downloads.bzl", "LOCK_COMMENT", "chosen_file", "file_name", "merged_file_urls", "parse_file_urls")

_A, _B, _C = "a" * 64, "b" * 64, "c" * 64

_LIST = """# A comment.
https://one.example/x.whl#sha256={a}

https://two.example/x.whl#sha256={a}
""".format(a = _A)

_LOCK = """demo==1.0 \\
    --hash=sha256:{a}
# file: https://one.example/demo-1.0-py3-none-any.whl#sha256={a}
# Another comment.
""".format(a = _A)

def _lists_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(
        env,
        {_A: ["https://one.example/x.whl", "https://two.example/x.whl"]},
        parse_file_urls(_LIST, "list.txt"),
    )
    asserts.equals(
        env,
        {_A: ["https://one.example/demo-1.0-py3-none-any.whl"]},
        parse_file_urls(_LOCK, "lock.txt", LOCK_COMMENT),
    )
    asserts.equals(env, {_A: ["1", "2"], _B: ["3"]}, merged_file_urls([{_A: ["1"]}, {_A: ["1", "2"], _B: ["3"]}]))
    return unittest.end(env)

lists_test = unittest.make(_lists_impl)

def _choice_impl(ctx):
    env = unittest.begin(ctx)
    arm = "https://x.example/e-1-cp311-cp311-manylinux_2_28_aarch64.whl"
    intel = "https://x.example/e-1-cp311-cp311-manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl"
    urls = {_A: [arm], _B: [intel], _C: ["https://x.example/any-1-py3-none-any.whl"]}

    def chosen(sha256, platform = ""):
        file = chosen_file(sha256, urls, platform)
        return file.urls[0] if file else None

    asserts.equals(env, "a-1+cpu-py3-none-any.whl", file_name("https://x/y/a-1%2Bcpu-py3-none-any.whl?q#f"))
    asserts.equals(env, arm, chosen([_A]))
    asserts.equals(env, None, chosen(["d" * 64]))
    asserts.equals(env, None, chosen([_A, _B]))
    asserts.equals(env, intel, chosen([_A, _B], "manylinux_2_28_x86_64"))
    asserts.equals(env, arm, chosen([_A, _B], "manylinux_2_28_aarch64"))
    asserts.equals(env, None, chosen([_A, _B], "macosx_14_0_arm64"))
    asserts.equals(env, urls[_C][0], chosen([_A, _C], "macosx_14_0_arm64"))
    return unittest.end(env)

choice_test = unittest.make(_choice_impl)

def _malformed_url_impl(_ctx):
    parse_file_urls("# A list.\nhttps://one.example/x.whl#sha256=12", "//:urls.txt")

malformed_url = rule(
    implementation = _malformed_url_impl,
    doc = "Reads a list of URLs with a line that has no whole hash.",
)
