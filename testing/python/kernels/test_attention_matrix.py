"""Every class of attention-like kernels in both 16-bit dtypes on every chip: values against torch, late transfers in several orders, every flag needed.

Tiles have 16 rows, lengths are odd where the kernel allows it. Whole strict runs of the table, stage by stage and with the emitted text, are
slow tests; those of larger tiles are in test_attention.py.
"""

from dataclasses import replace
from functools import lru_cache

import attention_cases as cases
import pytest
import strict
import torch

import tilelang_ascend as tilelang

TILES = {"bM": 16, "bN": 16}
CHUNK = {"chunk": 16}
SEEDS = (0, 1, 2)
WAYS = [(dtype, chip) for dtype in ("float16", "bfloat16") for chip in ("a2", "a3", "a5")]
QUICK_WAYS = {("bfloat16", "a3"), ("bfloat16", "a5")}
"""Those of float16 on a2 are in the test of flags."""

CLASSES = {
    "forward": lambda **how: cases.forward(1, 1, 40, 32, **TILES, **how),
    "forward, causal": lambda **how: cases.forward(1, 1, 40, 32, causal=True, lse=True, **TILES, **how),
    "forward, heads inside": lambda **how: cases.forward(1, 2, 24, 32, bshd=True, causal=True, **TILES, **how),
    "groups of heads": lambda **how: cases.forward(1, 2, 33, 32, groups=2, seq_kv=50, causal=True, **TILES, **how),
    "window and sinks": lambda **how: cases.forward(1, 1, 50, 32, causal=True, window=20, sinks=True, **TILES, **how),
    "ragged": lambda **how: cases.ragged([20, 1, 0, 17], [30, 20, 5, 17], 2, 32, groups=2, causal=True, **TILES, **how),
    "split over keys": lambda **how: cases.split_kv(1, 4, 2, 66, 32, 2, bN=16, **how),
    "pages": lambda **how: cases.paged([40, 17, 1], 4, 2, 32, 32, bN=16, **how),
    "latent keys": lambda **how: cases.mla(1, 16, 48, 64, 16, bN=16, **how),
    "backward, delta": lambda **how: cases.backward_delta(1, 1, 40, 32, blk=16, **how),
    "backward": lambda **how: cases.backward(1, 1, 40, 32, causal=True, **TILES, **how),
    "backward, groups": lambda **how: cases.backward(1, 2, 24, 32, groups=2, **TILES, **how),
    "block sparse": lambda **how: cases.block_sparse(1, 1, 64, 32, block=16, **how),
    "native sparse": lambda **how: cases.native_sparse(16, 17, 32, 2, block=16, **how),
    "gathered keys": lambda **how: cases.sparse_mla(3, 40, 16, 32, 16, 32, BI=16, **how),
    "linear attention": lambda **how: cases.linear_attention(1, 41, 1, 32, 16, bK=16, bV=16, **CHUNK, **how),
    "retention": lambda **how: cases.retention(1, 1, 40, 32, 32, **TILES, **how),
    "delta rule, products": lambda **how: cases.delta_kkt(1, 32, 1, 32, 16, bK=16, **CHUNK, **how),
    "delta rule, inverse": lambda **how: cases.delta_inverse(1, 32, 1, 32, 16, **CHUNK, **how),
    "delta rule, w and u": lambda **how: cases.delta_wy(1, 32, 1, 32, 32, bK=16, bV=16, **CHUNK, **how),
    "delta rule, states": lambda **how: cases.delta_states(1, 48, 1, 32, 16, bV=16, **CHUNK, **how),
    "delta rule, output": lambda **how: cases.delta_output(1, 32, 1, 32, 16, bK=16, bV=16, **CHUNK, **how),
    "decay of channels, products": lambda **how: cases.channel_decay(1, 32, 1, 32, bK=16, **CHUNK, **how),
    "decay of channels, states": lambda **how: cases.delta_states(1, 48, 1, 32, 16, per_channel=True, bV=16, **CHUNK, **how),
    "mamba state": lambda **how: cases.chunk_state(1, 64, 32, 1, 1, 16, 32, bK=16, **TILES, **how),
    "mamba scan": lambda **how: cases.chunk_scan(1, 64, 32, 1, 1, 16, 32, bK=16, **TILES, **how),
    "three products": lambda **how: cases.three_products(33, 40, 24, 17, bK=16, **TILES, **how),
    "product and softmax": lambda **how: cases.product_softmax(33, 40, 50, bM=16, bK=16, **how),
    "scores of keys": lambda **how: cases.indexer(6, 50, 8, 32, bN=16, **how),
    "experts, up": lambda **how: cases.expert_up([17, 0, 1, 20], 32, 32, block=16, bN=16, bK=16, **how),
    "experts, down": lambda **how: cases.expert_down([17, 0, 1, 20], 32, 32, block=16, bN=16, bK=16, **how),
}

IN_TURN = {
    "forward, causal": lambda: cases.forward(1, 25, 33, 16, causal=True, **TILES),
    "ragged": lambda: cases.ragged([20, 1, 0, 17] * 7, [30, 20, 5, 17] * 7, 1, 16, causal=True, **TILES),
    "pages": lambda: cases.paged([40, 17, 1, 33] * 14, 4, 1, 16, 16, bN=16),
    "backward": lambda: cases.backward(1, 26, 40, 16, causal=True, **TILES),
    "block sparse": lambda: cases.block_sparse(1, 13, 64, 16, block=16),
    "delta rule, states": lambda: cases.delta_states(1, 48, 33, 16, 16, bV=16, **CHUNK),
    "mamba scan": lambda: cases.chunk_scan(1, 64, 32, 1, 13, 16, 16, bK=16, **TILES),
    "three products": lambda: cases.three_products(800, 40, 24, 17, bK=16, **TILES),
    "experts, up": lambda: cases.expert_up([17, 0, 1, 20] * 7, 32, 48, block=16, bN=16, bK=16),
}
"""More blocks than there are cores."""

ONE_ROW = {
    "forward": lambda **how: cases.forward(1, 1, 1, 32, seq_kv=1, **TILES, **how),
    "forward, causal": lambda **how: cases.forward(1, 1, 1, 32, seq_kv=17, causal=True, lse=True, **TILES, **how),
    "forward, heads inside": lambda **how: cases.forward(1, 2, 1, 32, seq_kv=17, bshd=True, **TILES, **how),
    "groups of heads": lambda **how: cases.forward(1, 4, 1, 32, groups=4, seq_kv=33, **TILES, **how),
    "window and sinks": lambda **how: cases.forward(1, 1, 1, 32, causal=True, window=1, sinks=True, **TILES, **how),
    "ragged": lambda **how: cases.ragged([1, 0, 1], [1, 0, 33], 1, 32, **TILES, **how),
    "split over keys": lambda **how: cases.split_kv(1, 1, 1, 2, 32, 2, bN=16, **how),
    "pages": lambda **how: cases.paged([1], 1, 1, 16, 32, bN=16, **how),
    "backward, delta": lambda **how: cases.backward_delta(1, 1, 1, 32, blk=16, **how),
    "backward": lambda **how: cases.backward(1, 1, 1, 32, causal=True, **TILES, **how),
    "backward, groups": lambda **how: cases.backward(1, 2, 1, 32, groups=2, **TILES, **how),
    "native sparse": lambda **how: cases.native_sparse(16, 1, 32, 1, block=16, **how),
    "gathered keys": lambda **how: cases.sparse_mla(1, 16, 16, 32, 16, 16, BI=16, **how),
    "linear attention": lambda **how: cases.linear_attention(1, 1, 1, 16, 16, bK=16, bV=16, **CHUNK, **how),
    "retention": lambda **how: cases.retention(1, 1, 1, 16, 16, **TILES, **how),
    "three products": lambda **how: cases.three_products(1, 1, 1, 1, bK=16, **TILES, **how),
    "product and softmax": lambda **how: cases.product_softmax(1, 1, 1, bM=16, bK=16, **how),
    "scores of keys": lambda **how: cases.indexer(2, 1, 1, 16, bN=16, **how),
    "experts, up": lambda **how: cases.expert_up([0, 1, 0], 16, 1, block=16, bN=16, bK=16, **how),
    "experts, down": lambda **how: cases.expert_down([1], 1, 16, block=16, bN=16, bK=16, **how),
}


def case_of(table, name, **how):
    torch.manual_seed(0)
    return table[name](**how)


@lru_cache(maxsize=4)
def built(name, dtype, chip):
    """(case, compiled kernel, entries) of a class."""
    case = case_of(CLASSES, name, dtype=dtype)
    kernel = tilelang.compile(case[0], target=chip)
    return case, kernel, strict.entries_of(kernel.artifact)


def check(case, kernel, entries, seeds):
    """All checks, late transfers in an order for each of `seeds`."""

    def run(_, arrays):
        out, result = strict.launch(kernel.artifact, entries, arrays, {}, options)
        assert not result.hazards, "\n".join(h.text() for h in result.hazards[:3])
        return out

    for seed in seeds:
        options = replace(strict.STRICT, seed=seed, time=False, record_stream=False, count_writes=False)
        cases.check(case, run)


@pytest.mark.parametrize("dtype, chip", [x if x in QUICK_WAYS else pytest.param(*x, marks=pytest.mark.slow) for x in WAYS])
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.one_in(18)
def test_values_in_any_order_of_transfers(name, dtype, chip):
    check(*built(name, dtype, chip), SEEDS)


@pytest.mark.parametrize("dtype, chip", [("float16", "a2"), pytest.param("bfloat16", "a5", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ONE_ROW)
@pytest.mark.one_in(9)
def test_one_row(name, dtype, chip):
    case = case_of(ONE_ROW, name, dtype=dtype)
    kernel = tilelang.compile(case[0], target=chip)
    check(case, kernel, strict.entries_of(kernel.artifact), SEEDS[:1])


def needless_flags(case, kernel, entries):
    """Flags, within a core and between cores, that can be left out without a check noticing; values are right with all of them.

    Barriers are for parts of tiles at the end of tensors, too, which no launch here has.
    """
    check(case, kernel, entries, SEEDS)
    found = strict.surviving_mutants(kernel, {key: cases.to_numpy(x).copy() for key, x in case[1].items()})
    return [label for label in found if "flag" in label]


@pytest.mark.parametrize("chip", ["a2", pytest.param("a5", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.one_in(18)
def test_every_flag_is_needed(name, chip):
    assert needless_flags(*built(name, "float16", chip)) == []


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("name", IN_TURN)
def test_every_flag_is_needed_by_blocks_in_turn(name, chip):
    case = case_of(IN_TURN, name)
    kernel = tilelang.compile(case[0], target=chip)
    assert needless_flags(case, kernel, strict.entries_of(kernel.artifact)) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype, chip", WAYS)
@pytest.mark.parametrize("name", CLASSES)
def test_strictly(name, dtype, chip):
    case, kernel, _ = built(name, dtype, chip)
    cases.check(case, lambda _, arrays: strict.run(kernel, arrays))
