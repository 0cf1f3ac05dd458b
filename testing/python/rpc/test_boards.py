"""A board behind a server: values, times from events, and what fails there. The board is a stand-in, which neither server nor client can tell."""

import dataclasses
import time

import numpy as np
import pytest
import rpc_programs
from board_farm import make_board
from farm import QUICK, wait_until

from tilelang_ascend import rpc
from tilelang_ascend.errors import DeviceCompileError, DeviceError, DeviceTimeoutError
from tilelang_ascend.profiler import do_bench
from tilelang_ascend.rpc import failures, settings

N, BLOCK = 512, 256


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return make_board(tmp_path_factory.mktemp("board"))


@pytest.fixture(scope="module")
def boards(farm, home, tmp_path_factory):
    """Two servers of one name, each with a board; in one folder, so that a text is compiled once."""
    env = {"ASCEND_HOME_PATH": str(home), "PYTHONPATH": farm.path(home.parent)}
    folder = str(tmp_path_factory.mktemp("builds"))
    words = ("server", "--tracker", farm.tracker, "--key", "board", "--device", "npu:0", "--folder", folder)
    return farm.ready([farm.start(*words, env=env) for _ in range(2)])


@pytest.fixture(scope="module")
def kernel():
    return rpc_programs.add(N, BLOCK)


@pytest.fixture
def remote(farm, kernel, monkeypatch):
    """The kernel, whose calls run on a server with a board."""
    monkeypatch.setenv("TILELANG_ASCEND_TRACKER", farm.tracker)
    monkeypatch.setenv("TILELANG_ASCEND_KEY", "board")
    return type(kernel)(kernel.artifact, "rpc")


def arrays():
    return [np.random.default_rng(3).random(N, dtype=np.float32) for _ in range(2)]


def connect(farm, call=20.0):
    return rpc.connect(farm.tracker, "board", settings.Timeouts(3, 20, 5, call))


def works(session, kernel):
    a, b = arrays()
    np.testing.assert_array_equal(session.run(kernel, a, b), a + b + 1)
    return True


def sentence(error):
    """Its message, which is one sentence and names the server somewhere."""
    assert "\n" not in error.message and ". " not in error.message.replace("...", "")
    assert "server 127.0.0.1:" in str(error)
    return error.message


def test_values_and_times_of_a_board(farm, boards, kernel):
    a, b = arrays()
    with connect(farm) as session:
        assert (session.info.device, session.info.clock) == ("npu:0", "device")
        assert works(session, kernel)
        timing = session.time(kernel, a, b, warmup=1, repeats=3)
        assert timing.clock == "device" and len(timing.microseconds) == 3 and min(timing.microseconds) > 0
        # The stand-in has the machine model's clock.
        wanted = kernel.retarget("Ascend910B3").simulate(a, b).simulated_us
        assert timing.microseconds[-1] == pytest.approx(wanted, rel=0.05)
        made = session.run_seeded(kernel, seed=0)["C"]
        np.testing.assert_array_equal(made, kernel(*map(np.asarray, kernel.get_profiler().get_inputs())))
        assert session.build(kernel).known


def test_calls_and_benchmarks_of_a_kernel_that_runs_on_a_remote_board(remote, boards, kernel, monkeypatch):
    a, b = arrays()
    np.testing.assert_array_equal(remote(a, b), a + b + 1)
    asked = []
    real = rpc.client.Session._timed
    monkeypatch.setattr(rpc.client.Session, "_timed", lambda self, artifact, request, blobs: (asked.append((request, blobs)), real(self, artifact, request, blobs))[1])  # fmt: skip
    times = remote.get_profiler().do_bench(n_warmup=2, n_repeat=4, quantiles=[0.0, 1.0])
    assert 0 < times[0] <= times[1] < 10
    assert [(r["warmup"], r["repeats"], r["seed"], len(blobs)) for r, blobs in asked] == [(0, 1, 0, 0), (2, 4, 0, 0)]  # no input travels
    del asked[:]
    remote.get_profiler().do_bench(n_warmup=1, n_repeat=2, input_tensors=[a, b])
    assert [(r["warmup"], r["repeats"], len(blobs)) for r, blobs in asked] == [(0, 1, 2), (1, 2, 2)]
    del asked[:]
    milliseconds = do_bench(lambda: remote(a, b), warmup=0, rep=1)  # a call takes longer than that: it is not repeated
    assert milliseconds == pytest.approx(times[1], rel=0.5) and len(asked) == 3


def test_a_text_that_does_not_compile(farm, boards, kernel):
    with connect(farm) as session:
        with pytest.raises(DeviceCompileError) as caught:
            session.build(rpc_programs.not_compiling(kernel))
        assert sentence(caught.value) == "bisheng of CANN 9.0.0 does not compile kernel add (exit status 1)"
        assert "not C++" in str(caught.value) or "error" in str(caught.value)
        assert works(session, kernel)


@pytest.mark.parametrize(
    "fault, error, words",
    [
        ("exception", DeviceError, "kernel add failed on the NPU: a core raised an exception"),
        ("timeout", DeviceTimeoutError, "kernel add did not end within"),
    ],
)
def test_a_run_that_fails(farm, boards, home, kernel, fault, error, words):
    a, b = arrays()
    with connect(farm) as session:
        session.build(kernel)
        (home / "fault").write_text(fault)
        with pytest.raises(error) as caught:
            session.run(kernel, a, b)
        assert sentence(caught.value).startswith(words)
        assert works(session, kernel)  # in the same session


def test_a_launch_that_fails(farm, boards, kernel):
    """The launcher itself says no."""
    artifact = dataclasses.replace(
        kernel.artifact, host_source=kernel.artifact.host_source.replace("void* stream) {", "void* stream) { if (block_dim) return 7;")
    )
    with connect(farm) as session:
        with pytest.raises(DeviceError) as caught:
            session.run(artifact, *arrays())
        assert "kernel add cannot be launched" in sentence(caught.value)
        assert works(session, kernel)


def test_a_kernel_that_hangs_while_others_work(farm, boards, home, kernel):
    """The driver does not come back at all: the session ends at the client's time-out, and the other board goes on meanwhile."""
    a, b = arrays()
    with connect(farm, call=1.0) as session, connect(farm) as other:
        other.build(kernel)
        session.build(kernel)
        (home / "fault").write_text("hang")
        start = time.monotonic()
        with pytest.raises(failures.ServerTimeout, match=r"did not run add in 1\.\d s") as caught:
            session.run(kernel, a, b)
        assert time.monotonic() - start < 4 and "\n" not in caught.value.message
        assert works(other, kernel)
    wait_until(lambda: farm.free("board") == 2)
    with connect(farm) as session:
        assert works(session, kernel)


def test_a_kernel_for_another_chip_than_the_board(farm, boards, kernel):
    with connect(farm) as session:
        with pytest.raises(failures.ServerRefused) as caught:
            session.build(kernel.retarget("a5"))
        message = sentence(caught.value)
        assert "kernel add is compiled for Ascend950PR" in message and "the NPU is Ascend910B3 with CANN 9.0.0" in message
        assert works(session, kernel)


def test_jobs_over_two_boards_of_one_key_keep_every_result(farm, boards, home, kernel, tmp_path):
    """One program does not compile, one is for another chip, one board is killed in the middle: nothing else is lost."""
    good = {f"good {i}": rpc_programs.add(N, BLOCK, float(i)) for i in range(4)}
    bad = {"text": rpc_programs.not_compiling(kernel), "chip": kernel.retarget("a5")}
    jobs = [rpc.Job(name, lambda s, k=k: list(s.time(k, warmup=0, repeats=2).microseconds)) for name, k in {**bad, **good}.items()]
    with rpc.Results(tmp_path / "times.jsonl") as results:
        replies = {j.name: r for j, r in rpc.run_jobs(jobs, farm.tracker, "board", QUICK, tries=3, results=results)}
        assert {name: len(results[name]) for name in results} == dict.fromkeys(good, 2)
    assert isinstance(replies["text"].error, DeviceCompileError) and isinstance(replies["chip"].error, failures.ServerRefused)
    assert {r.server for r in replies.values()} <= {s.address for s in boards}


def test_what_a_kernel_on_a_remote_board_would_print(farm, boards, capsys):
    import tilelang_ascend as tilelang
    import tilelang_ascend.language as T

    @T.prim_func
    def show(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((64,), "float32")
            T.copy(A, a)
            T.print(a)
            T.copy(a, B)

    x = np.ones(64, np.float32)
    with connect(farm) as session:
        np.testing.assert_array_equal(session.run(tilelang.compile(show, out_idx=-1), x), x)
    assert "show: what it prints is not shown on the NPU; kernel.simulate(...) prints it" in capsys.readouterr().err
