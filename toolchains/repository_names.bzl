"""Names of repositories that tags of several modules declare: a module extension has one name for each."""

def is_new(declared, *, name, module, tag):
    """Tells whether a tag is the first that declares its repository.

    Modules may declare one repository with equal tags, e.g. the same weights.

    Args:
      declared: dict of name to struct(module, tag), which the function adds to; an empty one at first.
      name: of the repository.
      module: name of the module whose tag it is.
      tag: struct of all that the repository consists of.

    Returns:
      Bool.
    """
    if name not in declared:
        declared[name] = struct(module = module, tag = tag)
        return True
    other = declared[name]
    if other.tag != tag:
        fail(("executorch: repository @%s: got different tags of the modules %s and %s, expected equal ones. Rename " +
              "one of them: begin the names of a module's repositories with its own name (name = \"%s_%s\").") %
             (name, other.module, module, module, name))
    return False
