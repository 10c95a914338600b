"""`from_jax`: values and gradients are JAX's, for operators, models and files."""

import copy
import os
import pathlib
import pickle
import re

import numpy as np
import pytest

import talweg as tw

# Most of the time is XLA's for optimizations that these tests do not need.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
jax = pytest.importorskip("jax", reason="JAX is the oracle of these tests")

import jax.export  # noqa: E402
import jax_differential  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax_programs import PROGRAMS, normal  # noqa: E402
from talweg._stablehlo.table import tensor  # noqa: E402


def ours(x):
    """An array of JAX as a tensor."""
    return tensor(np.asarray(x))


def same(got, want, tolerance, what):
    """Compares containers of tensors and of arrays."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for i, (x, y) in enumerate(zip(jax.tree.leaves(got), jax.tree.leaves(want))):
        y = np.asarray(y)
        assert (x.dtype.name, tuple(x.shape)) == (y.dtype.name, y.shape), f"{what}, result {i}"
        if y.dtype.kind not in "iub":
            wide = "complex128" if y.dtype.kind == "c" else "float64"
            x, y = np.asarray(x.to(tw.float64).tolist() if wide == "float64" else x.tolist()), y.astype(wide)
            np.testing.assert_allclose(x.reshape(y.shape), y, rtol=tolerance, atol=tolerance, err_msg=f"{what}, result {i}")
        else:
            np.testing.assert_array_equal(np.asarray(x.tolist()).reshape(y.shape), y, err_msg=f"{what}, result {i}")


def is_float(x):
    return jnp.issubdtype(x.dtype, jnp.floating)


def check(f, args, gradient=True, tolerance=2e-5, exported=False):
    """Values, compiled and not, and gradients of all results for all arrays of the arguments."""
    leaves, form = jax.tree.flatten(args)
    if any(x.dtype in (jnp.float16, jnp.bfloat16) for x in leaves):
        tolerance = 3e-2
    promised = jax.tree.leaves(jax.eval_shape(f, *args))
    results = [i for i, y in enumerate(promised) if is_float(y)]
    chosen = [i for i, x in enumerate(leaves) if is_float(x)] if gradient and results else []
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=promised[i].shape).astype("float32") for i in results]

    def loss(values, rest):
        whole = jax.tree.unflatten(form, [values.get(str(i), x) for i, x in enumerate(rest)])
        made = f(*whole)
        flat = jax.tree.leaves(made)
        return sum((flat[i].astype("float32") * w).sum() for i, w in zip(results, weights)), made

    if chosen:
        slopes, want = jax.jit(jax.grad(loss, has_aux=True))({str(i): leaves[i] for i in chosen}, leaves)
    else:
        slopes, want = {}, jax.jit(f)(*args)
    program = tw.from_jax(jax.export.export(jax.jit(f))(*args)) if exported else tw.from_jax(f, *args)
    same(program(*jax.tree.map(ours, args)), want, tolerance, "value")
    same(tw.jit(program)(*jax.tree.map(ours, args)), want, tolerance, "compiled value")
    if not chosen:
        return
    inputs = [ours(x).requires_grad_(i in chosen) for i, x in enumerate(leaves)]
    made = jax.tree.leaves(program(*jax.tree.unflatten(form, inputs)))
    total = sum((made[i].to(tw.float32) * tw.tensor(w)).sum() for i, w in zip(results, weights))
    if total.requires_grad:
        total.backward()
    for i in chosen:
        got = inputs[i].grad if inputs[i].grad is not None else tw.zeros_like(inputs[i])
        same([got], [slopes[str(i)]], 20 * tolerance, f"gradient of array {i}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_jaxs(name):
    f, args, gradient = PROGRAMS[name]
    check(f, args, gradient)


# Functions that an export expands, and forms that only an export has.
@pytest.mark.parametrize("name", "lax.erf lax.erfc lax.erf_inv lax.lgamma tan sinh nn.gelu scan top_k cholesky normal".split())
def test_exported_programs_are_the_same(name):
    f, args, gradient = PROGRAMS[name]
    check(f, args, gradient, exported=True)


# ---- models


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def layer(inputs, outputs):
    return {"kernel": normal(inputs, outputs) / np.sqrt(inputs), "bias": normal(outputs) * 0.1}


MLP = [layer(4, 8), layer(8, 3)]


def mlp(params, x):
    for p in params[:-1]:
        x = jax.nn.relu(dense(p, x))
    return dense(params[-1], x)


CNN = {
    "conv": normal(3, 3, 2, 4) * 0.3, "scale": normal(4) * 0.1 + 1, "offset": normal(4) * 0.1, "mean": normal(4) * 0.1,
    "var": jnp.abs(normal(4)) + 0.5, "depthwise": normal(3, 3, 1, 4) * 0.3, "head": layer(16, 3),
}  # fmt: skip


def cnn(p, x, training=True):
    """Convolutions, batch norm, max and average pooling, in JAX's layout."""
    x = lax.conv_general_dilated(x, p["conv"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    mean, var = (x.mean((0, 1, 2)), x.var((0, 1, 2))) if training else (p["mean"], p["var"])
    x = jax.nn.relu((x - mean) * lax.rsqrt(var + 1e-5) * p["scale"] + p["offset"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = lax.conv_general_dilated(
        x, p["depthwise"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4
    )
    x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    return dense(p["head"], x.reshape(x.shape[0], -1))


BLOCK = {"qkv": layer(8, 24), "out": layer(8, 8), "up": layer(8, 32), "down": layer(32, 8), "table": normal(11, 8), "norm": normal(2, 8) * 0.1 + 1}


def normed(x, scale):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale


def transformer(p, ids):
    """A block with causal attention of two heads, and logits by the embedding's table."""
    x = p["table"][ids]
    batch, length, width = x.shape
    q, k, v = jnp.split(dense(p["qkv"], normed(x, p["norm"][0])).reshape(batch, length, 6, 4), 3, 2)
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) / 2.0
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    y = jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores), v).reshape(batch, length, width)
    x = x + dense(p["out"], y)
    x = x + dense(p["down"], jax.nn.gelu(dense(p["up"], normed(x, p["norm"][1])), approximate=False))
    return x @ p["table"].T


LSTM = {"input": layer(3, 16), "state": layer(4, 16), "head": layer(4, 2)}


def lstm(p, xs):
    """Over [time, batch, features], by `lax.scan`."""

    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(dense(p["input"], x) + dense(p["state"], h), 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = jnp.zeros((xs.shape[1], 4), xs.dtype)
    (h, _), hs = lax.scan(step, (start, start), xs)
    return dense(p["head"], h), hs


def newton(x):
    """Square roots, until they are exact."""

    def body(state):
        y, _, n = state
        z = 0.5 * (y + x / y)
        return z, jnp.abs(z - y).max(), n + 1

    root, _, trips = lax.while_loop(lambda s: s[1] > 1e-6, body, (x, jnp.float32(1), jnp.int32(0)))
    return root, trips


def step(params, momentum, x, y):
    """One step of training, with its gradient, by the rule of Nesterov."""

    def loss(params):
        return -jnp.take_along_axis(jax.nn.log_softmax(mlp(params, x)), y[:, None], 1).mean()

    value, slopes = jax.value_and_grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, slopes)
    params = jax.tree.map(lambda p, m, g: p - 0.1 * (g + 0.9 * m), params, momentum, slopes)
    return value, params, momentum


def cnn_step(p, x, y):
    def loss(p):
        return -jnp.take_along_axis(jax.nn.log_softmax(cnn(p, x)), y[:, None], 1).mean()

    value, slopes = jax.value_and_grad(loss)(p)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, p, slopes)


IDS = jnp.asarray([[1, 5, 2, 9, 0], [3, 3, 10, 7, 1]])
IMAGES = normal(3, 8, 8, 2)
LABELS = jnp.asarray([0, 2, 1])
ZEROS = jax.tree.map(jnp.zeros_like, MLP)
MODELS = {
    "mlp": (mlp, (MLP, normal(5, 4))),
    "mlp bf16": (mlp, jax.tree.map(lambda x: x.astype("bfloat16"), (MLP, normal(5, 4)))),
    "cnn": (cnn, (CNN, IMAGES)),
    "cnn eval": (lambda p, x: cnn(p, x, False), (CNN, IMAGES)),
    "transformer": (transformer, (BLOCK, IDS)),
    "lstm": (lstm, (LSTM, normal(6, 2, 3))),
    "while_loop": (newton, (jnp.abs(normal(4)) + 0.5,)),
    "training step": (step, (MLP, ZEROS, normal(5, 4), jnp.asarray([0, 2, 1, 1, 0]))),
    "training step of a cnn": (cnn_step, (CNN, IMAGES, LABELS)),
}


@pytest.mark.parametrize("exported", [False, True], ids=["function", "exported"])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_the_same(name, exported):
    f, args = MODELS[name]
    # JAX has no gradient of a loop whose length is not known.
    check(f, args, name != "while_loop", exported=exported)


def test_a_loop_of_unknown_length_has_a_gradient():
    program = tw.from_jax(newton, jnp.ones(2))
    x = tw.tensor([2.0, 9.0], requires_grad=True)
    program(x)[0].sum().backward()
    assert x.grad.tolist() == pytest.approx([0.5 / 2**0.5, 0.5 / 3], rel=1e-4)


def test_a_scan_is_a_scan_again():
    (node,) = [n for n in tw.from_jax(lstm, *MODELS["lstm"][1])._program[0].nodes if n.name == "while"]
    loop = node.attrs["loop"]
    assert (loop.trips, len(loop.reads), len(loop.writes), len(loop.carried), loop.is_counted) == (6, 1, 1, 2, False)


def test_a_loop_that_reads_what_it_writes_stays_right():
    def f(x):
        return lax.fori_loop(1, 5, lambda i, y: y.at[i].set(y[i - 1] * 2 + x[i]), x)

    def g(x):
        return lax.fori_loop(0, 5, lambda i, y: (y[0].at[i].set(y[1]), y[0].sum()), (x, x[0]))

    check(f, (normal(5),))
    check(g, (normal(5),))


# ---- the module


def test_params_are_the_modules_parameters():
    x, y = normal(5, 4), tw.tensor([0, 2, 1, 1, 0])
    model = tw.from_jax(mlp, MLP, x, params=0)
    assert sorted(model.state_dict()) == ["0.bias", "0.kernel", "1.bias", "1.kernel"]
    same([model(ours(x))], [mlp(MLP, x)], 1e-5, "value")
    optimizer = tw.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = tw.nn.functional.cross_entropy(model(ours(x)), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_arrays_of_a_closure_are_weights():
    x = normal(5, 4)
    model = tw.from_jax(lambda x: mlp(MLP, x), x)
    shapes = sorted(tuple(p.shape) for p in model.parameters())
    assert shapes == [(3,), (4, 8), (8,), (8, 3)]
    assert not any(p.requires_grad for p in model.parameters())
    for p in model.parameters():
        p.requires_grad_(True)
    model(ours(x)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_it_is_exported_copied_and_pickled(tmp_path):
    x = normal(5, 4)
    model = tw.from_jax(lambda params, x: {"logits": mlp(params, x)}, MLP, x, params=0).eval()
    want = mlp(MLP, x)
    tw.export(model, tmp_path / "mlp", (ours(x),))
    same([tw.serve.load(str(tmp_path / "mlp"))(ours(x))["logits"]], [want], 1e-5, "served")
    same([copy.deepcopy(model)(ours(x))["logits"]], [want], 1e-5, "copy")
    same([pickle.loads(pickle.dumps(model))(ours(x))["logits"]], [want], 1e-5, "pickle")
    tw.onnx.save(model, tmp_path / "mlp.onnx", (ours(x),))
    same([tw.onnx.load(str(tmp_path / "mlp.onnx"))(ours(x))], [want], 1e-5, "ONNX")


def test_vmap_and_forward_mode_go_through_it():
    program = tw.from_jax(lambda x: jnp.sin(x) * x[0], jnp.ones(3))
    x = normal(4, 3)
    same([tw.vmap(program)(ours(x))], [jax.vmap(lambda x: jnp.sin(x) * x[0])(x)], 1e-5, "vmap")
    slope = tw.jvp(program, (ours(x[0]),), (ours(x[1]),))[1]
    same([slope], [jax.jvp(lambda x: jnp.sin(x) * x[0], (x[0],), (x[1],))[1]], 1e-5, "jvp")


def test_containers_are_those_of_the_function():
    program = tw.from_jax(lambda d, *, k: ({"sum": d["a"] + k, "none": None}, [d["b"][0]]), {"a": jnp.ones(2), "b": (jnp.zeros(3), None)}, kwargs={"k": 1.0})
    first, second = program({"a": tw.ones(2), "b": (tw.zeros(3), None)}, k=2.0)
    assert first["sum"].tolist() == [3.0, 3.0] and first["none"] is None and second[0].shape == (3,)


def test_arguments_that_are_not_used_and_examples_without_values():
    program = tw.from_jax(lambda a, b, c: b * 2, *[jax.ShapeDtypeStruct((n,), "float32") for n in (1, 2, 3)])
    assert program(tw.ones(1), tw.ones(2), tw.ones(3)).tolist() == [2.0, 2.0]
    exported = jax.export.export(jax.jit(lambda a, b, c: b * 2))(*[jax.ShapeDtypeStruct((n,), "float32") for n in (1, 2, 3)])
    assert tw.from_jax(exported)(tw.ones(1), tw.ones(2), tw.ones(3)).tolist() == [2.0, 2.0]


def test_files_and_platforms(tmp_path):
    pytest.importorskip("flatbuffers", reason="JAX needs flatbuffers to write files")
    x = normal(5, 4)
    exported = jax.export.export(jax.jit(lambda x: mlp(MLP, x)), platforms=("cuda", "cpu"))(x)
    path = tmp_path / "mlp.jax"
    path.write_bytes(exported.serialize())
    for source in (path, str(path), path.read_bytes(), path.open("rb")):
        same([tw.from_jax(source)(ours(x))], [mlp(MLP, x)], 1e-5, "file")


SYMBOLIC = {
    "mlp": (lambda x: mlp(MLP, x), ("b", 4), [(1, 4), (5, 4)]),
    "transformer": (lambda i: transformer(BLOCK, i.astype("int32")), ("b", "t"), [(1, 3), (2, 7)]),
    "shapes": (
        lambda x: (
            x.reshape(-1, 2), jnp.concatenate([x, x]), x[::-1], jnp.pad(x, ((1, 0), (0, 2))), jnp.zeros((2 * x.shape[0],)), jnp.tile(x, (2, 1)),
            x.mean(0) * x.shape[0], jnp.arange(x.shape[0]), lax.dynamic_slice(x, (x.shape[0] - 1, 0), (1, 4)), x.at[-1].set(1.0),
        ),
        ("b", 4), [(1, 4), (6, 4)],
    ),
    "orders": (lambda x: (jnp.cumsum(x, 0), jnp.sort(x, 0), jnp.argmax(x, 0), lax.top_k(x.T, x.shape[0] // 2)), ("b", 4), [(2, 4), (6, 4)]),
    "pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").reshape(x.shape[0], -1),
        ("b", 5, 6, 2), [(1, 5, 6, 2), (3, 5, 6, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name):
    f, shape, sizes = SYMBOLIC[name]
    shape = jax.export.symbolic_shape(", ".join(map(str, shape)), constraints=["b >= 1"])
    program = tw.from_jax(f, jax.ShapeDtypeStruct(shape, "float32"))
    for size in sizes:
        x = jnp.abs(normal(*size)).round()
        same(program(ours(x)), jax.jit(f)(x), 1e-5, f"sizes {size}")


def test_symbolic_sizes_become_free_dimensions(tmp_path):
    shape = jax.export.symbolic_shape("b, 4")
    model = tw.from_jax(lambda x: mlp(MLP, x), jax.ShapeDtypeStruct(shape, "float32")).eval()
    tw.export(model, tmp_path / "mlp", (tw.ones(2, 4),), dynamic_shapes=[{0: "batch"}])
    x = normal(7, 4)
    same([tw.serve.load(str(tmp_path / "mlp"))(ours(x))["output"]], [mlp(MLP, x)], 1e-5, "served")


# ---- errors


@jax.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 100,))


@pytest.mark.parametrize(("f", "name"), [(lambda x: lax.stop_gradient(x) * x, "stop_gradient"), (lambda x: jnp.sin(doubled(x)), "custom_vjp")])
def test_rules_that_are_lost_are_named(f, name):
    for x in (jnp.ones(2), jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), "float32")):
        with pytest.warns(UserWarning, match=rf"no {name} \(.*test_from_jax.py:\d+\)"):
            tw.from_jax(f, x)


def test_rules_of_jax_itself_are_not_missed(recwarn):
    tw.from_jax(lambda x: jax.nn.softmax(jax.nn.gelu(x)) + jax.nn.logsumexp(x) + jax.nn.relu(x), jnp.ones(2))
    assert not [w for w in recwarn if "from_jax" in str(w.message)]


def unknown(x):
    return jax.random.uniform(jax.random.key(0, impl="rbg"), (2,)) + x


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: tw.from_jax(unknown, jnp.ones(2)), tw.ArgumentError, r"rng_bit_generator \(.*test_from_jax.py:\d+\); use the keys"),
        (lambda: tw.from_jax(lambda x: jax.pure_callback(np.sin, x, x), jnp.ones(2)), tw.ArgumentError, "callback.*take callbacks"),
        (lambda: tw.from_jax(lambda x: lax.reduce_precision(x, 4, 3), jnp.ones(2))(tw.ones(2)), tw.ArgumentError, r"reduce_precision: a precision of 4 exponent.*test_from_jax.py:\d+"),
        (lambda: tw.from_jax(3), tw.DTypeError, "expected a function, an exported program, bytes or a path, not int"),
        (lambda: tw.from_jax(b"no program at all"), tw.FormatError, "no exported program"),
        (lambda: tw.from_jax("missing.jax"), tw.FileError, "cannot read missing.jax"),
        (lambda: tw.from_jax(mlp, MLP, jnp.ones((1, 4)), params=2), tw.ArgumentError, "params=2"),
        (lambda: tw.from_jax(jnp.sin, jax.ShapeDtypeStruct((2,), "float32"), params=0), tw.DTypeError, "needs arrays"),
        (lambda: tw.from_jax(mlp, MLP, jnp.ones((1, 4)))(MLP, tw.ones(2, 4)), tw.ArgumentError, r"args\[1\] must be float32\[1, 4\], not float32\[2, 4\]"),
        (lambda: tw.from_jax(mlp, MLP, jnp.ones((1, 4)))(tw.ones(1, 4)), tw.ArgumentError, "takes 2 arguments, but 1 came"),
        (lambda: tw.from_jax(mlp, MLP, jnp.ones((1, 4)), params=0)([tw.ones(1, 4)]), tw.ArgumentError, "arguments of the form"),
        (lambda: tw.from_jax(jnp.sin, jax.ShapeDtypeStruct(jax.export.symbolic_shape("2*b"), "float32"))(tw.ones(3)), tw.ArgumentError, "remainder 1"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, kind, says):
    with pytest.raises(kind, match=says):
        make()


def test_the_programs_of_the_page_run(tmp_path, monkeypatch, capsys):
    page = pathlib.Path(__file__).parents[2] / "docs" / "jax-programs.md"
    monkeypatch.chdir(tmp_path)
    names = {}
    for text in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        exec(text, names)
    assert names["loss"].item() < 2
    assert capsys.readouterr().out.splitlines() == ["['head.kernel', 'hidden.bias', 'hidden.kernel']", "talweg.Size([5, 2])"]


def test_random_programs_are_the_same():
    wrong = [(seed, found) for seed in range(20) if (found := jax_differential.check(seed)) is not None]
    assert not wrong
