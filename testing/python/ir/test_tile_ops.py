"""The table of tile ops: documented, lowered and interpreted completely."""

from pathlib import Path

import pytest

from tilelang_ascend.ir import decl_buffer, full_region, imm
from tilelang_ascend.sim.reference_ops import SEMANTICS
from tilelang_ascend.tile import REDUCE, TABLE, Side, gen_docs, tile_op
from tilelang_ascend.tile.uses import own_uses
from tilelang_ascend.tileop.ops.registry import LOWERINGS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ir.md"
X, Y = (decl_buffer((16, 16), "float32", name, scope="shared") for name in "xy")


def test_the_page_shows_the_table():
    assert gen_docs.renewed(PAGE.read_text("utf-8")) == PAGE.read_text("utf-8"), "run: python -m tilelang_ascend.tile.gen_docs docs/ir.md"


def test_every_op_is_interpreted_and_lowered():
    assert set(SEMANTICS) == set(TABLE.values())
    assert {r for r in TABLE.values() if r.side is Side.VECTOR} <= set(LOWERINGS)


@pytest.mark.parametrize("name", ["mystery", "tl.copy", ""])
def test_an_unknown_op_is_an_error(name):
    with pytest.raises(KeyError):
        tile_op(name, full_region(X))


@pytest.mark.parametrize("record", TABLE.values(), ids=lambda r: r.name)
def test_uses_follow_the_record(record):
    buffers = [decl_buffer((16, 16), "float32", x.name, scope="shared") for x in record.operands]
    uses = own_uses(tile_op(record.name, *map(full_region, buffers), *[imm(1)] * record.values[0]))
    assert uses.reads == {b for b, x in zip(buffers, record.operands) if x.read and not (record is REDUCE and x.written)}
    assert uses.writes == {b for b, x in zip(buffers, record.operands) if x.written}


@pytest.mark.parametrize("clear", [0, 1])
def test_a_reduction_that_overwrites_its_result_does_not_read_it(clear):
    source, result = decl_buffer((16, 16), "float32", "s", scope="shared"), decl_buffer((16,), "float32", "r", scope="shared")
    uses = own_uses(tile_op("reduce", full_region(source), full_region(result), kind="sum", dim=1, clear=clear))
    assert uses.reads == ({source} if clear else {source, result}) and uses.writes == {result}
