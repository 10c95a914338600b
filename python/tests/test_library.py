"""Custom ops: Python functions, kernels in C, function pointers, CUDA C."""

import ctypes

import numpy as np
import pytest

import talweg as tw
from talweg import library

ROW_SUMS = """
void row_sums(const float *x, float *y, const int64_t *sizes) {
    for (int64_t i = 0; i < sizes[0]; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < sizes[1]; j++) y[i] += x[i * sizes[1] + j];
    }
}
"""

has_compiler = pytest.mark.skipif(library._compiler() is None, reason="there is no C compiler")


def fake_rows(x):
    if x.ndim != 2 or x.dtype != tw.float32:
        raise ValueError(f"row_sums takes a float32 matrix, not {x.dtype} of shape {tuple(x.shape)}")
    return tw.empty(x.shape[0], dtype=x.dtype)


def row_sums(**options):
    rule = lambda xs, ys, gs: [gs[0].unsqueeze(1).expand(*xs[0].shape)]  # noqa: E731
    return library.op("test::row_sums", c=ROW_SUMS, fake=fake_rows, gradient=rule, **options)


@has_compiler
def test_a_kernel_in_c_is_an_op_like_others():
    op, x = row_sums(), tw.arange(6.0).reshape(2, 3)
    assert op(x).tolist() == [3.0, 12.0]
    assert tw.jit(lambda x: op(x * 2) + 1)(x).tolist() == [7.0, 25.0]
    assert op(x.T).tolist() == x.sum(0).tolist(), "strides are made whole first"
    assert tw.grad(lambda x: (op(x) ** 2).sum())(x).tolist() == [[6.0] * 3, [24.0] * 3]
    batch = tw.arange(12.0).reshape(2, 2, 3)
    assert tw.vmap(op)(batch).tolist() == batch.sum(2).tolist()
    fed = tw.placeholder("float32", [2, 3])
    assert tw.Session().run(op(fed), {fed: x}).tolist() == [3.0, 12.0]
    assert "row_sums" in str(tw.graph(op(x)))
    assert library.get_op("test::row_sums") is op


@has_compiler
def test_a_kernel_in_c_trains():
    op = row_sums()
    w = tw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    optimizer = tw.optim.SGD([w], lr=0.1)

    @tw.jit
    def step():
        loss = (op(w) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and losses[0] == 58.0


@has_compiler
def test_the_shape_rule_refuses_what_the_kernel_would_misread():
    op = row_sums()
    with pytest.raises(ValueError, match="takes a float32 matrix"):
        op(tw.ones(2, 3, dtype="float64"))
    with pytest.raises(tw.ArgumentError, match="takes 2 tensors, but there are 1 inputs and 2 outputs"):
        wrong = library.op("row_sums", c=ROW_SUMS, fake=lambda x: (tw.empty(2), tw.empty(2)))
        wrong(tw.ones(2, 3))[0].eval()


@has_compiler
def test_a_kernel_reports_failure_by_what_it_returns():
    source = "int refuse(const float *x, float *y, const int64_t *n) { return x[0] < 0 ? 7 : (y[0] = x[0], 0); }"
    op = library.op("refuse", c=source, fake=tw.empty_like)
    assert op(tw.ones(1)).item() == 1.0
    with pytest.raises(tw.ArgumentError, match="refuse: the kernel returned 7"):
        op(-tw.ones(1)).item()


@has_compiler
def test_source_that_does_not_compile_shows_the_compiler_s_words():
    with pytest.raises(tw.ArgumentError, match="(?s)bad: the C source does not compile.*undeclared"):
        library.op("bad", c="void bad(const float *x, float *y, const int64_t *n) { y[0] = z; }", fake=tw.empty_like)


def test_what_is_missing_is_named(monkeypatch):
    with pytest.raises(tw.ArgumentError, match="has no function scale"):
        library.op("scale", c=ROW_SUMS, fake=tw.empty_like)
    with pytest.raises(tw.ArgumentError, match="a pointer for each input and output"):
        library.op("f", c="void f(float x, float *y) { }", fake=tw.empty_like)
    with pytest.raises(tw.ArgumentError, match="a kernel is needed"):
        library.op("f", fake=tw.empty_like)
    with pytest.raises(tw.ArgumentError, match="there is no op 'nothing'"):
        library.get_op("nothing")
    monkeypatch.setattr(library, "_compiler", lambda: None)
    with pytest.raises(tw.ArgumentError, match="no C compiler was found"):
        library.op("row_sums", c=ROW_SUMS + "\n", fake=fake_rows)


def test_a_function_pointer():
    pointers = ctypes.POINTER(ctypes.c_void_p)

    @ctypes.CFUNCTYPE(ctypes.c_int, pointers, pointers, ctypes.POINTER(ctypes.c_int64))
    def negate(inputs, outputs, sizes):
        count = sizes[0]
        given = np.ctypeslib.as_array(ctypes.cast(inputs[0], ctypes.POINTER(ctypes.c_float)), (count,))
        np.ctypeslib.as_array(ctypes.cast(outputs[0], ctypes.POINTER(ctypes.c_float)), (count,))[:] = -given
        return 0

    op = library.op("negate", address=negate, fake=tw.empty_like)
    assert op(tw.arange(3.0)).tolist() == [0.0, -1.0, -2.0]
    with pytest.raises(tw.DTypeError, match="function pointer"):
        library.op("negate", address="somewhere", fake=tw.empty_like)


def test_custom_op_as_in_pytorch():
    @library.custom_op("mylib::scaled", mutates_args=())
    def scaled(x: tw.Tensor, factor: float) -> tw.Tensor:
        """Times a factor."""
        return tw.asarray(x.numpy() * np.float32(factor))

    @scaled.register_fake
    def _(x, factor):
        return tw.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]
        ctx.save_for_backward(inputs[0])

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor + 0 * x, None

    scaled.register_autograd(backward, setup_context=setup)
    x = tw.ones(2)
    assert scaled(x, 3.0).tolist() == [3.0, 3.0] and scaled(x, 4.0).tolist() == [4.0, 4.0]
    assert tw.jit(lambda x: scaled(x, 2.0))(x).tolist() == [2.0, 2.0]
    assert tw.grad(lambda x: scaled(x, 5.0).sum())(x).tolist() == [5.0, 5.0]
    assert scaled.__doc__ == "Times a factor."
    assert scaled(np.ones(2, np.float32), factor=2.0).tolist() == [2.0, 2.0]
    with pytest.raises(tw.DTypeError, match="unexpected keyword argument 'weight'; it takes"):
        scaled(x, 1.0, weight=1.0)


def test_custom_op_refuses_what_it_cannot_do():
    with pytest.raises(tw.ArgumentError, match="cannot change its arguments"):
        library.custom_op("mylib::f", lambda x: None, mutates_args={"x"})
    op = library.custom_op("mylib::g", lambda x: x, mutates_args=())
    with pytest.raises(tw.ArgumentError, match="register_fake a shape rule"):
        op(tw.ones(2))
    with pytest.raises(tw.ArgumentError, match="runs on 'cpu'"):
        op.register_kernel("cuda", lambda x: x)


CUDA = "__device__ void cube(long long i, const float *x, float *y) { y[i] = x[i] * x[i] * x[i]; }"


def test_a_kernel_for_gpus_alone_says_so_on_the_host():
    op = library.op("cube", cuda=CUDA, fake=tw.empty_like)
    with pytest.raises(tw.DeviceError, match="for GPUs only"):
        op(tw.ones(2)).eval()
    with pytest.raises(tw.ArgumentError, match="no function square"):
        library.op("square", cuda=CUDA, fake=tw.empty_like)


@pytest.mark.skipif(not tw.cuda.is_available(), reason="there is no GPU")
def test_a_kernel_in_cuda_c():
    op = library.op("cube", cuda=CUDA, fake=tw.empty_like, gradient=lambda xs, ys, gs: [3 * xs[0] ** 2 * gs[0]])
    x = tw.arange(1000.0, device="cuda:0")
    assert np.allclose(op(x).numpy(), np.arange(1000.0) ** 3)
    assert np.allclose(tw.jit(tw.grad(lambda x: op(x).sum()))(x).numpy(), 3 * np.arange(1000.0) ** 2)
    bad = library.op("cube", cuda=CUDA.replace("y[i]", "z[i]"), fake=tw.empty_like)
    with pytest.raises(tw.ArgumentError, match="does not compile"):
        bad(x).eval()
    host = tw.pure_callback(lambda v: np.asarray(v) + 1, x, x)
    assert np.allclose(host.numpy(), np.arange(1000.0) + 1)
