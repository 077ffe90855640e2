"""What names a user's own module, and what does not make one."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphveil.errors import InvalidInput, Tampered
from graphveil.methods.described import rebuild_method
from graphveil.methods.node.ndp import Ndp
from graphveil.nn.own_network import OwnNetwork, inputs_of, registered_network
from own_modules import Gat, Mixer, PooledGcn


def test_name_and_settings_are_all_that_a_file_carries() -> None:
    own = OwnNetwork.of(PooledGcn, hidden=3)
    assert own.describe() == {"kind": "OwnNetwork", "name": "own_modules:PooledGcn", "settings": [["hidden", 3]]}
    back = rebuild_method(Ndp(network=own).describe()).network  # type: ignore[attr-defined]
    assert back == own
    assert back.make is None
    with pytest.raises(InvalidInput, match="give the class"):
        back.module(4, 3)
    assert back.given(PooledGcn).module(4, 3).lin.in_features == 3
    assert pickle.loads(pickle.dumps(own)).make is PooledGcn


@pytest.mark.parametrize(
    "said",
    [
        {"name": "a:B", "settings": [], "make": "os:system"},
        {"name": "a:B", "settings": [["hidden", [1]]]},
        {"name": "a:B", "settings": [["hidden"]]},
        {"name": "a\nB", "settings": []},
        {"name": 3, "settings": []},
        {"settings": []},
    ],
)
def test_a_file_cannot_say_more(said: dict[str, Any]) -> None:
    described = Ndp().describe() | {"network": {"kind": "OwnNetwork", **said}}
    with pytest.raises(Tampered):
        rebuild_method(described)


def test_a_file_imports_nothing_that_it_merely_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(f"imported {name}"))
    assert registered_network("antigravity:fly") is None


def test_networks_are_classes_or_functions() -> None:
    with pytest.raises(InvalidInput, match="fresh weights"):
        OwnNetwork.of(Gat(4, 3))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="class or a function"):
        OwnNetwork.of("Gat")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="numbers, words"):
        OwnNetwork.of(Gat, hidden=[3])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="could not be made from 4 features, 3 classes"):
        OwnNetwork.of(Gat, heads=3).module(4, 3)
    with pytest.raises(InvalidInput, match=r"no torch\.nn\.Module"):
        OwnNetwork.of(lambda features, _: features).module(4, 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInput, match="no weights"):
        OwnNetwork.of(lambda *_: nn.Identity()).module(4, 3)
    with pytest.raises(InvalidInput, match="state the size"):
        OwnNetwork.of(lambda _, classes: nn.LazyLinear(classes)).module(4, 3)
    with pytest.raises(InvalidInput, match="float32"):
        OwnNetwork.of(lambda features, classes: nn.Linear(features, classes).double()).module(4, 3)


def test_what_forward_takes_is_read_off_its_signature() -> None:
    class Loose(nn.Module):
        def forward(self, x: Tensor, mask: Tensor | None = None, **more: Any) -> Tensor:  # noqa: ARG002
            return x

    known = {nn.Linear(4, 3): 1, Loose(): 1, Mixer(4, 3): 2, PooledGcn(4, 3): 3}
    assert {module: len(inputs_of(module)) for module in known} == known
    assert torch.equal(Loose()(torch.ones(1)), torch.ones(1))
