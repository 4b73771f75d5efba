"""Starts a module with the import paths that it is given, and no others of the machine.

Contract: `python launch.py --path DIR [--path DIR …] MODULE [ARGUMENT …]`

It also spares what CPython spends on large programs, a quarter of a small lowering:

- Importing torch makes a million objects that stay. The garbage collector looks for cycles among
  them seldom, and not at all when the process ends, which drops them anyway.
- CPython 3.11 and later keep the frames of calls in pieces of 16 KiB, and give an empty piece back
  at once; a call at the end of a piece, in a loop, maps and unmaps memory each time. A piece is at
  least as large as the frame that it is made for (`push_chunk` in pystate.c), and a frame as its
  code says, so that `main` says: two megabytes.
"""

import gc
import os
import runpy
import sys


def main() -> None:
    """Puts the paths behind the standard library's and runs the module as a program."""
    arguments = sys.argv[1:]
    paths = []
    while len(arguments) > 1 and arguments[0] == "--path":
        paths.append(existing(os.path.abspath(arguments[1])))
        arguments = arguments[2:]
    if not arguments:
        sys.exit("usage: launch.py --path DIR MODULE [ARGUMENT …]")
    # Behind the standard library: a package must not hide a module of it.
    sys.path.extend(paths)
    sys.argv = arguments
    gc.set_threshold(100_000, 50, 100)
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    finally:
        gc.disable()
        gc.freeze()


# In words of eight bytes. The piece is the next power of two, and callees have what is left of it.
main.__code__ = main.__code__.replace(co_stacksize=2**17)


def existing(path: str) -> str:
    """A folder of the runfiles, or the same one where Bazel has it."""
    for other in (path, beside_interpreter(path), in_execution_root(path)):
        if os.path.isdir(other):
            return other
    return path


def in_execution_root(path: str) -> str:
    """Returns a runfiles folder's path for actions.

    On remote workers Bazel before 8.3 has folders that are inputs as a whole only there.
    """
    root, _, path_in_out = path.rpartition("/bazel-out/")
    _, inside, rest = path_in_out.partition(".runfiles/")
    if not inside:
        return path
    own = rest.startswith("_main/")
    return f"{root}/{rest.removeprefix('_main/')}" if own else f"{root}/external/{rest}"


def beside_interpreter(path: str) -> str:
    """Returns a folder's path beside the real interpreter.

    Bazel's sandbox for multiplex workers holds files only, and leaves out folders that are inputs
    as a whole. The interpreter is a link to a file of the same repository.
    """
    here, real = os.path.abspath(sys.executable), os.path.realpath(sys.executable)
    while os.path.basename(here) == os.path.basename(real) and here != os.path.dirname(here):
        here, real = os.path.dirname(here), os.path.dirname(real)
    return real + path[len(here) :] if path.startswith(here + os.sep) else path


if __name__ == "__main__":
    main()
