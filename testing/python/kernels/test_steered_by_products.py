"""Elements of a product decide what vector code does: the product has come to the vector cores before, whole and once."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import For, op_name, statements

N = 32


def program(kind):
    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), B: T.Tensor((N, N), "float16"), n: T.int32, C: T.Tensor((N, N), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            c, d = T.alloc_fragment((N, N), "float32"), T.alloc_fragment((N, N), "float32")
            out, k = T.alloc_fragment((N, N), "float32"), T.alloc_var("int32", init=0)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.gemm(b, a, d, clear_accum=True)
            T.clear(out)
            if kind == "break":
                for i in T.serial(N):
                    if c[i, 1] < -6:
                        break
                    for j in T.Parallel(N):
                        out[i, j] = d[i, j] * i
            elif kind == "continue":
                for i in T.serial(N):
                    if c[i, i] < 0:
                        continue
                    k += 1
                    for j in T.Parallel(N):
                        out[k % N, j] = d[i, j]
            elif kind == "branch":
                if c[0, 0] > 0:
                    for i, j in T.Parallel(N, N):
                        out[i, j] = d[i, j]
                else:
                    for i, j in T.Parallel(N, N):
                        out[i, j] = c[i, j] - d[j, i]
            elif kind == "counted":
                for i in T.serial(N):
                    if c[i, 3] > 0:
                        k += 1
                if k > n:
                    T.copy(d, out)
            elif kind == "again":
                for _ in T.serial(n):
                    T.gemm(a, b, c)
                    for i in T.serial(N):
                        if c[i, 0] > d[i, 1]:
                            break
                        for j in T.Parallel(N):
                            out[i, j] += d[i, j]
            else:
                for _ in T.serial(n):
                    for i, j in T.Parallel(N, N):
                        out[i, j] = out[i, j] * 2 + d[i, j]
            T.copy(out, C)

    return main


def expected(kind, c, d, n):
    out, k = np.zeros((N, N), np.float32), 0
    if kind == "break":
        stop = next((i for i in range(N) if c[i, 1] < -6), N)
        out[:stop] = d[:stop] * np.arange(stop)[:, None]
    elif kind == "continue":
        for i in range(N):
            if c[i, i] >= 0:
                k += 1
                out[k % N] = d[i]
    elif kind == "branch":
        out = d if c[0, 0] > 0 else c - d.T
    elif kind == "counted":
        out = d if (c[:, 3] > 0).sum() > n else out
    elif kind == "again":
        for t in range(n):
            stop = next((i for i in range(N) if c[i, 0] * (t + 2) > d[i, 1]), N)
            out[:stop] += d[:stop]
    else:
        out = d * (2**n - 1)
    return out


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("kind", ["break", "continue", "branch", "counted", "again", "plain"])
@pytest.mark.one_in(6)
def test_elements_of_a_product_decide(kind, n):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-2, 3, (N, N)).astype(np.float16), rng.integers(-1, 2, (N, N)).astype(np.float16)
    c, d = (x.astype(np.float32) @ y.astype(np.float32) for x, y in ((a, b), (b, a)))
    out = strict.run(tilelang.compile(program(kind)), {"A": a, "B": b, "C": np.full((N, N), -7, np.float32)}, {"n": n})
    np.testing.assert_array_equal(out["C"], expected(kind, c, d, n))


def test_a_product_crosses_once_in_front_of_the_loop_that_reads_it():
    module = tilelang.compile(program("plain")).artifact.ascend_ir
    loops = [s for f in module.functions.values() for s in statements(f.body) if isinstance(s, For)]
    inside = {op_name(x) for loop in loops for x in statements(loop.body)}
    assert "ascend.fixpipe_to_gm" not in inside and "ascend.copy_gm_to_ub" not in inside
