"""What travels, addresses, results in files: without any server."""

import dataclasses
import errno
import json
import os
import socket
import threading

import pytest
import rpc_programs
from click.testing import CliRunner
from farm import QUICK, free_port

from tilelang_ascend import rpc
from tilelang_ascend.errors import SimulationError
from tilelang_ascend.rpc import failures, protocol, settings, tracker
from tilelang_ascend.rpc.plan import parse_device
from tilelang_ascend.runtime.artifact import Artifact
from tilelang_ascend.runtime.params import Parameter, Signature
from tilelang_ascend.tools import cli

# -- messages ------------------------------------------------------------------------------------------------------------------


def test_messages_come_back():
    header, blobs = protocol.unpack(protocol.pack({"do": "x", "a": [1, None]}, [b"12", b"", b"345"]))
    assert header == {"do": "x", "a": [1, None]} and [bytes(b) for b in blobs] == [b"12", b"", b"345"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda m: m[:-1],
        lambda m: m + b"x",
        lambda m: b"PICK" + m[4:],
        lambda m: m.replace(b"[3]", b"[4]"),
        lambda m: m.replace(b"[3]", b'"3"'),
        lambda m: m.replace(b"[3]", b"[-"),
        lambda m: b"TLAR\x02\0\0\0[]",
        lambda m: b"TLAR\x40\x0d\x03\0" + b"[" * 200_000,
    ],
)
def test_damaged_messages_are_errors(damage):
    with pytest.raises(failures.ProtocolError, match="bytes that are no message"):
        protocol.unpack(damage(protocol.pack({"do": "x"}, [b"abc"])))


def test_large_messages_are_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_BYTES", 100)
    with pytest.raises(failures.ServerRefused, match="more than the limit") as caught:
        protocol.pack({}, [b"x" * 100])
    assert "seed=0" in caught.value.hint


def test_a_program_is_text_and_metadata():
    artifact = rpc_programs.add().artifact
    files = protocol.program_files(artifact)
    back = protocol.load_program(files)
    assert back == dataclasses.replace(artifact, memory_map="", tile_ir_json="", ascend_ir_json="")
    assert protocol.digest(files) != protocol.digest({**files, "kernel.cpp": "x"})


@pytest.mark.parametrize(
    "dim, fine",
    [
        ("n * 2 + min(n, 7) // 3", True),
        ("n if n < 5 else -n", True),
        ("m", False),
        ("().__class__", False),
        ("__import__('os').system('true')", False),
        ("min.__self__", False),
        ("min(*n)", False),
        ("n ** n", False),
        ("'a' * n", False),
        ("[n for n in (n,)]", False),
        ("(lambda: n)()", False),
        ("n:", False),
        (2.5, False),
    ],
)
def test_extents_from_the_wire_are_arithmetic(dim, fine):
    signature = Signature((Parameter("A", "float32", (dim, 4)),), (("n", "int32"),))
    files = protocol.program_files(dataclasses.replace(rpc_programs.add().artifact, signature=signature))
    if fine:
        assert protocol.load_program(files).signature == signature
        return
    with pytest.raises(failures.ProtocolError, match="the extent"):
        protocol.load_program(files)


@pytest.mark.parametrize("text", ["", "[]", '{"steps": []}', "{"])
def test_programs_that_are_none(text):
    files = {**protocol.program_files(rpc_programs.add().artifact), "artifact.json": text}
    with pytest.raises(failures.ProtocolError, match="not of an artifact"):
        protocol.load_program(files)


def test_errors_come_back_as_what_they_were():
    local = SimulationError("stuck", at=None, notes=["a note"], hint="a hint")
    there = failures.from_json(json.loads(json.dumps(failures.to_json(local))), "b:1")
    assert type(there) is SimulationError and there.message == "stuck" and ("on the server b:1", None) in there.notes
    for kind in ("SystemExit", "TilelangAscendError", "__builtins__", None):
        assert type(failures.from_json({"kind": kind, "message": "x"}, "b:1")) is rpc.RpcError
    assert isinstance(failures.from_json(failures.to_json(ZeroDivisionError("z")), "b:1"), rpc.RpcError)


# -- addresses, keys, devices ----------------------------------------------------------------------------------------------------


def test_addresses():
    assert settings.parse_address("board:91") == settings.Address("board", 91)
    assert settings.parse_address("board") == settings.Address("board", 9190)
    assert str(settings.parse_address("[::1]:91")) == "[::1]:91"
    for text in ("", ":1", "a:b", "a:0", "a:70000", "[]:1"):
        with pytest.raises(failures.AddressError, match="is not HOST:PORT"):
            settings.parse_address(text)


def test_keys_and_devices():
    assert settings.check_key("a2.lab-1_x") == "a2.lab-1_x"
    for key in ("", "a b", "a:b", "ä", "-a", "x" * 65):
        with pytest.raises(failures.AddressError, match="is no key"):
            settings.check_key(key)
    assert [parse_device(d) for d in ("sim", "npu", "npu:3")] == ["sim", "npu:0", "npu:3"]
    with pytest.raises(ValueError, match="unknown device 'gpu:0'"):
        parse_device("gpu:0")


# -- commands --------------------------------------------------------------------------------------------------------------------


def command(*words):
    return CliRunner().invoke(cli.main, words)


@pytest.mark.parametrize("words", [("tracker", "--host", "0.0.0.0"), ("server", "--key", "a2", "--tracker", "x:1", "--host", "0.0.0.0")])
def test_nothing_listens_for_other_machines_unasked(words):
    result = command(*words)
    assert result.exit_code == 1 and "can be reached by other machines, and whoever reaches it can run code as you" in result.output
    help_text = " ".join(command(words[0], "--help").output.split())
    assert "--allow-remote" in help_text and "lets ANYONE who can reach the port run any code as you" in help_text


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("server", "--key", "a2"), "error: no tracker is named"),
        (("server", "--key", "a 2", "--tracker", "x:1"), "error: 'a 2' is no key"),
        (("server", "--key", "a2", "--tracker", "x:1", "--device", "gpu"), "error: unknown device 'gpu'"),
        (("server", "--key", "a2", "--tracker", "x:1", "--chip", "b9"), "error: unknown chip 'b9'"),
        (("server", "--key", "a2", "--tracker", "x:1", "--folder", "/proc/1"), "error: the folder /proc/1 cannot be used"),
        (("query", "--tracker", "x:y"), "error: 'x:y' is not HOST:PORT"),
    ],
)
def test_commands_refuse_in_one_sentence(words, sentence, monkeypatch):
    monkeypatch.delenv("TILELANG_ASCEND_TRACKER", raising=False)
    result = command(*words)
    assert result.exit_code == 1 and result.output.startswith(sentence) and "Traceback" not in result.output


def test_a_tracker_that_is_not_there():
    port = free_port()
    result = command("query", "--tracker", f"127.0.0.1:{port}")
    assert result.exit_code == 1 and f"there is no tracker at 127.0.0.1:{port}" in result.output


@pytest.mark.parametrize(
    "greeting, sentence", [(None, "does not answer"), (b"HTTP/1.1 400 Bad Request\r\n", "is no tracker"), (b"", "cannot be reached")]
)
def test_something_else_that_answers(greeting, sentence):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            peer, _ = listening.accept()
            with peer:
                peer.recv(4)
                peer.sendall(greeting) if greeting is not None else peer.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        address = settings.Address(*listening.getsockname())
        with pytest.raises(failures.NoTracker, match=sentence):
            tracker.query(address, dataclasses.replace(QUICK, tracker=0.5))


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        result = command("tracker", "--port", str(listening.getsockname()[1]))
    assert result.exit_code == 1 and "cannot listen on 127.0.0.1:" in result.output


def test_a_port_of_a_server_that_is_taken():
    from tilelang_ascend.rpc import door

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1, port {port}:"):
            door._bind("127.0.0.1", [port], settings.Address("127.0.0.1", 1), "a2", None)


# -- results in files --------------------------------------------------------------------------------------------------------------


def test_results_stay(tmp_path):
    path = tmp_path / "r.jsonl"
    with rpc.Results(path) as results:
        results.add("a", [1.5])
        results.add("b", {"x": None})
        results.add("a", [2.5])
    with rpc.Results(path) as one, rpc.Results(path) as other:
        assert {name: one[name] for name in one} == {"a": [2.5], "b": {"x": None}}
        one.add("c", 1)
        other.add("d", 2)
    with rpc.Results(path) as results:
        assert list(results) == ["a", "b", "c", "d"]


def test_a_torn_last_line_is_dropped_and_the_others_stay(tmp_path):
    path = tmp_path / "r.jsonl"
    with rpc.Results(path) as results:
        results.add("a", 1)
    with path.open("a") as file:
        file.write('{"name": "b", "val')
    with rpc.Results(path) as results:
        assert list(results) == ["a"]
        results.add("c", 3)
    with rpc.Results(path) as results:
        assert list(results) == ["a", "c"]


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            '{"format": "tilelang_ascend results", "version": 2}\n{"new": 1}\n',
            "has results of version 2, this is version 1; the file is left as it is",
        ),
        ("name,value\n", "is no file of results"),
        ('{"format": "tilelang_ascend results", "version": 1}\n{"name": \n{"name": "b", "value": 1}\n', "line 2: this is no result"),
    ],
)
def test_files_of_others_are_left_alone(tmp_path, text, sentence):
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(failures.ResultsError, match=sentence):
        rpc.Results(path)
    assert path.read_text() == text


def test_a_full_disk_loses_no_earlier_result(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    with rpc.Results(path) as results:
        results.add("a", 1)
        write = os.write

        def half(file, data):
            write(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(os, "write", half)
            results.add("b", 2)
        results.add("c", 3)
    with rpc.Results(path) as results:
        assert list(results) == ["a", "c"]


def test_artifacts_are_needed():
    with pytest.raises(TypeError, match="a kernel or an artifact is needed, not int"):
        from tilelang_ascend.rpc.client import _artifact

        _artifact(3)
    assert isinstance(rpc_programs.add().artifact, Artifact)
