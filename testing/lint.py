"""What the linters say of all code: `python -m testing.lint`, which `make lint` runs and the tests do, too.

The style of Python, its lay-out, the lay-out of the native code, the types of what a user touches, and whether every test can be read.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_CLANG_FORMAT = "from clang_format import clang_format; clang_format()"  # the package has no `python -m`


def commands() -> dict[str, list[str]]:
    """The arguments of Python for every linter, by the name of its package."""
    native = [str(f.relative_to(ROOT)) for f in sorted((ROOT / "src").rglob("*")) if f.suffix in (".h", ".cc")]
    return {
        "ruff": ["-m", "ruff", "check", "--quiet", "."],
        "ruff format": ["-m", "ruff", "format", "--quiet", "--diff", "."],
        "clang_format": ["-c", _CLANG_FORMAT, "--dry-run", "-Werror", *native],
        "mypy": ["-m", "mypy", "--no-error-summary"],
    }


COLLECTION = ["-m", "pytest", "--collect-only", "-qq", "testing"]  # tests import from each other, which no linter follows


def run(name: str) -> str:
    """What a linter has found, "" for nothing."""
    return _run(name, commands()[name])


def _run(name: str, arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() or f"{name} ended with status {done.returncode}" if done.returncode else ""


def main() -> int:
    found = [text for text in (*map(run, commands()), _run("pytest", COLLECTION)) if text]
    print("\n".join(found) or "nothing found")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
