"""The declared footprint against what the NumPy semantics really touch."""

import zlib

import numpy as np
import pytest
from isa_samples import memories, sample

from tilelang_ascend.isa import TABLE
from tilelang_ascend.isa.semantics import Machine, execute, memory
from tilelang_ascend.isa.strided import fills, strided_footprint

MEMORY_RECORDS = [r for r in TABLE.values() if r.operands and r.name != "data_cache_clean"]


class Spy:
    """Hull of the bytes each operand reads and writes, and all bytes written."""

    def __init__(self, monkeypatch):
        self.hulls: dict[tuple[str, str], list[int]] = {}
        self.written: dict[str, set[int]] = {}
        read, write = memory.Tensor.read, memory.Tensor.write

        def spy_read(tensor, offsets):
            self.see(tensor, "in", offsets)
            return read(tensor, offsets)

        def spy_write(tensor, offsets, values):
            self.see(tensor, "out", offsets)
            return write(tensor, offsets, values)

        monkeypatch.setattr(memory.Tensor, "read", spy_read)
        monkeypatch.setattr(memory.Tensor, "write", spy_write)

    def see(self, tensor, direction, offsets):
        offsets = np.asarray(offsets).reshape(-1)
        if offsets.size:
            hull = self.hulls.setdefault((tensor.name, direction), [1 << 60, 0])
            hull[0], hull[1] = min(hull[0], int(offsets.min())), max(hull[1], int(offsets.max()) + tensor.itemsize)
        if direction == "out":
            self.written.setdefault(tensor.name, set()).update(int(o) + k for o in offsets for k in range(tensor.itemsize))


def filled(case, rng) -> dict:
    """Memories in which offsets of a gather lie inside of its source."""
    state = memories(rng)
    if case.intrin.name == "gather":
        space, _, offset = case.operands[2]
        size = np.dtype("u4").itemsize * max(case.args[1], 1)
        state[space][offset : offset + size] = (rng.integers(0, 64, max(case.args[1], 1)) * 8).astype(np.uint32).view(np.uint8)
    return state


_BITS = ("compare", "compare_mask", "compare_scalar")
"""Read-modify-write of packed bits, and sorts that move raw records: the spy sees other accesses than the hardware makes."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("record", MEMORY_RECORDS, ids=lambda r: r.name)
def test_footprint_covers_every_access(record, monkeypatch):
    spy = Spy(monkeypatch)
    for generation in record.signatures:
        rng = np.random.default_rng(zlib.crc32(record.name.encode()))
        for _ in range(20):
            case = sample(record, rng, generation)
            state = filled(case, rng)
            spy.hulls.clear()
            execute(record.name, state, case.operands, case.args, case.attrs, Machine(state))
            spans = {record.operands[i].name: (d, lo, hi) for i, d, lo, hi in record.footprint(case.call)}
            for (name, direction), (low, high) in spy.hulls.items():
                if record.name in _BITS and name == "d" and direction == "in":
                    continue
                assert name in spans, f"{name} is touched but not declared: {case}"
                declared, lo, hi = spans[name]
                assert declared in (direction, "inout"), f"{name}: {direction} but declared {declared}: {case}"
                assert lo <= low, case
                assert hi is None or high <= hi, f"{name}: touches byte {high}, declared {hi}: {case}"


_ROUNDED = {"copy_gm_to_ub": 32, "mmad": 1024}
"""What is left of a block of so many bytes is undefined behind the instruction."""


_RAW = ("sort32", "mrg_sort")
"""They move records, which the spy does not see."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("record", [r for r in MEMORY_RECORDS if r.operands[0].writes and r.name not in _RAW], ids=lambda r: r.name)
def test_spans_said_to_be_filled_are(record, monkeypatch):
    """Live ranges end where a tile, or pieces of it, are written as a whole: gaps an instruction leaves must be known."""
    spy = Spy(monkeypatch)
    for generation in record.signatures:
        rng = np.random.default_rng(zlib.crc32(record.name.encode()))
        for _ in range(60):
            case = sample(record, rng, generation)
            spans = {i: hi for i, direction, _, hi in record.footprint(case.call) if direction != "in"}
            if 0 not in spans or not fills(record, 0, Known(record, case.call.dtypes, case.args)):
                continue
            state = filled(case, rng)
            spy.written.clear()
            execute(record.name, state, case.operands, case.args, case.attrs, Machine(state))
            unit = _ROUNDED.get(record.name, 1)
            written = {b // unit for b in spy.written[record.operands[0].name]}
            piece, pitch = strided_footprint(record, 0, Known(record, case.call.dtypes, case.args)) or (spans[0], spans[0] or 1)
            pieces = {b // unit for first in range(0, spans[0], pitch) for b in range(first, min(first + piece, spans[0]))}
            assert written >= pieces, case


def test_exact_spans():
    spans = TABLE["add"].footprint(TABLE["add"].bind(("float16",) * 3, (100,)))
    assert spans == [(0, "out", 0, 200), (1, "in", 0, 200), (2, "in", 0, 200)]
    mask = TABLE["exp_mask"]
    call = mask.bind(("float32", "float32"), (0, 0xFFFF, 3, 1, 2, 8, 16))
    assert mask.footprint(call) == [(0, "out", 0, 2 * 256 + 64), (1, "in", 0, 2 * 512 + 2 * 32 + 32)]


def test_blocks_at_stride_zero_are_read_as_a_whole():
    sub = TABLE["sub_mask"]
    call = sub.bind(("float32",) * 3, (0, 0x1FF, 1, 1, 1, 0, 8, 8, 0))
    assert sub.footprint(call) == [(0, "out", 0, 36), (1, "in", 0, 36), (2, "in", 0, 32)]


class Known:
    """Arguments of a call that are all constants."""

    def __init__(self, record, dtypes, args):
        self.call, self.args = record.bind(dtypes, args), dict(zip((a.name for a in record.args), args))

    def exact(self, *names):
        return sum(self.args[n] for n in names)

    def bound(self, name):
        return self.args[name]

    def itemsize(self, operand):
        return self.call.itemsize(operand)


@pytest.mark.parametrize(
    "name, dtypes, args, pieces",
    [
        # 9 of 64 lanes: 36 bytes; a spread operand is one block; a full mask is 256 bytes.
        ("sub_mask", ("float32",) * 3, (0, 0x1FF, 8, 1, 1, 0, 98, 98, 2), [(36, 3136), (36, 3136), (32, 64)]),
        ("sub_mask", ("float32",) * 3, (0, -1, 8, 1, 1, 0, 98, 98, 1), [(256, 3136), (256, 3136), None]),
        ("abs_mask", ("float16",) * 2, (-1, -1, 3, 1, 2, 9, 16), [(256, 288), (480, 512)]),
        ("whole_reduce_max", ("float32",) * 2, (9, 8, 1, 1, 8), [None, (36, 256)]),
        ("whole_reduce_max", ("float32",) * 2, (32, 16, 8, 1, 16), [(4, 32), (128, 512)]),
        # Squares of two fractals: kept together at a pitch of 4 fractals, or their halves in two runs of 3.
        ("load_l0a_transpose", ("float32",) * 2, (0, 3, 2, 3, 0), [(1024, 2048), (1024, 2048)]),
        ("load_l0b_transpose", ("float32",) * 2, (0, 3, 1, 0, 7), [(1536, 4096), None]),
        ("load_l0b_transpose", ("int8",) * 2, (0, 3, 2, 1, 0), [None, (1024, 2048)]),
    ],
)
def test_pieces(name, dtypes, args, pieces):
    record = TABLE[name]
    known = Known(record, dtypes, args)
    assert [strided_footprint(record, i, known) for i in range(len(record.operands))] == pieces


def test_nothing_is_touched_by_empty_calls():
    add = TABLE["add"]
    assert add.footprint(add.bind(("float32",) * 3, (0,))) == []
    mmad = TABLE["mmad"]
    assert mmad.footprint(mmad.bind(("float32", "float16", "float16"), (0, 16, 16, 0, 0, 1))) == []


def test_unknown_values_give_open_spans():
    add = TABLE["add"]
    assert [hi for *_, hi in add.footprint(add.bind(("float32",) * 3, (None,)))] == [None] * 3
    gm = TABLE["copy_gm_to_ub"]
    assert [hi for *_, hi in gm.footprint(gm.bind(("float32",) * 2, (None,) * 8))] == [None, None]


def test_padding_ends_where_it_is_known_to():
    gm = TABLE["copy_gm_to_ub"]
    end = lambda *pads: gm.footprint(gm.bind(("uint8",) * 2, (7, 12, 0, 0, 1, *pads, 0)))[0][3]
    assert end(0, 20) == 7 * 32 and end(1, 20) == 7 * 64
    assert end(0, None) == 7 * 64 and end(None, None) == 7 * 96


def test_mmad_reads_its_accumulator_unless_it_starts_from_zero():
    mmad = TABLE["mmad"]
    directions = [mmad.footprint(mmad.bind(("float32", "float16", "float16"), (16, 16, 16, 0, 0, init)))[0][1] for init in (1, 0, None)]
    assert directions == ["out", "inout", "inout"]


def test_a_wrong_footprint_is_noticed(monkeypatch):
    """Negative control of the test above: a span one element short is caught."""
    import dataclasses

    record = TABLE["add"]
    short = dataclasses.replace(record, footprint_fn=lambda call: [(i, d, lo, hi - 1) for i, d, lo, hi in record.footprint_fn(call)])
    with pytest.raises(AssertionError, match="touches byte"):
        test_footprint_covers_every_access(short, monkeypatch)
