"""Every block of the README runs as it stands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from testing import warm_python
from tilelang_ascend.transform import gen_docs

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines()]


def test_python_blocks(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 2
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks))
    done = _run([sys.executable, str(script)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "GlobalTensor" in done.stdout and (tmp_path / "out/gemm_trace.json").exists()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python")])
def test_commands(command, tmp_path):
    words = shlex.split(command)
    words = [sys.executable, *(str(ROOT / w) if w.startswith("examples/") else w for w in words[1:])]
    done = _run(words, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make")])
def test_make_targets_exist(command):
    done = subprocess.run([*shlex.split(command), "-n"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_command_escapes_the_tests():
    assert COMMANDS and all(c.startswith(("python", "make")) for c in COMMANDS)


def test_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links and all((ROOT / link).exists() for link in links)


def test_the_architecture_page_shows_every_pass():
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert gen_docs.renewed(page) == page, "run: python -m tilelang_ascend.transform.gen_docs ARCHITECTURE.md"
    paths = re.findall(r"\]\((tilelang_ascend/transform/[\w/]+\.py)\)", gen_docs.table())
    assert len(paths) > 20 and all((ROOT / path).exists() for path in paths)


def _run(words, cwd):
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return warm_python.run(words, cwd=cwd, env={**os.environ, "PYTHONPATH": path})
