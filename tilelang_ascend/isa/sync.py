"""Flags, barriers, cross-core synchronisation and atomic mode. Issued by the scalar pipe, no memory operands."""

from __future__ import annotations

from .base import NO_OPERANDS, Arg, Intrinsic, Pipe
from .text import CTYPES

AIC_EVENTS = (
    "MTE2_MTE1", "MTE1_MTE2", "MTE1_M", "M_MTE1", "MTE3_MTE1", "MTE1_MTE3", "MTE2_M", "M_MTE2", "M_FIX", "FIX_M",
    "MTE3_MTE2",
    "MTE2_MTE3", "S_MTE2", "MTE2_S", "S_MTE3", "MTE3_S", "MTE2_FIX", "FIX_MTE2", "FIX_S", "M_S", "FIX_MTE3", "MTE1_FIX",
    "FIX_MTE1", "FIX_FIX",
)  # fmt: skip
"""HardEvents a cube core may use (doc: hardware section 3, HardEventAic)."""
AIV_EVENTS = (
    "MTE2_V", "V_MTE2", "MTE3_V", "V_MTE3", "V_V", "MTE3_MTE2", "MTE2_MTE3", "S_V", "V_S", "S_MTE2", "MTE2_S",
    "S_MTE3", "MTE3_S",
)  # fmt: skip
"""HardEvents a vector core may use (doc: hardware section 3, HardEventAiv)."""
EVENTS = tuple(dict.fromkeys(AIC_EVENTS + AIV_EVENTS))
CORE_EVENTS = {"aic": AIC_EVENTS, "aiv": AIV_EVENTS}

BARRIER_PIPES = ("V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL")
CROSS_PIPES = ("V", "M", "MTE1", "MTE2", "MTE3", "FIX")
CORE_PIPES = {"aic": ("S", "M", "MTE1", "MTE2", "MTE3", "FIX"), "aiv": ("S", "V", "MTE2", "MTE3")}
"""Pipes of each core kind."""
ATOMIC_OPS = ("add", "max", "min", "none")
ATOMIC_DTYPES = ("float32", "float16", "int16", "int32", "int8", "bfloat16")


def split_event(event: str) -> tuple[str, str]:
    """Source and destination pipe of a HardEvent name: ``MTE2_V`` -> (``MTE2``, ``V``)."""
    source, _, destination = event.partition("_")
    return source, destination


def _control(name: str, api: str, text, doc: str, cost_class: str = "sync", **fields) -> Intrinsic:
    return Intrinsic(
        name=name, pipe=Pipe.S, api=api, operands=(), args=fields.pop("args", ()), text=text, doc=doc,
        cost_class=cost_class,
        signatures=dict(NO_OPERANDS), reference=f"{api} (hardware section 3)", **fields,
    )  # fmt: skip


def _atomic_text(call) -> str:
    if call["op"] == "none":
        return "AscendC::SetAtomicNone()"
    return f"AscendC::SetAtomic{call['op'].capitalize()}<{CTYPES[call['dtype']]}>()"


EVENT_ID = (Arg("event_id", "int", 0, 7, "int32_t"),)
FLAG_ID = (Arg("flag_id", "int", 0, 15, "uint16_t"),)

RECORDS = (
    _control(
        "set_flag", "SetFlag", "AscendC::SetFlag<AscendC::HardEvent::{event}>({event_id})",
        "Raise flag `event_id` of a pipe pair once all earlier instructions of the source pipe have finished. The flag "
        "must be down.",
        args=EVENT_ID, attrs={"event": EVENTS},
    ),
    _control(
        "wait_flag", "WaitFlag", "AscendC::WaitFlag<AscendC::HardEvent::{event}>({event_id})",
        "Hold the destination pipe until flag `event_id` is up, then take it down.",
        args=EVENT_ID, attrs={"event": EVENTS},
    ),
    _control(
        "pipe_barrier", "PipeBarrier", "AscendC::PipeBarrier<PIPE_{pipe}>()",
        "Later instructions of `pipe` start after all earlier ones have finished; ALL waits for every pipe of the "
        "core.",
        attrs={"pipe": BARRIER_PIPES},
    ),
    _control(
        "cross_core_set_flag", "CrossCoreSetFlag", "AscendC::CrossCoreSetFlag<{mode}, PIPE_{pipe}>({flag_id})",
        "After all earlier instructions of `pipe`, add one to counter `flag_id` of the cores that `mode` names: 0 all "
        "cores of this kind, 1 the two vector cores of a block, 2 the other side of the block (cube core <-> its "
        "vector cores).",
        cost_class="cross_core", args=FLAG_ID, attrs={"mode": ("0", "1", "2"), "pipe": CROSS_PIPES},
    ),
    _control(
        "cross_core_wait_flag", "CrossCoreWaitFlag", "AscendC::CrossCoreWaitFlag({flag_id})",
        "Hold the core until counter `flag_id` is above zero (every partner has set it), then take one off.",
        cost_class="cross_core", args=FLAG_ID,
    ),
    _control(
        "set_atomic", "SetAtomicAdd", _atomic_text,
        "Following writes to GM (UB -> GM, L0C -> GM) combine with memory by `op` on elements of `dtype`; `none` ends "
        "it.",
        cost_class="scalar", attrs={"op": ATOMIC_OPS, "dtype": ATOMIC_DTYPES},
    ),
)  # fmt: skip
