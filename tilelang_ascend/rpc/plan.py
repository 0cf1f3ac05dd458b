"""What a server was told when it was started; it goes to its processes as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from ..errors import TargetError
from .settings import DEFAULT_SERVER_PORT, PORTS_TRIED

_NPU = re.compile(r"npu(?::(\d{1,3}))?\Z")


@dataclass(frozen=True)
class Plan:
    """One server.

    Attributes:
        tracker_host, tracker_port: where it registers.
        key: label under which clients ask for it.
        device: ``sim``, or ``npu:N``.
        host, port: where it listens; port 0: anywhere.
        any_port: the port is a wish, and another one will do.
        chip: SKU of the only chip it takes kernels for; None: any.
        folder: its private folder.
        call_limit: seconds after which a request is ended.
        idle_limit: seconds after which a session that asks nothing is ended.
        keep: builds that are kept.
    """

    tracker_host: str
    tracker_port: int
    key: str
    device: str
    host: str
    port: int
    any_port: bool
    folder: str
    chip: str | None = None
    call_limit: float = 600.0
    idle_limit: float = 300.0
    keep: int = 2000

    @property
    def ports(self) -> tuple[int, ...]:
        """Where it may listen, the best first."""
        others = range(DEFAULT_SERVER_PORT, DEFAULT_SERVER_PORT + PORTS_TRIED) if self.any_port else ()
        return (*((self.port,) if self.port else ()), *others)

    @property
    def simulated(self) -> bool:
        return self.device == "sim"

    @property
    def executor(self) -> str:
        """Name of the local executor that runs kernels."""
        return self.device.partition(":")[0]

    @property
    def clock(self) -> str:
        """What times are: ``simulated``, or those of events on the ``device``."""
        return "simulated" if self.simulated else "device"

    def to_text(self) -> str:
        """JSON; `from_text` reverses it."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> "Plan":
        """Inverse of `to_text`."""
        return Plan(**json.loads(text))


def parse_device(text: str) -> str:
    """``sim``, ``npu`` or ``npu:N``, with the number.

    Raises:
        TargetError: something else.
    """
    found = _NPU.match(text)
    if text == "sim":
        return text
    if not found:
        raise TargetError(f"unknown device {text!r}; there are sim and npu:0, npu:1, …")
    return f"npu:{int(found[1] or 0)}"
