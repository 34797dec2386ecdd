"""The errors that people see: one line that says what is wrong, and one that says what to do."""


class LibrarianError(Exception):
    """Something a person can mend. The command line prints it as one line and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        super().__init__(f"{message}: {fix}" if fix else message)


class UsageError(LibrarianError):
    """Wrong use or wrong settings."""

    exit_code = 2


class SourceError(LibrarianError):
    """A file of the archive that can't be read as what it claims to be.

    The same file fails the same way again, so it is not tried again until it changes.
    """


class DeferredError(LibrarianError):
    """A file that is still being written. Nothing is wrong: the next run takes it up."""


class ModelNotFoundError(UsageError):
    """Model weights that are not on this machine, or that are not what they should be."""
