"""The errors that are a user's to mend: one clear line each, no traceback.

The command line prints `str(error)` and exits with code 2. Everything else that is raised is a
defect of kbench, or a method's own failure, which becomes a row.
"""


class KbenchError(Exception):
    """A mistake or a circumstance that the user can mend; its text is one line.

    The line names the parameter or `file:line`, what was found, and what would be right.
    """


class ConfigError(KbenchError):
    """A method, data set, parameter or value that does not exist or is out of range."""


class DataError(KbenchError):
    """A raw file that is malformed, or facts that the loaded data do not match."""


class DataNotFoundError(DataError):
    """A raw file that is nowhere and cannot be fetched: which, from where, and where to put it."""


class ModelError(KbenchError):
    """A model that the open format cannot hold, or a file that holds no such model."""


class UnavailableError(KbenchError):
    """A method whose optional package is absent or does not do its work here."""
