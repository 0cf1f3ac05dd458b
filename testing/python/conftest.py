"""Modules next to this file (samples, helpers) are importable from every test."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Jobs that a shell starts in the background ignore interrupts and hand that down; tests of interrupts need the usual state.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
