"""hugging_face_model: a repository with the files of a model, pinned by commit and hash.

Each file's hash is in the tag, so the hub, its mirrors and what lies between are not trusted, and Bazel's repository
cache has the files when none of them can be reached. HF_ENDPOINT and HF_TOKEN only say where the bytes come from.
Therefore they are read from the environment without a record: a record would fetch gigabytes again for a new token,
and write the token to the output base. The token is bound to the endpoint's addresses; Bazel does not send it on to
the hosts that these redirect to.
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "parse_netrc", "use_netrc")
load("//toolchains/huggingface:tokenizer_files.bzl", "TOKENIZER_FILES")

_ENDPOINT = "https://huggingface.co"
_PATTERN = "Bearer <password>"

# Neither model nor tokenizer.
_TEXTS = ["LICENSE", "NOTICE", "README"]

_BUILD = """package(default_visibility = ["//visibility:public"])

exports_files(%s)
"""

_FILEGROUP = """
filegroup(
    name = "%s",
    srcs = %s,
)
"""

def _read_netrc(rctx):
    """The user's netrc file by machine; a change of it fetches nothing again."""
    path = rctx.getenv("NETRC", "") or rctx.getenv("HOME", "") + "/.netrc"
    return parse_netrc(rctx.read(path, watch = "no"), path) if rctx.path(path).exists else {}

def _authorization(rctx, endpoint, urls):
    """Returns what Bazel sends with requests to these addresses, and to no others."""

    # Bazel writes what getenv reads into a file beside the repository.
    token = rctx.execute(["printenv", "HF_TOKEN"]).stdout.strip()
    if token:
        return {url: {"password": token, "pattern": _PATTERN, "type": "pattern"} for url in urls}
    host = endpoint.split("://")[-1].split("/")[0].split(":")[0]
    return use_netrc(_read_netrc(rctx), urls, {host: _PATTERN})

def _build_file(paths):
    of_tokenizer = [path for path in paths if path.split("/")[-1] in TOKENIZER_FILES]
    texts = [path for path in paths if path.split("/")[-1].split(".")[0].upper() in _TEXTS]
    groups = {
        "checkpoint": [path for path in paths if path not in of_tokenizer + texts],
        "files": paths,
        "tokenizer": of_tokenizer,
    }
    return _BUILD % paths + "".join([_FILEGROUP % (name, srcs) for name, srcs in groups.items()])

def _hugging_face_model_impl(rctx):
    endpoint = (rctx.getenv("HF_ENDPOINT", "") or _ENDPOINT).rstrip("/")
    repo, revision = rctx.attr.repo, rctx.attr.revision
    url_by_path = {path: "%s/%s/resolve/%s/%s" % (endpoint, repo, revision, path) for path in rctx.attr.files}
    authorization = _authorization(rctx, endpoint, url_by_path.values())
    rctx.report_progress("downloading %d files of %s" % (len(url_by_path), repo))
    downloads = {
        path: rctx.download(
            url,
            output = path,
            sha256 = rctx.attr.files[path],
            auth = authorization,
            allow_fail = True,
            block = False,
        )
        for path, url in url_by_path.items()
    }

    # All, as none may go on when the rule ends.
    done = {path: download.wait().success for path, download in downloads.items()}
    failed = [path for path, success in done.items() if not success]
    if failed:
        fail(("@{}: {} of {} files cannot be downloaded, such as {}. Bazel's warnings say why. If the status is 401 " +
              "or 403, accept the license at {}/{} and set HF_TOKEN to a token of that account, or have it in netrc " +
              "as the password of the hub. If it is 404, or the checksum differs, correct the tag: " +
              "\"bazel run @rules_executorch//tools:et -- pin {}\" prints it.").format(
            rctx.name,
            len(failed),
            len(done),
            failed[0],
            endpoint,
            repo,
            repo,
        ))
    rctx.file("BUILD.bazel", _build_file(sorted(url_by_path)), executable = False)

hugging_face_model = repository_rule(
    implementation = _hugging_face_model_impl,
    doc = "The files of a model of the Hugging Face hub, pinned by commit and hash.",
    attrs = {
        "files": attr.string_dict(mandatory = True),
        "repo": attr.string(mandatory = True),
        "revision": attr.string(mandatory = True),
    },
)

def model_origin(model):
    """Names the origin and the license of a model.

    Args:
      model: tag with name, repo, revision and license.

    Returns:
      A line of `origins.tsv`.
    """
    return "%s\tpkg:huggingface/%s@%s\t%s\n" % (model.name, model.repo, model.revision, model.license)
