"""Spaces the tuner derives from traces: which parameters are tuned, with which values, and that all of them mean the same."""

import inspect

import derivable
import pytest
import torch

from tilelang_ascend.arch import get_chip
from tilelang_ascend.autotune import templates
from tilelang_ascend.autotune.derive import MAX_COMBINED, MAX_CONFIGS, _thinned, derive
from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.isa.base import Space

A2 = get_chip("a2")


def space(kernel, *args, chip=A2, **kwargs):
    """The space of a call of a `@tilelang.jit` function."""
    given = kernel.signature.bind_partial(*args, **kwargs).arguments
    return derive(lambda config: kernel.get_tir(*args, **kwargs, **config), kernel.signature, given, chip)


def values(configs, name):
    return sorted({config[name] for config in configs})


def default_of(kernel, names):
    return {name: kernel.signature.parameters[name].default for name in names}


def rejected(kernel, *args):
    """Why each parameter is not tuned."""
    with pytest.raises(InvalidArgument) as error:
        space(kernel, *args)
    assert "configs=[" in str(error.value)
    return str(error.value)


def test_gemm():
    configs = space(derivable.gemm, 512, 512, 512)
    tuned = ("block_M", "block_N", "block_K", "num_stages")
    assert configs[0] == default_of(derivable.gemm, tuned)  # and not threads, which nothing reads
    assert len({tuple(config.items()) for config in configs}) == len(configs) <= MAX_CONFIGS
    assert {16, 32, 64, 96, 128, 192, 256} <= {*values(configs, "block_M")} and {32, 64, 128, 256} <= {*values(configs, "block_K")}
    assert values(configs, "num_stages") == [1, 2, 3, 4]
    for config in configs:
        m, n, k, stages = config.values()
        assert m * n * 4 <= 2 * A2.capacity_bytes(Space.L0C) and (m + n) * k * 2 * stages <= A2.capacity_bytes(Space.L1)
        assert min(m, n, k) >= templates.FRACTAL and max(m, n, k) <= 512


def test_what_the_caller_gives_stays():
    configs = space(derivable.gemm, 512, 512, 512, block_M=128, num_stages=2)
    assert configs[0] == {"block_N": 64, "block_K": 32} and all(config.keys() == configs[0].keys() for config in configs)


def test_every_config_of_a_small_gemm_traces():
    kernel = derivable.gemm
    configs = space(kernel, 128, 96, 64)
    assert len(configs) > 20
    for config in configs:
        kernel.get_tir(128, 96, 64, **config)


def test_bytes_make_the_smallest_step_along_k():
    assert [values(space(derivable.gemm, 128, 128, 128, dtype=dtype), "block_K")[0] for dtype in ("float16", "float32")] == [16, 16]
    assert templates.GEMM.values("k", A2, 1)[0] == 32


def test_eager_and_lazy_are_tuned_alike():
    a, b = torch.zeros(256, 128, dtype=torch.float16), torch.zeros(128, 192, dtype=torch.float16)
    assert space(derivable.gemm_eager, a, b) == space(derivable.gemm, 256, 192, 128, num_stages=2)


def test_attention():
    configs = space(derivable.attention, 4, 256, 64)
    assert configs[0] == {"block_M": 32, "block_N": 32, "stages": 1}  # kv_heads is a shape, causal a flag, scale a number
    assert {16, 64, 128, 256} <= {*values(configs, "block_M")} and {16, 64, 128, 256} <= {*values(configs, "block_N")}
    assert values(configs, "stages") == [1, 2, 3, 4]
    causal = space(derivable.attention, 4, 256, 64, causal=True)
    assert causal[0] == configs[0] and values(causal, "block_N") == values(configs, "block_N")


def test_rows():
    configs = space(derivable.softmax, 512, 1024)
    assert configs[0] == {"rows": 8} and values(configs, "rows") == [
        1,
        2,
        4,
        8,
        16,
        32,
        64,
    ]  # 64 x 1024 x 4 bytes are in parts what UB holds
    assert values(space(derivable.softmax, 512, 64), "rows") == [1 << n for n in range(10)]


def test_elements():
    a = torch.zeros(64, 256)
    configs = space(derivable.add, a, a)
    assert configs[0] == {"block_M": 16, "block_N": 64}
    assert values(configs, "block_N") == [8, 16, 32, 64, 128, 256]  # from 32 bytes to the whole row
    assert values(configs, "block_M") == [1, 2, 4, 8, 16, 32, 64]


def test_lengths_nobody_knows():
    configs = space(derivable.add_dynamic)
    assert configs[0] == {"block": 1024} and {256, 4096} <= {*values(configs, "block")}


def test_loops_that_run_backwards():
    assert {32, 128, 256} <= {*values(space(derivable.reversed_blocks, 1000), "block")}


def test_loops_that_nobody_counts():
    configs = space(derivable.add_while, 10_000)
    assert {32, 128, 512} <= {*values(configs, "block")} and "programs" not in configs[0]  # what a while loop does in turn is unknown
    assert {32, 128, 512} <= {*values(space(derivable.add_ragged, 10_000, 3), "block")}


def test_patches():
    configs = space(derivable.convolution, 16, 16, 32, 32)
    assert configs[0] == {"block": 64, "step": 32} and {16, 128} <= {*values(configs, "block")} and {16, 96} <= {*values(configs, "step")}


def test_numbers_of_blocks():
    configs = space(derivable.gemm_persistent, 512, 512, 64)
    assert {8, A2.num_aic, 2 * A2.num_aic} <= {*values(configs, "programs")} and {16, 64, 128} <= {*values(configs, "block")}


def test_what_only_looks_tunable():
    text = rejected(derivable.looks_tunable, 128)
    assert "batch changes the arguments of the kernel" in text
    assert "factor is part of what the kernel computes" in text
    assert "repeats changes no schedule" in text
    assert not any(name in text for name in ("flag", "share", "dtype", "block changes"))


def test_a_limit_is_no_schedule():
    assert "window changes no schedule" in rejected(derivable.looks_tunable, 128)


def test_an_extent_in_the_arithmetic():
    assert "block is part of what the kernel computes" in rejected(derivable.mean_of_tiles, 256)


def test_an_extent_that_decides_which_elements_are_read():
    configs = space(derivable.dequantize, torch.zeros(64, 256), torch.zeros(64, 4))
    assert configs[0] == {"rows": 16}


def test_nothing_to_tune():
    assert "no parameter that the call leaves out has an integer as default" in rejected(derivable.gemm, 64, 64, 64, 32, 32, 32, 1, 128)


def test_values_the_kernel_refuses():
    assert values(space(derivable.picky, 4096), "block") == [64, 128, 256, 512]


def test_what_the_defaults_raise_is_shown():
    def broken(config):
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        derive(broken, inspect.signature(lambda block=1: None), (), A2)


def test_the_chip_decides_what_fits():
    largest = {}
    for name in ("a2", "a5"):
        chip = get_chip(name)
        configs = space(derivable.gemm, 4096, 4096, 4096, chip=chip, block_K=64, num_stages=1)
        largest[name] = max(m * n * 4 for m, n in (config.values() for config in configs))
        assert largest[name] <= 2 * chip.capacity_bytes(Space.L0C)
    assert (largest["a5"] > largest["a2"]) == (get_chip("a5").capacity_bytes(Space.L0C) > A2.capacity_bytes(Space.L0C))


def test_a_default_that_does_not_fit_stays():
    kernel = derivable.gemm
    big = inspect.Signature([p.replace(default=1024) if n.startswith("block_") else p for n, p in kernel.signature.parameters.items()])
    configs = derive(lambda config: kernel.get_tir(2048, 2048, 2048, **{"block_M": 1024, "block_N": 1024, "block_K": 1024, **config}),
                     big, ("M", "N", "K", "num_stages"), A2)  # fmt: skip
    assert configs[0] == {"block_M": 1024, "block_N": 1024, "block_K": 1024}
    assert all(m * n * 4 <= 2 * A2.capacity_bytes(Space.L0C) for m, n, _ in (config.values() for config in configs[1:]))


def test_defaults_of_no_stages_and_no_tile():
    kernel = derivable.gemm

    def with_defaults(**defaults):
        parameters = [p.replace(default=defaults.get(n, p.default)) for n, p in kernel.signature.parameters.items()]
        given = {"M", "N", "K", "block_M", "block_N", "block_K", "num_stages"} - {*defaults}
        return derive(lambda config: kernel.get_tir(512, 512, 512, **{**defaults, **config}), inspect.Signature(parameters), given, A2)

    configs = with_defaults(num_stages=0, block_K=64)
    assert values(configs, "num_stages") == [0, 1, 2, 3, 4]
    assert all(128 * config["block_K"] * 2 * max(1, config["num_stages"]) <= A2.capacity_bytes(Space.L1) for config in configs)
    assert values(with_defaults(block_K=512), "block_K") == values(with_defaults(block_K=16), "block_K")


def test_values_are_scaled_as_extents_are():
    """A parameter that is a multiple of the tile's extent, and one that divides it."""
    kernel = derivable.gemm

    def trace(config):
        units, parts = config.get("units", 4), config.get("parts", 4)
        return kernel.get_tir(512, 512, 512, block_M=16 * units, block_N=512 // parts, block_K=64)

    configs = derive(trace, inspect.signature(lambda units=4, parts=4: None), (), A2)
    assert {1, 2, 6, 16} <= {*values(configs, "units")} and values(configs, "parts")[:5] == [1, 2, 4, 8, 16]


def test_large_spaces_are_thinned():
    configs = space(derivable.gemm, 4096, 4096, 4096)
    assert len(configs) == MAX_CONFIGS
    default = (7, 5, 3)
    thin = _thinned([list(range(100)), list(range(90)), list(range(80))], default)
    assert len(thin[0]) * len(thin[1]) * len(thin[2]) <= MAX_COMBINED and all(d in v for d, v in zip(default, thin))


def test_better_ones_come_first():
    configs = space(derivable.gemm, 4096, 4096, 4096, num_stages=2)
    assert configs[1]["block_M"] * configs[1]["block_N"] > 128 * 128 and configs[-1]["block_M"] * configs[-1]["block_N"] < 64 * 64


def test_tiles_that_leave_no_room_for_a_second_copy_come_last():
    rows = [config["rows"] for config in space(derivable.softmax, 4096, 1024)[1:]]
    assert {*rows[-2:]} == {32, 64} and rows[0] == 16  # 32 x 1024 x 4 bytes are more than half of UB


def sample(configs, count=6):
    """The default and others from all over the space."""
    return configs[:: max(1, len(configs) // count)]


def compare(kernel, configs, args, inputs):
    """All of `configs` give, with integers as inputs, the very numbers of the default."""
    for config in sample(configs):
        found = kernel(*args, **config)(*inputs) if kernel.mode == "lazy" else kernel(*inputs, **config)
        if config == configs[0]:
            expected = found
        assert torch.equal(found, expected), config
    return expected


def test_sampled_gemms_give_the_values_of_the_default():
    a, b = torch.randint(-4, 5, (96, 64)).half(), torch.randint(-4, 5, (64, 128)).half()
    found = compare(derivable.gemm, space(derivable.gemm, 96, 128, 64), (96, 128, 64), (a, b))
    assert torch.equal(found, a.float() @ b.float())
    found = compare(derivable.gemm_eager, space(derivable.gemm_eager, a, b), (), (a, b))
    assert torch.equal(found, a.float() @ b.float())


def test_sampled_elements_and_rows_give_the_values_of_the_default():
    a, b = torch.randint(-9, 9, (2, 40, 100)).float()
    assert torch.equal(compare(derivable.add, space(derivable.add, a, b), (), (a, b)), a + b)
    x = torch.randn(40, 128)
    for config in sample(space(derivable.softmax, 40, 128)):
        torch.testing.assert_close(derivable.softmax(40, 128, **config)(x), x.softmax(1), rtol=1e-5, atol=1e-6)


def test_sampled_loops_and_blocks_give_the_values_of_the_default():
    x, bounds = torch.randint(-9, 9, (500,)).float(), torch.tensor([0, 100, 101, 500], dtype=torch.int32)
    for kernel, args, inputs in (
        (derivable.add_dynamic, (), (x,)),
        (derivable.reversed_blocks, (500,), (x,)),
        (derivable.add_while, (500,), (x,)),
        (derivable.add_ragged, (500, 3), (x, bounds)),
    ):
        assert torch.equal(compare(kernel, space(kernel, *args), args, inputs), x + 1)
    a, b = torch.randint(-4, 5, (2, 128, 128)).half()
    args = (128, 128, 128)
    assert torch.equal(compare(derivable.gemm_persistent, space(derivable.gemm_persistent, *args), args, (a, b)), a.float() @ b.float())


def test_sampled_attention_gives_the_values_of_torch():
    q, k, v = torch.randn(4, 64, 32).half(), torch.randn(2, 64, 32).half(), torch.randn(2, 64, 32).half()
    k4, v4 = (x.float().repeat_interleave(2, 0) for x in (k, v))
    expected = (q.float() @ k4.mT * 0.125).softmax(-1) @ v4
    for config in sample(space(derivable.attention, 4, 64, 32), 4):
        torch.testing.assert_close(derivable.attention(4, 64, 32, **config)(q, k, v).float(), expected, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize(
    "template", [templates.GEMM, templates.ATTENTION, templates.ROW_WISE, templates.ELEMENT_WISE], ids=lambda t: t.name
)
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_ladders(template, itemsize):
    for axis, ladder in template.ladders.items():
        found = template.values(axis, A2, itemsize)
        assert found == sorted({*found}) and found[0] * (itemsize if ladder.bytewise else 1) >= (32 if ladder.bytewise else ladder.smallest)
        assert found[-1] * itemsize <= templates.IN_PARTS * A2.capacity_bytes(ladder.memory) < 4 * found[-1] * itemsize * ladder.across


@pytest.mark.parametrize("inside", [False, True])
def test_the_length_of_a_group_is_no_schedule(inside):
    """Another group has another scale: results of 16 bits that differ by less than sums in another order may."""
    with pytest.raises(InvalidArgument) as error:
        space(derivable.rounded_in_groups, 256, 4096, inside=inside)
    assert "group is part of what the kernel computes" in str(error.value)


@pytest.mark.parametrize("how", ["tile", "variable", "atomic"])
def test_the_length_of_a_part_is(how):
    assert len(space(derivable.totals, 64, 4096, how=how)) > 1
