"""Pitfalls of the front end: operators, accumulators, control flow, parameters, options."""

import inspect
import math
import re
import types

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F32 = "float32"
N = 40
RNG = np.random.default_rng(11)

_SYMBOLS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y, "//": lambda x, y: x // y,
    "%": lambda x, y: x % y, "<": lambda x, y: x < y, ">=": lambda x, y: x >= y, "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y, "<<": lambda x, y: x << (y & 7), ">>": lambda x, y: x >> (y & 7),
}  # fmt: skip
_BITS = ("&", "|", "^", "<<", ">>")
_SIDES = {
    "two tiles": lambda f, x, y, number: f(x, y),
    "tile and number": lambda f, x, y, number: f(x, number),
    "number and tile": lambda f, x, y, number: f(number, y),
}
_OPERATORS = {
    "reflected subtraction": (F32, lambda x, y: 2 - x),
    "reflected addition": (F32, lambda x, y: 2.5 + x),
    "reflected product": (F32, lambda x, y: 3 * x),
    "reflected quotient": (F32, lambda x, y: 3.0 / y),
    "number on the right": (F32, lambda x, y: (x - 2) * 3 + 1),
    "two tiles": (F32, lambda x, y: x - y * x),
    "negation": (F32, lambda x, y: -x),
    "integer minus tile": ("int32", lambda x, y: 7 - x),
    "integer floor division by a tile": ("int32", lambda x, y: 7 // y),
    "integer modulo a tile": ("int32", lambda x, y: 7 % y),
    "bits": ("int32", lambda x, y: (x & 5) | (3 ^ y)),
    "shift": ("int32", lambda x, y: 1 << (y & 7)),
}


def _elementwise(dtype, f):
    @T.prim_func
    def k(X: T.Tensor((N,), dtype), W: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                Y[i] = f(X[i], W[i])

    return tilelang.compile(k)


@pytest.mark.parametrize("name", _OPERATORS)
def test_p06_reflected_operators(name):
    dtype, f = _OPERATORS[name]
    x = RNG.integers(-9, 10, N).astype(dtype)
    y = RNG.choice([-4, -2, -1, 1, 2, 4], N).astype(dtype)
    out = strict.run(_elementwise(dtype, f), {"X": x, "W": y, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(out, f(x, y).astype(dtype))


@pytest.mark.parametrize("sides", _SIDES)
@pytest.mark.parametrize("symbol,number", [(s, n) for s in _SYMBOLS for n in (2, 2.5) if n == 2 or s not in _BITS])
@pytest.mark.one_in(8)
def test_p06_every_operator_with_tiles_and_numbers_on_either_side(symbol, sides, number):
    """Integers where the number is one, float32 otherwise; comparisons count as 0 and 1."""
    dtype = "int32" if number == 2 and symbol != "/" else F32
    f = _SYMBOLS[symbol]
    x = RNG.integers(-9, 10, N).astype(dtype)
    y = RNG.choice([-4, -2, -1, 1, 2, 4], N).astype(dtype)
    kernel = _elementwise(dtype, lambda a, b: T.cast(_SIDES[sides](f, a, b, number), dtype))
    out = strict.run(kernel, {"X": x, "W": y, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(out, _SIDES[sides](f, x, y, np.dtype(dtype).type(number)).astype(dtype))


@pytest.mark.parametrize("divisor", [3, -3, 4, 1])
def test_p07_integer_floor_division(divisor):
    x = RNG.integers(-30, 31, N).astype(np.int32)
    kernel = _elementwise("int32", lambda x, y: x // divisor)
    out = strict.run(kernel, {"X": x, "W": x, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(out, x // np.int32(divisor))


@pytest.mark.parametrize("divisor", [2.0, -2.0, 0.5])
def test_p07_floor_division_of_floats(divisor):
    x = np.concatenate([RNG.integers(-30, 31, N - 4) / 4, [-0.25, 0.25, -1e6, 1e6]]).astype(np.float32)
    out = strict.run(_elementwise(F32, lambda x, y: x // divisor), {"X": x, "W": x, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(out, np.floor(x / np.float32(divisor)))


def _gm_loop(read, write):
    """Eight rounds of: load 32 elements at `read(t)`, add one, store them at `write(t)`."""

    @T.prim_func
    def k(Y: T.Tensor((600,), F32)):
        with T.Kernel(1):
            x, y = T.alloc_shared((32,), F32), T.alloc_fragment((32,), F32)
            for t in T.serial(8):
                T.copy(Y[read(t)], x)
                for i in T.Parallel(32):
                    y[i] = x[i] + 1.0
                T.copy(y, Y[write(t)])

    return tilelang.compile(k)


_GM_LOOPS = {
    "prefix in place": (lambda t: t * 32, lambda t: t * 32 + 32, True),
    "shifted by one": (lambda t: t * 32, lambda t: t * 32 + 1, True),
    "overlapping": (lambda t: t * 16, lambda t: t * 16 + 8, True),
    "disjoint": (lambda t: t * 32, lambda t: t * 32 + 300, False),
}


@pytest.mark.parametrize("name", _GM_LOOPS)
def test_p08_memory_carried_from_one_iteration_to_the_next(name):
    read, write, dependent = _GM_LOOPS[name]
    y = RNG.integers(0, 9, 600).astype(np.float32)
    want = y.copy()
    for t in range(8):
        want[write(t) : write(t) + 32] = want[read(t) : read(t) + 32] + 1
    kernel = _gm_loop(read, write)
    np.testing.assert_array_equal(strict.run(kernel, {"Y": y})["Y"], want)
    waits = kernel.get_kernel_source().count("MTE3_MTE2")
    assert waits > 0 if dependent else waits == 0


@pytest.mark.parametrize("n", [0, 1, 5])
def test_p09_accumulators_start_from_literals(n):
    @T.prim_func
    def k(X: T.Tensor((8,), F32), Y: T.Tensor((4,), F32), n: T.int32):
        with T.Kernel(1):
            total, positive, found = 0, 0.0, False
            top = -T.infinity(F32)
            for i in T.serial(n):
                total = total + X[i]
                if X[i] > 0:
                    positive += 1
                    found = True
                top = T.max(top, X[i])
            Y[0] = total
            Y[1] = positive
            Y[2] = T.if_then_else(found, 1.0, 0.0)
            Y[3] = top

    x = np.array([-3, 2.5, 4, -1, 0.25, 9, 9, 9], np.float32)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.full(4, 77, np.float32)}, {"n": n})["Y"]
    head = x[:n]
    np.testing.assert_array_equal(out, [head.sum(), (head > 0).sum(), (head > 0).any(), head.max(initial=-np.inf)])


def test_p14_break_and_continue():
    @T.prim_func
    def k(X: T.Tensor((16,), "int32"), Y: T.Tensor((16,), "int32"), n: T.int32):
        with T.Kernel(1):
            for i in T.serial(16):
                if i == 3:
                    continue
                if i >= n:
                    break
                Y[i] = X[i] * 2

    x = np.arange(1, 17, dtype=np.int32)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.full(16, -1, np.int32)}, {"n": 9})["Y"]
    assert out.tolist() == [2 * (i + 1) if i < 9 and i != 3 else -1 for i in range(16)]


def test_p14_early_return_is_a_located_error():
    with pytest.raises(tilelang.errors.TilelangAscendError, match="return") as caught:

        @T.prim_func
        def k(X: T.Tensor((16,), "int32"), n: T.int32):
            with T.Kernel(1):
                if n > 3:
                    return
                X[0] = 1

    assert caught.value.location.source.strip() == "return"


def test_p15_pass_elif_and_ternary():
    @T.prim_func
    def k(Y: T.Tensor((12,), "int32")):
        with T.Kernel(1):
            for i in T.serial(12):
                if i == 0:
                    pass
                elif i < 4:
                    if i == 2:
                        Y[i] = 20
                    else:
                        pass
                elif i < 8:
                    Y[i] = 5 if i % 2 == 0 else 7
                else:
                    Y[i] = i

    out = strict.run(tilelang.compile(k), {"Y": np.full(12, -1, np.int32)})["Y"]
    assert out.tolist() == [-1, -1, 20, -1, 5, 7, 5, 7, 8, 9, 10, 11]


def _accumulate(loop, trips):
    @T.prim_func
    def k(X: T.Tensor((16, 64), F32), Y: T.Tensor((64,), F32)):
        with T.Kernel(1):
            x, y = T.alloc_shared((64,), F32), T.alloc_fragment((64,), F32)
            T.clear(y)
            for t in loop(trips):
                T.copy(X[t, 0], x)
                for i in T.Parallel(64):
                    y[i] += x[i] * (t + 1)
            T.copy(y, Y)

    return tilelang.compile(k)


_LOOPS = {"range": range, "serial": T.serial, "Pipelined": lambda n: T.Pipelined(n, num_stages=2), "unroll": T.unroll}


@pytest.mark.parametrize("name", _LOOPS)
def test_p16_every_kind_of_loop_gives_the_same_result(name):
    x = RNG.integers(-8, 9, (16, 64)).astype(np.float32)
    kernel = _accumulate(_LOOPS[name], 6)
    out = strict.run(kernel, {"X": x, "Y": np.zeros(64, np.float32)}, text=False)["Y"]
    np.testing.assert_array_equal(out, sum(x[t] * (t + 1) for t in range(6)))
    if name != "unroll":
        # Of 6 trips each has a version of the tile, and needs no flags to have it back.
        short, longer = (_accumulate(_LOOPS[name], trips).get_kernel_source() for trips in (12, 16))
        assert len(longer) < 1.1 * len(short), "the size of the code depends on the trip count"


@pytest.mark.parametrize("factor", range(1, 9))
def test_p36_unrolled_and_nested_loops_share_tiles_safely(factor):
    @T.prim_func
    def k(X: T.Tensor((3, 8, 48), F32), Y: T.Tensor((3, 8, 48), F32)):
        with T.Kernel(1):
            x, y = T.alloc_shared((48,), F32), T.alloc_fragment((48,), F32)
            for a in (T.serial if factor % 2 else T.unroll)(3):
                for b in T.unroll(factor):
                    T.fill(y, 2.0)
                    T.copy(X[a, b, 0], x)
                    for i in T.Parallel(48):
                        y[i] = y[i] * x[i]
                    T.copy(y, Y[a, b, 0])

    x = RNG.integers(-8, 9, (3, 8, 48)).astype(np.float32)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.zeros_like(x)}, text=factor in (2, 5))["Y"]
    want = np.zeros_like(x)
    want[:, :factor] = 2 * x[:, :factor]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
def test_p36_one_hot_in_an_unrolled_loop(factor):
    """The tile of splat values is filled anew in every copy of the body."""

    @T.prim_func
    def k(Index: T.Tensor((16,), "int32"), Y: T.Tensor((16, 40), F32)):
        with T.Kernel(1):
            row, place = T.alloc_fragment((40,), F32), T.alloc_fragment((40,), "int32")
            for a in T.serial(16 // factor):
                for b in T.unroll(factor):
                    T.fill(place, Index[a * factor + b])
                    for j in T.Parallel(40):
                        row[j] = T.if_then_else(place[j] == j, 1.0, 0.0)
                    T.copy(row, Y[a * factor + b, 0])

    index = RNG.integers(0, 40, 16).astype(np.int32)
    out = strict.run(tilelang.compile(k), {"Index": index, "Y": np.full((16, 40), 7, np.float32)}, text=factor == 4)["Y"]
    np.testing.assert_array_equal(out, np.eye(40)[index])


def test_p17_host_calls_on_constants_are_folded():
    @T.prim_func
    def k(X: T.Tensor((N,), F32), Y: T.Tensor((N,), F32)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                Y[i] = X[i] * math.sqrt(2 / math.pi) + np.float32(0.1)

    x = RNG.standard_normal(N).astype(np.float32)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(out, x * np.float32(math.sqrt(2 / math.pi)) + np.float32(0.1))


def test_p27_compile_time_parameters_of_any_type():
    @tilelang.jit
    def scaled(name, factors, table):
        @T.prim_func
        def main(X: T.Tensor((N,), F32), Y: T.Tensor((N,), F32)):
            with T.Kernel(1):
                for i in T.Parallel(N):
                    Y[i] = X[i] * factors[0] + table[name]

        return main

    x = RNG.integers(-8, 9, N).astype(np.float32)
    for name, factors in (("a", (2.0, 1.0)), ("b", (3.0,)), ("a", (4.0,))):
        table = {"a": 0.5, "b": 1.5}
        out = strict.run(scaled(name, factors, table), {"X": x, "Y": np.zeros_like(x)}, text=False)["Y"]
        np.testing.assert_array_equal(out, x * factors[0] + table[name])


def test_p27_a_run_time_tuple_is_rejected_by_name():
    with pytest.raises((tilelang.errors.TilelangAscendError, TypeError), match="pads"):

        @T.prim_func
        def k(X: T.Tensor((N,), F32), pads: tuple):
            with T.Kernel(1):
                X[0] = pads[0]


def test_p28_print_of_scalars_and_tiles(capfd):
    @T.prim_func
    def k(X: T.Tensor((4,), F32)):
        with T.Kernel(2) as bx:
            x = T.alloc_shared((4,), F32)
            T.copy(X, x)
            T.print(bx + 41, msg="block")
            T.print(x, msg="tile")

    tilelang.compile(k)(np.array([1.5, 2.5, 3.5, 4.5], np.float32))
    lines = capfd.readouterr().out.splitlines()
    for core in range(2):
        number, tile = (line for line in lines if line.startswith(f"[AIV {core}]"))
        assert re.search(rf"block\D*{core}\D*{core + 41}$", number), number
        assert re.search(r"tile.*1\.5\D+2\.5\D+3\.5\D+4\.5", tile), tile


def test_p29_rank_and_shape_errors_point_at_the_line():
    with pytest.raises(tilelang.errors.TilelangAscendError) as caught:

        @T.prim_func
        def rank(X: T.Tensor((8, 8), F32)):
            with T.Kernel(1):
                X[0, 0, 0] = 1  # too many

    assert "too many" in caught.value.location.source
    with pytest.raises(tilelang.errors.TilelangAscendError) as caught:

        @T.prim_func
        def shape(X: T.Tensor((8, 8), F32)):
            with T.Kernel(1):
                a, b = T.alloc_shared((8, 8), F32), T.alloc_shared((8, 7), F32)
                T.copy(X, a)
                T.copy(a, b)  # unequal

    assert "unequal" in caught.value.location.source
    assert "8" in str(caught.value) and "7" in str(caught.value)
    with pytest.raises(tilelang.errors.TilelangAscendError) as caught:

        @T.prim_func
        def tile(X: T.Tensor((8, 8), F32)):
            with T.Kernel(1):
                a = T.alloc_shared((2, 3, 8), F32)
                T.copy(X[0:4, 0:8], a)  # rank three

    assert "rank three" in caught.value.location.source


def test_p38_options_have_an_effect_or_are_named_as_ignored():
    def stages(n):
        @T.prim_func
        def k(X: T.Tensor((32, 512), F32), Y: T.Tensor((32, 512), F32)):
            with T.Kernel(1):
                x, y = T.alloc_shared((512,), F32), T.alloc_fragment((512,), F32)
                for t in T.Pipelined(32, num_stages=n):
                    T.copy(X[t, 0], x)
                    for i in T.Parallel(512, coalesced_width=4):
                        y[i] = x[i] + 1.0
                    T.copy(y, Y[t, 0])

        # As blocks of their own, iterations have no stages.
        return tilelang.compile(k, pass_configs={"tl.coarsen_blocks": False})

    one, three = stages(1), stages(3)
    assert one.artifact.ascend_ir_json != three.artifact.ascend_ir_json
    assert any("coalesced_width" in note for note in one.artifact.notes)


def test_p38_unknown_options_are_rejected():
    with pytest.raises(tilelang.errors.TilelangAscendError, match="stagez") as caught:

        @T.prim_func
        def k(X: T.Tensor((8,), F32)):
            with T.Kernel(1):
                for t in T.Pipelined(8, num_stagez=2):
                    X[t] = 1.0

    assert "num_stagez" in caught.value.location.source
    assert "num_stages" in caught.value.hint


_OUTSIDE = {"prim_func", "macro", "inline"}
"""Decorators: Python itself refuses their unknown keywords."""


def test_p38_no_function_of_the_language_swallows_a_keyword():
    for name in sorted(set(dir(T)) - _OUTSIDE):
        function = getattr(T, name)
        if not isinstance(function, types.FunctionType):
            continue
        parameters = inspect.signature(function).parameters.values()
        needed = [8 for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        with pytest.raises((TypeError, tilelang.errors.NotYetAvailable)) as caught:
            function(*needed, frobnicated=1)
        if isinstance(caught.value, TypeError):
            assert f"T.{name} has no argument 'frobnicated'" in str(caught.value)


def test_p38_unknown_options_of_a_launch_are_rejected():
    with pytest.raises(tilelang.errors.TilelangAscendError, match="thread"):

        @T.prim_func
        def k(X: T.Tensor((8,), F32)):
            with T.Kernel(1, thread=128):
                X[0] = 1.0


def test_p44_wide_integers():
    @T.prim_func
    def k(X: T.Tensor((8,), "int64"), Y: T.Tensor((8,), "int64"), big: T.int64):
        with T.Kernel(1):
            for i in T.serial(8):
                Y[i] = X[i] + 2**40 + big

    x = np.arange(8, dtype=np.int64) * 2**33
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.zeros_like(x)}, {"big": 2**31})["Y"]
    np.testing.assert_array_equal(out, x + 2**40 + 2**31)


def test_p44_booleans_are_not_numbers():
    @T.prim_func
    def k(Y: T.Tensor((3,), "int32"), flag: T.bool):
        with T.Kernel(1):
            Y[0] = T.if_then_else(flag, 5, 6)
            Y[1] = 1 if flag else 2

    for flag in (True, False):
        out = strict.run(tilelang.compile(k), {"Y": np.zeros(3, np.int32)}, {"flag": flag})["Y"]
        assert out.tolist() == ([5, 1, 0] if flag else [6, 2, 0])


def test_p44_a_literal_that_does_not_fit_is_an_error():
    with pytest.raises(tilelang.errors.TilelangAscendError, match="2147483648") as caught:

        @T.prim_func
        def k(Y: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                Y[0] = 2**31

    assert caught.value.location.source.strip() == "Y[0] = 2**31"
