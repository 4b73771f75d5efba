"""simulator_flag: whether a build is for a simulator, in a form that toolchains' `target_settings` can compare."""

def _simulator_flag_impl(ctx):
    return [config_common.FeatureFlagInfo(value = str(ctx.attr.simulator))]

simulator_flag = rule(
    implementation = _simulator_flag_impl,
    doc = "\"True\" or \"False\", for `flag_values` of a config_setting.",
    attrs = {"simulator": attr.bool(mandatory = True)},
)
