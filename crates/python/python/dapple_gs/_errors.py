"""Exceptions: each has the fault, its place and a hint."""

__all__ = ["DappleError", "FileError", "InputError", "InternalError", "UnsupportedError"]


class DappleError(Exception):
    """Base of all exceptions of this package.

    Attributes:
        what: the fault.
        place: the argument or file with the fault, or None.
        hint: what to do about it, or None.
    """

    def __init__(self, what, place=None, hint=None):
        super().__init__(what)
        self.what, self.place, self.hint = what, place, hint

    def __reduce__(self):
        return type(self), (self.what, self.place, self.hint)

    def __str__(self):
        lines = [self.what]
        if self.place:
            lines.append(f"at: {self.place}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class InputError(DappleError, ValueError):
    """An argument, file or setting that cannot be used."""


class ArgumentTypeError(InputError, TypeError):
    """An argument of another type, dtype or device."""


class FileError(DappleError, OSError):
    """The operating system refused: no such file, no permission, disk full."""


class UnsupportedError(DappleError, NotImplementedError):
    """Understood, but not possible with this version, device or format."""


class InternalError(DappleError, RuntimeError):
    """A defect of Dapple."""
