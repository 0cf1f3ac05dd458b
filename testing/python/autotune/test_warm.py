"""Forks of a template: what they need is imported once, they look like fresh processes, and none of them is left."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from tilelang_ascend import descendants, warm
from tilelang_ascend.autotune import measure

ROOT = Path(__file__).resolve().parents[3]
NO_INPUT = os.open(os.devnull, os.O_RDONLY)


def fork(template, code, env=os.environ, output=None):
    """A fork that runs a line of Python."""
    with tempfile.TemporaryFile() as nowhere:
        stream = (output or nowhere).fileno()
        return template.fork("builtins:exec", [code], [], (NO_INPUT, stream, stream), env)


def said(template, code, **more):
    with tempfile.TemporaryFile() as output:
        process = fork(template, code, output=output, **more)
        assert process.wait(20) == 0
        output.seek(0)
        return output.read().decode()


def wait_until_gone(pid):
    end = time.monotonic() + 10
    while descendants.is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def template():
    made = warm.Template(["colorsys"], os.environ)
    yield made
    made.close()


def test_modules_are_there_and_each_fork_is_a_process(template):
    code = "import os, sys; print('colorsys' in sys.modules, os.getpid(), os.getppid())"
    first, second = said(template, code).split(), said(template, code).split()
    assert first[0] == second[0] == "True" and first[1] != second[1]
    assert first[2] == second[2] == str(template.process.pid)


def test_folder_path_and_variables_are_those_of_the_request(template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/nowhere/in/particular")
    env = {name: value for name, value in os.environ.items() if name != "PATH"} | {"A_NEW_ONE": "x"}
    code = "import os, sys; print(os.getcwd(), sys.path[0], os.environ['A_NEW_ONE'], 'PATH' in os.environ)"
    assert said(template, code, env=env).split() == [str(tmp_path), "/nowhere/in/particular", "x", "False"]


def test_forks_draw_numbers_of_their_own():
    template = warm.Template(["random", "numpy.random"], os.environ)
    drawn = {said(template, f"import {module} as m; print(m.random())") for module in ("random", "numpy.random") for _ in range(2)}
    template.close()
    assert len(drawn) == 4


@pytest.mark.parametrize("code, expected", [("raise SystemExit(7)", 7), ("x = 1 / 0", 1), ("import os; os.kill(os.getpid(), 11)", -11)])
def test_exit_codes(template, code, expected):
    process = fork(template, code)
    assert process.wait(20) == process.poll() == expected


def test_a_fork_is_waited_for_and_ended(template):
    process = fork(template, "import time; time.sleep(600)")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    process.end()
    assert process.poll() == -signal.SIGKILL and not descendants.is_running(process.pid)


def test_a_template_that_is_killed_takes_its_forks_along(template):
    process = fork(template, "import time; time.sleep(600)")
    assert descendants.is_running(process.pid)
    template.process.kill()
    assert process.wait(20) == -signal.SIGKILL
    wait_until_gone(process.pid)
    assert template.ended


def test_a_template_is_kept_until_it_ends_and_each_setting_of_libraries_has_its_own():
    env = dict(os.environ)
    first = warm.template(["colorsys"], env)
    assert warm.template(["colorsys"], {**env, "TILELANG_X": "1"}) is first
    assert warm.template(["colorsys"], {**env, "OMP_NUM_THREADS": "77"}) is not first
    assert warm.template(["colorsys", "this"], env) is not first
    first.process.kill()
    first.process.wait()
    assert said(warm.template(["colorsys"], env), "print(5)") == "5\n"


SCRIPT = """
    import os, sys, time
    from tilelang_ascend import warm
    template = warm.template(["colorsys"], os.environ)
    process = template.fork("time:sleep", [600], [], (0, 1, 2), os.environ)
    child = os.fork()
    if child == 0:  # it keeps its copy of the parent's end of the socket
        assert warm.template(["colorsys"], os.environ) is not template
        time.sleep({seconds})
        os._exit(0)
    print(template.process.pid, process.pid, child, flush=True)
    {then}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="parent death signals are Linux's")
@pytest.mark.parametrize("then, seconds", [("time.sleep(600)", 600), ("os.waitpid(child, 0)", 0)], ids=["killed", "ends"])
def test_templates_and_forks_end_with_their_process(then, seconds):
    code = textwrap.dedent(SCRIPT).format(then=then, seconds=seconds)
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    *family, child = map(int, parent.stdout.readline().split())
    if seconds:
        parent.kill()
    else:
        assert parent.wait(20) == 0
    parent.stdout.close()
    parent.wait()
    for pid in family:
        wait_until_gone(pid)
    if seconds:
        os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_template_of_the_tuner_has_one_thread():
    """Those of another one would be missing in its forks."""
    template = warm.template([measure.WORK.partition(":")[0]], {**os.environ, **measure._WORKER_ENV})
    assert said(template, "import sys; print('tvm' in sys.modules)") == "True\n"
    assert len(os.listdir(f"/proc/{template.process.pid}/task")) == 1
