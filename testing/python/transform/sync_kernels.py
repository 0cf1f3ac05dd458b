"""Small kernels in the combined form of Ascend IR (both cores, no flags, no addresses), shared by the back-end
tests."""

from __future__ import annotations

from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    PrimFunc,
    SourceName,
    Span,
    While,
    call,
    decl_buffer,
    if_then,
    imm,
    intrin,
    loop,
    op_name,
    seq,
    stmts_of,
    tirx,
)


def extent(trips):
    """(extent expression, parameter or None) of a loop that runs an int or, for a name, an unknown number of times."""
    if isinstance(trips, str):
        trips = var(trips)
        return trips, trips
    return trips, None


def gm(name, elements, dtype="float16"):
    return decl_buffer([elements], dtype, name=name)


def local(name, scope, elements, versions=1, dtype="float16"):
    return decl_buffer([versions, elements], dtype, name=name, scope=scope)


def ub(name, elements, versions=1, dtype="float32"):
    return local(name, "shared.ub", elements, versions, dtype)


def at(buffer, version=0, offset=0):
    if len(buffer.ty.shape) == 1:
        return BufferLoad(buffer, [version])
    return BufferLoad(buffer, [version, offset])


def var(name="k"):
    return tirx.Var(name, "int32")


def load_ub(dst, src, count):
    """UB <- GM, `count` float32 elements."""
    return intrin("copy_gm_to_ub", dst, src, 1, count * 4, 0, 0, 0, 0, 0, imm(0.0, "float32"))


def store_ub(dst, src, count):
    return intrin("copy_ub_to_gm", dst, src, 1, count * 4, 0, 0)


def load_l1(dst, src, rows, cols):
    return intrin("copy_gm_to_l1_nd2nz", dst, src, 1, rows, cols, 0, cols, rows, 1, 1)


def load_l0(side, dst, src, fractals):
    return intrin("load_l0" + side, dst, src, 0, fractals, 1, 0, 0)


def mmad(d, a, b, m, n, k, init):
    return intrin("mmad", d, a, b, m, n, k, 0, 0, init)


def fixpipe(dst, src, m, n):
    return intrin("fixpipe_to_gm", dst, src, n, m, m, n, 0, quant="none")


def kernel(params, buffers, *body, **attrs):
    """The function; strings among `params` were replaced by `extent` and come first."""
    func = PrimFunc([p for p in params if p is not None], seq([AllocBuffer(b) for b in buffers], *body))
    func = func.with_attr("global_symbol", "kernel")
    for key, value in attrs.items():
        func = func.with_attr(key.replace("__", "."), value)
    return func


def vector_add(trips=8, versions=2):
    """Double-buffered z = x + y over tiles of 1024 float32."""
    x, y, z = (gm(n, 65536, "float32") for n in "xyz")
    a, b, c = (ub(n, 1024, versions) for n in "abc")
    k = var()
    v = tirx.floormod(k, versions) if versions > 1 else imm(0)
    body = seq(
        load_ub(at(a, v), at(x, k * 1024), 1024),
        load_ub(at(b, v), at(y, k * 1024), 1024),
        intrin("add", at(c, v), at(a, v), at(b, v), 1024),
        store_ub(at(z, k * 1024), at(c, v), 1024),
    )
    trips, n = extent(trips)
    return kernel([n, x, y, z], [a, b, c], loop(k, trips, body))


def in_place_chain(trips=8):
    """One buffer, three dependent vector instructions, stored from where it was loaded."""
    x, z = gm("x", 65536, "float32"), gm("z", 65536, "float32")
    a, t = ub("a", 1024, 2), ub("t", 1024)
    k = var()
    v = tirx.floormod(k, 2)
    body = seq(
        load_ub(at(a, v), at(x, k * 1024), 1024),
        intrin("exp", at(t), at(a, v), 1024),
        intrin("adds", at(t), at(t), imm(1.0, "float32"), 1024),
        intrin("div", at(a, v), at(a, v), at(t), 1024),
        store_ub(at(z, k * 1024), at(a, v), 1024),
    )
    return kernel([x, z], [a, t], loop(k, trips, body))


def gemm(tiles=None, k_trips=8, stages=2, l0=2, l0_versions=2, m=128, n=128, kk=64):
    """C tiles of m x n; k loop with `stages` L1 versions, inner loop over `l0` pieces with `l0_versions` L0
    versions."""
    k_trips, n_k = extent(k_trips)
    A, B, C = gm("A", 1 << 20), gm("B", 1 << 20), gm("C", 1 << 20, "float32")
    a1, b1 = local("a_l1", "shared.l1", m * kk, stages), local("b_l1", "shared.l1", kk * n, stages)
    piece = kk // l0
    a0, b0 = local("a_l0", "local.l0a", m * piece, l0_versions), local("b_l0", "local.l0b", piece * n, l0_versions)
    c0 = local("c_l0", "local.l0c", m * n, 1, "float32")
    t, k, j = var("t"), var("k"), var("j")
    v1 = tirx.floormod(k, stages) if stages > 1 else imm(0)
    v0 = tirx.floormod(k * l0 + j, l0_versions) if l0_versions > 1 else imm(0)
    inner = seq(
        load_l0("a", at(a0, v0), at(a1, v1, j * m * piece), m * piece // 256),
        load_l0("b", at(b0, v0), at(b1, v1, j * n * piece), n * piece // 256),
        mmad(at(c0), at(a0, v0), at(b0, v0), m, n, piece, tirx.Select(k * l0 + j == 0, imm(1), imm(0))),
    )
    body = seq(
        load_l1(at(a1, v1), at(A, t * 4096 + k * kk), m, kk),
        load_l1(at(b1, v1), at(B, k * kk * n), kk, n),
        loop(j, l0, inner),
    )
    n_t = None
    tile = seq(loop(k, k_trips, body), fixpipe(at(C, t * m * n), at(c0), m, n))
    if tiles is None:
        tile = seq(Bind(t, imm(0)), tile)
    else:
        tiles, n_t = extent(tiles)
        tile = loop(t, tiles, tile, tl__persistent=1)
    return kernel([n_t, n_k, A, B, C], [a1, b1, a0, b0, c0], tile)


def products(trips=6, first=4, second=2, most=None, places=2):
    """Two products in each step, of `first` and `second` pieces, that share `places` of L0; no second one from step `most` on."""
    trips, n = extent(trips)
    A, B, C, D = gm("A", 1 << 20), gm("B", 1 << 20), gm("C", 1 << 20, "float32"), gm("D", 1 << 20, "float32")
    a1, b1 = local("a_l1", "shared.l1", 8192), local("b_l1", "shared.l1", 8192)
    a0, b0 = local("a_l0", "local.l0a", 2048, places), local("b_l0", "local.l0b", 2048, places)
    c0, d0 = (local(name, "local.l0c", 16384, 1, "float32") for name in ("c_l0", "d_l0"))
    k = var("k")

    def product(to, out, before, pieces):
        j = var("j")
        place = tirx.floormod(k * (first + second) + before + j, places)
        inner = seq(
            load_l0("a", at(a0, place), at(a1, 0, j * 2048), 8),
            load_l0("b", at(b0, place), at(b1, 0, j * 2048), 8),
            mmad(at(to), at(a0, place), at(b0, place), 128, 128, 16, tirx.Select(j == 0, imm(1), imm(0))),
        )
        return seq(loop(j, pieces, inner), fixpipe(at(out, k * 16384), at(to), 128, 128))

    behind = product(d0, D, first, second)
    body = seq(
        load_l1(at(a1), at(A, k * 8192), 128, 64),
        load_l1(at(b1), at(B, k * 8192), 64, 128),
        product(c0, C, 0, first),
        behind if most is None else if_then(k < most, behind),
    )
    return kernel([n, A, B, C, D], [a1, b1, a0, b0, c0, d0], loop(k, trips, body))


def mix(trips=8, versions=2):
    """Cube product to a workspace, vector exp of it to D (each vector core half)."""
    A, B, D = gm("A", 1 << 20), gm("B", 1 << 20), gm("D", 1 << 20, "float32")
    w = gm("workspace", 24 * versions * 16384, "float32")
    a1, b1 = local("a_l1", "shared.l1", 8192), local("b_l1", "shared.l1", 8192)
    a0, b0 = local("a_l0", "local.l0a", 8192), local("b_l0", "local.l0b", 8192)
    c0 = local("c_l0", "local.l0c", 16384, 1, "float32")
    u, e = ub("u", 8192), ub("e", 8192)
    k, block, sub = var(), var("block"), var("sub")
    trips, n = extent(trips)
    v = tirx.floormod(k, versions) if versions > 1 else imm(0)
    base = block * (versions * 16384) + v * 16384
    body = seq(
        load_l1(at(a1), at(A, k * 8192), 128, 64),
        load_l1(at(b1), at(B, k * 8192), 64, 128),
        load_l0("a", at(a0), at(a1), 32),
        load_l0("b", at(b0), at(b1), 32),
        mmad(at(c0), at(a0), at(b0), 128, 128, 64, 1),
        fixpipe(at(w, base), at(c0), 128, 128),
        load_ub(at(u), at(w, base + sub * 8192), 8192),
        intrin("exp", at(e), at(u), 8192),
        store_ub(at(D, k * 16384 + sub * 8192), at(e), 8192),
    )
    head = [
        Bind(block, call("ascend.get_block_idx", [], dtype="int32")),
        Bind(sub, call("ascend.get_sub_block_idx", [], dtype="int32")),
    ]
    return kernel([n, A, B, D, w], [a1, b1, a0, b0, c0, u, e], *head, loop(k, trips, body), ascend__num_workspaces=1)


def branch_tail(n="n"):
    """Full tiles in a loop, the tail under a condition; both use the same buffers."""
    n = var(n)
    x, z = gm("x", 65536, "float32"), gm("z", 65536, "float32")
    a, c = ub("a", 1024, 2), ub("c", 1024, 2)
    k = var()
    v = tirx.floormod(k, 2)
    full = seq(
        load_ub(at(a, v), at(x, k * 1024), 1024),
        intrin("exp", at(c, v), at(a, v), 1024),
        store_ub(at(z, k * 1024), at(c, v), 1024),
    )
    rest = tirx.floormod(n, 1024)
    start = n - rest
    tail = seq(
        load_ub(at(a), at(x, start), rest),
        intrin("exp", at(c), at(a), rest),
        store_ub(at(z, start), at(c), rest),
    )
    return kernel([n, x, z], [a, c], loop(k, tirx.floordiv(n, 1024), full), if_then(rest > 0, tail))


def branch_in_loop(trips=8):
    """Two arms of a branch in a loop write the buffer that is stored after it."""
    x, z = gm("x", 65536, "float32"), gm("z", 65536, "float32")
    a, c = ub("a", 1024, 2), ub("c", 1024, 2)
    trips, n = extent(trips)
    k = var()
    v = tirx.floormod(k, 2)
    body = seq(
        load_ub(at(a, v), at(x, k * 1024), 1024),
        if_then(
            k < 3,
            intrin("exp", at(c, v), at(a, v), 1024),
            seq(
                intrin("abs", at(c, v), at(a, v), 1024),
                intrin("sqrt", at(c, v), at(c, v), 1024),
            ),
        ),
        store_ub(at(z, k * 1024), at(c, v), 1024),
    )
    return kernel([n, x, z], [a, c], loop(k, trips, body))


def scalar_reads(trips=4):
    """A scalar read from UB scales a tile; another one is written into UB before it is stored."""
    x, z = gm("x", 65536, "float32"), gm("z", 65536, "float32")
    a, c = ub("a", 1024), ub("c", 1024)
    k, s = var(), tirx.Var("s", "float32")
    body = seq(
        load_ub(at(a), at(x, k * 1024), 1024),
        Bind(s, call("ascend.get_value", [at(a)], dtype="float32")),
        intrin("muls", at(c), at(a), s, 1024),
        intrin("set_value", at(c, 0, 5), s),
        store_ub(at(z, k * 1024), at(c), 1024),
    )
    return kernel([x, z], [a, c], loop(k, trips, body))


def in_place_gm(trips=4):
    """Every tile of x is read, changed and written back; the next pass reads it again."""
    x = gm("x", 65536, "float32")
    a = ub("a", 1024)
    p, k = var("p"), var()
    body = seq(
        load_ub(at(a), at(x, k * 1024), 1024),
        intrin("exp", at(a), at(a), 1024),
        store_ub(at(x, k * 1024), at(a), 1024),
    )
    return kernel([x], [a], loop(p, 3, loop(k, trips, body)))


def with_break(trips=8):
    """A loop that is left when the first element of the tile is large."""
    x, z = gm("x", 65536, "float32"), gm("z", 65536, "float32")
    a, c = ub("a", 1024, 2), ub("c", 1024, 2)
    k, s = var(), tirx.Var("s", "float32")
    v = tirx.floormod(k, 2)
    body = seq(
        load_ub(at(a, v), at(x, k * 1024), 1024),
        Bind(s, call("ascend.get_value", [at(a, v)], dtype="float32")),
        if_then(s > imm(3.0, "float32"), Break()),
        intrin("exp", at(c, v), at(a, v), 1024),
        store_ub(at(z, k * 1024), at(c, v), 1024),
    )
    return kernel([x, z], [a, c], loop(k, trips, body), load_ub(at(a), at(x), 1024), store_ub(at(z), at(a), 1024))


def many_inputs(count, versions=1, trips=4):
    """`count` tiles are loaded, then added up one after the other: many flags between two pipes at a time."""
    x, z = gm("x", 1 << 20, "float32"), gm("z", 1 << 20, "float32")
    tiles, total = [ub(f"i{j}", 512, versions) for j in range(count)], ub("total", 512)
    k = var()
    v = tirx.floormod(k, versions) if versions > 1 else imm(0)
    body = seq(
        [load_ub(at(t, v), at(x, k * 512 + j * 65536), 512) for j, t in enumerate(tiles)],
        [intrin("add", at(total), at(t, v), at(total), 512) for t in tiles],
        store_ub(at(z, k * 512), at(total), 512),
    )
    return kernel([x, z], [*tiles, total], loop(k, trips, body))


def phases(count, trips=2):
    """Independent load - compute - store phases one after the other, each in a loop of its own."""
    x, z = gm("x", 1 << 20, "float32"), gm("z", 1 << 20, "float32")
    buffers, parts = [], []
    for p in range(count):
        a, k = ub(f"a{p}", 512), var(f"k{p}")
        buffers.append(a)
        parts.append(loop(k, trips, seq(
            load_ub(at(a), at(x, p * 8192 + k * 512), 512),
            intrin("exp", at(a), at(a), 512),
            store_ub(at(z, p * 8192 + k * 512), at(a), 512),
        )))  # fmt: skip
    return kernel([x, z], buffers, *parts)


def sweeps(count, versions, trips=8, tiles=None):
    """Loops one after the other that load tiles and store others, with `versions` of both, in a loop over `tiles` if given."""
    trips, n = extent(trips)
    tiles, n_tiles = extent(tiles)
    x, z = gm("x", 1 << 20, "float32"), gm("z", 1 << 20, "float32")
    a, b, parts = ub("a", 512, versions), ub("b", 512, versions), []
    for p in range(count):
        k = var(f"k{p}")
        v = tirx.floormod(k, versions)
        parts.append(loop(k, trips, seq(
            load_ub(at(a, v), at(x, p * 8192 + k * 512), 512),
            intrin("exp", at(b, v), at(a, v), 512),
            store_ub(at(z, p * 8192 + k * 512), at(b, v), 512),
        )))  # fmt: skip
    body = seq(parts) if tiles is None else loop(var("t"), tiles, seq(parts))
    return kernel([n, n_tiles, x, z], [a, b], body)


def interleaved_columns(trips=4, step=32):
    """Column tiles of 32 elements, `step` apart, are stored to a row-major matrix; fractals of neighbouring columns go
    to L0B."""
    x, z = gm("x", 1 << 20), gm("z", 1 << 20, "float32")
    a1, b0 = local("a_l1", "shared.l1", 8192), local("b_l0", "local.l0b", 8192)
    a, k, i, sub = ub("a", 512), var("k"), var("i"), var("sub")
    return kernel(
        [x, z], [a1, b0, a],
        Bind(sub, call("ascend.get_sub_block_idx", [], dtype="int32")),
        load_l1(at(a1), at(x), 128, 64),
        loop(i, 4, intrin("load_l0b", at(b0, 0, i * 256), at(a1, 0, i * 2048), 0, 8, 1, 3, 1)),
        intrin("duplicate", at(a), imm(0.0, "float32"), 512),
        loop(k, trips, intrin("copy_ub_to_gm", at(z, sub * 65536 + k * step), at(a), 16, 128, 0, trips * 128 - 128)),
    )  # fmt: skip


def while_loop():
    """A loop that runs until a value in memory says so."""
    x, z, stop = gm("x", 65536, "float32"), gm("z", 65536, "float32"), gm("stop", 16, "int32")
    a = ub("a", 1024)
    go = decl_buffer([1], "int32", name="go", scope="local.var")
    s = var("s")
    body = seq(
        load_ub(at(a), at(x), 1024),
        intrin("exp", at(a), at(a), 1024),
        store_ub(at(z), at(a), 1024),
        Bind(s, call("ascend.get_value", [at(stop, 0)], dtype="int32")),
        BufferStore(go, s, [0]),
    )
    return kernel([x, z, stop], [a, go], BufferStore(go, imm(1), [0]), While(BufferLoad(go, [0]) > 0, body))


def mix_with_break():
    """The vector core may leave the loop between the product and its use."""
    func = mix(4)
    stmts = stmts_of(func.body)
    body = stmts_of(stmts[-1].body)
    middle = next(i for i, s in enumerate(body) if op_name(s) == "ascend.copy_gm_to_ub")
    span = Span(SourceName("kernel.py"), 12, 12, 9, 14)
    k = stmts[-1].loop_var
    left = [*body[:middle], if_then(k > 2, Break(), span=span), *body[middle:]]
    return func.with_body(seq(stmts[:-1], loop(k, 4, seq(left))))


def flash(trips=8):
    """Skewed cube -> vector -> cube chain: S(k) and O(k-1) on the cube core, P(k) on the vector core, workspaces of 2
    versions."""
    Q, K, O = gm("Q", 1 << 20), gm("K", 1 << 20), gm("O", 1 << 20, "float32")
    ws, wp = gm("ws", 24 * 2 * 16384, "float32"), gm("wp", 24 * 2 * 16384)
    q1, p1 = local("q_l1", "shared.l1", 8192), local("p_l1", "shared.l1", 16384)
    a0, b0 = local("a_l0", "local.l0a", 16384), local("b_l0", "local.l0b", 16384)
    s0, o0 = (local(n, "local.l0c", 16384, 1, "float32") for n in ("s_l0", "o_l0"))
    u, h = ub("u", 8192), local("h", "shared.ub", 8192)
    k, block, sub = var(), var("block"), var("sub")
    trips, n = extent(trips)
    s_at = block * 32768 + tirx.floormod(k, 2) * 16384
    p_now = block * 32768 + tirx.floormod(k, 2) * 16384
    p_old = block * 32768 + tirx.floormod(k - 1, 2) * 16384
    scores = seq(
        load_l1(at(q1), at(Q, k * 8192), 128, 64),
        load_l0("a", at(a0), at(q1), 32),
        load_l0("b", at(b0), at(q1), 32),
        mmad(at(s0), at(a0), at(b0), 128, 128, 64, 1),
        fixpipe(at(ws, s_at), at(s0), 128, 128),
    )
    softmax = seq(
        load_ub(at(u), at(ws, s_at + sub * 8192), 8192),
        intrin("exp", at(u), at(u), 8192),
        intrin("cast", at(h), at(u), 8192, round="rint"),
        intrin("copy_ub_to_gm", at(wp, p_now + sub * 8192), at(h), 1, 16384, 0, 0),
    )
    output = seq(
        load_l1(at(p1), at(wp, p_old), 128, 128),
        load_l0("a", at(a0), at(p1), 64),
        load_l0("b", at(b0), at(p1), 64),
        mmad(at(o0), at(a0), at(b0), 128, 128, 128, tirx.Select(k == 1, imm(1), imm(0))),
    )
    body = seq(if_then(k < trips, seq(scores, softmax)), if_then(k >= 1, output))
    head = [
        Bind(block, call("ascend.get_block_idx", [], dtype="int32")),
        Bind(sub, call("ascend.get_sub_block_idx", [], dtype="int32")),
    ]
    return kernel(
        [n, Q, K, O, ws, wp], [q1, p1, a0, b0, s0, o0, u, h], *head, loop(k, trips + 1, body),
        fixpipe(at(O, 0), at(o0), 128, 128), ascend__num_workspaces=2,
    )  # fmt: skip
