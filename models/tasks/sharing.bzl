"""task_programs: a base model and its tasks, on one foundation."""

load("//rules:defs.bzl", "et_program", "et_program_test", "et_shared_data", "et_size_test")

def task_programs(name, *, base, lowering, recipe, tasks, tags = [], tests = None):
    """Declares a foundation, a base program, and a program for each task.

    Args:
      name: prefix of all targets: <name>_foundation, <name>_base, <name>_<task>.
      base: prefix of the tasks' models: "//models:llama" for "//models:llama_assistant_model".
      lowering: the base, lowered (et_lowering or et_program).
      recipe: the recipe of all programs.
      tasks: list of names.
      tags: of all targets.
      tests: dict with min_sqnr_db and max_own_bytes, or None: no tests.
    """
    foundation = name + "_foundation"
    et_shared_data(
        name = foundation,
        lowerings = [lowering],
        tags = tags,
    )
    et_program(
        name = name + "_base",
        lowering = lowering,
        min_shared = "100%",
        shared_data = [foundation],
        tags = tags,
    )
    for task in tasks:
        et_program(
            name = "%s_%s" % (name, task),
            # One program serves all tasks; an update is a task's .ptd and nothing else.
            adapter_data = "by_name",
            min_shared = "95%",
            model = "%s_%s_model" % (base, task),
            recipe = recipe,
            shared_data = [foundation],
            tags = tags,
            weights = "separate",
        )
    if tests:
        _tests(name, tasks, tags, tests)

def _tests(name, tasks, tags, tests):
    for program in ["base"] + tasks:
        et_program_test(
            name = "%s_%s_test" % (name, program),
            size = "large",
            min_sqnr_db = tests["min_sqnr_db"],
            program = "%s_%s" % (name, program),
            tags = tags,
        )
    for task in tasks:
        et_size_test(
            name = "%s_%s_size_test" % (name, task),
            max_unshared_bytes = tests["max_own_bytes"],
            program = "%s_%s" % (name, task),
            tags = tags,
        )

    # The program of the first task with the file of the last.
    et_program_test(
        name = name + "_exchanged_test",
        size = "large",
        adapter = "%s_%s" % (name, tasks[-1]),
        min_sqnr_db = tests["min_sqnr_db"],
        program = "%s_%s" % (name, tasks[0]),
        tags = tags,
    )
