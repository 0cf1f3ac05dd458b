"""Compiler options under the names GPU kernels use.

`pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: True}` must go through unchanged. The keys that mean something on an
Ascend chip are honoured; the ones that steer CUDA only are accepted and have no effect.
"""

from __future__ import annotations

import difflib
from enum import Enum

from ..arch import CANN_RELEASES


class PassConfigKey(str, Enum):
    """Keys of `pass_configs`; the value of each member is the option's string name."""

    TL_SIMPLIFY = "tl.Simplify"
    TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES = "transitively_prove_inequalities"
    TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS = "convert_boolean_to_and_of_ors"
    TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES = "apply_constraints_to_boolean_branches"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL = "propagate_knowns_to_prove_conditional"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS = "propagate_knowns_to_simplify_expressions"
    TL_SIMPLIFY_ENABLE_LET_INLINE = "enable_simplify_let_inline"
    TL_DISABLE_BUFFER_INIT_CHECK = "tl.disable_buffer_init_check"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_DISABLE_PRELOWER_SEMANTIC_CHECK = "tl.disable_prelower_semantic_check"
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_ENABLE_AUTO_SCHEDULE = "tl.enable_auto_schedule"
    TL_ENABLE_AUTO_WARP_SPECIALIZATION = "tl.enable_auto_warp_specialization"
    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"
    TL_EMIT_LINE_DIRECTIVES = "tl.emit_line_directives"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_ENABLE_REDUCER_PLAN_VERBOSE = "tl.enable_reducer_plan_verbose"
    TL_LAYOUT_COST_MODEL = "tl.layout_cost_model"
    TL_REDUCER_FORCE_BASELINE = "tl.reducer_force_baseline"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_ENABLE_FP32X2_REDUCTION = "tl.enable_fp32x2_reduction"
    TL_ENABLE_ASYNC_COPY = "tl.enable_async_copy"
    TL_ENABLE_LOWER_LDGSTG = "tl.enable_lower_ldgstg"
    TL_ENABLE_LOWER_LDGSTG_PREDICATED = "tl.enable_lower_ldgstg_predicated"
    TL_ENABLE_VECTORIZE_PLANNER_VERBOSE = "tl.enable_vectorize_planner_verbose"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_DISABLE_SHARED_MEMORY_REUSE = "tl.disable_shared_memory_reuse"
    TL_DISABLE_SHUFFLE_ELECT = "tl.disable_shuffle_elect"
    TL_DISABLE_LOOP_UNSWITCHING = "tl.disable_loop_unswitching"
    TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE = "tl.loop_unswitching_allow_non_trivial_else"
    TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS = "tl.if_stmt_binding_inline_replayable_binds"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_FORCE_LET_INLINE = "tl.force_let_inline"
    TL_AST_PRINT_ENABLE = "tl.ast_print_enable"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_STORAGE_REWRITE_DETECT_INPLACE = "tl.storage_rewrite_detect_inplace"
    TL_DISABLE_OUT_OF_BOUND_WARNING = "tl.disable_out_of_bound_warning"
    TL_ENABLE_DUMP_IR = "tl.enable_dump_ir"
    TL_DUMP_IR_DIR = "tl.dump_ir_path"
    TL_PASS_PROFILE = "tl.pass_profile"
    TL_PASS_PROFILE_THRESHOLD_MS = "tl.pass_profile_threshold_ms"
    TL_DYNAMIC_ALIGNMENT = "tl.dynamic_alignment"
    TL_DISABLE_DYNAMIC_TAIL_SPLIT = "tl.disable_dynamic_tail_split"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tir.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tirx.disable_cse_tir"
    TIR_SIMPLIFY = "tirx.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tirx.disable_storage_rewrite"
    TIR_DISABLE_VECTORIZE = "tirx.disable_vectorize"
    TIR_USE_ASYNC_COPY = "tirx.use_async_copy"
    TIR_ENABLE_DEBUG = "tirx.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tirx.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tirx.add_lower_pass"
    TIR_NOALIAS = "tirx.noalias"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"


TVM_KEYS = frozenset(
    """
    s_tir.HoistExpression s_tir.HoistIfThenElse s_tir.InjectDoubleBuffer s_tir.LoopPartition tirx.RemoveNoOp
    tirx.StmtSimplify tirx.UnrollLoop tirx.debug_keep_trivial_loop tirx.disable_assert tirx.disable_cse_tir
    tirx.enable_buffer_level_predication tirx.enable_fast_math tirx.instrument_bound_checkers
    tirx.instrument_lwp tirx.is_entry_func tirx.vtcm_capacity
    """.split()
)
"""Options of tvm's own passes, which scripts may set by name."""

HONOURED: dict[str, tuple[str, tuple]] = {
    PassConfigKey.TL_ENABLE_FAST_MATH.value: ("fast_math", (True, False)),
    "tl.coarsen_blocks": ("coarsen", (True, False)),
    "tl.keep_operands": ("keep_operands", (True, False)),
    "tl.merge_steps": ("merge_steps", (True, False)),
    "tl.vectorize_loops": ("vectorize_loops", (True, False)),
    "tl.direct_channels": ("direct_channels", (True, False)),
    "tl.overlap_tiles": ("overlap_tiles", (True, False)),
    "tl.pair_tiles": ("pair_tiles", (True, False)),
    "tl.pair_blocks": ("pair_blocks", (True, False)),
    "tl.hint_l2": ("hint_l2", (True, False)),
    "tl.cann": ("cann", CANN_RELEASES),
    "cann": ("cann", CANN_RELEASES),
}
"""Option name -> field of `transform.pipeline.Options` it sets, and what it takes. The others name mechanisms an Ascend core lacks."""

_KNOWN = frozenset(key.value for key in PassConfigKey) | TVM_KEYS | HONOURED.keys()


def normalize_pass_configs(configs: dict | None) -> dict[str, object]:
    """The fields of `transform.pipeline.Options` that `configs` sets.

    Raises:
        ValueError: a key is unknown (most likely a typing mistake); the message names the closest known ones. Or a value is not
            what the key takes.
    """
    kept: dict[str, object] = {}
    for key, value in (configs or {}).items():
        name = key.value if isinstance(key, PassConfigKey) else str(key)
        if _canonical(name) not in _CANONICAL:
            raise ValueError(f"unknown pass_configs key {name!r}; {_suggestion(name)}")
        if name in HONOURED:
            field, choices = HONOURED[name]
            if value not in choices:  # 0 and 1 are False and True, as those of NumPy are
                raise ValueError(f"pass_configs[{name!r}] is {value!r}, it takes {' or '.join(map(repr, choices))}")
            kept[field] = type(choices[0])(value)
    return kept


def _canonical(name: str) -> str:
    """tvm has renamed the family `tir` to `tirx` and moved a part to `s_tir`; scripts use all of them."""
    family, _, rest = name.partition(".")
    return f"tir.{rest}" if family in ("tirx", "s_tir") else name


_CANONICAL = frozenset(_canonical(name) for name in _KNOWN)


def _suggestion(name: str) -> str:
    lower = {known.lower(): known for known in _KNOWN}
    lower.update((known.lower().rpartition(".")[2], known) for known in _KNOWN)
    near = dict.fromkeys(lower[n] for n in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6))
    if near:
        return f"did you mean {' or '.join(repr(n) for n in near)}?"
    return "use a member of tilelang.PassConfigKey"
