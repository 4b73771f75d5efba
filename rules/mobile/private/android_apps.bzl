"""Common parts of the rules for APK and AAR."""

load("//rules/mobile/private:android_java.bzl", "MIN_SDK")
load("//rules/private:providers.bzl", "EtAppInfo")
load("//toolchains/runtime:import_names.bzl", "ABIS")

APPS = attr.label_list(
    allow_empty = False,
    doc = "et_runner_app targets with the same programs and data, one for each kind of device: " +
          "android_arm64, android_x86_64 (emulators).",
    mandatory = True,
    providers = [EtAppInfo],
)

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"

def apps_by_abi(ctx):
    """EtAppInfo by ABI.

    Args:
      ctx: rule context with the attribute `apps`.

    Returns:
      Dict.
    """
    by_abi = {}
    for target in ctx.attr.apps:
        app = target[EtAppInfo]
        if app.platform not in ABIS:
            fail("%s: platform of %s: got %s, expected one of %s." %
                 (ctx.label, app.label, app.platform, ", ".join(ABIS)))
        abi = ABIS[app.platform]
        if abi in by_abi:
            fail("%s: %s and %s are both for %s. Keep one of them." %
                 (ctx.label, by_abi[abi].label, app.label, app.platform))
        by_abi[abi] = app
    return by_abi

def add_apps(args, apps):
    """Adds directories of apps to a command line.

    Args:
      args: Args.
      apps: ABI to EtAppInfo.
    """
    for abi, app in apps.items():
        args.add_all("--app", [app.directory], expand_directories = False, format_each = abi + "=%s")

def android_manifest(ctx, *, template, package, substitutions = {}):
    """Writes an AndroidManifest.xml.

    Args:
      ctx: rule context.
      template: File.
      package: name that the device knows it by.
      substitutions: dict of strings: more of the template's %{name}.

    Returns:
      File.
    """
    _check_package(ctx, package)
    output = ctx.actions.declare_file(ctx.label.name + ".AndroidManifest.xml")
    values = {"min_sdk": str(MIN_SDK), "package": package} | substitutions
    ctx.actions.expand_template(
        template = template,
        output = output,
        substitutions = {"%%{%s}" % name: _escaped(value) for name, value in values.items()},
    )
    return output

def check_text(ctx, attribute, text):
    """Fails where Android would take a text for something else.

    Args:
      ctx: rule context.
      attribute: name of the attribute.
      text: its value.
    """
    if not text.strip() or text[0] in "@?" or "\\" in text or "\n" in text:
        fail(("%s: %s: got \"%s\", expected one line of text without backslashes that begins with neither @ " +
              "nor ?, which mean resources.") % (ctx.label, attribute, text))

def _check_package(ctx, package):
    parts = package.split(".")
    well_formed = [p for p in parts if p and p[0] in _LETTERS and not _others(p)]
    if len(parts) < 2 or len(well_formed) != len(parts):
        fail(("%s: package: got \"%s\", expected at least two names with dots between them, of letters, digits " +
              "and _, each beginning with a letter, such as \"com.example.chat\".") % (ctx.label, package))

def _others(text):
    allowed = _LETTERS + _DIGITS + "_"
    return [c for c in text.elems() if c not in allowed]

def _escaped(text):
    for character, entity in [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;")]:
        text = text.replace(character, entity)
    return text
