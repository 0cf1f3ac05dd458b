"""What `torch.cuda` and `torch.npu` offer a script, on the host."""

from __future__ import annotations

import contextlib
import functools
import os
import time
import types
from dataclasses import dataclass
from typing import Any, Callable

import torch

from ...errors import UnsupportedConstruct
from ...log import get_logger

CAPABILITY = (8, 0)
"""The newest generation whose kernels use neither TMA nor warp-group instructions: scripts that choose a kernel by
capability choose one that has a meaning on an Ascend core."""


CUDA_VERSION = "12.4"
"""What `torch.version.cuda` says: scripts compare it with the release their kernels need."""


@dataclass(frozen=True)
class DeviceProperties:
    """What scripts read of a device.

    A multiprocessor is a core that runs one block at a time. The limits of threads and shared memory have no
    counterpart; they are those of `CAPABILITY` (doc: CUDA programming guide, technical specifications per compute
    capability).
    """

    name: str
    multi_processor_count: int
    total_memory: int
    L2_cache_size: int
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 166912
    shared_memory_per_multiprocessor: int = 167936
    gcnArchName: str = ""
    is_integrated: int = 0


class Event:
    """A point in the host's time."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        self._seconds: float | None = None

    def record(self, stream: Any = None) -> None:
        self._seconds = time.perf_counter()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds of wall clock between two recorded events."""
        if self._seconds is None or end_event._seconds is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        _say_wall_clock()
        return (end_event._seconds - self._seconds) * 1e3

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class Stream:
    """An order of work; the host has one."""

    cuda_stream = npu_stream = stream_id = 0

    def __init__(self, device: Any = None, priority: int = 0, **_options: Any):
        self.device = torch.device("cpu")
        self.priority = priority

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def wait_event(self, event: Event) -> None:
        pass

    def wait_stream(self, stream: "Stream") -> None:
        pass

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: Any) -> None:
        pass


@functools.cache
def _say_wall_clock() -> None:
    get_logger().info("events of torch measure this machine's wall clock; kernel.get_profiler().do_bench() gives simulated time")


def device_properties() -> DeviceProperties:
    """Properties of the default chip, with the memory of this machine."""
    from ...targets import resolve_chip

    chip = resolve_chip(None)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return DeviceProperties(chip.name, chip.num_aic, memory, chip.l2_bytes)


class _Context(contextlib.AbstractContextManager):
    """``with torch.cuda.device(1):`` and the like: there is one device and one stream."""

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def __exit__(self, *exc: Any) -> None:
        pass


def _constant(value: Any) -> Callable:
    """A function that answers `value` whatever it is asked. Each name gets its own: torch keys tables by such
    functions."""
    return lambda *args, **kwargs: value


_RUNTIME = types.SimpleNamespace(cudaProfilerStart=_constant(0), cudaProfilerStop=_constant(0))
"""What `torch.cuda.cudart()` offers a script that marks what a GPU profiler shall record."""

_CONTEXTS = ("device", "device_of", "stream", "StreamContext")
_WITHOUT_EFFECT = (
    "_lazy_init", "_record_memory_history", "start", "stop", "synchronize", "empty_cache", "set_device", "set_stream", "init", "ipc_collect", "reset_peak_memory_stats",
    "_sleep", "reset_max_memory_allocated", "reset_accumulated_memory_stats", "set_per_process_memory_fraction",
)  # fmt: skip
_ALWAYS_ZERO = (
    "current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "utilization",
)  # fmt: skip
_GRAPHS = ("graph", "CUDAGraph", "NPUGraph", "make_graphed_callables")


def device_module(family: str) -> dict[str, Any]:
    """Names of `torch.<family>` and what they are while the device is absent."""
    default = Stream()
    return {
        **{name: type(name, (_Context,), {}) for name in _CONTEXTS},
        **{name: _constant(None) for name in _WITHOUT_EFFECT},
        **{name: _constant(0) for name in _ALWAYS_ZERO},
        **{name: _refuse_graph(family) for name in _GRAPHS},
        **{name: _seeding() for name in ("manual_seed", "manual_seed_all")},
        "is_available": _constant(True),
        "device_count": _constant(1),
        "is_bf16_supported": _constant(True),
        "can_device_access_peer": _constant(False),
        "is_current_stream_capturing": _constant(False),
        "cudart": lambda: _RUNTIME,
        "Event": Event,
        "Stream": Stream,
        "current_stream": _constant(default),
        "default_stream": _constant(default),
        "ExternalStream": Stream,
        "get_stream_from_external": _constant(default),
        "get_device_name": lambda device=None: device_properties().name,
        "get_device_properties": lambda device=None: device_properties(),
        "get_device_capability": _constant(CAPABILITY),
        "get_arch_list": _constant(["sm_{}{}".format(*CAPABILITY)]),
        "mem_get_info": lambda device=None: (device_properties().total_memory,) * 2,
        "memory_summary": _constant(""),
        "memory_stats": lambda device=None: {},
        "initial_seed": lambda: torch.default_generator.initial_seed(),
        "seed": lambda: torch.default_generator.seed(),
        "seed_all": lambda: torch.default_generator.seed(),
        "get_rng_state": lambda device=None: torch.default_generator.get_state(),
        "set_rng_state": lambda state, device=None: torch.default_generator.set_state(state),
    }


def accelerator(absent: frozenset[str]) -> dict[str, Any]:
    """Names of `torch.accelerator` and what they are when no device torch knows is there."""
    if "cuda" not in absent or not hasattr(torch, "accelerator") or torch.accelerator.is_available():
        return {}
    shared = ("synchronize", "empty_cache", "current_stream", "set_stream", "memory_allocated", "max_memory_allocated")
    cuda = device_module("cuda")
    return {
        **{name: cuda[name] for name in shared},
        "is_available": _constant(True),
        "device_count": _constant(1),
        "current_accelerator": _constant(torch.device("cuda")),
        **{name: _constant(0) for name in ("current_device_index", "current_device_idx")},
        **{name: _constant(None) for name in ("set_device_index", "set_device_idx")},
    }


def _seeding() -> Callable:
    def manual_seed(seed: int) -> None:
        # Not torch.manual_seed, which calls this function.
        torch.default_generator.manual_seed(int(seed))

    return manual_seed


def _refuse_graph(family: str) -> Callable:
    def graph(*args: Any, **kwargs: Any):
        message = f"torch.{family}.graph records the work of a GPU's stream, and this machine has no GPU"
        raise UnsupportedConstruct(message, hint="call the function directly instead of replaying it")

    return graph
