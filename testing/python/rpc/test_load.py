"""Many builds and runs over four servers: no result is lost or mixed up, and nothing grows."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import rpc_programs
from farm import children, wait_until

from tilelang_ascend import rpc
from tilelang_ascend.rpc.settings import Timeouts

BUILDS, RUNS = 200, 1000


def resident_mb(pid: int) -> float:
    """Memory that a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.slow
def test_load(farm, tmp_path):
    kernels = [rpc_programs.add(constant=float(i)) for i in range(BUILDS)]
    rng = np.random.default_rng(0)
    a, b = (rng.random(4096, dtype=np.float32) for _ in range(2))
    servers = farm.servers(*[("--key", "load", "--folder", str(tmp_path / "builds"))] * 4)  # one folder: a text is built once
    wrong = []

    def work(session, i):
        kernel = kernels[i % BUILDS]
        out = session.run(kernel, a, b)
        if not np.array_equal(out, a + b + np.float32(i % BUILDS)):
            wrong.append(i)
        if i % 20 == 7:
            session.close()  # the next job of this thread takes a server anew
        return [i, str(session.server)]

    def sizes():
        wait_until(lambda: farm.free("load") == len(servers) and not any(children(children(s.process.pid)[0]) for s in servers))
        pids = {"tracker": farm.tracker_process.pid, "client": os.getpid()}
        for number, server in enumerate(servers):
            pids[f"supervisor {number}"] = server.process.pid
            (pids[f"listener {number}"],) = children(server.process.pid)
        return {name: (resident_mb(pid), open_files(pid)) for name, pid in pids.items()}

    def run(numbers, path, kill=None):
        jobs = [rpc.Job(str(i), lambda s, i=i: work(s, i)) for i in numbers]
        start, seen = time.monotonic(), 0
        with rpc.Results(path) as results:
            for job, reply in rpc.run_jobs(jobs, farm.tracker, "load", Timeouts(call=60), tries=3, results=results):
                assert reply.error is None, reply.error
                seen += 1
                if seen == kill:
                    os.kill(children(servers[0].process.pid)[0], signal.SIGKILL)
            assert sorted(int(name) for name in results) == sorted(numbers)
        return time.monotonic() - start

    seconds = {"builds": run(range(BUILDS), tmp_path / "builds.jsonl")}
    before, threads = sizes(), threading.active_count()
    seconds["runs"] = run(range(RUNS), tmp_path / "runs.jsonl")
    after = sizes()
    seconds["runs, one listener killed"] = run(range(RUNS), tmp_path / "again.jsonl", kill=RUNS // 3)
    assert not wrong
    print({what: f"{s:.1f} s" for what, s in seconds.items()})
    print(
        {
            name: f"{mb:.1f} MB, {files} files; {mb - before[name][0]:+.1f} MB, {files - before[name][1]:+d}"
            for name, (mb, files) in after.items()
        }
    )
    assert threading.active_count() == threads
    for name, (mb, files) in after.items():
        assert mb - before[name][0] < 8 and files - before[name][1] <= 1, (name, before[name], after[name])
    farm.stop([server.process for server in servers])
    wait_until(lambda: len(farm.alive()) == 1, 5)
