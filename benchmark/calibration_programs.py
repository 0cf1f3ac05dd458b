"""Programs of the calibration (calibration_rows.py): what was measured on boards, as Ascend IR or as compiled TileLang kernels.

A program runs for its simulated time only; of the memory of its tensors it touches no more than scalar loads read.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "testing" / "python"))

import numpy as np
from ascend_ir_samples import Builder, at, flag, gm, module

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import ChipSpec
from tilelang_ascend.ir import Bind, Var, call, intrin, loop, seq, tirx
from tilelang_ascend.isa.base import ITEMSIZE
from tilelang_ascend.sim import machine
from tilelang_ascend.sim.lower import host_program
from tilelang_ascend.sim.report import RunResult

ALIGNMENT = 1 << 12


@dataclass(frozen=True)
class Program:
    """Something the machine can run on any chip with enough cores."""

    launches: Sequence[machine.Launch]
    tensors: Sequence[machine.Tensor]
    keep_alive: Any = field(default=None, repr=False)

    def run(self, chip: ChipSpec, warm: bool) -> RunResult:
        """Simulate the time."""
        return machine.run_in_order(chip, self.launches, self.tensors, machine.SimOptions.time_only(warm=warm, every_step=True))


def from_ir(core: str, blocks: int, params: Sequence, body, b: Builder, bypass: Sequence[str] = ()) -> Program:
    """A program from the statements of one kind of core; its parameters are flat buffers."""
    kind = f"{core}_only"
    compiled = host_program(module(b.function("measured", core, kind, params, body)))
    sizes = [int(p.ty.shape[0]) * ITEMSIZE[str(p.ty.dtype)] for p in params]
    memory = [np.empty(size + ALIGNMENT, np.uint8) for size in sizes]
    words = [-(-m.ctypes.data // ALIGNMENT) * ALIGNMENT for m in memory]
    tensors = [machine.Tensor(word, size, p.name, bypass_l2=p.name in bypass) for p, word, size in zip(params, words, sizes)]
    return Program([machine.Launch(kind, blocks, compiled.entries, words)], tensors, (compiled, memory))


def from_tilelang(kernel, arrays: Sequence[np.ndarray]) -> Program:
    """A program from a compiled kernel and its arguments, of which only shapes count. Run it on other numbers than it was compiled for,
    and the compiler's choices stay those of the chip data."""
    from tilelang_ascend.runtime import simulation
    from tilelang_ascend.runtime.arguments import bind

    artifact = kernel.artifact
    launch = bind(artifact.signature, artifact.name, arrays)
    memory = simulation._Memory(launch)
    launches = [
        machine.Launch(step.kernel_type, step.block_dim, program.entries, [memory.word(slot, step.block_dim) for slot in step.abi])
        for step, program in zip(artifact.steps, simulation.programs_of(artifact))
    ]
    return Program(launches, list(memory.tensors), (artifact, launch, memory))


# ---- statements ----------------------------------------------------------------------------------------------------------


def load(ub, source, rows: int, row_bytes: int, gap: int = 0):
    """GM to UB: rows of so many bytes, so many bytes apart."""
    return intrin("copy_gm_to_ub", ub, source, rows, row_bytes, gap, 0, 0, 0, 0, 0.0)


def store(target, ub, row_bytes: int):
    """UB to GM, one piece."""
    return intrin("copy_ub_to_gm", target, ub, 1, row_bytes, 0, 0)


def block_index() -> tuple[Var, Bind]:
    """The variable of the core's number, and its definition."""
    block = Var("block", "int32")
    return block, Bind(block, call("ascend.get_block_idx", [], dtype="int32"))


def share(total: int, cores: int, block):
    """Contiguous parts: first tile and number of tiles of a core."""
    each = -(-total // cores)
    first = block * each
    return first, tirx.max(tirx.min(first + each, total) - first, 0)


# ---- vector kernels ------------------------------------------------------------------------------------------------------


def vector_add(
    elements: int,
    cores: int,
    tile: int,
    *,
    versions: int = 1,
    dtype: str = "float16",
    apart: bool = False,
    bypass: Sequence[str] = (),
    shared: bool = True,
    flags_at_once: bool = False,
) -> Program:
    """C = A + B in tiles of `tile` elements.

    apart: the sources lie in different halves of the UB bank groups.
    shared: `elements` are those of all cores (contiguous parts); otherwise of each core.
    flags_at_once: every flag is waited for right behind its set, on the next pipe, and nothing is set in front of the loop.
    """
    b = Builder("add.py")
    size = ITEMSIZE[dtype]
    total = elements if shared else elements * cores
    A, B, C = (gm(name, dtype, total) for name in "ABC")
    skew = 256 if apart else 0
    step = versions * tile * size
    x = b.alloc("x", dtype, "ub", tile, 0, versions)
    y = b.alloc("y", dtype, "ub", tile, step + skew, versions)
    z = b.alloc("z", dtype, "ub", tile, 2 * step + 2 * skew, versions)
    block, bind = block_index()
    i, v, start = Var("i", "int32"), Var("v", "int32"), Var("start", "int32")
    first, count = share(-(-elements // tile), cores, block) if shared else (block * (elements // tile), elements // tile)
    to = lambda event: [] if flags_at_once else flag("wait", event, v)
    back = lambda event: [] if flags_at_once else flag("set", event, v)
    steps = [
        Bind(v, i % versions),
        Bind(start, (first + i) * tile),
        to("V_MTE2"),
        load(at(x, v, 0), at(A, start), 1, tile * size),
        load(at(y, v, 0), at(B, start), 1, tile * size),
        flag("set", "MTE2_V", v),
        flag("wait", "MTE2_V", v),
        to("MTE3_V"),
        intrin("add", at(z, v, 0), at(x, v, 0), at(y, v, 0), tile),
        back("V_MTE2"),
        flag("set", "V_MTE3", v),
        flag("wait", "V_MTE3", v),
        store(at(C, start), at(z, v, 0), tile * size),
        back("MTE3_V"),
        [flag("set", "MTE3_MTE2", v), flag("wait", "MTE3_MTE2", v)] if flags_at_once else [],
    ]
    around = [] if flags_at_once else [(event, n) for event in ("V_MTE2", "MTE3_V") for n in range(versions)]
    body = seq(
        bind,
        [flag("set", event, n) for event, n in around],
        loop(i, count, seq(*steps)),
        [flag("wait", event, n) for event, n in around],
        intrin("pipe_barrier", pipe="ALL"),
    )
    return from_ir("aiv", cores, [A, B, C], body, b, bypass)


def scalar_add(elements: int) -> Program:
    """C = A + B element by element on one core."""
    b = Builder("scalar_add.py")
    A, B, C = (gm(name, "float16", elements) for name in "ABC")
    i, x, y = Var("i", "int32"), Var("x", "float16"), Var("y", "float16")
    steps = [
        Bind(x, intrin_value("get_value", at(A, i), "float16")),
        Bind(y, intrin_value("get_value", at(B, i), "float16")),
        intrin("set_value", at(C, i), x + y),
    ]
    return from_ir("aiv", 1, [A, B, C], loop(i, elements, seq(*steps)), b)


def intrin_value(name: str, operand, dtype: str):
    """A call that returns a value."""
    return call(f"ascend.{name}", [operand], dtype=dtype)


def read_to_ub(n: int, cores: int, rows: int, columns: int, dtype: str = "float16", pitch: int | None = None) -> Program:
    """Read an n x n matrix in tiles of rows x columns, two tiles in turn; `pitch` elements a row (n by default)."""
    b = Builder("read.py")
    pitch = pitch or n
    size = ITEMSIZE[dtype]
    A = gm("A", dtype, n * pitch)
    x = b.alloc("x", dtype, "ub", rows * columns, 0, 2)
    block, bind = block_index()
    i, tile = Var("i", "int32"), Var("tile", "int32")
    across = -(-n // columns)
    first, count = share(-(-n // rows) * across, cores, block)
    start = (tile // across) * (rows * pitch) + (tile % across) * columns
    one = load(at(x, i % 2, 0), at(A, start), rows, columns * size, (pitch - columns) * size)
    body = seq(bind, loop(i, count, seq(Bind(tile, first + i), one)), intrin("pipe_barrier", pipe="ALL"))
    return from_ir("aiv", cores, [A], body, b)


def read_to_l1(n: int, cores: int, rows: int, columns: int, dtype: str = "float16", pitch: int | None = None) -> Program:
    """The same into L1 in NZ layout."""
    b = Builder("read_l1.py")
    pitch = pitch or n
    A = gm("A", dtype, n * pitch)
    x = b.alloc("x", dtype, "l1", rows * columns, 0, 2)
    block, bind = block_index()
    i, tile = Var("i", "int32"), Var("tile", "int32")
    across = -(-n // columns)
    first, count = share(-(-n // rows) * across, cores, block)
    start = (tile // across) * (rows * pitch) + (tile % across) * columns
    one = intrin("copy_gm_to_l1_nd2nz", at(x, i % 2, 0), at(A, start), 1, rows, columns, 0, pitch, rows, 1, 1)
    body = seq(bind, loop(i, count, seq(Bind(tile, first + i), one)), intrin("pipe_barrier", pipe="ALL"))
    return from_ir("aic", cores, [A], body, b)


def mmad_once(m: int, n: int, k: int, dtype: str, rounds: int = 1) -> Callable[[Builder], list]:
    """Products of operands that lie in L0."""

    def make(b: Builder):
        up = lambda value, to: -(-value // to) * to
        k0 = 32 // ITEMSIZE[dtype]
        x = b.alloc("x", dtype, "l0a", up(m, 16) * up(k, k0), 0)
        y = b.alloc("y", dtype, "l0b", up(k, k0) * up(n, 16), 0)
        z = b.alloc("z", "int32" if dtype == "int8" else "float32", "l0c", up(m, 16) * up(n, 16), 0)
        return [intrin("mmad", at(z, 0, 0), at(x, 0, 0), at(y, 0, 0), m, n, k, 0, 0, 1) for _ in range(rounds)]

    return make


def looped(make: Callable[[Builder], Sequence], times: int, core: str = "aiv") -> Program:
    """Statements that `make` writes, again and again on one core."""
    b = Builder("looped.py")
    i = Var("i", "int32")
    body = make(b)
    return from_ir(core, 1, [gm("unused", "int8", 512)], loop(i, times, seq(*body)), b)


def once(make: Callable[[Builder], Sequence], core: str = "aiv") -> Program:
    """Statements that `make` writes, on one core."""
    b = Builder("once.py")
    body = make(b)
    return from_ir(core, 1, [gm("unused", "int8", 512)], seq(*body), b)


# ---- TileLang ------------------------------------------------------------------------------------------------------------


@tilelang.jit(out_idx=[-1])
def gemm_in_panels(M, N, K, m, n, k, dtype="float16", panel=8):
    """C = A @ B; blocks go down `panel` rows of tiles before the next column, as hand-written kernels do for L2."""
    across, down = -(-N // n), -(-M // m)

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(across * down, threads=128) as block:
            first = block // (panel * across) * panel
            height = T.min(panel, down - first)
            by = first + block % (panel * across) % height
            bx = block % (panel * across) // height
            A_shared = T.alloc_shared((m, k), dtype)
            B_shared = T.alloc_shared((k, n), dtype)
            C_local = T.alloc_fragment((m, n), "float32")
            T.clear(C_local)
            for step in T.Pipelined(T.ceildiv(K, k), num_stages=3):
                T.copy(A[by * m, step * k], A_shared)
                T.copy(B[step * k, bx * n], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * m, bx * n])

    return gemm
