"""In-place writes reach the tensor that owns the elements, as in PyTorch and NumPy."""

import numpy as np
import pytest

import talweg as tw
from talweg import nn


def base():
    return tw.arange(24.0).reshape(2, 3, 4).clone()


VIEWS = {
    "index": lambda x: x[1],
    "index twice": lambda x: x[1][2],
    "slice": lambda x: x[:, 1:, ::2],
    "new axis": lambda x: x[None, :, 0],
    "reshape": lambda x: x.reshape(6, 4),
    "view": lambda x: x.view(-1),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1)[1],
    "T": lambda x: x[0].T,
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "flatten": lambda x: x.flatten(1),
    "detach": lambda x: x.detach()[0],
    "data": lambda x: x.data,
    "unbind": lambda x: x.unbind(1)[2],
    "iteration": lambda x: list(x)[1],
    "split": lambda x: x.split(2, 2)[1],
    "chunk": lambda x: x.chunk(3, 1)[0],
    "diagonal": lambda x: x[0].diagonal(),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("write", ["add", "fill", "item"])
def test_a_write_to_a_view_reaches_its_base(name, write):
    x, want = base(), base().numpy().copy()
    numbers = VIEWS[name](tw.arange(24).reshape(2, 3, 4).clone()).numpy().ravel()
    y = VIEWS[name](x)
    flat = want.reshape(-1)
    if write == "add":
        y += 100
        flat[numbers] += 100
    elif write == "fill":
        y.fill_(7)
        flat[numbers] = 7
    else:
        y[..., 0] = -1
        flat[numbers.reshape(y.shape)[..., 0].ravel()] = -1
    assert x.numpy().tolist() == want.tolist()
    assert y.numpy().ravel().tolist() == flat[numbers].tolist()


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_to_the_base_is_seen_through_its_views(name):
    x = base()
    y, other = VIEWS[name](x), x[0, 0]
    x *= 2
    assert y.numpy().tolist() == VIEWS[name](base() * 2).numpy().tolist()
    y.zero_()
    assert other.numpy().tolist() == x[0, 0].numpy().tolist()


def test_the_element_of_a_row():
    x = tw.zeros(2, 3)
    x[0][1] = 5
    x[:, 2].fill_(7)
    row = x[1]
    row += 1
    assert x.tolist() == [[0, 5, 7], [1, 1, 8]]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64", "complex64"])
def test_every_element_type(dtype):
    x = tw.zeros(2, 3, dtype=dtype)
    x[1][2] = 1
    assert x.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_parts_of_complex_numbers():
    z = tw.tensor([1 + 2j, 3 + 4j])
    z.real[0] = 9
    z.imag.mul_(2)
    assert z.tolist() == [9 + 4j, 3 + 8j]


def test_copies_are_no_views():
    x = base()
    for copy in [x.clone(), x + 0, x[[0, 1]], x[x > 3], x.flip(0), x.permute(2, 0, 1).reshape(-1), x.repeat(1, 1, 1), x.astype("float64")]:
        copy += 1
    assert x.tolist() == base().tolist()


def test_elements_that_are_one_element_of_the_base_cannot_be_written():
    x = tw.zeros(3, 1)
    with pytest.raises(ValueError, match="several elements of the view are one element"):
        x.expand(3, 4).fill_(1)
    assert x.tolist() == [[0], [0], [0]]


def test_in_place_keeps_shape_and_kind():
    x = tw.zeros(3, dtype="int64")
    with pytest.raises(tw.DTypeError, match="cannot hold"):
        x += 1.5
    with pytest.raises(tw.ShapeError, match="shape"):
        x += tw.zeros(2, 3, dtype="int64")
    x += True
    assert x.tolist() == [1, 1, 1] and x.dtype == tw.int64


def test_views_of_parameters():
    layer = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="no_grad"):
        layer.weight[0] += 1
    with tw.no_grad():
        layer.weight[0] = 3
        layer.weight[1].zero_()
    assert layer.weight.tolist() == [[3, 3], [0, 0]]
    layer.weight.data[0, 0] = 5
    layer.bias.data.copy_(tw.tensor([1.0, 2.0]))
    assert layer.weight.tolist() == [[5, 3], [0, 0]] and layer.bias.tolist() == [1, 2]
    layer.state_dict()["weight"].copy_(tw.ones(2, 2))
    assert layer.weight.tolist() == [[1, 1], [1, 1]]


def test_data_shows_a_parameter_after_the_optimizers_step():
    w = tw.tensor([1.0], requires_grad=True)
    data, optimizer = w.data, tw.optim.SGD([w], lr=0.5)
    (w * 2).sum().backward()
    optimizer.step()
    assert data.tolist() == w.tolist() == [0.0]


def test_gradients_can_be_changed_in_place():
    w = tw.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w.grad.mul_(10)
    w.grad[0] = 1
    w.grad.data.clamp_(max=30)
    assert w.grad.tolist() == [1, 30]
    w.grad.zero_()
    (w * w).sum().backward()
    assert w.grad.tolist() == [2, 4]
    kept = w.grad
    w.grad = None
    kept.zero_()
    assert w.grad is None


def test_gradients_flow_through_writes_to_views():
    a = tw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = a * 1
    x[1:].mul_(10)
    x[0] = a[2] * 2
    (x * x).sum().backward()
    assert a.grad.tolist() == [0, 400, 600 + 24]


def test_tutorial_loop_of_gradient_descent():
    w = tw.tensor(1.0, requires_grad=True)
    for _ in range(3):
        (w * w).backward()
        with tw.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
    assert w.item() == pytest.approx(0.512)


def test_writes_inside_jit_stay_inside():
    @tw.jit
    def f(x):
        y = x * 1
        y[0][1] = 5
        y[1] += 1
        return y

    assert f(tw.zeros(2, 2)).tolist() == [[0, 5], [1, 1]]


def test_a_view_does_not_keep_its_base_alive():
    y = tw.arange(6.0).reshape(2, 3)[1]
    y += 1
    assert y.tolist() == [4, 5, 6]


def test_numpy_slices_backward():
    x, n = tw.arange(4), np.arange(4)
    y, m = x[::-1], n[::-1]
    y[:2] = -1
    m[:2] = -1
    assert x.tolist() == n.tolist()


WHOLE = {
    "view": lambda x: x.view(2, 3),
    "reshape": lambda x: x.reshape(2, 3),
    "view_as": lambda x: x.view_as(x),
    "squeeze": lambda x: x.squeeze(),
    "squeeze of one": lambda x: x.squeeze(0),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(1, (3,)),
    "expand": lambda x: x.expand(2, -1),
    "expand_as": lambda x: x.expand_as(tw.ones(2, 3)),
    "broadcast_to": lambda x: x.broadcast_to((2, 3)),
    "Flatten": lambda x: nn.Flatten()(x),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_method_that_changes_no_shape_is_a_view(name):
    x = tw.zeros(2, 3)
    y = WHOLE[name](x)
    y[0, 1] = 5
    assert x.tolist() == [[0, 5, 0], [0, 0, 0]]
    x.add_(1)
    assert y.tolist() == [[1, 6, 1], [1, 1, 1]]


@pytest.mark.parametrize("same", [lambda x: x + 0, lambda x: x.abs(), lambda x: x.clone(), lambda x: x.flip(()) if x.ndim else x, lambda x: x * 1])
def test_arithmetic_that_changes_nothing_is_a_copy(same):
    x = tw.ones(2, 3)
    same(x).fill_(7)
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_gradient_takes_new_data():
    w = tw.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w.grad.data = tw.tensor([7.0, 8.0])
    assert w.grad.tolist() == [7, 8]
    w.grad.data = w.grad.data / 2
    tw.optim.SGD([w], lr=1.0).step()
    assert w.tolist() == [-2.5, -2]


def test_an_assignment_takes_values_with_dimensions_of_size_1_in_front():
    x = tw.zeros(2, 3)
    x[0, 1] = tw.tensor([5.0])
    x[1] = tw.tensor([[[1.0, 2.0, 3.0]]])
    x[x == 0] = tw.tensor([[7.0, 8.0]])
    x[:, [0, 1]] = x[None, :, [0, 1]] * 2
    assert x.tolist() == [[14, 10, 8], [2, 4, 3]]
    with pytest.raises(tw.ShapeError, match="do not broadcast"):
        x[0, 1] = tw.tensor([5.0, 6.0])
