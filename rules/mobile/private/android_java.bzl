"""Java for Android: sources to classes, classes to .dex."""

load("//toolchains/android:android_tools.bzl", "ANDROID_TOOLCHAIN")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")

# The first version in which Android runs libraries and resources as these rules pack them.
MIN_SDK = 26

def _android_classes_impl(ctx):
    tools = ctx.toolchains[ANDROID_TOOLCHAIN].android_tools
    classes = ctx.actions.declare_directory(ctx.label.name + ".classes")
    args = ctx.actions.args()
    args.add_all(["-source", "1.8", "-target", "1.8", "-encoding", "UTF-8", "-nowarn"])
    args.add("-bootclasspath", tools.android_jar)
    args.add_joined("-classpath", ctx.files.deps, join_with = ":")
    args.add_all("-d", [classes], expand_directories = False)
    args.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = tools.java_compiler,
        arguments = [args],
        inputs = ctx.files.srcs + ctx.files.deps + [tools.android_jar],
        outputs = [classes],
        mnemonic = "EtJava",
        progress_message = "Compiling %{label}",
        toolchain = ANDROID_TOOLCHAIN,
    )
    jar = ctx.actions.declare_file(ctx.label.name + ".jar")
    packing = ctx.actions.args()
    packing.add_all("--directory", [classes], expand_directories = False)
    packing.add("--output", jar)
    linker_action(
        ctx,
        module = "etbundle.archives",
        arguments = packing,
        inputs = [classes],
        outputs = [jar],
        mnemonic = "EtJava",
        progress_message = "Packing %{output}",
    )
    return [DefaultInfo(files = depset([jar]))]

android_classes = rule(
    implementation = _android_classes_impl,
    doc = "Classes that use nothing but Android's own, as a .jar.",
    attrs = {
        "deps": attr.label_list(
            allow_files = [".jar"],
            doc = "Other classes that they use, which are not in the .jar.",
        ),
        "srcs": attr.label_list(
            allow_files = [".java"],
            doc = "Java 8 without lambdas: the API of Android 6 has nothing that they need.",
            mandatory = True,
        ),
    },
    toolchains = [ANDROID_TOOLCHAIN, EXPORTER_TOOLCHAIN],
)

def _android_dex_impl(ctx):
    tools = ctx.toolchains[ANDROID_TOOLCHAIN].android_tools
    output = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add("--release")
    args.add("--min-api", str(MIN_SDK))
    args.add("--lib", tools.android_jar)
    args.add_all("--output", [output], expand_directories = False)
    args.add(ctx.file.classes)
    ctx.actions.run(
        executable = tools.d8,
        arguments = [args],
        inputs = [ctx.file.classes, tools.android_jar],
        outputs = [output],
        mnemonic = "EtJava",
        progress_message = "Dexing %{label}",
        toolchain = ANDROID_TOOLCHAIN,
    )
    return [DefaultInfo(files = depset([output]))]

android_dex = rule(
    implementation = _android_dex_impl,
    doc = "A folder with the .dex files of classes.",
    attrs = {
        "classes": attr.label(
            allow_single_file = [".jar"],
            doc = "The .jar.",
            mandatory = True,
        ),
    },
    toolchains = [ANDROID_TOOLCHAIN],
)
