"""fuzz_corpus: whole files of every kind that has a reader, made out of programs."""

load("//rules:providers.bzl", "EtProgramInfo")

def _corpus_impl(ctx):
    output = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add_all("--output", [output], expand_directories = False)
    inputs = []
    for program in ctx.attr.programs:
        info = program[EtProgramInfo]
        of_program = [info.program, info.own_data, info.manifest, info.lowered.directory]
        args.add_all("--program", of_program, expand_directories = False)
        inputs += of_program
    ctx.actions.run(
        executable = ctx.executable._tool,
        arguments = [args],
        inputs = inputs,
        outputs = [output],
        mnemonic = "EtFuzzCorpus",
        progress_message = "Making whole files for %{label}",
        env = {"PYTHONHASHSEED": "0"},
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

fuzz_corpus = rule(
    implementation = _corpus_impl,
    doc = "A folder with a folder for each kind of tests/fuzz/kinds.py.",
    attrs = {
        "programs": attr.label_list(
            mandatory = True,
            providers = [EtProgramInfo],
            doc = "et_program targets with weights = \"separate\".",
        ),
        "_tool": attr.label(default = ":make_corpus", executable = True, cfg = "exec"),
    },
)
