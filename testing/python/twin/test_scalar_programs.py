"""Random scalar programs: the host program and the emitted text compute the same numbers and take the same branches."""

import random

import numpy as np
import pytest
from ascend_ir_samples import Builder, Sample, at, gm, load, module
from ir_and_text import run_ir, run_text

from tilelang_ascend.ir import Bind, BufferStore, Var, While, call, if_then, intrin, loop, seq, tirx
from tilelang_ascend.sim.machine import SimOptions
from tilelang_ascend.sim.streams import first_difference, records

OUT = 64
INTS = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32")
FLOATS = ("float32", "float16", "bfloat16", "float64")


class Generator:
    """Values stay small (every product is reduced), so that nothing overflows where C++ leaves it undefined."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.b = Builder()
        self.n, self.f = Var("n", "int32"), Var("f", "float32")
        self.X, self.Y, self.Z = gm("X", "int32", 16), gm("Y", "int32", OUT), gm("Z", "float32", OUT)
        self.ints, self.floats = [self.n], [self.f]
        self.state = self.b.var("state")
        self.weight = self.b.var("weight", "bfloat16")
        self.count = 0

    def pick(self, *options):
        return self.random.choice(options)

    def int_expr(self, depth: int):
        if depth == 0:
            return self.pick(*self.ints, load(self.state), tirx.const(self.random.randint(-9, 9), "int32"))
        a, b, c = (self.int_expr(depth - 1) for _ in range(3))
        divisor = tirx.const(self.pick(-7, -2, 1, 3, 8), "int32")
        small = tirx.floormod(a, 97)
        dtype = self.pick(*INTS)
        return self.pick(
            a + b,
            a - b,
            small * tirx.floormod(b, 89),
            tirx.floordiv(a, divisor),
            tirx.floormod(a, divisor),
            tirx.truncdiv(a, divisor),
            tirx.truncmod(a, divisor),
            tirx.min(a, b),
            tirx.max(a, b),
            tirx.if_then_else(self.condition(depth - 1), a, b),
            a & b,
            a ^ c,
            a | b,
            ~a,
            small << 3,
            a >> 2,
            tirx.Cast("int32", tirx.Cast(dtype, a)),
            tirx.Cast("int32", tirx.Cast("int64", small) * b),
            tirx.Cast("int32", tirx.Cast(dtype, small) + tirx.Cast(dtype, b)),
            tirx.Select(self.condition(depth - 1), a, c),
            tirx.Cast("int32", self.condition(depth - 1)),
        )

    def condition(self, depth: int):
        a, b = self.int_expr(max(depth, 0)), self.int_expr(0) + 7  # g++ warns of comparing a variable with itself
        simple = self.pick(a < b, a <= b, a > b, a >= b, tirx.EQ(a, b), tirx.NE(a, b))
        if depth <= 0:
            return simple
        other = self.condition(depth - 1)
        return self.pick(simple, tirx.all(simple, other), tirx.any(simple, other), tirx.Not(simple))

    def float_expr(self, depth: int):
        if depth == 0:
            whole = tirx.Cast("float32", tirx.floormod(self.pick(*self.ints), 50))
            state = tirx.Cast("float32", load(self.weight))
            return self.pick(*self.floats, whole, state, tirx.const(self.random.uniform(-2, 2), "float32"))
        a, b = self.float_expr(depth - 1), self.float_expr(depth - 1)
        dtype = self.pick(*FLOATS)
        x, y = tirx.Cast(dtype, a), tirx.Cast(dtype, b)
        narrow = self.pick(x + y, x - y, x * y, tirx.min(x, y), tirx.if_then_else(self.condition(0), x, y))
        return self.pick(a + b, a * b, a - b, tirx.max(a, b), tirx.Cast("float32", narrow), tirx.if_then_else(a < b, a, b))

    def statement(self, depth: int, in_loop: bool):
        kind = self.pick(
            "store",
            "bind",
            "state",
            "weight",
            "read",
            *(["if", "for", "while"] if depth else []),
            *(["exit"] if in_loop else []),
        )
        return getattr(self, "make_" + kind)(depth, in_loop)

    def block(self, depth: int, in_loop: bool):
        ints, floats = list(self.ints), list(self.floats)
        body = seq([self.statement(depth, in_loop) for _ in range(self.random.randint(1, 4))])
        self.ints, self.floats = ints, floats
        return body

    def make_store(self, depth, in_loop):
        self.count += 1
        if self.random.random() < 0.5:
            return intrin("set_value", at(self.Y, self.count % OUT), self.int_expr(2))
        return intrin("set_value", at(self.Z, self.count % OUT), self.float_expr(2))

    def make_bind(self, depth, in_loop):
        self.count += 1
        if self.random.random() < 0.5:
            var, value, known = Var(f"v{self.count}", "int32"), self.int_expr(2), self.ints
        else:
            var, value, known = Var(f"w{self.count}", "float32"), self.float_expr(2), self.floats
        known.append(var)
        return Bind(var, value)

    def make_state(self, depth, in_loop):
        return BufferStore(self.state, tirx.floormod(self.int_expr(2), 1000), [0])

    def make_weight(self, depth, in_loop):
        return BufferStore(self.weight, tirx.Cast("bfloat16", self.float_expr(1)), [0])

    def make_read(self, depth, in_loop):
        self.count += 1
        var = Var(f"x{self.count}", "int32")
        node = Bind(var, call("ascend.get_value", [at(self.X, tirx.floormod(self.int_expr(1), 16))], dtype="int32"))
        self.ints.append(var)
        return node

    def make_if(self, depth, in_loop):
        other = self.block(depth - 1, in_loop) if self.random.random() < 0.5 else None
        return if_then(self.condition(1), self.block(depth - 1, in_loop), other)

    def make_for(self, depth, in_loop):
        self.count += 1
        var = Var(f"i{self.count}", "int32")
        extent = self.pick(tirx.const(3, "int32"), tirx.floormod(load(self.state), 4))
        self.ints.append(var)
        body = self.block(depth - 1, True)
        self.ints.remove(var)
        return loop(var, extent, body)

    def make_while(self, depth, in_loop):
        self.count += 1
        turns = self.b.var(f"turns{self.count}")
        step = BufferStore(turns, load(turns) + 1, [0])
        body = seq(step, self.block(depth - 1, True))
        return seq(BufferStore(turns, tirx.const(0, "int32"), [0]), While(tirx.all(load(turns) < 3, self.condition(0)), body))

    def make_exit(self, depth, in_loop):
        return if_then(self.condition(0), self.pick(tirx.Break(), tirx.Continue()))

    def sample(self) -> Sample:
        start = [BufferStore(self.state, self.n, [0]), BufferStore(self.weight, tirx.const(0.1, "bfloat16"), [0])]
        body = seq(start, [self.statement(3, False) for _ in range(12)], self.make_store(0, False))
        func = self.b.function("scalars", "aiv", "aiv_only", [self.n, self.f, self.X, self.Y, self.Z], body)
        arrays = [np.arange(-8, 8, dtype=np.int32) * 5, np.zeros(OUT, np.int32), np.zeros(OUT, np.float32)]
        return Sample("scalars", module(func), 1, [self.random.randint(-50, 50), 0.3], arrays, {})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_agree(seed):
    sample = Generator(seed).sample()
    options = SimOptions(checks=(), record_stream=True)
    (_, ir), (_, text) = run_ir(sample, options), run_text(sample, options)
    assert first_difference(ir.streams, text.streams) is None
    assert sum(1 for _ in records(ir.streams[0])) > 0
