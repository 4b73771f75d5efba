"""executorch.hugging_face(): its tag, and the repositories that the tags of all modules declare."""

load("//toolchains/exporter:text_files.bzl", "text_files")
load("//toolchains/huggingface:model.bzl", "hugging_face_model", "model_origin")
load("//toolchains/huggingface:tag.bzl", "check_tag")

def hugging_face_repositories(module_ctx, is_new):
    """Declares a repository for each tag, and `executorch_models`, which says where they come from.

    Args:
      module_ctx: of the extension.
      is_new: function of the name of a repository, its module and its tag: whether no other tag declares it.
    """
    origins = []
    for module in module_ctx.modules:
        for model in module.tags.hugging_face:
            tag = dict(
                repo = model.repo,
                revision = model.revision,
                files = model.files,
                license = model.license,
            )
            check_tag(name = model.name, **tag)
            if is_new(name = model.name, module = module.name, tag = struct(**tag)):
                hugging_face_model(name = model.name, repo = model.repo, revision = model.revision, files = model.files)
                origins.append(model_origin(model))

    # For bills of materials.
    text_files(name = "executorch_models", files = {"origins.tsv": "".join(origins)})

HUGGING_FACE = tag_class(
    doc = """A model of the Hugging Face hub, pinned by commit and hash: `@<name>//:checkpoint` and `@<name>//:tokenizer`.

`bazel run @rules_executorch//tools:et -- pin organization/model` prints the tag.

```starlark
executorch.hugging_face(
    name = "smollm2",
    files = {"config.json": "…", "model.safetensors": "…", "tokenizer.json": "…"},
    license = "Apache-2.0",
    repo = "HuggingFaceTB/SmolLM2-135M-Instruct",
    revision = "…",
)
```

| target | files |
|---|---|
| `:checkpoint` | weights, their index, and configurations: what `et_llm(checkpoint = …)` takes |
| `:tokenizer` | vocabulary, tokenizer_config.json, chat template: what `et_llm(tokenizer = …)` takes |
| `:files` | all, with licenses and model cards |
| `:<path>` | a single file |

Environment variables, also with `--repo_env`: `HF_TOKEN` or else netrc for gated models, `HF_ENDPOINT` for a mirror.
They do not change what is fetched, so changing them fetches nothing again.
""",
    attrs = {
        "files": attr.string_dict(
            mandatory = True,
            doc = "Path in the model's repository, and here, to its sha256.",
        ),
        "license": attr.string(
            doc = "The model's license as an SPDX expression (\"Apache-2.0\"), for bills of materials; licenses " +
                  "without an identifier are \"LicenseRef-…\". Empty: unknown.",
        ),
        "name": attr.string(
            mandatory = True,
            doc = "Name of the repository. Modules that others depend on begin it with their own name: tags of " +
                  "two modules may have one name only if they are equal.",
        ),
        "repo": attr.string(mandatory = True, doc = "The model's name on the hub: \"organization/model\"."),
        "revision": attr.string(mandatory = True, doc = "Commit, 40 hex digits; a branch or tag is an error."),
    },
)
