"""as_android: this machine's app instead of one for Android, so that its code can run here."""

load("//rules:providers.bzl", "EtAppInfo")

def _as_android_impl(ctx):
    app = ctx.attr.app[EtAppInfo]
    fields = {name: getattr(app, name) for name in dir(app) if name not in ("to_json", "to_proto")}
    fields |= {
        "api_library": ctx.file.api_library,
        "platform": ctx.attr.platform,
    }
    return [DefaultInfo(files = depset([app.directory])), EtAppInfo(**fields)]

as_android = rule(
    implementation = _as_android_impl,
    attrs = {
        "api_library": attr.label(allow_single_file = True),
        "app": attr.label(mandatory = True, providers = [EtAppInfo]),
        "platform": attr.string(mandatory = True),
    },
    provides = [EtAppInfo],
)
