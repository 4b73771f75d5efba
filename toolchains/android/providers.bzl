"""Providers of the toolchain of Android apps."""

EtAndroidToolsInfo = provider(
    doc = "Programs of an Android SDK. Created by `et_android_tools`.",
    fields = {
        "aapt2": "FilesToRunProvider: packs the manifest.",
        "android_jar": "File: the API to compile against, with its resources.",
        "apksigner": "FilesToRunProvider: signs and verifies.",
        "d8": "FilesToRunProvider: makes .dex files out of classes.",
        "java_compiler": "FilesToRunProvider: takes javac's options.",
    },
)
