"""Programs that are wrong: each is an error of ours that names the user's line, never the text of a library."""

import linecache
import textwrap

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import TilelangAscendError
from tilelang_ascend.sim.reference import run

_HEAD = "T.Kernel(2) as bx"
_A = "A: T.Tensor((16,), 'float32')"


def trace(name: str, body: str, head: str = _HEAD, parameter: str = _A):
    text = f"""def make():
    @T.prim_func
    def main({parameter}, D: T.Tensor((16,), 'int32'), E: T.Tensor((3, 3), 'float16')):
        with {head}:
            c = T.alloc_shared((16,), 'float32')
            d = T.alloc_shared((16,), 'int32')
            T.fill(c, 0.0)
            T.fill(d, 0)
{textwrap.indent(body, " " * 12)}
            T.copy(c, D)
    return main
"""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"T": T}
    exec(compile(text, name, "exec"), scope)
    return scope["make"]()


BODIES = [
    "for i in T.serial(3.5): c[0] = 1.0",
    "for i in T.serial('3'): c[0] = 1.0",
    "for i in T.serial(None): c[0] = 1.0",
    "for i in T.serial(0, 3.5): c[0] = 1.0",
    "for i in T.serial(0, 4, 1.5): c[0] = 1.0",
    "for i in T.serial(c[0]): c[0] = 1.0",
    "for i in T.serial(c): c[0] = 1.0",
    "for i in range(2.5): c[0] = 1.0",
    "for i in range(bx, 2.5): c[0] = 1.0",
    "for i in T.Parallel(3.5): c[i] = 1.0",
    "for i in T.Parallel((3, 4)): c[0] = 1.0",
    "for i in T.Parallel('a'): c[0] = 1.0",
    "for i, j in T.grid(2, 3.5): c[0] = 1.0",
    "for i in T.Pipelined(3.5): c[0] = 1.0",
    "for i in T.Pipelined(3, num_stages='a'): c[0] = 1.0",
    "for i in T.Pipelined(3, num_stages=bx): c[0] = 1.0",
    "T.fill(T.alloc_shared((4,), 'float16'), -1e9)",
    "E[0, 0] = T.if_then_else(c[0] > 0, E[0, 1], 70000)",
    "c[0] = E[0, 0] * 70000",
    "c[bx // 0] = 1.0",
    "c[bx % 0] = 1.0",
    "c[0] = 1 // 0",
    "c[T.truncdiv(bx, 0)] = 1.0",
    "c[T.truncmod(bx, 0)] = 1.0",
    "c[T.floordiv(bx, 0)] = 1.0",
    "c[T.ceildiv(bx, 0)] = 1.0",
    "c[T.ceildiv(3, 0)] = 1.0",
    "c[T.ceildiv(8, None)] = 1.0",
    "c[T.ceildiv(8, 'a')] = 1.0",
    "c[bx << -1] = 1.0",
    "c[bx >> -1] = 1.0",
    "c[(bx << 40) % 2] = 1.0",
    "c[(bx >> 32) % 2] = 1.0",
    "c[1 << -1] = 1.0",
    "c[T.shift_right(bx, -2)] = 1.0",
    "c[bx + 2**70] = 1.0",
    "d[0] = 2**70",
    "d[0] = 2**31",
    "c[0] = 10**400",
    "c[1.5] = 1.0",
    "c['a'] = 1.0",
    "c[None] = 1.0",
    "c[[1,2]] = 1.0",
    "c[c] = 1.0",
    "c[1, 2] = 1.0",
    "c[0] = c[1, 2]",
    "T.copy(A[0:1.5], c)",
    "T.copy(A['a':'b'], c)",
    "T.copy(A[5:2], c)",
    "T.copy(A[0:16:2], c)",
    "T.copy(A[0:2**40], c)",
    "T.copy(A, 3)",
    "T.copy(A, None)",
    "T.copy('A', c)",
    "T.copy(A, c, size='x')",
    "T.copy(A, c, size=4)",
    "T.copy(A, c, size=[-4])",
    "T.copy(A, c, size=[4.5])",
    "T.fill(c, 'a')",
    "T.fill(c, None)",
    "T.fill(c, c)",
    "T.fill(c, 1j)",
    "T.fill(d, float('inf'))",
    "d[0] = float('nan')",
    "d[0] = T.cast(float('inf'), 'int32')",
    "e = T.alloc_shared((1.5,), 'float32')",
    "e = T.alloc_shared(None, 'float32')",
    "e = T.alloc_shared('ab', 'float32')",
    "e = T.alloc_shared((-4,), 'float32')",
    "e = T.alloc_shared((0,), 'float32')",
    "e = T.alloc_shared((), 'float32')\ne[()] = 1.0",
    "e = T.alloc_shared((bx,), 'float32')",
    "e = T.alloc_shared((16,), 'float33')",
    "e = T.alloc_shared((16,), None)",
    "e = T.alloc_shared((16,), 5)",
    "e = T.alloc_var('foo')",
    "e = T.alloc_var('int32', init='a')",
    "e = T.alloc_var('int32', init=c)",
    "e = T.alloc_var('int8', init=300)",
    "e = T.alloc_global((-4,), 'float32')",
    "e = T.alloc_global('ab', 'float32')",
    "e = T.alloc_global((1.5,), 'float32')",
    "T.gemm(c, None, c)",
    "T.gemm(1, 2, 3)",
    "T.reduce_sum(c, d, dim=5)",
    "T.reduce_sum(c, d, dim='x')",
    "T.reduce_sum(c, d, dim=0.0)",
    "T.reduce_sum(3, d, dim=0)",
    "e = T.alloc_shared((1,), 'float32')\nT.reduce_sum(c, e, dim=0, clear=bx)",
    "T.cumsum(c, dim=3)",
    "T.cumsum(None)",
    "c[0] = T.if_then_else(bx > 0, None, 2.0)",
    "c[0] = T.if_then_else(bx > 0, c, 2.0)",
    "c[0] = T.if_then_else(c, 1.0, 2.0)",
    "c[0] = T.exp(None)",
    "c[0] = T.exp('a')",
    "c[0] = T.exp(c)",
    "e = T.alloc_shared((4,), 'float32')\nT.exp(c, e)",
    "c[0] = T.log(-1.0)",
    "c[0] = T.sqrt(-1)",
    "c[0] = T.log(0)",
    "c[0] = T.exp(1000.0)",
    "c[0] = c[1] ** 'a'",
    "c[0] = T.rsqrt(0.0)",
    "c[0] = T.max(c[0])",
    "c[0] = T.max(c[0], None)",
    "c[0] = T.max(c[0], 'a')",
    "c[0] = T.min(c, 1.0)",
    "c[0] = max(c[0], None)",
    "c[0] = max(c)",
    "c[0] = T.clamp(c[0], None, 1.0)",
    "c[0] = T.cast(c[0], 'foo')",
    "c[0] = T.cast(c[0], None)",
    "c[0] = T.cast('a', 'float32')",
    "d[0] = T.reinterpret(c[0], 'int8')",
    "d[0] = T.reinterpret(None, 'int8')",
    "c[0] = T.infinity('int32')",
    "c[0] = T.infinity(None)",
    "c[0] = T.max_value('foo')",
    "c[0] = T.isnan('a')",
    "c[0] = T.And(c, bx > 0)",
    "e = T.view(c, (3,))",
    "e = T.view(None, (3,))",
    "e = T.reshape(c, (-1,))",
    "e = T.reshape(c, 'a')",
    "e = T.reshape(c, (1.5,))",
    "e = T.view(c, (16,), 'foo')",
    "e = T.view(E, dtype='float32')",
    "T.atomic_add(A[0], None)",
    "T.atomic_add(A[0], 'a')",
    "T.atomic_add(3, 1.0)",
    "T.atomic_add(A[0:4], c)",
    "x = T.atomic_add(A[0], 1.0, return_prev=True)",
    "T.print(object())",
    "T.printf('%d', None)",
    "T.printf(3)",
    "assert c, 'x'",
    "T.device_assert(c)",
    "if c: c[0] = 1.0",
    "if bx > 'a': c[0] = 1.0",
    "if bx > None: c[0] = 1.0",
    "while c: c[0] = 1.0",
    "while True: c[0] = 1.0",
    "c[0] = c[1] + 'a'",
    "c[0] = c[1] + None",
    "c[0] = c[1] + [1]",
    "c[0] = c[1] + c",
    "c[0] = (1, 2) * bx",
    "c[0] = -c",
    "c[0] = ~c[0]",
    "c[0] = bx(3)",
    "c[0] = c(3)",
    "c[0] = bx.foo",
    "c[0] = c.foo",
    "c[0] = c.shape[3]",
    "a, b = bx",
    "a, b = c",
    "f = lambda *a: 0\nc[0] = f(*bx)",
    "f = lambda **a: 0\nc[0] = f(**bx)",
    "c[0] = float('abc')",
    "c[0] = int('abc')",
    "c[0] = int(c)",
    "c[0] = len(bx)",
    "c[0] = abs(None)",
    "c[0] = sum(c)",
    "for i, x in enumerate(bx): c[0] = 1.0",
    "for x in c: c[0] = 1.0",
    "for x in 5: c[0] = 1.0",
    "for x in None: c[0] = 1.0",
    "a, b = divmod(bx, 0)\nc[a] = 1.0",
    "import math\nc[0] = math.sqrt(-1)",
    "import math\nc[0] = math.gamma(c[0])",
    "with T.Kernel(2) as by: c[0] = 1.0",
    "T.sort(None)",
    "T.topk(c, 3, 4, 5)",
    "T.topk(c, d, c, 'a')",
    "T.im2col(A, c, 0, 0, 3, 1, 1, 1)",
    "T.transpose(c, c)",
    "for i in T.unroll(2.5): c[0] = 1.0",
    "for i in T.vectorized('x'): c[0] = 1.0",
    "for i in T.Persistent(4, 2, bx): c[0] = 1.0",
    "for i in T.Persistent([4.5], 2, bx): c[0] = 1.0",
    "for i in T.Persistent([], 2, bx): c[0] = 1.0",
    "e = T.alloc_reducer((16,), 'float32', op='foo')",
    "c[T.get_block_binding(7)] = 1.0",
    "c[T.get_block_binding('x')] = 1.0",
    "c[T.get_block_extent(None)] = 1.0",
    "c[T.align_up(bx, 0)] = 1.0",
    "c[T.index_to_coordinates(bx, (0,))[0]] = 1.0",
    "T.annotate_safe_value({A: 'x'})",
    "T.annotate_safe_value(3)",
    "c[0] = c[0] & 1",
    "c[0] = c @ c",
    "c[0] = T.float32('x')",
    "X = T.Tensor((3,), 'float32')\nc[0] = X[0]",
    "del c[0]",
    "class Q: pass\nc[0] = Q()",
    "with 3: c[0] = 1.0",
    "try:\n    c[0] = 1.0\nfinally:\n    c[1] = c['x']",
    "match bx:\n    case 1: c[0] = 1.0",
    "c[0] = f'{bx}'",
    "e = {k: c[k] for k in bx}",
    "zz += 1",
    "c[0] = None",
    "c = 5\nT.copy(c, A)",
    "T.foo(c)",
    "T.copy(A, c, foo=3)",
    "T.copy(A)",
    "c[c[0]] = 1.0",
    "T.vexp(c)",
    "T.vadd(c, 1.0)",
    "T.vbrc('x', c)",
]

HEADS = [
    "T.Kernel(2**31) as bx",
    "T.Kernel(2**20, 2**20) as (bx, by)",
    "T.Kernel(2**40) as bx",
    "T.Kernel(2.5) as bx",
    "T.Kernel(None) as bx",
    "T.Kernel('a') as bx",
    "T.Kernel(-1) as bx",
    "T.Kernel(1, 2, 3, 4) as bx",
    "T.Kernel(1, threads='a') as bx",
    "T.Kernel(1, threads=(1, 'a')) as bx",
    "T.Kernel(2) as (bx, by)",
    "T.Kernel(A) as bx",
    "T.Kernel(A[0]) as bx",
    "T.Kernel(D[0]) as bx",
]

PARAMETERS = [
    "A: T.Tensor((-4,), 'float32')",
    "A: T.Tensor((4.5,), 'float32')",
    "A: T.Tensor(('a',), 'float32')",
    "A: T.Tensor((None,), 'float32')",
    "A: T.Tensor((2**70,), 'float32')",
    "A: T.Tensor(None, 'float32')",
    "A: T.Tensor((4,), 'foo')",
    "A: T.Tensor((4,), None)",
    "A: T.Tensor((4,), 4)",
    "A: T.StridedTensor((4, 4), (1,), 'float32')",
    "A: T.StridedTensor((4, 4), (-4, 1), 'float32')",
    "A: T.StridedTensor((4, 4), 'ab', 'float32')",
    "A: T.Tensor((T.dynamic(3),), 'float32')",
    "A: T.Tensor((T.dynamic('q', 'float32'),), 'float32')",
    "A: T.Tensor((T.dynamic('1q'),), 'float32')",
    "A",
    "A: 'foo'",
    "A: [1,2]",
    "A: T.Tensor['float32']",
]

_LEAKS = ("Check failed", "ffi.", "ir.Expr", "_tl_", "cannot be built")


def refused(name: str, *args) -> None:
    with pytest.raises(TilelangAscendError) as error:
        trace(name, *args)
    text = str(error.value)
    assert text.startswith(f"{name}:"), f"no place: {text}"
    assert not any(leak in text for leak in _LEAKS), text


@pytest.mark.parametrize("body", BODIES)
def test_statement(body):
    refused(f"<statement {BODIES.index(body)}>", body)


@pytest.mark.parametrize("head", HEADS)
def test_launch(head):
    refused(f"<launch {HEADS.index(head)}>", "c[0] = 1.0", head)


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_parameter(parameter):
    refused(f"<parameter {PARAMETERS.index(parameter)}>", "c[0] = 1.0", _HEAD, parameter)


@pytest.mark.parametrize("head", ["T.Kernel(0) as bx", "T.Kernel(0, 4) as (bx, by)"])
def test_a_grid_without_blocks_does_nothing(head):
    d = np.full(16, 7, np.int32)
    run(trace(f"<empty {head}>", "D[bx] = 1", head), np.zeros(16, np.float32), d, np.zeros((3, 3), np.float16))
    assert (d == 7).all()


@pytest.mark.parametrize("zero", ["0", "0.0", "-0.0"])
@pytest.mark.parametrize("op", ["/", "//", "%"])
def test_a_float_divided_by_zero_is_what_ieee_says(op, zero):
    divisor = float(zero) if "." in zero else int(zero)

    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                if op == "/":
                    B[i] = A[i] / divisor
                elif op == "//":
                    B[i] = A[i] // divisor
                else:
                    B[i] = A[i] % divisor

    a = np.array([1, -1, 0, -0.0, np.inf, -np.inf, np.nan, 3.5], np.float32)
    b = np.zeros(8, np.float32)
    run(kernel, a, b)
    with np.errstate(all="ignore"):
        quotient = a / np.float32(divisor)
        want = {"/": quotient, "//": np.floor(quotient), "%": np.full(8, np.nan)}[op]
    np.testing.assert_array_equal(b, want)


def test_in_and_equality_of_containers():
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1):
            for j in T.serial(16):
                v = A[j]
                B[j] = 0
                if A[j] in [1, 2]:
                    B[j] += 1
                if v not in (1, 5, 7):
                    B[j] += 2
                if v in range(0, 10, 3):
                    B[j] += 4
                if (v, 1) == (3, 1):
                    B[j] += 8
                if 3 in [v, j]:
                    B[j] += 16
                if [v, j] != [2, 2]:
                    B[j] += 32
                if v == "a" or v is None:
                    B[j] += 64

    a, b = np.arange(16, dtype=np.int32)[::-1].copy(), np.zeros(16, np.int32)
    run(kernel, a, b)
    for j, v in enumerate(a.tolist()):
        want = (v in [1, 2]) + 2 * (v not in (1, 5, 7)) + 4 * (v in range(0, 10, 3)) + 8 * (v == 3)
        assert b[j] == want + 16 * (3 in [v, j]) + 32 * ([v, j] != [2, 2])
