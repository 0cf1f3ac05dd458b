"""Which names a statement carries, decided from the source alone."""

import ast
import textwrap

from tilelang_ascend.frontend.liveness import Liveness, assigned_names, definitely_assigned


def flows(text):
    body = ast.parse(textwrap.dedent(text)).body
    return {s.lineno: f for s, f in Liveness(body).flow.items()}


def test_dead_after_the_statement():
    flow = flows("""
        if c:
            x = 1
            y = 2
        use(y)
    """)[2]
    assert flow.assigned == ("x", "y") and flow.live_after == {"y"}


def test_read_before_write_in_the_next_iteration():
    flow = flows("""
        for i in r:
            a = b
            b = a + 1
    """)[2]
    assert flow.exposed == {"b"} and flow.live_after == set()


def test_liveness_passes_through_break_and_continue():
    flow = flows("""
        for i in r:
            if c:
                x = 1
                break
            if d:
                y = 1
                continue
            x = 0
            y = 0
        use(x)
    """)
    assert flow[3].live_after == {"x"} and flow[2].live_after == {"x"} and flow[2].exposed == {"x"}
    assert flow[6].live_after == set()


def test_nested_functions_keep_what_they_read_alive():
    flow = flows("""
        def f():
            return x
        if c:
            x = 1
            y = 1
    """)[4]
    assert flow.live_after == {"x"}


def test_nonlocal_names_count_as_assigned_everywhere():
    flow = flows("""
        def f():
            nonlocal n
            n += 1
        for i in r:
            f()
    """)[5]
    assert "n" in flow.assigned and "n" in flow.live_after


def test_definite_assignment():
    body = ast.parse("if c:\n  x = 1\n  y = 1\nelif d:\n  x = 2\nelse:\n  raise E").body
    assert definitely_assigned(body) == {"x"}


def test_assigned_names_of_every_binding_form():
    text = "import a.b, c as d\nwith e() as (f, g): h += 1\nfor i, *j in k: (l := 2)\ndef m(n): o = 1\nmatch p:\n  case [q, *r]: pass"
    assert set(assigned_names(*ast.parse(text).body)) == set("adfghijlmqr")
