"""What the linters say of all code: `python -m testing.lint`, which `make lint` runs and the tests do, too.

The style of Python, its lay-out, the lay-out of the native code, and the types of what a user touches.
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


def run(name: str) -> str:
    """What a linter has found, "" for nothing."""
    done = subprocess.run([sys.executable, *commands()[name]], cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() or f"{name} ended with status {done.returncode}" if done.returncode else ""


def main() -> int:
    found = [text for name in commands() if (text := run(name))]
    print("\n".join(found) or "nothing found")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
