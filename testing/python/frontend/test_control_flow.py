"""Every Python construct a kernel may contain, run by the reference interpreter and compared with what Python would
do.
"""

import math

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import UnsupportedConstruct
from tilelang_ascend.ir import For, IfThenElse, While, statements
from tilelang_ascend.sim.reference import run

N = 16
Vec = T.Tensor((N,), "float32")
IVec = T.Tensor((N,), "int32")


def launch(func, *more, dtype=np.float32, out=None):
    """Run a kernel with parameters (A, B, *more); returns B."""
    a = np.arange(1, N + 1).astype(dtype)
    b = np.full(N, -1, out or dtype)
    run(func, a, b, *more)
    return b


def count(func, node):
    return sum(isinstance(s, node) for s in statements(func.body))


def test_runtime_if_elif_else():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.serial(N):
                if i < 4:
                    B[i] = A[i]
                elif i < 8 and i % 2 == 0:
                    B[i] = 0
                else:
                    B[i] = -A[i]

    want = [i + 1 if i < 4 else 0 if i < 8 and i % 2 == 0 else -(i + 1) for i in range(N)]
    assert launch(k).tolist() == want


def test_compile_time_if_leaves_no_branch():
    fast = True

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            if fast:
                scale = 2
            else:
                scale = T.nonsense
            for i in T.serial(N):
                B[i] = A[i] * scale

    assert count(k, IfThenElse) == 0
    assert launch(k).tolist() == [2 * (i + 1) for i in range(N)]


def test_ternary_runtime_and_compile_time():
    flag = False

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.serial(N):
                step = 1 if flag else 10
                B[i] = A[i] if i % 2 == 0 else A[i] * step

    assert launch(k).tolist() == [(i + 1) if i % 2 == 0 else 10 * (i + 1) for i in range(N)]


def test_while_break_continue():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            i = 0
            while i < n:
                i += 1
                if i % 3 == 0:
                    continue
                if i > 10:
                    break
                B[i] = A[i]

    b = launch(k, 14)
    want = [-1.0] * N
    i = 0
    while i < 14:
        i += 1
        if i % 3 == 0:
            continue
        if i > 10:
            break
        want[i] = i + 1
    assert b.tolist() == want


def test_while_true_with_runtime_break():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            i = 0
            while True:
                if A[i] > 5:
                    break
                B[i] = A[i]
                i = i + 1

    assert launch(k).tolist() == [1, 2, 3, 4, 5] + [-1] * 11


def test_compile_time_while():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            n = 8
            steps = 0
            while n > 1:
                n //= 2
                steps += 1
            B[0] = steps
            todo = [3, 1]
            while True:
                if not todo:
                    break
                B[todo.pop()] = 7

    assert count(k, While) == 0
    assert launch(k).tolist()[:4] == [3, 7, -1, 7]


def test_break_and_continue_in_serial_and_unrolled_loops():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.serial(N):
                if A[i] == 3:
                    continue
                if A[i] == 7:
                    break
                B[i] = A[i]
            for j in [8, 9, 10, 11]:
                if j == 9:
                    continue
                if j == 11:
                    break
                B[j] = A[j]

    assert launch(k).tolist() == [1, 2, -1, 4, 5, 6, -1, -1, 9, -1, 11] + [-1] * 5


def test_range_start_stop_step():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            for i in range(2, 11, 3):
                B[i] = A[i]
            for i in range(15, 11, -2):
                B[i] = A[i]
            for i in range(n, n + 3, 2):
                B[i] = A[i]
            for i in T.serial(0):
                B[i] = 100

    want = [-1.0] * N
    for i in [*range(2, 11, 3), *range(15, 11, -2), *range(6, 9, 2)]:
        want[i] = i + 1
    assert launch(k, 6).tolist() == want


def test_loops_start_at_zero_with_step_one():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in range(2, 11, 3):
                B[i] = A[i]

    loop = [s for s in statements(k.body) if isinstance(s, For) and "tl.grid" not in s.annotations][0]
    assert (int(loop.min), int(loop.extent)) == (0, 3)


def test_python_iterables_unroll():
    names = {"x": 0, "y": 5}

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for n, (key, at) in enumerate(names.items()):
                B[at] = A[at] + n if key == "x" else A[at] * 2
            for i, j in zip([1, 2], (3, 4)):
                B[i] = A[j]
            values = [A[i] for i in range(6, 9)]
            B[10] = sum(values)

    assert launch(k).tolist()[:11] == [1, 4, 5, -1, -1, 12, -1, -1, -1, -1, 24]


def test_range_over_a_python_list_unrolls():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            tiles = [T.alloc_shared((4,), "float32") for _ in range(3)]
            for s in range(3):
                T.fill(tiles[s], s)
                T.copy(tiles[s], B[s * 4])

    assert launch(k).tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [-1] * 4


def test_dict_of_buffers_and_swap():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            buf = {"in": T.alloc_shared((N,), "float32"), "out": T.alloc_fragment((N,), "float32")}
            src, dst = buf["in"], buf["out"]
            T.copy(A, src)
            for _ in [0, 1, 2]:
                for i in T.Parallel(N):
                    dst[i] = src[i] * 2
                src, dst = dst, src
            T.copy(src, B)

    assert launch(k).tolist() == [8 * (i + 1) for i in range(N)]


def test_swap_of_runtime_values():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            a, b = A[0], A[1]
            a, b = b, a
            B[0], B[1] = a, b
            B[2], B[3] = A[2], A[3]
            B[2], B[3] = B[3], B[2]
            x = 0
            y = 1
            for i in T.serial(5):
                x, y = y, x + y
            B[4] = x

    assert launch(k).tolist()[:5] == [2, 1, 4, 3, 5]


def test_chained_comparison_and_logic():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            for i in T.serial(N):
                if 2 <= i < n <= 12 and not (i == 4 or i == 5):
                    B[i] = A[i]

    assert launch(k, 8).tolist() == [i + 1 if 2 <= i < 8 and i not in (4, 5) else -1 for i in range(N)]


def test_slices_on_both_sides():
    @T.prim_func
    def k(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((2, 8), "float32")
            T.copy(A[1:3, :], s)
            T.copy(s[0:1, 4:], B[0, 0:4])
            B[-1, :] = 5
            B[2:3, 0:8] = s[1, :]

    a, b = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
    run(k, a, b)
    assert b[0].tolist() == [12, 13, 14, 15, 0, 0, 0, 0]
    assert b[3].tolist() == [5] * 8 and b[2].tolist() == a[2].tolist()


def test_macros_closures_and_nested_functions():
    scale = 3

    @T.macro
    def add_one(buf, i):
        buf[i] = buf[i] + 1

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):

            def put(i, value):
                B[i] = value * scale

            @T.macro
            def twice(i):
                put(i, A[i])
                add_one(B, i)

            for i in T.serial(4):
                twice(i)
            put(5, value=A[5])

    assert launch(k).tolist()[:6] == [4, 7, 10, 13, -1, 18]


def scale_and_store(dst, src, factor=2):
    """A plain module-level helper that stores into a buffer."""
    for i in range(N):
        if i % 2 == 0:
            dst[i] = src[i] * factor
        else:
            dst[i] = src[i]
    return factor


class Epilogue:
    def __init__(self, bias):
        self.bias = bias

    def apply(self, x):
        return x + self.bias if self.bias > 0 else x


def test_plain_helpers_and_methods():
    epilogue = Epilogue(7)

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            f = scale_and_store(B, A, factor=4)
            B[1] = epilogue.apply(A[1]) * f

    want = [4 * (i + 1) if i % 2 == 0 else i + 1 for i in range(N)]
    want[1] = (2 + 7) * 4
    assert launch(k).tolist() == want


def test_reference_parameter():
    @T.macro
    def bump(x: T.Ref, by):
        x = x + by

    @T.prim_func
    def k(A: IVec, B: IVec):
        with T.Kernel(1):
            n = T.alloc_var("int32", init=1)
            bump(n, 4)
            bump(B[3], 2)
            B[0] = n

    b = launch(k, dtype=np.int32)
    assert b[0] == 5 and b[3] == 1


def test_arguments_are_passed_by_value():
    @T.macro
    def f(x, out):
        x = x + 1
        out[1] = x

    @T.prim_func
    def k(A: IVec, B: IVec):
        with T.Kernel(1):
            n = T.alloc_var("int32", 5)
            f(n, B)
            B[0] = n

    assert launch(k, dtype=np.int32)[:2].tolist() == [5, 6]


def test_walrus():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.serial(N):
                if (v := A[i] * 2) > 10:
                    B[i] = v
            B[0] = (c := 3) + c

    assert launch(k).tolist() == [6, -1, -1, -1, -1] + [2 * (i + 1) for i in range(5, N)]


@pytest.mark.parametrize("mode", ["double", "negate", "other"])
def test_match_on_constants(mode):
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            match mode:
                case "double":
                    factor = 2
                case "negate":
                    factor = -1
                case _:
                    factor = 0
            for i in T.serial(N):
                B[i] = A[i] * factor

    assert launch(k)[2] == {"double": 6, "negate": -3, "other": 0}[mode]


def test_lambdas_try_assert_print_fstring(capsys):
    square = lambda x: x * x  # noqa: E731

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            inner = lambda x: x + 1 if N > 3 else x  # noqa: E731
            try:
                value = {}["missing"]
            except KeyError:
                value = 9
            assert value == 9, "trace-time assertion"
            print(f"tracing with N={N}")
            for i in T.serial(N):
                B[i] = inner(square(A[i])) + value

    assert "tracing with N=16" in capsys.readouterr().out
    assert launch(k)[1] == 14


def test_lambdas_from_outside_mean_what_they_mean_inside():
    scale = 3.0
    halves = lambda x, by=2.0: x // by  # noqa: E731
    first, second = (lambda x: x == 4), (lambda x: x >= 6 or x < scale)
    cubes = {"cube": lambda x: x**3, "both": lambda x: (lambda y: y * y)(x) - 1}

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.serial(N):
                B[i] = halves(A[i]) if first(A[i]) or second(A[i]) else cubes["cube"](A[i]) + cubes["both"](A[i])

    want = [x // 2.0 if x == 4 or x >= 6 or x < 3 else x**3 + x * x - 1 for x in range(1, N + 1)]
    assert launch(k).tolist() == want


def test_assert_false_at_compile_time():
    with pytest.raises(AssertionError, match="too small"):

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(1):
                assert N > 100, "too small"


def test_exception_in_a_region_is_unwound():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            try:
                for i in T.serial(N):
                    B[i] = A[i]
                    raise KeyError
            except KeyError:
                B[0] = 5

    assert launch(k).tolist() == [5] + [-1] * 15


def test_python_math_is_folded_and_builtins_work_on_ir():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            c = math.sqrt(2 / math.pi)
            w = np.float32(0.5)
            for i in T.serial(N):
                B[i] = max(min(A[i] * c, 8.0), abs(A[i] - 3), w)
            B[0] = math.exp(A[0])
            B[1] = max(n, 3) ** 2
            B[2] = len(A) + int(A[3]) + round(2.5)
            q, r = divmod(n, 3)
            B[3] = q * 10 + r

    b = launch(k, 8)
    c = math.sqrt(2 / math.pi)
    assert b[5] == pytest.approx(max(min(6 * c, 8.0), 3, 0.5))
    assert b[0] == pytest.approx(math.e) and b[1] == 64 and b[2] == 22 and b[3] == 22


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"])
def test_integer_operators(op):
    text = f"lambda x, y: x {op} y"
    f = eval(text)

    @T.prim_func
    def k(A: IVec, B: IVec, n: T.int32):
        with T.Kernel(1):
            for i in T.serial(N):
                B[i] = f(A[i], n)

    assert launch(k, 3, dtype=np.int32).tolist() == [f(i + 1, 3) for i in range(N)]


def test_negative_floor_division_and_modulo():
    @T.prim_func
    def k(A: IVec, B: IVec, n: T.int32):
        with T.Kernel(1):
            for i in T.serial(N):
                B[i] = (A[i] - 8) // n * 100 + (A[i] - 8) % n + ~A[i] + -A[i]

    assert launch(k, 3, dtype=np.int32).tolist() == [(i - 7) // 3 * 100 + (i - 7) % 3 + ~(i + 1) - (i + 1) for i in range(N)]


def test_powers_and_true_division():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.serial(N):
                B[i] = A[i] ** 2 + A[i] ** 3 / 2 - A[i] ** 0.5 + 2.0**3

    b = launch(k)
    assert b[3] == 16 + 32 - 2 + 8


def test_two_launches_in_one_function():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(N) as i:
            B[i] = A[i]
        with T.Kernel(4, 4) as (x, y):
            B[x * 4 + y] = B[x * 4 + y] + 1

    assert launch(k).tolist() == [i + 2 for i in range(N)]


def test_alloc_var_in_list_and_implicit_reads():
    @T.prim_func
    def k(A: IVec, B: IVec):
        with T.Kernel(1):
            v = [T.alloc_var("int32", init=j) for j in range(2)]
            for i in T.serial(4):
                v[0] = v[0] + A[i]
                v[1] += 1
            B[v[1]] = v[0]

    assert launch(k, dtype=np.int32)[5] == 10


def test_persistent_grid_and_tgrid():
    @T.prim_func
    def k(A: T.Tensor((6, 7), "int32"), B: T.Tensor((6, 7), "int32")):
        with T.Kernel(5) as c:
            for x, y in T.Persistent([6, 7], 5, c, group_size=3):
                B[x, y] = B[x, y] + 1
        with T.Kernel(1):
            for i, j in T.grid(6, 7):
                B[i, j] = B[i, j] * 10

    b = np.zeros((6, 7), np.int32)
    run(k, b.copy(), b)
    assert (b == 10).all()


@pytest.mark.parametrize("domain", [(17,), (4, 9), (3, 2, 9)], ids=str)
@pytest.mark.parametrize("group", [None, 1, 8])
def test_persistent_loops_come_to_every_tile_once(domain, group):
    @T.prim_func
    def k(B: T.Tensor((math.prod(domain),), "int32")):
        with T.Kernel(3) as c:
            for tile in T.Persistent(domain, 3, c, group_size=group):
                n = tile if len(domain) == 1 else tile[0]
                for d in range(1, len(domain)):
                    n = n * domain[d] + tile[d]
                B[n] = B[n] + 1

    b = np.zeros(math.prod(domain), np.int32)
    run(k, b)
    assert (b == 1).all()


@pytest.mark.parametrize("word", ["break", "T.loop_break"])
def test_a_break_in_one_loop_over_several_dimensions_is_refused(word):
    """Python would leave all of them, a GPU leaves the innermost one."""
    with pytest.raises(UnsupportedConstruct, match="2 dimensions"):

        @T.prim_func
        def k(B: T.Tensor((16,), "int32")):
            with T.Kernel(1):
                for i, j in T.grid(4, 4):
                    if j == 2 and word == "break":
                        break
                    if j == 2 and word != "break":
                        T.loop_break()
                    B[i * 4 + j] = 1
