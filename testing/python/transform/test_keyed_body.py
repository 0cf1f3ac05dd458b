"""Statements of several steps as one that asks whose a key is, and tiles that are loaded in pieces, against what they say number by number."""

import itertools
import operator

import pytest

from tilelang_ascend.analysis.tiles.piece_loads import PieceLoad
from tilelang_ascend.analysis.tiles.split_axis import SplitPlan
from tilelang_ascend.ir import (
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Var,
    const_int,
    decl_buffer,
    dtype_of,
    imm,
    itemsize,
    loop,
    parallel_nest,
    region,
    seq,
    statements,
    stmts_of,
    substitute,
    tirx,
)
from tilelang_ascend.tile import COPY, is_op, tile_op
from tilelang_ascend.transform.nests.keyed_body import KeyedBody

COMPARISONS = {
    tirx.LT: operator.lt, tirx.LE: operator.le, tirx.GT: operator.gt, tirx.GE: operator.ge, tirx.EQ: operator.eq, tirx.NE: operator.ne,
}  # fmt: skip
SIZE, TIMES = 4, 3


OPERATIONS = COMPARISONS | {
    tirx.Add: operator.add, tirx.Sub: operator.sub, tirx.Mul: operator.mul, tirx.Min: min, tirx.Max: max, tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod, tirx.And: operator.and_, tirx.Or: operator.or_,
}  # fmt: skip


def number(e, values: dict) -> int:
    """What an expression of integers is, which has to fit its dtype all along."""
    if isinstance(e, Var):
        found = values[e]
    elif isinstance(e, tirx.Cast):
        found = number(e.value, values)
    elif type(e) in OPERATIONS:
        found = OPERATIONS[type(e)](number(e.a, values), number(e.b, values))
    else:
        found = const_int(e)
    assert dtype_of(e) == "bool" or -(2 ** (8 * itemsize(dtype_of(e)) - 1)) <= found < 2 ** (8 * itemsize(dtype_of(e)) - 1)
    return found


def keyed(condition, k, j):
    """What a nest stores to for `condition`, in terms of long steps; None if it is not written so."""
    s, i = decl_buffer((2, SIZE), "float32", "s", scope="local.fragment"), Var("i", "int32")
    store = BufferStore(s, tirx.if_then_else(condition, imm(1, "float32"), imm(0, "float32")), [i, j])
    nest = parallel_nest([(i, imm(2)), (j, imm(SIZE))], store)
    longer = decl_buffer((2, SIZE * TIMES), "float32", "s", scope="local.fragment")
    out = KeyedBody(loop(k, 9, nest), SplitPlan({s: 1}, {j: SIZE}), TIMES, {s: longer}).of(nest)
    return None if out is None else next(x for x in statements(out) if isinstance(x, BufferStore)).value.args[0]


@pytest.mark.parametrize("kind", COMPARISONS)
@pytest.mark.parametrize("each", [-5, -2, -1, 1, 2, 3])
def test_comparisons_of_a_step(kind, each):
    k, j, n = Var("k", "int32"), Var("j", "int32"), Var("n", "int32")
    for turned, more in itertools.product((False, True), (-3, 0, 1)):
        sides = (n, k * each + more) if turned else (k * each + more, n)
        found = keyed(kind(*sides), k, j)
        if kind in (tirx.EQ, tirx.NE) and abs(each) != 1:
            assert found is None
            continue
        for step, key, limit in itertools.product(
            range(3), range(SIZE * TIMES), (-(2**31), -30, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 9, 25, 2**31 - 1)
        ):
            mine = (step * TIMES + key // SIZE) * each + more
            want = COMPARISONS[kind](*((limit, mine) if turned else (mine, limit)))
            assert bool(number(found, {k: step, j: key, n: limit})) == want, (turned, more, step, key, limit)


def test_keys_are_counted_through():
    """`k * SIZE + j` goes on from step to step."""
    k, j, n = Var("k", "int32"), Var("j", "int32"), Var("n", "int32")
    found = keyed(tirx.And(k * SIZE + j >= n, k * (2 * SIZE) + 1 + j * 2 < n + 9), k, j)
    for step, key, limit in itertools.product(range(3), range(SIZE * TIMES), range(40)):
        mine = (step * TIMES + key // SIZE) * SIZE + key % SIZE
        assert bool(number(found, {k: step, j: key, n: limit})) == (mine >= limit and 2 * mine + 1 < limit + 9)


@pytest.mark.parametrize("condition", ["place", "both", "other rate"])
def test_what_takes_divisions_stays(condition):
    k, j, n = Var("k", "int32"), Var("j", "int32"), Var("n", "int32")
    said = {"place": j < n, "both": k + j < n, "other rate": k * (SIZE - 1) + j < n}[condition]
    assert keyed(said, k, j) is None


PIECES, ROWS = 8, 64


def load(there=None):
    tensor, tile = decl_buffer((100000, 32), "float16", "X"), decl_buffer((PIECES * ROWS, 32), "float16", "t", scope="shared")
    p = Var("p", "int32")
    source = region(tensor, [p * p * 100 + 7, imm(0)], [imm(ROWS), imm(32)])
    return PieceLoad(tile, 0, p, PIECES, ROWS, source, None if there is None else there(p))


def rows_of(s, values: dict) -> dict:
    """Row of the tile -> row of the tensor, None for zeros, of all that a statement loads."""
    found: dict = {}
    for x in stmts_of(s):
        if isinstance(x, For):
            for n in range(const_int(x.extent)):
                found |= rows_of(substitute(x.body, {x.loop_var: imm(n)}), values)
        elif isinstance(x, IfThenElse):
            found |= rows_of(x.then_case if number(x.condition, values) else x.else_case, values)
        else:
            assert isinstance(x, Evaluate) and is_op(x, COPY)
            source, target = x.value.args[:2]
            here, first = number(target.region[0].min, values), number(source.region[0].min, values)
            rows = const_int(target.region[0].extent)
            assert const_int(source.region[0].extent) == rows
            nothing = len(x.value.args) == 4 and const_int(x.value.args[3]) == 0
            found |= {here + r: None if nothing else first + r for r in range(rows)}
    return found


@pytest.mark.parametrize("size", [256, 128, 64, 32, 16])
@pytest.mark.parametrize("guarded", [False, True])
def test_parts_of_pieces(size, guarded):
    """A part has the rows that all of it has there; it is such a load itself, or one piece."""
    whole = load((lambda p: p * ROWS < 300) if guarded else None)
    rows, which = rows_of(whole.stmt(), {}), Var("which", "int32")
    assert PieceLoad.of(whole.stmt()).pieces == PIECES and whole.divides(size) and not whole.divides(96)
    own = decl_buffer((size, 32), "float16", "own", scope="shared")
    part = whole.part(own, which * size, size)
    assert (PieceLoad.of(part) is not None) == (size > ROWS)
    for n in range(PIECES * ROWS // size):
        assert rows_of(part, {which: n}) == {r: rows[n * size + r] for r in range(size)}


def test_other_loops_are_no_loads_in_pieces():
    whole = load()
    (s,) = stmts_of(whole.stmt().body)
    source, target = s.value.args
    smaller = region(whole.tile, [x.min for x in target.region], [imm(ROWS // 2), imm(32)])
    half = region(whole.tile, [x.min for x in target.region], [imm(ROWS), imm(16)])
    for body in (
        seq(s, s),
        tile_op("copy", region(source.source, [x.min for x in source.region], [imm(ROWS // 2), imm(32)]), smaller),
        tile_op("copy", region(source.source, [x.min for x in source.region], [imm(ROWS), imm(16)]), half),
        IfThenElse(whole.var < 3, s, None),
    ):
        assert PieceLoad.of(loop(whole.var, PIECES, body)) is None
    assert PieceLoad.of(loop(whole.var, PIECES - 1, s)) is None
    assert PieceLoad.of(loop(whole.var, Var("n", "int32"), s)) is None
