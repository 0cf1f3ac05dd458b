"""Messages between client and server: JSON and raw bytes, in both directions through one function of TVM's RPC.

    b"TLAR" | bytes of the header: uint32 | header: JSON object | blobs, one after the other

The header's ``sizes`` are the bytes of the blobs. Nothing is pickled, and expressions of extents are checked before anybody evaluates them.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import struct
from typing import Any, Mapping, Sequence

from ..runtime.artifact import Artifact
from ..runtime.params import Signature
from .failures import ProtocolError, ServerRefused

VERSION = 1
"""Of the messages; client and server must have the same."""

FUNCTION = "tilelang_ascend.rpc.serve"
"""Name of the server's packed function, bytes to bytes."""

MAX_BYTES = 256 << 20
"""Of one message."""

_MAGIC = b"TLAR"
_PREFIX = struct.Struct("<4sI")
_TEXTS = ("kernel.cpp", "host.cpp", "artifact.json")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")


def pack(header: Mapping[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> bytes:
    """A message.

    Raises:
        ServerRefused: it has more than `MAX_BYTES`.
    """
    sizes = [len(b) for b in blobs]
    text = json.dumps({**header, "sizes": sizes}).encode()
    total = _PREFIX.size + len(text) + sum(sizes)
    if total > MAX_BYTES:
        raise ServerRefused(
            f"a message of {total / 1e6:.0f} MB is more than the limit of {MAX_BYTES / 1e6:.0f} MB",
            hint="let the server make the inputs: session.time(kernel, seed=0)",
        )
    return b"".join([_PREFIX.pack(_MAGIC, len(text)), text, *blobs])


def unpack(message: bytes | memoryview) -> tuple[dict[str, Any], list[memoryview]]:
    """Header and blobs of a message.

    Raises:
        ProtocolError: it is none.
    """
    whole = memoryview(message)
    try:
        magic, length = _PREFIX.unpack_from(whole)
        if magic != _MAGIC or len(whole) > MAX_BYTES or length > len(whole) - _PREFIX.size:
            raise ValueError
        start = _PREFIX.size + length
        header = json.loads(bytes(whole[_PREFIX.size : start]))
        sizes = header.pop("sizes")
        blobs = []
        for size in sizes:
            if type(size) is not int or size < 0:
                raise ValueError
            blobs.append(whole[start : start + size])
            start += size
        if start != len(whole):
            raise ValueError
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProtocolError(f"{len(whole)} bytes that are no message of tilelang_ascend") from None
    return header, blobs


def program_files(artifact: Artifact) -> dict[str, str]:
    """What a server needs of an artifact: the emitted text and the metadata, and no IR."""
    files = artifact.to_files()
    return {name: files[name] for name in _TEXTS}


def digest(files: Mapping[str, str]) -> str:
    """Names a program by its content."""
    return hashlib.sha256(json.dumps([files[name] for name in _TEXTS]).encode()).hexdigest()


def load_program(files: Any) -> Artifact:
    """Inverse of `program_files`, of text that anybody may have sent.

    Raises:
        ProtocolError: it is not of an artifact.
    """
    try:
        texts = {name: files[name] for name in _TEXTS}
        if not all(isinstance(text, str) for text in texts.values()):
            raise TypeError
        artifact = Artifact.from_files({**texts, "tile_ir.json": "", "ascend_ir.json": "", "memory_map.txt": ""})
        check_signature(artifact.signature)
        if not artifact.steps or not all(_IDENTIFIER.match(step.kernel) for step in artifact.steps):
            raise ValueError
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as reason:
        raise ProtocolError(f"the program is not of an artifact of this version ({type(reason).__name__}: {reason})") from None
    return artifact


_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub,
    ast.Call, ast.IfExp, ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.Not, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
    ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor,
)  # fmt: skip


def check_signature(signature: Signature) -> None:
    """Extents and strides are numbers, or arithmetic over shape variables: whoever evaluates one runs no code of the sender.

    Raises:
        ValueError: something else.
    """
    names = {name for name, _ in signature.symbols}
    for p in signature.parameters:
        for dim in (*(p.shape or ()), *(p.strides or ())):
            if not isinstance(dim, int) and not _is_arithmetic(dim, names):
                raise ValueError(f"the extent {dim!r} of {p.name}")


def _is_arithmetic(text: Any, names: set[str]) -> bool:
    if not isinstance(text, str) or len(text) > 1000:
        return False
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, MemoryError):
        return False
    for node in nodes:
        if not isinstance(node, _ARITHMETIC):
            return False
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in ("min", "max") and not node.keywords):
            return False
        if isinstance(node, ast.Constant) and type(node.value) not in (int, bool):
            return False
        if isinstance(node, ast.Name) and node.id not in names | {"min", "max"}:
            return False
    return True
