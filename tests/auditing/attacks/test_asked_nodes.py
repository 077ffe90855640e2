"""Attack 2 of PrivGNN on small graphs: a student that learns answers by heart shows which nodes were asked about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphveil import methods
from graphveil.auditing.attacks.asked_nodes import AskedNodes, who_was_asked
from graphveil.auditing.game import Target
from graphveil.errors import Unsupported
from graphveil.methods.public_graph import pate, privgnn
from graphveil.methods.public_graph.parts import teacher_student as taught
from graphveil.vocabulary import Unit
from memorised import SAGE, strangers

STUDENT = {"queries": 100, "student": "sage", "hidden": 32, "epochs": 100, "dropout": 0.0}


def test_wins_against_a_student_that_learnt_by_heart() -> None:
    target = Target(strangers(), methods.PrivGnn(**STUDENT), Unit.NODE, noise=0.0)
    assert AskedNodes().scores(target, 0).auc() > 0.65


def test_is_at_chance_where_others_were_asked() -> None:
    target = Target(strangers(), methods.PrivGnn(**STUDENT), Unit.NODE, noise=0.0)
    scene = AskedNodes().scene(target, 0)
    # A student of the same nodes that was taught others of them: who was asked of the first one is not in it.
    other = AskedNodes().scene(replace(target, seed=1), 0)
    both = np.intersect1d(scene.present, other.present)
    shown = np.setdiff1d(scene.present, both), np.setdiff1d(scene.absent, other.present)
    unaware = replace(scene, posteriors=other.posteriors, present=shown[0], absent=shown[1])
    count, rest = map(len, shown)
    assert abs(AskedNodes().on(unaware).auc() - 0.5) < 4 * ((count + rest + 1) / (12 * count * rest)) ** 0.5


@pytest.mark.parametrize("method", [methods.PrivGnn(queries=9, width=3, least=2), methods.Pate(queries=9, voters=2)])
def test_who_was_asked_is_known(method: taught.TeacherStudent, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(*given: object) -> object:
        seen.append(taught.drawn(*given))
        return seen[-1]

    for module in (privgnn, pate):
        monkeypatch.setattr(module, "drawn", watched)
    target = Target(strangers(), method, Unit.NODE, noise=1.0, seed=7)
    assert (who_was_asked(target, target.release()) == seen[0]).all()


def test_a_method_that_asks_nobody_is_refused() -> None:
    with pytest.raises(Unsupported, match="private_nodes"):
        AskedNodes().scores(Target(strangers(), SAGE, Unit.NODE, noise=0.0), 0)
