"""Where CANN lies on this machine, which release it is, and which driver stands below it. Imports no tvm and loads no library."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
"""What `set_env.sh` of CANN exports; the first that is set counts."""

_VERSION_FILES = ("version.cfg", "version.info", "compiler/version.info", "runtime/version.info", "opp/version.info")
_INSTALL_FILES = ("ascend_toolkit_install.info",)
"""Files that state the release, below the home and below its folder of the machine's architecture (assumed: they moved between releases)."""

_VERSION = re.compile(r"^\s*(?:\w*_)?version\s*=\s*\[?(?:[\w.]*:)?\s*(\d[\w.\-]*)", re.IGNORECASE | re.MULTILINE)

DRIVER_FILE = Path("/usr/local/Ascend/driver/version.info")
"""States the version of the driver (assumed: where its installer puts it unless told otherwise)."""

SET_ENV = "source set_env.sh of the CANN toolkit, which sets ASCEND_HOME_PATH"


@dataclass(frozen=True)
class Cann:
    """An installed CANN.

    Attributes:
        home: its folder.
        version: as its own files say it, such as ``8.1.RC1``; empty when none does.
        compiler: path of bisheng, None when there is none.
    """

    home: Path
    version: str
    compiler: Path | None

    @property
    def major(self) -> int:
        """8 or 9, which decides options of the compiler and the form of the text; 9 when the release is not known."""
        number = re.match(r"\d+", self.version)
        return int(number[0]) if number else 9

    @property
    def label(self) -> str:
        """``CANN 8.1.RC1``."""
        return f"CANN {self.version or 'of unknown release'}"

    @property
    def library_folders(self) -> list[Path]:
        """Folders with the libraries of the runtime, those that exist."""
        return [path for path in (self.home / "lib64", self.home / "runtime" / "lib64") if path.is_dir()]

    def library(self, name: str) -> Path | None:
        """Path of a shared library, or None."""
        return next((folder / name for folder in self.library_folders if (folder / name).is_file()), None)

    @property
    def tool_version(self) -> str:
        """Release and what the compiler says of itself: binaries of another one are compiled again."""
        return f"{self.version}\n{_says(str(self.compiler), self.compiler.stat().st_mtime_ns)}" if self.compiler else self.version


def find() -> Cann | None:
    """The CANN the environment names, or the one bisheng in the PATH belongs to; None when there is neither."""
    named = next((os.environ[v] for v in HOME_VARIABLES if os.environ.get(v)), None)
    return _find(named, os.environ.get("PATH", ""))


@functools.cache
def _find(named: str | None, path: str) -> Cann | None:
    """`find` for a state of the environment. Calls of kernels ask, so the disk is looked at once."""
    if named is not None:
        home = Path(named)
        return Cann(home, version_of(home), _compiler_of(home, path)) if home.is_dir() else None
    in_path = shutil.which("bisheng", path=path)
    if in_path is None:
        return None
    # <home>/compiler/ccec_compiler/bin/bisheng, or <home>/bin/bisheng
    found = Path(in_path).resolve()
    home = next((folder for folder in found.parents if (folder / "lib64").is_dir()), found.parent.parent)
    return Cann(home, version_of(home), found)


def why_absent() -> str:
    """Why `find` gives None, in one clause."""
    for variable in HOME_VARIABLES:
        if os.environ.get(variable):
            return f"{variable} is {os.environ[variable]}, which is no folder"
    return f"neither {HOME_VARIABLES[0]} is set nor is bisheng in the PATH"


def version_of(home: Path) -> str:
    """The release its files state; empty when none does."""
    folders = [home, *sorted(home.glob("*-linux"))]
    for path in [folder / name for name in (*_VERSION_FILES, *_INSTALL_FILES) for folder in folders]:
        version = _stated(path)
        if version:
            return version
    return ""


def driver_version() -> str:
    """Version of the driver, empty when it is not stated."""
    return _stated(DRIVER_FILE)


def _stated(path: Path) -> str:
    try:
        found = _VERSION.search(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[1] if found else ""


def _compiler_of(home: Path, path: str) -> Path | None:
    below = [
        home / "bin" / "bisheng",
        home / "compiler" / "ccec_compiler" / "bin" / "bisheng",
        *home.glob("*-linux/ccec_compiler/bin/bisheng"),
    ]
    in_path = shutil.which("bisheng", path=path)
    return next((place for place in below if os.access(place, os.X_OK)), Path(in_path) if in_path else None)


@functools.cache
def _says(compiler: str, changed: int) -> str:
    """The output of `--version`, for every state of the file."""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout.strip()
