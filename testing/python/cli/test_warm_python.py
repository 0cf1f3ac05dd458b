"""Programs that tests start in a warm interpreter do what they do in a fresh one."""

import os
import signal
import subprocess
import sys

import pytest

from testing import warm_python

LOOK = "import sys; print(sys.argv, sys.path[:3], __name__); print('told', file=sys.stderr); sys.exit(4)"


@pytest.mark.parametrize("how", ["script", "module", "text"])
def test_they_find_the_same(tmp_path, how):
    for name in ("script.py", "helper.py"):
        (tmp_path / name).write_text(f"import os; print(__file__, os.getcwd())\n{LOOK}\n")
    words = {"script": ["script.py"], "module": ["-m", "helper"], "text": ["-c", LOOK]}[how]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    warm, fresh = (
        run([sys.executable, *words, "-a", "b"], cwd=tmp_path, env=env, **more)
        for run, more in ((warm_python.run, {}), (subprocess.run, {"capture_output": True, "text": True}))
    )
    assert (warm.stdout, warm.stderr, warm.returncode) == (fresh.stdout, fresh.stderr, 4) and fresh.stderr == "told\n"


def test_they_are_interrupted_and_read():
    code = "import sys, time; print('started', flush=True); print('x' * 100_000, file=sys.stderr); time.sleep(600)"
    process = warm_python.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == "started\n" and os.getsid(process.pid) == process.pid and process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out == "" and "KeyboardInterrupt" in err and process.returncode == -signal.SIGINT


def test_closed_streams_are_none(tmp_path):
    file = tmp_path / "file"
    code = f"import sys; file = open('{file}', 'w'); print(sys.stdin, sys.stdout, file.fileno(), file=file)"
    assert warm_python.run([sys.executable, "-c", code], closed=[0, 1]).returncode == 0
    warm = file.read_text()
    subprocess.run(["sh", "-c", f'{sys.executable} -c "{code}" <&- >&-'], check=True)
    assert warm == file.read_text() == "None None 0\n"
