"""The one exception that TERAIO raises for bad input."""


class Error(ValueError):
    """A value, path or file that cannot be used; the message is one line and says what would be."""
