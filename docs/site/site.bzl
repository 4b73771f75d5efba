"""site: pages in Markdown as a site of HTML files."""

def _site_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add("--config", ctx.file.config)
    args.add_all([folder], before_each = "--output", expand_directories = False)
    args.add_all(ctx.files.pages)
    ctx.actions.run(
        executable = ctx.executable.tool,
        arguments = [args],
        inputs = [ctx.file.config] + ctx.files.pages,
        outputs = [folder],
        mnemonic = "Site",
        progress_message = "Building the site %{label}",
        env = {
            "PYTHONHASHSEED": "0",
            # A site of the same pages is the same bytes.
            "SOURCE_DATE_EPOCH": "0",
        },
    )
    return [DefaultInfo(files = depset([folder]))]

site = rule(
    implementation = _site_impl,
    doc = "A folder of HTML files, written by MkDocs. Dead links are errors.",
    attrs = {
        "config": attr.label(allow_single_file = [".yml"], mandatory = True, doc = "MkDocs's configuration."),
        "pages": attr.label_list(allow_files = [".md", ".svg", ".png"], mandatory = True, doc = "README.md and files of docs."),
        "tool": attr.label(executable = True, cfg = "exec", mandatory = True, doc = "build_site.py."),
    },
)
