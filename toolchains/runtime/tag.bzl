"""executorch.runtime(): where a platform's runtime comes from, and the checks of the tag that says so.

A tag has one source, and each source is pinned by sha256: a wheel, an AAR in a Maven repository, or archives by URL.
An attribute of another source is an error and never without effect, so a tag cannot name a runtime that the build
does not use.
"""

load("//toolchains/exporter:downloads.bzl", "parse_file_url")
load("//toolchains/runtime:import_names.bzl", "ABIS", "SLICES")
load("//toolchains/runtime:runtime.bzl", "RUNTIME_PLATFORMS")

# Source to the attributes that it needs and may have, beside that of its name, and the platforms that have it.
_SOURCES = {
    "archives": struct(
        needs = ["executorch_version"],
        takes = ["archives", "headers_sha256"],
        platforms = sorted(list(ABIS) + list(SLICES)),
    ),
    "maven": struct(
        needs = ["maven_repository", "sha256"],
        takes = ["headers_sha256", "maven"],
        platforms = sorted(ABIS),
    ),
    "wheel": struct(
        needs = ["executorch_version", "sha256"],
        takes = ["urls"],
        platforms = sorted(RUNTIME_PLATFORMS),
    ),
}

# Platforms with a ready-made runtime, which a tag replaces.
TAG_PLATFORMS = sorted({platform: None for source in _SOURCES.values() for platform in source.platforms})

def runtime_source(
        *,
        platform,
        headers_version,
        archives = [],
        executorch_version = "",
        headers_sha256 = "",
        maven = "",
        maven_repository = "",
        sha256 = "",
        urls = []):
    """Checks the arguments of a tag.

    Args:
      platform: name of the platform.
      headers_version: version of ExecuTorch whose headers are at hand.
      archives: of the tag, as are the following ones.
      executorch_version: of the tag.
      headers_sha256: of the tag.
      maven: of the tag.
      maven_repository: of the tag.
      sha256: of the tag.
      urls: of the tag.

    Returns:
      A struct(executorch_version, archives, purl): archives is a list of struct(name, sha256, urls), empty for a wheel.
    """
    tag = "executorch.runtime(platform = \"%s\"): " % platform
    given = dict(
        archives = archives,
        executorch_version = executorch_version,
        headers_sha256 = headers_sha256,
        maven = maven,
        maven_repository = maven_repository,
        sha256 = sha256,
        urls = urls,
    )
    kind = "archives" if archives else "maven" if maven or maven_repository else "wheel"
    _check_attributes(tag, platform, kind, [name for name, value in given.items() if value])
    if kind == "wheel":
        return struct(executorch_version = executorch_version, archives = [], purl = "")
    if kind == "maven":
        source = _maven_source(tag, maven, maven_repository, sha256)
    else:
        source = _archives_source(tag, platform, archives, executorch_version)
    if source.executorch_version != headers_version and not headers_sha256:
        fail(("%sC++ headers: got those of ExecuTorch %s, expected %s. Set headers_sha256 to the sha256 of " +
              "executorch %s's wheel for CPython 3.11 and manylinux_2_28_x86_64.") %
             (tag, headers_version, source.executorch_version, source.executorch_version))
    if headers_sha256:
        _check_sha256(tag + "headers_sha256", headers_sha256)
    return source

def _check_attributes(tag, platform, kind, given):
    """Fails unless a tag has the attributes of one source, and a platform that has it."""
    source = _SOURCES[kind]
    needed = source.needs + ([kind] if kind != "wheel" else [])
    missing = [name for name in needed if name not in given]
    surplus = [name for name in given if name not in source.needs + source.takes]
    if missing or surplus:
        fail(("%sattributes: got %s, expected one source: executorch_version and sha256 (a wheel), maven, " +
              "maven_repository and sha256 (an AAR), or archives and executorch_version (AARs or xcframeworks). %s") % (
            tag,
            ", ".join(given) or "none",
            "Add %s." % ", ".join(missing) if missing else "Remove %s." % ", ".join(surplus),
        ))
    if platform not in source.platforms:
        fail("%splatform of %s: got \"%s\", expected one of %s. Use another source for this platform." %
             (tag, "a wheel" if kind == "wheel" else kind, platform, ", ".join(source.platforms)))

def _check_sha256(place, sha256):
    if len(sha256) != 64 or sha256.strip("0123456789abcdef"):
        fail("%s: got \"%s\", expected 64 hex digits in lower case. Correct it." % (place, sha256))

def _maven_source(tag, maven, repository, sha256):
    parts = maven.split(":")
    if len(parts) != 3 or [part for part in parts if not part or part.startswith(".") or "/" in part or " " in part]:
        fail("%smaven: got \"%s\", expected \"<group>:<artifact>:<version>\". Correct it." % (tag, maven))
    if "://" not in repository:
        fail("%smaven_repository: got \"%s\", expected the URL of a Maven repository. Correct it." % (tag, repository))
    _check_sha256(tag + "sha256", sha256)
    group, artifact, version = parts
    url = "/".join([
        repository.rstrip("/"),
        group.replace(".", "/"),
        artifact,
        version,
        "%s-%s.aar" % (artifact, version),
    ])
    return struct(
        # "1.5.1-SNAPSHOT" is a build of 1.5.1.
        executorch_version = version.partition("-")[0],
        archives = [struct(name = maven, sha256 = sha256, urls = [url])],
        purl = "pkg:maven/%s/%s@%s" % (group, artifact, version),
    )

def _archives_source(tag, platform, archives, executorch_version):
    files = []
    for entry in archives:
        url, sha256 = parse_file_url(entry, tag + "archives")
        files.append(struct(name = url.split("?")[0].split("/")[-1], sha256 = sha256, urls = [url]))
    kind = "android" if platform in ABIS else "apple"
    return struct(
        executorch_version = executorch_version,
        archives = files,
        purl = "pkg:generic/executorch-%s@%s" % (kind, executorch_version),
    )
