"""What the lab and the interferers raise for what a user can put right."""

from __future__ import annotations


class LabError(Exception):
    """One line for people: what went wrong, where, and what is accepted."""


class BusyError(LabError):
    """The machine was too busy with other work for a measurement to be one; another try may succeed."""
