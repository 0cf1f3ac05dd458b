"""Parts of a box of run time."""

import pytest

from tilelang_ascend.ir import Evaluate, Var, const_int, imm, substitute_expr, sym
from tilelang_ascend.transform.canonicalize.stage_operands import in_parts


@pytest.mark.parametrize("extent", [2**31 - 1, 2**31 - 64, 65, 64, 1, 0, -1, -(2**31)])
def test_number_of_parts(extent):
    """Rounded up without a sum that wraps: a box of 2^31 - 1 elements had none, one of less than none many."""
    n = Var("n", "int32")
    found = in_parts([n], [64], None, lambda offsets, counts: Evaluate(counts[0]))
    trips = sym.Analyzer().simplify(substitute_expr(found.extent, {n: imm(extent)}))
    assert const_int(trips) == max(0, -(-extent // 64))
