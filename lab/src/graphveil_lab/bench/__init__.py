"""Experiments written down as data, run so that nothing is lost, and set beside the published figures."""

from graphveil_lab.bench import audits, kept, runner, spec, table

__all__ = ["audits", "kept", "runner", "spec", "table"]
