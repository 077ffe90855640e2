"""Experiments written down as data, run so that nothing is lost, and set beside the published figures."""

from graphveil.bench import runner, spec, table

__all__ = ["runner", "spec", "table"]
