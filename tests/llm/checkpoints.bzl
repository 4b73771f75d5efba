"""checkpoint: a tiny checkpoint with random weights."""

def checkpoint(name, shards = 1, of = ""):
    """The files of a tiny checkpoint, or of an adapter for one.

    Args:
      name: of the target; the family ("qwen3"), where `of` is empty.
      shards: number of .safetensors files.
      of: the family that an adapter is for.
    """
    if of:
        outs = ["adapter_config.json", "adapter_model.safetensors"]
    else:
        outs = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
        outs += ["model.safetensors"] if shards == 1 else ["model.safetensors.index.json"] + [
            "model-0000%d-of-0000%d.safetensors" % (i + 1, shards)
            for i in range(shards)
        ]
    native.genrule(
        name = name,
        testonly = True,
        outs = ["%s/%s" % (name, out) for out in outs],
        cmd = "$(execpath :write_checkpoint) --family %s --output $(RULEDIR)/%s --shards %d%s" %
              (of or name, name, shards, " --adapter" if of else ""),
        tools = [":write_checkpoint"],
    )
