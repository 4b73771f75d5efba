"""What stands between a language model and text: its tokenizer and its chat template.

Actions make files of it for the runner (//tools/runner), which talks with programs. It is a target
of its own so that a change here lowers nothing.
"""
