"""Everything tilelang exports, and what becomes of it here: docs/upstream.md is made of this.

Write the page: ``python -m tilelang_ascend.compat.upstream docs/upstream.md``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

from ..errors import TilelangAscendError, UnknownName
from ..language import hints

VERSION = "0.1.15"

PACKAGE = """
    DataType Fragment JITKernel Layout PassConfigKey Profiler TensorSupplyType analysis ascend autotune autotuner build_date cdiv
    compile contrib cpu cuda deprecated disable_cache dtypes enable_cache engine env intrinsics ir is_cache_enabled jit language
    layout libinfo lower math metal next_power_of_2 par_compile profiler quantize register_c_postproc register_cuda_postproc
    register_hip_postproc rocm set_log_level testing tileop tools transform tvm utils webgpu
"""
"""Names of `tilelang`."""

LANGUAGE = {
    "TileLang": """
        Any AnyDType BaseTileScheduler Buffer CUDASourceCodeKernel ClusterKernel Fragment FragmentBuffer GemmWarpPolicy JITFunc
        KernelLaunchFrame Layout LocalBuffer PartialFragment Persistent PersistentTileScheduler Pipelined Ref Select Serial
        SharedBuffer StridedTensor Tensor Vectorized WSID WSInstr WSOpRef WSPipeline WSRole WSSchedule WSScope WSSync WSSyncKind
        __cos __exp __exp10 __ffs __fns __ldg __log __log10 __log2 __sin __tan abs2 access_ptr activemask add2 align_up all_of
        all_sync alloc_barrier alloc_cluster_barrier alloc_descriptor alloc_fragment alloc_global alloc_local alloc_reducer
        alloc_shared alloc_tcgen05_instr_desc alloc_tcgen05_instruction_desc alloc_tcgen05_smem_desc alloc_tmem alloc_var
        alloc_wgmma_desc annotate_compile_flags annotate_consumer_reg_alloc annotate_l2_hit_ratio annotate_layout
        annotate_min_blocks_per_sm annotate_pass_configs annotate_producer_reg_dealloc annotate_restrict_buffers
        annotate_safe_value annotate_ws_pipeline_depth annotate_ws_schedule any_of any_sync async_copy atomic_addx2 atomic_addx4
        atomic_load atomic_max atomic_min atomic_or atomic_store ballot ballot_sync barrier_arrive barrier_wait c2d_im2col
        call_extern call_intrin call_pure_extern cast clamp clear const copy_cluster cp_async_barrier_noinc
        create_tma_descriptor cummax cumsum deallocate_tmem dec_max_nreg device_assert disable_warp_group_reg_alloc dp4a dynamic
        empty extract_lane fast_rcp fence_proxy_async fill finalize_reducer fma2 get_block_binding get_block_bindings
        get_block_extent get_block_extents get_cluster_dims get_cluster_extent get_cluster_extents get_cluster_id
        get_cluster_ids get_cluster_size get_lane_idx get_let_value get_thread_binding get_thread_bindings get_thread_extent
        get_thread_extents get_tvm_dtype get_warp_group_idx get_warp_idx get_warp_idx_sync grid has_let_value ieee_add ieee_fdiv
        ieee_fmaf ieee_frcp ieee_frsqrt ieee_fsqrt ieee_mul ieee_sub import_source inc_max_nreg increase_descriptor_offset
        index_to_coordinates infinity initialize_tcgen05_descriptor initialize_wgmma_descriptor inline is_f8f6f4_family
        is_float4 is_float4_e2m1_unpacked is_float4_e2m1fn ldg128 ldg256 ldg32 ldg64 lds128 lds32 lds64 loop_break macro
        make_tensor make_tensor_from_addr match_all_sync match_any_sync max max2 mbarrier_arrive mbarrier_arrive_expect_tx
        mbarrier_expect_tx mbarrier_wait_parity meta_class min min2 mul2 named_barrier_arrive no_set_max_nreg parallel pow
        prim_func ptr ptx_arrive_barrier_expect_tx ptx_arrive_cluster_barrier ptx_cp_async ptx_mma_sm70 reduce reduce_abssum
        reduce_bitand reduce_bitor reduce_bitxor reduce_sum reducer_init reducer_update reinterpret reshape round serial
        set_max_nreg shfl_down shfl_sync shfl_up shfl_xor shuffle_elect stg128 stg256 stg32 stg64 sts128 sts32 sts64 sub2
        symbolic sync_grid sync_threads sync_warp syncthreads_and syncthreads_count syncthreads_or tcgen05_after_thread_sync
        tcgen05_before_thread_sync tcgen05_cp_warpx4 tcgen05_gemm_sp tcgen05_mma_arrive tcgen05_sf_warp_transpose thread_binding
        tma_copy tma_gather4 tma_gather4_bytes tma_load tma_load_2sm tma_scatter4 tma_store_arrive tma_store_wait transpose
        tvm_access_ptr use_swizzle validate_gemm_ab_dtypes vectorized view wait_wgmma warp_reduce_bitand warp_reduce_bitor
        warp_reduce_max warp_reduce_min warp_reduce_sum warpgroup_arrive warpgroup_commit_batch warpgroup_fence_operand
        warpgroup_wait wgmma_gemm_sp ws_op
    """,
    "TVM's operators and builders": """
        Add And Assert Broadcast BufferLoad Call CallEffectKind Cast CommReducer Div EQ Else FloatImm FloorDiv FloorMod GE GT If
        IntImm IterVar LE LT Let Max Min Mod Mul NE Not Or PrimExpr PrimFunc ProducerLoad Ptr Ramp Range Reduce Shuffle SizeVar
        StringImm Sub TVMBackendAllocWorkspace TVMBackendFreeWorkspace Then Var While abs acos acosh address_of alloc_buffer
        allocate anylist_getitem anylist_resetitem anylist_setitem_call_cpacked anylist_setitem_call_packed arg asin asinh
        assume atan atan2 atanh attr axis bfloat16x16 bfloat16x32 bfloat16x4 bfloat16x64 bfloat16x8 bind bitwise_and bitwise_not
        bitwise_or bitwise_xor block_name_suffix_context boolean break_loop broadcast buffer buffer_decl buffer_store buffer_var
        call_cpacked call_cpacked_lowered call_kernel call_llvm_intrin call_llvm_pure_intrin call_packed call_packed_lowered
        cdiv ceil ceildiv clz comm_reducer continue_loop copysign cos cosh create_barriers decl_buffer end_profile_intrinsic
        env_thread erf evaluate exp exp10 exp2 fabs floor floordiv floormod fmod func_attr func_name func_ret
        get_active_lane_mask handle handle_add_byte_offset hypot if_then_else ignore_loop_partition index_map init isfinite
        isinf isnan isnullptr iter_var launch_thread ldexp let likely llvm_lookup_intrinsic_id log log10 log1p log2 lookup_param
        match_buffer max_value meta_var min_value mma_store nearbyint nextafter popcount ptx_arrive_barrier ptx_commit_group
        ptx_cp_async_barrier ptx_cp_async_bulk ptx_init_barrier_thread_count ptx_mma ptx_wait_barrier ptx_wait_group
        q_multiply_shift q_multiply_shift_per_axis ramp reads ret rsqrt sblock sblock_alloc_buffer sblock_attr shift_left
        shift_right sigmoid sin sinh sqrt start_profile_intrinsic tan tanh target thread_return trunc truncdiv truncmod
        tvm_bmma_sync tvm_call_cpacked tvm_call_cpacked_lowered tvm_call_packed tvm_call_packed_lowered tvm_fill_fragment
        tvm_load_matrix_sync tvm_mma_sync tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape tvm_storage_sync
        tvm_store_matrix_sync tvm_struct_get tvm_struct_set tvm_thread_allreduce tvm_thread_invariant tvm_throw_last_error
        tvm_tuple tvm_warp_activemask tvm_warp_shuffle tvm_warp_shuffle_down tvm_warp_shuffle_up type_annotation undef var
        vectorcombine vectorhigh vectorlow void vscale where writes
    """,
    "CUDA's dialect": """
        Kernel Parallel SparseTensorCoreIntrinEmitter TCGEN05DescriptorParams TCGEN05TensorCoreIntrinEmitter
        TensorCoreIntrinEmitter TensorCoreIntrinEmitterSM120 TensorCoreIntrinEmitterWithLadderTransform Unroll
        WGMMADescriptorParams WGMMATensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter WarpSpecialize WarpSpecializeFrame
        atomic_add block_rank_in_cluster clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z clc_is_canceled
        clc_try_cancel clc_try_cancel_multicast cluster_arrive cluster_arrive_relaxed cluster_sync cluster_wait
        compute_gmma_descriptor compute_umma_descriptor copy fma fmul gemm gemm_blockscaled gemm_sp get_ldmatrix_offset
        get_mma_micro_size get_swizzle_layout im2col make_blockscaled_gemm_layout make_mma_swizzle_layout mma_fill
        mma_gemm_blockscaled mma_store_index_map pdl_sync pdl_trigger print ptx_fence_barrier_init ptx_ldmatrix
        ptx_mma_block_scale ptx_mma_sp ptx_tcgen05_mma_blockscaled_ss ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts ptx_wgmma_rs
        ptx_wgmma_sp_rs ptx_wgmma_sp_ss ptx_wgmma_ss reduce_absmax reduce_max reduce_min rng_init rng_rand rng_rand_float
        tcgen05_gemm tcgen05_gemm_blockscaled tcgen05_mma tcgen05_mma_blockscaled unroll wgmma_gemm wgmma_mma ws
    """,
    "Data types": """
        bfloat16 bfloat16x2 bool double dtype float float16 float16x16 float16x2 float16x32 float16x4 float16x64 float16x8
        float32 float32x16 float32x2 float32x32 float32x4 float32x64 float32x8 float4_e2m1_unpacked float4_e2m1fn
        float4_e2m1fnx16 float4_e2m1fnx2 float4_e2m1fnx32 float4_e2m1fnx4 float4_e2m1fnx64 float4_e2m1fnx8 float64 float64x16
        float64x2 float64x32 float64x4 float64x64 float64x8 float6_e2m3fn float6_e2m3fnx16 float6_e2m3fnx2 float6_e2m3fnx32
        float6_e2m3fnx4 float6_e2m3fnx64 float6_e2m3fnx8 float6_e3m2fn float6_e3m2fnx16 float6_e3m2fnx2 float6_e3m2fnx32
        float6_e3m2fnx4 float6_e3m2fnx64 float6_e3m2fnx8 float8_e3m4 float8_e3m4x16 float8_e3m4x2 float8_e3m4x32 float8_e3m4x4
        float8_e3m4x64 float8_e3m4x8 float8_e4m3 float8_e4m3b11fnuz float8_e4m3b11fnuzx16 float8_e4m3b11fnuzx2
        float8_e4m3b11fnuzx32 float8_e4m3b11fnuzx4 float8_e4m3b11fnuzx64 float8_e4m3b11fnuzx8 float8_e4m3fn float8_e4m3fnuz
        float8_e4m3fnuzx16 float8_e4m3fnuzx2 float8_e4m3fnuzx32 float8_e4m3fnuzx4 float8_e4m3fnuzx64 float8_e4m3fnuzx8
        float8_e4m3fnx16 float8_e4m3fnx2 float8_e4m3fnx32 float8_e4m3fnx4 float8_e4m3fnx64 float8_e4m3fnx8 float8_e4m3x16
        float8_e4m3x2 float8_e4m3x32 float8_e4m3x4 float8_e4m3x64 float8_e4m3x8 float8_e5m2 float8_e5m2fnuz float8_e5m2fnuzx16
        float8_e5m2fnuzx2 float8_e5m2fnuzx32 float8_e5m2fnuzx4 float8_e5m2fnuzx64 float8_e5m2fnuzx8 float8_e5m2x16 float8_e5m2x2
        float8_e5m2x32 float8_e5m2x4 float8_e5m2x64 float8_e5m2x8 float8_e8m0fnu float8_e8m0fnux16 float8_e8m0fnux2
        float8_e8m0fnux32 float8_e8m0fnux4 float8_e8m0fnux64 float8_e8m0fnux8 half int int16 int16x16 int16x2 int16x32 int16x4
        int16x64 int16x8 int32 int32x16 int32x2 int32x32 int32x4 int32x64 int32x8 int4 int64 int64x16 int64x2 int64x32 int64x4
        int64x64 int64x8 int8 int8x16 int8x2 int8x32 int8x4 int8x64 int8x8 long short tfloat32 tfloat32x16 tfloat32x2
        tfloat32x32 tfloat32x4 tfloat32x64 tfloat32x8 uint uint16 uint16x16 uint16x2 uint16x32 uint16x4 uint16x64 uint16x8
        uint32 uint32x16 uint32x2 uint32x32 uint32x4 uint32x64 uint32x8 uint64 uint64x16 uint64x2 uint64x32 uint64x4 uint64x64
        uint64x8 uint8 uint8x16 uint8x2 uint8x32 uint8x4 uint8x64 uint8x8
    """,
}
"""Names of `tilelang.language`, by where they come from."""

WORKS, IGNORED, REFUSED = "works", "ignored", "refused"

_HEAD = f"""\
# What tilelang exports

Generated from `tilelang_ascend/compat/upstream.py` by `python -m tilelang_ascend.compat.upstream docs/upstream.md`. Do not edit.

Every name that `tilelang` and `tilelang.language` of version {VERSION} export works here, is ignored, or is refused with the line of the
user and what to write instead. Names that work mean what they mean there; a use of one that has no counterpart on the chip is refused
where it stands.
"""


def state(module: str, name: str) -> tuple[str, str]:
    """(works, ignored or refused; why) of a name of `tilelang` or `tilelang.language`."""
    in_language = module == "tilelang.language"
    ours = importlib.import_module("tilelang_ascend.language" if in_language else "tilelang_ascend.compat.tilelang")
    try:
        found = getattr(ours, name)
    except TilelangAscendError as refusal:
        assert not (in_language and isinstance(refusal, UnknownName)), f"T.{name} is in no table of tilelang_ascend/language"
        kind = refusal.fields.get("kind")
        return REFUSED, (f"{kind}: " if kind else "") + refusal.hint
    if in_language and name in hints.NAMES and not inspect.isclass(found):
        return IGNORED, inspect.getdoc(found).removesuffix(" Accepted and ignored.")
    return WORKS, ""


def _section(title: str, module: str, names: list[str]) -> list[str]:
    by_state: dict = {}
    for name in names:
        by_state.setdefault(state(module, name), []).append(f"`{name}`")
    out = [f"## {title}", ""]
    works = by_state.pop((WORKS, ""), [])
    if works:
        out += ["Works: " + ", ".join(works), ""]
    if by_state:
        out += ["| names | | |", "|---|---|---|"]
        out += [
            f"| {', '.join(found)} | {kind} | {why} |" for (kind, why), found in sorted(by_state.items(), key=lambda x: (x[0][0], x[1]))
        ]
        out.append("")
    return out


def generate() -> str:
    """The page as Markdown."""
    lines = [_HEAD, *_section("The package `tilelang`", "tilelang", PACKAGE.split())]
    for title, names in LANGUAGE.items():
        lines += _section(f"`tilelang.language`: {title}", "tilelang.language", names.split())
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(generate(), encoding="utf-8")
