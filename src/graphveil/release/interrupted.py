"""A command that spends budget and ends early: what it says was spent, and where it leaves what it made."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from graphveil.checks import escaped
from graphveil.errors import GraphveilError, InvalidInput

if TYPE_CHECKING:
    from graphveil.release.certificate import Certificate


class SoFar:
    """What a command has spent and kept so far, in words."""

    spent = "nothing was read or reserved"
    kept = ""

    def spend(self, certificate: Certificate) -> None:
        """The run of this certificate is over."""
        entry, of = certificate.provenance.ledger_entry, certificate.provenance.dataset
        self.spent = (
            f"ledger entry {entry} counts as spent" if entry else f"budget of {of!r} was spent that nobody counts"
        )
        self.kept = "what was made is lost"

    def keep(self, save: Callable[[Path], object], out: Path) -> None:
        """`save(out)`. If that fails the result goes elsewhere, and the error says where, and what was spent."""
        try:
            save(out)
            self.kept = f"what was made is in {out}"
        except GraphveilError as error:
            place = _elsewhere(save, out) if isinstance(error, InvalidInput) else None
            self.kept = "it could not be kept" if place is None else f"it is kept in {place}"
            raise type(error)(f"{error}; {self.kept}; {self.spent}") from error


def _elsewhere(save: Callable[[Path], object], out: Path) -> Path | None:
    """Where the result was saved: in a fresh folder beside `out`, or among the temporary ones."""
    for home in (out.parent, None):
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{out.name}-kept-", dir=home))
        except OSError:
            continue
        try:
            save(folder / out.name)
            return folder / out.name
        except GraphveilError:
            shutil.rmtree(folder, ignore_errors=True)
    return None


@contextmanager
def accountable() -> Iterator[SoFar]:
    """Around a command that may spend budget: stopped, or out of memory, it says what is spent and what is kept."""
    so_far = SoFar()
    try:
        yield so_far
    except (KeyboardInterrupt, MemoryError, RuntimeError) as error:
        stopped = isinstance(error, KeyboardInterrupt)
        if not stopped and not out_of_memory(error):
            raise
        # What ended the run itself knows what it had reserved: see `training`.
        said = notes(error) or "; ".join(filter(None, (so_far.spent, so_far.kept)))
        typer.secho(escaped(f"{'stopped' if stopped else 'out of memory'}: {said}"), err=True, fg="red")
        raise typer.Exit(130 if stopped else 2) from None


def notes(error: BaseException) -> str:
    """What was noted about an error on its way, in one line."""
    return "; ".join(getattr(error, "__notes__", ()))


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: PyTorch says so with a RuntimeError."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)
