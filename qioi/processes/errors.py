"""Errors of the lab and the interferers that a user can correct."""

from __future__ import annotations


class LabError(Exception):
    """One line for people: what failed, where, and what is accepted."""


class BusyError(LabError):
    """The machine was too busy with other work to measure; another try may succeed."""
