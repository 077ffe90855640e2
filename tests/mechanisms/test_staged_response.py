"""Randomised response in stages: all outcomes, for every pair of neighbours."""

from __future__ import annotations

import itertools
import math
from typing import cast

import pytest
import torch
from torch import Tensor

from graphveil.data.sealing import Sealed
from graphveil.mechanisms.staged_response import StagedResponse, Stages
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Source

ACT = StagedResponse(0.8, categories=3)
STAGE = torch.tensor([0, 1, 1, 2])


def candidates(said: Tensor) -> Tensor:
    """Who was not asked yet may say the last class that was named and the one after it, or anything at first."""
    named = said[said >= 0]
    if not len(named):
        return torch.ones(4, 3, dtype=torch.bool)
    some = torch.zeros(4, 3, dtype=torch.bool)
    some[:, [int(named[-1]), (int(named[-1]) + 1) % 3]] = True
    return some


def before(said: tuple[int, ...], stage: int) -> Tensor:
    return torch.where(stage > STAGE, torch.tensor(said), -1)


def chance(said: tuple[int, ...], truths: tuple[int, ...]) -> float:
    """From the definition: every record among its candidates, which earlier stages led to."""
    found = 1.0
    for record, (answer, truth) in enumerate(zip(said, truths, strict=True)):
        among = candidates(before(said, int(STAGE[record])))[record].nonzero().ravel().tolist()
        if answer not in among:
            return 0.0
        grown = math.exp(ACT.epsilon)
        odds = grown if answer == truth else 1.0
        found *= odds / (grown + len(among) - 1) if truth in among else 1 / len(among)
    return found


OUTCOMES = list(itertools.product(range(3), repeat=4))


def released(said: tuple[int, ...]) -> Tensor:
    among = torch.stack([candidates(before(said, int(stage)))[record] for record, stage in enumerate(STAGE)])
    return torch.cat([torch.tensor(said)[:, None], among.long()], dim=1)


def told(said: tuple[int, ...], here: tuple[int, ...], there: tuple[int, ...]) -> float:
    worlds = {True: here, False: there}
    return ACT.evidence(
        cast(Sealed, True),
        cast(Sealed, False),
        lambda world: Stages(torch.tensor(worlds[world]), STAGE, candidates),
        released(said),
    )


def test_one_epsilon_covers_all_stages_and_is_attained() -> None:
    """A record that speaks early moves what later ones choose among; they are other records, and lose nothing."""
    worst = [0.0] * 4
    for here in [(0, 1, 2, 1), (1, 0, 0, -1)]:
        for record, label in itertools.product(range(4), range(-1, 3)):
            there = (*here[:record], label, *here[record + 1 :])
            for said in OUTCOMES:
                first, second = chance(said, here), chance(said, there)
                assert (first > 0) == (second > 0)
                if first > 0:
                    ratio = math.log(first / second)
                    worst[record] = max(worst[record], abs(ratio))
                    if label == 0:
                        assert told(said, here, there) == pytest.approx(ratio, abs=1e-12)
    assert worst == pytest.approx([ACT.epsilon] * 4)
    assert max(worst) <= ACT.curve(1).epsilon


def test_chances_add_up() -> None:
    assert sum(chance(said, (0, 1, 2, -1)) for said in OUTCOMES) == pytest.approx(1)


def test_what_is_released_was_drawn_in_stages() -> None:
    for seed in range(20):
        source: Source = Seeded(seed)
        asked = Stages(torch.tensor([0, 1, 2, -1]), STAGE, candidates)
        out = ACT.apply(cast(Sealed, None), lambda _, asked=asked: asked, source)
        assert torch.equal(out, released(tuple(out[:, 0].tolist())))
