"""Hand-made Ascend IR programs for tests of the two ways into the machine: host program and emitted text.

Each sample is what an expert would write for a small problem, flags and barriers included, with NumPy inputs and the
expected outputs. They are independent of the compiler's passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import ml_dtypes
import numpy as np

from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    IRModule,
    PrimFunc,
    SourceName,
    Span,
    Var,
    While,
    call,
    decl_buffer,
    if_then,
    intrin,
    loop,
    seq,
    tirx,
)

CHIP = "Ascend910B1"
_SCOPES = {"l1": "shared.l1", "ub": "shared.ub", "l0a": "local.l0a", "l0b": "local.l0b", "l0c": "local.l0c"}


@dataclass(frozen=True)
class Sample:
    """A program with inputs. `arrays` are the GM tensors in parameter order (outputs hold garbage), `expected` maps the
    index of an output to its value, `workspace` lists workspace sizes in bytes."""

    name: str
    module: IRModule
    block_dim: int
    scalars: Sequence
    arrays: Sequence[np.ndarray]
    expected: dict[int, np.ndarray]
    workspace: Sequence[int] = ()


class Builder:
    """Shorthands for one function."""

    def __init__(self, file: str = "sample.py"):
        self.file = file
        self.allocs: list = []

    def at(self, line: int) -> Span:
        return Span(SourceName(self.file), line, line, 1, 2)

    def alloc(self, name: str, dtype: str, memory: str, elements: int, address: int, versions: int = 1):
        buffer = decl_buffer((versions, elements), dtype, name, scope=_SCOPES[memory])
        self.allocs.append(AllocBuffer(buffer, annotations={"address": address}))
        return buffer

    def var(self, name: str, dtype: str = "int32"):
        buffer = decl_buffer((1,), dtype, name, scope="local.var")
        self.allocs.append(AllocBuffer(buffer))
        return buffer

    def function(self, name, core, kernel_type, params, body, workspaces=()) -> PrimFunc:
        func = PrimFunc(list(params), seq(*self.allocs, body))
        attrs = {
            "global_symbol": f"{name}_{core}",
            "ascend.core": core,
            "ascend.kernel_type": kernel_type,
            "ascend.chip": CHIP,
            "ascend.kernel_name": name,
            "ascend.num_workspaces": len(workspaces),
            "ascend.workspace_bytes": list(workspaces),
        }
        for key, value in attrs.items():
            func = func.with_attr(key, value)
        return func


def at(buffer, *index):
    """Head address `buffer[version, offset]` (local) or `buffer[offset]` (GM)."""
    return BufferLoad(buffer, list(index))


def load(var):
    """Value of a `local.var`."""
    return BufferLoad(var, [0])


def gm(name: str, dtype: str, elements):
    """A flat GM parameter."""
    return decl_buffer((elements,), dtype, name)


def flag(kind: str, event: str, event_id):
    """`set`/`wait` of a flag."""
    return intrin(f"{kind}_flag", event_id, event=event)


def module(*functions) -> IRModule:
    return IRModule({str(f.attrs["global_symbol"]): f for f in functions})


# ---- 1. C = A + B, any length, double buffered ---------------------------------------------------------------------


def vector_add(n: int = 5000, tile: int = 512, blocks: int = 3) -> Sample:
    """Tiles go round robin over the cores; the last tile is short. Two versions of each buffer."""
    b = Builder("vector_add.py")
    n_var = Var("n", "int32")
    A, B, C = (gm(name, "float32", n_var) for name in "ABC")
    ub = [b.alloc(f"{name}_ub", "float32", "ub", tile, i * 2 * tile * 4, versions=2) for i, name in enumerate("abc")]
    block, i, tile_id, size, version = (Var(v, "int32") for v in ("block", "i", "tile_id", "size", "version"))
    tiles = (n_var + (tile - 1)) // tile
    zeros = (0, 0, 0, 0.0)
    steps = [
        Bind(version, i % 2, span=b.at(4)),
        Bind(tile_id, i * blocks + block, span=b.at(4)),
        Bind(size, tirx.min(n_var - tile_id * tile, tile), span=b.at(4)),
        flag("wait", "V_MTE2", version),
        *(
            intrin("copy_gm_to_ub", at(u, version, 0), at(g, tile_id * tile), 1, size * 4, 0, 0, *zeros, span=b.at(5))
            for u, g in zip(ub, (A, B))
        ),
        flag("set", "MTE2_V", version),
        flag("wait", "MTE2_V", version),
        flag("wait", "MTE3_V", version),
        intrin("add", *(at(u, version, 0) for u in (ub[2], ub[0], ub[1])), size, span=b.at(6)),
        flag("set", "V_MTE2", version),
        flag("set", "V_MTE3", version),
        flag("wait", "V_MTE3", version),
        intrin("copy_ub_to_gm", at(C, tile_id * tile), at(ub[2], version, 0), 1, size * 4, 0, 0, span=b.at(7)),
        flag("set", "MTE3_V", version),
    ]
    events = [(event, v) for event in ("V_MTE2", "MTE3_V") for v in range(2)]
    body = seq(
        Bind(block, call("ascend.get_block_idx", [], dtype="int32"), span=b.at(3)),
        [flag("set", event, v) for event, v in events],
        loop(i, (tiles - block + (blocks - 1)) // blocks, seq(steps), span=b.at(4)),
        [flag("wait", event, v) for event, v in events],
    )
    func = b.function("vector_add", "aiv", "aiv_only", [n_var, A, B, C], body)
    rng = np.random.default_rng(0)
    a, c = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    return Sample("vector_add", module(func), blocks, [n], [a, c, np.full(n, np.nan, np.float32)], {2: a + c})


# ---- 2. one cube tile, K in a loop ---------------------------------------------------------------------------------


def cube_gemm(m: int = 32, n: int = 64, k: int = 96, dtype: str = "float16", out: str = "float32") -> Sample:
    """C = A @ B for one tile: ND -> NZ in L1, fractals to L0, accumulation over K, Fixpipe out. B is [k, n]."""
    size = 1 if dtype == "int8" else 2
    c0 = 32 // size
    step = 32 if dtype == "int8" else 32
    acc = "int32" if dtype == "int8" else "float32"
    b = Builder("gemm.py")
    A, B, C = gm("A", dtype, m * k), gm("B", dtype, k * n), gm("C", out, m * n)
    a1 = b.alloc("A_shared", dtype, "l1", m * step, 0, versions=2)
    b1 = b.alloc("B_shared", dtype, "l1", step * n, 2 * m * step * size, versions=2)
    a2 = b.alloc("A_l0", dtype, "l0a", m * step, 0)
    b2 = b.alloc("B_l0", dtype, "l0b", step * n, 0)
    c1 = b.alloc("C_local", acc, "l0c", m * n, 0)
    ko, version = Var("ko", "int32"), Var("version", "int32")
    i, j = Var("i", "int32"), Var("j", "int32")
    # L0A (Zz): for every row block all K fractals; from NZ in L1 these are `m/16` fractals apart.
    load_a = loop(
        i,
        m // 16,
        intrin(
            "load_l0a",
            at(a2, 0, i * (16 * step)),
            at(a1, version, i * (16 * c0)),
            0,
            step // c0,
            m // 16,
            0,
            0,
            span=b.at(9),
        ),
    )
    if dtype == "int8":
        # A square is 32 x 32 = 2 fractals. L0B (Zn): n fractals of one k block lie next to each other.
        load_b = loop(
            j,
            n // 32,
            intrin(
                "load_l0b_transpose",
                at(b2, 0, j * (32 * step)),
                at(b1, version, j * (32 * step)),
                0,
                1,
                1,
                0,
                0,
                span=b.at(10),
            ),
        )
    else:
        # Source NZ [n/16][k][16]: fractal (k block i, n block j) at j * k/16 + i. Destination: i * n/16 + j.
        load_b = loop(
            j,
            step // 16,
            intrin(
                "load_l0b",
                at(b2, 0, j * (16 * n)),
                at(b1, version, j * (16 * c0)),
                0,
                n // 16,
                step // 16,
                0,
                1,
                span=b.at(10),
            ),
        )
    nd2nz = lambda d, s, rows, cols, stride: intrin(  # noqa: E731
        "copy_gm_to_l1_nd2nz", d, s, 1, rows, cols, 0, stride, rows, 1, 1, span=b.at(8)
    )
    steps = [
        Bind(version, ko % 2),
        flag("wait", "MTE1_MTE2", version),
        nd2nz(at(a1, version, 0), at(A, ko * step), m, step, k),
        nd2nz(at(b1, version, 0), at(B, ko * (step * n)), step, n, n),
        flag("set", "MTE2_MTE1", version),
        flag("wait", "MTE2_MTE1", version),
        flag("wait", "M_MTE1", 0),
        load_a,
        load_b,
        flag("set", "MTE1_MTE2", version),
        flag("set", "MTE1_M", 0),
        flag("wait", "MTE1_M", 0),
        intrin(
            "mmad",
            at(c1, 0, 0),
            at(a2, 0, 0),
            at(b2, 0, 0),
            m,
            n,
            step,
            0,
            0,
            tirx.Cast("int32", tirx.EQ(ko, 0)),
            span=b.at(11),
        ),
        intrin("pipe_barrier", pipe="M"),
        flag("set", "M_MTE1", 0),
    ]
    quant = {"float32": "none", "int32": "none", "float16": "f32_f16", "bfloat16": "f32_bf16"}[out]
    body = seq(
        flag("set", "MTE1_MTE2", 0),
        flag("set", "MTE1_MTE2", 1),
        flag("set", "M_MTE1", 0),
        loop(ko, k // step, seq(steps), span=b.at(7)),
        flag("wait", "MTE1_MTE2", 0),
        flag("wait", "MTE1_MTE2", 1),
        flag("wait", "M_MTE1", 0),
        flag("set", "M_FIX", 0),
        flag("wait", "M_FIX", 0),
        intrin("fixpipe_to_gm", at(C, 0), at(c1, 0, 0), n, m, m, n, 0, quant=quant, span=b.at(12)),
    )
    func = b.function("gemm", "aic", "aic_only", [A, B, C], body)
    rng = np.random.default_rng(1)
    # Small integers: every product and sum is exact, so the order of accumulation does not show.
    kind = {"int8": np.int8, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    x, y = (rng.integers(-4, 5, shape).astype(kind[dtype]) for shape in ((m, k), (k, n)))
    wide = x.astype(np.float64) @ y.astype(np.float64)
    out_type = {"float32": np.float32, "int32": np.int32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[out]
    c = np.zeros(m * n, out_type)
    return Sample(f"gemm_{dtype}", module(func), 1, [], [x.ravel(), y.ravel(), c], {2: wide.astype(out_type).ravel()})


# ---- 3. cube and vector together -----------------------------------------------------------------------------------


def mix_matmul_exp(m: int = 32, n: int = 32, k: int = 32) -> Sample:
    """D = exp(A @ B): the cube core writes rows to workspace, the two vector cores take half of them each. Three rounds
    through one workspace slot, so that the flag back from the vector cores matters."""
    rounds, half = 3, m // 2
    cube, vector = Builder("mix.py"), Builder("mix.py")
    A, B, D = gm("A", "float16", rounds * m * k), gm("B", "float16", k * n), gm("D", "float32", rounds * m * n)
    ws = gm("ws", "float32", m * n)
    params = [A, B, D, ws]
    ready, free = 0, 1

    a1 = cube.alloc("A_shared", "float16", "l1", m * k, 0)
    b1 = cube.alloc("B_shared", "float16", "l1", k * n, m * k * 2)
    a2, b2 = cube.alloc("A_l0", "float16", "l0a", m * k, 0), cube.alloc("B_l0", "float16", "l0b", k * n, 0)
    c1 = cube.alloc("C_local", "float32", "l0c", m * n, 0)
    r, i, j = Var("r", "int32"), Var("i", "int32"), Var("j", "int32")

    def nd2nz(d, s, rows, cols):
        return intrin("copy_gm_to_l1_nd2nz", d, s, 1, rows, cols, 0, cols, rows, 1, 1, span=cube.at(5))

    cube_steps = [
        flag("wait", "MTE1_MTE2", 0),
        nd2nz(at(a1, 0, 0), at(A, r * (m * k)), m, k),
        nd2nz(at(b1, 0, 0), at(B, 0), k, n),
        flag("set", "MTE2_MTE1", 0),
        flag("wait", "MTE2_MTE1", 0),
        flag("wait", "M_MTE1", 0),
        loop(
            i,
            m // 16,
            intrin("load_l0a", at(a2, 0, i * (16 * k)), at(a1, 0, i * 256), 0, k // 16, m // 16, 0, 0, span=cube.at(6)),
        ),
        loop(
            j,
            k // 16,
            intrin("load_l0b", at(b2, 0, j * (16 * n)), at(b1, 0, j * 256), 0, n // 16, k // 16, 0, 1, span=cube.at(6)),
        ),
        flag("set", "MTE1_MTE2", 0),
        flag("set", "MTE1_M", 0),
        flag("wait", "MTE1_M", 0),
        flag("wait", "FIX_M", 0),
        intrin("mmad", at(c1, 0, 0), at(a2, 0, 0), at(b2, 0, 0), m, n, k, 0, 0, 1, span=cube.at(6)),
        flag("set", "M_MTE1", 0),
        flag("set", "M_FIX", 0),
        flag("wait", "M_FIX", 0),
        if_then(r > 0, intrin("cross_core_wait_flag", free)),
        intrin("fixpipe_to_gm", at(ws, 0), at(c1, 0, 0), n, m, m, n, 0, quant="none", span=cube.at(7)),
        flag("set", "FIX_M", 0),
        intrin("cross_core_set_flag", ready, mode="2", pipe="FIX"),
    ]
    edge = [("MTE1_MTE2", 0), ("M_MTE1", 0), ("FIX_M", 0)]
    cube_body = seq(
        [flag("set", *e) for e in edge],
        loop(r, rounds, seq(cube_steps)),
        [flag("wait", *e) for e in edge],
        intrin("cross_core_wait_flag", free),
    )

    u = vector.alloc("C_ub", "float32", "ub", half * n, 0)
    e = vector.alloc("D_ub", "float32", "ub", half * n, half * n * 4)
    q, sub = Var("r", "int32"), Var("sub", "int32")
    pad = (0, 0, 0, 0.0)
    vector_steps = [
        intrin("cross_core_wait_flag", ready),
        flag("wait", "V_MTE2", 0),
        intrin("copy_gm_to_ub", at(u, 0, 0), at(ws, sub * (half * n)), half, n * 4, 0, 0, *pad, span=vector.at(9)),
        intrin("cross_core_set_flag", free, mode="2", pipe="MTE2"),
        flag("set", "MTE2_V", 0),
        flag("wait", "MTE2_V", 0),
        flag("wait", "MTE3_V", 0),
        intrin("exp_mask", at(e, 0, 0), at(u, 0, 0), 0, -1, half * n // 64, 1, 1, 8, 8, span=vector.at(10)),
        flag("set", "V_MTE2", 0),
        flag("set", "V_MTE3", 0),
        flag("wait", "V_MTE3", 0),
        intrin("copy_ub_to_gm", at(D, q * (m * n) + sub * (half * n)), at(e, 0, 0), half, n * 4, 0, 0, span=vector.at(11)),
        flag("set", "MTE3_V", 0),
    ]
    edge = [("V_MTE2", 0), ("MTE3_V", 0)]
    vector_body = seq(
        Bind(sub, call("ascend.get_sub_block_idx", [], dtype="int32")),
        [flag("set", *x) for x in edge],
        loop(q, rounds, seq(vector_steps)),
        [flag("wait", *x) for x in edge],
    )
    functions = [
        cube.function("matmul_exp", "aic", "mix_1_2", params, cube_body, [m * n * 4]),
        vector.function("matmul_exp", "aiv", "mix_1_2", params, vector_body, [m * n * 4]),
    ]
    rng = np.random.default_rng(2)
    x, y = rng.integers(-1, 2, (rounds, m, k)).astype(np.float16), rng.integers(-1, 2, (k, n)).astype(np.float16)
    d = np.exp((x.astype(np.float32) @ y.astype(np.float32)).astype(np.float64)).astype(np.float32)
    out = np.full(rounds * m * n, np.nan, np.float32)
    return Sample("matmul_exp", module(*functions), 1, [], [x.ravel(), y.ravel(), out], {2: d.ravel()}, [m * n * 4])


# ---- 4. scalars ----------------------------------------------------------------------------------------------------


def scalars(values: Sequence[int] = (-7, -1, 0, 5, 9), scale: float = 0.1, shift: int = -3) -> Sample:
    """Every kind of scalar arithmetic on values read from GM; results of `floordiv`, `min`, `select`, … to GM."""
    b = Builder("scalars.py")
    shift_var, scale_var, wide = Var("shift", "int32"), Var("scale", "float32"), Var("wide", "int64")
    n = len(values)
    X, Y, Z = gm("X", "int32", n), gm("Y", "int32", 16 * n), gm("Z", "float32", 4 * n)
    i, x = Var("i", "int32"), Var("x", "int32")
    w = tirx.Cast("int64", x) * tirx.const(1 << 33, "int64")
    ints = [
        tirx.floordiv(x, 3),
        tirx.floormod(x, 3),
        tirx.floordiv(x, tirx.const(-4, "int32")),
        tirx.floormod(x, shift_var),
        tirx.truncdiv(x, 3),
        tirx.truncmod(x, 3),
        tirx.min(x, shift_var),
        tirx.max(x, 2 - i),
        tirx.if_then_else(x > 0, x * 2, x - 1),
        tirx.Cast("int32", tirx.floordiv(w, wide)),
        x & 6,
        (x ^ 5) | 8,
        tirx.Cast("int32", tirx.all(x > -5, tirx.any(x < 0, x != 5))),
        x >> 1,
        tirx.Cast("int32", tirx.Cast("int8", x * 50)),
        tirx.Cast("int32", tirx.Not(tirx.EQ(x, 0))),
    ]
    f = tirx.Cast("float32", x)
    floats = [
        f * scale_var,
        f * tirx.const(scale, "float32") + scale_var,
        tirx.Cast("float32", tirx.Cast("float16", f * scale_var)),
        tirx.if_then_else(x > 100, f, tirx.const(float("-inf"), "float32")),
    ]
    store = lambda buffer, index, value: intrin("set_value", at(buffer, index), value, span=b.at(6))  # noqa: E731
    body = loop(
        i,
        n,
        seq(
            Bind(x, call("ascend.get_value", [at(X, i)], dtype="int32", span=b.at(5)), span=b.at(5)),
            [store(Y, i * 16 + j, e) for j, e in enumerate(ints)],
            [store(Z, i * 4 + j, e) for j, e in enumerate(floats)],
        ),
    )
    clean = [intrin("data_cache_clean", at(g, j * 16)) for g, size in ((Y, 16 * n), (Z, 4 * n)) for j in range(-(-size // 16))]
    func = b.function("scalars", "aiv", "aiv_only", [shift_var, scale_var, wide, X, Y, Z], seq(body, clean))
    wide_value, s32 = -5 * (1 << 31), np.float32(scale)
    y, z = [], []
    for v in values:
        k = list(values).index(v)
        t = int(np.trunc(v / 3))
        y += [
            v // 3,
            v % 3,
            v // -4,
            v % shift,
            t,
            v - 3 * t,
            min(v, shift),
            max(v, 2 - k),
            v * 2 if v > 0 else v - 1,
            (v << 33) // wide_value,
            v & 6,
            (v ^ 5) | 8,
            int(v > -5 and (v < 0 or v != 5)),
            v >> 1,
            int(np.int64(v * 50).astype(np.int8)),
            int(v != 0),
        ]
        fv = np.float32(v)
        z += [fv * s32, fv * s32 + s32, np.float32(np.float16(fv * s32)), -np.inf if v <= 100 else fv]
    arrays = [np.array(values, np.int32), np.zeros(16 * n, np.int32), np.zeros(4 * n, np.float32)]
    expected = {1: np.array(y, np.int32), 2: np.array(z, np.float32)}
    return Sample("scalars", module(func), 1, [shift, scale, wide_value], arrays, expected)


# ---- 5. while, break, continue, mutable scalars --------------------------------------------------------------------


def collatz(start: int = 27) -> Sample:
    """Counts Collatz steps with `while`, sums odd numbers with `continue` and `break`, writes both through UB."""
    b = Builder("collatz.py")
    n_param, Out = Var("start", "int32"), gm("Out", "int32", 16)
    value, steps, total = b.var("value"), b.var("steps"), b.var("total")
    out = b.alloc("out_ub", "int32", "ub", 16, 64)
    set_ = lambda var, e: BufferStore(var, e, [0], span=b.at(4))  # noqa: E731
    i = Var("i", "int32")
    even = tirx.EQ(tirx.floormod(load(value), 2), 0)
    body = seq(
        set_(value, n_param),
        set_(steps, tirx.const(0, "int32")),
        set_(total, tirx.const(0, "int32")),
        While(
            load(value) > 1,
            seq(
                if_then(even, set_(value, tirx.floordiv(load(value), 2)), set_(value, load(value) * 3 + 1)),
                set_(steps, load(steps) + 1),
            ),
        ),
        loop(
            i,
            100,
            seq(
                if_then(tirx.EQ(tirx.floormod(i, 2), 0), tirx.Continue()),
                if_then(i > 20, tirx.Break()),
                set_(total, load(total) + i),
            ),
        ),
        intrin("duplicate", at(out, 0, 0), load(steps), 8, span=b.at(9)),
        intrin("duplicate_mask", at(out, 0, 8), load(total), 0, 0b10101111, 1, 1, 8, span=b.at(10)),
        intrin("duplicate_mask", at(out, 0, 8), tirx.const(-1, "int32"), 0, 0b01010000, 1, 1, 8, span=b.at(10)),
        flag("set", "V_MTE3", 3),
        flag("wait", "V_MTE3", 3),
        intrin("copy_ub_to_gm", at(Out, 0), at(out, 0, 0), 1, 64, 0, 0, span=b.at(11)),
    )
    func = b.function("collatz", "aiv", "aiv_only", [n_param, Out], body)
    v, count = start, 0
    while v > 1:
        v, count = (v // 2 if v % 2 == 0 else 3 * v + 1), count + 1
    tail = [100 if (0b10101111 >> lane) & 1 else -1 for lane in range(8)]
    return Sample("collatz", module(func), 1, [start], [np.zeros(16, np.int32)], {0: np.array([count] * 8 + tail, np.int32)})


# ---- 6. conversions, compare and select ----------------------------------------------------------------------------


def convert(n: int = 256) -> Sample:
    """y = bfloat16(x > 0.1 ? x : x * -0.3), count forms, with barriers between dependent vector instructions."""
    b = Builder("convert.py")
    X, Y = gm("X", "float16", n), gm("Y", "bfloat16", n)
    x16, x, s = (
        b.alloc(*a) for a in (("x_half", "float16", "ub", n, 0), ("x", "float32", "ub", n, 2 * n), ("s", "float32", "ub", n, 6 * n))
    )
    mask, y = b.alloc("mask", "uint8", "ub", n // 8, 10 * n), b.alloc("y", "bfloat16", "ub", n, 10 * n + n // 8)
    barrier = intrin("pipe_barrier", pipe="V")
    body = seq(
        intrin("copy_gm_to_ub", at(x16, 0, 0), at(X, 0), 1, n * 2, 0, 0, 0, 0, 0, tirx.const(0, "float16"), span=b.at(3)),
        flag("set", "MTE2_V", 0),
        flag("wait", "MTE2_V", 0),
        intrin("cast", at(x, 0, 0), at(x16, 0, 0), n, round="none", span=b.at(4)),
        barrier,
        intrin("compare_scalar", at(mask, 0, 0), at(x, 0, 0), tirx.const(0.1, "float32"), n, mode="gt", span=b.at(5)),
        intrin("muls", at(s, 0, 0), at(x, 0, 0), -0.3, n, span=b.at(5)),
        barrier,
        intrin("select", at(x, 0, 0), at(mask, 0, 0), at(x, 0, 0), at(s, 0, 0), n, mode="tensor_tensor", span=b.at(5)),
        barrier,
        intrin("cast", at(y, 0, 0), at(x, 0, 0), n, round="rint", span=b.at(6)),
        flag("set", "V_MTE3", 0),
        flag("wait", "V_MTE3", 0),
        intrin("copy_ub_to_gm", at(Y, 0), at(y, 0, 0), 1, n * 2, 0, 0, span=b.at(7)),
    )
    func = b.function("convert", "aiv", "aiv_only", [X, Y], body)
    xs = np.random.default_rng(3).standard_normal(n).astype(np.float16)
    f = xs.astype(np.float32)
    ys = np.where(f > np.float32(0.1), f, f * np.float32(-0.3)).astype(ml_dtypes.bfloat16)
    return Sample("convert", module(func), 1, [], [xs, np.zeros(n, ml_dtypes.bfloat16)], {1: ys})


SAMPLES: dict[str, Callable[[], Sample]] = {
    "vector_add": vector_add,
    "gemm_float16": cube_gemm,
    "gemm_bfloat16": lambda: cube_gemm(16, 32, 64, "bfloat16", "bfloat16"),
    "gemm_int8": lambda: cube_gemm(32, 64, 96, "int8", "int32"),
    "matmul_exp": mix_matmul_exp,
    "scalars": scalars,
    "collatz": collatz,
    "convert": convert,
}
