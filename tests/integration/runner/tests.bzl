"""Tests of the runner, by what each of them reads."""

load("//tests:pytest.bzl", "pytest_test")

_TOOLS = ["//tools/etbuild", "//tools/etlink"]

# Of a test that starts the runner or another program in a process of its own.
_PROCESS = ["conftest.py", "runner_process.py"]

_MISUSE = ["counting.py", "misuse_rows.py", "test_misuse.py"]

_TASKS = ["//models/tasks:tiny_int4_assistant", "//models/tasks:tiny_int4_base", "//models/tasks:tiny_int4_summarizer"]

def _sanitized(name, program, variable, **values):
    """Attributes of a test of a program that is built with a sanitizer."""
    return dict(
        data = [":" + program],
        env = {
            "TSAN_OPTIONS": "exitcode=66 ignore_noninstrumented_modules=1",
            variable: "$(rootpath :%s)" % program,
        } | values,
        tags = [] if name == "misuse_test" else ["manual"],
    )

def runner_tests(programs):
    """Declares the tests.

    Args:
      programs: names of this package's programs.
    """
    tests = {
        # One process, as importing PyTorch takes longer than most of these tests.
        "programs_test": dict(
            srcs = _PROCESS + [
                "conversation.py",
                "counting.py",
                "eager.py",
                "nets.py",
                "test_bundled.py",
                "test_by_name.py",
                "test_compared.py",
                "test_costs.py",
                "test_damage.py",
                "test_data_files.py",
                "test_etdump.py",
                "test_formats.py",
                "test_manifest.py",
                "test_outputs.py",
                "test_prompt.py",
                "test_sampling.py",
                "test_text.py",
                "test_weight_cache.py",
            ],
            data = [
                ":app",
                ":bundles",
                ":expected",
                ":faulty_runner",
                ":libwrite_order.so",
                ":manifests",
                "//models:llama_tiny_methods_xnnpack",
                "//models:llama_tiny_xnnpack",
                "//models:llama_tokenizer",
                "//models:smollm2_tiny.yaml",
                "//models/tasks:tiny_fp32_base",
                "//toolchains/valgrind",
                "//tools/runner",
                "@smollm2//:model.gguf",
            ] + programs,
            env = {"VALGRIND": "$(rootpaths //toolchains/valgrind)"},
            release = True,
            deps = [
                "//backends/xnnpack:recipes",
                "//tests/llm:greedy",
                "//tests/unit/linker:lora",
                "//tests/unit/linker:synthetic",
                "//tools/etfast",
                "//tools/etllm",
                "//tools/etllm/tokenizer",
                "//tools/etlower",
            ],
        ),
        "app_test": dict(
            size = "medium",
            srcs = _PROCESS + ["test_app.py"],
            data = [":app", "//tools/runner"] + programs,
        ),
        "hostile_test": dict(
            srcs = _PROCESS + ["test_hostile.py"],
            data = [":portable", "//tools/runner"],
            release = True,
            deps = ["//tests/fuzz:runner_files"],
        ),
        # Base and tasks of a language model in one process.
        "shared_test": dict(
            srcs = _PROCESS + ["test_shared.py"],
            data = _TASKS + [
                ":twins_int8_dynamic",
                ":twins_int8_static",
                "//models/tasks:tiny_fp32_base",
                "//tools/runner",
            ],
        ),
        # Each kind of layer and recipe with the weight cache and without.
        "cache_kinds_test": dict(
            srcs = ["cache_nets.py", "test_cache_kinds.py"],
            release = True,
            release_shards = 4,
            deps = [
                "//backends/xnnpack:recipes",
                "//tests/unit/linker:lora",
                "//tests/unit/linker:synthetic",
                "//tools/runner:executorch_app_py",
            ],
        ),
        "tokenizer_test": dict(
            srcs = _PROCESS + ["test_tokenizer.py", "test_upstream_tokenizers.py"],
            data = [":tokenize", "//models:llama_tokenizer"],
            release = True,
            deps = ["//tests/fuzz:runner_tokenizers"],
        ),
        # The C program with ThreadSanitizer: bazel test //tests/integration/runner:threads_test
        "threads_test": dict(
            _sanitized("threads_test", "app_client_with_sanitizer", "CLIENT", MOST_GROWTH_KIB = "16384"),
            srcs = ["counting.py", "test_app_interface.py"],
            data = [":app_client_with_sanitizer", ":task"],
        ),
        "app_interface_test": dict(
            size = "medium",
            srcs = [
                "counting.py",
                "test_app_adapters.py",
                "test_app_interface.py",
                "test_app_java.py",
                "test_app_python.py",
                "test_media.py",
            ],
            data = [
                ":app_client",
                ":app_main",
                ":task",
                ":tasks",
                "//models/tasks:tiny_int4_summarizer",
                "//tools/runner/java:executorch_app",
                "//tools/runner/java:libexecutorch_app.so",
                "@executorch_jre//:java",
                "@executorch_jre//:java_files",
            ],
            env = {"JAVA": "$(rootpath @executorch_jre//:java)"},
            release = True,
            deps = ["//tools/runner:executorch_app_py"],
        ),
        "said_test": dict(
            size = "medium",
            srcs = _PROCESS + ["conversation.py", "test_user_text.py"],
            data = [":tokenize"],
            deps = ["//tools/etllm/tokenizer"],
        ),
        # Well-formed files of nonsense, and work that grows faster than its input.
        "malformed_test": dict(
            srcs = _PROCESS + ["test_growth.py", "test_malformed.py"],
            data = [":tokenize", "//tools/runner"] + programs,
            release = True,
            deps = ["//tests/fuzz:structure"],
        ),
    } | {
        program + "_test": dict(
            _sanitized(program + "_test", program, "MISUSE", ASAN_OPTIONS = "exitcode=66 alloc_dealloc_mismatch=0"),
            srcs = _MISUSE,
        )
        for program in ("misuse", "misuse_address", "misuse_thread")
    }
    for name, attributes in tests.items():
        attributes = {"size": "large"} | attributes
        deps = _TOOLS + attributes.pop("deps", [])
        pytest_test(name = name, deps = deps, torch = True, **attributes)
