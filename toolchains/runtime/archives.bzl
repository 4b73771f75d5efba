"""archive_runtime: a platform's runtime out of upstream's own archives: AARs, or zips of xcframeworks.

All archives are pinned by sha256 and refused where a member would leave the repository. Libraries of AARs get the
layout of the other Android runtimes; xcframeworks stay as they are, for et_runtime_import. C++ headers, which neither
has, come from the wheel of the same version. What the core library registers is read from it, as backends are
compared with programs at analysis. BUILD.bazel is written last: a repository without it was not fetched.
"""

load("//toolchains/exporter:downloads.bzl", "download_known", "reproducible")
load("//toolchains/exporter:extract.bzl", "extract")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "find_host_python")
load("//toolchains/exporter:unpack.bzl", "move_unpacked", "unpack_wheel")
load("//toolchains/runtime:import_names.bzl", "ABIS", "SLICES", "is_core")
load("//toolchains/runtime:origins.bzl", "EXECUTORCH_LICENSE")

# Labels in attributes would be fetched in any case.
_HEADERS = "@executorch_runtime_linux_x86_64//:BUILD.bazel"
_SUPPORT = "@executorch_android_support//:BUILD.bazel"
_HEADERS_PLATFORM = "manylinux_2_28_x86_64"

_READ_BACKENDS = Label("//toolchains/runtime:read_backends.py")
_SCAN = Label("//tools/etbundle:scan.py")

# Library of an AAR to the target that has it.
_CORE = "libexecutorch.so"
_SUPPORT_LIBRARIES = ["libc++_shared.so", "libfbjni.so"]

def _unpack(rctx, archive):
    """Downloads an archive, checks it, and unpacks it to `unpacked`."""
    rctx.report_progress("downloading " + archive.name)
    if not download_known(
        rctx,
        allow_fail = True,
        output = "archive.zip",
        sha256 = [archive.sha256],
        urls = {archive.sha256: archive.urls},
    ):
        fail(("@%s: %s cannot be fetched (expected sha256: %s) from %s. Bazel's warnings have the reason: for " +
              "\"Checksum was\", correct the sha256 in executorch.runtime() or fetch from another place; otherwise " +
              "check the URL, the version and the network.") %
             (rctx.name, archive.name, archive.sha256, " or ".join(archive.urls)))
    extract(rctx, "archive.zip", "unpacked", archive.name)
    rctx.delete("archive.zip")
    return rctx.path("unpacked")

def _names(folder):
    return sorted([entry.basename for entry in folder.readdir()]) if folder.exists else []

def _listed(names):
    return ", ".join(names) or "nothing"

def _read(rctx, library):
    """Runs read_backends.py on a library."""
    result = rctx.execute([
        find_host_python(rctx),
        "-I",
        "-B",
        rctx.path(_READ_BACKENDS),
        rctx.path(_SCAN).dirname.dirname,
        library,
    ])
    if result.return_code:
        fail("@%s: %s Do not use this archive. Set executorch.runtime() to another one." %
             (rctx.name, result.stderr.strip().split("\n")[-1]))
    return json.decode(result.stdout)

def _lay_aars(rctx, archives):
    """Lays out the libraries of AARs; returns substitutions of android.BUILD."""
    abi = ABIS[rctx.attr.platform]
    placed = {}
    abis = {}
    for archive in archives:
        folder = _unpack(rctx, archive)
        abis.update({name: None for name in _names(folder.get_child("jni"))})
        sources = {"lib/" + n: "jni/%s/%s" % (abi, n) for n in _names(folder.get_child("jni", abi)) if n.endswith(".so")}
        if folder.get_child("classes.jar").exists:
            sources["java/executorch.jar"] = "classes.jar"
        sources = {target: source for target, source in sources.items() if target not in placed}
        move_unpacked(rctx, folder, sources, archive.name)
        placed.update(sources)
    if "lib/" + _CORE not in placed:
        fail(("@%s: %s: jni/%s/%s not found: got %s in jni/%s, and the ABIs %s. Set executorch.runtime() to an AAR of " +
              "ExecuTorch for Android with this ABI.") % (
            rctx.name,
            " and ".join([archive.name for archive in archives]),
            abi,
            _CORE,
            _listed([path.split("/")[-1] for path in sorted(placed) if path.startswith("lib/")]),
            abi,
            _listed(sorted(abis)),
        ))
    core = _read(rctx, "lib/" + _CORE)
    if core["name"] != _CORE:
        move_unpacked(rctx, rctx.path("lib"), {"lib/" + core["name"]: _CORE}, _CORE)
    others = [path[len("lib/"):] for path in sorted(placed) if path.startswith("lib/")]
    return {
        "%{backends}": str(core["backends"]),
        "%{core}": core["name"],
        "%{other_libraries}": str([name for name in others if name not in [_CORE] + _SUPPORT_LIBRARIES]),
    } | _support(rctx, abi, placed)

def _support(rctx, abi, placed):
    """Links the libraries that no AAR had, and says where each is from."""
    substitutions = {}
    missing = [library for library in _SUPPORT_LIBRARIES if "lib/" + library not in placed]
    for library in _SUPPORT_LIBRARIES:
        own = library not in missing
        name = "cxx_shared" if library.startswith("libc++") else "fbjni"
        substitutions["%%{%s_license}" % name] = EXECUTORCH_LICENSE if own else rctx.attr.support_license
        substitutions["%%{%s_purl}" % name] = rctx.attr.purl if own else rctx.attr.support_purl
    if missing:
        folder = rctx.path(Label(_SUPPORT)).dirname
        links = {"lib/" + library: folder.get_child(abi, library) for library in missing}
        links["license/react-native/LICENSE"] = folder.get_child("LICENSE")
        for target, source in links.items():
            rctx.symlink(source, target)
    return substitutions

def _core_backends(rctx, slice):
    """File name of the library in a folder of an xcframework to its backends, if it is the core."""
    for entry in slice.readdir():
        library = entry
        if entry.basename.endswith(".framework"):
            library = entry.get_child(entry.basename[:-len(".framework")])
        if is_core(library.basename, "") and library.exists:
            backends = _read(rctx, str(library))["backends"]
            return {library.basename: backends} if backends else {}
    return {}

def _lay_xcframeworks(rctx, archives):
    """Lays out xcframeworks; returns substitutions of xcframeworks.BUILD."""
    backends = {}
    for archive in archives:
        folder = _unpack(rctx, archive)
        tops = _names(folder)
        frameworks = [name for name in tops if name.endswith(".xcframework")]
        if not frameworks:
            fail(("@%s: %s: no xcframework found: got %s, expected folders that end in .xcframework at the top of the " +
                  "zip. Set archives of executorch.runtime() to zips of ExecuTorch's xcframeworks.") %
                 (rctx.name, archive.name, _listed(tops)))
        for name in frameworks:
            slice = folder.get_child(name, SLICES[rctx.attr.platform])
            if slice.exists:
                backends.update(_core_backends(rctx, slice))
        move_unpacked(rctx, folder, {name: name for name in frameworks}, archive.name)
    return {"%{backends}": str(backends)}

def _lay_headers(rctx):
    """The C++ headers of the version: of the wheel that Linux's runtime is from, or of the tag's."""
    if not rctx.attr.headers_sha256:
        folder = rctx.path(Label(_HEADERS)).dirname
        rctx.symlink(folder.get_child("include"), "include")
        rctx.symlink(folder.get_child("license", "executorch"), "license/executorch")
        return
    requirement = "executorch==" + rctx.attr.executorch_version
    folder = unpack_wheel(rctx, requirement, [rctx.attr.headers_sha256], _HEADERS_PLATFORM)
    move_unpacked(rctx, folder, {
        "include": "executorch/include",
        "license/executorch": "executorch-%s.dist-info/licenses" % rctx.attr.executorch_version,
    }, "the wheel of " + requirement)

def _archive_runtime_impl(rctx):
    archives = [struct(**archive) for archive in json.decode(rctx.attr.archives)]
    is_android = rctx.attr.platform in ABIS
    substitutions = _lay_aars(rctx, archives) if is_android else _lay_xcframeworks(rctx, archives)
    _lay_headers(rctx)
    build_file = "android.BUILD" if is_android else "xcframeworks.BUILD"
    rctx.template("BUILD.bazel", Label("//toolchains/runtime:" + build_file), substitutions | {
        "%{executorch_version}": rctx.attr.executorch_version,
        "%{libraries_purl}": rctx.attr.purl,
        "%{license}": EXECUTORCH_LICENSE,
        "%{platform}": rctx.attr.platform,
        "%{verified_exporters}": "[]",
    }, executable = False)
    return reproducible(rctx)

archive_runtime = repository_rule(
    implementation = _archive_runtime_impl,
    doc = "A platform's runtime out of AARs or zips of xcframeworks.",
    attrs = {
        "archives": attr.string(mandatory = True, doc = "JSON: a list of {name, sha256, urls}."),
        "executorch_version": attr.string(mandatory = True),
        "headers_sha256": attr.string(doc = "Of the wheel with the headers; empty: those of Linux's runtime."),
        "platform": attr.string(mandatory = True),
        "purl": attr.string(mandatory = True, doc = "Package that the libraries come from."),
        "support_license": attr.string(doc = "Of the libraries that AARs need and may lack."),
        "support_purl": attr.string(doc = "Package that these come from."),
    },
    environ = [PYTHON_VARIABLE],
)
