"""Loops of host programs."""

import numpy as np
from ascend_ir_samples import Builder, Sample, at, gm, module
from ir_and_text import run_ir, run_text

from tilelang_ascend.ir import Bind, For, ForKind, Var, call, if_then, intrin, seq
from tilelang_ascend.sim.streams import first_difference


def test_a_loop_does_not_ask_again_for_what_it_ends_at():
    """An end that is the result of a call, of a loop that begins elsewhere than at 0: the call is made once."""
    b = Builder()
    ub = b.alloc("ub", "float32", "ub", 64, 0)
    core, end, k = (Var(name, "int32") for name in ("core", "end", "k"))
    add = intrin("adds", at(ub, 0, 0), at(ub, 0, 0), 1.0, 64)
    body = seq(
        Bind(core, call("ascend.get_block_idx", [], dtype="int32")),
        Bind(end, core * 2 + 5),
        intrin("duplicate", at(ub, 0, 0), 0.0, 64),
        For(k, 2, end - 2, ForKind.SERIAL, seq(add, if_then(k.equal(3), add))),
    )
    sample = Sample(
        "loop", module(b.function("loop", "aiv", "aiv_only", [gm("X", "float32", 8)], body)), 1, (), [np.zeros(8, np.float32)], {}
    )
    (_, ir), (_, text) = run_ir(sample), run_text(sample)
    assert first_difference(ir.streams, text.streams) is None
