"""Tests of EtModelInfo, EtProgramInfo and outputs."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtLoweredInfo", "EtModelInfo", "EtProgramInfo")

def _names(files):
    return sorted([f.basename for f in files.to_list()])

def _program_outputs_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    name = target.label.name
    asserts.equals(env, sorted(ctx.attr.default), _names(target[DefaultInfo].files))
    checked = [name + ".manifest.json"]
    runfiles = _names(target[DefaultInfo].default_runfiles.files)
    asserts.equals(env, sorted(ctx.attr.default + checked), runfiles)
    groups = target[OutputGroupInfo]
    asserts.equals(env, checked, _names(groups.manifest))
    asserts.equals(env, [name + ".bpte"], _names(groups.bundled))
    asserts.equals(env, [name + ".etrecord"], _names(groups.etrecord))
    asserts.equals(env, [name + ".report.html", name + ".report.json"], _names(groups.report))
    lowered = groups.lowered.to_list()
    asserts.equals(env, [name + ".lowered"], [f.basename for f in lowered])
    asserts.true(env, lowered[0].is_directory, "the lowered program is no directory")

    info = target[EtProgramInfo]
    asserts.equals(env, name + ".pte", info.program.basename)
    data = [file for file in sorted(ctx.attr.default) if file.endswith(".ptd")]
    asserts.equals(env, data, _names(info.data_files))
    asserts.equals(env, target.label, info.label)
    asserts.equals(env, ctx.attr.backends, [b.id for b in info.backends.to_list()])
    asserts.equals(env, ctx.attr.methods, target[EtLoweredInfo].methods)
    asserts.equals(env, lowered[0], info.lowered.directory)
    asserts.equals(env, ctx.attr.model, info.model.label.name)
    return analysistest.end(env)

program_outputs_test = analysistest.make(
    _program_outputs_impl,
    attrs = {
        "backends": attr.string_list(doc = "Names of the backends, in order."),
        "default": attr.string_list(doc = "Names of the default outputs."),
        "methods": attr.string_list(doc = "The methods asked for."),
        "model": attr.string(doc = "Name of the model's target."),
    },
)

def _model_impl(ctx):
    env = analysistest.begin(ctx)
    model = analysistest.target_under_test(env)[EtModelInfo]
    asserts.equals(env, "tests.analysis.net:build", model.entry_point)
    asserts.equals(env, ["library.py", "net.py", "weights.txt"], _names(model.files))
    info = model.lowerable
    asserts.equals(env, "tests.analysis.net:build", info.entry_point)
    asserts.equals(env, {"width": "8"}, info.args)
    asserts.equals(env, ["weights.txt"], _names(info.data))

    # Data lies beside the sources, too: code that looks beside __file__ finds it.
    asserts.equals(env, ["library.py", "net.py", "weights.txt"], _names(info.sources))

    # Imports of its own first, then its repository, then what its libraries bring.
    asserts.equals(
        env,
        ["_main/tests/analysis/more", "_main", "_main/tests/analysis/imported"],
        info.roots,
    )
    asserts.equals(env, 3000, info.memory_mb)
    return analysistest.end(env)

model_test = analysistest.make(_model_impl)
