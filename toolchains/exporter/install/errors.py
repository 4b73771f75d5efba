"""The failure that is reported to a person as a message instead of a stack trace."""


class InstallError(Exception):
    """A message: `<file or package>: <what is wrong>: got <x>, expected <y>. <what to do>`."""
