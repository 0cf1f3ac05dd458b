"""`subprocess` for Python programs of tests that are not about how an interpreter starts: forks of one that has torch and tvm already.

It is a process all the same, with streams, signals and an end of its own. What it prints of an exception has more frames.
"""

from __future__ import annotations

import contextlib
import functools
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path

from tilelang_ascend import warm

_MODULES = ("tilelang_ascend.autotune.jobs", "tilelang_ascend.language", "tilelang_ascend.tools.cli", __name__)
_OURS = ("PYTHONPATH", "PYTHONUNBUFFERED")
"""Variables of Python that `_become` obeys."""


def run(words, cwd=None, env=None, timeout=None, closed=()):
    """As `subprocess.run` with ``capture_output=True, text=True``."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Popen(words, cwd, env, out, err, closed=closed)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *texts)


class Popen:
    """As `subprocess.Popen` with ``text=True``.

    Args:
        words: `sys.executable`, and what it takes: a script, ``-m`` and a module, or ``-c`` and a text; then arguments.
        stdout: `subprocess.PIPE`, a descriptor, or a file; so is stderr.
        closed: standard streams (0, 1, 2) that are closed from the start.
    """

    def __init__(self, words, cwd=None, env=None, stdout=None, stderr=None, start_new_session=False, closed=()):
        first, *arguments = map(str, words)
        assert first == sys.executable, f"{first} is not this Python"
        env = dict(os.environ if env is None else env)
        template = warm.template(_MODULES, {name: value for name, value in env.items() if name not in _OURS})
        entry = f"{__name__}:_become"
        with contextlib.ExitStack() as stack:
            self.stdout, out = _stream(stdout, 1, stack)
            self.stderr, err = _stream(stderr, 2, stack)
            nothing = stack.enter_context(open(os.devnull, "rb")).fileno()
            request = arguments, str(cwd or os.getcwd()), _standard_path(), start_new_session, list(closed)
            self._process = template.fork(entry, request, [], (nothing, out, err), env)
        self.args = words
        self.pid, self.poll, self.wait, self.kill = self._process.pid, self._process.poll, self._process.wait, self._process.kill

    @property
    def returncode(self):
        return self.poll()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout=None):
        texts = {}
        readers = [
            threading.Thread(target=lambda file: texts.update({file: file.read()}), args=(file,), daemon=True)
            for file in (self.stdout, self.stderr)
            if file is not None
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
            assert not reader.is_alive(), "another process holds the pipe open"
        return texts.get(self.stdout), texts.get(self.stderr)


def _stream(given, default, stack):
    """The end of this process, if there is one, and the descriptor of the other."""
    if given == subprocess.PIPE:
        reader, writer = os.pipe()
        stack.callback(os.close, writer)
        return open(reader, encoding="utf-8"), writer
    if given is None:
        return None, default
    return None, given if isinstance(given, int) else given.fileno()


@functools.cache
def _standard_path():
    """What a fresh interpreter has in `sys.path` by itself, behind the folder of its program."""
    env = {name: value for name, value in os.environ.items() if name not in _OURS}
    text = subprocess.run(
        [sys.executable, "-c", "import sys; print('\\n'.join(sys.path[1:]))"], env=env, capture_output=True, text=True, check=True
    )
    return text.stdout.splitlines()


def _become(arguments, folder, standard_path, new_session, closed):
    """In the fork: the program."""
    if new_session:
        os.setsid()
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    for number in closed:
        os.close(number)
        name = ("stdin", "stdout", "stderr")[number]
        vars(sys).update({name: None, f"__{name}__": None})
    kind, first = (arguments[0], arguments[1]) if arguments[0] in ("-c", "-m") else (None, arguments[0])
    sys.argv[:] = [first if kind is None else kind, *arguments[1 if kind is None else 2 :]]
    home = os.path.dirname(os.path.abspath(first)) if kind is None else folder if kind == "-m" else ""
    sys.path[:] = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *standard_path]
    if kind == "-m":
        runpy.run_module(first, run_name="__main__", alter_sys=True)
        return
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    text, name = first, "<string>"
    if kind is None:
        module.__file__ = name = os.path.abspath(first)
        text = Path(name).read_text("utf-8")
    exec(compile(text, name, "exec"), vars(module))
