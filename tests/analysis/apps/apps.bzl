"""Tests of apps: what they are made of, and that platforms share programs."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("//rules:providers.bzl", "EtAppInfo")
load("//rules/private:app_files.bzl", "license_paths")
load("//tests/analysis:actions.bzl", "actions_by_mnemonic")

def _app_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    info = target[EtAppInfo]
    asserts.equals(env, ctx.attr.platform, info.platform)
    actions = actions_by_mnemonic(env)
    asserts.equals(env, 1, len(actions["EtFit"]))
    asserts.equals(env, 1, len(actions["EtApp"]))
    asserts.equals(env, 1, len(actions["EtPackage"]))
    asserts.false(env, "EtLower" in actions, "an app lowers nothing")

    # One program, whatever the platform: the files are those of the build's own configuration.
    plain = ctx.attr.same_program[EtAppInfo].programs
    asserts.equals(env, [p.program for p in plain], [p.program for p in info.programs])
    asserts.equals(
        env,
        [p.lowered.directory for p in plain],
        [p.lowered.directory for p in info.programs],
    )
    inputs = [f.basename for f in actions["EtApp"][0].inputs.to_list()]
    for name in ctx.attr.inputs:
        asserts.equals(env, [name], [f for f in inputs if f == name])
    asserts.equals(env, ctx.attr.archive, info.archive.basename)
    default = [f.basename for f in target[DefaultInfo].files.to_list()]
    asserts.equals(env, sorted([target.label.name, ctx.attr.archive]), sorted(default))
    return analysistest.end(env)

app_test = analysistest.make(
    _app_impl,
    attrs = {
        "archive": attr.string(doc = "Name of the archive."),
        "inputs": attr.string_list(doc = "Names of files that the app is made of, once each."),
        "platform": attr.string(doc = "Name of the app's platform."),
        "same_program": attr.label(
            doc = "An app for another platform, of the same programs.",
            providers = [EtAppInfo],
        ),
    },
)

def _compilation_impl(ctx):
    env = analysistest.begin(ctx)
    compilations = [a for a in analysistest.target_actions(env) if a.mnemonic == "CppCompile"]
    flags_by_source = {}
    for action in compilations:
        for source in ctx.attr.flags:
            if source in [word.split("/")[-1] for word in action.argv]:
                # A toolchain has a standard of its own; the last one counts.
                flags_by_source[source] = ([word for word in action.argv if word == "-std=c++17"] or [""])[-1]
    asserts.equals(env, ctx.attr.flags, flags_by_source)
    return analysistest.end(env)

compilation_test = analysistest.make(
    _compilation_impl,
    attrs = {
        "flags": attr.string_dict(doc = "Name of a source to the standard of its language in the command line."),
    },
)

def _app_actions_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    asserts.false(env, "EtScan" in actions, "an app reads libraries that others have, too")
    folder = analysistest.target_under_test(env).label.package + "/"
    (fit,) = actions["EtFit"]
    registered = [
        file.short_path.removeprefix(folder)
        for file in fit.inputs.to_list()
        if file.basename.endswith(".registered")
    ]
    asserts.equals(env, sorted(ctx.attr.inputs_of_fit), sorted(registered))
    (app,) = actions["EtApp"]
    licenses = [word.split("=")[0] for word in app.argv if word.startswith("app/tests/")]
    asserts.equals(env, ctx.attr.license_paths, licenses)
    return analysistest.end(env)

app_actions_test = analysistest.make(
    _app_actions_impl,
    attrs = {
        "inputs_of_fit": attr.string_list(doc = "Files with what libraries register, relative to the app's package."),
        "license_paths": attr.string_list(doc = "Paths of the runtime's licenses in the app."),
    },
)

def _license_file(repository, path):
    """A struct that stands for a File of a repository."""
    prefix = "../%s/" % repository if repository else ""
    return struct(owner = struct(repo_name = repository), short_path = prefix + path)

def _license_paths_impl(ctx):
    env = unittest.begin(ctx)
    files = {
        "app/LICENSE": _license_file("", "LICENSE"),
        "app/third_party/LICENSE": _license_file("", "third_party/LICENSE"),
        "one_ext_zlib/LICENSE": _license_file("one~ext~zlib", "LICENSE"),
        "oniguruma/license/COPYING": _license_file("rules~ext~oniguruma", "license/COPYING"),
        "two_ext_zlib/LICENSE": _license_file("two+ext+zlib", "LICENSE"),
    }
    asserts.equals(env, files, license_paths(files.values()))
    return unittest.end(env)

license_paths_test = unittest.make(_license_paths_impl)

def _benchmark_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    (script,) = [
        action
        for action in analysistest.target_actions(env)
        if [f.basename for f in action.outputs.to_list()] == [target.label.name]
    ]
    for words in ctx.attr.words:
        text = " ".join(["'%s'" % word for word in words.split(" ")])
        found = " ".join([line.strip(" \\") for line in script.content.split("\n")])
        asserts.true(env, text in found, "%s is not in %s" % (text, script.content))
    files = [f.basename for f in target[DefaultInfo].default_runfiles.files.to_list()]
    for name in ctx.attr.files:
        asserts.true(env, name in files, "%s is not among its files" % name)

    # It is as large as the program's weights, and caches may not have it.
    asserts.equals(env, [], [name for name in files if name.endswith(".lowered")])
    return analysistest.end(env)

benchmark_test = analysistest.make(
    _benchmark_impl,
    attrs = {
        "files": attr.string_list(doc = "Names of files in its runfiles."),
        "words": attr.string_list(doc = "Words of the script that follow each other."),
    },
)
