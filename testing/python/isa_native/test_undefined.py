"""Where undefined bytes are reported, and the stricter readings of what the manuals leave open."""

import numpy as np
import pytest
from probe import Probe

from tilelang_ascend.isa import DTYPE_CODES

SIZE = 1 << 14
UNDEFINED = 0xFF


def machine(undefined=(), gm_tracked=False, spaces=("GM", "UB", "L0A", "L0B", "L0C", "L1")):
    """Memories of zeros, all defined but the byte ranges given as (space, first, last + 1)."""
    memories = {s: np.zeros(SIZE, np.uint8) for s in spaces}
    shadows = {s: np.zeros(SIZE, np.uint8) for s in spaces if s != "GM" or gm_tracked}
    for space, lo, hi in undefined:
        shadows[space][lo:hi] = UNDEFINED
    return Probe(memories, shadows)


def undefined_lanes(probe, offset, lanes):
    """Which 32-bit lanes in UB from byte `offset` on have an undefined bit."""
    return np.nonzero(probe.shadows[5][offset : offset + 4 * lanes].reshape(-1, 4).any(1))[0].tolist()


STORE = ("copy_ub_to_gm", [("GM", "float32", 0), ("UB", "float32", 0)], [2, 40, 0, 0])


def test_undefined_bytes_that_reach_a_user_tensor_are_reported_once():
    probe = machine([("UB", 70, 74)])
    probe.execute(*STORE)
    assert probe.reports == ["undefined space=5 offset=70 len=4 reach a tensor in GM"]
    probe.execute(*STORE)
    assert probe.reports == []


def test_undefined_bytes_travel_through_a_workspace():
    probe = machine([("UB", 70, 74)], gm_tracked=True)
    probe.execute(*STORE)
    assert probe.reports == [] and np.nonzero(next(iter(probe.shadows.values())))[0].tolist() == [46, 47, 48, 49]


def test_rest_of_a_block_is_undefined_after_a_load():
    probe = machine()
    probe.execute("copy_gm_to_ub", [("UB", "float16", 0), ("GM", "float16", 0)], [2, 34, 0, 0, 1, 1, 2, 7.0])
    shadow = [s for k, s in probe.shadows.items() if k.name == "UB"][0]
    assert np.nonzero(shadow)[0].tolist() == [*range(40, 64), *range(104, 128)]


def test_scalar_read_of_an_undefined_value():
    probe = machine([("UB", 8, 9)])
    probe.execute("get_value", [("UB", "float32", 8)])
    assert probe.reports == ["undefined space=5 offset=8 len=4 reach scalar value"]


def test_a_lane_selected_by_an_undefined_mask_bit_is_undefined():
    """Bits 5 and 9 of the mask come from undefined lanes: so do lanes 5 and 9 of the selection, and nothing is reported."""
    probe = machine([("UB", 1024 + 20, 1024 + 24), ("UB", 1024 + 36, 1024 + 40)])
    probe.execute("compare_scalar", [("UB", "uint8", 0), ("UB", "float32", 1024)], [0.0, 64], {"mode": "gt"})
    select = ("select_scalar", [("UB", "float32", 4096), ("UB", "uint8", 0), ("UB", "float32", 8192)])
    probe.execute(*select, [0.0, 64], {"mode": "tensor_scalar"})
    assert undefined_lanes(probe, 4096, 64) == [5, 9] and probe.reports == []
    probe.execute("copy_ub_to_gm", [("GM", "float32", 0), ("UB", "float32", 4096)], [1, 36, 0, 0])
    assert probe.reports == ["undefined space=5 offset=4116 len=4 reach a tensor in GM"]


@pytest.mark.parametrize("lane", [0, 1, 7])
def test_one_undefined_bit_of_a_mask_byte_stays_one(lane):
    probe = machine([("UB", 1024 + 4 * lane, 1028 + 4 * lane)])
    probe.execute("compare_scalar", [("UB", "uint8", 0), ("UB", "float32", 1024)], [0.0, 64], {"mode": "gt"})
    assert probe.shadows[5][:8].tolist() == [1 << lane, 0, 0, 0, 0, 0, 0, 0]
    select = ("select_scalar", [("UB", "float32", 4096), ("UB", "uint8", 0), ("UB", "float32", 8192)])
    probe.execute(*select, [0.0, 64], {"mode": "tensor_scalar"})
    assert undefined_lanes(probe, 4096, 64) == [lane]


def test_a_mask_from_memory_nobody_wrote_has_no_defined_bit():
    probe = machine([("UB", 0, 1)])
    select = ("select_scalar", [("UB", "float32", 4096), ("UB", "uint8", 0), ("UB", "float32", 8192)])
    probe.execute(*select, [0.0, 64], {"mode": "tensor_scalar"})
    assert undefined_lanes(probe, 4096, 64) == [*range(8)]


@pytest.mark.parametrize("form", ["", "_mask"])
@pytest.mark.parametrize("name, defined, expected", [("and", 0b10, 0b010), ("or", 0b10, 0b101), ("not", None, 0b111)])
def test_masks_combine_bit_by_bit(name, form, defined, expected):
    """Bits 0 to 2 of one mask are undefined; a defined 0 of the other decides `and`, a defined 1 decides `or`."""
    probe = machine()
    probe.shadows[5][0] = 0b111
    probe.memories[5][0] = 0b011
    operands = [("UB", "uint16", 512), ("UB", "uint16", 0)]
    if defined is not None:
        probe.memories[5][1024] = defined
        operands.append(("UB", "uint16", 1024))
    strides = [0, 1, 1] + [1] * len(operands) + [8] * len(operands)
    probe.execute(name + form, operands, strides if form else [16])
    assert probe.shadows[5][512:514].tolist() == [expected, 0] and probe.reports == []
    probe.execute("adds", [("UB", "int16", 2048), ("UB", "int16", 512)], [1.0, 16])
    assert probe.shadows[5][2048:2052].tolist() == [UNDEFINED, UNDEFINED, 0, 0]


def test_selection_takes_over_the_chosen_lane_only():
    probe = machine([("UB", 8192, 8196), ("UB", 12292, 12296)])
    probe.memories[5][0] = 0b01
    operands = [("UB", "float32", 4096), ("UB", "uint8", 0), ("UB", "float32", 8192), ("UB", "float32", 12288)]
    probe.execute("select", operands, [2], {"mode": "tensor_tensor"})
    assert probe.shadows[5][4096:4104].tolist() == [UNDEFINED] * 8
    probe.memories[5][0] = 0b10
    probe.shadows[5][8192:8196] = UNDEFINED
    probe.execute("select", operands, [2], {"mode": "tensor_tensor"})
    assert probe.shadows[5][4096:4104].tolist() == [0] * 8


def test_accumulated_lane_of_a_reduction():
    probe = machine([("UB", 4 * 9, 4 * 10)])
    reduce = ("block_reduce_sum", [("UB", "float32", 4096), ("UB", "float32", 0)])
    probe.execute(*reduce, [1, 9, 1, 1, 8])
    assert probe.reports == []
    probe.execute(*reduce, [1, 10, 1, 1, 8])
    assert len(probe.reports) == 1 and "lane of a reduction" in probe.reports[0]


# ---- mmad ------------------------------------------------------------------------------------------------------------

MMAD = ("mmad", [("L0C", "float32", 0), ("L0A", "float16", 0), ("L0B", "float16", 0)])


def mmad_memories(probe):
    a, b = (probe.memories[s].view(np.float16) for s in (2, 3))
    a[:256] = 1.0
    b[:256] = 1.0
    return a[:256].reshape(16, 16), b[:256].reshape(16, 16)


def test_padding_of_k_is_multiplied():
    """k=15 works on a fractal of 16: what lies in lane 15 of both operands ends up in the result."""
    probe = machine()
    a, b = mmad_memories(probe)
    probe.execute(*MMAD, [16, 16, 15, 0, 0, 1])
    assert (probe.memories[4].view(np.float32)[:256] == 16).all()
    a[:, 15] = 0
    b[:, 15] = np.nan
    probe.execute(*MMAD, [16, 16, 15, 0, 0, 1])
    assert np.isnan(probe.memories[4].view(np.float32)[:256]).all()


def test_undefined_padding_of_k_is_reported():
    probe = machine([("L0B", 30, 32)])
    mmad_memories(probe)
    probe.execute(*MMAD, [16, 16, 15, 0, 0, 1])
    assert len(probe.reports) == 1 and "the right operand of a mmad" in probe.reports[0]


def test_rows_and_columns_beyond_m_and_n_are_undefined_afterwards():
    probe = machine([("L0A", 3 * 32, 512), ("L0B", 5 * 32, 512)])
    mmad_memories(probe)
    probe.execute(*MMAD, [3, 5, 16, 0, 0, 1])
    assert probe.reports == []
    defined = probe.shadows[4][:1024].reshape(16, 64) == 0
    assert defined[:3, :20].all() and not defined[3:].any() and not defined[:, 20:].any()


def test_undefined_accumulator():
    probe = machine([("L0C", 64 * 2, 64 * 2 + 4)])
    mmad_memories(probe)
    probe.execute(*MMAD, [2, 16, 16, 0, 0, 0])
    assert probe.reports == []
    probe.shadows[4][128:132] = UNDEFINED
    probe.execute(*MMAD, [3, 16, 16, 0, 0, 0])
    assert len(probe.reports) == 1 and "accumulator" in probe.reports[0]


def test_fixpipe_reports_the_place_in_l0c():
    probe = machine([("L0C", 64 + 4, 64 + 8)])
    fixpipe = ("fixpipe_to_gm", [("GM", "float16", 0), ("L0C", "float32", 0)], [16, 2, 16, 16, 0], {"quant": "f32_f16"})
    probe.execute(*fixpipe)
    assert len(probe.reports) == 1 and "space=4 offset=68 len=4" in probe.reports[0] and "tensor in GM" in probe.reports[0]
    probe.execute(*fixpipe)
    assert probe.reports == []


# ---- atomics and overlap -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op, code, expected", [("add", 1, [4.0, 1.0]), ("max", 2, [3.0, 3.0]), ("min", 3, [1.0, -2.0])])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bfloat16", "int16", "int8"])
def test_atomic_update(op, code, expected, dtype):
    from random_calls import numpy_dtype

    probe = machine(spaces=("GM", "UB"))
    item = numpy_dtype(dtype)
    probe.memories[0][: 2 * item.itemsize] = np.array([1, 3]).astype(item).view(np.uint8)
    probe.memories[5][: 2 * item.itemsize] = np.array([3, -2]).astype(item).view(np.uint8)
    call = ("copy_ub_to_gm", [("GM", dtype, 0), ("UB", dtype, 0)], [1, 2 * item.itemsize, 0, 0])
    probe.execute(*call, atomic=(code, DTYPE_CODES[dtype]))
    assert probe.memories[0][: 2 * item.itemsize].view(item).astype(float).tolist() == expected


def test_atomic_of_another_dtype_is_refused():
    probe = machine(spaces=("GM", "UB"))
    probe.execute(*STORE, atomic=(1, DTYPE_CODES["float16"]))
    assert probe.reports == ["invalid: the atomic mode is set for another dtype than the one written"]


def test_wrong_dtype_is_refused():
    probe = machine(spaces=("UB",))
    probe.execute("exp", [("UB", "int32", 0), ("UB", "int32", 256)], [8])
    assert probe.reports == ["invalid: the instruction does not exist for this dtype"]


def test_accumulation_over_repeats_with_stride_zero():
    """Add with the destination as second source and repeat stride 0 sums the repeats one after the other."""
    ub = np.zeros(SIZE, np.uint8)
    ub[256 : 256 + 1024].view(np.float32)[:] = np.arange(256, dtype=np.float32)
    args = [0, 2**64 - 1, 4, 1, 1, 1, 0, 8, 0]
    Probe({"UB": ub}).execute("add_mask", [("UB", "float32", 0), ("UB", "float32", 256), ("UB", "float32", 0)], args)
    assert ub[:256].view(np.float32).tolist() == (np.arange(256.0).reshape(4, 64).sum(0)).tolist()


@pytest.mark.parametrize("shift, refused", [(-32, False), (0, False), (32, True), (256, True), (4096, False)])
def test_a_repeat_must_not_feed_the_next_one(shift, refused):
    """In place and towards lower addresses is fine; a destination ahead of its source is read before it is written."""
    probe = machine(spaces=("UB",))
    probe.execute("adds", [("UB", "float32", 1024 + shift), ("UB", "float32", 1024)], [1.0, 256])
    assert probe.reports == (["invalid: a repeat reads what the repeat before it has just written"] if refused else [])


@pytest.mark.parametrize("count, refused", [(64 + 8, False), (64 + 9, True), (128 + 8, True)])
def test_the_last_repeat_reads_no_more_than_its_lanes(count, refused):
    """The destination starts 72 lanes behind the source: a shorter last repeat ends in front of it."""
    probe = machine(spaces=("UB",))
    probe.execute("adds", [("UB", "float32", 4 * 72), ("UB", "float32", 0)], [1.0, count])
    assert bool(probe.reports) == refused


def test_narrowing_in_place_is_fine_and_widening_is_not():
    probe = machine(spaces=("UB",))
    probe.execute("cast", [("UB", "float16", 0), ("UB", "float32", 0)], [256], {"round": "rint"})
    assert probe.reports == []
    probe.execute("cast", [("UB", "float32", 0), ("UB", "float16", 0)], [256], {"round": "none"})
    assert len(probe.reports) == 1


@pytest.mark.parametrize("m, refused", [(0, False), (1, True), (2, False), (17, False)])
def test_products_of_one_row_are_refused(m, refused):
    """m = 1 is another mode of the unit, with another layout of A: what comes out of the layout of matrices would be wrong."""
    probe = machine(spaces=("L0A", "L0B", "L0C"))
    probe.execute("mmad", [("L0C", "float32", 0), ("L0A", "float16", 0), ("L0B", "float16", 0)], [m, 16, 16, 0, 0, 1])
    assert probe.reports == (["invalid: m = 1 is the vector mode, which reads A in another layout"] if refused else [])
