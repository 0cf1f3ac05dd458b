"""The names of T: what public kernels use exists, what belongs to other machines is refused with advice."""

import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import GpuOnlyApi, NotYetAvailable, UnknownName
from tilelang_ascend.language.refused import GROUPS, LATER, REFUSED

USED = """
copy Tensor alloc_fragment Parallel alloc_shared ceildiv gemm clear float32 Kernel GemmWarpPolicy if_then_else fill Pipelined exp2
infinity prim_func float16 reduce_sum int32 max empty const alloc_var reduce_max min dynamic bfloat16 atomic_add use_swizzle log2
annotate_layout serial exp dtype floordiv cast Cast float8_e4m3fn reduce_absmax disable_warp_group_reg_alloc alloc_global bool tfloat32
clamp floormod float uint8 rsqrt reshape view log Serial parallel atomic_addx4 cumsum macro alloc_buffer Persistent no_set_max_nreg
float8_e4m3 int8 int64 alloc_reducer finalize_reducer symbolic grid unroll vectorized Unroll Vectorized sigmoid sqrt tanh erf pow floor
ceil round trunc abs sin cos tan log1p max_value min_value reinterpret shift_left shift_right StridedTensor Buffer Ref print
device_assert transpose reduce_min reduce_abssum reduce_bitand reduce_bitor reduce_bitxor atomic_max atomic_min loop_break assume
get_block_binding SharedBuffer FragmentBuffer index_to_coordinates im2col c2d_im2col annotate_safe_value
""".split()
"""The names portable public kernels use, by frequency."""


@pytest.mark.parametrize("name", USED)
def test_used_names_exist(name):
    assert hasattr(T, name) and name in dir(T)


@pytest.mark.parametrize("name", ["float4_e2m1_unpacked", "Scope", "set_flag"])
def test_later_names_say_what_to_do(name):
    with pytest.raises(NotYetAvailable) as info:
        getattr(T, name)
    assert info.value.hint == LATER[name] and info.value.location.file == __file__


@pytest.mark.parametrize(
    "name",
    ["get_thread_binding", "shfl_xor", "tma_load", "ptx_mma", "alloc_tmem", "ws", "__exp", "float16x2", "match_buffer"],
)
def test_names_of_other_machines_are_refused(name):
    with pytest.raises(GpuOnlyApi) as info:
        getattr(T, name)
    assert info.value.hint


def test_tables_do_not_contradict_the_language():
    assert not set(REFUSED) & set(dir(T)) and not set(LATER) & set(dir(T)) and not set(LATER) & set(REFUSED)
    assert sum(len(names.split()) for _, _, names in GROUPS.values()) == len(REFUSED)


def test_unknown_names_get_close_matches():
    with pytest.raises(UnknownName, match="T.alloc_fragment"):
        T.alloc_fragmant  # noqa: B018
    with pytest.raises(AttributeError):
        T.__nothing__  # noqa: B018
    assert not hasattr(T, "no_such_name")


def test_everything_public_is_documented():
    import inspect

    for name in dir(T):
        value = getattr(T, name)
        if inspect.isfunction(value) or (inspect.isclass(value) and value.__module__.startswith("tilelang_ascend")):
            assert value.__doc__, name
