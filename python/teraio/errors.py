"""The exceptions that TERAIO raises for bad input."""


class Error(ValueError):
    """A value, path or file cannot be used. The message is one line that tells what is expected."""


class MissingBudget(Error):
    """No device budget is given where it has no default."""
