"""The same program in less time: stand-ins for functions of torch's and ExecuTorch's.

`etfast.path.installed()` puts all of them in place for a while. Each is a unit of its own, in a
file of its own, that names what it replaces, for which source it was written, and why the bytes
stay.
"""
