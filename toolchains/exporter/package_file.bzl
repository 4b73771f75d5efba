"""Files of Python packages, pinned by hash: wheels and source archives come in one way.

Bazel's downloader fetches each: from its URL, if one is known; from the repository cache; or from where pip's settings
lead. `fetch` reads these settings and the indexes' pages to find it there; no pip runs, and nothing of the package does.
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "get_auth")
load("//toolchains/exporter:downloads.bzl", "chosen_file", "merged_file_urls", "root_file_urls")
load("//toolchains/exporter:host_python.bzl", "find_host_python", "host_platform")

_FETCH = Label("//toolchains/exporter/fetch:__main__.py")
_REQUEST = "fetch.json"

# Places that have a file and do not give it. Each round asks for another one.
_MOST_ROUNDS = 20

def pinned_file(requirement, sha256, output, is_source = False, platform = "", indexes = []):
    """A file to fetch.

    Args:
      requirement: "package==version".
      sha256: list: one of them must be the file's hash.
      output: path in the repository.
      is_source: whether it is the source archive, not a wheel.
      platform: platform tag of the wheel; "": the host's.
      indexes: URLs of package indexes that are asked after those of pip's settings.

    Returns:
      A struct of these.
    """
    return struct(
        requirement = requirement,
        sha256 = sha256,
        output = output,
        is_source = is_source,
        platform = platform,
        indexes = indexes,
    )

def _cache_id(rctx, file):
    """Of several hashes, the repository cache knows by this name which one is of this platform."""
    return "%s for %s" % (file.requirement, "source" if file.is_source else file.platform or host_platform(rctx))

def _is_cached(rctx, file):
    for one in file.sha256:
        if rctx.download([], output = file.output, sha256 = one, canonical_id = _cache_id(rctx, file), allow_fail = True).success:
            return True
    return False

def _find(rctx, python, files, urls, failed):
    """Finds where to download files; toolchains/exporter/fetch/find.py describes it."""
    request = {
        "failed": failed,
        "files": {
            output: {
                "indexes": file.indexes,
                "platform": file.platform,
                "requirement": file.requirement,
                "sha256": file.sha256,
                "source": file.is_source,
                "urls": {one: urls[one] for one in file.sha256 if one in urls},
            }
            for output, file in files.items()
        },
    }
    rctx.file(_REQUEST, json.encode(request))
    result = rctx.execute([python, "-I", "-B", rctx.path(_FETCH).dirname, _REQUEST], timeout = 3600)
    rctx.delete(_REQUEST)
    if result.return_code:
        said = result.stderr.strip()
        fail("@%s: %s" % (rctx.name, said[said.find("error: ") + len("error: "):] if "error: " in said else said))
    return json.decode(result.stdout)

def _auth(rctx, place):
    """The netrc's logins for a file's URLs, or that of the index."""
    auth = get_auth(rctx, place["urls"])
    if place["login"]:
        login, password = place["login"]
        auth = auth | {url: {"login": login, "password": password, "type": "basic"} for url in place["urls"]}
    return auth

def _download(rctx, files, places):
    """Downloads files, all at once; returns those that failed."""

    # Bazel 7 crashes if a rule begins anew, as functions like get_auth may have it, while a download runs.
    auths = {output: _auth(rctx, place) for output, place in places.items()}
    started = {
        output: rctx.download(
            place["urls"],
            allow_fail = not place["known"],
            auth = auths[output],
            block = False,
            canonical_id = "" if place["known"] else _cache_id(rctx, files[output]),
            output = output,
            sha256 = place["sha256"],
        )
        for output, place in places.items()
    }
    done = {output: pending.wait().success for output, pending in started.items()}
    return [output for output in places if not done[output]]

def fetch_files(rctx, files, urls = {}):
    """Puts files of packages at their paths in the repository, several at once.

    Args:
      rctx: repository context.
      files: list of what pinned_file returns.
      urls: dict of sha256 to URLs, before those of the root module's lists.
    """
    urls = merged_file_urls([urls, root_file_urls(rctx)])
    files = {file.output: file for file in files}
    places = {}
    searched = []
    for output, file in files.items():
        known = chosen_file(file.sha256, urls, file.platform)
        if known:
            places[output] = {"known": True, "login": [], "sha256": known.sha256, "urls": known.urls}
        elif [one for one in file.sha256 if one in urls] or not _is_cached(rctx, file):
            searched.append(output)
    python = find_host_python(rctx) if searched else None
    failed = []
    for _ in range(_MOST_ROUNDS):
        if searched:
            places.update(_find(rctx, python, {output: files[output] for output in searched}, urls, failed))
        searched = _download(rctx, files, places)
        if not searched:
            break
        failed.extend([url for output in searched for url in places[output]["urls"]])
        places = {}

def package_file(rctx, *, requirement, sha256, output, is_source = False, platform = "", urls = {}):
    """Puts a package's file at a path in the repository.

    Args:
      rctx: repository context.
      requirement: "package==version".
      sha256: list: one of them must be the file's hash.
      output: path in the repository.
      is_source: whether it is the source archive, not a wheel.
      platform: platform tag of the wheel; "": the host's.
      urls: dict of sha256 to URLs, before those of the root module's lists.
    """
    rctx.report_progress("fetching %s of %s" % ("the source" if is_source else "the wheel", requirement))
    file = pinned_file(requirement, sha256, str(output), is_source = is_source, platform = platform)
    fetch_files(rctx, [file], urls)
