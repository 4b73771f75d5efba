"""android_library, which compiles Java; aar_import and android_binary, which only take the files."""

load("@rules_executorch//rules/mobile/private:android_java.bzl", "android_classes")

def aar_import(*, name, aar):
    """Takes an AAR.

    Args:
      name: of the target.
      aar: of et_android_aar.
    """
    native.filegroup(name = name, srcs = [aar])

def android_library(*, name, srcs, deps, manifest):
    """Compiles Java against Android's API and the classes of AARs.

    Args:
      name: of the target.
      srcs: .java files.
      deps: aar_import targets. Not built for this: all of them have the same classes.
      manifest: not read.
    """
    android_classes(
        name = name,
        srcs = srcs,
        deps = ["@rules_executorch//tools/runner/android:library"],
    )
    native.filegroup(name = name + ".deps", srcs = deps + [manifest])

def android_binary(*, name, deps, manifest, nocompress_extensions):
    """Takes what an app has.

    Args:
      name: of the target.
      deps: android_library targets.
      manifest: AndroidManifest.xml.
      nocompress_extensions: ends of files' names.
    """
    if not nocompress_extensions:
        fail("nocompress_extensions: got none")
    native.filegroup(name = name, srcs = deps + [manifest])
