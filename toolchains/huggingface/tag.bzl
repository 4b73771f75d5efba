"""Checks of executorch.hugging_face(): all that makes a model's files and their labels what the tag says.

Paths become files of the repository and parts of addresses. So they lead nowhere else, need no quoting in either,
and take no name that Bazel or the repository itself gives a meaning.
"""

_HEX = "0123456789abcdef"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAME = _LETTERS + "0123456789_.-"
_PATH = _NAME + "~+=@,()!$&'/"
_LICENSE = _NAME + "+:() "
_TARGETS = ["checkpoint", "files", "tokenizer"]
_RESERVED = ["build", "build.bazel", "module.bazel", "repo.bazel", "workspace", "workspace.bazel"]

def _consists_of(text, characters):
    return all([character in characters for character in text.elems()])

def _is_hash(text, length):
    return len(text) == length and _consists_of(text, _HEX)

def _problem_of_path(path):
    """Says what is wrong with a path; empty: nothing."""
    parts = path.split("/")
    if not _consists_of(path, _PATH):
        return "characters that are not letters, digits or one of _.-~+=@,()!$&'"
    if [part for part in parts if part in ("", ".", "..")]:
        return "an empty part, . or .."
    if parts[-1].lower() in _RESERVED:
        return "a name with a meaning for Bazel"
    if parts[0] in _TARGETS:
        return "the name of a target of the repository"
    return ""

def check_tag(*, name, repo, revision, files, license):
    """Fails where a tag of executorch.hugging_face is malformed.

    Args:
      name: of the repository.
      repo: the model's name on the hub, "organization/model".
      revision: its commit.
      files: dict of path to sha256.
      license: SPDX expression; may be empty.
    """
    where = "executorch.hugging_face(name = \"%s\")" % name
    pin = "bazel run @rules_executorch//tools:et -- pin " + repo
    parts = repo.split("/")
    if len(parts) > 2 or not all([_consists_of(part, _NAME) and part.strip("._-") == part and part for part in parts]):
        fail("%s: repo: got %s, expected the model's name on the hub, \"organization/model\"." % (where, repr(repo)))
    if not _is_hash(revision, 40):
        fail(("%s: revision: got \"%s\", expected a commit of 40 hex digits. A branch or tag may name other files " +
              "tomorrow, and the build would fail or change. \"%s --revision %s\" prints the tag with its commit.") %
             (where, revision, pin, revision or "main"))
    if not files:
        fail("%s: files: got none, expected paths with their sha256. \"%s\" prints them." % (where, pin))
    for path, sha256 in files.items():
        problem = _problem_of_path(path)
        if problem:
            fail("%s: files: got %s, expected a path that a repository can have: it has %s. Leave this file out." %
                 (where, repr(path), problem))
        if not _is_hash(sha256, 64):
            fail("%s: files: sha256 of \"%s\": got \"%s\", expected 64 hex digits. \"%s\" prints it." %
                 (where, path, sha256, pin))
        for parent in _parents(path):
            if parent in files:
                fail("%s: files: got both \"%s\" and \"%s\", expected a file or a folder. Leave out one of them." %
                     (where, parent, path))
    if not _consists_of(license, _LICENSE):
        fail("%s: license: got %s, expected an SPDX expression such as \"Apache-2.0\" or \"LicenseRef-llama3.2\"." %
             (where, repr(license)))

def _parents(path):
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
