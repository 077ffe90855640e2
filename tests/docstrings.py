"""Public functions, classes and properties of a module, and what the pages of the reference ask for."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphveil import plugins


def reference(pages: Path) -> list[str]:
    """Names that the pages of a folder show."""
    found = (re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE) for page in pages.glob("*.md"))
    return sorted({name for names in found for name in names})


def resolve(name: str) -> Any:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(name)
    home, _, last = name.rpartition(".")
    return getattr(resolve(home), last)


def public_parts(name: str) -> Iterator[tuple[str, Any]]:
    """A module's or class's own public functions, classes and properties, and theirs."""
    item = resolve(name)
    if hasattr(item, "__path__"):
        for module in plugins.modules(name):
            yield from public_parts(module.__name__)
    for key, value in list(vars(item).items()):
        shown = inspect.isfunction(value) or inspect.isclass(value) or isinstance(value, property | classmethod)
        if shown and not key.startswith("_") and getattr(value, "__module__", None) in (None, home_of(item)):
            yield f"{name}.{key}", getattr(item, key)
            if inspect.isclass(value):
                yield from public_parts(f"{name}.{key}")


def home_of(item: Any) -> str:
    return str(item.__name__ if inspect.ismodule(item) else item.__module__)
