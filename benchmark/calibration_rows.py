"""The table of the calibration: published measurements of boards, and the program that says the same thing.

`rows()` gives all of them, `NOT_ROWS` what was published without the facts a program needs. Sources by short name are in
docs/calibration.md. Add a row here and run ``python benchmark/calibration.py --fit``.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Callable, Iterator

import calibration_programs as made
import numpy as np
from calibration_programs import ROOT, Program

import tilelang_ascend as tilelang

A2, A2_SMALL, A3, A5 = "Ascend910B1", "Ascend910B4", "Ascend910_9391", "Ascend950PR_958x"


@dataclass(frozen=True)
class Row:
    """One published measurement.

    name: unique; says what was measured.
    group: rows of one group together weigh as much in the fit as any other group.
    variant: the rows of the group do the same work in different ways, so that their order means something.
    published: microseconds, or cycles of the core clock.
    program: makes what is simulated.
    what: what the published number contains: ``launch`` (microseconds from launch to end), ``kernel`` (microseconds without launch),
        ``cycles`` (of all), or ``pipe`` (cycles from the start of the first instruction in its pipe).
    times: the simulated time (without launch) counts so often: 1 / rounds of a loop, or work left out of a loop of equal steps.
    tiling: ``published``, or what was assumed.
    warm: L2 holds what a run before left; False for stages of a network, whose weights come from HBM.
    unfitted: why the row is kept from the fit whatever the rule says.
    """

    name: str
    group: str
    source: str
    chip: str
    published: float
    program: Callable[[], Program]
    what: str = "launch"
    times: float = 1.0
    tiling: str = "published"
    warm: bool = True
    unfitted: str = ""
    variant: bool = False


@functools.lru_cache(maxsize=None)
def _made(maker, args, options) -> Program:
    return maker(*args, **dict(options))


def program(maker, *args, **options) -> Callable[[], Program]:
    """A program made when it is first needed; equal ones are made once."""
    return lambda: _made(maker, args, tuple(sorted(options.items())))


SLOW = (
    "gemm 8192",
    "gemm 6144",
    "gemm A3",
    "conv A3",
    "950 gemm",
    "950 gemm small",
    "rms_norm",
    "950 rms_norm",
    "attention",
    "sparse attention",
)


def rows(quick: bool = False) -> Iterator[Row]:
    """All rows, or those that need no more than a tenth of a second each."""
    for part in (_adds, _tables, _reads, _conflicts, _single, _vector, _products, _norms, _attention, _stages):
        yield from (row for row in part() if not quick or not (row.group in SLOW or "1 x 128 B" in row.name))


# ---- additions -------------------------------------------------------------------------------------------------------------

SQUARE = 8192 * 8192


def _adds():
    source = "asc-devkit add_high_performance"
    add = functools.partial(program, made.vector_add)
    yield Row(
        "add 8192^2 f16, scalars, 1 core", "add", source, A2, 1239689, program(made.scalar_add, 16384), times=SQUARE / 16384, variant=True
    )
    ladder = [
        ("1 core, 8 KB", 6909.6, add(SQUARE, 1, 4096)),
        ("48 cores, 8 KB", 306.58, add(SQUARE, 48, 4096)),
        ("48 cores, 32 KB", 268.5, add(SQUARE, 48, 16384)),
        ("48 cores, 2 x 32 KB", 264.02, add(SQUARE, 48, 16384, versions=2)),
        ("48 cores, 2 x 32 KB, inputs past L2", 187.68, add(SQUARE, 48, 16384, versions=2, bypass=("A", "B"))),
        ("48 cores, as before, no conflicts", 184.52, add(SQUARE, 48, 16384, versions=2, bypass=("A", "B"), apart=True)),
    ]
    for what, us, made_by in ladder:
        yield Row(f"add 8192^2 f16, {what}", "add", source, A2, us, made_by, variant=True)
    ladder = [
        ("64 cores, 8 KB", 310.5, add(SQUARE, 64, 4096)),
        ("64 cores, 32 KB", 251.7, add(SQUARE, 64, 16384)),
        ("64 cores, 2 x 32 KB", 247.7, add(SQUARE, 64, 16384, versions=2)),
        ("64 cores, 2 x 32 KB, inputs past L2", 182.04, add(SQUARE, 64, 16384, versions=2, bypass=("A", "B"), apart=True)),
    ]
    for what, us, made_by in ladder:
        yield Row(f"950: add 8192^2 f16, {what}", "950 add", source, A5, us, made_by, variant=True)
    small = add(1 << 20, 64, 8192, versions=2, dtype="float32")
    yield Row("950: add 1 M f32", "950 add small", "pyasc-skill-stack", A5, 6.97, small, tiling="2 x 32 KB assumed")
    tutorial = add(2048, 8, 128, versions=2, dtype="float32", shared=False, flags_at_once=True)
    why = "scalar code around the calls, 69 % of the time by msprof, is not in the model"
    yield Row("add of 16384 f32, 8 cores", "msprof add", "PyAsc tutorial 01_add, msprof", A2, 8.25, tutorial, what="kernel", unfitted=why)


def _tables():
    """Elements of each core, float16 on 20 and float32 on 40 cores of a 910B4: the one reading under which both tables agree."""
    sizes = dict(zip(range(3200, 25601, 3200), (583.944, 1217.64, 1861.72, 2496.976, 3141.2, 3771.12, 4425.296, 5071.944)))
    for k, us in sizes.items():
        one = program(made.vector_add, k * 1000 // 8000 * 8000, 20, 8000, versions=2, shared=False)
        source = "PyAsc article, Ascend C column"
        yield Row(f"add table 1, {k}k f16", "add table 1", source, A2_SMALL, us, one, tiling="2 x 16 KB, and the reading, assumed")
    sizes = dict(zip(range(3000, 15601, 1800), (2364.2, 3794.94, 5203.52, 6629.72, 8046.56, 9471.12, 10885.44, 12305.9)))
    for k, us in sizes.items():
        one = program(made.vector_add, k * 1000 // 4000 * 4000, 40, 4000, versions=2, dtype="float32", shared=False)
        source = "PyAsc article, torch column"
        yield Row(f"add table 2, {k}k f32", "add table 2", source, A2_SMALL, us, one, tiling="2 x 16 KB, and the reading, assumed")


# ---- reads -----------------------------------------------------------------------------------------------------------------


def _reads():
    source = "asc-devkit data_copy"
    ub, l1 = functools.partial(program, made.read_to_ub, 12288), functools.partial(program, made.read_to_l1, 12288)
    for name, chip, cores, times in (("", A2, 48, (564.84, 233.54, 215.82, 275.3)), ("950: ", A5, 64, (884.0, 208.6, 188.5, 192.1))):
        shapes = ((1, 64), (64, 64), (64, 1024))
        for (r, c), us in zip(shapes, times):
            yield Row(f"{name}GM to UB 12288^2 f16, {r} x {2 * c} B", f"{name}read UB", source, chip, us, ub(cores, r, c), variant=True)
        tiling = "that of the row before assumed"
        odd = ub(cores, 64, 1024, pitch=12287)
        yield Row(f"{name}GM to UB 12287^2 f16, 64 x 2048 B", f"{name}read UB", source, chip, times[3], odd, tiling=tiling, variant=True)
    yield Row("GM to UB 12288^2 f16, 64 x 2048 B, time of MTE2", "read UB", source, A2, 202.7, ub(48, 64, 1024), what="kernel")
    for name, chip, cores, times in (("", A2, 24, (300.7, 230.24, 438.76)), ("950: ", A5, 32, (245.1, 190.5, 206.6))):
        for c, us in zip((64, 256), times):
            yield Row(f"{name}GM to L1 ND2NZ 12288^2 f16, 64 x {c}", f"{name}read L1", source, chip, us, l1(cores, 64, c), variant=True)
        tiling = "that of the row before assumed"
        odd = l1(cores, 64, 256, pitch=12287)
        yield Row(f"{name}GM to L1 ND2NZ 12287^2 f16, 64 x 256", f"{name}read L1", source, chip, times[2], odd, tiling=tiling, variant=True)


# ---- banks, single instructions --------------------------------------------------------------------------------------------

TICK = 1.85e9 / 50e6  # cycles of one tick of the system counter


def _conflicts():
    source = "asc-devkit bank_conflict_ub"
    for name, ticks, make in (
        ("no conflict", 2390, (16384 + 256, 65536 + 512, 1)),
        ("read-read", 4167, (16384, 65536 + 512, 1)),
        ("read-write", 3751, (65536 + 256, 16384 + 256, 1)),
        ("same start", 2389, (65536 + 256, 0, 1)),
        ("block stride 0", 3584, (65536 + 256, 131072, 0)),
    ):
        one = program(_conflicting_add, *make)
        yield Row(f"add 4096 f32, {name}", "banks", source, A2, ticks * TICK / 1000, one, what="cycles", times=1 / 1000, variant=True)


def _conflicting_add(y: int, z: int, block_stride: int) -> Program:
    def make(b):
        x, y_, z_ = (b.alloc(n, "float32", "ub", 4096, address) for n, address in (("x", 0), ("y", y), ("z", z)))
        full = -1  # all lanes
        strides = (1, block_stride, 1, 8, 8 if block_stride else 0, 8)
        heads = [made.at(t, 0, 0) for t in (z_, x, y_)]
        return [made.intrin("add_mask", *heads, full, full, 64, *strides), made.intrin("pipe_barrier", pipe="V")]

    return made.looped(make, 1000)


def _single():
    source = "PyAsc tutorial 01_add, msprof"
    yield Row("load of 512 B", "one copy", source, A2, 195, program(_one_load, 1, 512), what="pipe", warm=False)
    yield Row("store of 512 B", "one store", source, A2, 218, program(_one_store, 512), what="pipe")
    yield Row("add of 128 f32", "one add", source, A2, 40, program(_one_op, "add", "xy", (), 2, "float32"), what="pipe")
    source = "asc-devkit add_high_performance, time of the pipe"
    cycles = lambda us, instructions: us * 1850 / instructions
    tiles = SQUARE / 4096
    yield Row("load of 8 KB", "one copy", source, A2, cycles(6208.8, 2 * tiles), program(_one_load, 1, 8192), what="pipe", warm=False)
    yield Row("store of 8 KB", "one store", source, A2, cycles(2613, tiles), program(_one_store, 8192), what="pipe")
    add = program(_one_op, "add", "xy", (), 32, "float16")
    yield Row("add of 4096 f16, read-read", "one add", source, A2, cycles(761.65, tiles), add, what="pipe")
    add = program(_one_op, "add", "xy", (), 128, "float16", apart=True)
    yield Row("add of 16384 f16, no conflict", "one add", source, A2, cycles(6.954 * 48, SQUARE / 16384), add, what="pipe")
    source = "PTO-ISA profiled cases"
    for name, published, args in (
        ("128 x 512 B", 776, (128, 512)),
        ("128 x 254 B", 519, (128, 254)),
        ("128 x 127 B", 392, (128, 127)),
        ("32 of 512 B", 8576, (1, 512, 32)),
        ("8 of 8 KB", 2624, (1, 8192, 8)),
    ):
        why = "264 cycles and 128 bytes a cycle to the last digit: a simulator's"
        yield Row(f"TLOAD {name}", "one load", source, A2, published, program(_one_load, *args), what="pipe", unfitted=why)
    for m, n, k, dtype, published in (
        (40, 60, 50, "float16", 54),
        (6, 8, 7, "int8", 7),
        (128, 64, 128, "float16", 262),
        (120, 50, 110, "float32", 902),
    ):
        one = program(_one_mmad, m, n, k, dtype)
        yield Row(f"mmad {m} x {n} x {k} {dtype}", "one mmad", source, A2, published, one, what="pipe")


def _one_load(rows: int, row_bytes: int, count: int = 1) -> Program:
    b = made.Builder("load.py")
    padded = -(-row_bytes // 32) * 32
    x = b.alloc("x", "int8", "ub", rows * padded, 0)
    A = made.gm("A", "int8", rows * row_bytes * count)
    body = []
    for i in range(count):
        body += [made.load(made.at(x, 0, 0), made.at(A, i * rows * row_bytes), rows, row_bytes), made.intrin("pipe_barrier", pipe="MTE2")]
    return made.from_ir("aiv", 1, [A], made.seq(*body), b)


def _one_store(row_bytes: int) -> Program:
    b = made.Builder("store.py")
    x = b.alloc("x", "int8", "ub", row_bytes, 0)
    A = made.gm("A", "int8", row_bytes)
    return made.from_ir("aiv", 1, [A], made.seq(made.store(made.at(A, 0), made.at(x, 0, 0), row_bytes)), b)


def _one_op(name: str, sources: str, scalars: tuple, repeats: int, dtype: str, apart: bool = False, count: int = 1) -> Program:
    """`count` dependent instructions of so many repeats on tiles whose groups are the same, or apart, each in a bank of its own."""

    def make(b):
        size = made.ITEMSIZE[dtype]
        step = 65536 + 256 if apart else 65536 - 4096
        tiles = {n: b.alloc(n, dtype, "ub", 256 // size * (repeats if apart else 256), k * step) for k, n in enumerate("xyz")}
        heads = [made.at(tiles[n], 0, 0) for n in "z" + sources]
        full = -1
        out = []
        for _ in range(count):
            left = repeats
            while left:
                now = min(left, 255)
                out.append(made.intrin(name + "_mask", *heads, *scalars, full, full, now, *[1] * len(heads), *[8] * len(heads)))
                left -= now
            if count > 1:
                out.append(made.intrin("pipe_barrier", pipe="V"))
        return out

    return made.once(make)


def _one_reduce(name: str, repeats: int, dtype: str) -> Program:
    def make(b):
        size = made.ITEMSIZE[dtype]
        x = b.alloc("x", dtype, "ub", 256 // size * repeats, 0)
        z = b.alloc("z", dtype, "ub", 256, 131072)
        return [made.intrin(name, made.at(z, 0, 0), made.at(x, 0, 0), 256 // size, repeats, 1, 1, 8)]

    return made.once(make)


def _one_mmad(m: int, n: int, k: int, dtype: str) -> Program:
    return made.once(made.mmad_once(m, n, k, dtype), core="aic")


def _vector():
    """Single tiles of PTO-ISA: an operation, repeats, dtype, cycles. The repeats are those of its rows."""
    source = "PTO-ISA profiled cases"
    f32, f16, i32, i16 = "float32", "float16", "int32", "int16"
    binary = {
        "add": ((64, f32, 132), (64, i32, 132), (32, f16, 68), (64, i16, 134)),
        "mul": ((64, f32, 154), (64, i32, 132), (32, f16, 68), (64, i16, 134)),
        "sub": ((64, f32, 153), (64, i32, 132), (32, f16, 68), (64, i16, 134)),
    }
    scalar = {
        "adds": ((32, f32, 57), (63, f16, 69), (62, i32, 70), (30, i16, 40), (49, f32, 77), (256, f32, 266)),
        "muls": ((32, f32, 58), (63, f16, 69), (62, i32, 70), (30, i16, 40), (49, f32, 77), (256, f32, 266)),
        "mins": ((64, f32, 87), (64, i32, 68), (64, i16, 70), (32, f16, 55)),
    }
    unary = {
        "abs": ((64, f32, 68), (32, f16, 36)),
        "exp": ((64, f32, 159), (32, f16, 159), (8, f16, 63), (16, f32, 63), (8, f32, 30)),
        "sqrt": ((64, f32, 160), (32, f16, 160)),
    }
    for ops, sources, kind in ((binary, "xy", ()), (scalar, "x", (0,)), (unary, "x", ())):
        for op, cases in ops.items():
            for repeats, dtype, published in cases:
                values = tuple(float(v) if dtype in (f32, f16) else v for v in kind)
                one = program(_one_op, op, sources, values, repeats, dtype)
                # A float32 addition ends 23 to 28 cycles after its last repeat, here and elsewhere; a number that is less than ten above
                # its repeats cannot have waited for the end.
                tail = published - repeats * (2 if sources == "xy" else 1)
                cut = "the published number ends before the results" if op not in ("exp", "sqrt") and tail <= 10 else ""
                name = f"T{op.upper()} {repeats} repeats {dtype}"
                yield Row(name, f"T{op.upper()}", source, A2, published, one, what="pipe", unfitted=cut)
    for name, dtype, published in (("max", f32, 480), ("max", f16, 481), ("sum", f32, 492), ("sum", f16, 495)):
        one = program(_one_reduce, f"whole_reduce_{name}", 64, dtype)
        yield Row(f"TROW{name.upper()} 64 rows {dtype}", "TROW", source, A2, published, one, what="pipe")
    for dtype, published in ((f32, 1137), (f16, 1120)):
        one = program(_one_op, "max", "xy", (), 1, dtype, apart=True, count=63)
        why = "that it is 63 maxima, one after the other, is inferred"
        yield Row(f"TCOLMAX 64 rows {dtype}", "TCOLMAX", source, A2, published, one, what="pipe", unfitted=why)


# ---- products --------------------------------------------------------------------------------------------------------------


def _gemm(chip: str, M: int, N: int, K: int, m: int, n: int, k: int, dtype: str = "float16", panel: int = 8) -> Program:
    import ml_dtypes

    kernel = made.gemm_in_panels(M, N, K, m, n, k, dtype, panel).retarget(chip)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return made.from_tilelang(kernel, [np.zeros((M, K), kind), np.zeros((K, N), kind)])


def _products():
    tile = "128 x 256 x 64 assumed"
    big = program(_gemm, A2, 8192, 8192, 8192, 128, 256, 64)
    for who, us in (("basic API", 4081), ("Matmul API, tuned", 4012)):
        yield Row(f"gemm 8192^3 f16, {who}", "gemm 8192", "asc-devkit matmul_high_performance", A2, us, big, tiling=tile)
    for who, us in (("tilelang-ascend", 3900), ("torch", 3630)):
        yield Row(f"gemm 8192^3 f16, {who}", "gemm 8192", "tilelang-ascend issue 79", A2, us, big, tiling=tile)
    one = program(_gemm, A2, 6144, 6144, 6144, 128, 256, 64)
    yield Row("gemm 6144^3 f16, PyPTO, blocks in panels", "gemm 6144", "PyPTO documentation", A2, 1600, one, tiling=tile, variant=True)
    one = program(_gemm, A2, 6144, 6144, 6144, 128, 256, 64, panel=1)
    why = "the first tiling is not in our sources"
    yield Row("gemm 6144^3 f16, PyPTO, first", "gemm 6144", "PyPTO documentation", A2, 2100, one, tiling=tile, variant=True, unfitted=why)
    one = program(_gemm, A2, 4096, 4096, 4096, 128, 256, 64)
    for who, us in (("Ascend C", 497.9), ("TileLang npuir", 501.2)):
        yield Row(f"gemm 4096^3 f16, {who}", "gemm 4096", "AscendNPU-IR README", A2, us, one, tiling=tile)
    for who, us in (("Ascend C", 3800), ("TileLang npuir", 3964)):
        yield Row(f"gemm 8 x 4096^3 f16, {who}", "gemm batch", "AscendNPU-IR README", A2, us, one, times=8, tiling=tile)
    one = program(_gemm, A3, 5416, 6144, 1408, 128, 256, 64)
    yield Row("gemm 5416 x 6144 x 1408 f16", "gemm A3", "PTO-ISA gemm_ar", A3, 365, one, tiling=tile + "; the reduction left out")
    one = program(_gemm, A3, 6144, 6144, 4608, 128, 256, 64)
    yield Row("conv2d as gemm 6144 x 6144 x 4608 f16", "conv A3", "PTO-ISA conv2d", A3, 1097.9, one, tiling=tile + "; as a product")
    one = program(_gemm, A5, 8192, 8192, 8192, 256, 256, 64)
    yield Row("950: gemm 8192^3 f16", "950 gemm", "asc-devkit matmul_high_performance", A5, 2572, one, tiling="256 x 256 x 64 assumed")
    one = program(_gemm, A5, 256, 256, 256, 64, 64, 64, "bfloat16")
    yield Row(
        "950: gemm 256^3 bf16", "950 gemm small", "PTOAS issue 1496", A5, 3.9, one, tiling="64 x 64 x 64 assumed", unfitted="chip unknown"
    )


# ---- norms, attention, stages of a network ---------------------------------------------------------------------------------


def _rms_norm(chip: str, M: int, N: int, block_M: int) -> Program:
    sys.path.insert(0, str(ROOT / "testing" / "python" / "catalogue"))
    import kernels_rows
    import ml_dtypes

    kernel = kernels_rows.rms_norm(M, N, "bfloat16", block_M=block_M).retarget(chip)
    kind = ml_dtypes.bfloat16
    return made.from_tilelang(kernel, [np.zeros((M, N), kind), np.zeros((N,), kind), np.zeros((M, N), kind)])


def _norms():
    source = "FlagGems-vllm pull request 762, Triton kernels"
    for m, n, us in ((1, 1152, 3.06), (32, 5376, 5.0), (32, 16384, 6.5)):
        one = program(_rms_norm, A2, m, n, 1)
        yield Row(f"rms_norm bf16 {m} x {n}", "rms_norm", source, A2, us, one, tiling="a row a core assumed; the SKU, too")
    one = program(_rms_norm, "Ascend950DT_9582", 512, 7168, 1)
    source = "vllm-ascend pull request 15902"
    yield Row(
        "950: rms_norm bf16 512 x 7168",
        "950 rms_norm",
        source,
        "Ascend950DT_9582",
        14.5,
        one,
        tiling="a row a core assumed",
        unfitted="fused with a cast, without its sizes",
    )


def _example(folder: str, file: str):
    """A script of examples/, as `tilelang-ascend run` imports it."""
    import importlib

    from tilelang_ascend import compat

    path = str(ROOT / "examples" / folder)
    if path not in sys.path:
        sys.path.insert(0, path)
    with compat.session():
        return importlib.import_module(file)


def _flash(chip: str, heads: int, seq: int, m: int, n: int) -> Program:
    tir = _example("flash_attention", "forward").flash_attention.get_tir(1, heads, 1, seq, 128, False, m, n)
    fast = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
    kernel = tilelang.compile(tir, out_idx=[3], target=chip, pass_configs=fast)
    q, k = np.zeros((1, heads, seq, 128), np.float16), np.zeros((1, 1, seq, 128), np.float16)
    return made.from_tilelang(kernel, [q, k, k.copy()])


def _sparse(chip: str, tasks: int, heads: int, keys: int) -> Program:
    """One token whose heads are so many tasks; every task reads rows of latent keys that a table lists."""
    kernel = _example("sparse_attention", "gathered").sparse_mla(tasks, 1, 8192, heads, 512, 64, keys, BI=64).retarget(chip)
    indices = np.random.default_rng(0).integers(0, 8192, (tasks, 1, 1, keys), np.int32)
    return made.from_tilelang(kernel, [np.zeros((tasks, 1, heads, 576), np.float16), np.zeros((tasks, 8192, 1, 576), np.float16), indices])


def _attention():
    """What was published are other schedules than ours, so nothing is fitted to these rows."""
    source = "tilelang-ascend fa_opt/bench_mark.md"
    one = program(_flash, A3, 12, 4096, 128, 128)
    for seq, expert, native in ((32, 46643, 37555), (64, 185188, 149578), (128, 741211, 600018)):
        for who, us in (("TileLang", expert), ("Ascend C", native)):
            name = f"attention {seq}K keys, 12 heads of 128, {who}"
            tiling = "128 x 128, float32 scores; 4K keys scaled"
            yield Row(name, "attention", source, A3, us, one, times=(seq / 4) ** 2, tiling=tiling, unfitted="another schedule")
    source = "tilelang-ascend bench_sfa"
    one = program(_sparse, A3, 8, 16, 2048)
    ladder = (("first version", 602), ("developer", 347), ("developer, pipelined", 127), ("expert", 109.1), ("Ascend C", 99))
    for who, us in ladder:
        name = f"sparse attention, 128 heads, 2048 keys, {who}"
        yield Row(name, "sparse attention", source, A3, us, one, tiling="8 tasks of 16 heads, 64 keys a step", unfitted="another schedule")


def _linear(n: int, k: int, cores: int) -> Program:
    """int8 weights [k, n], from GM to L1, every core so many columns: the transfers bound this product of few rows."""
    b = made.Builder("linear.py")
    W = made.gm("W", "int8", n * k)
    rows, columns = 128, n // cores // 2 if n // cores % 2 == 0 else n // cores
    columns = max(32, columns // 32 * 32)
    x = b.alloc("x", "int8", "l1", rows * columns, 0, 2)
    block, bind = made.block_index()
    i = made.Var("i", "int32")
    across = -(-n // columns)
    first, count = made.share(across * (k // rows), cores, block)
    tile = first + i
    start = (tile % (k // rows)) * (rows * n) + (tile // (k // rows)) * columns
    one = made.intrin("copy_gm_to_l1_nd2nz", made.at(x, i % 2, 0), made.at(W, start), 1, rows, columns, 0, n, rows, 1, 1)
    return made.from_ir("aic", cores, [W], made.seq(bind, made.loop(i, count, made.seq(one)), made.intrin("pipe_barrier", pipe="ALL")), b)


def _stages():
    source = "PyPTO talk, IndexerProlog"
    one = program(_linear, 8192, 1536, 24)
    yield Row(
        "int8 weights 1536 x 8192",
        "stages",
        source,
        A2,
        16,
        one,
        warm=False,
        tiling="assumed",
        unfitted="chip unknown, shares HBM with other stages",
    )


NOT_ROWS = (
    ("all cores on one address; reading again what L2 holds (828 to 366 us)", "neither shapes nor chips in our sources"),
    (
        "gemm 8192^3, first steps of the ladder (12541, 5040, 4157, 4053 us)",
        "the tilings of the steps are not in our sources; its last step is a row",
    ),
    ("transpose 8192^2 through ND2NZ (151 to 144 us)", "how the kernel transposes is not in our sources"),
    (
        "gemm tables of the PyAsc article (2560 to 11520)",
        "tiling, dtype, clock and chip unknown; times go up and down with the library's tiler",
    ),
    (
        "ReduceSum of 30000 f32 (172 and 242 ticks)",
        "how often the loop runs is not in our sources: at one run each, both are several times all vector work",
    ),
    ("PyPTO stages Dequant+RoPE, Hadamard, DynamicQuant (10, 4.5, 18 us)", "their sizes are not in our sources"),
    (
        "softmax 128 x 128 f32 on 950 (44113 to 1785 cycles), GELU (351 to 344 us)",
        "register programs; ours are made of the instructions of A2",
    ),
    ("MXFP8 and MXFP4 products on 950", "no such dtypes here"),
    ("PTO tiles TDIVS, TROWEXPAND, TSEL, TTRANS, TCOLSUM, TSORT32", "which instructions they are made of is not in our sources"),
    (
        "PTO tiles of 16 x 256 that take 14 or 32 cycles, TROWMIN in 5, TDIVS of integers in 4",
        "less than the issue of their instructions: profiles that went wrong",
    ),
    ("linear attention pieces, TopK, msprof of paged attention", "no kernel of ours does the same work"),
    ("activations on 910B3, wall clock; empty kernel on all cores, 20 us", "measured on the host: queues and synchronisation are in them"),
)
