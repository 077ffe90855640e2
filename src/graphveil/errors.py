"""Every error that graphveil raises on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


class GraphveilError(Exception):
    """Base of every error that graphveil raises on purpose."""


class InvalidInput(GraphveilError, ValueError):
    """An argument, a table or a file is malformed; the message names the offending item."""


class Unsupported(GraphveilError):
    """The combination asked for has no sound meaning here; the message says what to use instead."""


class PrivateAccess(GraphveilError):
    """Private data was touched outside `Session.release`."""


class Overspent(GraphveilError):
    """A step was used more often than planned, or a budget does not cover a plan."""


class Tampered(GraphveilError):
    """A saved release is incomplete, altered or of an unknown version."""


class MissingData(GraphveilError):
    """A dataset's raw files are not on this machine."""


class MissingExtra(GraphveilError, ImportError):
    """An optional dependency is not installed."""
