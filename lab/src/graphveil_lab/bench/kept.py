"""Kept results: the lines of the tables that `table.write` wrote, read strictly.

A line that another revision of its method made, or of which nobody knows what made it, is stale: its scores are not
shown (`current`).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from graphveil.errors import InvalidInput
from graphveil_lab import kept_files
from graphveil_lab.bench import revisions
from graphveil_lab.bench.spec import Epsilon, Number, Place, Share

REFUTED = "REFUTED"
"""Begins what a line says of an audit that certified more than was claimed."""
Spent = Annotated[Number, Field(ge=0)]
Width = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class KeptLine(BaseModel):
    """One line of a table in what is read back of it (`table.Row` has more). Older files lack the last block."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dataset: str
    method: str
    unit: str
    reading: str
    epsilon: Epsilon
    delta: Share
    selection: str
    params: dict[str, Any]
    tuned: dict[str, Any]
    seeds: Annotated[int, Field(ge=0)]
    test: Share | None
    std: Width | None
    certificate_epsilon: Spent | None
    sound_epsilon: Spent | None
    published: Share | None
    source: str
    failed: Annotated[int, Field(ge=0)]
    failure: str

    metric: str = "accuracy"
    split: str = ""
    interval: Width | None = None
    seconds: Width | None = None
    peak_mb: Width | None = None
    audited: Spent | None = None
    audit: str = ""
    soundness: str = ""
    made_by: str = ""
    data: str = ""

    @property
    def place(self) -> Place:
        """What tells this line from the others of its table."""
        return self.dataset, self.method, self.reading, self.epsilon

    @property
    def stale(self) -> bool:
        """Whether another revision of the method made the line, or none was noted."""
        return revisions.stale(self.made_by)

    @property
    def current(self) -> Self:
        """The line, without its scores if it is stale."""
        if not self.stale:
            return self
        why = f"stale: {f'made by {self.made_by}' if self.made_by else 'it is not known what made it'}; run it again"
        blank = dict.fromkeys(("test", "std", "interval", "audited"))
        return self.model_copy(update={**blank, "audit": "", "failure": why, "failed": max(self.failed, 1)})

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of the mean over seeds."""
        return self.interval if self.interval is not None else half_width(self.std, self.seeds)

    @property
    def free(self) -> bool:
        """Whether the line stands for all epsilons: without privacy, or without any spending."""
        return self.epsilon == math.inf or self.certificate_epsilon == self.sound_epsilon == 0

    @property
    def label(self) -> str:
        """The method, and that its claim is only a published one."""
        return self.method if self.reading == "sound" or self.free else f"{self.method}, published claim"

    @property
    def full_label(self) -> str:
        """The label, with the epsilon of a line that stands for all."""
        return f"{self.label}, ε = {'∞' if self.epsilon == math.inf else '0'}" if self.free else self.label

    @property
    def refuted(self) -> bool:
        """Whether an audit certified more than was claimed."""
        return self.audit.startswith(REFUTED) or (self.audited or 0.0) > self.epsilon

    @property
    def proven(self) -> bool:
        """Whether each run provably spent no more than `epsilon`."""
        provable = math.inf if self.sound_epsilon is None else self.sound_epsilon
        return provable <= self.epsilon * (1 + 1e-6) and not self.refuted

    @property
    def uncharged(self) -> bool:
        """Whether the choice of hyper-parameters spent what nobody charged."""
        return self.selection.endswith("not charged")


LINES = TypeAdapter(list[KeptLine])


def half_width(std: float | None, seeds: int) -> float | None:
    """Student's 95 % interval of a mean: t std / sqrt(seeds); unknown for a single seed."""
    from scipy.special import stdtrit

    return None if std is None or seeds < 2 else float(stdtrit(seeds - 1, 0.975)) * std / math.sqrt(seeds)


def load(file: Path) -> list[KeptLine]:
    """The lines of a table, stale ones without their scores."""
    held = kept_files.read(file)
    if held.kind != "lines" or not held.content:
        raise InvalidInput(f"{file} holds no table; `graphveil bench run NAME --results FILE` writes one")
    return lines_of(file, held.content)


def lines_of(file: Path, content: Any) -> list[KeptLine]:
    """The lines that `file` holds, stale ones without their scores."""
    try:
        return [line.current for line in LINES.validate_python(content)]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{file} is damaged at {place}: {first['msg']}") from None
