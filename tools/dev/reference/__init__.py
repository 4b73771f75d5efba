"""Pages of reference, made of the docstrings of .bzl files and Python packages."""
