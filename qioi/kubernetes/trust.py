"""The authority that the API server's certificate has to be of.

A cluster's authority is rotated while pods run: the kubelet then replaces the mounted file, and the server takes a
certificate of the new authority some time later. So the file is looked at for each new connection.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

log = logging.getLogger("qioi")


class TrustError(Exception):
    """A file of authorities cannot be used; the message is one line."""


class Trust:
    """Trust in the authorities in the file ``ca``, as it is now, or in the system's where it is ``None``."""

    def __init__(self, ca: Path | None) -> None:
        """Read the file. TrustError."""
        self._ca = ca
        self._content = content(ca)
        self._context = tls(ca)
        self._problem: str | None = None

    def context(self) -> ssl.SSLContext:
        """Give the TLS context of a new connection. A file that cannot be used leaves the trust as it is.

        Any thread may call this. Two that do so at once may both read a new file.
        """
        found = content(self._ca)
        if found != self._content or self._problem is not None:
            try:
                self._context = tls(self._ca)
                # The content was read before: one that has changed since is read again for the next connection.
                self._content, self._problem = found, None
                log.info("kubernetes: ca %s: read again", self._ca)
            except TrustError as error:
                if self._problem != str(error):
                    self._problem = str(error)
                    log.warning("kubernetes: %s; the authorities read before stay trusted", error)
        return self._context


def content(ca: Path | None) -> bytes | None:
    """Give what a file of authorities holds; ``None`` without one, and for one that cannot be read."""
    try:
        return None if ca is None else ca.read_bytes()
    except OSError:
        return None


def tls(ca: Path | None) -> ssl.SSLContext:
    """Make the TLS context. TrustError."""
    try:
        return ssl.create_default_context(cafile=str(ca) if ca else None)
    except OSError as error:
        raise TrustError(f"ca {ca}: {error.strerror or error}: accepted is a file of PEM certificates") from None
