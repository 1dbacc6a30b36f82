"""Values as commands show them: a dash stands for what is not known."""

from __future__ import annotations


def shown(value: object, form: str) -> str:
    """Show a value in a form of ``str.format``."""
    return "-" if value is None else form.format(value)


def milliseconds(seconds: float | None, digits: int) -> str:
    """Show seconds as milliseconds, with so many digits after the point."""
    return "-" if seconds is None else f"{1000 * seconds:.{digits}f} ms"
