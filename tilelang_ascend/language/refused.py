"""Names of GPU TileLang that an Ascend core has no counterpart for: what each group is and what to write instead.

A name that is neither here nor in the language is a typing mistake and gets close matches.
"""

from __future__ import annotations

import re

GROUPS: dict[str, tuple[str, str, str]] = {
    "thread": (
        "a thread index",
        "write for whole tiles: `for i, j in T.Parallel(M, N)` replaces a loop over threads",
        """
        env_thread get_lane_idx get_thread_binding get_thread_bindings get_thread_extent get_thread_extents
        get_warp_group_idx get_warp_idx get_warp_idx_sync launch_thread thread_binding
        """,
    ),
    "sync": (
        "a barrier among threads or blocks",
        "remove it: dependences between tile operations are synchronised by the compiler",
        """
        cluster_arrive cluster_arrive_relaxed cluster_sync cluster_wait named_barrier_arrive
        syncthreads_and syncthreads_count syncthreads_or tvm_storage_sync
        """,
    ),
    "shuffle": (
        "an exchange between the threads of a warp",
        "use T.reduce_sum / T.reduce_max on a tile, or T.Parallel for element-wise work",
        """
        __ffs __fns activemask all_sync any_sync ballot ballot_sync match_all_sync match_any_sync shfl_down
        shfl_sync shfl_up shfl_xor shuffle_elect tvm_warp_activemask tvm_warp_shuffle tvm_warp_shuffle_down
        tvm_warp_shuffle_up warp_reduce_bitand warp_reduce_bitor warp_reduce_max warp_reduce_min warp_reduce_sum
        """,
    ),
    "barrier": (
        "an asynchronous barrier",
        "remove it: T.Pipelined overlaps copies with compute and the compiler places the flags",
        """
        alloc_barrier alloc_cluster_barrier barrier_arrive barrier_wait cp_async_barrier_noinc create_barriers
        mbarrier_arrive mbarrier_arrive_expect_tx mbarrier_expect_tx mbarrier_wait_parity ptx_arrive_barrier
        ptx_arrive_barrier_expect_tx ptx_arrive_cluster_barrier ptx_commit_group ptx_cp_async_barrier
        ptx_fence_barrier_init ptx_init_barrier_thread_count ptx_wait_barrier ptx_wait_group
        """,
    ),
    "tma": (
        "an asynchronous copy engine of a GPU",
        "write T.copy(src, dst); inside T.Pipelined it runs ahead by itself",
        """
        alloc_descriptor compute_gmma_descriptor compute_umma_descriptor copy_cluster create_tma_descriptor
        fence_proxy_async increase_descriptor_offset initialize_tcgen05_descriptor initialize_wgmma_descriptor
        ptx_cp_async ptx_cp_async_bulk tma_copy tma_gather4 tma_gather4_bytes tma_load tma_load_2sm tma_scatter4
        tma_store_arrive tma_store_wait
        """,
    ),
    "tensorcore": (
        "a tensor-core instruction of a GPU",
        "write T.gemm(A, B, C), which runs on the cube unit",
        """
        SparseTensorCoreIntrinEmitter TCGEN05DescriptorParams TCGEN05TensorCoreIntrinEmitter TensorCoreIntrinEmitter
        TensorCoreIntrinEmitterSM120 TensorCoreIntrinEmitterWithLadderTransform WGMMADescriptorParams
        WGMMATensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter alloc_tcgen05_instr_desc
        alloc_tcgen05_instruction_desc alloc_tcgen05_smem_desc alloc_tmem alloc_wgmma_desc deallocate_tmem dp4a
        gemm_blockscaled gemm_sp get_ldmatrix_offset get_mma_micro_size get_swizzle_layout
        mma_fill mma_gemm_blockscaled mma_store
        mma_store_index_map ptx_ldmatrix ptx_mma ptx_mma_block_scale ptx_mma_sm70 ptx_mma_sp
        ptx_tcgen05_mma_blockscaled_ss ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts ptx_wgmma_rs ptx_wgmma_sp_rs
        ptx_wgmma_sp_ss ptx_wgmma_ss tcgen05_after_thread_sync tcgen05_before_thread_sync tcgen05_cp_warpx4
        tcgen05_gemm tcgen05_gemm_blockscaled tcgen05_gemm_sp tcgen05_mma tcgen05_mma_arrive tcgen05_mma_blockscaled
        tcgen05_sf_warp_transpose tvm_bmma_sync tvm_fill_fragment tvm_load_matrix_sync tvm_mma_sync
        tvm_store_matrix_sync wait_wgmma warpgroup_arrive warpgroup_commit_batch warpgroup_fence_operand
        warpgroup_wait wgmma_gemm wgmma_gemm_sp wgmma_mma
        """,
    ),
    "cluster": (
        "a cluster of thread blocks",
        "use a plain T.Kernel grid; blocks share data through GM only",
        """
        ClusterKernel block_rank_in_cluster clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z
        clc_is_canceled clc_try_cancel clc_try_cancel_multicast get_cluster_dims get_cluster_extent
        get_cluster_extents get_cluster_id get_cluster_ids get_cluster_size
        """,
    ),
    "specialise": (
        "warp specialisation",
        "remove it: cube, vector and copy engines run side by side and the compiler assigns the work",
        """
        WSID WSInstr WSOpRef WSPipeline WSRole WSSchedule WSScope WSSync WSSyncKind WarpSpecialize
        WarpSpecializeFrame ws ws_op
        """,
    ),
    "loadstore": (
        "a load or store of one thread",
        "index the buffer inside T.Parallel, or use T.copy for a tile",
        """
        __ldg ldg128 ldg256 ldg32 ldg64 lds128 lds32 lds64 stg128 stg256 stg32 stg64 sts128 sts32 sts64
        """,
    ),
    "fastmath": (
        "a CUDA intrinsic",
        "use the function without the underscores, e.g. T.exp or T.log2",
        """
        __cos __exp __exp10 __log __log10 __log2 __sin __tan
        """,
    ),
    "source": (
        "foreign code or a raw pointer",
        "express it with T.copy, T.gemm and T.Parallel",
        """
        CUDASourceCodeKernel access_ptr call_extern import_source
        """,
    ),
    "random": (
        "a CUDA random generator",
        "generate the numbers on the host and pass them as a tensor",
        """
        rng_init rng_rand rng_rand_float
        """,
    ),
    "helper": (
        "a helper of tilelang's own code",
        "compare dtypes by their names, e.g. `str(dtype)`",
        """
        Any is_f8f6f4_family is_float4 is_float4_e2m1_unpacked is_float4_e2m1fn validate_gemm_ab_dtypes
        """,
    ),
    "lanes": (
        "a vector register of one thread",
        "use scalars inside T.Parallel; whole tiles are vectorised by the compiler",
        """
        Broadcast Ramp Shuffle abs2 add2 broadcast extract_lane fma2 max2 min2 mul2 ramp sub2 tvm_thread_allreduce
        tvm_thread_invariant vectorcombine vectorhigh vectorlow vscale
        """,
    ),
    "builder": (
        "a building block of TVM's IR",
        "write ordinary Python: if, for, while, assignments and expressions",
        """
        AnyDType Assert CallEffectKind CommReducer Else If IterVar JITFunc KernelLaunchFrame Let PartialFragment
        ProducerLoad Ptr Reduce SizeVar TVMBackendAllocWorkspace TVMBackendFreeWorkspace Then While address_of allocate
        anylist_getitem anylist_resetitem anylist_setitem_call_cpacked anylist_setitem_call_packed arg attr axis
        bind block_name_suffix_context buffer buffer_decl buffer_store buffer_var call_cpacked call_cpacked_lowered
        call_intrin call_kernel call_llvm_intrin call_llvm_pure_intrin call_packed call_packed_lowered
        call_pure_extern comm_reducer decl_buffer end_profile_intrinsic func_name func_ret
        get_active_lane_mask get_let_value handle handle_add_byte_offset has_let_value ignore_loop_partition
        index_map init isnullptr iter_var let llvm_lookup_intrinsic_id lookup_param match_buffer meta_var
        q_multiply_shift q_multiply_shift_per_axis reads ret sblock sblock_alloc_buffer sblock_attr
        start_profile_intrinsic target tvm_access_ptr tvm_call_cpacked tvm_call_cpacked_lowered tvm_call_packed
        tvm_call_packed_lowered tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape tvm_struct_get
        tvm_struct_set tvm_throw_last_error tvm_tuple type_annotation undef var void where writes
        """,
    ),
}
"""group -> (what the names are, what to write instead, the names)."""

REFUSED: dict[str, tuple[str, str]] = {name: (kind, advice) for kind, advice, names in GROUPS.values() for name in names.split()}
"""name -> (what it is, what to write instead)."""

LATER: dict[str, str] = {
    "atomic_load": "write a second `with T.Kernel(...)`, which sees all stores of the first one",
    "atomic_store": "store normally from one block only",
    "atomic_or": "use T.atomic_max on 0/1 flags",
    "meta_class": "use plain functions; they are traced like the kernel",
    "Scope": "remove it: cube and vector work are separated by the compiler",
    "set_flag": "remove it: flags are placed by the compiler",
    "wait_flag": "remove it: flags are placed by the compiler",
    "pipe_barrier": "remove it: barriers are placed by the compiler",
    "barrier_all": "remove it: barriers are placed by the compiler",
    "set_cross_flag": "remove it: flags are placed by the compiler",
    "wait_cross_flag": "remove it: flags are placed by the compiler",
    "sync_all": "split the kernel in two: one prim_func each, launched one after the other",
    "thread_return": "guard the rest of the body with `if`",
    "float4_e2m1_unpacked": "use T.float4_e2m1fn, whose tiles hold one value in each element",
    "ldexp": "multiply by T.exp2 of the exponent",
    "nextafter": "add one to, or subtract one from, the bits: T.reinterpret",
    "float6_e2m3fn": "use T.float8_e4m3fn",
    "float6_e3m2fn": "use T.float8_e5m2",
}
"""Names whose lowering does not exist yet -> what to do meanwhile."""

_LANES = re.compile(r"(bfloat|tfloat|float|uint|int)\d+(_\w+?)?x\d+$")


def refusal(name: str) -> tuple[str, str] | None:
    """(what the name is, what to write instead) if it belongs to another machine, else None."""
    if _LANES.match(name):
        return GROUPS["lanes"][:2]
    return REFUSED.get(name)
