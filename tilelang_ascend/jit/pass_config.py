"""Compiler options under the names GPU kernels use.

`pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: True}` must go through unchanged. The keys that mean something on an
Ascend chip are honoured; the ones that steer CUDA only are accepted and have no effect.
"""

from __future__ import annotations

from enum import Enum


class PassConfigKey(str, Enum):
    """Keys of `pass_configs`; the value of each member is the option's string name."""

    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_SIMPLIFY = "tl.Simplify"
    TL_DYNAMIC_ALIGNMENT = "tl.dynamic_alignment"
    TL_DISABLE_DYNAMIC_TAIL_SPLIT = "tl.disable_dynamic_tail_split"
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_DISABLE_SHUFFLE_ELECT = "tl.disable_shuffle_elect"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_DISABLE_OUT_OF_BOUND_WARNING = "tl.disable_out_of_bound_warning"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_FORCE_LET_INLINE = "tl.force_let_inline"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_STORAGE_REWRITE_DETECT_INPLACE = "tl.storage_rewrite_detect_inplace"
    TL_AST_PRINT_ENABLE = "tl.ast_print_enable"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_ENABLE_LOWER_LDGSTG = "tl.enable_lower_ldgstg"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tir.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tir.disable_cse_tir"
    TIR_SIMPLIFY = "tir.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tir.disable_storage_rewrite"
    TIR_DISABLE_VECTORIZE = "tir.disable_vectorize"
    TIR_USE_ASYNC_COPY = "tir.use_async_copy"
    TIR_ENABLE_DEBUG = "tir.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tir.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tir.add_lower_pass"
    TIR_NOALIAS = "tir.noalias"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"


HONOURED: dict[str, str] = {}
"""Option name -> field of `transform.pipeline.Options` it sets. The others name mechanisms an Ascend core lacks."""


def normalize_pass_configs(configs: dict | None) -> dict[str, object]:
    """The fields of `transform.pipeline.Options` that `configs` sets.

    Unknown keys of the `tl.`, `tir.`, `cuda.` and `s_tir.` families are accepted: every release has new ones.

    Raises:
        ValueError: a key belongs to no known family (most likely a typing mistake).
    """
    kept: dict[str, object] = {}
    for key, value in (configs or {}).items():
        name = key.value if isinstance(key, PassConfigKey) else str(key)
        if not name.startswith(("tl.", "tir.", "tirx.", "s_tir.", "cuda.")):
            raise ValueError(f"unknown pass_configs key {name!r}; use a member of tilelang.PassConfigKey")
        if name in HONOURED:
            kept[HONOURED[name]] = value
    return kept
