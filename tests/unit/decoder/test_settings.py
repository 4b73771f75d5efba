"""The YAML file: upstream's LlmConfig, and errors that name the line and the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from etbuild import BuildError
from etllm.entry import check_backends, method_shapes
from etllm.methods import Shape
from etllm.settings import Settings

MODEL = "model:\n  use_kv_cache: true\n"


@pytest.fixture
def read(tmp_path: Path):
    """A function from a file's text to its Settings."""

    def make(text: str) -> Settings:
        path = tmp_path / "llm.yaml"
        path.write_text(text, encoding="utf-8")
        return Settings.read(path, "llm.yaml")

    return make


def message(read, text: str) -> str:
    with pytest.raises(BuildError) as caught:
        read(text)
    return str(caught.value)


def test_values_and_upstreams_defaults(read):
    settings = read(MODEL + "export:\n  max_seq_length: 64\n")
    assert settings.llm.export.max_seq_length == 64
    assert settings.llm.export.max_context_length == 128
    assert settings.llm.quantization.qmode is None


def test_upstreams_own_file_is_read_but_for_what_is_not_supported(read):
    """llama_q8da4w.yaml of ExecuTorch 1.5.1, with a KV cache."""
    settings = read(
        'base:\n  metadata: \'{"get_bos_id":128000, "get_eos_ids":[128009, 128001]}\'\n'
        "model:\n  use_sdpa_with_kv_cache: True\n  use_kv_cache: True\n  dtype_override: fp32\n"
        "quantization:\n  qmode: 8da4w\n  group_size: 128\n  embedding_quantize: 4,32\n"
        "backend:\n  xnnpack:\n    enabled: True\n    extended_ops: True\n"
    )
    assert settings.metadata() == {"get_bos_id": 128000, "get_eos_ids": [128009, 128001]}
    assert settings.enabled_backends() == ["xnnpack"]
    assert settings.llm.quantization.embedding_quantize == "4,32"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model:\n  use_kv_cach: true\n", "llm.yaml:2: unknown key model.use_kv_cach."),
        ("model:\n  use_kv_cach: true\n", 'Do you mean "use_kv_cache"?'),
        ("modle: {}\n", "llm.yaml:1: unknown key modle. The file takes: backend, base, debug"),
        (MODEL + "export:\n  max_seq_length: long\n", "llm.yaml:4: export.max_seq_length:"),
        (MODEL + "base:\n  model_class: gpt5\n", "llm.yaml:4: base.model_class:"),
        (MODEL + "model:\n  use_kv_cache: true\n", "llm.yaml:3: model is there twice; the first"),
        ("model:\n  use_kv_cache: true\n  use_kv_cache: true\n", "the first one is in line 2"),
        ("model: [\n", "llm.yaml:2: no YAML:"),
        ("model:\0\n", "llm.yaml:1: no YAML: unacceptable character #x0000: special characters"),
        ("a:\n  b: 1\n c: 2\n", "Keys of one section begin in the same column"),
        (
            MODEL + "benchmark: true\n",
            "llm.yaml:3: benchmark: got true, expected no such key.\n"
            "Set it as an attribute: et_llm(benchmark = True).",
        ),
        (MODEL + "benchmark: false\n", "llm.yaml:3: benchmark: got false, expected no such key."),
        ("- 1\n", "llm.yaml:1: got list, expected a mapping."),
        ("a: &a [*a]\n", "llm.yaml:1: the file is nested too deeply, or in itself."),
        (MODEL + "export:\n", "llm.yaml:3: export:"),
        (MODEL + "export: 3\n", "llm.yaml:3: export:"),
        (MODEL + "quantization:\n  qmode: [a]\n", "llm.yaml:4: quantization.qmode:"),
        (MODEL + "multimethod:\n  methods:\n    - name: a\n", "llm.yaml:5: unknown key"),
        (MODEL + "multimethod:\n  methods:\n    - export_seq_len: 3\n", "multimethod.methods.0"),
        (MODEL + "export:\n  output_name: ${oc.env:HOME}\n", "llm.yaml:4: export.output_name"),
        ("model:\n  quantize_kv_cache: true\n", "llm.yaml:2: model.quantize_kv_cache: Cannot"),
        (
            MODEL + "export:\n  max_seq_length: 256\n",
            "llm.yaml:4: export.max_seq_length: max_context_length of 128 cannot be shorter",
        ),
        (MODEL + "quantization:\n  qmode: 5w\n", "llm.yaml:4: quantization.qmode: Got qmode 5w"),
        ("{}\n", "llm.yaml:1: model.use_kv_cache: got false (upstream's default), expected true"),
        ("", "llm.yaml:1: model.use_kv_cache: got false (upstream's default), expected true"),
        (MODEL + "export:\n  max_seq_length: 1\n", "llm.yaml:4: export.max_seq_length: got 1,"),
    ],
)
def test_errors_name_line_and_key(read, text, expected):
    assert expected in message(read, text)


@pytest.mark.parametrize(
    ("section", "hint"),
    [
        ("model:\n  use_kv_cache: true\n  use_attention_sink: 4,60\n", "max_context_length"),
        ("model:\n  use_kv_cache: true\n  use_shared_embedding: true\n", "Remove the key."),
        (MODEL + "export:\n  foundation_weights_file: a.ptd\n", "foundation = True"),
        (MODEL + "export:\n  output_name: a.pte\n", "Remove the key."),
        (MODEL + "debug:\n  generate_etrecord: true\n", "--output_groups=etrecord"),
        (MODEL + "quantization:\n  calibration_limit: 3\n", "recipes = "),
        (MODEL + "backend:\n  coreml:\n    enable_state: true\n", "recipes"),
        (MODEL + "base:\n  use_lora: 8\n", "adapters = "),
        (MODEL + "base:\n  tokenizer_path: a.json\n", "tokenizer = "),
        (MODEL + "base:\n  lora_config:\n    adapter_checkpoint: a.pt\n", "adapters = "),
        (
            MODEL + "multimethod:\n  methods:\n    - method_name: forward\n"
            "      lora_config:\n        adapter_checkpoint: a.pt\n        lora_rank: 8\n",
            "give adapter_config",
        ),
    ],
)
def test_what_has_no_effect_is_an_error_with_its_line(read, section, hint):
    text = message(read, section)
    line = len(section.splitlines())
    assert text.startswith(f"llm.yaml:{line}: ")
    assert "which is not supported: " in text
    assert hint in text


def test_a_default_that_is_written_down_is_no_error(read):
    read(MODEL + "  use_attention_sink: null\ndebug:\n  verbose: false\n")


def test_the_page_lists_what_is_refused():
    from etllm.unsupported import REASONS, VALUES

    page = Path("docs/start/llm.md").read_text(encoding="utf-8")
    table = page.split("### Keys that are refused")[1].split("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    assert rows == [
        f"| `{key}` | {reason} |" for key, (reason, _) in sorted({**REASONS, **VALUES}.items())
    ]


def test_each_key_of_upstreams_config_is_honored_or_refused(read):
    """A key that upstream adds is refused by default, so that none is left out in silence."""
    from etllm.settings import _leaves
    from etllm.unsupported import HONORED
    from executorch.extension.llm.export.config.llm_config import LlmConfig

    keys = {key for key, _ in _leaves(LlmConfig())}
    known = {key for key in HONORED if ".*." not in key}
    assert known <= keys, "a key that upstream has no more"
    assert "multimethod.methods.*.method_name" in HONORED


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("", {"forward": Shape(128, dynamic=True)}),
        ("  enable_dynamic_shape: false\n", {"forward": Shape(1)}),
    ],
)
def test_one_method(read, text, shapes):
    assert method_shapes(read(MODEL + text)) == shapes


def methods_of(*names: str, share: str = "true") -> str:
    rows = "".join(f"    - method_name: {name}\n" for name in names)
    return f"{MODEL}multimethod:\n  share_mutable_buffers: {share}\n  methods:\n{rows}"


def test_several_methods(read):
    settings = read(methods_of("prefill_32", "prefill", "decode"))
    assert method_shapes(settings) == {
        "prefill_32": Shape(32),
        "prefill": Shape(128, dynamic=True),
        "decode": Shape(1),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (methods_of("prefill_32", "decode", share="false"), "llm.yaml:4: multimethod.share_mutabl"),
        (methods_of("read", "decode"), 'llm.yaml:6: multimethod.methods.0.method_name: got "read"'),
        (methods_of("decode", "decode"), "llm.yaml:7: multimethod.methods.1.method_name:"),
        (methods_of("prefill_200", "decode"), "at most export.max_context_length (128) tokens"),
        (methods_of("decode"), "expected forward; or decode and a prefill"),
        (
            methods_of("prefill_32", "decode") + "      export_seq_len: 3\n",
            "llm.yaml:8: multimethod.methods.1.export_seq_len: got 3, expected 1.",
        ),
        (
            methods_of("forward").replace("model:\n", "model:\n  enable_dynamic_shape: false\n"),
            "expected prefill_N or decode: model.enable_dynamic_shape is false",
        ),
    ],
)
def test_methods_that_no_runner_could_use(read, text, expected):
    with pytest.raises(BuildError) as caught:
        method_shapes(read(text))
    assert expected in str(caught.value)


def test_backends_are_those_of_the_target(read):
    settings = read(MODEL + "backend:\n  xnnpack:\n    enabled: true\n")
    check_backends(settings, ["xnnpack", "portable"], "//m:x")
    with pytest.raises(
        BuildError, match=r"llm.yaml:5: backend.xnnpack.enabled: got true, expected"
    ):
        check_backends(settings, ["portable"], "//m:x")
    with pytest.raises(BuildError, match=r"backend.vulkan.enabled: got false \(upstream's default"):
        check_backends(settings, ["xnnpack", "vulkan"], "//m:x")


def test_a_backend_without_a_section_needs_none(read):
    check_backends(read(MODEL), ["mps", "portable"], "//m:x")


def test_recipes_of_ones_own_leave_no_quantization_to_the_file(read):
    settings = read(MODEL + "quantization:\n  qmode: 8da4w\n")
    with pytest.raises(
        BuildError, match=r"llm.yaml:4: quantization.qmode: got \"8da4w\", expected n"
    ):
        check_backends(settings, [], "//m:x")


@pytest.mark.parametrize("metadata", ["not json", "'[1]'", "'{\"get_eos_ids\": [null]}'"])
def test_metadata_is_json_of_plain_values(read, metadata):
    settings = read(f"{MODEL}base:\n  metadata: {metadata}\n")
    with pytest.raises(BuildError, match="llm.yaml:4: base.metadata: got .*, expected a "):
        settings.metadata()
