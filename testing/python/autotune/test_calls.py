"""Functions of the user in worker processes: closures travel, crashes and hangs are told, errors are the function's own."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import torch

from tilelang_ascend.autotune.calls import Caller, FunctionFailed
from tilelang_ascend.autotune.inputs import InputSet


@pytest.fixture(scope="module")
def caller():
    with Caller(20) as found:
        yield found


def inputs(*values):
    return InputSet("", lambda: list(values))


def test_closures_and_their_tensors_travel(caller):
    weights, here = torch.arange(4.0), os.getpid()

    def reference(a, n, b):
        assert isinstance(a, torch.Tensor) and isinstance(b, np.ndarray) and n == 3
        return a.float() * weights + n, os.getpid() != here

    a = torch.ones(4, dtype=torch.bfloat16)
    answer = caller.reference(reference, inputs(a, 3, np.zeros(2)))
    out, elsewhere = answer.returned
    assert elsewhere and torch.equal(out, weights + 3) and answer.milliseconds > 0


def test_what_a_reference_writes_comes_back(caller):
    given = torch.zeros(3)

    def into(a):
        a += 1

    answer = caller.reference(into, inputs(given))
    assert answer.returned is None and torch.equal(answer.arguments[0], torch.ones(3)) and not given.any()


def test_suppliers(caller):
    assert caller.supply(lambda parameters: [np.full(p, 7) for p in parameters], [2, 3])[1].tolist() == [7, 7, 7]


def test_errors_are_the_functions_own(caller):
    with pytest.raises(KeyError, match="'x'") as caught:
        caller.reference(lambda a: {}["x"], inputs(1))
    assert "Traceback" in str(caught.value.__cause__)


def test_what_it_prints_is_seen(caller, capsys):
    caller.reference(lambda a: print("here I am"), inputs(1))
    assert capsys.readouterr().out == "here I am\n"


def test_what_cannot_travel_is_called_here(caller):
    lock, seen = threading.Lock(), []

    def reference(a):
        with lock:
            seen.append(os.getpid())
        return a

    assert caller.reference(reference, inputs(5)).returned == 5 and seen == [os.getpid()]


def test_crashes_and_hangs():
    with Caller(3) as impatient:
        with pytest.raises(FunctionFailed, match="ref_prog crashed: killed by SIGSEGV"):
            impatient.reference(lambda a: os.kill(os.getpid(), signal.SIGSEGV), inputs(1))
        with pytest.raises(FunctionFailed, match="supply_prog did not return within 3 s"):
            impatient.supply(lambda p: time.sleep(600), ())
        assert impatient.supply(lambda p: [p], 1) == [1]
