"""Packages for Android and iOS, and measurements on devices."""

load("//rules/mobile:android_aar.bzl", _et_android_aar = "et_android_aar")
load("//rules/mobile:android_ai_pack.bzl", _et_android_ai_pack = "et_android_ai_pack")
load("//rules/mobile:android_apk.bzl", _et_android_apk = "et_android_apk")
load("//rules/mobile:app_benchmark.bzl", _et_app_benchmark = "et_app_benchmark")
load("//rules/mobile:assets.bzl", _et_assets = "et_assets")
load("//rules/mobile:ios_asset_packs.bzl", _et_ios_asset_packs = "et_ios_asset_packs")
load("//rules/mobile:ios_xcframework.bzl", _et_ios_xcframework = "et_ios_xcframework")
load("//toolchains/android:android_tools.bzl", _et_android_tools = "et_android_tools")
load("//toolchains/android:providers.bzl", _EtAndroidToolsInfo = "EtAndroidToolsInfo")

EtAndroidToolsInfo = _EtAndroidToolsInfo
et_android_aar = _et_android_aar
et_android_ai_pack = _et_android_ai_pack
et_android_apk = _et_android_apk
et_android_tools = _et_android_tools
et_app_benchmark = _et_app_benchmark
et_assets = _et_assets
et_ios_asset_packs = _et_ios_asset_packs
et_ios_xcframework = _et_ios_xcframework
