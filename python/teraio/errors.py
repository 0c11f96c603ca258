"""The exception that TERAIO raises for bad input."""


class Error(ValueError):
    """A value, path or file cannot be used. The message is one line that tells what is expected."""
