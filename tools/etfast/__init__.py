"""The same program in less time: replacements for functions of torch and ExecuTorch.

`etfast.path.installed()` installs all of them for a while. Each is a unit of its own, in a file of
its own, that names what it replaces, for which source it was written, and why the bytes stay.
"""
