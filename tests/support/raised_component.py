"""A daemon that has raised a component."""

from __future__ import annotations

from running import Site


def value(file: object) -> int:
    return int(file.read_text())  # type: ignore[attr-defined]


def raise_one(site: Site) -> tuple[object, object]:
    """A daemon that has raised peer0."""
    share = site.component("peer0")
    process = site.start()
    original = value(share)
    site.commit_until(lambda: value(share) > original)
    return process, share
