"""Flash attention forward, as GPU users write it, on the machine model: simulated time against the bound of its own algorithm.

The bound is that of the busiest unit for steps of `block_N` keys whose outputs cross between the cores in float32, and whose scores do in
float16; rates are those of the chip's data (the Fixpipe's 40 bytes a cycle is a fitted value: `--fixpipe` shows what hangs on it). Fast math, as in
upstream's scripts.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "flash_attention"))

import torch

import tilelang_ascend as tilelang
from tilelang_ascend import compat

FIXPIPE, LOAD_L1, LOAD_UB, STORE_UB = 40, 78, 58, 109
"""Bytes a cycle of one core: L0C to GM, GM to L1, GM to UB, UB to GM."""
MACS = 4096
"""16-bit multiply-adds a cycle."""
VECTOR_PASSES = 1 + 1.14 + 1.69 + 2 + 1 + 1.14
"""Passes over the scores, in single vector instructions: convert, max, scale and subtract a row, exp, convert, sum."""
CLOCK_GHZ, CORES = 1.85, 24
ROWS = [
    (2048, 64, 64, 64, False),
    (4096, 64, 128, 128, False),
    (4096, 128, 64, 128, False),
    (4096, 128, 128, 128, False),
    (4096, 128, 64, 64, True),
    (4096, 128, 128, 128, True),
]


def bound_us(heads: int, seq: int, dim: int, m: int, n: int, causal: bool, fixpipe: float) -> tuple[float, str]:
    """(us, unit) of all tiles of m queries and n keys, shared out over the cores."""
    lanes = m // 2 * n / 64
    units = {
        "M": m * n * 2 * dim / MACS,
        "FIX": (m * n * 2 + m * dim * 4) / fixpipe,
        "MTE2 of the cube core": (2 * n * dim * 2 + m * n * 2) / LOAD_L1,
        "MTE2 of the vector cores": (m // 2 * n * 2 + m // 2 * dim * 4) / LOAD_UB,
        "MTE3": m // 2 * n * 2 / STORE_UB,
        "V": lanes * VECTOR_PASSES + m // 2 * dim / 64 * 2.69,
    }
    blocks = -(-seq // m)
    steps = sum(-(-min((b + 1) * m, seq) // n) for b in range(blocks)) if causal else blocks * -(-seq // n)
    unit = max(units, key=units.get)
    return heads * steps / CORES * units[unit] / CLOCK_GHZ / 1000, unit


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--fixpipe", type=float, default=FIXPIPE, help="bytes a cycle from L0C to GM that the bound takes")
    args = parser.parse_args()
    with compat.session():
        from forward import flash_attention

    fast = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
    print(f"{args.heads} heads, float16; simulated on Ascend910B1")
    for seq, dim, m, n, causal in ROWS:
        start = time.perf_counter()
        kernel = tilelang.compile(
            flash_attention.get_tir(1, args.heads, args.heads, seq, dim, causal, m, n), out_idx=[3], pass_configs=fast
        )
        seconds = time.perf_counter() - start
        tensors = [torch.zeros(1, args.heads, seq, dim).half() for _ in range(3)]
        took = kernel.simulate(*tensors, values=False, checks=False).simulated_us
        least, unit = bound_us(args.heads, seq, dim, m, n, causal, args.fixpipe)
        print(
            f"seq {seq} dim {dim} tiles {m}x{n}{' causal' if causal else '':7}: simulated {took:7.1f} us, bound {least:7.1f} us ({unit}), "
            f"{least / took:.2f} of the bound; compiled in {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
