"""Versions of apps and releases, as attributes name them: targets, archives or files with a manifest.json."""

load("//rules/private:providers.bzl", "EtAppInfo", "EtAssetsInfo", "EtReleaseInfo")
load("//toolchains/python:paths.bzl", "pair_format")

_MANIFEST = "manifest.json"
_ARCHIVES = (".tar.zst", ".zip")

def version_manifest(ctx, target, attribute):
    """The manifest of a release.

    Args:
      ctx: rule context.
      target: Target: an et_release, or files with its manifest.json.
      attribute: string, for messages.

    Returns:
      File.
    """
    if EtReleaseInfo in target:
        return target[EtReleaseInfo].manifest
    manifest = _manifest_among(target[DefaultInfo].files.to_list())
    if not manifest:
        fail(("%s: %s: got %s without a %s, expected an earlier release: its %s, a folder with it, or an " +
              "et_release.") % (ctx.label, attribute, target.label, _MANIFEST, _MANIFEST))
    return manifest

def add_version(ctx, args, target, attribute):
    """Adds the arguments of EtUpdate that name a version.

    Args:
      ctx: rule context.
      args: Args.
      target: Target.
      attribute: string: "previous" or "current".

    Returns:
      List of Files that are inputs.
    """
    option = "--%s_" % attribute
    if EtAppInfo in target:
        directory = target[EtAppInfo].directory
        args.add_all([directory], before_each = option + "folder", expand_directories = False)
        return [directory]
    for provider in (EtAssetsInfo, EtReleaseInfo):
        if provider in target:
            return _add_files(args, option, [(entry.path, entry.file) for entry in target[provider].files])
    files = target[DefaultInfo].files.to_list()
    if len(files) == 1 and files[0].is_directory:
        args.add_all(files, before_each = option + "folder", expand_directories = False)
        return files
    if len(files) == 1 and files[0].basename.endswith(_ARCHIVES):
        args.add(option + "archive", files[0])
        return files
    manifest = _manifest_among(files)
    if not manifest:
        fail(("%s: %s: got %s without a %s, expected an et_runner_app, et_assets or et_release, an app's archive " +
              "(.tar.zst or .zip), or an app's files.") % (ctx.label, attribute, target.label, _MANIFEST))
    root = manifest.short_path.removesuffix(_MANIFEST)
    return _add_files(
        args,
        option,
        [(file.short_path.removeprefix(root), file) for file in files if file.short_path.startswith(root)],
    )

def _manifest_among(files):
    """The manifest.json that is nearest to the root; None: there is none."""
    manifests = [(file.short_path.count("/"), file.short_path, file) for file in files if file.basename == _MANIFEST]
    return sorted(manifests, key = lambda entry: entry[:2])[0][2] if manifests else None

def _add_files(args, option, files):
    for path, file in files:
        args.add(option + "file", file, format = pair_format(path))
    return [file for _, file in files]
