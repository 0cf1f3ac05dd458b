"""`T.print`, `T.printf`, `T.dump_tensor` and assertions: what the user sees, from the model and from the text."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def printed(kernel, arrays, scalars=None) -> list[str]:
    """Lines a strict run prints; the emitted text must print and stop the same."""
    artifact = kernel.artifact
    (_, ir), (_, text) = (
        strict.launch(artifact, entries, arrays, scalars or {}) for entries in (strict.entries_of(artifact), strict.twin_entries(artifact))
    )
    assert ir.output == text.output
    assert [(h.check, h.message) for h in ir.hazards] == [(h.check, h.message) for h in text.hazards]
    return [*ir.output.splitlines(), *(f"{h.check}: {h.message}" for h in ir.hazards)]


def test_every_block_prints_once_in_order():
    @T.prim_func
    def k(X: T.Tensor((8, 6), "float16"), n: T.int32):
        with T.Kernel(2, 2) as (bx, by):
            x = T.alloc_shared((2, 3), "float16")
            T.copy(X[bx * 2, by * 3], x)
            T.print(x, msg="x of 50%")
            T.printf("%d %5.2f|%x|%s|%d %d\n", n, x[1, 2], 255, "abc", 2, bx * 3 + by)

    x = np.arange(48).reshape(8, 6).astype(np.float16)
    lines = printed(tilelang.compile(k), {"X": x}, {"n": -7})
    expected = []
    for core in range(4):
        bx, by = core % 2, core // 2
        tile = x[2 * bx : 2 * bx + 2, 3 * by : 3 * by + 3].astype(int)
        head = f"[AIV {core}] block ({bx}, {by}) x of 50%: x"
        expected += [f"{head}[{r}] = {tile[r].tolist()}" for r in range(2)]
        expected.append(f"[AIV {core}] -7 {tile[1, 2]:5.2f}|ff|abc|2 {3 * bx + by}")
    assert lines == expected


def test_texts_that_mean_something_else_in_c():
    """Percent signs that begin no conversion, and trigraphs."""

    @T.prim_func
    def k(X: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.printf("50%\n100%-\nwhat??/\n%d of 3%", X[1])

    compiled = tilelang.compile(k)
    assert printed(compiled, {"X": np.arange(4, dtype=np.int32)}) == ["[AIV 0] 50%", "[AIV 0] 100%-", "[AIV 0] what??/", "[AIV 0] 1 of 3%"]
    assert r'"50%%\n100%%-\nwhat\?\?/\n%d of 3%%"' in compiled.artifact.kernel_source


def test_a_tile_is_printed_after_the_instructions_that_make_it():
    @T.prim_func
    def k(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.copy(X, x)
            for i in T.Parallel(64):
                y[i] = x[i] * 2.0
            T.print(y)
            for i in T.Parallel(64):
                y[i] = y[i] + 1.0
            T.copy(y, Y)

    kernel, x = tilelang.compile(k), np.arange(64, dtype=np.float32)
    arrays = {"X": x, "Y": np.zeros_like(x)}
    np.testing.assert_array_equal(strict.run(kernel, arrays)["Y"], 2 * x + 1)
    assert printed(kernel, arrays) == [f"[AIV 0] y = {(2 * x).astype(int).tolist()}"]
    assert strict.surviving_mutants(kernel, arrays) == []


@pytest.mark.parametrize("part", ["tail", "inside a block", "memory"])
def test_parts_of_tensors(part):
    @T.prim_func
    def k(X: T.Tensor((3, 10), "int32")):
        with T.Kernel(1):
            x = T.alloc_shared((3, 10), "int32")
            T.copy(X, x)
            if part == "tail":
                T.print(X[1, 8:16])
            elif part == "memory":
                T.dump_tensor(X, 7, 20)
            else:
                T.print(x[1:3, 3:5])

    x = np.arange(30, dtype=np.int32).reshape(3, 10)
    rows = {"tail": ["X[1] = [18, 19]"], "inside a block": ["x[1] = [13, 14]", "x[2] = [23, 24]"]}
    rows["memory"] = [f"dump 7: X[{r}] = {x[r].tolist()}" for r in range(2)]
    assert printed(tilelang.compile(k), {"X": x}) == [f"[AIV 0] {row}" for row in rows[part]]


DTYPES = ["int8", "uint8", "int16", "int64", "uint32", "bfloat16", "bool", "float16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    @T.prim_func
    def k(X: T.Tensor((32,), dtype)):
        with T.Kernel(1):
            x = T.alloc_shared((32,), dtype)
            T.copy(X, x)
            T.print(x)
            T.print(x[1])

    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    values = np.arange(32) % 2 if dtype == "bool" else np.arange(32) - (0 if dtype.startswith("u") else 16)
    x = values.astype(kind)
    first, second = printed(tilelang.compile(k), {"X": x})
    shown = x.astype(int)
    assert first == f"[AIV 0] x = {shown.tolist()}"
    assert second.endswith(f": {shown[1]:.6f}" if "float" in dtype else f": {shown[1]}")


def test_a_large_unsigned_value():
    @T.prim_func
    def k(X: T.Tensor((2,), "uint32"), Y: T.Tensor((2,), "int64")):
        with T.Kernel(1):
            T.print(X[0], "u")
            T.print(Y[0], "l")

    arrays = {"X": np.array([2**32 - 1, 0], np.uint32), "Y": np.array([-(2**40), 0])}
    assert printed(tilelang.compile(k), arrays) == [f"[AIV 0] u: {2**32 - 1}", f"[AIV 0] l: {-(2**40)}"]


def test_inside_a_parallel_nest():
    @T.prim_func
    def k(X: T.Tensor((4,), "float32"), Y: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((4,), "float32"), T.alloc_shared((4,), "float32")
            T.copy(X, x)
            for i in T.Parallel(4):
                y[i] = x[i] * 2.0
                if x[i] > 1.5:
                    T.print(x[i], "big")
            T.copy(y, Y)

    x = np.arange(4, dtype=np.float32)
    kernel = tilelang.compile(k)
    np.testing.assert_array_equal(strict.run(kernel, {"X": x, "Y": np.zeros_like(x)})["Y"], 2 * x)
    assert printed(kernel, {"X": x, "Y": x * 0}) == ["[AIV 0] big: 2.000000", "[AIV 0] big: 3.000000"]


def gemm(epilogue: bool, steps: bool = False):
    @T.prim_func
    def k(A: T.Tensor((16, 32), "float16"), B: T.Tensor((32, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1) as bx:
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.clear(c)
            for s in T.Pipelined(2, num_stages=2):
                T.copy(A[0, s * 16], a)
                T.copy(B[s * 16, 0], b)
                T.gemm(a, b, c)
                if steps:
                    T.print(s, "step")
            if epilogue:
                for i, j in T.Parallel(16, 16):
                    c[i, j] = c[i, j] + 1.0
                T.print(c[3, 0:4])
            T.print(bx, "done")
            T.copy(c, C)

    return tilelang.compile(k)


@pytest.mark.parametrize("epilogue", [False, True])
def test_gemm(epilogue):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((16, 32), (32, 16)))
    arrays = {"A": a, "B": b, "C": np.zeros((16, 16), np.float32)}
    want = a.astype(np.float32) @ b.astype(np.float32) + epilogue
    kernel = gemm(epilogue)
    np.testing.assert_array_equal(strict.run(kernel, arrays)["C"], want)
    core = "AIV 0" if epilogue else "AIC 0"
    expected = [f"[{core}] done: 0"]
    if epilogue:
        expected.insert(0, f"[{core}] c[3] = {want[3, :4].astype(int).tolist()}")
    assert printed(kernel, arrays) == expected


def test_a_loop_with_output_keeps_its_steps():
    arrays = {"A": np.ones((16, 32), np.float16), "B": np.ones((32, 16), np.float16), "C": np.zeros((16, 16), np.float32)}
    assert printed(gemm(False, steps=True), arrays) == ["[AIC 0] step: 0", "[AIC 0] step: 1", "[AIC 0] done: 0"]


@pytest.mark.parametrize("style", ["device_assert", "assert"])
def test_an_assertion_that_fails_stops_the_kernel(style, capsys):
    @T.prim_func
    def k(X: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(2) as bx:
            T.print(n, "before")
            if style == "assert":
                assert X[bx] < n, "too large"
            else:
                T.device_assert(X[bx] < n, "too large")

    kernel, x = tilelang.compile(k), np.array([1, 9, 2, 3], np.int32)
    kernel(x, 10)
    assert capsys.readouterr().out.count("before: 10") == 2
    with pytest.raises(tilelang.errors.DeviceAssertionError) as caught:
        kernel(x, 5)
    text = str(caught.value)
    assert "assertion failed: too large (block (1), X[bx] = 9, bx = 1, n = 5)" in text
    assert "X[bx] < n" in caught.value.location.source and "AIV 1" in text
    assert "before: 5" in capsys.readouterr().out
    lines = printed(kernel, {"X": x}, {"n": 5})
    assert lines[-1].startswith("trap: test_output.py:") and lines[-1].endswith("(block (1), X[bx] = 9, bx = 1, n = 5)")


def test_output_beyond_the_buffer_of_a_core_is_reported():
    @T.prim_func
    def k(n: T.int32):
        with T.Kernel(1):
            for i in T.serial(n):
                T.print(i, "number of the line")

    kernel = tilelang.compile(k)
    result = kernel.simulate(100_000).run
    assert "bytes more are lost" in result.output.splitlines()[-1]
    ((core, text, lost),) = result.printed
    assert len(text) == 1 << 20 and len(text) + lost == sum(len(f"number of the line: {i}\n") for i in range(100_000))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: T.printf("%d", 1.5), "%d does not fit a float32 value"),
        (lambda x: T.printf("%f", x), "%f does not fit a int32 value"),
        (lambda x: T.printf("%d %d", x), "more than the 1 values given"),
        (lambda x: T.printf("%d", x, x), "takes 1 values, 2 are given"),
        (lambda x: T.printf("%p", x), "conversion %p is not available"),
        (lambda x: T.printf("a\0b"), "contains a NUL character"),
        (lambda x: T.print(x, "a\0b"), "contains a NUL character"),
    ],
    ids=["float", "int", "few", "many", "kind", "nul", "nul in a message"],
)
def test_formats_are_checked(call, message):
    with pytest.raises(tilelang.errors.InvalidArgument, match=message):

        @T.prim_func
        def k(X: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                call(bx)
