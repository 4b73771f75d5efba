"""Files that are pinned by sha256, through Bazel's downloader where a URL of them is known.

A hash says what a file is, a URL only where it lies: any URL that has the hash will do, and a change of URLs
fetches nothing again. Tags, comments of locks and the lists of the root module's `executorch.file_urls()` have
URLs, always as `<URL>#sha256=<64 hex digits>` where the hash is not beside them. What has a URL
never asks another place; what has none comes from where pip's settings lead (package_file.bzl), or through npm or
apt. A repository rule that fetches another pinned file asks `download_known` first.
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "get_auth")

# Of the root module's lists: a JSON object of sha256 to URLs, in the same folder as this file.
_CHOICES = Label("@executorch_python//:BUILD.bazel")
_FILE_URLS = "file_urls.json"

# What a comment of a lock begins with that has a URL.
LOCK_COMMENT = "# file: "
_HASH = "#sha256="

def parse_file_url(text, place):
    """The parts of "<URL>#sha256=<64 hex digits>".

    Args:
      text: string.
      place: where it stands, for messages.

    Returns:
      A pair of strings, the URL and the sha256.
    """
    url, _, sha256 = text.partition(_HASH)
    is_hash = len(sha256) == 64 and not sha256.strip("0123456789abcdef")
    if "://" not in url or " " in url or not is_hash:
        fail("%s: malformed URL: got \"%s\", expected <URL>%s<64 hex digits>. Correct this line." % (place, text, _HASH))
    return url, sha256

def parse_file_urls(text, place, prefix = ""):
    """The URLs in a list or in a lock.

    Args:
      text: of the file.
      place: what the file is, for messages.
      prefix: what a line with a URL begins with: nothing in a list, LOCK_COMMENT in a lock. Other lines are left
        out of account; in a list these are comments.

    Returns:
      A dict of sha256 to a list of URLs.
    """
    urls = {}
    for number, line in enumerate(text.split("\n")):
        entry = line.strip()
        if not entry or not entry.startswith(prefix) or (not prefix and entry.startswith("#")):
            continue
        url, sha256 = parse_file_url(entry[len(prefix):].strip(), "%s:%d" % (place, number + 1))
        urls.setdefault(sha256, []).append(url)
    return urls

def merged_file_urls(dicts):
    """One dict of sha256 to URLs, each once, in the order of the given dicts."""
    merged = {}
    for urls in dicts:
        for sha256, more in urls.items():
            kept = merged.setdefault(sha256, [])
            kept.extend([url for url in more if url not in kept])
    return merged

def root_file_urls(rctx):
    """The dict of sha256 to URLs of the root module's lists."""

    # A repository does not depend on them: they say nothing about what is in it. Bazel watches the file of each label.
    return json.decode(rctx.read(rctx.path(_CHOICES).dirname.get_child(_FILE_URLS), watch = "no"))

def file_name(url):
    """The last part of a URL's path, with %2B as a plus sign: wheels have it in local versions."""
    path = url.split("#")[0].split("?")[0]
    return path.split("/")[-1].replace("%2B", "+").replace("%2b", "+")

def _fits(url, platform):
    """Tells whether a file is for a platform: a wheel's name ends in its platform tags, others are for any."""
    name = file_name(url)
    if not platform or not name.endswith(".whl"):
        return True
    tags = name[:-len(".whl")].split("-")[-1].split(".")
    return "any" in tags or platform in tags

def chosen_file(sha256, urls, platform = ""):
    """The file to download, of those that a package has for several platforms.

    Args:
      sha256: list: one of them must be the file's hash.
      urls: dict of sha256 to URLs.
      platform: platform tag of the wheel; "": the only hash is of the right file.

    Returns:
      None where no URL is known, else a struct(sha256, urls).
    """
    if len(sha256) > 1 and not platform:
        return None
    for one in sha256:
        fitting = [url for url in urls.get(one, []) if len(sha256) == 1 or _fits(url, platform)]
        if fitting:
            return struct(sha256 = one, urls = fitting)
    return None

def download(rctx, file, output, block = True, allow_fail = False):
    """Downloads a file through Bazel, with the credentials of the user's netrc.

    Args:
      rctx: repository context.
      file: struct(sha256, urls).
      output: path in the repository.
      block: whether it waits for the file.
      allow_fail: whether the caller says what is wrong; Bazel then only warns of it.

    Returns:
      What rctx.download returns.
    """
    return rctx.download(
        file.urls,
        output = output,
        sha256 = file.sha256,
        auth = get_auth(rctx, file.urls),
        block = block,
        allow_fail = allow_fail,
    )

def download_known(rctx, *, sha256, output, urls = {}, platform = "", allow_fail = False):
    """Downloads a file if a URL of it is known.

    Args:
      rctx: repository context.
      sha256: list: one of them must be the file's hash.
      output: path in the repository.
      urls: dict of sha256 to URLs, of the tag or lock; they go before those of the root module's lists.
      platform: platform tag of the wheel, where there are several hashes.
      allow_fail: whether a failed download returns False; otherwise it ends the fetch.

    Returns:
      Bool: whether it was downloaded.
    """
    file = chosen_file(sha256, merged_file_urls([urls, root_file_urls(rctx)]), platform)
    if not file:
        return False
    return download(rctx, file, output, allow_fail = allow_fail).success

def reproducible(rctx, is_reproducible = True):
    """Returns a repository rule's result: its attributes determine all files, for a Bazel that wants to know."""
    return rctx.repo_metadata(reproducible = is_reproducible) if hasattr(rctx, "repo_metadata") else None
