"""Differentiation beside PyTorch: the same program in both, the same numbers."""

import numpy as np
import pytest

import talweg as tw

torch = pytest.importorskip("torch")

X = np.array([[0.3, -0.7, 1.2], [0.5, 0.1, -0.4]])
V = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
W = np.array([[0.2, -0.1], [0.4, 0.3], [-0.6, 0.5]])


def numbers(tree):
    """A result with arrays in the place of tensors."""
    if isinstance(tree, (tuple, list)):
        return [numbers(x) for x in tree]
    if isinstance(tree, dict):
        return {k: numbers(x) for k, x in tree.items()}
    return tree.detach().numpy().copy() if hasattr(tree, "detach") else tree


def same(a, b, where=""):
    if isinstance(a, dict):
        assert list(a) == list(b), where
        for k in a:
            same(a[k], b[k], f"{where}.{k}")
    elif isinstance(a, list):
        assert isinstance(b, list) and len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]")
    elif isinstance(a, np.ndarray):
        assert a.shape == b.shape, where
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=where)
    else:
        assert a == b, where


def leaf(t, x):
    return t.tensor(x, dtype=t.float64, requires_grad=True)


def const(t, x):
    return t.tensor(x, dtype=t.float64)


# Each is a function of the module, `tw` or `torch`.


def first_and_second(t):
    x = leaf(t, X)
    y = (x**3).sin().sum()
    (g,) = t.autograd.grad(y, x, create_graph=True)
    (h,) = t.autograd.grad((g**2).sum(), x, create_graph=True)
    (k,) = t.autograd.grad(h.exp().sum(), x)
    return g, h, k, g.requires_grad, k.requires_grad


def several_inputs(t):
    x, w = leaf(t, X), leaf(t, W)
    h = x @ w
    y = h.tanh().sum()
    return t.autograd.grad(y, [x, h, w])


def grad_outputs(t):
    x = leaf(t, X)
    return t.autograd.grad([x * x, x.exp()], x, grad_outputs=[const(t, V), t.ones_like(x)])


def unused(t):
    x, w = leaf(t, X), leaf(t, W)
    y = (x * x).sum()
    found = t.autograd.grad(y, [x, w], allow_unused=True, retain_graph=True)
    return found[0], found[1] is None, t.autograd.grad(y, [x, w], materialize_grads=True)


def batched_gradients(t):
    x = leaf(t, X[0])
    return t.autograd.grad(x**2, x, grad_outputs=t.eye(3, dtype=t.float64), is_grads_batched=True)


def gradient_penalty(t):
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 1)).double()
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(const(t, np.linspace(-1, 1, int(np.prod(p.shape))).reshape(tuple(p.shape)) * (i + 1) / 3))
    x = leaf(t, X)
    (g,) = t.autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = (((g * g).sum(1).sqrt() - 1) ** 2).mean()
    penalty.backward()
    return penalty, [p.grad for p in list(model.parameters())[:-1]], t.autograd.grad(model(x).sum(), list(model.parameters()))


def accumulates(t):
    x = leaf(t, X)
    (x * x).sum().backward()
    (x.sum() * 2).backward()
    first = x.grad.clone()
    x.grad = None
    x.exp().backward(gradient=const(t, V))
    second = x.grad.clone()
    x.grad.zero_()
    (x * 3).sum().backward()
    return first, second, x.grad


def backward_with_inputs(t):
    x, w = leaf(t, X), leaf(t, W)
    (x @ w).sum().backward(inputs=[w])
    return w.grad, x.grad is None


def backward_creates_graph(t):
    x = leaf(t, X)
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    (h,) = t.autograd.grad((g * g).sum(), x)
    return g, h


def backward_of_several(t):
    x = leaf(t, X)
    t.autograd.backward([x.sum(), x * x], [None, const(t, V)])
    return x.grad


def retained(t):
    x = leaf(t, X)
    y = x * 2
    z = y.exp()
    y.retain_grad()
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    return y.grad, x.grad, y.retains_grad, z.retains_grad, y.is_leaf, x.is_leaf, x.detach().is_leaf, (x.detach() * 2).is_leaf


def hooks(t):
    x = leaf(t, X)
    seen = []
    y = x * 2
    z = y * y
    a = x.register_hook(lambda g: g * 10)
    b = y.register_hook(lambda g: seen.append(numbers(g)))
    y.register_hook(lambda g: g + 1)
    z.sum().backward(retain_graph=True)
    first = x.grad.clone()
    a.remove(), b.remove()
    z.sum().backward()
    return first, x.grad, seen


def hooks_in_grad(t):
    x = leaf(t, X)
    y = x * 2
    y.register_hook(lambda g: g * 5)
    x.register_hook(lambda g: g * 7)
    return t.autograd.grad((y * y).sum(), [x, y])


def post_accumulate(t):
    x = leaf(t, X)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda x: seen.append(numbers(x.grad)))
    (x * x).sum().backward()
    (x * x).sum().backward()
    handle.remove()
    (x * x).sum().backward()
    return seen, x.grad


def clones_are_apart(t):
    x = leaf(t, X)
    y = x.clone()
    z = (x * x * y).sum()
    return t.autograd.grad(z, [x, y], retain_graph=True), t.autograd.grad(z, y), y.is_leaf, y.requires_grad


def views_of_leaves(t):
    x = leaf(t, X)
    y = x[0]
    z = y.reshape(3, 1)
    out = (y * z.sum()).sum() + (x * 2).sum()
    return t.autograd.grad(out, [x, y, z])


def in_place_on_computed(t):
    x = leaf(t, X)
    y = x * 2
    y.mul_(x)
    y[0] = 1.0
    return t.autograd.grad((y * y).sum(), [x, y])


def leaf_flags(t):
    x = leaf(t, X)
    y = x * 2
    out = [x.is_leaf, y.is_leaf, x.grad_fn is None, bool(y.grad_fn), y.grad_fn.name() != "", y.requires_grad]
    d = y.detach_()
    out += [d is y, y.requires_grad, y.is_leaf, y.grad_fn is None]
    x.requires_grad_(False)
    return out + [x.requires_grad, (x * 2).requires_grad]


def zero_grads(t):
    model = t.nn.Linear(2, 1).double()
    model(const(t, X[:, :2])).sum().backward()
    model.zero_grad(set_to_none=False)
    zeros = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return zeros, [p.grad is None for p in model.parameters()]


def makes_exp(t, split, twice=True):
    def context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:1], output)
        ctx.scale = inputs[1]

    def back(ctx, g):
        x, y = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return g * y * ctx.scale * x.cos(), None

    if not twice:
        back = t.autograd.function.once_differentiable(back)

    def with_ctx(ctx, x, scale):
        y = (x * scale).exp()
        context(ctx, (x, scale), y)
        return y

    parts = {"backward": staticmethod(back)}
    if split:
        parts.update(forward=staticmethod(lambda x, scale: (x * scale).exp()), setup_context=staticmethod(context))
    else:
        parts.update(forward=staticmethod(with_ctx))
    return type("Exp", (t.autograd.Function,), parts)


def own_function(t):
    out = []
    for split in (False, True):
        f = makes_exp(t, split)
        x = leaf(t, X)
        y = f.apply(x, 2.0)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = t.autograd.grad(g.sin().sum(), x)
        out += [y, g, h, y.requires_grad, f.apply(const(t, X), 2.0).requires_grad]
    return out


def own_function_of_several(t):
    class Both(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            big = a > b
            ctx.mark_non_differentiable(big)
            return a * b, a + b, big

        @staticmethod
        def backward(ctx, g, h, none):
            a, b = ctx.saved_tensors
            return g * b + h, (g * a + h) if ctx.needs_input_grad[1] else None

    a, b = leaf(t, X), leaf(t, V)
    p, s, big = Both.apply(a, b)
    found = t.autograd.grad(p.sum() + (s * s).sum(), [a, b])
    c = leaf(t, X)
    Both.apply(c, b.detach())[0].sum().backward()
    return found, big.requires_grad, big, c.grad


def no_zeros(t):
    seen = []

    class Two(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return h * 3 if g is None else g * 2

    x = leaf(t, X)
    Two.apply(x)[1].sum().backward()
    return x.grad, seen


def scalar(t):
    return lambda x: (x**3).sin().sum()


def vector(t):
    return lambda x: (x * x.sum()).exp()


def functional(t):
    F = t.autograd.functional
    x, v = const(t, X[0]), const(t, V[0])
    two = lambda a, b: ((a * b).sum(), a.exp() * b)  # noqa: E731
    both = (const(t, X[0]), const(t, X[1]))
    return [
        F.jacobian(vector(t), x),
        F.jacobian(two, both),
        F.hessian(scalar(t), x),
        F.hessian(lambda a, b: (a * b).exp().sum(), both),
        F.vjp(vector(t), x, v),
        F.jvp(vector(t), x, v),
        F.jvp(two, both, (v, v)),
        F.hvp(scalar(t), x, v),
        F.vhp(scalar(t), x, v),
        F.hvp(lambda a, b: (a * b).exp().sum(), both, (v, v)),
    ]


def functional_creates_graph(t):
    F = t.autograd.functional
    x = leaf(t, X[0])
    j = F.jacobian(vector(t), x, create_graph=True)
    h = F.hessian(scalar(t), x, create_graph=True)
    return t.autograd.grad(j.sum() + (h * h).sum(), x)


def func_grad(t):
    f = t.func
    x, w = const(t, X[0]), const(t, V[0])
    tree = {"a": x, "b": [w, const(t, X[1])]}
    loss = lambda p, s: (p["a"] * p["b"][0] + s).exp().sum() + p["b"][1].sin().sum()  # noqa: E731
    return [
        f.grad(scalar(t))(x),
        f.grad(f.grad(lambda x: x**4))(const(t, 2.0)),
        f.grad(lambda a, b: (a * b).exp().sum(), argnums=(0, 1))(x, w),
        f.grad(lambda a, b: (a * b).exp().sum(), argnums=-1)(x, w),
        f.grad(lambda x: ((x * x).sum(), {"twice": x * 2}), has_aux=True)(x),
        f.grad_and_value(scalar(t))(x),
        f.grad_and_value(lambda x: ((x * x).sum(), x * 2), has_aux=True)(x),
        f.grad(loss)(tree, 0.5),
        f.grad(lambda x: x.sum() if x.sum() > 0 else (x * x).sum())(x),
        f.grad(lambda x: (x.detach() * x).sum())(x),
        f.grad(scalar(t))(x).requires_grad,
    ]


def func_products(t):
    f = t.func
    x, v = const(t, X[0]), const(t, V[0])
    out, pullback = f.vjp(vector(t), x)
    tree_out, tree_back = f.vjp(lambda a, b: {"p": a * b, "s": (a.exp(), b)}, x, v)
    linear_out, push = f.linearize(vector(t), x)
    return [
        out,
        pullback(v),
        pullback(v * 2),
        tree_back({"p": v, "s": (x, v)}),
        f.vjp(lambda x: (x * 2, x * 3), x, has_aux=True)[2],
        f.jvp(vector(t), (x,), (v,)),
        f.jvp(lambda a, b: (a * b, a.exp()), (x, v), (v, x)),
        f.jvp(lambda x: (x * 2, x * 3), (x,), (v,), has_aux=True),
        push(v),
        push(x),
    ]


def func_jacobians(t):
    f = t.func
    x, w = const(t, X[0]), const(t, V[0])
    two = lambda a, b: {"p": a * b.sum(), "q": (a.exp() * b).sum()}  # noqa: E731
    return [
        f.jacrev(vector(t))(x),
        f.jacfwd(vector(t))(x),
        f.jacrev(vector(t), chunk_size=2)(x),
        f.jacrev(two, argnums=(0, 1))(x, w),
        f.jacfwd(two, argnums=(0, 1))(x, w),
        f.jacrev(two, argnums=1)(x, w),
        f.jacrev(lambda x: (x * x, x), has_aux=True)(x),
        f.jacfwd(lambda x: (x * x, x), has_aux=True)(x),
        f.hessian(scalar(t))(x),
        f.jacfwd(f.jacfwd(scalar(t)))(x),
        f.jacrev(f.jacrev(scalar(t)))(x),
        f.jacrev(lambda x: x @ const(t, W))(const(t, X)),
        f.hessian(lambda a, b: (a * b).exp().sum(), argnums=(0, 1))(x, w),
    ]


def func_vmap(t):
    f = t.func
    x, w = const(t, X), const(t, W)
    return [
        f.vmap(lambda r: r @ w)(x),
        t.vmap(lambda r, m: r @ m, in_dims=(0, None))(x, w),
        f.vmap(lambda c: c.sum(), in_dims=1)(x),
        f.vmap(lambda c: c * 2, in_dims=1, out_dims=1)(x),
        f.vmap(lambda d, s: (d["a"] * s, {"n": d["b"].sum()}), in_dims=({"a": 0, "b": None}, None))({"a": x, "b": w}, 2.0),
        f.vmap(lambda a, b: (a, b), out_dims=(0, 1))(x, x),
        f.vmap(f.vmap(lambda a: a.exp()))(x),
        f.vmap(f.grad(scalar(t)))(x),
        f.vmap(f.jacrev(vector(t)))(x),
        f.vmap(f.hessian(scalar(t)))(x),
        f.vmap(lambda r: r.sum(), chunk_size=1)(x),
        f.vmap(lambda r, *, scale: r * scale)(x, scale=2.0),
        f.grad(lambda w: f.vmap(lambda r: (r @ w).tanh().sum())(x).sum())(w),
        f.jacrev(f.vmap(lambda r: (r * r).sum()))(x),
        f.grad(lambda s: f.grad(lambda y: (y * s).exp().sum())(const(t, X[0])).sum())(const(t, 0.5)),
    ]


def per_example_gradients(t):
    model = t.nn.Linear(3, 2).double()
    state = {"weight": const(t, W.T), "bias": const(t, [0.1, 0.2])}

    def loss(state, x):
        return t.func.functional_call(model, state, (x,)).tanh().sum()

    return t.func.vmap(t.func.grad(loss), in_dims=(None, 0))(state, const(t, X))


def ensembles(t):
    models = [t.nn.Linear(3, 2).double() for _ in range(3)]
    for i, m in enumerate(models):
        m.load_state_dict({"weight": const(t, W.T * (i + 1)), "bias": const(t, [0.1, float(i)])})
    params, buffers = t.func.stack_module_state(models)
    base = models[0]
    run = lambda p, b, x: t.func.functional_call(base, (p, b), (x,))  # noqa: E731
    return {k: p for k, p in params.items()}, t.func.vmap(run, in_dims=(0, 0, None))(params, buffers, const(t, X))


def outer_autograd_through_func(t):
    x, w = leaf(t, X[0]), leaf(t, V[0])
    g = t.func.grad(lambda x: (x * x * w).sum())(x)
    (g * g).sum().backward()
    return x.grad, w.grad, g.requires_grad


def func_under_no_grad(t):
    with t.no_grad():
        return t.func.grad(scalar(t))(leaf(t, X[0])), t.func.grad(scalar(t))(leaf(t, X[0])).requires_grad


PROGRAMS = [
    v
    for k, v in list(globals().items())
    if callable(v) and getattr(v, "__module__", None) == __name__ and v.__code__.co_varnames[: v.__code__.co_argcount] == ("t",)
]
PROGRAMS = [p for p in PROGRAMS if p not in (scalar, vector)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program):
    same(numbers(program(torch)), numbers(program(tw)), program.__name__)


def second_backward(t):
    x = leaf(t, X)
    y = (x * x).sum()
    y.backward()
    y.backward()


def second_through_shared(t):
    x = leaf(t, X)
    h = x.exp()
    h.sum().backward()
    (h * 2).sum().backward()


def scaled_twice(t):
    y = leaf(t, X).sum() * 2
    y.backward()
    y.backward()


def grad_then_backward(t):
    x = leaf(t, X)
    y = x.tanh().sum()
    t.autograd.grad(y, x)
    y.backward()


def vector_without_gradient(t):
    (leaf(t, X) * 2).backward()


def wrong_gradient_shape(t):
    (leaf(t, X) * 2).backward(const(t, X[0]))


def nothing_to_differentiate(t):
    const(t, X).sum().backward()


def unused_input(t):
    t.autograd.grad(leaf(t, X).sum(), leaf(t, W))


def input_without_gradient(t):
    t.autograd.grad(leaf(t, X).sum(), const(t, W))


def leaf_in_place(t):
    leaf(t, X).add_(1.0)


def computed_stops(t):
    (leaf(t, X) * 2).requires_grad_(False)


def integers(t):
    t.tensor([1, 2]).requires_grad_()


def once(t):
    x = leaf(t, X)
    (g,) = t.autograd.grad(makes_exp(t, False, twice=False).apply(x, 2.0).sum(), x, create_graph=True)
    g.sum().backward()


def hook_without_gradient(t):
    const(t, X).register_hook(print)


def draws_in_vmap(t):
    t.vmap(lambda x: x + t.rand(3))(const(t, X))


def wrong_in_dims(t):
    t.vmap(lambda x, y: x, in_dims=(0,))(const(t, X), const(t, X))


def vector_grad(t):
    t.func.grad(lambda x: x * 2)(const(t, X))


@pytest.mark.parametrize(
    "program",
    [
        second_backward,
        second_through_shared,
        scaled_twice,
        grad_then_backward,
        vector_without_gradient,
        wrong_gradient_shape,
        nothing_to_differentiate,
        unused_input,
        input_without_gradient,
        leaf_in_place,
        computed_stops,
        integers,
        once,
        hook_without_gradient,
        draws_in_vmap,
        wrong_in_dims,
        vector_grad,
    ],
    ids=lambda p: p.__name__,
)
def test_both_raise(program):
    with pytest.raises(Exception):
        program(torch)
    with pytest.raises(tw.Error, match="test_torch_autograd.py"):
        program(tw)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(),
        lambda x: (x + x - 1).mean(),
        lambda x: x[0].sum() + x.t().reshape(-1).sum(),
        lambda x: -(x.sum(0) - x.sum(1).sum()).mean(),
        lambda x: -x.flatten()[1:].cumsum(0).sum(),
    ],
)
def test_backward_twice_where_nothing_was_saved(f):
    found = []
    for t in (torch, tw):
        x = leaf(t, X)
        y = f(x)
        y.backward()
        y.backward()
        found.append(numbers(x.grad))
    same(*found)
