"""Least times of attention-class kernels: the busiest unit of the chip, if nothing ever waited.

Every function counts what its algorithm has to move and compute (`Work`, totals of a launch). Its docstring says which algorithm, and where the
counts are from. Rates are those of the chip's data (`tilelang_ascend/arch`), each with a source there; the Fixpipe's 40 bytes a cycle are fitted,
and `least(fixpipe=...)` takes others.

Passes are repeats of vector instructions, 64 float32 or 128 float16 lanes each. Tensors are float16, matrix products leave L0C in float32 unless
said otherwise, because the vector unit goes on with them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from tilelang_ascend import arch

CHIP = "Ascend910B1"
MACS = 4096
"""16-bit multiply-adds a cycle: a 16 x 16 x 16 product of fractals."""
ROW = arch.get_chip(CHIP).ub_bank_broadcast_cycles
"""Cycles of a repeat one of whose sources has the same number for a whole row (block stride 0)."""
REDUCE = 1 + 1 / 8 + 1 / 64
"""Passes of a sum or maximum of rows by BlockReduce."""
EXP = 2
"""Passes of Exp, 32 lanes a cycle."""


@dataclass(frozen=True)
class Work:
    """What a launch does on all cores together, in bytes where nothing else is said."""

    macs: float = 0
    """Multiply-adds."""
    fixpipe: float = 0
    """L0C to GM."""
    fixpipe_l1: float = 0
    """L0C to L1."""
    to_l1: float = 0
    to_ub: float = 0
    rows: float = 0
    """Transfers to UB that each have an address of their own."""
    from_ub: float = 0
    passes: float = 0
    """Repeats of vector instructions."""
    hbm: float = 0
    """Inputs, each byte once. What fits into L2 is found there: simulated launches are repeated ones."""

    def __add__(self, other: Work) -> Work:
        return Work(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __rmul__(self, times: float) -> Work:
        return Work(**{f.name: times * getattr(self, f.name) for f in fields(self)})


def least(work: Work, tasks: int | None = None, fixpipe: float | None = None) -> tuple[float, str]:
    """(us, unit): the time the busiest unit takes for its share.

    tasks: blocks of equal work; a core does whole ones. None: work can be shared out evenly.
    fixpipe: bytes a cycle from L0C to GM instead of those of the chip's data.
    """
    chip = arch.get_chip(CHIP)
    cores = chip.num_aic if tasks is None else tasks / -(-tasks // chip.num_aic)
    rate = {name: price.rates.get("bytes", 0) for name, price in chip.prices.items()}
    cycles = {
        "cube": work.macs / MACS,
        "Fixpipe": work.fixpipe / (fixpipe or rate["l0c_to_gm"]) + work.fixpipe_l1 / rate["l0c_to_l1"],
        "loads to L1": work.to_l1 / rate["gm_to_l1"],
        "loads to UB": max(work.to_ub / rate["gm_to_ub"], work.rows * chip.prices["gm_to_ub"].interval_cycles) / 2,
        "stores from UB": work.from_ub / rate["ub_to_gm"] / 2,
        "vector": work.passes / 2,
    }
    times = {unit: 1e6 * each / cores / chip.clock_hz for unit, each in cycles.items()}
    if work.hbm > chip.l2_bytes:
        times["HBM"] = 1e6 * work.hbm / chip.hbm_bytes_per_second
    times["L2 reads"] = 1e6 * (work.to_l1 + work.to_ub) / chip.l2_read_bytes_per_second
    times["L2 writes"] = 1e6 * (work.fixpipe + work.from_ub) / chip.l2_write_bytes_per_second
    unit = max(times, key=lambda name: times[name])
    return times[unit], unit


def softmax_step(rows: int, keys: int, dim: int, scores: int = 4, crossings: float = 1) -> Work:
    """Vector side of one step of online softmax (CATLASS example 23, "flash attention infer"): maximum, scale minus the maximum (Axpy), exp,
    convert, sum; the running output times a factor, plus the product. `scores`: bytes of a score on its way (2: one more conversion);
    `crossings`: how often the output crosses."""
    softmax = (scores == 2) + REDUCE + ROW + EXP + 1 + REDUCE
    return Work(
        fixpipe=rows * keys * scores + crossings * rows * dim * 4,
        to_ub=rows * keys * scores + crossings * rows * dim * 4,
        from_ub=rows * keys * 2,
        to_l1=rows * keys * 2,
        passes=rows * keys / 64 * softmax + crossings * rows * dim / 64 * (ROW + 1),
    )


def forward(
    heads: int, seq: int, dim: int, rows: int, keys: int, causal: bool = False, scores: int = 2, sharing: int | None = None
) -> Work:
    """Flash attention in tiles of `rows` queries and `keys` keys, `sharing` queries for one load of K and V.

    Per tile: two products, scores cross to the vector cores, weights cross back; the output crosses once for 512 keys (CATLASS example 23), whatever the
    source says, because steps may be merged. No tile is cut at the diagonal."""
    blocks = -(-seq // rows)
    steps = sum(-(-min((b + 1) * rows, seq) // keys) for b in range(blocks)) if causal else blocks * -(-seq // keys)
    loads = Work(macs=2 * rows * keys * dim, to_l1=2 * keys * dim * 2 * rows / (sharing or rows))
    return heads * steps * (softmax_step(rows, keys, dim, scores, min(1, keys / 512)) + loads) + Work(hbm=3 * heads * seq * dim * 2)


def decode(batch: int, heads: int, kv_heads: int, keys: int, dim: int, step: int = 512) -> Work:
    """One query a sequence: keys and values are read once, the heads of a group (padded to 16) share them. `step`: keys between two crossings of
    the output. That nothing but this traffic counts follows from the sizes: 64 KiB of 128 keys against 128 cycles of the cube unit."""
    rows = -(-heads // kv_heads // 16) * 16
    each = Work(macs=2 * rows * step * dim, to_l1=2 * step * dim * 2, hbm=2 * step * dim * 2)
    return batch * kv_heads * keys / step * (each + softmax_step(rows, step, dim))


def mla(batch: int, heads: int, keys: int, dim: int = 512, tail: int = 64, step: int = 512, rows: int = 128) -> Work:
    """Latent attention, one token: a key (dim + tail numbers) is read once for `rows` heads, and its first `dim` numbers are its value
    (CATLASS example 19; arXiv 2509.25224 reaches 0.87 of the cube unit with two tokens, 256 rows)."""
    key = (dim + tail) * 2
    each = Work(macs=rows * step * (dim + tail + dim), to_l1=step * key)
    steps = batch * heads / rows * keys / step
    return steps * (each + softmax_step(rows, step, dim)) + Work(hbm=batch * keys * key)


def sparse_mla(tokens: int, heads: int, keys: int, dim: int = 512, tail: int = 64, step: int = 512, rows: int = 128) -> Work:
    """The same for keys that a table lists: `rows` heads gather them to UB row by row, key and tail apart, and through GM to L1
    (tilelang-ascend, sparse_flash_attention: 99 us native, 109 us in TileLang on an A3 for 1 token, 128 heads, 2048 keys)."""
    gathered = tokens * heads / rows * keys
    return mla(tokens, heads, keys, dim, tail, step, rows) + gathered * Work(to_ub=(dim + tail) * 2, rows=2, from_ub=(dim + tail) * 2)


def backward(heads: int, seq: int, dim: int, down: int = 1, across: int | None = None, scores: int = 4, causal: bool = False) -> Work:
    """Tiles of 128 x 128: five products, scores and dP cross to the vector cores, P and dS cross back, gradients are added in GM. A task of `down` blocks
    of keys by `across` of queries adds dQ once for its columns, dK and dV once for its rows (ops-transformer, flash_attention_score_grad:
    4 x 4). GPU kernels add dQ once a tile and keep dK and dV: down = 1, across = all. Under a causal mask half of the tiles are empty."""
    n = seq // 128
    across = n if across is None else across
    tile = 128 * 128
    each = Work(
        macs=5 * tile * dim,
        fixpipe=2 * tile * scores + 128 * dim * 4 / down + 2 * 128 * dim * 4 / across,
        to_l1=3 * tile * 2 + 4 * 128 * dim * 2 / down + 6 * 128 * dim * 2 / across,
        to_ub=2 * tile * scores,
        from_ub=2 * tile * 2,
        # exp(scale * S - lse), convert; dP - delta, times P, scale, convert
        passes=tile / 64 * (1 + ROW + EXP + 1 + ROW + 1 + 1 + 1),
    )
    return heads * (n * (n + 1) // 2 if causal else n * n) * each


def linear_attention(tasks: int, seq: int, chunk: int, dim_k: int, dim_v: int) -> Work:
    """One task keeps a dim_k x dim_v part of the state. A chunk: Q K^T masked (vector), times V; K^T V added to the state, which leaves L0C for L1;
    Q times the state; Q is scaled on the vector cores; the output is added in GM in float32."""
    square = chunk * chunk
    each = Work(
        macs=square * (dim_k + dim_v) + 2 * chunk * dim_k * dim_v,
        fixpipe=square * 4 + chunk * dim_v * 4,
        fixpipe_l1=dim_k * dim_v * 2,
        to_l1=chunk * (2 * dim_k + dim_v) * 2 + square * 2,
        to_ub=chunk * dim_k * 2 + square * 4,
        from_ub=chunk * dim_k * 2 + square * 2,
        passes=chunk * dim_k / 128 + square / 64 * 2,
        hbm=chunk * (2 * dim_k + dim_v) * 2,
    )
    return tasks * seq / chunk * each


def delta_kkt(chunks: int, chunk: int, dim: int) -> Work:
    """Gated delta rule: (beta K) K^T, times exp of differences of gates below the diagonal (six passes)."""
    square = chunk * chunk
    return chunks * Work(
        macs=square * dim,
        fixpipe=square * 4,
        to_l1=2 * chunk * dim * 2,
        to_ub=chunk * dim * 2 + square * 4,
        from_ub=chunk * dim * 2 + square * 4,
        passes=chunk * dim / 128 * ROW + square / 64 * (ROW + EXP + 1 + 1 + 1),
        hbm=chunk * dim * 2,
    )


def delta_inverse(chunks: int, chunk: int) -> Work:
    """Inverse of unit lower triangles, row by row: row i is the sum of i rows, each times a number."""
    return chunks * Work(
        to_ub=chunk * chunk * 4, from_ub=chunk * chunk * 2, passes=chunk * chunk / 2 * chunk / 64 * 2, hbm=chunk * chunk * 4
    )


def delta_wy(chunks: int, chunk: int, dim_k: int, dim_v: int) -> Work:
    """A (beta V) and A (beta exp(g) K): operands are scaled on the vector cores, results leave in float16."""
    rows = chunk * (dim_k + dim_v)
    return chunks * Work(
        macs=chunk * rows,
        fixpipe=rows * 2,
        to_l1=rows * 2 + chunk * chunk * 2,
        to_ub=rows * 2,
        from_ub=rows * 2,
        passes=chunk * dim_v / 128 * ROW + chunk * dim_k / 64 * (1 + ROW + 1),
        hbm=rows * 2 + chunk * chunk * 2,
    )


def delta_states(tasks: int, seq: int, chunk: int, dim_k: int, dim_v: int) -> Work:
    """The recurrence, one chain a task: U - W S, gates, S times the last gate plus K^T V, in every chunk. What every step waits for
    (four crossings one after the other) is not in it."""
    state, rows = dim_k * dim_v, chunk * dim_v
    each = Work(
        macs=2 * chunk * state,
        fixpipe=rows * 4 + state * 4,
        to_l1=2 * chunk * dim_k * 2 + state * 2 + rows * 2,
        to_ub=rows * 4 + state * 4 + rows * 2,
        from_ub=state * 2 + 2 * rows * 2,
        passes=rows / 64 * (1 + 1 + 1 + ROW + 1) + state / 64 * 3,
        hbm=2 * chunk * dim_k * 2 + rows * 2,
    )
    return tasks * seq / chunk * each


def delta_output(chunks: int, chunk: int, dim_k: int, dim_v: int) -> Work:
    """(Q S) exp(g) + (Q K^T with gates) V."""
    square, rows = chunk * chunk, chunk * dim_v
    return chunks * Work(
        macs=chunk * dim_k * dim_v + square * (dim_k + dim_v),
        fixpipe=square * 4 + 2 * rows * 4,
        to_l1=2 * chunk * dim_k * 2 + dim_k * dim_v * 2 + rows * 2 + square * 2,
        to_ub=square * 4 + 2 * rows * 4,
        from_ub=square * 2 + rows * 2,
        passes=square / 64 * (ROW + EXP + 1 + 1 + 1) + rows / 64 * (ROW + 1 + 1 + 1),
        hbm=2 * chunk * dim_k * 2 + dim_k * dim_v * 2 + rows * 2,
    )


def mamba_state(tasks: int, chunk: int, dim: int, state: int, heads_per_group: int) -> Work:
    """State a chunk adds: (x times its decay)^T B; x is scaled on the vector cores."""
    return tasks * Work(
        macs=chunk * dim * state,
        fixpipe=dim * state * 2,
        to_l1=chunk * (dim + state) * 2,
        to_ub=chunk * dim * 2,
        from_ub=chunk * dim * 2,
        passes=chunk * dim / 64 * (1 + ROW + 1),
        hbm=chunk * (dim + state / heads_per_group) * 2,
    )


def mamba_scan(tasks: int, chunk: int, dim: int, state: int, heads_per_group: int) -> Work:
    """Outputs of a chunk: (C state^T) scaled by rows, plus (C B^T with decays, lower triangle) x, plus D x. Decays: convert, difference, exp,
    times, times dt, convert for every element of the triangle."""
    half, rows = chunk * chunk / 2, chunk * dim
    return tasks * Work(
        macs=chunk * state * dim + half * dim,
        fixpipe=2 * rows * 4,
        to_l1=chunk * state * 2 + state * dim * 2 + half * 2 + rows * 2,
        to_ub=half * 2 + 2 * rows * 4 + rows * 2,
        from_ub=half * 2 + rows * 2,
        passes=half / 64 * (1 + ROW + EXP + 1 + 1 + 1) + rows / 64 * (ROW + 1 + 1 + 1 + 1),
        hbm=(rows + dim * state + (chunk * state + chunk * chunk) / heads_per_group) * 2,
    )


def chained_gemm(m: int, n: int, k: int, p: int, rows: int) -> Work:
    """(A B) C: the product in the middle goes from L0C to L1, B and C are read once for `rows` rows."""
    return Work(
        macs=m * n * (k + p),
        fixpipe=m * p * 2,
        fixpipe_l1=m * n * 2,
        to_l1=m * k * 2 + m / rows * n * (k + p) * 2,
        hbm=(m * k + n * (k + p)) * 2,
    )


def gemm_softmax(m: int, n: int, k: int, rows: int) -> Work:
    """Softmax of the rows of A B: maximum, minus the maximum, exp, sum, divide, convert."""
    return Work(
        macs=m * n * k,
        fixpipe=m * n * 4,
        to_l1=m * k * 2 + m / rows * n * k * 2,
        to_ub=m * n * 4,
        from_ub=m * n * 2,
        passes=m * n / 64 * (REDUCE + ROW + EXP + REDUCE + ROW + 1),
        hbm=(m * k + n * k) * 2,
    )


def experts_up(tokens: int, hidden: int, width: int, experts: int, rows: int, columns: int) -> Work:
    """Two products of the same rows (gate and up), then silu(gate) * up on the vector cores."""
    tiles = tokens / rows * width / columns
    return Work(
        macs=2 * tokens * hidden * width,
        fixpipe=2 * tokens * width * 4,
        to_l1=tiles * (rows + 2 * columns) * hidden * 2,
        to_ub=2 * tokens * width * 4,
        from_ub=tokens * width * 2,
        passes=tokens * width / 64 * (1 + EXP + 1 + 1 + 1 + 1),
        hbm=(tokens * hidden + 2 * experts * hidden * width) * 2,
    )


def experts_down(tokens: int, hidden: int, width: int, experts: int, rows: int, columns: int) -> Work:
    """A product whose rows are scaled on the vector cores."""
    tiles = tokens / rows * hidden / columns
    return Work(
        macs=tokens * hidden * width,
        fixpipe=tokens * hidden * 4,
        to_l1=tiles * (rows + columns) * width * 2,
        to_ub=tokens * hidden * 4,
        from_ub=tokens * hidden * 2,
        passes=tokens * hidden / 64 * (ROW + 1),
        hbm=(tokens * width + experts * hidden * width) * 2,
    )
