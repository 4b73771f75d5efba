"""et_android_apk: an Android app that chats with a language model."""

load("//rules:providers.bzl", "EtAppPackageInfo")
load("//rules/mobile/private:android_apps.bzl", "APPS", "add_apps", "android_manifest", "apps_by_abi", "check_text")
load("//rules/mobile/private:android_java.bzl", "MIN_SDK")
load("//toolchains/android:android_tools.bzl", "ANDROID_TOOLCHAIN")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")

def _et_android_apk_impl(ctx):
    apps = apps_by_abi(ctx)
    for app in apps.values():
        if not app.api_library:
            fail(("%s: %s has a custom main, and so no library for Java. Use et_android_aar, and an Android app of " +
                  "your own.") % (ctx.label, app.label))
    base = _base(ctx)
    unsigned = ctx.actions.declare_file(ctx.label.name + ".unsigned.apk")
    args = ctx.actions.args()
    args.add("--output", unsigned)
    args.add("--label", ctx.label)
    args.add("--base", base)
    args.add_all("--dex", [ctx.file._dex], expand_directories = False)
    add_apps(args, apps)
    for abi, app in apps.items():
        args.add("--library", app.api_library, format = abi + "=%s")
    linker_action(
        ctx,
        module = "etbundle.mobile.apk",
        arguments = args,
        inputs = [base, ctx.file._dex] +
                 [app.directory for app in apps.values()] +
                 [app.api_library for app in apps.values()],
        outputs = [unsigned],
        mnemonic = "EtPackage",
        progress_message = "Packing %{output}",
    )
    apk = ctx.actions.declare_file(ctx.label.name + ".apk")
    _sign(ctx, unsigned, apk)
    return [
        DefaultInfo(files = depset([apk])),
        OutputGroupInfo(unsigned = depset([unsigned])),
        EtAppPackageInfo(
            label = ctx.label,
            kind = "apk",
            file = apk,
            apps = apps.values(),
            signing_key = "own" if ctx.attr.key else "debug",
        ),
    ]

def _base(ctx):
    """The manifest in Android's binary form, in a zip."""
    for attribute in ("label", "version_name"):
        if getattr(ctx.attr, attribute):
            check_text(ctx, attribute, getattr(ctx.attr, attribute))
    if ctx.attr.version_code < 1:
        fail("%s: version_code: got %d, expected 1 or more." % (ctx.label, ctx.attr.version_code))
    manifest = android_manifest(
        ctx,
        template = ctx.file._manifest,
        package = ctx.attr.package,
        substitutions = {
            "label": ctx.attr.label or ctx.label.name,
            "version_code": str(ctx.attr.version_code),
            "version_name": ctx.attr.version_name,
        },
    )
    tools = ctx.toolchains[ANDROID_TOOLCHAIN].android_tools
    base = ctx.actions.declare_file(ctx.label.name + ".base.apk")
    args = ctx.actions.args()
    args.add("link")
    args.add("-I", tools.android_jar)
    args.add("--manifest", manifest)
    args.add("-o", base)
    ctx.actions.run(
        executable = tools.aapt2,
        arguments = [args],
        inputs = [manifest, tools.android_jar],
        outputs = [base],
        mnemonic = "EtPackage",
        progress_message = "Packing the manifest of %{label}",
        toolchain = ANDROID_TOOLCHAIN,
    )
    return base

def _sign(ctx, unsigned, apk):
    own = [name for name in ("key_alias", "key_password_file") if getattr(ctx.attr, name)]
    if own and not ctx.attr.key:
        fail("%s: %s has no effect without key. Give key, the keystore." % (ctx.label, " and ".join(own)))
    if ctx.attr.key and not ctx.attr.key_password_file:
        fail("%s: key needs key_password_file. Give a file whose first line is the password." % ctx.label)
    tools = ctx.toolchains[ANDROID_TOOLCHAIN].android_tools
    key = ctx.file.key or ctx.file._debug_key
    inputs = [unsigned, key]
    args = ctx.actions.args()
    args.add("sign")
    args.add("--ks", key)
    if ctx.attr.key:
        args.add("--ks-pass", ctx.file.key_password_file, format = "file:%s")
        inputs.append(ctx.file.key_password_file)
    else:
        args.add("--ks-pass", "pass:android")
    if ctx.attr.key_alias:
        args.add("--ks-key-alias", ctx.attr.key_alias)
    args.add("--min-sdk-version", str(MIN_SDK))
    args.add_all("--v1-signing-enabled", ["false"])
    args.add_all("--v2-signing-enabled", ["true"])
    args.add_all("--v3-signing-enabled", ["true"])
    args.add_all("--v4-signing-enabled", ["false"])
    args.add("--in", unsigned)
    args.add("--out", apk)
    ctx.actions.run(
        executable = tools.apksigner,
        arguments = [args],
        inputs = inputs,
        outputs = [apk],
        mnemonic = "EtPackage",
        progress_message = "Signing %{output}",
        # One's own key stays on this machine.
        execution_requirements = {"no-cache": "1", "no-remote": "1"} if ctx.attr.key else {},
        toolchain = ANDROID_TOOLCHAIN,
    )

et_android_apk = rule(
    implementation = _et_android_apk_impl,
    doc = """An APK with a chat, to try a language model on a phone or in an emulator.

```starlark
et_android_apk(
    name = "chat_apk",
    apps = [":chat_android_arm64", ":chat_android_x86_64"],
    package = "com.example.chat",
)
```

Install it with `adb install bazel-bin/…/chat_apk.apk`. The app needs a language model and its et_llm_tokenizer; if it
has several programs, it asks which one answers. Answers and errors are in `adb logcat -s ExecuTorch`, too. The source
of its screen is that of examples/android_app, which has not been tried on a device: tests run the APK's native code in
a desktop's Java. To measure a program on a phone, use et_app_benchmark.

The APK contains programs, data and libraries uncompressed and aligned: libraries to pages of 16 KiB, which targetSdk
35 needs. The build refuses a library that cannot be aligned. On its first start, the app copies
programs and data to files. Without `key`, a public debug key signs the APK: never release it. RSA keys give the
same bytes in each build, other keys do not.

Outputs: `<name>.apk`; output group `unsigned`: `<name>.unsigned.apk`.
""",
    attrs = {
        "apps": APPS,
        "key": attr.label(
            allow_single_file = True,
            doc = "Keystore (PKCS #12, JKS) with the key to sign with.",
        ),
        "key_alias": attr.string(doc = "Name of the key in the keystore; required if it has several."),
        "key_password_file": attr.label(
            allow_single_file = True,
            doc = "File whose first line is the password of keystore and key.",
        ),
        "label": attr.string(doc = "Name that users see; default: the target's name."),
        "package": attr.string(
            doc = "Package name of the app, such as \"com.example.chat\".",
            mandatory = True,
        ),
        "version_code": attr.int(default = 1, doc = "Number that increases with each release."),
        "version_name": attr.string(default = "1.0", doc = "Version that users see."),
        "_debug_key": attr.label(
            allow_single_file = True,
            default = "//toolchains/android:debug_key.p12",
        ),
        "_dex": attr.label(
            allow_single_file = True,
            default = "//tools/runner/android:chat_dex",
        ),
        "_manifest": attr.label(
            allow_single_file = True,
            default = "//tools/runner/android:AndroidManifest.xml",
        ),
    },
    toolchains = [ANDROID_TOOLCHAIN, EXPORTER_TOOLCHAIN],
)
