"""Worker processes: a crash, a hang or an exception costs one job, and nothing is left running."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tilelang_ascend.autotune.pool import Job, WorkerPool, WorkerStartError

RUN = "pool_jobs:run"
ROOT = Path(__file__).resolve().parents[3]


def run(jobs, size=1, timeout=30.0):
    with WorkerPool(RUN, size, timeout) as pool:
        replies = {job.name: reply for job, reply in pool.run([Job(i, p) for i, p in enumerate(jobs)])}
    return [(replies[i].kind, replies[i].value) for i in range(len(jobs))]


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int):
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def test_results_come_back_and_a_worker_is_reused():
    replies = run([("echo", {"x": 1}), ("pid", None), ("pid", None)])
    assert replies[0] == ("result", {"x": 1})
    assert replies[1] == replies[2] and replies[1][1] != os.getpid()


def test_no_job_starts_no_process():
    with WorkerPool("no_such_module:run", 2, 1) as pool:
        assert list(pool.run([])) == []


def test_a_crash_costs_one_job():
    segv, status, ok = run([("crash", signal.SIGSEGV), ("exit", 3), ("echo", 1)])
    assert segv == ("crashed", "killed by SIGSEGV: something went wrong in native code")
    assert status == ("crashed", "ended with status 3")
    assert ok == ("result", 1)


def test_a_hang_costs_one_job():
    start = time.monotonic()
    hang, ok = run([("hang deaf", 600), ("echo", 1)], timeout=0.5)
    assert hang == ("timed out", None) and ok == ("result", 1)
    assert time.monotonic() - start < 30


def test_an_exception_is_a_reply():
    ((kind, (line, details)), ok) = run([("raise", "no\nway"), ("echo", 1)])
    assert (kind, line) == ("error", "ValueError: no\nway") and "Traceback" in details and ok == ("result", 1)


def test_output_of_a_job_does_not_disturb(capfd):
    assert run([("print", "x"), ("echo", 1)]) == [("result", None), ("result", 1)]
    assert capfd.readouterr() == ("", "")


def test_files_reach_workers_also_after_a_crash():
    with tempfile.TemporaryFile() as file, WorkerPool(RUN, 1, 30) as pool:
        file.write(b"contents")
        file.flush()
        files = {"data": file.fileno()}
        jobs = [Job(0, ("read", "data"), files), Job(1, ("exit", 1)), Job(2, ("read", "data"), files)]
        replies = {job.name: reply.value for job, reply in pool.run(jobs)}
    assert replies[0] == replies[2] == "contents"


def test_a_worker_that_cannot_start_is_an_error():
    with pytest.raises(WorkerStartError, match="No module named 'no_such_module'"):
        with WorkerPool("no_such_module:run", 1, 1) as pool:
            list(pool.run([Job(0, None)]))


def test_leaving_the_pool_ends_busy_workers():
    with WorkerPool(RUN, 2, 60) as pool:
        results = pool.run([Job(0, ("pid", None)), Job(1, ("hang", 600)), Job(2, ("hang", 600))])
        assert next(results)[1].kind == "result"
        processes = [w.process for w in pool._workers]
        assert processes
    assert all(p.poll() is not None for p in processes)


SCRIPT = """
import sys
from tilelang_ascend.autotune.pool import Job, WorkerPool
with WorkerPool("pool_jobs:run", 1, 600) as pool:
    for job, reply in pool.run([Job(0, ("pid", None)), Job(1, ("hang deaf", 600))]):
        print(reply.value, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="parent death signals are Linux's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_workers_die_with_their_parent(number):
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    env = {**os.environ, "PYTHONPATH": path}
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    worker = int(parent.stdout.readline())
    assert alive(worker)
    time.sleep(0.2)  # the second job has begun
    parent.send_signal(number)
    parent.communicate(timeout=20)
    assert parent.returncode == -number
    wait_until_gone(worker)
