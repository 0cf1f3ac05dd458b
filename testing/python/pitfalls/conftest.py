"""The strict runner and whole programs live with the kernels, rows of the catalogue with the catalogue."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))
sys.path.insert(0, str(Path(__file__).parent.parent / "catalogue"))
