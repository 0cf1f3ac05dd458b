"""separate_stores: which tiles are stored from a tile of their own."""

from textwrap import dedent, indent

import pytest

from tilelang_ascend.ir import AllocBuffer, parse, statements
from tilelang_ascend.transform.memory.separate_stores import separate_stores

LOAD, STORE = "T.tl.copy(X[k * 64:k * 64 + 64], a[0:64])", "T.tl.copy(a[0:64], Y[k * 64:k * 64 + 64])"


def nest(*stores, lanes=64, notes=""):
    body = "\n".join(f"    {s}" for s in stores)
    return f'for i in T.parallel({lanes}, annotations={{"tl.parallel": 1{notes}}}):\n{body}'


TWICE = nest("for j in T.parallel(3):", "    a[i] = T.max(a[i], b[j])")


def tiles_after(*body, before="", elements=64):
    """Names of the tiles of a loop over k after the pass."""
    loop = indent("\n".join(body), " " * 8)
    text = dedent("""
        @T.prim_func
        def main(X: T.Buffer((640000,), "float32"), Y: T.Buffer((640000,), "float32")):
            a = T.alloc_buffer((64,), "float32", scope="shared.ub")
            b = T.alloc_buffer((64,), "float32", scope="shared.ub")
        """).strip().replace("(64,)", f"({elements},)")  # fmt: skip
    text += f"\n    {before or 'pass'}\n    for k in range(100):\n{loop}".replace("\n    pass", "")
    func = separate_stores(parse(text).with_attr("global_symbol", "main"))
    return [s.buffer.name for s in statements(func.body) if isinstance(s, AllocBuffer)]


def test_the_last_change_goes_elsewhere():
    assert tiles_after(LOAD, nest("a[i] = a[i] + T.float32(1)"), nest("a[i] = a[i] * a[i]"), STORE) == ["a", "a_out", "b"]


@pytest.mark.parametrize("why, body", {
    "its own place is stored, too": (LOAD, STORE, nest("a[i] = a[i] * a[i]")),
    "another statement reads the result": (LOAD, nest("a[i] = a[i] * a[i]"), STORE, nest("b[i] = a[i]"), STORE.replace("a[", "b[")),
    "two stores in one nest": (LOAD, nest("a[i] = a[i] * a[i]", "b[i] = a[i]"), STORE),
    "other lanes are read": (LOAD, nest("a[i] = a[63 - i]"), STORE),
    "several iterations store to an element": (LOAD, TWICE, STORE),
    "some lanes stay": (LOAD, nest("a[i] = a[i] * a[i]", lanes=32), STORE),
    "some iterations count": (LOAD, nest("a[i] = a[i] * a[i]", notes=', "tl.count": 32'), STORE),
    "not loaded": (nest("a[i] = b[i]"), nest("a[i] = a[i] * a[i]"), STORE),
    "nothing changes": (LOAD, STORE),
}.items(), ids=lambda x: x.replace(" ", "_") if isinstance(x, str) else "")  # fmt: skip
def test_tiles_that_stay(why, body):
    assert tiles_after(*body) == ["a", "b"]


def test_a_value_of_the_iteration_before_stays():
    assert tiles_after(nest("a[i] = a[i] * a[i]"), STORE, before="T.tl.copy(X[0:64], a[0:64])") == ["a", "b"]


def test_large_tiles_stay():
    body = (LOAD.replace("64", "2048"), nest("a[i] = a[i] * a[i]", lanes=2048), STORE.replace("64", "2048"))
    assert tiles_after(*body, elements=2048) == ["a", "b"]
