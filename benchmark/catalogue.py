"""Simulated time of the vector kernels of the catalogue against two bounds.

Memory: every input read from HBM once and every output written to L2 once, whichever takes longer, at the bandwidths of the chip.
Instructions: the time in which the busiest pipe executes what the kernel issues, as if nothing waited; and with the latency that no order of these
instructions hides. L2 starts empty and launch overhead is left out. docs/performance.md explains the table.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "testing" / "python" / "catalogue"))

import kernels_elementwise as elementwise
import kernels_layout as layout
import kernels_rows as rows
import numpy as np

import tilelang_ascend.language as T
from tilelang_ascend import arch
from tilelang_ascend.ir import For, statements
from tilelang_ascend.tile.uses import INDEPENDENT

MB = 1 << 20
F16, F32 = "float16", "float32"


@dataclass(frozen=True)
class Case:
    """One kernel: its arguments in order, which of them it writes, and which of those it reads as well."""

    name: str
    kernel: object
    arrays: list
    written: tuple[int, ...]
    updated: tuple[int, ...] = ()

    def bound_us(self, chip) -> float:
        """Least time of the compulsory traffic."""
        written = sum(self.arrays[i].nbytes for i in self.written)
        read = sum(a.nbytes for i, a in enumerate(self.arrays) if i not in self.written or i in self.updated)
        return 1e6 * max(read / chip.hbm_bytes_per_second, written / chip.l2_write_bytes_per_second)


def zeros(*shapes, dtype=F32):
    """Arguments of the given shapes. Simulated time does not depend on values."""
    return [np.zeros(s, dtype) for s in shapes]


def cast(source, target):
    """K44 for one pair of dtypes, tiles of about 16 KB."""
    block = 16384 // np.dtype(source).itemsize
    return elementwise.unary(lambda v: T.cast(v, target), source, target, block=block)


def top(M, N, K):
    """Arguments of the top-k kernels."""
    return [*zeros((M, N), (M, K)), *zeros((M, K), dtype="int32")]


def targets():
    """Kernels that memory alone should bound."""
    one = (16 * MB,)
    wide = (4096, 4096)
    yield Case("K24 add f32 16 M", elementwise.binary(lambda a, b: a + b), zeros(one, one, one), (2,))
    yield Case("K06 abs f16 16 M", elementwise.unary(lambda x: T.abs(x), block=8192), zeros(one, one, dtype=F16), (1,))
    gelu = elementwise.unary(elementwise.gelu_tanh, dtype=F32, block=6144)
    yield Case("K08 gelu_tanh f32 16 M", gelu, zeros(one, one), (1,))
    yield Case("K09 leaky_relu f16 16 M", elementwise.unary(elementwise.leaky_relu, block=4096), zeros(one, one, dtype=F16), (1,))
    yield Case("K25 mul_add f32 16 M", elementwise.mul_add(block=4096), zeros(one, one, one, one), (3,))
    yield Case("K26 add_first f32 16 M", elementwise.add_first(block=4096), zeros(one, (1,), one), (2,))
    yield Case("K44 cast f32 to f16 16 M", cast("float32", F16), [*zeros(one), *zeros(one, dtype=F16)], (1,))
    quant = elementwise.unary(lambda v: T.round(v * T.float16(2) + T.float16(0.9)), out_dtype="int8", block=8192)
    yield Case("K27 static_quant f16 16 M", quant, [*zeros(one, dtype=F16), *zeros(one, dtype="int8")], (1,))
    yield Case("K44 cast int8 to f16 16 M", cast("int8", F16), [*zeros(one, dtype="int8"), *zeros(one, dtype=F16)], (1,))
    yield Case("K44 cast int64 to f32 16 M", cast("int64", F32), [*zeros(one, dtype="int64"), *zeros(one)], (1,))
    yield Case("K37 adam f32 4096 x 1024", elementwise.adam(4096, 1024), zeros(*[(4096, 1024)] * 4), (0, 1, 2), (0, 1, 2))
    masked = [*zeros(wide, dtype=F16), *zeros(wide, dtype="uint8"), *zeros(wide, dtype=F16)]
    yield Case("K38 dropout f16 4096 x 4096", elementwise.dropout(4096, 4096, block_M=8), masked, (2,))
    yield Case("K39 swiglu f32 4096 x 4096", elementwise.gated(elementwise.silu, 4096, 4096, 8, 512), zeros(wide, wide, wide), (2,))
    kl_div = elementwise.binary_2d(lambda p, q: p * (T.log(p) - q), 2048, 2304, block_M=8, block_N=256)
    yield Case("K47 kl_div f32 2048 x 2304", kl_div, zeros(*[(2048, 2304)] * 3), (2,))
    dynamic = rows.softmax_dynamic(32, 256, block_H=32)
    yield Case("K19 softmax_dynamic f32 1024 x 32 x 256", dynamic, zeros(*[(1024, 32, 1, 256)] * 2), (1,))
    yield Case("    softmax f32 8192 x 1024", rows.softmax(8192, 1024, F32, 8), zeros(*[(8192, 1024)] * 2), (1,))
    yield Case("K15 rms_norm f32 16384 x 256", rows.rms_norm(16384, 256, block_M=18), zeros((16384, 256), (256,), (16384, 256)), (2,))
    yield Case("    rms_norm f32 4096 x 4096", rows.rms_norm(4096, 4096), zeros(wide, (4096,), wide), (2,))
    yield Case("K29 transpose f16 4096 x 2048", layout.transpose(4096, 2048), zeros((4096, 2048), (2048, 4096), dtype=F16), (1,))


def others():
    """Kernels that instructions, latency or a second pass bound."""
    one = (16 * MB,)
    wide, long = (4096, 4096), (192, 100_003)
    yield Case("K01 add f32 16384", elementwise.add_tiled(), zeros(*[(16384,)] * 3), (2,))
    yield Case("K02 add f32 16384, two buffers", elementwise.add_tiled(stages=2), zeros(*[(16384,)] * 3), (2,))
    gelu = elementwise.unary(elementwise.gelu_erf, compute=F32, block=6144)
    yield Case("K07 gelu_erf f16 16 M", gelu, zeros(one, one, dtype=F16), (1,))
    yield Case("K10 reduce_sum f32 4096 x 4096", rows.reduce_sum(4096, 4096, block_M=2), zeros(wide, (4096,)), (1,))
    yield Case("K11 reduce_sum f16 4096 x 4096", rows.reduce_sum(4096, 4096, F16), zeros(wide, (4096,), dtype=F16), (1,))
    yield Case("K12 reduce_max f16 64 x 2048 x 128", rows.reduce_max(64, 2048, 128), zeros((64, 2048, 128), (64, 2048), dtype=F16), (1,))
    yield Case("K13 softmax f16 4096 x 4096", rows.softmax(4096, 4096, block_M=2), zeros(wide, wide, dtype=F16), (1,))
    online = rows.softmax_online(192, 100_003, block_M=4, block_N=2048)
    yield Case("    softmax_online f32 192 x 100003", online, zeros(long, long), (1,))
    split = rows.rms_norm_split(192, 100_003, block_N=2048)
    yield Case("K16 rms_norm_split f32 192 x 100003", split, zeros(long, (100_003,), long), (2,))
    split = rows.rms_norm_split(192, 100_003, F16, block_N=2048)
    yield Case("K18 rms_norm_split f16 192 x 100003", split, zeros(long, (100_003,), long, dtype=F16), (2,))
    norm = rows.layer_norm(4096, 1024, block_M=8)
    yield Case("K35 layer_norm f32 4096 x 1024", norm, zeros((4096, 1024), (1024,), (1024,), (4096, 1024)), (3,))
    yield Case("K36 batch_norm f32 128 x 96 x 256", rows.batch_norm(128, 96, 256), zeros(*[(128, 96, 256)] * 2, (96,), (96,)), (1, 2, 3))
    norm = rows.rms_norm(16384, 256, F16, block_M=35)
    yield Case("K17 rms_norm f16 16384 x 256", norm, zeros((16384, 256), (256,), (16384, 256), dtype=F16), (2,))
    quantised = [*zeros((16384, 512), dtype=F16), *zeros((16384, 512), dtype="int8"), *zeros(16384, dtype=F16)]
    yield Case("K28 dynamic_quant f16 16384 x 512", rows.dynamic_quant(16384, 512, 12), quantised, (1, 2))
    yield Case("K50 cumsum f32 4096 x 1024", rows.cumsum(4096, 1024, block_M=8), zeros(*[(4096, 1024)] * 2), (1,))
    concat = layout.concat_columns(4096, 1024, 1024)
    yield Case("K45 concat f16 4096 x 2048", concat, zeros((4096, 1024), (4096, 1024), (4096, 2048), dtype=F16), (2,))
    rope = layout.rope(4096, 64, 64)
    yield Case("K42 rope bf16 4096 x 64 x 64", rope, zeros((4096, 64, 64), (4096, 64), (4096, 64), (4096, 64, 64), dtype="bfloat16"), (3,))
    paged = [*zeros((8192, 128), dtype="int8"), *zeros(8192, dtype="int32"), *zeros((8192, 128), dtype="int8")]
    yield Case("K43 scatter_rows int8 8192 x 128", layout.scatter_rows(8192, 8192, 128), paged, (2,))
    yield Case("K45 broadcast f32 4096 x 2048", layout.broadcast_rows(4096, 2048), zeros((1, 2048), (4096, 2048)), (1,))
    hot = [*zeros(65536, dtype="int32"), *zeros((65536, 64))]
    yield Case("K46 one_hot f32 65536 x 64", layout.one_hot(65536, 64, 64), hot, (1,))
    yield Case("K48 top_k f32 1024 x 4096, k 2048", layout.top_k_sorted(1024, 4096, 2048), top(1024, 4096, 2048), (1, 2))
    yield Case("K48 top_k by maxima f32 1024 x 128, k 6", layout.top_k_iterative(1024, 128, 6), top(1024, 128, 6), (1, 2))
    yield Case("K49 split_k_sum f32 512 x 512 x 16", layout.split_k_sum(512, 512, 16), zeros((16, 512, 512), (512, 512)), (1,))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="only kernels whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/performance.md")
    parser.add_argument("--quick", action="store_true", help="only the kernels that memory alone should bound")
    args = parser.parse_args()
    chip = arch.get_chip("Ascend910B1")
    show = print_markdown if args.markdown else print_text
    show(None)
    for case in targets() if args.quick else [*targets(), *others()]:
        if args.pattern not in case.name:
            continue
        report = case.kernel.simulate(*case.arrays, values=False, checks=False, warm=False)
        time, executes = report.simulated_us - report.run.launch_us, max(report.occupancy.values())
        show(case, time, (case.bound_us(chip), executes * time, with_latency_us(case, report, chip)), report.occupancy)


def with_latency_us(case, report, chip) -> float:
    """The least time of the instructions of a kernel in any order: what the busiest pipe executes, and the way of the first operands to it and of the
    last results from it. If the cores that work have one tile each, nothing runs beside a chain of dependent vector instructions either."""
    pipes = {p["pipe"]: p for p in report.to_dict()["pipes"] if p["busy_cycles"]}
    ways = {"MTE2": "gm_to_ub", "V": "simple", "MTE3": "ub_to_gm"}
    latency = {pipe: chip.prices[price].latency_cycles for pipe, price in ways.items() if pipe in pipes}
    found = []
    for pipe, p in pipes.items():
        cycles = p["busy_cycles"] + p["bandwidth_cycles"]
        if pipe == "V" and not _has_rounds(case.kernel):
            cycles += p["barrier_cycles"]
        # The scalar unit may begin at once, and results of what it issues last are on their way when it is done.
        found.append(cycles + (latency.get("MTE3", 0) if pipe == "S" else sum(latency.values())))
    return max(found) / chip.clock_hz * 1e6


def _has_rounds(kernel) -> bool:
    """True if cores work on several blocks one after the other."""
    functions = kernel.artifact.ascend_ir.functions.values()
    return any(isinstance(s, For) and INDEPENDENT in s.annotations for f in functions for s in statements(f.body))


def print_text(case, microseconds=0.0, bounds=(), occupancy=None):
    """One line of the table, its head without a case."""
    if case is None:
        print("simulated on Ascend910B1")
        names = " ".join(f"{name:>9s} {'ratio':>6s}" for name in ("memory", "instr.", "latency"))
        print(f"{'kernel':38s} {'MB':>7s} {'time us':>9s} {names}  busiest pipes")
        return
    size = sum(a.nbytes for a in case.arrays) / MB
    columns = " ".join(f"{bound:9.2f} {bound / microseconds:6.0%}" for bound in bounds)
    print(f"{case.name:38s} {size:7.1f} {microseconds:9.2f} {columns}  {busiest(occupancy)}", flush=True)


def print_markdown(case, microseconds=0.0, bounds=(), occupancy=None):
    """One row of a Markdown table, its head without a case."""
    if case is None:
        print("| kernel | MB | simulated, us | memory, us | ratio | instructions, us | ratio | and latency, us | ratio | busiest pipes |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        return
    size = sum(a.nbytes for a in case.arrays) / MB
    columns = " | ".join(f"{bound:.2f} | {bound / microseconds:.0%}" for bound in bounds)
    print(f"| {case.name.strip()} | {size:.1f} | {microseconds:.2f} | {columns} | {busiest(occupancy)} |", flush=True)


def busiest(occupancy) -> str:
    """The three busiest pipes."""
    return ", ".join(f"{p} {share:.0%}" for p, share in sorted(occupancy.items(), key=lambda x: -x[1])[:3])


if __name__ == "__main__":
    main()
