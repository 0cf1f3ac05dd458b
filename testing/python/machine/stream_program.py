"""Write core programs instruction by instruction, and run them on the machine: no compiler involved.

`Program` collects the words of a stream (docs/ir.md section 4); `vector_add` is the well-synchronised kernel that most
tests break in one place.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

import numpy as np

from tilelang_ascend.arch import get_chip
from tilelang_ascend.isa.base import DTYPE_CODES, Space
from tilelang_ascend.isa.table import TABLE
from tilelang_ascend.sim.machine import SimOptions, Tensor, run
from tilelang_ascend.sim.report import RunResult

CHIP = get_chip("Ascend910B1")
_OPS = {name: i for i, name in enumerate(TABLE)}
# Line numbers in these tests are the numbers of the instructions, from 1, unless given.


def chip_with(**numbers):
    """The chip with other numbers."""
    quantities = dict(CHIP.quantities)
    for key, value in numbers.items():
        quantities[key] = dataclasses.replace(quantities[key], value=value)
    return dataclasses.replace(CHIP, quantities=quantities)


def operand(space: Space, offset: int, dtype: str = "float32") -> int:
    """Operand word."""
    word = int(space) << 56 | DTYPE_CODES[dtype] << 48 | offset
    return word - (1 << 64) if word >> 63 else word


def ub(offset: int, dtype: str = "float32") -> int:
    return operand(Space.UB, offset, dtype)


def gm(array: np.ndarray, offset: int = 0, dtype: str = "float32") -> int:
    return operand(Space.GM, array.ctypes.data + offset, dtype)


class Program:
    """A list of instructions. Every method returns the program, so that calls chain."""

    def __init__(self):
        self.items: list[tuple[int, int, list[int]]] = []

    def op(self, name: str, *args, line: int | None = None, **attrs: str) -> Program:
        """Append one instruction; attrs by name, operands and integers as given, floats as Python floats."""
        record = TABLE[name]
        codes = [record.attrs[a].index(str(attrs[a])) for a in record.attrs]
        words = [struct.unpack("<q", struct.pack("<d", a))[0] if isinstance(a, float) else int(a) for a in args]
        self.items.append((_OPS[name], len(self.items) + 1 if line is None else line, codes + words))
        return self

    def set(self, event: str, id: int = 0) -> Program:
        return self.op("set_flag", id, event=event)

    def wait(self, event: str, id: int = 0) -> Program:
        return self.op("wait_flag", id, event=event)

    def sync(self, event: str, id: int = 0) -> Program:
        """Set and wait."""
        return self.set(event, id).wait(event, id)

    def barrier(self, pipe: str) -> Program:
        return self.op("pipe_barrier", pipe=pipe)

    def load(self, dst: int, src: int, nbytes: int) -> Program:
        """One contiguous piece, GM to UB."""
        return self.op("copy_gm_to_ub", dst, src, 1, nbytes, 0, 0, 0, 0, 0, 0.0)

    def store(self, dst: int, src: int, nbytes: int) -> Program:
        """One contiguous piece, UB to GM."""
        return self.op("copy_ub_to_gm", dst, src, 1, nbytes, 0, 0)

    def add(self, dst: int, a: int, b: int, count: int) -> Program:
        return self.op("add", dst, a, b, count)

    def cross_set(self, id: int, mode: int = 2, pipe: str = "MTE3") -> Program:
        return self.op("cross_core_set_flag", id, mode=str(mode), pipe=pipe)

    def cross_wait(self, id: int) -> Program:
        return self.op("cross_core_wait_flag", id)

    def without(self, index: int) -> Program:
        """The same program without instruction `index`."""
        out = Program()
        out.items = self.items[:index] + self.items[index + 1 :]
        return out

    def names(self) -> list[str]:
        table = list(TABLE)
        return [table[op] for op, _, _ in self.items]

    def data(self) -> bytes:
        words = [w for op, line, args in self.items for w in (op, line, len(args), *args)]
        return struct.pack(f"<{len(words)}q", *words)


def launch(
    arrays: Sequence[tuple] | dict,
    aiv: Program | Sequence[Program] | None = None,
    aic: Program | Sequence[Program] | None = None,
    blocks: int = 1,
    chip=CHIP,
    **options,
) -> RunResult:
    """Run programs. `arrays` maps names to arrays; a tuple (array, "in" | "out" | "fresh" | "scratch") says more."""
    kind = "mix_1_2" if aic is not None and aiv is not None else "aic_only" if aic is not None else "aiv_only"
    rows = []
    for name, value in arrays.items():
        array, role = value if isinstance(value, tuple) else (value, "out")
        rows.append(Tensor(array.ctypes.data, array.nbytes, name, role != "in", role == "scratch", role == "fresh"))
    entries = {}
    for core, program in (("aic", aic), ("aiv", aiv)):
        if program is not None:
            programs = [program] if isinstance(program, Program) else program
            entries[core] = [p.data() for p in programs]
    return run(chip, kind, blocks, entries, [], rows, SimOptions(**options))


def checks(result: RunResult) -> set[str]:
    """Names of the checks that found something."""
    return {h.check for h in result.hazards}


def vector_add(a: np.ndarray, b: np.ndarray, c: np.ndarray, tiles: int = 3, n: int = 64) -> Program:
    """c = a + b in `tiles` tiles of `n` float32, single-buffered, with every flag it needs and no more."""
    p = Program()
    p.set("V_MTE2").set("MTE3_V")
    for t in range(tiles):
        at = t * n * 4
        p.wait("V_MTE2").load(ub(0), gm(a, at), n * 4).load(ub(1024), gm(b, at), n * 4).sync("MTE2_V")
        p.wait("MTE3_V").add(ub(2048), ub(0), ub(1024), n).set("V_MTE2").sync("V_MTE3")
        p.store(gm(c, at), ub(2048), n * 4).set("MTE3_V")
    return p.wait("V_MTE2").wait("MTE3_V")


def add_arrays(count: int = 192) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two inputs and an output filled with a value no sum has."""
    rng = np.random.default_rng(0)
    return rng.random(count, np.float32), rng.random(count, np.float32), np.full(count, -1, np.float32)
