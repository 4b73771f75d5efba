"""fuzz_corpus: whole files of every kind that has a reader, made out of programs."""

def _corpus_impl(ctx):
    output = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add_all("--output", [output], expand_directories = False)
    inputs = []
    for program in ctx.attr.programs:
        files = {f.basename.partition(".")[2]: f for f in program[DefaultInfo].files.to_list()}
        lowered = program[OutputGroupInfo].lowered.to_list()
        of_program = [files["pte"], files["ptd"], files["manifest.json"]] + lowered
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
            doc = "et_program targets with weights = \"separate\".",
        ),
        "_tool": attr.label(default = ":make_corpus", executable = True, cfg = "exec"),
    },
)
