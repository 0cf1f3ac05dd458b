"""The tuner's job function in a worker that obeys faults planted in payloads."""

import os
import signal
import time

from tilelang_ascend.autotune import jobs


def work(payload, files):
    """Crash or hang when the payload says so, else do the job."""
    payload = dict(payload)
    fault = payload.pop("fault")
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "hang":
        time.sleep(600)
    return jobs.work(payload, files)
