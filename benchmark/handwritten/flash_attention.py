"""Flash attention forward written by hand in Ascend IR: what the machine model allows, beside what the compiler makes of GPU source.

A block of 128 queries and steps of 512 keys, head size 128, float16. The cube core works on 128 keys at a time; scores, weights and products cross
between the cores once a step, through rings of three slots. Step g of the cube core computes scores g and the product of step g - 2, step g of the
vector cores softmax g and the sum of step g - 2 (CATLASS example 23 does the same). Only three flags between the cores, all forward: whoever
overwrites a slot has waited for a flag that was set behind its last reader. Steps of one block of queries follow those of the one before without a
gap: its last two products run beside the first two scores of the next.

    python benchmark/handwritten/flash_attention.py --heads 3 --seq 4096
    python benchmark/handwritten/flash_attention.py --check
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "testing" / "python"))

import numpy as np
from ascend_ir_samples import CHIP, Builder, at, flag, gm, module

from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import Bind, Var, call, if_then, intrin, loop, seq
from tilelang_ascend.sim import machine
from tilelang_ascend.sim.lower import host_program

ROWS, KEYS, DIM, PART = 128, 512, 128, 128
"""Queries of a block, keys of a step, head size, keys of a part of a step (one tile of the cube core)."""
PARTS = KEYS // PART
SKEW = 4
"""Steps from scores to product."""
RING = SKEW + 1
"""Slots of the workspaces."""
HALF = ROWS // 2
"""Queries of one vector core."""
SCORES, WEIGHTS, SUMS = 0, 1, 2
"""Flags between the cores: scores are in GM, weights are, products are."""
SLICE = 16
"""Rows of scores in one slot of UB."""
LINE = 8
"""Rows the vector unit works on at a time, in float32."""
SLICES = HALF // SLICE
ALL = (0, -1)
"""Mask of 64 lanes."""
FULL = (-1, -1)
"""Mask of 128 lanes."""
LOWEST = -3.0e38


@dataclass(frozen=True)
class Size:
    """heads, queries and keys of a head, cores."""

    heads: int
    seq: int
    cores: int

    @property
    def steps(self) -> int:
        """Steps of a block of queries."""
        return self.seq // KEYS

    @property
    def tasks(self) -> int:
        """Blocks of queries of all heads."""
        return self.heads * self.seq // ROWS

    def __post_init__(self):
        assert self.seq % KEYS == 0 and self.steps > SKEW, "keys are a multiple of 512, more than four of them"


def each(size: Size, block, step, drain):
    """Both kinds of cores run the same loops: blocks of queries dealt out to the cores, steps of each, and what is left at the end.

    step(i, t, last) for step t of the i-th block of this core; drain(i, rest) for the two steps behind the last."""
    count, i, t = Var("count", "int32"), Var("i", "int32"), Var("t", "int32")
    n = size.steps
    inner = [[step(count, i, k) for k in range(SKEW)], loop(t, n - 1 - SKEW, step(count, i, t + SKEW)), step(count, i, n - 1)]
    return [
        Bind(count, (size.tasks - block + size.cores - 1) // size.cores),
        loop(i, count, seq(*inner)),
        [drain(count, k) for k in range(SKEW)],
    ]


def before(size: Size, i, t, by: int):
    """(condition, block, step) of the step `by` before step t of block i. A step is a number, or an expression of at least `by`."""
    if isinstance(t, int) and t < by:
        return i > 0, i - 1, size.steps + t - by
    return None, i, t - by


def after(size: Size, count, i, t):
    """(condition, block, step) of the next step."""
    if isinstance(t, int) and t == size.steps - 1:
        return i + 1 < count, i + 1, 0
    return None, i, t + 1


def when(where, rows):
    """Statements for a step that may not exist."""
    return rows if where[0] is None or not rows else if_then(where[0], seq(rows))


# ---- cube core -----------------------------------------------------------------------------------------------------------

K_SLOTS, P_SLOTS = 2, 6
"""Parts of keys in L1, and of weights with values."""
KA, KB, VA, VB, PA, QA = range(6)
"""Flags of places in L0: halves of keys, of values, weights, queries."""
SA, SB, OA, OB = range(4)
"""Flags of quarters of L0C: halves of a part of the scores, halves of the product."""


class Cube:
    """Program of the cube core."""

    def __init__(self, size: Size, scores: str):
        self.size, self.b, self.scores = size, Builder("flash_attention.py"), scores
        total = size.heads * size.seq * DIM
        self.Q, self.K, self.V, self.O = (gm(name, "float16", total) for name in "QKVO")
        self.spaces = [
            gm("scores", scores, size.cores * RING * ROWS * KEYS),
            gm("weights", "float16", size.cores * RING * ROWS * KEYS),
            gm("sums", "float32", size.cores * RING * ROWS * DIM),
        ]
        tile = 128 * 128
        alloc = self.b.alloc
        self.q1 = alloc("q_l1", "float16", "l1", tile, 0)
        self.k1 = alloc("k_l1", "float16", "l1", tile, 2 * tile, K_SLOTS)
        self.v1 = alloc("v_l1", "float16", "l1", tile, (2 + 2 * K_SLOTS) * tile, P_SLOTS)
        self.p1 = alloc("p_l1", "float16", "l1", tile, (2 + 2 * K_SLOTS + 2 * P_SLOTS) * tile, P_SLOTS)
        self.q0 = alloc("q_l0", "float16", "l0a", tile, 0)
        self.p0 = alloc("p_l0", "float16", "l0a", tile, 2 * tile)
        self.k0 = alloc("k_l0", "float16", "l0b", tile // 2, 0, 2)
        self.v0 = alloc("v_l0", "float16", "l0b", tile // 2, 2 * tile, 2)
        self.s0 = alloc("s_l0", "float32", "l0c", tile // 2, 0, 2)
        self.o0 = alloc("o_l0", "float32", "l0c", tile // 2, 4 * tile, 2)
        self.block = Var("block", "int32")

    def task(self, i):
        """First element of a head's keys, and of the block's queries, in K and Q."""
        task = i * self.size.cores + self.block
        per_head = self.size.seq // ROWS
        return task // per_head * (self.size.seq * DIM), task * (ROWS * DIM)

    def slot(self, i, t):
        """Slot of step t of block i."""
        return self.block * RING + (i * self.size.steps + t) % RING

    # -- loads, in the order of their use

    def load_queries(self, i):
        _, first = self.task(i)
        return intrin("copy_gm_to_l1_nd2nz", at(self.q1, 0, 0), at(self.Q, first), 1, ROWS, DIM, 0, DIM, ROWS, 1, 1)

    def load_keys(self, i, t, part: int):
        head, _ = self.task(i)
        first = head + (t * KEYS + part * PART) * DIM
        rows = PART // 2
        return [
            flag("wait", "MTE1_MTE2", part % K_SLOTS),
            intrin(
                "copy_gm_to_l1_nd2nz", at(self.k1, part % K_SLOTS, 0), at(self.K, first), 2, rows, DIM, rows * DIM, DIM, rows, 1, rows * DIM
            ),
            flag("set", "MTE2_MTE1", part % K_SLOTS),
        ]

    def place(self, i, t, part: int):
        """Slot in L1 of a part of weights and values."""
        return ((i * self.size.steps + t) * PARTS + part) % P_SLOTS

    def load_values(self, i, t, part: int):
        head, _ = self.task(i)
        place = self.place(i, t, part)
        first = head + (t * KEYS + part * PART) * DIM
        weights = at(self.spaces[WEIGHTS], self.slot(i, t) * (ROWS * KEYS) + part * PART)
        return [
            flag("wait", "MTE1_MTE2", K_SLOTS + place),
            intrin("copy_gm_to_l1_nd2nz", at(self.v1, place, 0), at(self.V, first), 1, PART, DIM, 0, DIM, PART, 1, 1),
            intrin("cross_core_wait_flag", WEIGHTS) if part == 0 else [],
            intrin("copy_gm_to_l1_nd2nz", at(self.p1, place, 0), weights, 1, ROWS, PART, 0, KEYS, ROWS, 1, 1),
            flag("set", "MTE2_MTE1", K_SLOTS + place),
        ]

    # -- products

    def queries_to_l0(self, i):
        r = Var("r", "int32")
        return [
            flag("wait", "M_MTE1", QA),
            loop(r, 8, intrin("load_l0a", at(self.q0, 0, r * (8 * 256)), at(self.q1, 0, r * 256), 0, 8, 8, 0, 0)),
        ]

    def score(self, i, t, m: int):
        """Scores of 64 keys."""
        part, h = divmod(m, 2)
        first = isinstance(t, int) and t == 0 and m == 0
        last = isinstance(t, int) and t == self.size.steps - 1 and m == 2 * PARTS - 1
        target = at(self.spaces[SCORES], self.slot(i, t) * (ROWS * KEYS) + m * (PART // 2))
        return [
            flag("wait", "MTE2_MTE1", part % K_SLOTS) if h == 0 else [],
            self.queries_to_l0(i) if first else [],
            flag("wait", "M_MTE1", KA + h),
            intrin("load_l0b", at(self.k0, h, 0), at(self.k1, part % K_SLOTS, h * (PART // 2 * DIM)), 0, 32, 1, 0, 0),
            flag("set", "MTE1_M", KA + h),
            flag("set", "MTE1_MTE2", part % K_SLOTS) if h == 1 else [],
            flag("wait", "MTE1_M", KA + h),
            flag("wait", "FIX_M", SA + h),
            intrin("mmad", at(self.s0, h, 0), at(self.q0, 0, 0), at(self.k0, h, 0), ROWS, PART // 2, DIM, 0, 0, 1),
            flag("set", "M_MTE1", KA + h),
            flag("set", "M_MTE1", QA) if last else [],
            flag("set", "M_FIX", SA + h),
            flag("wait", "M_FIX", SA + h),
            intrin(
                "fixpipe_to_gm",
                target,
                at(self.s0, h, 0),
                PART // 2,
                ROWS,
                ROWS,
                KEYS,
                0,
                quant="f32_f16" if self.scores == "float16" else "none",
            ),
            flag("set", "FIX_M", SA + h),
            intrin("cross_core_set_flag", SCORES, mode="2", pipe="FIX") if m == 2 * PARTS - 1 else [],
        ]

    def product(self, i, t, m: int):
        """Adds 128 keys to 64 columns of the product: all keys for the first half of the columns, then for the second."""
        half, part = divmod(m, PARTS)
        place, v = self.place(i, t, part), m % 2
        r, k = Var("r", "int32"), Var("k", "int32")
        target = at(self.spaces[SUMS], self.slot(i, t) * (ROWS * DIM) + half * (DIM // 2))
        out = [
            flag("set", "M_FIX", OA + half),
            flag("wait", "M_FIX", OA + half),
            intrin("fixpipe_to_gm", target, at(self.o0, half, 0), DIM // 2, ROWS, ROWS, DIM, 0, quant="none"),
            flag("set", "FIX_M", OA + half),
        ]
        return [
            flag("wait", "MTE2_MTE1", K_SLOTS + place) if half == 0 else [],
            flag("wait", "M_MTE1", PA),
            loop(r, 8, intrin("load_l0a", at(self.p0, 0, r * (8 * 256)), at(self.p1, place, r * 256), 0, 8, 8, 0, 0)),
            flag("wait", "M_MTE1", VA + v),
            loop(k, 8, intrin("load_l0b", at(self.v0, v, k * (4 * 256)), at(self.v1, place, (4 * half * 8 + k) * 256), 0, 4, 8, 0, 1)),
            flag("set", "MTE1_M", VA + v),
            flag("set", "MTE1_MTE2", K_SLOTS + place) if half == 1 else [],
            flag("wait", "MTE1_M", VA + v),
            flag("wait", "FIX_M", OA + half) if part == 0 else [],
            intrin("mmad", at(self.o0, half, 0), at(self.p0, 0, 0), at(self.v0, v, 0), ROWS, DIM // 2, PART, 0, 0, int(part == 0)),
            flag("set", "M_MTE1", VA + v),
            flag("set", "M_MTE1", PA),
            out if part == PARTS - 1 else [],
            intrin("cross_core_set_flag", SUMS, mode="2", pipe="FIX") if m == 2 * PARTS - 1 else [],
        ]

    # -- steps

    def step(self, count, i, t):
        late, next_ = before(self.size, i, t, SKEW), after(self.size, count, i, t)
        next_late = before(self.size, i, t, SKEW - 1)
        rows = []
        for m in range(2 * PARTS):
            part = m // 2
            if m % 2 == 0 and part + 1 < PARTS:
                rows.append(self.load_keys(i, t, part + 1))
            elif m % 2 == 0:
                last = isinstance(t, int) and t == self.size.steps - 1
                rows.append(when(next_, [self.load_queries(next_[1]) if last else [], self.load_keys(next_[1], next_[2], 0)]))
            elif part == 0:
                rows.append(when(late, self.load_values(late[1], late[2], PARTS - 1)))
            else:
                rows.append(when(next_late, self.load_values(next_late[1], next_late[2], part - 1)))
            rows += [self.score(i, t, m), when(late, self.product(late[1], late[2], m))]
        return seq(*rows)

    def drain(self, count, k: int):
        i, t = count - 1, self.size.steps - SKEW + k
        rows = []
        for m in range(2 * PARTS):
            if m == 1:
                rows.append(self.load_values(i, t, PARTS - 1))
            elif m % 2 and k + 1 < SKEW:
                rows.append(self.load_values(i, t + 1, m // 2 - 1))
            rows.append(self.product(i, t, m))
        return seq(*rows)

    def function(self):
        free = [("MTE1_MTE2", n) for n in range(K_SLOTS + P_SLOTS)] + [("M_MTE1", n) for n in range(6)] + [("FIX_M", n) for n in range(4)]
        zero = 0
        body = seq(
            Bind(self.block, call("ascend.get_block_idx", [], dtype="int32")),
            [flag("set", *f) for f in free],
            self.load_queries(zero),
            self.load_keys(zero, zero, 0),
            each(self.size, self.block, self.step, self.drain),
            [flag("wait", *f) for f in free],
        )
        params = [self.Q, self.K, self.V, self.O, *self.spaces]
        return self.b.function("flash_attention", "aic", "mix_1_2", params, body, workspaces(self.scores))


def workspaces(scores: str) -> list[int]:
    """Bytes a block."""
    return [RING * ROWS * KEYS * (2 if scores == "float16" else 4), RING * ROWS * KEYS * 2, RING * ROWS * DIM * 4]


# ---- vector cores --------------------------------------------------------------------------------------------------------

S_SLOTS = 5
KIB = 1024
P_LATE, P_FLAGS = 2, (5, 6)
"""Pieces of products on their way to UB, and their flags."""
BARRIER = intrin("pipe_barrier", pipe="V")


class Vector:
    """Program of a vector core for scores in float16."""

    def __init__(self, size: Size, cube: Cube):
        self.size, self.cube, self.b = size, cube, Builder("flash_attention.py")
        alloc = self.b.alloc
        self.s = alloc("s", "float16", "ub", SLICE * KEYS, 0, S_SLOTS)
        self.w = alloc("w", "float32", "ub", LINE * KEYS, 80 * KIB, 2)
        self.o = alloc("o", "float32", "ub", HALF * DIM, 112 * KIB)
        self.fold = alloc("fold", "float16", "ub", HALF * 128, 144 * KIB)
        self.wide = alloc("wide", "float32", "ub", HALF * 64, 144 * KIB)
        self.out = alloc("out", "float16", "ub", HALF * DIM, 144 * KIB)
        self.fold2 = alloc("fold2", "float16", "ub", HALF * 64, 160 * KIB)
        self.max8 = alloc("max8", "float32", "ub", HALF * 8, 160 * KIB)
        self.sum64 = alloc("sum64", "float32", "ub", LINE * 64, 162 * KIB, 2)
        self.sum8 = alloc("sum8", "float32", "ub", LINE * 8, 166 * KIB, 2)
        self.p = alloc("p", "float32", "ub", LINE * DIM, 168 * KIB + 256, 2)
        place = 168 * KIB + 256 + 2 * LINE * DIM * 4
        for name, versions, elements in (
            ("negative", 1, HALF * 8),
            ("factors", 1, HALF * 8),
            ("scale", 1, 64),
            ("greatest", 2, HALF),
            ("total", 2, HALF),
            ("factor", RING, HALF),
            ("change", 1, HALF),
            ("scaled", 1, HALF),
            ("added", 1, HALF),
            ("row_max", 1, HALF),
        ):
            setattr(self, name, alloc(name, "float32", "ub", elements, place, versions))
            place += versions * elements * 4
        assert place <= get_chip(CHIP).ub_capacity_bytes - get_chip(CHIP).ub_reserved_bytes
        self.block, self.sub = Var("block", "int32"), Var("sub", "int32")

    def number(self, i, t):
        """Steps of this core before step t of block i."""
        return i * self.size.steps + t

    def slot(self, i, t):
        return self.block * RING + self.number(i, t) % RING

    def place(self, i, t, j: int):
        """Slot in UB of slice j."""
        return (self.number(i, t) * SLICES + j) % S_SLOTS

    def load_scores(self, i, t, j: int):
        place = self.place(i, t, j)
        first = self.slot(i, t) * (ROWS * KEYS) + (self.sub * HALF + j * SLICE) * KEYS
        return [
            intrin("cross_core_wait_flag", SCORES) if j == 0 else [],
            flag("wait", "MTE3_MTE2", place),
            intrin("copy_gm_to_ub", at(self.s, place, 0), at(self.cube.spaces[SCORES], first), 1, SLICE * KEYS * 2, 0, 0, 0, 0, 0, 0.0),
            flag("set", "MTE2_V", place),
        ]

    def load_product(self, i, t, line: int):
        first = self.slot(i, t) * (ROWS * DIM) + (self.sub * HALF + line * LINE) * DIM
        buffer = line % P_LATE
        return [
            flag("wait", "V_MTE2", P_FLAGS[buffer]),
            intrin("copy_gm_to_ub", at(self.p, buffer, 0), at(self.cube.spaces[SUMS], first), 1, LINE * DIM * 4, 0, 0, 0, 0, 0, 0.0),
            flag("set", "MTE2_V", P_FLAGS[buffer]),
        ]

    def add_product(self, late, line: int):
        """output = output * factor + product, a row at a time; the load of the next line that has its place."""
        buffer, r = line % P_LATE, Var("r", "int32")
        row = intrin(
            "fused_mul_add_mask",
            at(self.o, 0, line * (LINE * DIM) + r * DIM),
            at(self.factors, 0, line * (LINE * 8) + r * 8),
            at(self.p, buffer, r * DIM),
            *ALL,
            2,
            1,
            0,
            1,
            8,
            0,
            8,
        )
        again = self.load_product(late[1], late[2], line + P_LATE) if line + P_LATE < HALF // LINE else []
        return [flag("wait", "MTE2_V", P_FLAGS[buffer]), loop(r, LINE, row), flag("set", "V_MTE2", P_FLAGS[buffer]), again]

    def maxima(self, i, t):
        """Maxima of rows, factor, and minus the scaled maxima in blocks: lists of statements with a barrier behind each."""
        number = self.number(i, t)
        old, new = number % 2, (number + 1) % 2

        def fold(j, first, second, wait):
            place = self.place(i, t, j)
            source = at(self.s, place, 0) if first is None else first
            return [
                flag("wait", "MTE2_V", place) if wait else [],
                intrin(
                    "max_mask",
                    at(self.fold, 0, j * SLICE * 128),
                    source,
                    at(self.s, place, second * 128),
                    *FULL,
                    SLICE,
                    1,
                    1,
                    1,
                    8,
                    32 if first is None else 8,
                    32,
                ),
            ]

        reset = isinstance(t, int) and t == 0
        yield [
            [intrin("duplicate", at(self.greatest, old, 0), LOWEST, HALF), intrin("duplicate", at(self.total, i % 2, 0), 0.0, HALF)]
            if reset
            else [],
            flag("wait", "MTE3_V", 0),
            [fold(j, None, 1, True) for j in range(SLICES)],
        ]
        for second in (2, 3):
            yield [fold(j, at(self.fold, 0, j * SLICE * 128), second, False) for j in range(SLICES)]
        yield [
            intrin("max_mask", at(self.fold2, 0, 0), at(self.fold, 0, 0), at(self.fold, 0, 64), *ALL, HALF, 1, 1, 1, 4, 8, 8),
            self.widen(i, t, 0),
        ]
        yield intrin("cast", at(self.wide, 0, 0), at(self.fold2, 0, 0), HALF * 64, round="none")
        yield intrin("block_reduce_max", at(self.max8, 0, 0), at(self.wide, 0, 0), HALF, 64, 1, 1, 8)
        yield intrin("block_reduce_max", at(self.row_max, 0, 0), at(self.max8, 0, 0), 8, 64, 1, 1, 8)
        yield intrin("max", at(self.greatest, new, 0), at(self.greatest, old, 0), at(self.row_max, 0, 0), HALF)
        yield [
            intrin("sub", at(self.change, 0, 0), at(self.greatest, old, 0), at(self.greatest, new, 0), HALF),
            intrin("muls", at(self.scaled, 0, 0), at(self.greatest, new, 0), -(DIM**-0.5), HALF),
        ]
        yield [
            intrin("muls", at(self.change, 0, 0), at(self.change, 0, 0), DIM**-0.5, HALF),
            intrin("brcb", at(self.negative, 0, 0), at(self.scaled, 0, 0), 8, 1, 8),
        ]
        yield [intrin("exp", at(self.factor, number % RING, 0), at(self.change, 0, 0), HALF), self.shift(0)]

    # -- eight rows of scores

    def line_of(self, i, t, k: int):
        """Where line k of the scores lies."""
        return at(self.s, self.place(i, t, k * LINE // SLICE), k * LINE % SLICE * KEYS)

    def widen(self, i, t, k: int):
        return intrin("cast", at(self.w, k % 2, 0), self.line_of(i, t, k), LINE * KEYS, round="none")

    def shift(self, k: int):
        """scores * scale - maximum, a row at a time."""
        r = Var("r", "int32")
        row = intrin(
            "fused_mul_add_mask",
            at(self.w, k % 2, r * KEYS),
            at(self.scale, 0, 0),
            at(self.negative, 0, k * (LINE * 8) + r * 8),
            *ALL,
            8,
            1,
            0,
            0,
            8,
            0,
            0,
        )
        return loop(r, LINE, row)

    def exponent(self, k: int):
        return intrin("exp", at(self.w, k % 2, 0), at(self.w, k % 2, 0), LINE * KEYS)

    def narrow(self, i, t, k: int):
        return [
            intrin("cast", self.line_of(i, t, k), at(self.w, k % 2, 0), LINE * KEYS, round="rint"),
            intrin("block_reduce_sum", at(self.sum64, k % 2, 0), at(self.w, k % 2, 0), LINE * KEYS // 64, 64, 1, 1, 8),
        ]

    def store(self, i, t, k: int):
        """Weights of a slice, when its second line is ready."""
        if (k + 1) * LINE % SLICE:
            return []
        j = k * LINE // SLICE
        place = self.place(i, t, j)
        first = self.slot(i, t) * (ROWS * KEYS) + (self.sub * HALF + j * SLICE) * KEYS
        return [
            flag("set", "V_MTE3", place),
            flag("wait", "V_MTE3", place),
            intrin("copy_ub_to_gm", at(self.cube.spaces[WEIGHTS], first), at(self.s, place, 0), 1, SLICE * KEYS * 2, 0, 0),
            flag("set", "MTE3_MTE2", place),
            intrin("cross_core_set_flag", WEIGHTS, mode="2", pipe="MTE3") if j == SLICES - 1 else [],
        ]

    def sums(self, k: int, level: int):
        if level == 1:
            return intrin("block_reduce_sum", at(self.sum8, k % 2, 0), at(self.sum64, k % 2, 0), LINE, 64, 1, 1, 8)
        return intrin("block_reduce_sum", at(self.added, 0, k * LINE), at(self.sum8, k % 2, 0), 1, 64, 1, 1, 8)

    def step(self, count, i, t):
        late = before(self.size, i, t, SKEW)
        lines = HALF // LINE
        start = lines // 2 - 1
        next_ = after(self.size, count, i, t)
        rows = []
        past = before(self.size, i, t, 1)
        rest = self.rest_of_sums(past[1], past[2])
        for n, group in enumerate(self.maxima(i, t)):
            rows += [group, when(past, rest[n]) if n < len(rest) else [], BARRIER]
        first_out = isinstance(t, int) and t == SKEW - 1
        for k in range(lines):
            rows += [
                self.exponent(k),
                self.widen(i, t, k + 1) if k + 1 < lines else [],
                self.sums(k - 1, 1) if k else [],
                when(late, self.add_product(late, 2 * (k - start - 1))) if k > start else [],
                BARRIER,
                self.narrow(i, t, k),
                self.store(i, t, k),
                flag("set", "MTE3_V", 0) if k == 1 and not first_out else [],
                self.shift(k + 1) if k + 1 < lines else [],
                self.sums(k - 1, 2) if k else [],
                when(late, self.add_product(late, 2 * (k - start - 1) + 1)) if k > start else [],
            ]
            if k == start - 1:
                rows.append(when(late, [self.late_factor(late), [self.load_product(late[1], late[2], x) for x in range(P_LATE)]]))
            rows.append(when(next_, [self.load_scores(next_[1], next_[2], j) for j in {3: (0, 1), 4: (2,), 6: (3,)}.get(k, ())]))
            rows.append(BARRIER)
        if first_out:
            rows += [when(late, self.finish(i - 1)), flag("set", "MTE3_V", 0), BARRIER]
        return seq(*rows)

    def rest_of_sums(self, i, t):
        """What is left of the sums of a step: three lists, with a barrier behind each."""
        last = HALF // LINE - 1
        total = intrin("fused_mul_add", at(self.total, i % 2, 0), at(self.factor, self.number(i, t) % RING, 0), at(self.added, 0, 0), HALF)
        return [self.sums(last, 1), self.sums(last, 2), total]

    def late_factor(self, late):
        """Waits for a product; its factors in blocks."""
        return [
            intrin("cross_core_wait_flag", SUMS),
            intrin("brcb", at(self.factors, 0, 0), at(self.factor, self.number(late[1], late[2]) % RING, 0), 8, 1, 8),
        ]

    def finish(self, i):
        """Divides by the sums and stores."""
        r = Var("r", "int32")
        task = i * self.size.cores + self.block
        return [
            intrin("brcb", at(self.factors, 0, 0), at(self.total, i % 2, 0), 8, 1, 8),
            BARRIER,
            loop(
                r,
                HALF,
                intrin("div_mask", at(self.o, 0, r * DIM), at(self.o, 0, r * DIM), at(self.factors, 0, r * 8), *ALL, 2, 1, 1, 0, 8, 8, 0),
            ),
            BARRIER,
            intrin("cast", at(self.out, 0, 0), at(self.o, 0, 0), HALF * DIM, round="rint"),
            flag("set", "V_MTE3", 5),
            flag("wait", "V_MTE3", 5),
            intrin(
                "copy_ub_to_gm", at(self.cube.O, task * (ROWS * DIM) + self.sub * (HALF * DIM)), at(self.out, 0, 0), 1, HALF * DIM * 2, 0, 0
            ),
        ]

    def drain(self, count, k: int):
        i, t = count - 1, self.size.steps - SKEW + k
        rows = [[x, BARRIER] for x in self.rest_of_sums(i, self.size.steps - 1)] if k == 0 else []
        late = (None, i, t)
        rows += [self.late_factor(late), BARRIER, [self.load_product(i, t, x) for x in range(P_LATE)]]
        rows += [[self.add_product(late, line) for line in range(HALF // LINE)], BARRIER]
        if k == SKEW - 1:
            rows += [flag("wait", "MTE3_V", 0), self.finish(i), flag("set", "MTE3_V", 0)]
        return seq(*rows)

    def function(self, scores: str):
        free = [("MTE3_MTE2", n) for n in range(S_SLOTS)] + [("V_MTE2", n) for n in P_FLAGS] + [("MTE3_V", 0)]
        core = Var("core", "int32")
        body = seq(
            Bind(core, call("ascend.get_block_idx", [], dtype="int32")),
            Bind(self.sub, call("ascend.get_sub_block_idx", [], dtype="int32")),
            Bind(self.block, core // 2),
            [flag("set", *f) for f in free],
            intrin("duplicate", at(self.o, 0, 0), 0.0, HALF * DIM),
            intrin("duplicate", at(self.scale, 0, 0), DIM**-0.5, 64),
            BARRIER,
            [self.load_scores(0, 0, j) for j in range(SLICES)],
            each(self.size, self.block, self.step, self.drain),
            [flag("wait", *f) for f in free],
        )
        cube = self.cube
        params = [cube.Q, cube.K, cube.V, cube.O, *cube.spaces]
        return self.b.function("flash_attention", "aiv", "mix_1_2", params, body, workspaces(scores))


# ---- running it ----------------------------------------------------------------------------------------------------------


def program(size: Size, scores: str):
    """Ascend IR of both kinds of cores."""
    cube = Cube(size, scores)
    return module(cube.function(), Vector(size, cube).function(scores))


def run(size: Size, scores: str, arrays, options: machine.SimOptions) -> machine.RunResult:
    """Run on four float16 arrays of heads * seq * 128 elements; the last one is written."""
    compiled = host_program(program(size, scores))
    spaces = [np.empty(each * size.cores, np.uint8) for each in workspaces(scores)]
    tensors = [machine.Tensor(a.ctypes.data, a.nbytes, name) for a, name in zip(arrays, "QKVO")]
    tensors += [machine.Tensor(w.ctypes.data, w.nbytes, name, scratch=True) for w, name in zip(spaces, ("scores", "weights", "sums"))]
    words = [a.ctypes.data for a in [*arrays, *spaces]]
    return machine.run(get_chip(CHIP), "mix_1_2", size.cores, compiled.entries, words, tensors, options)


def reference(q, k, v):
    """Attention in float64."""
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / math.sqrt(DIM)
    s = np.exp(s - s.max(-1, keepdims=True))
    return s @ v.astype(np.float64) / s.sum(-1, keepdims=True)


def check(scores: str, size: Size) -> machine.RunResult:
    """Values and hazards."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((size.heads, size.seq, DIM)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    result = run(size, scores, [q, k, v, out], machine.SimOptions())
    print(result.text())
    print("largest error", abs(out.astype(np.float64) - reference(q, k, v)).max())
    return result


def timed(size: Size, scores: str = "float16"):
    """The result of a run without values."""
    arrays = [np.empty(size.heads * size.seq * DIM, np.float16) for _ in range(4)]
    return run(size, scores, arrays, machine.SimOptions.time_only(warm=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--cores", type=int, default=24)
    parser.add_argument("--scores", choices=["float16", "float32"], default="float16")
    parser.add_argument("--check", action="store_true", help="values and hazards, of a small size")
    args = parser.parse_args()
    if args.check:
        check(args.scores, Size(1, 2560, 6))
        return
    start = time.process_time()
    result = timed(Size(args.heads, args.seq, args.cores), args.scores)
    print(f"{result.simulated_us - result.launch_us:.1f} us simulated; {time.process_time() - start:.1f} s")
    print(result.text())


if __name__ == "__main__":
    main()
