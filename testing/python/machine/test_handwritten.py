"""Kernels written by hand in Ascend IR (benchmark/handwritten): right, free of hazards, and as fast as docs/performance.md says."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmark" / "handwritten"))

import flash_attention as by_hand  # noqa: E402

from tilelang_ascend.sim import machine  # noqa: E402


def test_flash_attention_is_right_and_free_of_hazards():
    """Six cores for twenty blocks: some have four of them, some three, in steps that follow each other without a gap."""
    size = by_hand.Size(1, 2560, 6)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, size.seq, by_hand.DIM)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, np.nan)
    result = by_hand.run(size, "float16", [q, k, v, out], machine.SimOptions())
    assert not result.hazards, "\n".join(h.text() for h in result.hazards[:3])
    # Scores below 6 and weights are rounded to float16: at most 2^-11 * 6 in an exponent, 2^-11 of a weight, and of the result.
    want = by_hand.reference(q, k, v)
    magnitude = by_hand.reference(q, k, abs(v))
    assert (abs(out - want) <= 2.0**-11 * (abs(want) + 7 * magnitude)).all()


def test_time_of_flash_attention():
    """The share of the Fixpipe, of which nothing else could take less."""
    size = by_hand.Size(3, 4096, 24)
    arrays = [np.empty(size.heads * size.seq * by_hand.DIM, np.float16) for _ in range(4)]
    result = by_hand.run(size, "float16", arrays, machine.SimOptions.time_only(warm=True))
    assert 110 < result.simulated_us - result.launch_us < 125
