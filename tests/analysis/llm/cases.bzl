"""Language models that et_llm declares, their tests, and what it rejects."""

load("//rules/llm:defs.bzl", "et_llm", "et_llm_tokenizer")
load("//rules/llm/private:checkpoint_files.bzl", "checkpoint_files")
load("//tests/analysis:tables.bzl", "declare", "failure_tests")
load(":llm.bzl", "absent_test", "llm_app_test", "llm_attributes_test", "llm_model_test", "llm_package_test", "llm_program_test")

_ADAPTER = ["adapter_config.json", "adapter_model.safetensors"]

def cases():
    """Declares the targets of this package."""
    checkpoint = native.glob(["checkpoint/*"])

    declare(et_llm, {
        "two_backends": dict(
            backends = ["xnnpack", "portable"],
            layers = 1,
            platforms = {"linux_arm64": "portable"},
            recipes = {"gpu": "//backends/vulkan:fp16"},
        ),
        # The APK has the apps whose programs are those of the first one.
        "3-phones": dict(
            app = False,
            backends = ["xnnpack", "portable"],
            platforms = {
                "android_arm64": "xnnpack",
                "android_x86_64": "xnnpack",
                "ios_arm64": "portable",
                "ios_sim_arm64": "xnnpack",
                "linux_arm64": "xnnpack",
            },
        ),
        "shared": dict(adapters = {"poet": _ADAPTER}, foundation = True),
        # Attributes of all rules, and a checkpoint that depends on the configuration.
        "attributes": dict(
            benchmark = True,
            checkpoint = select({"@platforms//os:linux": checkpoint, "//conditions:default": checkpoint}),
            exec_properties = {"pool": "large"},
            features = ["thin_lto"],
            target_compatible_with = ["@platforms//os:linux"],
        ),
        # A section of the YAML file whose backend has another name, and adapters of methods.
        "sections": dict(app = False, backends = ["ethosu"], method_adapters = _ADAPTER),
    }, checkpoint = checkpoint, config = "llm.yaml", tags = ["manual"])

    # Nothing is measured unless a target asks for it.
    absent_test(
        name = "no_benchmark_test",
        existing = [name for name in native.existing_rules() if name.startswith("two_backends_b")],
    )

    declare(llm_model_test, {
        "selected_checkpoint_test": dict(
            data = ["config.json", "llm.yaml", "model.safetensors"],
            model_args = {"backends": "xnnpack"},
            target_under_test = ":attributes_model",
        ),
        # What a tokenizer consists of lowers nothing again.
        "model_test": dict(
            data = ["config.json", "llm.yaml", "model.safetensors"],
            model_args = {"backends": "xnnpack,portable", "layers": "1"},
            target_under_test = ":two_backends_model",
        ),
        "adapter_model_test": dict(
            data = _ADAPTER + ["config.json", "llm.yaml", "model.safetensors"],
            model_args = {"backends": "xnnpack"},
            target_under_test = ":shared_poet_model",
        ),
        "method_adapters_test": dict(
            data = _ADAPTER + ["config.json", "llm.yaml", "model.safetensors"],
            model_args = {"backends": "ethosu", "method_adapters": "true"},
            target_under_test = ":sections_model",
        ),
    })

    declare(llm_attributes_test, {
        # Models and recipes are for the platform that lowers.
        "attributes_app_attributes_test": dict(cc_features = ["thin_lto"], target_under_test = "attributes_app"),
        "attributes_benchmark_attributes_test": dict(target_under_test = "attributes_benchmark"),
        "attributes_chat_attributes_test": dict(target_under_test = "attributes_chat"),
        "attributes_model_attributes_test": dict(constraints = [], target_under_test = "attributes_model"),
        "attributes_xnnpack_attributes_test": dict(target_under_test = "attributes_xnnpack"),
        "attributes_xnnpack_recipe_attributes_test": dict(
            constraints = [],
            target_under_test = "attributes_xnnpack_recipe",
        ),
    }, cc_features = [], constraints = ["linux"])

    declare(llm_program_test, {
        "xnnpack_test": dict(
            model = "two_backends_model",
            recipe = "two_backends_xnnpack_recipe",
            target_under_test = ":two_backends_xnnpack",
        ),
        "own_recipe_test": dict(
            backends = ["VulkanBackend"],
            model = "two_backends_model",
            recipe = "fp16",
            target_under_test = ":two_backends_gpu",
        ),
        "foundation_test": dict(
            data = ["shared_xnnpack_foundation.ptd"],
            model = "shared_model",
            recipe = "shared_xnnpack_recipe",
            target_under_test = ":shared_xnnpack",
        ),
        "adapter_test": dict(
            data = ["shared_poet_xnnpack.ptd", "shared_xnnpack_foundation.ptd"],
            model = "shared_poet_model",
            recipe = "shared_xnnpack_recipe",
            target_under_test = ":shared_poet_xnnpack",
        ),
        "section_test": dict(
            backends = ["EthosUBackend"],
            model = "sections_model",
            recipe = "sections_ethosu_recipe",
            target_under_test = ":sections_ethosu",
        ),
    }, backends = ["XnnpackBackend"])

    declare(llm_app_test, {
        "app_test": dict(
            platform = "linux_arm64",
            programs = ["two_backends_portable"],
            target_under_test = ":two_backends_app_linux_arm64",
        ),
        "adapter_app_test": dict(
            platform = "linux_x86_64",
            programs = ["shared_xnnpack", "shared_poet_xnnpack"],
            target_under_test = ":shared_app",
        ),
    })

    declare(llm_package_test, {
        "apk_test": dict(
            apps = ["3-phones_app_android_arm64", "3-phones_app_android_x86_64"],
            package = "com.example.a3_phones",
            target_under_test = ":3-phones_apk",
        ),
        "ios_test": dict(apps = ["3-phones_app_ios_arm64"], target_under_test = ":3-phones_ios"),
    })

    failure_tests(checkpoint_files, {
        "empty_checkpoint_test": (
            "checkpoint: got no file that a model could be read from",
            dict(srcs = ["checkpoint/tokenizer.json"]),
        ),
    })

    failure_tests(et_llm_tokenizer, {
        "no_tokenizer_test": (
            "srcs: tokenizer.json not found. Available: config.json. Give the tokenizer's files in Hugging " +
            "Face's format",
            dict(srcs = ["checkpoint/config.json"]),
        ),
        "no_tokenizer_config_test": (
            "srcs: tokenizer_config.json not found. Available: tokenizer.json.",
            dict(srcs = ["checkpoint/tokenizer.json"]),
        ),
    })
