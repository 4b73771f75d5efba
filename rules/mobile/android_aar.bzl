"""et_android_aar: programs, data and the runtime as an Android library."""

load("//rules:providers.bzl", "EtAppPackageInfo")
load("//rules/mobile/private:android_apps.bzl", "APPS", "add_apps", "android_manifest", "apps_by_abi")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")

def _et_android_aar_impl(ctx):
    apps = apps_by_abi(ctx)
    manifest = android_manifest(ctx, template = ctx.file._manifest, package = ctx.attr.package)

    # An app with another main() links what it needs itself.
    libraries = {abi: app.api_library for abi, app in apps.items() if app.api_library}
    if len(libraries) < len(apps):
        libraries = {}
    classes = ctx.file._classes if libraries else ctx.file._app_files
    aar = ctx.actions.declare_file(ctx.label.name + ".aar")
    args = ctx.actions.args()
    args.add("--output", aar)
    args.add("--label", ctx.label)
    args.add("--manifest", manifest)
    args.add("--classes", classes)
    add_apps(args, apps)
    inputs = [manifest, classes]
    if libraries:
        args.add("--keep_rules", ctx.file._keep_rules)
        inputs.append(ctx.file._keep_rules)
    for abi, library in libraries.items():
        args.add("--library", library, format = abi + "=%s")
    linker_action(
        ctx,
        module = "etbundle.mobile.aar",
        arguments = args,
        inputs = inputs + [app.directory for app in apps.values()] + libraries.values(),
        outputs = [aar],
        mnemonic = "EtPackage",
        progress_message = "Packing %{output}",
    )
    return [
        DefaultInfo(files = depset([aar])),
        EtAppPackageInfo(
            label = ctx.label,
            kind = "aar",
            file = aar,
            apps = apps.values(),
            signing_key = "",
        ),
    ]

et_android_aar = rule(
    implementation = _et_android_aar_impl,
    doc = """An .aar with an app's programs, data and libraries, for `aar_import` or Gradle.

```starlark
et_android_aar(
    name = "chat_programs",
    apps = [":chat_android_arm64", ":chat_android_x86_64"],
    package = "com.example.chat.programs",
)
aar_import(name = "chat_programs_lib", aar = ":chat_programs")
android_binary(
    name = "chat",
    nocompress_extensions = [".pte", ".ptd"],
    deps = [":chat_programs_lib"],
    …
)
```

Inside: `assets/manifest.json`, `assets/programs/`, `assets/data/`, `jni/<ABI>/` with the libraries that the
programs need, the class `rulesexecutorch.runner.AppFiles`, which copies programs and data to files that native
code can map, and the classes `rulesexecutorch.Programs`, `Program`, `Chat` and `Tensor`, which run them
(docs/reference/java.md). Apps with a `main` or `srcs` of their own have only the first class.
""",
    attrs = {
        "apps": APPS,
        "package": attr.string(
            doc = "Package name of the library, such as \"com.example.chat.programs\"; not the app's.",
            mandatory = True,
        ),
        "_app_files": attr.label(
            allow_single_file = True,
            default = "//tools/runner/android:app_files",
        ),
        "_classes": attr.label(
            allow_single_file = True,
            default = "//tools/runner/android:library",
        ),
        "_keep_rules": attr.label(
            allow_single_file = True,
            default = "//tools/runner/java:proguard.txt",
        ),
        "_manifest": attr.label(
            allow_single_file = True,
            default = "//tools/runner/android:LibraryManifest.xml",
        ),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
