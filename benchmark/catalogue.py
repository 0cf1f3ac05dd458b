"""Simulated time of the vector kernels of the catalogue against the bound that traffic with global memory sets.

Bound: every input read from HBM once and every output written to L2 once, whichever takes longer, at the bandwidths of the chip. The
ratio bound / time is 100 % when nothing but memory costs time; launch overhead is left out.
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "testing" / "python" / "catalogue"))

import kernels_elementwise as elementwise
import kernels_layout as layout
import kernels_rows as rows
import numpy as np

import tilelang_ascend.language as T
from tilelang_ascend import arch

MB = 1 << 20


def cases():
    """(name, kernel, arguments in order, indices of the outputs)."""

    def empty(*shapes, dtype="float32"):
        return [np.zeros(s, dtype) for s in shapes]

    n = 16 * MB
    one = (n,)
    yield "K01 add 16384", elementwise.add_tiled(), empty(*[(16384,)] * 3), [2]
    yield "K02 add 16384, two buffers", elementwise.add_tiled(stages=2), empty(*[(16384,)] * 3), [2]
    yield "K24 add f32 16 M", elementwise.binary(lambda a, b: a + b), empty(one, one, one), [2]
    yield "K06 abs f16 16 M", elementwise.unary(lambda x: T.abs(x)), empty(one, one, dtype="float16"), [1]
    yield "K09 leaky_relu f16 16 M", elementwise.unary(elementwise.leaky_relu), empty(one, one, dtype="float16"), [1]
    yield "K07 gelu_erf f16 16 M", elementwise.unary(elementwise.gelu_erf, compute="float32"), empty(one, one, dtype="float16"), [1]
    yield "K08 gelu_tanh f32 16 M", elementwise.unary(elementwise.gelu_tanh, dtype="float32"), empty(one, one), [1]
    yield "K25 mul_add f32 16 M", elementwise.mul_add(), empty(one, one, one, one), [3]
    yield "K37 adam 4096 x 1024", elementwise.adam(4096, 1024), empty(*[(4096, 1024)] * 4), [0, 1, 2]
    yield "K38 dropout 4096 x 4096", elementwise.dropout(4096, 4096), [
        np.zeros((4096, 4096), "float16"), np.zeros((4096, 4096), "uint8"), np.zeros((4096, 4096), "float16"),
    ], [2]  # fmt: skip
    yield "K39 swiglu 4096 x 4096", elementwise.gated(elementwise.silu, 4096, 4096, 8, 512), empty(*[(4096, 4096)] * 3), [2]
    yield "K47 kl_div 2048 x 2304", elementwise.ternary(lambda p, q, _: p * (T.log(p) - q), 2048, 2304), empty(*[(2048, 2304)] * 4), [3]
    yield "K10 reduce_sum f32 4096 x 4096", rows.reduce_sum(4096, 4096), empty((4096, 4096), (4096,)), [1]
    yield "K11 reduce_sum f16 4096 x 4096", rows.reduce_sum(4096, 4096, "float16"), empty((4096, 4096), (4096,), dtype="float16"), [1]
    yield "K12 reduce_max f16 64 x 2048 x 128", rows.reduce_max(64, 2048, 128), empty((64, 2048, 128), (64, 2048), dtype="float16"), [1]
    yield "K13 softmax f16 4096 x 4096", rows.softmax(4096, 4096), empty(*[(4096, 4096)] * 2, dtype="float16"), [1]
    yield "    softmax f32 8192 x 1024", rows.softmax(8192, 1024, "float32", 8), empty(*[(8192, 1024)] * 2), [1]
    yield "    softmax_online f32 192 x 100003", rows.softmax_online(192, 100_003, block_M=4, block_N=2048), empty(*[(192, 100_003)] * 2), [1]
    yield "K15 rms_norm f32 16384 x 256", rows.rms_norm(16384, 256, block_M=16), empty((16384, 256), (256,), (16384, 256)), [2]
    yield "    rms_norm f32 4096 x 4096", rows.rms_norm(4096, 4096), empty((4096, 4096), (4096,), (4096, 4096)), [2]
    yield "K16 rms_norm_split f32 192 x 100003", rows.rms_norm_split(192, 100_003, block_N=2048), empty((192, 100_003), (100_003,), (192, 100_003)), [2]
    yield "K18 rms_norm_split f16 192 x 100003", rows.rms_norm_split(192, 100_003, "float16", block_N=2048), empty((192, 100_003), (100_003,), (192, 100_003), dtype="float16"), [2]
    yield "K35 layer_norm f32 4096 x 1024", rows.layer_norm(4096, 1024, block_M=4), empty((4096, 1024), (1024,), (1024,), (4096, 1024)), [3]
    yield "K36 batch_norm 128 x 96 x 256", rows.batch_norm(128, 96, 256), empty(*[(128, 96, 256)] * 2, (96,), (96,)), [1, 2, 3]
    yield "K28 dynamic_quant 16384 x 512", rows.dynamic_quant(16384, 512, 8), [
        np.zeros((16384, 512), "float16"), np.zeros((16384, 512), "int8"), np.zeros(16384, "float16"),
    ], [1, 2]  # fmt: skip
    yield "K50 cumsum 4096 x 1024", rows.cumsum(4096, 1024), empty(*[(4096, 1024)] * 2), [1]
    yield "K29 transpose f16 4096 x 2048", layout.transpose(4096, 2048), empty((4096, 2048), (2048, 4096), dtype="float16"), [1]
    yield "K45 concat f16 4096 x 2048", layout.concat_columns(4096, 1024, 1024), empty((4096, 1024), (4096, 1024), (4096, 2048), dtype="float16"), [2]
    yield "K46 one_hot 65536 x 64", layout.one_hot(65536, 64, 64), [np.zeros(65536, "int32"), np.zeros((65536, 64), "float32")], [1]
    yield "K49 split_k_sum 512 x 512 x 16", layout.split_k_sum(512, 512, 16), empty((16, 512, 512), (512, 512)), [1]


def bound_us(arrays, outputs, chip) -> float:
    """Least time of the compulsory traffic."""
    written = sum(arrays[i].nbytes for i in outputs)
    read = sum(a.nbytes for i, a in enumerate(arrays) if i not in outputs)
    return 1e6 * max(read / chip.hbm_bytes_per_second, written / chip.l2_write_bytes_per_second)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="only kernels whose name contains this")
    args = parser.parse_args()
    chip = arch.get_chip("Ascend910B1")
    print(f"{'kernel':38s} {'MB':>7s} {'bound us':>9s} {'time us':>9s} {'ratio':>6s}  busiest pipes")
    for name, kernel, arrays, outputs in cases():
        if args.pattern not in name:
            continue
        started = time.perf_counter()
        report = kernel.simulate(*arrays, values=False, checks=False)
        microseconds = report.simulated_us - report.run.launch_us
        bound = bound_us(arrays, outputs, chip)
        pipes = sorted(report.occupancy.items(), key=lambda x: -x[1])[:3]
        print(
            f"{name:38s} {sum(a.nbytes for a in arrays) / MB:7.1f} {bound:9.2f} {microseconds:9.2f} {bound / microseconds:6.0%}  "
            + ", ".join(f"{p} {share:.0%}" for p, share in pipes)
            + f"  [{time.perf_counter() - started:.1f} s]",
            flush=True,
        )


if __name__ == "__main__":
    main()
