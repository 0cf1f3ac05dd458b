"""CPU time before a user's first line: of `import tilelang_ascend`, and of `tilelang-ascend run`. Budget: 0.3 s above
`import tvm`."""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPEAT = 5
BUDGET = 0.3
REPORT = "import time; print(time.process_time())\n"


def cpu_seconds(*arguments: str) -> float:
    """Median CPU time of an interpreter, from its start to the line that prints it."""
    runs = [subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True) for _ in range(REPEAT)]
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def main():
    with tempfile.TemporaryDirectory() as folder:

        def under_run(code: str) -> float:
            script = Path(folder, "script.py")
            script.write_text(code + REPORT)
            return cpu_seconds("-m", "tilelang_ascend", "run", str(script))

        tvm = cpu_seconds("-c", f"import tvm\n{REPORT}")
        print(f"import tvm                                {tvm:6.3f} s")
        for what, seconds in (
            ("import tilelang_ascend", cpu_seconds("-c", f"import tilelang_ascend\n{REPORT}")),
            ("import tilelang_ascend.language", cpu_seconds("-c", f"import tilelang_ascend.language\n{REPORT}")),
            ("run, first line", under_run("")),
            ("run, import tvm", under_run("import tvm\n")),
            ("run, import tilelang, tilelang.language", under_run("import tilelang\nimport tilelang.language\n")),
        ):
            print(f"{what:40}  {seconds:6.3f} s  ({(seconds - tvm) / BUDGET:5.0%} of the budget)")


if __name__ == "__main__":
    main()
