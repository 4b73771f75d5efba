"""memory_tasks: a base and four tasks, for the benchmark of their memory."""

load("//rules:defs.bzl", "et_model", "et_program", "et_shared_data")
load("//rules/mobile:defs.bzl", "et_assets")

_ADAPTERS = ["assistant", "summarizer"]
_RECIPE = "//backends/xnnpack:int8_dynamic_act_int4_weight"

def memory_tasks(name):
    """Declares `memory_llama` and `memory_llama_tiny`: files of apps with a base and four tasks.

    Those of `…_by_name` have the tasks' names as keys, those of the others hashes.

    Args:
      name: prefix of adapters: two more, which are multiples of those in //models/adapters.
    """
    adapters = ["//models/adapters:" + adapter for adapter in _ADAPTERS]
    for adapter in _ADAPTERS:
        scaled = "%s_%s" % (name, adapter)
        native.genrule(
            name = scaled,
            testonly = True,
            srcs = ["//models/adapters:" + adapter],
            outs = [scaled + "/adapter_config.json", scaled + "/adapter_model.safetensors"],
            cmd = "$(execpath :scaled_adapter) $(RULEDIR)/%s $(execpaths //models/adapters:%s)" % (scaled, adapter),
            tags = ["manual"],
            tools = [":scaled_adapter"],
        )
        adapters.append(scaled)
    for model, config, args, memory_mb in [
        ("llama", "smollm2.yaml", {}, 8000),
        ("llama_tiny", "smollm2_tiny.yaml", {"layers": "2"}, 4000),
    ]:
        _app(model, config, args, memory_mb, adapters)

def _app(model, config, args, memory_mb, adapters):
    base = "memory_%s_base" % model
    by_content = [base]
    by_name = [base]
    et_shared_data(
        name = "memory_%s_foundation" % model,
        lowerings = ["//models:%s_xnnpack" % model],
        tags = ["manual"],
        testonly = True,
    )
    et_program(
        name = base,
        lowering = "//models:%s_xnnpack" % model,
        shared_data = ["memory_%s_foundation" % model],
        tags = ["manual"],
        testonly = True,
    )
    for i, adapter in enumerate(adapters):
        task = "memory_%s_task_%d" % (model, i + 1)
        et_model(
            name = task + "_model",
            adapter = [adapter],
            adapter_entry_point = "etllm.entry:adapter",
            args = {"backends": "xnnpack"} | args,
            data = ["//models:" + config, "@smollm2//:model.gguf"],
            entry_point = "etllm.entry:build",
            memory_mb = memory_mb,
            tags = ["manual"],
            testonly = True,
            deps = ["//tools/etllm"],
        )
        et_program(
            name = task,
            model = task + "_model",
            recipe = _RECIPE,
            shared_data = ["memory_%s_foundation" % model],
            tags = ["manual"],
            testonly = True,
            weights = "separate",
        )
        by_content.append(task)
        et_program(
            name = task + "_by_name",
            adapter_data = "by_name",
            lowering = task,
            shared_data = ["memory_%s_foundation" % model],
            tags = ["manual"],
            testonly = True,
            weights = "separate",
        )
        by_name.append(task + "_by_name")
    for suffix, programs in [("", by_content), ("_by_name", by_name)]:
        et_assets(
            name = "memory_" + model + suffix,
            programs = programs,
            tags = ["manual"],
            testonly = True,
        )
