"""Servers that are killed, hang, run broken programs or have a full disk: the client hears of it in seconds, other work goes on."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import rpc_programs
from farm import QUICK, children, free_port, said, wait_until

from tilelang_ascend import descendants, rpc
from tilelang_ascend.errors import SimulationError
from tilelang_ascend.rpc import client, failures, protocol, settings
from tilelang_ascend.runtime.artifact import Artifact
from tilelang_ascend.sim import twin

RNG = np.random.default_rng(5)
CAN_MOUNT = shutil.which("unshare") and subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def kernel():
    return rpc_programs.add()


@pytest.fixture(scope="module")
def server(farm):
    (made,) = farm.servers(("--key", "a2", "--port", str(free_port())))
    return made


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """A compiler that hangs while a file `hang` lies beside it."""
    path = tmp_path_factory.mktemp("bin") / "c++"
    path.write_text(f'#!/bin/sh\n[ -e {path.parent}/hang ] && sleep 1000\nexec {twin.find_compiler()} "$@"\n')
    path.chmod(0o700)
    return path


_short = []


@pytest.fixture
def short(farm, compiler):
    """A server with short limits; a new one when a test has killed the last."""
    if not _short or _short[0].process.poll() is not None:
        words = ("server", "--tracker", farm.tracker, "--key", "short", "--call-limit", "3", "--idle-limit", "1")
        _short[:] = farm.ready([farm.start(*words, env={"CXX": str(compiler)})])
    wait_until(lambda: farm.known("short"))  # a listener that the test before has ended comes back
    return _short[0]


def arrays(n=4096):
    return [RNG.random(n, dtype=np.float32) for _ in range(2)]


def connect(farm, key="a2", timeouts=QUICK):
    return rpc.connect(farm.tracker, key, timeouts)


def assert_works(farm, kernel, key="a2"):
    a, b = arrays()
    with connect(farm, key) as session:
        np.testing.assert_array_equal(session.run(kernel, a, b), a + b + 1)


def quick_failure(error, farm, kernel, do, call=1.0):
    """What `do` raises in a session with a short time-out."""
    start = time.monotonic()
    with connect(farm, timeouts=settings.Timeouts(3, 20, 3, call)) as session, pytest.raises(error) as caught:
        do(session)
    assert time.monotonic() - start < call + 5
    assert "\n" not in caught.value.message and str(session.server) in str(caught.value)
    return caught.value


def test_values_and_times_are_those_of_a_local_call(farm, server, kernel):
    a, b = arrays()
    with connect(farm) as session:
        out = session.run(kernel, a, b)
        timing = session.time(kernel, a, b)
        assert session.info.device == "sim" and session.info.clock == timing.clock == "simulated"
        np.testing.assert_array_equal(out, kernel(a, b))
        assert timing.microseconds == (kernel.simulate(a, b).simulated_us,)
        inputs = kernel.get_profiler().get_inputs()
        made = session.run_seeded(kernel, seed=0)
        np.testing.assert_array_equal(made["C"], kernel(*inputs))
        assert session.run_seeded(kernel, seed=0, outputs=False) == {}
        assert not np.array_equal(session.run_seeded(kernel, seed=1)["C"], made["C"])


def test_builds_are_kept_by_content_and_seen_by_later_sessions(farm, server):
    one, other = rpc_programs.add(constant=2.0), rpc_programs.add(constant=3.0)
    with connect(farm) as session:
        assert [session.build(k).known for k in (one, one, other)] == [False, True, False]
    with connect(farm) as session:
        assert session.build(one).known


def test_a_program_that_does_not_compile(farm, server, kernel):
    error = quick_failure(failures.BuildError, farm, kernel, lambda s: s.build(rpc_programs.not_compiling(kernel)), call=20)
    assert "add does not compile" in error.message and "kernel.cpp" in error.message and "error" in error.details
    assert_works(farm, kernel)


def test_metadata_that_does_not_fit_the_text(farm, server, kernel):
    artifact = kernel.artifact
    twice = Artifact(
        **{f: getattr(artifact, f) for f in ("name", "chip", "signature", "kernel_source", "host_source", "memory_map")},
        steps=artifact.steps * 2,
    )
    error = quick_failure(failures.BuildError, farm, kernel, lambda s: s.build(twice), call=20)
    assert "1 kernels in its text, and launches 2" in error.message


def test_a_program_that_crashes_takes_its_session_only(farm, server, kernel):
    error = quick_failure(failures.ServerLost, farm, kernel, lambda s: s.run(rpc_programs.crashing(kernel), *arrays()), call=20)
    assert "when it was to run add" in error.message
    listener = children(server.process.pid)
    assert_works(farm, kernel)
    assert children(server.process.pid) == listener


def test_a_compiler_that_hangs_ends_with_its_session(farm, short, compiler, kernel):
    alone = descendants.descendants(short.process.pid)
    hang = compiler.parent / "hang"
    hang.touch()
    with (
        connect(farm, "short", settings.Timeouts(3, 20, 3, 1)) as session,
        pytest.raises(failures.ServerTimeout, match="did not build add"),
    ):
        session.build(kernel)
    hang.unlink()
    wait_until(lambda: descendants.descendants(short.process.pid) == alone)


def test_a_program_that_never_ends(farm, server, kernel):
    quick_failure(failures.ServerTimeout, farm, kernel, lambda s: s.run(rpc_programs.endless(kernel), *arrays()))
    assert_works(farm, kernel)  # the only server is free again


def client_of_an_endless_program(farm, folder):
    """A process that waits for a program which never ends."""
    script = folder / "client.py"
    script.write_text(
        f"import sys; sys.path[:0] = [{os.path.dirname(rpc_programs.__file__)!r}]\n"
        "import rpc_programs\nfrom tilelang_ascend import rpc\n"
        f"session = rpc.connect({farm.tracker!r}, 'a2')\nartifact = rpc_programs.endless(rpc_programs.add())\nsession.build(artifact)\n"
        "print('running', flush=True)\nsession.run_seeded(artifact)\n"
    )
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": farm.path()}
    )
    said(process, "running")
    time.sleep(0.3)
    return process


def test_a_client_that_is_killed_frees_its_server(farm, server, kernel, tmp_path):
    process = client_of_an_endless_program(farm, tmp_path)
    process.kill()
    process.communicate()
    assert_works(farm, kernel)


def test_errors_and_warnings_of_a_kernel_are_those_of_a_local_call(farm, server, kernel, monkeypatch, capsys):
    import tilelang_ascend as tilelang
    import tilelang_ascend.language as T

    @T.prim_func
    def partly(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((256,), "float32")
            T.copy(A, a)
            T.device_assert(A[0] < 5.0, "too large")
            T.print(a[0])
            T.copy(a[0:128], B[0:128])

    kernel = tilelang.compile(partly, out_idx=-1)
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "rpc")
    monkeypatch.setenv("TILELANG_ASCEND_TRACKER", farm.tracker)
    out = kernel(np.full(256, 3, np.float32))
    said_here = capsys.readouterr()
    assert (out[:128] == 3).all() and np.isnan(out[128:]).all()
    assert "3" in said_here.out
    with pytest.raises(SimulationError, match="too large") as caught:
        kernel(np.full(256, 7, np.float32))
    assert caught.value.location is not None and caught.value.location.file == __file__


def test_calls_and_benchmarks_run_there(farm, server, kernel, monkeypatch):
    a, b = arrays()
    monkeypatch.setenv("TILELANG_ASCEND_TRACKER", farm.tracker)
    remote = type(kernel)(kernel.artifact, "rpc")
    np.testing.assert_array_equal(remote(a, b), a + b + 1)
    from tilelang_ascend.profiler import do_bench

    assert do_bench(lambda: remote(a, b)) == kernel.simulate(a, b).simulated_us / 1e3
    monkeypatch.delenv("TILELANG_ASCEND_TRACKER")
    with pytest.raises(ValueError, match="TILELANG_ASCEND_TRACKER does not name a tracker"):
        remote(a, b)


def test_dynamic_shapes_and_inputs_made_there(farm, server):
    import tilelang_ascend as tilelang
    import tilelang_ascend.language as T

    n = T.dynamic("n")

    @T.prim_func
    def double(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256)) as bx:
            a = T.alloc_shared((256,), "float32")
            T.copy(A[bx * 256], a)
            for i in T.Parallel(256):
                a[i] = a[i] * 2
            T.copy(a, B[bx * 256])

    kernel = tilelang.compile(double, out_idx=-1)
    a, _ = arrays(700)
    with connect(farm) as session:
        np.testing.assert_array_equal(session.run(kernel, a), a * 2)
        assert session.run_seeded(kernel, symbols={"n": 500})["B"].shape == (500,)
        with pytest.raises(ValueError, match="No value for the dynamic extent n"):
            session.time(kernel)


# -- bad input -----------------------------------------------------------------------------------------------------------------


def test_wrong_key(farm, server):
    with pytest.raises(failures.NoServer, match="knows no server with the key 'a7'") as caught:
        connect(farm, "a7")
    assert "there are a2" in str(caught.value)


def test_another_version_of_the_protocol(farm, server, kernel, monkeypatch):
    monkeypatch.setattr(protocol, "VERSION", 99)
    with pytest.raises(failures.ServerRefused, match="speaks version 1 of the protocol .* the client version 99"):
        connect(farm)


def test_requests_that_are_none(farm, server):
    with connect(farm) as session:
        for request in (b"", b"abc", b"TLAR\xff\xff\xff\xff{}"):
            header, _ = protocol.unpack(bytes(session._call(request)))
            assert not header["ok"] and header["error"]["kind"] == "ProtocolError"
        with pytest.raises(failures.ProtocolError, match="there is no request 'dance'"):
            session._ask("dance", {"do": "dance"})


def test_a_message_that_is_too_large(farm, server, kernel, monkeypatch):
    with connect(farm) as session:
        session.build(kernel)
        monkeypatch.setattr(protocol, "MAX_BYTES", 10_000)
        with pytest.raises(failures.ServerRefused, match="is more than the limit") as caught:
            session.run(kernel, *arrays())
        assert "seed" in caught.value.hint


def test_a_server_for_one_chip_whose_clock_is_ten_years_late(farm, kernel, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nsys.modules['torch'] = None\nreal = time.time\ntime.time = lambda: real() - 3e8\n"
    )
    started = farm.start("server", "--tracker", farm.tracker, "--key", "a3", "--chip", "a3", env={"PYTHONPATH": farm.path(tmp_path)})
    farm.ready([started])
    a, b = arrays()
    with connect(farm, "a3") as session:
        with pytest.raises(failures.ServerRefused, match="add is compiled for Ascend910B1, the board is Ascend910_9391"):
            session.build(kernel)
        np.testing.assert_array_equal(session.run(kernel.retarget("a3"), a, b), a + b + 1)
    farm.stop([started])
    with pytest.raises(failures.NoServer):
        connect(farm, "a3")


def test_a_device_that_is_not_there(farm):
    process = farm.start("server", "--tracker", farm.tracker, "--key", "a2", "--device", "npu:1")
    assert "no server for the device npu:1: execution_backend 'npu' cannot be used" in said(process, "error: ")
    assert process.wait(10) == 1
    farm.processes.remove(process)
    process.stdout.close()


# -- faults --------------------------------------------------------------------------------------------------------------------


def run_in_background(farm, artifact, key="a2", call=20.0):
    """A thread in which an artifact runs by now; `.found` gets (error, seconds)."""

    def run():
        with connect(farm, key, settings.Timeouts(3, 20, 3, call)) as session:
            session.build(artifact)
            building.set()
            start = time.monotonic()
            try:
                session.run(artifact, *arrays())
            except rpc.RpcError as error:
                thread.found = (error, time.monotonic() - start)

    building, thread = threading.Event(), threading.Thread(target=run)
    thread.start()
    assert building.wait(30)
    time.sleep(0.3)
    return thread


def test_a_server_killed_in_the_middle_comes_back(farm, server, kernel):
    running = run_in_background(farm, rpc_programs.endless(kernel))
    (listener,) = children(server.process.pid)
    os.kill(listener, signal.SIGKILL)
    killed = time.monotonic()
    running.join()
    assert time.monotonic() - killed < 3 and isinstance(running.found[0], failures.ServerLost)
    with wait_until(lambda: listening_on(settings.parse_address(server.address))):  # the port it was told is taken for a while
        assert "cannot listen on 127.0.0.1, port" in said(server.process, "cannot start")
    wait_until(lambda: server.address in farm.known())
    assert_works(farm, kernel)


def test_a_server_whose_port_is_taken_when_it_comes_back_moves(farm, short, kernel):
    address = settings.parse_address(short.address)
    (listener,) = children(short.process.pid)
    os.kill(listener, signal.SIGKILL)
    with wait_until(lambda: listening_on(address)):
        line = said(short.process, "serving")
    assert short.address not in line
    short.address = line.split(" on ")[1].split(",")[0]
    wait_until(lambda: farm.known("short") == {short.address})
    assert_works(farm, kernel, "short")


def listening_on(address):
    """A socket that has the address, once it is free."""
    with contextlib.suppress(OSError):
        return socket.create_server((address.host, address.port))


def test_a_session_that_hangs_ends_when_its_client_has_gone(farm, server, kernel):
    (listener,) = children(server.process.pid)
    with connect(farm, timeouts=settings.Timeouts(3, 20, 3, 1)) as session:
        session.build(kernel)
        (process,) = children(listener)
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(failures.ServerTimeout, match=r"did not run add in 1\.\d s"):
            session.run(kernel, *arrays())
    wait_until(lambda: not children(listener))
    assert_works(farm, kernel)
    assert children(server.process.pid) == [listener]


def test_jobs_that_nobody_wants_any_more(farm, server, kernel):
    jobs = [rpc.Job("quick", lambda s: s.build(kernel).digest), rpc.Job("endless", lambda s: s.time(rpc_programs.endless(kernel)))]
    start = time.monotonic()
    for job, reply in rpc.run_jobs(jobs, farm.tracker, timeouts=settings.Timeouts(call=60)):
        break
    assert job.name == "quick" and reply.error is None and time.monotonic() - start < 10
    assert_works(farm, kernel)


def test_an_interrupted_client_ends(farm, server, kernel, tmp_path):
    process = client_of_an_endless_program(farm, tmp_path)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode != 0 and out.rstrip().endswith("KeyboardInterrupt")
    assert_works(farm, kernel)


def test_limits_of_a_server(farm, short, kernel):
    """A request ends when the server says so, whatever its client wants; a client that asks nothing loses its session."""
    with connect(farm, "short") as session:
        session.build(kernel)
        with pytest.raises(failures.ServerTimeout, match=r"did not run add in 3\.\d s"):
            session.run(rpc_programs.endless(kernel), *arrays())
    with connect(farm, "short") as session:
        wait_until(lambda: farm.free("short"), 10)
        with pytest.raises(failures.ServerLost, match="ended after .* when it was to build add"):
            session.build(kernel)


def test_a_listener_that_hangs_is_replaced(farm, server, kernel):
    (listener,) = children(server.process.pid)
    wait_until(lambda: farm.free("a2"))
    os.kill(listener, signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(failures.ServerTimeout, match="did not open a session in 1 s"):
        address, one_time_key = client.take_server(settings.parse_address(farm.tracker), "a2", QUICK)
        client.Session(address, one_time_key, settings.Timeouts(connect=1))
    assert time.monotonic() - start < 4
    wait_until(lambda: listener not in children(server.process.pid))
    wait_until(lambda: server.address in farm.known())
    assert_works(farm, kernel)


def test_stray_connections_do_not_block_a_server(farm, server, kernel):
    address = settings.parse_address(server.address)
    for greeting in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 64):
        with socket.create_connection((address.host, address.port)) as stray:
            stray.sendall(greeting)
            stray.settimeout(0.3)
            with contextlib.suppress(OSError):
                stray.recv(1)
    with socket.create_connection((address.host, address.port)):  # says nothing, and stays
        time.sleep(0.2)
        assert_works(farm, kernel)


def test_a_tracker_that_is_killed(farm, server, kernel):
    with connect(farm) as session:
        farm.tracker_process.kill()
        farm.tracker_process.wait()
        a, b = arrays()
        np.testing.assert_array_equal(session.run(kernel, a, b), a + b + 1)  # a session needs no tracker
    with pytest.raises(failures.NoTracker, match=f"there is no tracker at {farm.tracker}") as caught:
        connect(farm)
    assert "tilelang-ascend tracker" in caught.value.hint
    farm.start_tracker()
    wait_until(lambda: server.address in farm.known())
    assert_works(farm, kernel)


def test_a_killed_supervisor_leaves_no_process(farm, short, kernel):
    running = run_in_background(farm, rpc_programs.endless(kernel), "short")
    (folder,) = {Path(variable(pid, "TMPDIR")).parent for pid in children(short.process.pid)}
    family = descendants.descendants(short.process.pid)
    assert len(family) == 2  # the listener and the session
    short.process.kill()
    wait_until(lambda: not set(family) & set(farm.alive()), 5)
    running.join()
    assert isinstance(running.found[0], failures.ServerLost)
    farm.stop([short.process])
    shutil.rmtree(folder)  # a process that is killed cannot tidy up


def variable(pid, name):
    """An environment variable of a process."""
    return dict(e.split("=", 1) for e in Path(f"/proc/{pid}/environ").read_text().split("\0") if e)[name]


@pytest.mark.skipif(not CAN_MOUNT, reason="no file system can be mounted")
def test_four_servers_of_which_three_fail(farm, kernel, tmp_path):
    """One is killed in the middle, one hangs, one has a full disk, and broken programs come to all of them."""
    others, disk = set(farm.alive()), tmp_path / "disk"
    disk.mkdir()
    words = ("server", "--tracker", farm.tracker, "--key", "fleet")
    started = [farm.start(*words) for _ in range(3)]
    mount = f'mount -t tmpfs -o size=64k,mode=700 none {disk} && exec "$@"'
    started.append(farm.start(*words, before=("unshare", "-rm", "sh", "-c", mount, "sh"), env={"TMPDIR": str(disk)}))
    killed, hung, _, full = farm.ready(started)
    assert len(farm.known("fleet")) == 4  # of one name
    bad = {"broken": rpc_programs.not_compiling(kernel), "crashing": rpc_programs.crashing(kernel), "endless": rpc_programs.endless(kernel)}
    good = {f"good {i}": rpc_programs.add(constant=float(i)) for i in range(5)}
    jobs = [
        rpc.Job(name, lambda s, k=k, seconds=1 if name == "endless" else 15: timed(s, k, seconds)) for name, k in {**bad, **good}.items()
    ]
    os.killpg(children(hung.process.pid)[0], signal.SIGSTOP)
    killer = threading.Timer(1.0, lambda: os.kill(children(killed.process.pid)[0], signal.SIGKILL))
    killer.start()
    path = tmp_path / "results.jsonl"
    timeouts, replies, start = settings.Timeouts(3, 20, 2), {}, time.monotonic()
    with rpc.Results(path) as results:
        for job, reply in rpc.run_jobs(jobs, farm.tracker, "fleet", timeouts, tries=3, results=results):
            replies[job.name] = reply
    assert time.monotonic() - start < 60
    killer.join()
    assert isinstance(replies["broken"].error, (failures.BuildError, failures.ServerFull))
    assert isinstance(replies["crashing"].error, (failures.ServerLost, failures.ServerFull))
    assert isinstance(replies["endless"].error, (failures.ServerLost, failures.ServerTimeout, failures.ServerFull))
    assert all("\n" not in r.error.message for r in replies.values() if r.error)
    # Good programs fail for one reason only, on the server that has it, and what it refused can be run again.
    refused = {name for name in good if replies[name].error}
    assert all(isinstance(replies[n].error, failures.ServerFull) and replies[n].server == full.address for n in refused)
    assert any(isinstance(r.error, failures.ServerFull) and "no space is left" in r.error.message for r in replies.values())
    farm.stop([full.process])
    with rpc.Results(path) as results:
        assert {name: results[name] for name in results} == {name: replies[name].value for name in good if name not in refused}
        again = {job.name: reply for job, reply in rpc.run_jobs(jobs[3:], farm.tracker, "fleet", timeouts, tries=3, results=results)}
        assert not any(reply.error for reply in again.values()) and len(results) == len(good)
    farm.stop([p for p in started if p is not full.process])
    wait_until(lambda: set(farm.alive()) <= others | set(children_of_farm(farm)), 5)


def timed(session, kernel, seconds):
    session.build(kernel)
    session._timeouts = settings.Timeouts(call=seconds)
    return list(session.time(kernel).microseconds)


def children_of_farm(farm):
    """The processes that belong to commands that still run."""
    return [pid for process in farm.processes for pid in (process.pid, *descendants.descendants(process.pid))]
