"""What each T.* call writes into the IR."""

import ml_dtypes
import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import (
    DtypeMismatch,
    InvalidArgument,
    NonStaticShape,
    ShapeMismatch,
    UnsupportedConstruct,
)  # fmt: skip
from tilelang_ascend.ir import Evaluate, For, ForKind, op_name, statements
from tilelang_ascend.sim.reference import run

M, N, K = 32, 48, 16


def ops_of(func, name):
    return [s.value for s in statements(func.body) if isinstance(s, Evaluate) and op_name(s) == "tl." + name]


def box(region):
    return [(str(r.min), str(r.extent)) for r in region.region]


def traced(body, shapes=((64, 64), (64, 64)), dtype="float32", **consts):
    """A kernel with tensors A, B whose body is `body(A, B, bx)`."""

    @T.prim_func
    def k(A: T.Tensor(shapes[0], dtype), B: T.Tensor(shapes[1], dtype)):
        with T.Kernel(4) as bx:
            body(A, B, bx)

    return k


# --- copy ------------------------------------------------------------------------------------------------------------


def test_copy_head_address_takes_the_other_side():
    def body(A, B, bx):
        s = T.alloc_shared((8, 16), "float32")
        T.copy(A[bx * 8, 3], s)
        T.copy(s, B[60, bx])

    load, store = ops_of(traced(body), "copy")
    assert box(load.args[0]) == [("bx * 8", "8"), ("3", "16")] and box(load.args[1]) == [("0", "8"), ("0", "16")]
    assert box(store.args[1]) == [("60", "8"), ("bx", "16")]


def test_copy_aligns_at_the_right():
    def body(A, B, bx):
        s = T.alloc_shared((8, 16), "float32")
        T.copy(A[1, bx, 4], s)
        T.copy(A[1, 2:10, 0:16], s)
        T.copy(B[bx, 0, 0:1], s[3, :])

    k = traced(body, ((4, 64, 64), (4, 64, 64)))
    a, b, c = ops_of(k, "copy")
    assert box(a.args[0]) == [("1", "1"), ("bx", "8"), ("4", "16")]
    assert box(b.args[0]) == [("1", "1"), ("2", "8"), ("0", "16")] and box(b.args[1]) == [("0", "8"), ("0", "16")]
    assert box(c.args[0]) == [("bx", "1"), ("0", "1"), ("0", "16")]


def test_copy_sizes_and_dtype_conversion():
    def body(A, B, bx):
        s = T.alloc_shared((16, 32), "float16")
        T.copy(A[bx, 0], s, [8, 16])
        T.copy(s, B[0, 0], [4, 32])

    a, b = ops_of(traced(body), "copy")
    assert box(a.args[0]) == [("bx", "8"), ("0", "16")] and box(a.args[1]) == [("0", "8"), ("0", "16")]
    assert box(b.args[1]) == [("0", "4"), ("0", "32")]


def test_copy_of_two_elements_is_a_store():
    def body(A, B, bx):
        T.copy(A[0, 1], B[2, 3])

    k = traced(body)
    a, b = np.arange(4096, dtype=np.float32).reshape(64, 64), np.zeros((64, 64), np.float32)
    run(k, a, b)
    assert not ops_of(k, "copy") and b[2, 3] == 1


def test_copy_clamps_dynamic_extents():
    @T.prim_func
    def k(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1):
            s = T.alloc_shared((16,), "float32")
            T.copy(A[n : n + 16], s)
            T.copy(A[0:n], s[0:n])
            T.copy(s[0:n], B[8 : 8 + n])

    a, b, c = ops_of(k, "copy")
    assert box(a.args[0]) == [("n", "16")] and box(b.args[0])[0][1] == "n" and box(c.args[1]) == [("8", "n")]


def test_copy_mismatch():
    def buffers(A, B, bx):
        T.copy(T.alloc_shared((8, 16), "float32"), T.alloc_shared((16, 8), "float32"))

    def slices(A, B, bx):
        T.copy(A[0:8, 0:16], T.alloc_shared((8, 32), "float32"))

    with pytest.raises(ShapeMismatch, match="8x16 float32.*16x8 float32"):
        traced(buffers)
    with pytest.raises(ShapeMismatch, match="8x16 float32.*8x32 float32"):
        traced(slices)


def test_out_of_bounds_tiles_read_zero_and_are_clipped():
    def body(A, B, bx):
        s = T.alloc_shared((24, 24), "float32")
        T.copy(A[bx * 24, 48], s)
        T.copy(s, B[bx * 24, 48])

    k = traced(body)
    a, b = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    run(k, a, b)
    assert b[:, 48:].all() and not b[:, :48].any()


# --- gemm ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_gemm_values(ta, tb):
    sa, sb = (K, M) if ta else (M, K), (N, K) if tb else (K, N)

    @T.prim_func
    def k(A: T.Tensor(sa, "float16"), B: T.Tensor(sb, "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, _):
            a, b = T.alloc_shared(sa, "float16"), T.alloc_shared(sb, "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for i in T.serial(2):
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb, initC=(i == 0), policy=T.GemmWarpPolicy.FullRow)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b, c = (
        rng.standard_normal(sa).astype(np.float16),
        rng.standard_normal(sb).astype(np.float16),
        np.zeros((M, N), np.float32),
    )
    run(k, a, b, c)
    want = 2 * (a.T if ta else a).astype(np.float32) @ (b.T if tb else b).astype(np.float32)
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-5)
    (g,) = ops_of(k, "gemm")
    assert dict(g.attrs) == {"transpose_A": int(ta), "transpose_B": int(tb)}
    assert list(k.attrs["tl.hints"]) == ["T.gemm(policy=FullRow)"]


def test_gemm_size_list_and_clear_accum():
    def body(A, B, bx):
        a, b = T.alloc_shared((32, 64), "float16"), T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((32, 64), "float32")
        T.gemm(a, b, c, [16, 32, 48], initC=True)
        T.gemm(a, b, c, clear_accum=bx == 0)

    a, b = ops_of(traced(body), "gemm")
    assert [box(x) for x in a.args[:3]] == [
        [("0", "16"), ("0", "32")], [("0", "32"), ("0", "48")], [("0", "16"), ("0", "48")]
    ]  # fmt: skip
    assert str(a.args[3]) == "T.bool(True)" and str(b.args[3]) == "bx == 0"


@pytest.mark.parametrize(
    "sa, sb, sc, text, hint",
    [((32, 16), (32, 16), (32, 32), "K = 16, B has K = 32", "transpose_B=True"),
     ((32, 16), (16, 64), (32, 32), "B has N = 64, C has N = 32", "MxK"),
     ((16, 32), (16, 64), (32, 64), "A has K = 32, B has K = 16", "transpose_A=True"),
     ((2, 32, 16), (16, 64), (32, 64), "not a matrix", "two dimensions")],
)  # fmt: skip
def test_gemm_shapes_are_checked_with_numbers(sa, sb, sc, text, hint):
    def body(A, B, bx):
        T.gemm(T.alloc_shared(sa, "float16"), T.alloc_shared(sb, "float16"), T.alloc_fragment(sc, "float32"))

    with pytest.raises(ShapeMismatch, match=text) as info:
        traced(body)
    assert hint in info.value.hint


def test_gemm_dtypes_and_dynamic_shapes():
    def mixed(A, B, bx):
        T.gemm(
            T.alloc_shared((16, 16), "float16"),
            T.alloc_shared((16, 16), "int32"),
            T.alloc_fragment((16, 16), "float32"),
        )

    def dynamic(A, B, bx):
        a = T.alloc_shared((32, 16), "float32")
        T.gemm(a[0 : bx + 1, 0:16], a[0:16, 0:16], T.alloc_fragment((16, 16), "float32"))

    with pytest.raises(DtypeMismatch, match="A is float16, B is int32"):
        traced(mixed)
    with pytest.raises(NonStaticShape, match="bx . 1"):
        traced(dynamic)


# --- element-wise ----------------------------------------------------------------------------------------------------


def test_tile_forms_are_parallel_nests():
    def body(A, B, bx):
        c, d, r = (
            T.alloc_fragment((8, 16), "float32"),
            T.alloc_fragment((8, 16), "float16"),
            T.alloc_fragment((8, 1), "float32"),
        )
        T.copy(A[0, 0], c)
        T.exp(c, d)
        T.vexp(c, d)
        T.vadd(c, r, d)
        T.vmul(c, 2.0, c)
        T.vbrc(0, r)
        T.vcast(c, d)
        T.cast(c, d)
        T.transpose(A[0:8, 0:16], B[0:16, 0:8])

    loops = [s for s in statements(traced(body).body) if isinstance(s, For) and s.kind == ForKind.PARALLEL]
    outer = [s for s in loops if "tl.parallel" in s.annotations]
    assert len(outer) == 7 and all(int(s.annotations["tl.parallel"]) == 2 for s in outer)
    assert [int(s.extent) for s in outer] == [8] * 6 + [16]


def test_tile_forms_compute():
    @T.prim_func
    def k(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float16"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1):
            a, b, r = (
                T.alloc_shared((8, 16), "float32"),
                T.alloc_fragment((8, 16), "float16"),
                T.alloc_fragment((8, 1), "float32"),
            )
            T.copy(A, a)
            T.reduce_max(a, r, dim=1)
            T.vsub(a, r, b)
            T.exp(b, b)
            T.copy(b, B)
            T.transpose(a, C)

    a = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    b, c = np.zeros((8, 16), np.float16), np.zeros((16, 8), np.float32)
    run(k, a, b, c)
    np.testing.assert_allclose(b.astype(np.float32), np.exp((a - a.max(1, keepdims=True)).astype(np.float16)), rtol=2e-3)
    assert (c == a.T).all()


@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (1, 1)])
def test_transpose_of_a_row_or_column(shape):
    """Seed 707 of the fuzzer: a dimension of one index is a dimension."""
    m, n = shape

    @T.prim_func
    def k(A: T.Tensor((m, n), "float32"), B: T.Tensor((n, m), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((m, n), "float32"), T.alloc_fragment((1, n, m), "float32")
            T.copy(A, a)
            T.transpose(a, b)
            T.copy(b[0, :, :], B)

    a, b = np.arange(m * n, dtype=np.float32).reshape(shape), np.zeros((n, m), np.float32)
    run(k, a, b)
    assert (b == a.T).all()


def test_parallel_loop_shape_and_kind():
    def body(A, B, bx):
        for i, j in T.Parallel(4, 8):
            B[i, j] = A[i, j]

    outer, inner = [s for s in statements(traced(body).body) if isinstance(s, For) and s.kind == ForKind.PARALLEL]
    assert dict(outer.annotations) == {"tl.parallel": 2} and not inner.annotations
    assert (int(outer.extent), int(inner.extent), outer.loop_var.name, inner.loop_var.name) == (4, 8, "i", "j")


def test_stores_cast_and_arithmetic_promotes():
    @T.prim_func
    def k(A: T.Tensor((8,), "float16"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] + B[i] * 2
                C[i] = A[i] * i
                A[i] = B[i] / 3 + C[i]

    a, b, c = np.ones(8, np.float16), np.ones(8, np.float32), np.ones(8, np.int32)
    run(k, a, b, c)
    assert b.tolist() == [3] * 8 and c.tolist() == list(range(8)) and a[3] == np.float16(4)


SWEEP = "exp exp2 log log2 log10 log1p sqrt rsqrt sin cos tan tanh sigmoid erf floor ceil round trunc abs relu gelu silu reciprocal".split()


@pytest.mark.parametrize("name", SWEEP)
def test_unary_functions_agree_with_their_python_twins(name):
    f = getattr(T, name)

    @T.prim_func
    def k(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = f(A[i])

    a, b = np.linspace(0.1, 2.6, 8, dtype=np.float32), np.zeros(8, np.float32)
    run(k, a, b)
    np.testing.assert_allclose(b, [f(float(x)) for x in a], rtol=1e-5)


def test_math_on_integers_and_types():
    @T.prim_func
    def k(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = T.sqrt(A[i]) + T.floor(A[i]) + T.max(A[i], 3) + T.if_then_else(A[i] > 3, 1.5, 0)
                B[i] += T.clamp(A[i], 2, 4) + T.Cast("float32", A[i]) + T.float32(A[i]) + T.pow(A[i], 2)

    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.float32)
    run(k, a, b)
    x = a.astype(np.float32)
    want = np.sqrt(x) + x + np.maximum(x, 3) + np.where(x > 3, 1.5, 0) + np.clip(x, 2, 4) + x + x + x * x
    np.testing.assert_allclose(b, want, rtol=1e-6)


def test_constants():
    assert float(T.infinity("float16").value) == float("inf") and int(T.max_value("int8").value) == 127
    assert float(T.min_value(T.float16).value) == -65504 and T.ceildiv(7, 2) == 4 and T.align_up(7, 4) == 8
    with pytest.raises(InvalidArgument, match="no infinity"):
        T.infinity("int32")
    with pytest.raises(InvalidArgument, match="an integer is needed"):
        T.ceildiv(8, None)


def test_dtypes():
    import torch

    assert T.float16 == "float16" and T.dtype(torch.bfloat16) == T.bfloat16 and T.dtype(np.int8) == "int8"
    assert T.dtype(np.dtype("float32")) == "float32" and T.half == "float16" and T.float8_e4m3 == "float8_e4m3fn"
    assert T.float32.bits == 32 and T.bool.bytes == 1 and T.dtype(float) == "float32"
    for pointer in (T.ptr, T.ptr("float16")):
        with pytest.raises(DtypeMismatch, match="addresses are no numbers of a tensor") as info:
            T.Tensor((4,), pointer)
        assert info.value.location.file == __file__ and "each begins" in info.value.hint
    with pytest.raises(DtypeMismatch, match="not a dtype"):
        T.dtype("float17")


# --- reductions and the rest -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sum", "max", "min", "abssum", "absmax"])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions(kind, dim, keep):
    shape = {0: (1, 6) if keep else (6,), 1: (4, 1) if keep else (4,)}[dim % 2]

    @T.prim_func
    def k(A: T.Tensor((4, 6), "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1):
            a, r = T.alloc_fragment((4, 6), "float32"), T.alloc_fragment(shape, "float32")
            T.copy(A, a)
            getattr(T, f"reduce_{kind}")(a, r, dim=dim)
            T.copy(r, B)

    a = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    b = np.zeros(shape, np.float32)
    run(k, a, b)
    source = np.abs(a) if kind.startswith("abs") else a
    want = getattr(np, kind.removeprefix("abs"))(source, axis=dim)
    np.testing.assert_allclose(b.reshape(-1), want, rtol=1e-6)
    (r,) = ops_of(k, "reduce")
    assert dict(r.attrs) == {"kind": kind, "dim": dim % 2, "clear": 1}


def test_reduce_without_clear_cumsum_and_atomics():
    @T.prim_func
    def k(A: T.Tensor((4, 6), "float32"), B: T.Tensor((4,), "float32"), C: T.Tensor((4, 6), "float32")):
        with T.Kernel(2):
            a, r = T.alloc_fragment((4, 6), "float32"), T.alloc_fragment((4,), "float32")
            T.copy(A, a)
            T.fill(r, 10)
            T.reduce_sum(a, r, dim=1, clear=False)
            T.atomic_add(B, r)
            T.atomic_add(B[0], 1)
            T.cumsum(a, dim=1, reverse=True)
            T.atomic_max(C[0, 0], a)

    a, b, c = np.ones((4, 6), np.float32), np.zeros(4, np.float32), np.zeros((4, 6), np.float32)
    run(k, a, b, c)
    assert b.tolist() == [34, 32, 32, 32] and c[0].tolist() == [6, 5, 4, 3, 2, 1]


def test_views_share_storage():
    @T.prim_func
    def k(A: T.Tensor((4, 6), "float32"), B: T.Tensor((24,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((4, 6), "float32")
            T.copy(A, a)
            flat = T.reshape(a, (24,))
            flat[0] = 9
            a[0, 1] = 8
            T.copy(flat, B)

    a, b = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(24, np.float32)
    run(k, a, b)
    assert b[:3].tolist() == [9, 8, 2]


def test_reducers():
    @T.prim_func
    def k(A: T.Tensor((4, 6), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32", op="max")
            T.reducer_init(acc)
            for j in T.serial(6):
                for i in T.Parallel(4):
                    T.reducer_update(acc[i], A[i, j])
            T.finalize_reducer(acc, B)

    a, b = -np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
    run(k, a, b)
    assert b.tolist() == a.max(1).tolist()


def test_dynamic_shapes_and_scalars():
    n, m = T.dynamic("n, m")

    @T.prim_func
    def k(A: T.Tensor((n, m), "float32"), B: T.Tensor((n * m,), "float32"), s: T.float32):
        with T.Kernel(T.ceildiv(n, 4)) as bx:
            for i, j in T.Parallel(4, m):
                if bx * 4 + i < n:
                    B[(bx * 4 + i) * m + j] = A[bx * 4 + i, j] * s

    a, b = np.arange(30, dtype=np.float32).reshape(6, 5), np.zeros(30, np.float32)
    run(k, a, b, np.float32(2))
    assert (b == 2 * a.reshape(-1)).all()


def test_hints_are_recorded_and_ignored():
    def body(A, B, bx):
        T.use_swizzle(10, enable=True)
        T.annotate_layout({A: None})
        T.set_max_nreg(24, 1)
        s = T.alloc_shared((8, 8), "float32")
        T.copy(A[0, 0], s, coalesced_width=4)

    assert list(traced(body).attrs["tl.hints"]) == [
        "T.use_swizzle",
        "T.annotate_layout",
        "T.set_max_nreg",
        "T.copy(coalesced_width=4)",
    ]


def test_grid_order_and_threads():
    @T.prim_func
    def k(A: T.Tensor((64,), "float32")):
        with T.Kernel(2, 3, 4, threads=(32, 4)) as (bx, by, bz):
            A[bx * 12 + by * 4 + bz] = 1

    loops = [s for s in statements(k.body) if isinstance(s, For)]
    assert [(int(s.annotations["tl.grid"]), int(s.extent), s.loop_var.name) for s in loops] == [
        (0, 2, "bx"),
        (1, 3, "by"),
        (2, 4, "bz"),
    ]
    assert list(k.attrs["tl.threads"]) == [32, 4]


def test_one_dimensional_grid_spellings():
    for style in range(3):

        @T.prim_func
        def k(A: T.Tensor((8,), "float32")):
            if style == 0:
                with T.Kernel(8) as i:
                    A[i] = 1
            elif style == 1:
                with T.Kernel(8) as (i,):
                    A[i] = 1
            else:
                with T.Kernel(8, is_npu=True) as (i, _):
                    A[i] = 1

        a = np.zeros(8, np.float32)
        run(k, a)
        assert a.all()


def test_minicv_in_npu_spelling():
    bM, bN, bK = 16, 16, 32

    @T.prim_func
    def k(
        A: T.Tensor((32, bK), "float16"),
        B: T.Tensor((bK, 32), "float16"),
        C: T.Tensor((32, 32), "float32"),
        D: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(4, is_npu=True) as (cid, _):
            bx, by = cid // 2 * bM, cid % 2 * bN
            A_BUF, B_BUF = T.alloc_shared((bM, bK), "float16"), T.alloc_shared((bK, bN), "float16")
            C_BUF, D_BUF = T.alloc_fragment((bM, bN), "float32"), T.alloc_fragment((bM, bN), "float32")
            T.copy(A[bx, 0], A_BUF, [bM, bK])
            T.copy(B[0, by], B_BUF, [bK, bN])
            T.gemm(A_BUF, B_BUF, C_BUF, [bM, bK, bN], initC=True)
            T.exp(C_BUF, D_BUF)
            T.copy(C_BUF, C[bx, by], [bM, bN])
            T.copy(D_BUF, D[bx, by], [bM, bN])

    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-0.25, 0.25, s).astype(np.float16) for s in ((32, bK), (bK, 32)))
    c, d = np.zeros((2, 32, 32), np.float32)
    run(k, a, b, c, d)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(d, np.exp(want), rtol=1e-5)


def test_bfloat16_storage():
    @T.prim_func
    def k(A: T.Tensor((8,), "bfloat16"), B: T.Tensor((8,), "bfloat16")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] + 1

    a, b = np.arange(8).astype(ml_dtypes.bfloat16), np.zeros(8, ml_dtypes.bfloat16)
    run(k, a, b)
    assert b.tolist() == list(range(1, 9))


def test_whole_tile_arithmetic_is_refused():
    def body(A, B, bx):
        B[0:4, :] = T.alloc_shared((4, 64), "float32") + 1

    with pytest.raises(UnsupportedConstruct, match="'\\+' on a whole tile"):
        traced(body)


def test_on_chip_shapes_are_static():
    def body(A, B, bx):
        T.alloc_shared((8, bx + 1), "float32")

    with pytest.raises(NonStaticShape, match="dimension 1"):
        traced(body)
