"""The tokenizer and the chat template: they stand between a language model and text.

Actions make files of it for the runner (//tools/runner), which talks with programs. It is a target
of its own so that a change here lowers nothing.
"""
