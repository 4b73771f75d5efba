"""et_llm: a language model, from its checkpoint to apps."""

load("//rules:lowering.bzl", "et_lowering")
load("//rules:model.bzl", "et_model")
load("//rules:program.bzl", "et_program")
load("//rules:recipe.bzl", "et_recipe")
load("//rules:runner_app.bzl", "et_runner_app")
load("//rules:shared_data.bzl", "et_shared_data")
load("//rules/llm:llm_chat.bzl", "et_llm_chat")
load("//rules/llm:llm_tokenizer.bzl", "et_llm_tokenizer")
load("//rules/llm/private:checkpoint_files.bzl", "checkpoint_files")
load("//rules/llm/private:llm_benchmarks.bzl", "llm_benchmarks")
load("//rules/mobile:android_apk.bzl", "et_android_apk")
load("//rules/mobile:app_benchmark.bzl", "et_app_benchmark")
load("//rules/mobile:ios_xcframework.bzl", "et_ios_xcframework")
load("//toolchains/runtime:import_names.bzl", "ABIS", "SLICES")

# Backends whose recipes the YAML file can choose, by the names of its sections: folder and target in //backends.
_BACKENDS = {
    "coreml": ("coreml", "coreml"),
    "ethosu": ("arm", "ethos_u"),
    "mlx": ("mlx", "mlx"),
    "mps": ("mps", "mps"),
    "openvino": ("openvino", "openvino"),
    "portable": ("portable", "portable"),
    "qnn": ("qualcomm", "qualcomm"),
    "tosa": ("arm", "tosa"),
    "vgf": ("arm", "vgf"),
    "vulkan": ("vulkan", "vulkan"),
    "xnnpack": ("xnnpack", "xnnpack"),
}

# Weights that layers of et_llm alone read. A target with others fetches the packages of transformers, too.
_OWN_FILES = (".gguf", ".pt", ".pth")

# Backends whose programs can ask for weights by name.
_NAMED = ["portable", "xnnpack"]

def et_llm(
        *,
        name,
        checkpoint,
        config,
        tokenizer = None,
        backends = ["xnnpack"],
        recipes = {},
        adapters = {},
        foundation = False,
        adapter_data = "by_content",
        app = True,
        platforms = [],
        android_package = "",
        benchmark = False,
        layers = 0,
        memory_mb = 0,
        method_adapters = [],
        exec_properties = None,
        features = None,
        tags = [],
        target_compatible_with = None,
        testonly = None,
        visibility = None):
    """A language model: programs, tokenizer, chat and apps from a checkpoint and one YAML file.

    ```starlark
    et_llm(
        name = "qwen",
        checkpoint = glob(["qwen3-0.6b/*"]),
        config = "qwen.yaml",
        backends = ["xnnpack", "vulkan"],
        adapters = {"summarizer": glob(["summarizer/*"])},
        platforms = ["android_arm64", "linux_arm64"],
    )
    ```

    | target | |
    |---|---|
    | `<name>` | all programs, the tokenizer and, with `benchmark`, the measurements |
    | `<name>_<backend>`, `<name>_<adapter>_<backend>` | programs (et_program) |
    | `<name>_<backend>_foundation` | with `foundation`: the weights of a backend's programs (et_shared_data) |
    | `<name>_tokenizer` | tokenizer.json, tokenizer_config.json, chat_format.json |
    | `<name>_benchmark` | with `benchmark`: a page, a table and JSON for each program |
    | `<name>_chat`, `<name>_<adapter>_chat` | `bazel run`: a conversation on this machine |
    | `<name>_app`, `<name>_app_<platform>` | apps (et_runner_app) with all programs of the first backend |
    | `<name>_app….benchmark` | measures such an app, on a device or here (et_app_benchmark) |
    | `<name>_apk` | with platforms for Android: an app with a chat for phones (et_android_apk); "manual", so that only who asks for it fetches Android's tools |
    | `<name>_ios` | with platforms for iOS: a Swift package (et_ios_xcframework); "manual" |
    | `<name>_model`, `<name>_<adapter>_model` | what is lowered (et_model) |

    The checkpoint is config.json with .safetensors files (Hugging Face), a GGUF file, or params.json with a
    .pth file (Meta). Layers of et_llm replace those of transformers where they are faster, if they have all that
    config.json says; the report says where they don't. The YAML file is that of upstream's `export_llm` (`LlmConfig`). An unsupported key fails
    the build with its line. See docs/start/llm.md.

    Args:
      name: prefix of the targets' names.
      checkpoint: labels of the checkpoint's files; may be a select().
      config: label of the YAML file.
      tokenizer: labels of tokenizer.json, tokenizer_config.json and, if there is one,
        chat_template.jinja; or of a GGUF file. Default: those among the checkpoint's files.
      backends: names of the YAML file's sections of backends, "portable" or "mps". Each gives a program with
        the recipe that the file selects. The file must enable all of them that have a section.
      recipes: more programs: dict of name, which targets have instead of a backend's, to the label of a recipe.
      adapters: LoRA adapters: name to labels of adapter_config.json and adapter_model.safetensors.
      foundation: whether all programs of a backend share one .ptd with the base weights.
      adapter_data: with foundation: "by_name" makes names the keys of the adapters' .ptd files. One .pte then
        serves all adapters of one structure, and new values lower nothing. See et_program.
      app: whether to declare an app for the build's target platform.
      platforms: more apps, by names in @rules_executorch//toolchains/platforms; a dict also selects the backend
        of each ({"ios_arm64": "coreml"}).
      android_package: package name of `<name>_apk`, such as "com.example.chat"; default: "com.example.<name>".
      benchmark: whether to build `<name>_benchmark` with `<name>`. It runs each program on this machine and
        measures it; without the attribute there is no such target.
      layers: use only the first N layers, for tests; 0: all.
      memory_mb: peak of a lowering in MiB, as in et_model.
      method_adapters: labels of adapter_config.json and adapter_model.safetensors of LoRA adapters that the YAML
        file gives to methods (multimethod.methods.*.lora_config). All of them are in one program, which holds the
        base weights once. Not with adapters.
      exec_properties: of all actions, for remote execution, e.g. {"mem": "64g"}.
      features: of the C++ toolchain, for the apps.
      tags: of all targets.
      target_compatible_with: constraints of the platforms that programs, chats and apps are built for.
      testonly: as for any target.
      visibility: of all targets.
    """
    common = dict(exec_properties = exec_properties, tags = tags, testonly = testonly, visibility = visibility)

    # Not of models and recipes, which are for the platform that lowers.
    of_targets = common | dict(target_compatible_with = target_compatible_with)
    of_apps = of_targets | dict(features = features)
    _check(name, backends, recipes, adapters)
    _check_adapter_data(name, adapter_data, adapters, foundation)
    if adapters and method_adapters:
        fail("et_llm %s: method_adapters: got files beside adapters, expected one of the two attributes. Adapters of " %
             name + "methods are in the base's own programs.")
    named = adapter_data == "by_name"
    checkpoint_files(
        name = name + "_checkpoint",
        srcs = checkpoint,
        **common
    )
    args = {"backends": ",".join(backends)}
    if layers:
        args["layers"] = str(layers)
    if method_adapters:
        args["method_adapters"] = "true"
    needs_transformers = _may_need_transformers(checkpoint)
    models = {"": []} | adapters
    for adapter, more in models.items():
        et_model(
            name = _joined(name, adapter, "model"),
            adapter = more if named else [],
            adapter_entry_point = "etllm.entry:adapter" if named and more else "",
            args = args,
            data = [name + "_checkpoint", config] + method_adapters + ([] if named else more),
            entry_point = "etllm.entry:build",
            memory_mb = memory_mb,
            packages = [Label("@executorch_transformers//:packages")] if needs_transformers else [],
            deps = [Label("//tools/etllm")] + ([Label("//tools/etllm/transformers")] if needs_transformers else []),
            **common
        )
    chosen = dict(recipes)
    for backend in backends:
        chosen[backend] = _recipe(name, backend, config, common)
    programs = {
        of: _programs(name, of, recipe, list(models), foundation, adapter_data, of_targets)
        for of, recipe in chosen.items()
    }
    first = (backends + list(recipes))[0]
    et_llm_tokenizer(
        name = name + "_tokenizer",
        srcs = checkpoint if tokenizer == None else tokenizer,
        **common
    )
    for adapter in models:
        et_llm_chat(
            name = _joined(name, adapter, "chat"),
            program = _joined(name, adapter, first),
            tokenizer = name + "_tokenizer",
            **of_targets
        )
    where = platforms if type(platforms) == "dict" else {platform: first for platform in platforms}
    for platform, of in where.items():
        if of not in programs:
            fail("et_llm %s: platforms: programs of \"%s\": got \"%s\", expected one of %s." %
                 (name, platform, of, ", ".join(sorted(programs))))
        _app(name, programs[of], of_apps, platform)
    _packages(name, where, android_package, of_targets)
    if app:
        _app(name, programs[first], of_apps)
    built = [p for of in programs.values() for p in of]
    if benchmark:
        llm_benchmarks(
            name = name + "_benchmark",
            benchmarks = [p + ".benchmark" for p in built],
            **of_targets
        )
    native.filegroup(
        name = name,
        srcs = built + [name + "_tokenizer"] + ([name + "_benchmark"] if benchmark else []),
        tags = tags,
        target_compatible_with = target_compatible_with,
        testonly = testonly,
        visibility = visibility,
    )

def _may_need_transformers(checkpoint):
    """Returns whether the checkpoint may have a config.json, whose contents say whose code makes the model."""
    if type(checkpoint) != "list":
        return True  # a select()
    return not any([str(name).endswith(_OWN_FILES) for name in checkpoint])

def _check(name, backends, recipes, adapters):
    """Fails where two targets would have one name, or no program would be declared."""
    if not backends and not recipes:
        fail("et_llm %s: no program is declared. Give backends, recipes or both." % name)
    for backend in backends:
        if backend not in _BACKENDS:
            fail(("et_llm %s: backends: got \"%s\", expected one of %s. For another backend, name one of its " +
                  "recipes: recipes = {\"%s\": …}.") % (name, backend, ", ".join(sorted(_BACKENDS)), backend))
        if backend in recipes:
            fail("et_llm %s: \"%s\" is in both backends and recipes. Remove it from one of them." %
                 (name, backend))
    for adapter in adapters:
        if adapter in backends + list(recipes) + ["apk", "app", "benchmark", "chat", "checkpoint", "ios", "model", "tokenizer"]:
            fail("et_llm %s: adapters: \"%s\" is the name of another target. Rename the adapter." %
                 (name, adapter))

def _check_adapter_data(name, adapter_data, adapters, foundation):
    """Fails where there is nothing that could have keys of this kind."""
    if adapter_data not in ("by_content", "by_name"):
        fail("et_llm %s: adapter_data: got \"%s\", expected \"by_content\" or \"by_name\"." % (name, adapter_data))
    if adapter_data == "by_name" and not (foundation and adapters):
        fail("et_llm %s: adapter_data = \"by_name\" needs adapters and foundation = True." % name)

def _recipe(name, backend, config, common):
    """The recipe of a backend that the YAML file chooses; returns its name."""
    recipe = "%s_%s_recipe" % (name, backend)
    folder, target = _BACKENDS[backend]
    et_recipe(
        name = recipe,
        backends = [Label("//backends/%s:%s" % (folder, target))],
        builder = "etllm.recipes:build",
        data = [config],
        option_types = {"backend": "text", "folder": "text"},
        options = {"backend": backend, "folder": folder},
        deps = [
            Label("//backends/%s:recipes" % folder),
            Label("//tools/etllm"),
        ],
        **common
    )
    return recipe

def _programs(name, backend, recipe, adapters, foundation, adapter_data, common):
    """Programs of a backend, the base first; returns their names."""
    names = [_joined(name, adapter, backend) for adapter in adapters]
    if not foundation:
        for adapter, program in zip(adapters, names):
            et_program(
                name = program,
                model = _joined(name, adapter, "model"),
                recipe = recipe,
                **common
            )
        return names
    lowering, shared = names[0] + "_lowering", names[0] + "_foundation"
    et_lowering(
        name = lowering,
        model = name + "_model",
        recipe = recipe,
        **common
    )
    et_shared_data(
        name = shared,
        lowerings = [lowering],
        **common
    )
    et_program(
        name = names[0],
        lowering = lowering,
        shared_data = [shared],
        **common
    )
    for adapter, program in zip(adapters[1:], names[1:]):
        et_program(
            name = program,
            # Other backends' payloads ask for the keys that they have.
            adapter_data = adapter_data if backend in _NAMED else "by_content",
            model = _joined(name, adapter, "model"),
            recipe = recipe,
            shared_data = [shared],
            weights = "separate",
            **common
        )
    return names

def _app(name, programs, common, platform = None):
    app = _joined(name, "app", platform)
    et_app_benchmark(
        name = app + ".benchmark",
        app = app,
        **(common | dict(tags = (common["tags"] or []) + ["manual"]))
    )
    et_runner_app(
        name = app,
        data = [name + "_tokenizer"],
        platform = Label("//toolchains/platforms:" + platform) if platform else None,
        programs = programs,
        **common
    )

def _packages(name, where, android_package, common):
    """Declares the packages for Android and iOS, with the platforms that have the programs of the first one of each."""
    common = common | dict(tags = (common["tags"] or []) + ["manual"])
    android = _alike(where, ABIS)
    if android:
        et_android_apk(
            name = name + "_apk",
            apps = [_joined(name, "app", platform) for platform in android],
            label = name,
            package = android_package or "com.example." + _identifier(name),
            **common
        )
    ios = _alike(where, [platform for platform in SLICES if platform.startswith("ios_")])
    if ios:
        et_ios_xcframework(
            name = name + "_ios",
            apps = [_joined(name, "app", platform) for platform in ios],
            **common
        )

def _alike(where, known):
    platforms = [platform for platform in where if platform in known]
    return [platform for platform in platforms if where[platform] == where[platforms[0]]]

def _identifier(name):
    """The name as a part of the name of a Java package."""
    characters = [c if c.isalnum() else "_" for c in name.elems()]
    return ("" if characters[0].isalpha() else "a") + "".join(characters)

def _joined(*parts):
    """Parts of a target's name that aren't empty."""
    return "_".join([part for part in parts if part])
