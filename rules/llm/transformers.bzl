"""et_transformers: a model of Hugging Face's transformers, from its checkpoint to a program."""

load("//rules:model.bzl", "et_model")
load("//rules:program.bzl", "et_program")
load("//rules/llm:llm_chat.bzl", "et_llm_chat")
load("//rules/llm:llm_tokenizer.bzl", "et_llm_tokenizer")
load("//rules/llm/private:checkpoint_files.bzl", "checkpoint_files")

# Tasks whose programs may chat.
_CHATS = ("text-generation", "image-text-to-text", "audio-text-to-text")

def et_transformers(
        *,
        name,
        checkpoint,
        recipe,
        task = "",
        max_length = 0,
        prefill_length = 0,
        samples = 0,
        image_size = "",
        dynamic = None,
        chat = False,
        tokenizer = None,
        random_weights = False,
        memory_mb = 0,
        exec_properties = None,
        tags = [],
        target_compatible_with = None,
        testonly = None,
        visibility = None):
    """A model of any architecture of Hugging Face's transformers, as a program.

    ```starlark
    et_transformers(
        name = "minilm",
        checkpoint = glob(["all-MiniLM-L6-v2/*"]),
        recipe = "@rules_executorch//backends/xnnpack:fp32",
        task = "sentence-similarity",
    )
    ```

    | target | |
    |---|---|
    | `<name>` | the program (et_program) |
    | `<name>_model` | what is lowered (et_model), for programs with other recipes and attributes |
    | `<name>_tokenizer`, `<name>_chat` | with `chat`: see et_llm_tokenizer and et_llm_chat |

    The model's code is that of transformers, which is fetched only where a target of this macro is built.
    Code in a checkpoint is refused. Weights are read as float32; the recipe decides what becomes of them.

    Args:
      name: of the program.
      checkpoint: labels of config.json, .safetensors files, and, if the checkpoint has them,
        generation_config.json, processor_config.json and preprocessor_config.json; may be a select().
      recipe: label of the et_recipe.
      task: by the name that transformers gives it, such as "image-classification". Default: the task of
        the class that config.json names in `architectures`.
      max_length: tokens of the longest text; for text-generation, of the KV cache. Default: at most 512,
        2048 for text-generation, 448 for an encoder with a decoder, and never more than the model reads.
      prefill_length: for a KV cache: the most tokens that one call reads; default: 128. Runners read longer
        prompts in several calls.
      samples: of audio, for models that read samples; default: 16000.
      image_size: height and width in pixels, such as "224x224". Default: what the checkpoint says; of models that
        cut images into tiles, the smallest size that they know.
      dynamic: whether the program reads texts of any length up to max_length; else of this length only,
        and single tokens if it has a KV cache. Default: True, but for mixtures of experts with a KV cache:
        they copy weights of experts for each token of a call.
      chat: for text-generation, image-text-to-text and audio-text-to-text: whether there are a tokenizer and a
        conversation.
      tokenizer: with chat: labels of tokenizer.json and tokenizer_config.json; default: those among the
        checkpoint's files.
      random_weights: for tests: weights are random, and config.json is all that the checkpoint has to have.
      memory_mb: peak of a lowering in MiB, as in et_model.
      exec_properties: of all actions, for remote execution, e.g. {"mem": "64g"}.
      tags: of all targets.
      target_compatible_with: constraints of platforms that the program and what uses it are built for.
      testonly: as for any target.
      visibility: of all targets.
    """
    if chat and task not in ("",) + _CHATS:
        fail("et_transformers %s: chat: got task = \"%s\", expected one of %s. Remove chat." % (name, task, ", ".join(_CHATS)))
    if tokenizer and not chat:
        fail("et_transformers %s: tokenizer: got files without chat = True. Add it, or remove tokenizer." % name)
    common = dict(exec_properties = exec_properties, tags = tags, testonly = testonly, visibility = visibility)

    # Not of the model, which is for the platform that lowers.
    of_targets = common | dict(target_compatible_with = target_compatible_with)
    checkpoint_files(
        name = name + "_checkpoint",
        srcs = checkpoint,
        **common
    )
    args = {
        "dynamic": "" if dynamic == None else str(dynamic).lower(),
        "image_size": image_size,
        "max_length": str(max_length or ""),
        "prefill_length": str(prefill_length or ""),
        "random_weights": "true" if random_weights else "",
        "samples": str(samples or ""),
        "task": task,
    }
    et_model(
        name = name + "_model",
        args = {key: value for key, value in args.items() if value},
        data = [name + "_checkpoint"],
        entry_point = "etllm.transformers.entry:build",
        memory_mb = memory_mb,
        packages = [Label("@executorch_transformers//:packages")],
        deps = [Label("//tools/etllm/transformers")],
        **common
    )
    et_program(
        name = name,
        model = name + "_model",
        recipe = recipe,
        **of_targets
    )
    if chat:
        et_llm_tokenizer(
            name = name + "_tokenizer",
            srcs = checkpoint if tokenizer == None else tokenizer,
            **common
        )
        et_llm_chat(
            name = name + "_chat",
            program = name,
            tokenizer = name + "_tokenizer",
            **of_targets
        )
