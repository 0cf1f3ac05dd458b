"""The footprint of every instruction is exact, and undefined bytes travel with the values.

One property covers both. Memory outside the read accesses is different in two runs and marked undefined:
 * nothing outside the write accesses changes;
 * inside them both runs agree and everything is defined: so each byte was written and no other byte was read.
"""

import random

import numpy as np
import pytest
from probe import Access, Probe
from random_calls import random_call, random_memories
from test_against_numpy import GENERATIONS, NAMES

from tilelang_ascend.isa import TABLE, Space

CASES = 6
UNDEFINED = 0xFF
WRITES_UNDEFINED = {"copy_gm_to_ub", "mmad"}
"""Part of what they write is undefined by definition: the rest of a 32-byte block, the rest of a fractal."""
READS_MORE = {"select", "select_scalar", "gather_mask", "mmad", "compare_mask"}
"""They read more than they use: unselected lanes, lanes the pattern drops, padding rows, bits that are replaced."""


def flags(probe, accesses, write):
    """Which bytes of every memory the read or write accesses cover."""
    out = {space: np.zeros(memory.size, bool) for space, memory in probe.memories.items()}
    for access in accesses:
        if access.write == write:
            access.mark(out[access.space])
    return out


def writes_twice(accesses, writes):
    """True when a byte is written more than once, so that a later lane hides an earlier one."""
    written = sum(a.len * a.count * a.outer_count for a in accesses if a.write)
    return written > sum(int(marked.sum()) for marked in writes.values())


def generation_of(name):
    """C220 where it has the instruction, else 3510."""
    return "c220" if TABLE[name].runs_on("c220") else "3510"


def cases(name, generation):
    record = TABLE[name]
    rng = random.Random(f"accesses/{name}/{generation}")
    for _ in range(CASES):
        call = random_call(rng, record, generation)
        yield rng, call, random_memories(rng, record, call)


@pytest.mark.parametrize("name, generation", [*((name, generation_of(name)) for name in NAMES), ("mmad", "3510")])
def test_footprint_is_exact(name, generation):
    for rng, call, memories in cases(name, generation):
        accesses = Probe(memories, chip=GENERATIONS[generation]).accesses(name, call.operands, call.args, call.attrs)
        reads = flags(Probe(memories, chip=GENERATIONS[generation]), accesses, False)
        results = []
        for seed in (1, 2):
            gen = np.random.default_rng(seed)
            mine = {s: np.where(reads[s], m, gen.integers(0, 256, m.size, dtype=np.uint8)) for s, m in memories.items()}
            shadows = {s: np.where(reads[s], 0, UNDEFINED).astype(np.uint8) for s in mine}
            probe = Probe(mine, shadows, chip=GENERATIONS[generation])
            before = {s: m.copy() for s, m in mine.items()}
            probe.execute(name, call.operands, call.args, call.attrs)
            assert not probe.reports, f"{call}: {probe.reports}"
            writes = flags(probe, accesses, True)
            for s in mine:
                outside = np.nonzero((before[s] != mine[s]) & ~writes[s])[0]
                assert outside.size == 0, f"{call}: {s.name} byte {outside[0]} changed outside of the write accesses"
                left = np.nonzero(writes[s] & (shadows[s] != 0))[0]
                assert left.size == 0 or name in WRITES_UNDEFINED, f"{call}: {s.name} byte {left[0]} is still undefined"
            results.append((mine, shadows, writes))
        (one, shadow, writes), (other, _, _) = results
        for s in one:
            wrong = np.nonzero((one[s] != other[s]) & writes[s] & (shadow[s] == 0))[0]
            assert wrong.size == 0, f"{call}: {s.name} byte {wrong[0]} depends on bytes outside of the read accesses"


@pytest.mark.parametrize("name", [n for n in NAMES if n not in READS_MORE])
def test_undefined_bytes_are_noticed(name):
    """One undefined byte among those read is reported or makes a result undefined."""
    generation = generation_of(name)
    for rng, call, memories in cases(name, generation):
        probe = Probe(memories, {s: np.zeros(m.size, np.uint8) for s, m in memories.items()}, chip=GENERATIONS[generation])
        accesses = probe.accesses(name, call.operands, call.args, call.attrs)
        reads, writes = flags(probe, accesses, False), flags(probe, accesses, True)
        places = [(s, i) for s in reads for i in np.nonzero(reads[s])[0]]
        if not places or writes_twice(accesses, writes):
            continue
        space, byte = rng.choice(places)
        probe.shadows[space][byte] = UNDEFINED
        probe.execute(name, call.operands, call.args, call.attrs)
        noticed = probe.reports or any((probe.shadows[s][writes[s]] != 0).any() for s in writes)
        assert noticed, f"{call}: byte {byte} of {space.name} was undefined and nobody noticed"


def test_out_of_range_access_is_seen_by_the_check():
    """The helper fails when an access leaves its memory."""
    with pytest.raises(AssertionError, match="leaves its memory"):
        Access(Space.UB, True, False, 32, 96, 64, 1, 0, 1, 0).mark(np.zeros(128, bool))


def test_gather_reads_only_what_its_offsets_name():
    ub = np.zeros(4096, np.uint8)
    ub[1024:1040].view(np.uint32)[:] = [0, 4, 8, 400]
    call = ("gather", [("UB", "float32", 2048), ("UB", "float32", 0), ("UB", "uint32", 1024)], [0, 4])
    reads = [(a.base, a.len) for a in Probe({"UB": ub}).accesses(*call) if not a.write]
    assert reads == [(1024, 16), (0, 12), (400, 4)]
    assert [a.base for a in Probe({"UB": ub}).accesses(*call, with_data=False)] == [1024, 2048]


def test_gather_offsets_outside_of_memory_are_not_read():
    ub = np.zeros(1024, np.uint8)
    call = ("gather", [("UB", "float32", 0), ("UB", "float32", 0), ("UB", "uint32", 1000)], [0, 64])
    assert [(a.base, a.len) for a in Probe({"UB": ub}).accesses(*call)] == [(1000, 256), (0, 256)]


def test_masked_lanes_are_left_out():
    """Lanes 0-2 and 9 of every repeat; block stride 2 moves lane 9 to the third block."""
    mask = 0b10_0000_0111
    args = [0, mask, 3, 1, 2, 8, 16]
    accesses = Probe({"UB": np.zeros(8192, np.uint8)}).accesses("abs_mask", [("UB", "float32", 4096), ("UB", "float32", 0)], args)
    found = sorted((a.write, a.base, a.len, a.count, a.stride) for a in accesses)
    assert found == [
        (False, 0, 12, 3, 512),
        (False, 64 + 4, 4, 3, 512),
        (True, 4096, 12, 3, 256),
        (True, 4096 + 36, 4, 3, 256),
    ]


def test_atomic_writes_say_so():
    probe = Probe({"GM": np.zeros(64, np.uint8), "UB": np.zeros(64, np.uint8)})
    accesses = probe.accesses("copy_ub_to_gm", [("GM", "float32", 0), ("UB", "float32", 0)], [1, 64, 0, 0])
    assert [(a.space, a.write, a.atomic) for a in accesses] == [(Space.UB, False, False), (Space.GM, True, False)]
