"""Conditions of variants: what a device must be like, as users write it, as JSON has it, and for a platform."""

# Facts that apps ask a device for; whether they are versions, which can be compared.
_FACTS = {
    "cpu": False,
    "features": False,
    "os": False,
    "os_level": True,
    "platform": False,
    "qnn": True,
    "ram_gb": True,
    "soc": False,
    "vulkan": True,
}

# Constraint values of @platforms to the values of apps' platforms, where they are called otherwise.
_CPUS = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64"}
_SYSTEMS = {"android": "android", "ios": "ios", "linux": "linux", "macos": "macos", "osx": "macos"}

def _constraint(label, text):
    """Reads "@platforms//os:android"; None: it is no constraint value."""
    for setting, values in (("cpu", _CPUS), ("os", _SYSTEMS)):
        start = "@platforms//%s:" % setting
        if text.startswith(start):
            value = text[len(start):]
            if value not in values:
                fail("%s: condition \"%s\": got \"%s\", expected one of: %s." %
                     (label, text, value, ", ".join(values)))
            return struct(fact = setting, any_of = [values[value]], at_least = "", below = "")
    return None

def parse_condition(label, text):
    """Reads "soc = SM8650 SM8750", "ram_gb >= 8", "os_level < 31" or "@platforms//os:android".

    Args:
      label: Label, for messages.
      text: string.

    Returns:
      struct(fact, any_of, at_least, below): string, list of strings, two strings.
    """
    constraint = _constraint(label, text)
    if constraint:
        return constraint
    words = [word for word in text.replace("\t", " ").split(" ") if word]
    if len(words) < 3 or words[1] not in ("=", ">=", "<"):
        fail(("%s: condition \"%s\": expected a fact, one of = >= <, and a value, such as \"soc = SM8650 SM8750\" or " +
              "\"ram_gb >= 8\".") % (label, text))
    fact, sign, values = words[0], words[1], words[2:]
    if fact not in _FACTS:
        fail("%s: condition \"%s\": got the fact \"%s\", expected one of: %s." %
             (label, text, fact, ", ".join(_FACTS)))
    if sign == "=":
        return struct(fact = fact, any_of = values, at_least = "", below = "")
    if not _FACTS[fact]:
        fail("%s: condition \"%s\": %s has no order. Name its values: \"%s = %s\"." %
             (label, text, fact, fact, " ".join(values)))
    if len(values) > 1 or not values[0].replace(".", "").isdigit() or values[0].startswith("."):
        fail("%s: condition \"%s\": got \"%s\", expected a version, such as 8 or 1.3." %
             (label, text, " ".join(values)))
    return struct(
        fact = fact,
        any_of = [],
        at_least = values[0] if sign == ">=" else "",
        below = values[0] if sign == "<" else "",
    )

def encoded_conditions(conditions):
    """Conditions as manifests have them.

    Args:
      conditions: list of `parse_condition`'s structs.

    Returns:
      A string: JSON.
    """
    return json.encode([
        {key: value for key, value in (
            ("fact", c.fact),
            ("any_of", c.any_of),
            ("at_least", c.at_least),
            ("below", c.below),
        ) if value}
        for c in conditions
    ])

def fits_platform(conditions, platform):
    """Tells whether an app for a platform can have a program.

    Args:
      conditions: list of `parse_condition`'s structs.
      platform: name of the app's platform: "android_arm64".

    Returns:
      False where a condition on platform, os or cpu never holds in the app.
    """
    parts = platform.replace("_sim_", "_").split("_", 1)
    facts = {"cpu": parts[-1], "os": parts[0], "platform": platform}
    for c in conditions:
        if c.fact in facts and facts[c.fact] not in c.any_of:
            return False
    return True
