"""What branches surely overwrite, on one core and on both."""

import pytest

from tilelang_ascend.analysis.index.coverage import written_boxes
from tilelang_ascend.ir import IfThenElse, Var, decl_buffer, imm, region, tirx
from tilelang_ascend.tile import tile_op

CORE, N = Var("core", "int32"), Var("n", "int32")
TENSOR = decl_buffer((64, 32), "float32", "t", scope="global")


def fill(first, rows=32):
    return tile_op("fill", region(TENSOR, [first, imm(0)], [imm(rows), imm(32)]), imm(0, "float32"))


@pytest.mark.parametrize("asked", [CORE, N])
def test_branches_that_cores_take_apart(asked):
    """Core 0 stores to the last rows, as core 1 does: nobody to the first."""
    s = IfThenElse(tirx.EQ(asked, imm(0)), fill(32 - CORE * 32), fill(CORE * 32))
    assert written_boxes(s, TENSOR, CORE) == []


def test_both_ways():
    rows = [(0, 32), (0, 32)]
    asked = tirx.EQ(CORE, imm(0))
    assert written_boxes(IfThenElse(asked, fill(imm(0)), fill(imm(0))), TENSOR, CORE) == [rows]
    assert written_boxes(IfThenElse(tirx.LT(N, imm(0)), fill(imm(0)), fill(imm(0), 16)), TENSOR) == []
    assert written_boxes(IfThenElse(tirx.LT(N, imm(0)), fill(imm(0)), None), TENSOR) == []
