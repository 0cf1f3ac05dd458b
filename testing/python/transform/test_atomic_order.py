"""Atomic updates of GM wait for each other only where their order matters."""

import pytest
import sync_kernels as K

from tilelang_ascend.analysis.dependence.build_program import build_program
from tilelang_ascend.analysis.dependence.dependence import dependences
from tilelang_ascend.analysis.dependence.sync_check import sync_covers
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import intrin, loop, seq
from tilelang_ascend.transform.sync.insert_sync import insert_sync

CHIP = get_chip("a2")
STORE, LOAD = "copy_ub_to_gm", "copy_gm_to_ub"


def kernel(*modes, trips=1, read=False):
    """One tile goes to one place of z, with every mode once (None: an ordinary store); then the place may be read."""
    z, a, b = K.gm("z", 65536, "float32"), K.ub("a", 1024), K.ub("b", 1024)
    body = []
    for mode in modes:
        store = K.store_ub(K.at(z), K.at(a), 1024)
        around = [intrin("set_atomic", op=op, dtype="float32") for op in (mode, "none")] if mode else []
        body += [*around[:1], store, *around[1:]]
    body = seq(*body, *([K.load_ub(K.at(b), K.at(z), 1024)] if read else []))
    return K.kernel([z], [a, b], loop(K.var(), trips, body) if trips > 1 else body)


def found(func):
    """Dependences as numbers of instructions."""
    return {(d.src.order, d.dst.order) for d in dependences(build_program(func, CHIP))}


@pytest.mark.parametrize("modes, pairs", [
    (("add", "add"), set()), (("max", "max", "max"), set()), (("add", "max"), {(0, 1), (1, 0)}), ((None, None), {(0, 1), (0, 0), (1, 1), (1, 0)}),
    ((None, "add"), {(0, 0), (0, 1), (1, 0)}),
])  # fmt: skip
def test_updates_in_a_loop(modes, pairs):
    got = found(kernel(*modes, trips=4))
    # An ordinary store stands between what is in front of it and behind it.
    assert got <= pairs and {(a, b) for a, b in pairs if a != b} <= got


def test_a_read_waits_for_every_update():
    """None of them stands for another, and the last one has not waited for the first."""
    assert found(kernel(None, "add", "add", read=True)) >= {(0, 1), (0, 2), (1, 3), (2, 3)}


@pytest.mark.parametrize("modes", [("add", "add"), ("add", "max"), (None, "add", "add")])
def test_what_is_left_is_ordered(modes):
    func = kernel(*modes, trips=4, read=True)
    assert sync_covers(insert_sync(func, CHIP), CHIP) == []
