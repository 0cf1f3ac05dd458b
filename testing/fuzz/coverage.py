"""How many kernels have which feature."""

from __future__ import annotations

from collections import Counter

from .generate import PROGRAMS, generate

MUST_OCCUR = (
    "rank 1", "rank 2", "rank 3", "rank 4", "chip a2", "chip a5", "fragment operand", "shared operand", "GM operand",
    *(f"dtype {d}" for d in ("float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool")),
    "arithmetic", "/", "//", "%", "max", "min", "abs", "exp", "exp2", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan",
    "tanh", "sigmoid", "erf", "pow", "rounding functions", "cast", "mixed float dtypes", "converting store", "copy with conversion",
    "comparison", "and/or/not", "condition on indices", "bit operations", "shifts", "if_then_else", "if in a nest", "else in a nest",
    "runtime if", "local scalar", "local changed under if", "local carried by a loop", "scalar argument", "scalar from a buffer",
    "serial loop in a nest", "serial loop outside", "runtime trip count", "T.Pipelined", "accumulation in a nest", "broadcast",
    "shifted index", "strided index", "reversed index", "divided index", "fixed index", "transposed index", "indirect index",
    "indirect index (rows)", "index of an inner loop", "GM store", "transposed store", "reversed store", "strided store", "scatter",
    "update of GM in place", "partial nest", "atomic_add of elements", "atomic_max of elements", "atomic_min of elements",
    "atomic_add of a tile", *(f"reduce {k}" for k in ("sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor", "any", "all")),
    "clear=False", "cumsum", "cummax", "transpose", "copy of a tile", "fill", "dynamic shape", "tail", "gemm", "gemm transposed",
)  # fmt: skip
"""Features of which every thousand kernels must hold some: the language the compiler promises to take."""

SINCE_10000 = (
    *(f"reducer {k}" for k in ("sum", "max", "min")), "reducer over a loop", "finalize_reducer into a tile", "reshape",
    "view as another dtype", "view of 8-bit floats", "read through a view", "8-bit float operand", "8-bit float tile", "8-bit float store",
    "sort", "topk", "argsort", "argmax", "argmin",
    "alloc_var", "alloc_var in a nest", "place in a variable", "stores with gaps",
)  # fmt: skip
"""Features that must be in every hundredth kernel from seed 10 000 on, and are in none before."""

PROGRAMS_MUST_HAVE = (
    *(f"gemm loop: {k}" for k in ("serial", "pipelined", "range", "serial n", "pipelined n", "bx", "from", "while", "down", "unroll", "list")),
    "gemm", "continue before a gemm", "break before a gemm", "break after a gemm", "gemm under a condition", "gemm loop under a condition",
    "gemm loop in a loop", "clear in a loop", "clear in a branch", "clear_accum of a condition", "rows of an accumulator",
    "columns of an accumulator", "accumulator copied to GM", "accumulator copied to a tile", "accumulator read by a nest",
    "accumulator changed by a nest", "accumulator reduced", "accumulator added to GM", "accumulator scattered",
    "accumulator and a column of GM", "gemm of an accumulator", "matrix power", "accumulator from a tensor",
    *(f"recurrence: {k}" for k in ("scan", "back", "sort", "solve", "while", "probe", "var", "two", "unroll", "mixed", "compact", "state")),
    "recurrence through GM", "recurrence through a tile", "recurrence under a condition", "step under a condition", "early exit in T.Parallel",
    "triangular loop", "backward", "swap", "while in T.Parallel", "variable carried in T.Parallel", "variable as index of a store",
    "element by two spellings", *(f"rows through GM: {k}" for k in ("nest", "tile", "copy", "fragment", "ping")), "early exit",
    *(f"atomic_{k} on {w} element" for k in ("add", "max") for w in ("GM", "tile")), "histogram", "atomic in a serial loop", "atomic of a view",
    "atomic and plain accesses", "atomic_add of a tile", *(f"atomic at {k}" for k in ("data", "div", "mod", "let", "guard", "distinct")),
    "int32 index", "int64 index",
    "clear of GM", "clear of tile", "clear of tile slice", "fill of tile", "fill of tile slice",
    *(f"{op} {k}" for op in ("reduce from", "reduce to", "copy from", "copy to") for k in ("GM slice", "tile", "tile slice")),
    "cumsum from tile", "cumsum to tile", "transpose from tile", "transpose to tile", "sort to tile", "atomic from tile", "atomic to GM slice",
    *(f"reduce {d}" for d in ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2")),
    "clear=False", "reduce into a wider dtype", "copy with conversion", "reshaped operand", "view as another dtype",
    *(f"late read: {k}" for k in ("range", "start", "slice", "region", "tuple", "list", "dict", "elements", "name", "swap")), "alloc_var",
    "condition on elements", "while on an element", "swap of elements", "condition on a reduction", "condition on a count",
    "serial loop over elements", "region from a variable", "macro", "macro with a value", "recursive macro", "condition in a soup",
    "loop in a soup", "while in a soup", "row of a tile", "store and load of a tensor", "store under a condition", "element of a tile stored",
    "rows around a jump", "break behind a store", "continue behind a store", "else beside a jump", "jump in a branch in a branch",
    "jump in a loop in a loop", "product beside a jump",
    "variable as an index", "grid of rank 1", "grid of rank 2", "grid of rank 3", "several blocks", "two launches", "tail", "dynamic shape", "chip a2", "chip a5",
)  # fmt: skip
"""Features of which every thousand programs (seeds from 100 000 on) must hold some."""


def count(seeds) -> Counter:
    """Feature -> number of kernels."""
    found: Counter = Counter()
    for seed in seeds:
        tags = generate(seed).all_tags()
        found.update(tags)
        found.update({"reduction of 3-D and 4-D tiles"} if any(t.startswith("reduction of") and t[-1] in "34" for t in tags) else ())
    return found


def table(seeds) -> str:
    """Features and the number of seeds of each, most frequent first; those of conversions at the end."""
    found = count(seeds)
    wanted = PROGRAMS_MUST_HAVE if seeds[-1] >= PROGRAMS else (*MUST_OCCUR, *(SINCE_10000 if seeds[-1] >= 10_000 else ()))
    missing = [f"{0:6d}  {t}" for t in wanted if not found[t]]
    rows = [f"{n:6d}  {t}" for t, n in found.most_common() if not t.startswith("cast ")]
    casts = [f"{n:6d}  {t}" for t, n in sorted(found.items()) if t.startswith("cast ")]
    return "\n".join([f" seeds  feature (of {len(seeds)})", *rows, *missing, *casts])
