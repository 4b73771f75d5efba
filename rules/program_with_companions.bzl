"""et_program as users load it: the program, and what can be run beside it."""

load("//rules:program.bzl", _et_program = "et_program")
load("//rules/private:companions.bzl", "companions")

def et_program(name, **kwargs):
    """A program: a model, lowered with a recipe, as one `.pte`; see the rule in program.bzl for its attributes.

    Beside it there are two targets with the tag `manual`, which no build of a pattern sees:

    ```sh
    bazel run //x:prog.evaluate -- --text wiki.txt    # perplexity, or outputs, against the eager model
    bazel run //x:prog.benchmark -- --html bench.html # time, memory, operators
    ```

    Args:
      name: of the program.
      **kwargs: its other attributes.
    """
    _et_program(name = name, **kwargs)
    companions(name, kwargs)
