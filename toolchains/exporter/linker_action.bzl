"""linker_action: what runs the exporter toolchain's programs that do not need torch."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "action_environment")

# Paths are Files in Args, so that `--experimental_output_paths=strip` finds them.
_PATH_MAPPING = {"supports-path-mapping": "1"}

def linker_action(
        ctx,
        *,
        module,
        arguments,
        inputs,
        outputs,
        mnemonic,
        progress_message,
        maps_paths = True):
    """Runs a torch-free program of ours.

    Args:
      ctx: rule context with the exporter toolchain.
      module: the Python module.
      arguments: Args.
      inputs: list of Files.
      outputs: list of Files.
      mnemonic: of the action.
      progress_message: of the action.
      maps_paths: whether all paths that the program reads and writes are arguments. Not if other inputs or
        outputs contain some, such as flags for a linker: Bazel changes paths in arguments only.
    """
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    start = ctx.actions.args()
    start.add(module)

    ctx.actions.run(
        executable = exporter.linking_tool,
        arguments = [start, arguments],
        inputs = inputs,
        tools = [exporter.stamp, exporter.interpreter],
        outputs = outputs,
        mnemonic = mnemonic,
        progress_message = progress_message,
        env = action_environment(ctx),
        execution_requirements = _PATH_MAPPING if maps_paths else {},
        toolchain = EXPORTER_TOOLCHAIN,
    )
