"""Every instruction of the table, with random arguments: the native library does what the NumPy definition says."""

import random

import numpy as np
import pytest
from probe import Probe, has_implementation
from random_calls import is_float, numpy_dtype, random_call, random_memories

from tilelang_ascend.isa import ITEMSIZE, TABLE, Space
from tilelang_ascend.isa.semantics import execute

MACHINE_OPS = {
    "set_flag",
    "wait_flag",
    "pipe_barrier",
    "cross_core_set_flag",
    "cross_core_wait_flag",
    "set_atomic",
    "get_block_idx",
    "get_sub_block_idx",
    "get_block_num",
}
"""The machine itself executes these: order, state of the core, identity."""
# Rounded once from double by both sides, with different polynomials: one unit in the last place is allowed.
ONE_ULP = {"exp", "ln", "rsqrt"}
CASES = 25
GENERATIONS = {"c220": "a2", "3510": "a5"}
NAMES = [name for name, record in TABLE.items() if name not in MACHINE_OPS and not record.once]
"""What printing records print is tested in testing/python/kernels/test_output.py; they change no memory."""


def ordered(values: np.ndarray) -> np.ndarray:
    """Floats as integers in the order of the numbers, so that neighbours differ by one."""
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, -(bits & (2 ** (8 * values.dtype.itemsize - 1) - 1)), bits)


def assert_same_memory(expected, actual, space, dtype, offset, ulp):
    """Byte for byte the same, except that a NaN may be any NaN and floats may differ by `ulp`."""
    different = np.nonzero(expected != actual)[0]
    if different.size == 0:
        return
    assert is_float(dtype), f"{space.name}: first difference at byte {different[0]}, operand starts at {offset}"
    size = ITEMSIZE[dtype]
    first = offset % size
    end = first + (expected.size - first) // size * size
    assert different[0] >= first and different[-1] < end
    want, got = (m[first:end].view(numpy_dtype(dtype)) for m in (expected, actual))
    both_nan = np.isnan(want.astype(np.float32)) & np.isnan(got.astype(np.float32))
    wrong = ~both_nan & (want.view(f"u{size}") != got.view(f"u{size}"))
    if ulp:
        wrong &= np.abs(ordered(want) - ordered(got)) > ulp
    where = np.nonzero(wrong)[0]
    assert where.size == 0, (
        f"{space.name}: element at byte {first + where[0] * size} (operand at {offset}): expected {want[where[0]]}, got {got[where[0]]}"
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_random_calls(name, generation):
    record = TABLE[name]
    if not record.runs_on(generation):
        pytest.skip(f"not on {generation}")
    rng = random.Random(f"{name}/{generation}")
    for case in range(CASES):
        call = random_call(rng, record, generation)
        memories = random_memories(rng, record, call)
        expected = {space: memory.copy() for space, memory in memories.items()}
        want = _define(call, expected, generation)
        probe = Probe(memories, chip=GENERATIONS[generation])
        got = probe.execute(name, call.operands, call.args, call.attrs)
        assert not probe.reports, f"{call}: {probe.reports}"
        ulp = 1 if name.removesuffix("_mask") in ONE_ULP else 0
        for space in memories:
            dtype, offset = next(((d, o) for s, d, o in call.operands if s == space), ("uint8", 0))
            try:
                assert_same_memory(expected[space], memories[space], space, dtype, offset, ulp)
            except AssertionError as error:
                raise AssertionError(f"case {case}, {call}: {error}") from None
        if record.returns == "element":
            _assert_same_value(want, got, call.operands[0][1])


def _define(call, memories, generation):
    """Run the NumPy definition; the layout of L0A is a property of the chip."""
    if call.name == "mmad":
        from tilelang_ascend.isa.semantics import transfer
        from tilelang_ascend.isa.semantics.memory import Execution, Machine, Tensor

        record = TABLE["mmad"]
        tensors = {o.name: Tensor(o.name, memories[s], s, d, at) for o, (s, d, at) in zip(record.operands, call.operands)}
        x = Execution(record, Machine(memories), tensors, call.dict_args(record), {})
        return transfer.mmad(x, "nZ" if generation == "3510" else "zZ")
    return execute(call.name, memories, call.operands, call.args, call.attrs)


def _assert_same_value(want, got, dtype):
    value = np.array([got], dtype=np.int64).view(np.float64)[0] if is_float(dtype) else got
    if dtype == "uint64":
        value = got % 2**64
    assert value == want or (value != value and want != want), f"{dtype}: expected {want}, got {value}"


def test_every_instruction_has_an_implementation():
    assert [name for name in NAMES if not has_implementation(name)] == []


def test_machine_instructions_have_none():
    assert [name for name in MACHINE_OPS if has_implementation(name)] == []


def test_comparison_notices_a_difference():
    """The check above fails when a single bit of a result is wrong."""
    expected = np.zeros(64, np.uint8)
    actual = expected.copy()
    actual[5] = 1
    with pytest.raises(AssertionError, match="byte 4"):
        assert_same_memory(expected, actual, Space.UB, "float32", 0, 0)
    with pytest.raises(AssertionError):
        assert_same_memory(expected, actual, Space.UB, "uint8", 0, 0)
