"""What lies in memories over time, on programs whose answer is known."""

import ctypes

import numpy as np
import pytest
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir.functions import core_functions, launches
from tilelang_ascend.isa.stream import TILE_BIAS
from tilelang_ascend.runtime import simulation
from tilelang_ascend.runtime.arguments import bind
from tilelang_ascend.sim.contents import _lives, _operands, lives_of, tiles_of
from tilelang_ascend.sim.streams import records


def product(M, N, K, stages):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((M, 64), "float16")
            b = T.alloc_shared((64, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(K // 64, num_stages=stages):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return kernel


@pytest.fixture(scope="module")
def observed():
    kernel = tilelang.compile(product(64, 64, 512, 2), out_idx=[-1])
    inputs = torch.randn(64, 512).half(), torch.randn(512, 64).half()
    launch = bind(kernel.artifact.signature, "kernel", inputs)
    return kernel.artifact, simulation.observe(kernel.artifact, launch)


def tiles(artifact):
    (part,) = launches(artifact.ascend_ir)
    return tiles_of(core_functions(part)["aic"])


def test_every_operand_lies_in_its_tile(observed):
    artifact, report = observed
    known, seen = tiles(artifact), set()
    for instruction in records(report.run.streams[0]):
        for tile, place, _, _ in _operands(instruction):
            t = known[tile]
            assert t.address <= place < t.address + t.versions * t.nbytes
            seen.add(tile)
    assert seen == set(range(len(known))) and {t.space for t in known} >= {"L1", "L0A", "L0B", "L0C"}


def test_loads_and_products_begin_new_contents(observed):
    artifact, report = observed
    known = tiles(artifact)
    lives = lives_of(report.run, 0, known)
    assert (lives["end"] > lives["start"]).all() and lives["end"].max() <= report.run.cycles + 1e-6
    of_space = lambda space: lives[[known[i].space == space for i in lives["tile"].tolist()]]
    loads = sum(known[i].space == "L1" for i in range(len(known)))
    bytes_loaded = sum(known[row["tile"]].nbytes for row in of_space("L1"))
    assert loads and bytes_loaded == (64 * 512 + 512 * 64) * 2, "every byte of A and B lies in L1 once"
    assert len(of_space("L0C")) == 1, "one accumulation over all of K"
    for tile, version in {(int(r["tile"]), int(r["version"])) for r in lives}:
        mine = lives[(lives["tile"] == tile) & (lives["version"] == version)]
        assert (mine["start"][1:] >= mine["end"][:-1] - 1e-6).all(), "one content at a time"


def test_lives_begin_with_what_only_writes():
    write, read, update = (False, True), (True, False), (True, True)
    lives = lambda *kinds: _lives([(float(i), i + 0.5, *kind) for i, kind in enumerate(kinds)])
    assert lives(write, read, write, read) == [(0, 1.5), (2, 3.5)]
    assert lives(write, write, read) == [(0, 2.5)], "written in parts"
    assert lives(write, update, update, read) == [(0, 3.5)]
    assert lives(write, read, read, write) == [(0, 2.5), (3, 3.5)]


def test_streams_to_be_compared_have_no_numbers_of_tiles(observed):
    from tilelang_ascend.sim.machine import SimOptions

    artifact, report = observed
    inputs = torch.randn(64, 512).half(), torch.randn(512, 64).half()
    launch = bind(artifact.signature, "kernel", inputs)
    plain = simulation._run(artifact, launch, SimOptions(record_stream=True)).streams[0]
    numbered = report.run.streams[0]
    assert len(plain) == len(numbered) and (plain != numbered).any()
    different = numbered[plain != numbered]
    assert ((different >> 32) & 0xFFFF != 0).all()
    assert np.array_equal(plain[plain != numbered] & 0xFFFFFFFF, (different & 0xFFFFFFFF) - TILE_BIAS)


def test_observing_leaves_arguments_alone():
    @T.prim_func
    def add_one(A: T.Tensor((256,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(128):
                A[bx * 128 + i] = A[bx * 128 + i] + 1.0

    kernel = tilelang.compile(add_one)
    a = torch.zeros(256)
    launch = bind(kernel.artifact.signature, "add_one", (a,))
    report = simulation.observe(kernel.artifact, launch)
    assert (a == 0).all() and report.simulated_us > 0
    assert ctypes.string_at(launch.buffers["A"].address, 4) == b"\0\0\0\0"
    kernel(a)
    assert (a == 1).all()
