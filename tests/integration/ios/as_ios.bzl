"""as_ios: this machine's app instead of one for iOS, with the runtime of an iOS app."""

load("//rules:providers.bzl", "EtAppInfo", "EtRuntimeInfo")

def _as_ios_impl(ctx):
    app = ctx.attr.app[EtAppInfo]
    runtime = ctx.attr.runtime[EtRuntimeInfo]
    fields = {name: getattr(app, name) for name in dir(app) if name not in ("to_json", "to_proto")}
    fields |= {
        "api_library": ctx.file.api_library,
        "platform": runtime.platform,
        "runtime": runtime,
    }
    return [EtAppInfo(**fields)]

as_ios = rule(
    implementation = _as_ios_impl,
    attrs = {
        "api_library": attr.label(allow_single_file = True),
        "app": attr.label(mandatory = True, providers = [EtAppInfo]),
        "runtime": attr.label(mandatory = True, providers = [EtRuntimeInfo]),
    },
    provides = [EtAppInfo],
)
