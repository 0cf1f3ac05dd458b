"""Products share the slots of L0A and L0B: any number of them fit, of any dtypes, and steps take turns from one to the next."""

from itertools import product

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import For, const_int, imm, op_name, operand_parts, statements, substitute_expr, sym

F16, F32, I8, I32 = "float16", "float32", "int8", "int32"


def gate_and_up(K, block, step, dtype=F16):
    """Two products of one loop, `C = A @ G` and `D = A @ U`."""
    M = N = block

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        G: T.Tensor((K, N), dtype),
        U: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), F32),
        D: T.Tensor((M, N), F32),
    ):
        with T.Kernel(1) as _:
            a, g, u = T.alloc_shared((M, step), dtype), T.alloc_shared((step, N), dtype), T.alloc_shared((step, N), dtype)
            c, d = T.alloc_fragment((M, N), F32), T.alloc_fragment((M, N), F32)
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(T.ceildiv(K, step), num_stages=2):
                T.copy(A[0, k * step], a)
                T.copy(G[k * step, 0], g)
                T.copy(U[k * step, 0], u)
                T.gemm(a, g, c)
                T.gemm(a, u, d)
            T.copy(c, C)
            T.copy(d, D)

    return tilelang.compile(main, target="Ascend910B1")


def data(rng, *shape, dtype=F16):
    return rng.integers(-4, 5, shape).astype(dtype)


# Products whose operands take all of a slot; before, each had slots of its own and L0A or L0B was too small.
@pytest.mark.parametrize("K, block, step, dtype", [(512, 64, 32, F16), (96, 128, 32, F32), (256, 128, 128, F16)])
def test_two_products_of_one_loop(K, block, step, dtype):
    rng = np.random.default_rng(0)
    A, G, U = data(rng, block, K, dtype=dtype), data(rng, K, block, dtype=dtype), data(rng, K, block, dtype=dtype)
    out = strict.run(
        gate_and_up(K, block, step, dtype), {"A": A, "G": G, "U": U, "C": np.zeros((block, block), F32), "D": np.zeros((block, block), F32)}
    )
    np.testing.assert_array_equal(out["C"], A.astype(F32) @ G.astype(F32))
    np.testing.assert_array_equal(out["D"], A.astype(F32) @ U.astype(F32))


@pytest.mark.parametrize("chip", ["Ascend910B1", "Ascend950PR_958x"])
def test_products_of_several_dtypes(chip):
    """The slots are memory, whatever the dtype; an accumulator that starts from zeros takes a step, too."""

    @T.prim_func
    def main(
        A: T.Tensor((48, 64), F16), B: T.Tensor((64, 32), F16),
        P: T.Tensor((32, 96), I8), Q: T.Tensor((96, 64), I8),
        X: T.Tensor((16, 24), F32), Y: T.Tensor((24, 16), F32),
        flag: T.Tensor((1,), I32),
        C: T.Tensor((48, 32), F32), R: T.Tensor((32, 64), I32), Z: T.Tensor((16, 16), F32),
    ):  # fmt: skip
        with T.Kernel(1) as _:
            a, b, c = T.alloc_shared((48, 64), F16), T.alloc_shared((64, 32), F16), T.alloc_fragment((48, 32), F32)
            p, q, r = T.alloc_shared((32, 96), I8), T.alloc_shared((96, 64), I8), T.alloc_fragment((32, 64), I32)
            x, y, z = T.alloc_shared((16, 24), F32), T.alloc_shared((24, 16), F32), T.alloc_fragment((16, 16), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(P, p)
            T.copy(Q, q)
            T.copy(X, x)
            T.copy(Y, y)
            T.clear(z)
            T.clear(r)
            for k in T.serial(3):
                T.gemm(a, b, c, clear_accum=k == 0)
                if flag[0] > k:
                    T.gemm(p, q, r)
                else:
                    T.gemm(x, y, z)
            T.copy(c, C)
            T.copy(r, R)
            T.copy(z, Z)

    rng = np.random.default_rng(1)
    given = {"A": data(rng, 48, 64), "B": data(rng, 64, 32), "P": data(rng, 32, 96, dtype=I8), "Q": data(rng, 96, 64, dtype=I8),
             "X": data(rng, 16, 24, dtype=F32), "Y": data(rng, 24, 16, dtype=F32), "flag": np.array([2], I32)}  # fmt: skip
    outputs = {"C": np.zeros((48, 32), F32), "R": np.zeros((32, 64), I32), "Z": np.zeros((16, 16), F32)}
    out = strict.run(tilelang.compile(main, target=chip), {**given, **outputs})
    np.testing.assert_array_equal(out["C"], 3 * given["A"].astype(F32) @ given["B"].astype(F32))
    np.testing.assert_array_equal(out["R"], 2 * given["P"].astype(I32) @ given["Q"].astype(I32))
    np.testing.assert_array_equal(out["Z"], given["X"] @ given["Y"])


def slots_of(kernel, trips):
    """Slots of L0A in the order in which Mmads read them, in a nest of loops with those trips (outermost first)."""
    (func,) = kernel.artifact.ascend_ir.functions.values()
    mmads = [s for s in statements(func.body) if op_name(s) == "ascend.mmad"]
    variables = [s.loop_var for s in statements(func.body) if isinstance(s, For)]
    found = []
    for values in product(*map(range, trips)):
        known = {v: imm(n) for v, n in zip(variables, values)}
        found += [const_int(sym.Analyzer().simplify(substitute_expr(operand_parts(s.value.args[1])[0].indices[0], known))) for s in mmads]
    return found


@pytest.mark.parametrize("outer, inner, products", [(4, 1, 1), (4, 1, 2), (4, 1, 3), (3, 3, 1), (3, 2, 3), (2, 3, 2)])
def test_steps_alternate_from_product_to_product(outer, inner, products):
    @T.prim_func
    def main(A: T.Tensor((64, 16), F16), B: T.Tensor((16, 16), F16), C: T.Tensor((16, 16), F32)):
        with T.Kernel(1) as _:
            a, b, c = T.alloc_shared((16, 16), F16), T.alloc_shared((16, 16), F16), T.alloc_fragment((16, 16), F32)
            T.copy(B, b)
            for t in T.serial(outer):
                T.copy(A[t * 16, 0], a)
                for _ in range(inner):
                    T.gemm(a, b, c, clear_accum=True)
                    if products > 1:
                        T.gemm(a, b, c)
                    if products > 2:
                        T.gemm(a, b, c)
            T.copy(c, C)

    got = slots_of(tilelang.compile(main, target="Ascend910B1"), (outer, inner))
    assert got == [n % 2 for n in range(outer * inner * products)]
