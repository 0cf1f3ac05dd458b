"""split_dynamic_nests and reverse_loops: what they rewrite, and what they leave alone."""

import tile_samples as samples

from tilelang_ascend.ir import (
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    const_int,
    decl_buffer,
    statements,
    structural_equal,
    tirx,
)
from tilelang_ascend.transform.nests.reverse_loops import reverse_loops
from tilelang_ascend.transform.nests.split_dynamic_nests import LANES, ROW, split_dynamic_nests


def nest(axes, store, *params):
    return PrimFunc(list(params), samples.grid([(tirx.Var("b", "int32"), 1)], samples.parallel(axes, store)))


def loops(func):
    return [s for s in statements(func.body) if isinstance(s, For)]


def test_split_dynamic_nests_gives_a_constant_extent():
    m, i = tirx.Var("m", "int32"), tirx.Var("i", "int32")
    y = decl_buffer((100,), "float32", "Y")
    out = split_dynamic_nests(nest([(i, m)], BufferStore(y, 1.0, [i]), m, y))
    _, parts, inner = loops(out)
    assert const_int(inner.extent) == LANES and str(parts.extent) == f"(m + {LANES - 1}) // {LANES}"
    guard = next(s for s in statements(out.body) if isinstance(s, IfThenElse))
    assert str(guard.condition) == f"i_part * {LANES} + i < m"


def test_split_dynamic_nests_shares_the_lanes_between_extents():
    m, n, i, j = (tirx.Var(x, "int32") for x in "mnij")
    y = decl_buffer((m, n), "float32", "Y")
    out = split_dynamic_nests(nest([(i, m), (j, n)], BufferStore(y, 1.0, [i, j]), y))
    assert [const_int(s.extent) for s in loops(out)][-2:] == [LANES // ROW, ROW]


def test_split_dynamic_nests_leaves_what_a_tile_bounds():
    m, i = tirx.Var("m", "int32"), tirx.Var("i", "int32")
    x, y = decl_buffer((64,), "float32", "x", scope="shared.ub"), decl_buffer((100,), "float32", "Y")
    func = nest([(i, m)], BufferStore(y, x[i], [i]), m, y)
    assert structural_equal(split_dynamic_nests(func), func)


def test_reverse_loops_turns_backward_loops():
    i, j = tirx.Var("i", "int32"), tirx.Var("j", "int32")
    x, y = decl_buffer((8, 24), "float32", "X"), decl_buffer((8, 24), "float32", "Y")
    backward = nest([(i, 8), (j, 24)], BufferStore(y, x[i, j], [i, 23 - j]), x, y)
    forward = nest([(i, 8), (j, 24)], BufferStore(y, x[i, 23 - j], [i, j]), x, y)
    assert structural_equal(reverse_loops(backward), forward)
    assert structural_equal(reverse_loops(forward), forward)
