"""Language models from a checkpoint and a YAML file, models of transformers, and conversations with them."""

load("//rules/llm:llm.bzl", _et_llm = "et_llm")
load("//rules/llm:llm_answer_test.bzl", _et_llm_answer_test = "et_llm_answer_test")
load("//rules/llm:llm_chat.bzl", _et_llm_chat = "et_llm_chat")
load("//rules/llm:llm_tokenizer.bzl", _et_llm_tokenizer = "et_llm_tokenizer")
load("//rules/llm:transformers.bzl", _et_transformers = "et_transformers")

et_llm = _et_llm
et_llm_answer_test = _et_llm_answer_test
et_llm_chat = _et_llm_chat
et_llm_tokenizer = _et_llm_tokenizer
et_transformers = _et_transformers
