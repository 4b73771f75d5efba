"""et_model: an eager PyTorch model."""

load("@rules_python//python:defs.bzl", "PyInfo")
load("//rules:providers.bzl", "EtModelInfo", "EtPackagesInfo")
load("//rules/private:expect_action.bzl", "with_expected")
load("//rules/private:given_inputs.bzl", "PREPROCESSING_DOC", "image_packages")
load("//rules/private:lowerable.bzl", "LowerableInfo", "model_info")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "python_sources")

def _check_function(ctx, attribute, example):
    """Fails where an attribute does not name a function of a module."""
    value = getattr(ctx.attr, attribute)
    if value.count(":") != 1:
        fail("%s: %s: got \"%s\", expected \"module:function\" such as \"%s\"." %
             (ctx.label, attribute, value, example))

def _adapter(ctx):
    """The adapter whose values may change, or None."""
    files, entry_point = ctx.files.adapter, ctx.attr.adapter_entry_point
    if bool(files) != bool(entry_point):
        fail("%s: adapter and adapter_entry_point go together: %s is missing." %
             (ctx.label, "adapter_entry_point" if files else "adapter"))
    if not files:
        return None
    _check_function(ctx, "adapter_entry_point", "models.llama:adapter")
    values = [file for file in files if file.extension == "safetensors"]
    if not values:
        fail("%s: adapter: got %s, expected a .safetensors file with its values." %
             (ctx.label, ", ".join([file.basename for file in files])))
    others = [file for file in files if file not in values]
    return struct(files = values, rest = depset(ctx.files.data + others), entry_point = entry_point)

def _image_packages(test_inputs):
    return image_packages(test_inputs)

def _et_model_impl(ctx):
    _check_function(ctx, "entry_point", "models.llama:build")
    python = python_sources(ctx, ctx.files.data)
    model = with_expected(ctx, LowerableInfo(
        label = ctx.label,
        entry_point = ctx.attr.entry_point,
        args = ctx.attr.args,
        adapter = _adapter(ctx),
        sources = python.sources,
        roots = python.roots,
        data = depset(ctx.files.data + ctx.files.adapter),
        packages = [target[EtPackagesInfo] for target in ctx.attr.packages],
        memory_mb = ctx.attr.memory_mb,
        test_inputs = ctx.files.test_inputs,
        preprocessing = ctx.attr.preprocessing,
    ), [ctx.attr._image_packages[EtPackagesInfo]] if ctx.attr._image_packages else [])
    return [
        DefaultInfo(files = depset(ctx.files.srcs)),
        OutputGroupInfo(expected = depset([model.expected])),
        model_info(model),
    ]

et_model = rule(
    implementation = _et_model_impl,
    doc = """An eager PyTorch model: code and weights, without a recipe.

The entry point is a Python function that is called with an `etbuild.ModelContext` and returns
`(module, example_inputs)`, an `etbuild.ModelSpec` or a `torch.export.ExportedProgram`.

```starlark
et_model(
    name = "llama",
    srcs = ["llama.py"],
    entry_point = "models.llama:build",
    args = {"max_seq_len": "256"},
    data = ["@smollm2//:model.gguf"],
)
```

Output group: `expected` (a .safetensors file with each method's inputs and the model's outputs, for tests of
its programs).
""",
    attrs = {
        "srcs": attr.label_list(
            allow_files = [".py"],
            doc = "Python sources.",
        ),
        "entry_point": attr.string(
            mandatory = True,
            doc = "\"module:function\". The module's name is its path from the workspace's root: " +
                  "models/llama.py is models.llama, nets.py at the root is nets.",
        ),
        "adapter": attr.label_list(
            allow_files = True,
            doc = "Files of an adapter, which the entry point reads like data. A program with adapter_data " +
                  "= \"by_name\" is lowered with placeholders instead of the values in its .safetensors " +
                  "files, so updating an adapter costs only the adapter step.",
        ),
        "adapter_entry_point": attr.string(
            doc = "With adapter: \"module:function\", called like entry_point. It returns the model's tensors " +
                  "for these files: a dict of qualified names to tensors, and None under the name in the " +
                  "file for each unused tensor. It does not need to read other weights.",
        ),
        "args": attr.string_dict(
            doc = "Strings that the entry point finds in `ModelContext.args`.",
        ),
        "data": attr.label_list(
            allow_files = True,
            doc = "Weights, configurations: the entry point asks for them with " +
                  "`ModelContext.file(\"name\")`.",
        ),
        "deps": attr.label_list(
            cfg = "exec",
            providers = [PyInfo],
            doc = "Python libraries that the sources import. Torch, executorch and `etbuild` are always " +
                  "available.",
        ),
        "imports": attr.string_list(
            doc = "More import roots, relative to the package, as in py_library.",
        ),
        "memory_mb": attr.int(
            doc = "Expected peak memory of a lowering in MiB, so that Bazel does not run two large ones at " +
                  "once. 0: a default for small models; a worker also counts the weights' bytes.",
        ),
        "packages": attr.label_list(
            providers = [EtPackagesInfo],
            doc = "Layers of Python packages that the sources import in addition to the exporter's: " +
                  "et_packages targets, such as those of `executorch.backend_packages`.",
        ),
        "preprocessing": attr.string_dict(
            doc = PREPROCESSING_DOC,
        ),
        "test_inputs": attr.label_list(
            allow_files = True,
            doc = "Files with inputs that programs are compared on, beside those of the code: .npy, .npz, " +
                  ".safetensors, .wav, images, and a preprocessor_config.json for images. Changing them lowers " +
                  "nothing. [Which file is which input](../howto/debug.md#inputs-from-files).",
        ),
        "_image_packages": attr.label(default = _image_packages, providers = [EtPackagesInfo]),
    },
    provides = [EtModelInfo],
    # Its deps are for the platform that the exporter runs on.
    toolchains = [EXPORTER_TOOLCHAIN],
)
