"""The one kind of failure that is reported to a person instead of as a stack trace."""

from __future__ import annotations


class InstallError(Exception):
    """Something a person has to put right: what, where, got against wanted, what to do."""

    def __init__(
        self,
        what: str,
        *,
        where: object | None = None,
        got: object | None = None,
        wanted: object | None = None,
        todo: str,
    ) -> None:
        self.what = what
        lines = [what]
        for label, value in (("where", where), ("got", got), ("wanted", wanted)):
            if value is not None:
                lines.append(f"  {label}: " + str(value).replace("\n", "\n    "))
        lines.append("  what to do: " + todo.replace("\n", "\n    "))
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        """Lets the error travel from a worker process."""
        return _restore, (self.what, str(self))


def _restore(what: str, message: str) -> InstallError:
    error = InstallError.__new__(InstallError)
    Exception.__init__(error, message)
    error.what = what
    return error
