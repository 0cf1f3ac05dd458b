"""bind_elements, forward_elements and stage_operands on small functions."""

import math

import tilelang_ascend.language as T
from tilelang_ascend import arch
from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    For,
    IfThenElse,
    PrimFunc,
    While,
    const_int,
    decl_buffer,
    exprs,
    full_region,
    imm,
    op_name,
    scope_of,
    statements,
    structural_equal,
    tirx,
)
from tilelang_ascend.tile import TABLE, Operand, TileOp, tile_op
from tilelang_ascend.tile.uses import is_scalar_var, loads_in, on_chip
from tilelang_ascend.tile.verify import verify_tile
from tilelang_ascend.transform.canonicalize.bind_elements import bind_elements
from tilelang_ascend.transform.canonicalize.forward_elements import forward_elements
from tilelang_ascend.transform.canonicalize.stage_operands import stage_operands

CHIP = arch.get_chip("a2")


def control(func):
    return [s for s in statements(func.body) if isinstance(s, (For, While, IfThenElse))]


def reads_tile(s) -> bool:
    return any(on_chip(x.source) for e in exprs(s) for x in loads_in(e))


def test_control_flow_reads_no_tile():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((64,), "float32")
            T.copy(A, s)
            while s[0] > 1.0:
                s[0] = s[0] * 0.5
                if s[1] > s[2]:
                    continue
                s[3] = 1.0
            T.copy(s, A)

    after = bind_elements(main)
    assert any(map(reads_tile, control(main))) and not any(map(reads_tile, control(after)))
    # The condition is evaluated in front of the loop, at its end and in front of `continue`.
    assert sum(isinstance(s, Bind) for s in statements(after.body)) == 3 + 2
    assert not verify_tile(after)


def test_an_element_is_read_only_where_it_counts():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((100,), "float32")):
        with T.Kernel(1):
            for i in T.serial(100):
                if i < 64 and A[i] > 0:
                    B[i] = 1.0
            for i in T.serial(64):
                if i < 50 and A[i] > 0:
                    B[i] = 1.0
            t = T.alloc_shared((64,), "float32")
            T.copy(A, t)
            for i in T.serial(100):
                if i < 64 and t[i] > 0:
                    B[i] = 1.0

    after = bind_elements(main)
    # What reads a tile is a branch of its own. Of A there is another element where none counts; the second loop stays inside of it: nothing to guard.
    assert len(control(after)) == len(control(main)) + 1
    branches = [s for s in control(after) if isinstance(s, IfThenElse)]
    first, second = (x.indices[0] for s in branches for x in loads_in(s.condition) if not is_scalar_var(x.source))
    assert isinstance(first, tirx.Select) and const_int(first.false_value) == 0 and not isinstance(second, tirx.Select)


def test_functions_without_such_elements_stay():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(2) as bx:
            s = T.alloc_shared((32,), "float32")
            T.copy(A[bx * 32], s)
            if bx > 0:
                for i in T.Parallel(32):
                    s[i] = s[i] + 1
            T.copy(s, A[bx * 32])

    for function in (forward_elements, bind_elements, lambda f: stage_operands(f, CHIP)):
        assert structural_equal(function(main), main)


def test_the_cube_core_reads_loaded_elements_in_gm():
    def kernel(changed):
        @T.prim_func
        def main(A: T.Tensor((32, 32), "float16"), M: T.Tensor((8, 4), "int32"), C: T.Tensor((32, 32), "float32")):
            with T.Kernel(8) as bx:
                a, m = T.alloc_shared((32, 32), "float16"), T.alloc_shared((4,), "int32")
                c = T.alloc_fragment((32, 32), "float32")
                T.copy(A, a)
                T.copy(M[bx, 0], m)
                if changed:
                    m[0] = 1
                T.clear(c)
                for k in T.serial(4):
                    if m[k] != 0:
                        T.gemm(a, a, c)
                T.copy(c, C)

        return main

    assert not any(map(reads_tile, control(forward_elements(kernel(False)))))
    assert any(map(reads_tile, control(forward_elements(kernel(True)))))


def test_operands_in_gm_get_tiles():
    @T.prim_func
    def main(A: T.Tensor((1000, 300), "float32"), B: T.Tensor((1000,), "float32"), C: T.Tensor((100000,), "float32")):
        with T.Kernel(1):
            T.fill(C, 3.0)
            T.reduce_max(A, B, dim=1)

    after = stage_operands(main, CHIP)
    assert not verify_tile(after)
    for s in statements(after.body):
        if op_name(s) in ("tl.fill", "tl.reduce"):
            assert all(on_chip(r.source) for r in s.value.args if hasattr(r, "region"))
    tiles = [s.buffer for s in statements(after.body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "shared"]
    assert tiles and all(4 * math.prod(map(const_int, t.ty.shape)) <= 65536 for t in tiles)


def test_an_op_of_independent_elements_with_values_is_staged_by_its_record(monkeypatch):
    """No op of today is one; what a pass needs to know of the next one is its record."""
    monkeypatch.setitem(
        TABLE, "tl.clip", TileOp("clip", "", (Operand("src", True), Operand("dst", written=True)), (2, 2), independent=True)
    )
    a, b = (decl_buffer((1000, 300), "float32", name) for name in "AB")
    func = PrimFunc([a, b], tile_op("clip", full_region(a), full_region(b), imm(-1.0), imm(2.0))).with_attr("global_symbol", "main")
    after = stage_operands(func, CHIP)
    assert not verify_tile(after)
    (clip,) = (s for s in statements(after.body) if op_name(s) == "tl.clip")
    source, target, *limits = clip.value.args
    assert on_chip(source.source) and on_chip(target.source) and [x.value for x in limits] == [-1, 2]
    assert const_int(source.region[0].extent) < 1000  # in parts
