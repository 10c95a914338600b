"""What is compiled: memory that is in use is never written to, by a plan or by another library."""

import ctypes

import numpy as np
import pytest
import talweg as tw

NONE = tw.zeros(0, dtype="int64")
EMPTY_TERMS = [
    lambda x: (x.sum(0)[NONE] ** 2).sum(),
    lambda x: x.mean(1).index_select(0, NONE).exp().sum(),
    lambda x: tw.take(x.sum(0), NONE, 0).sum(),
    lambda x: x.sum(0, keepdim=True).gather(0, tw.zeros((0, 2), dtype="int64")).sum(),
    lambda x: x.sum(0)[:0].tanh().sum(),
    lambda x: x.sum(0)[tw.tensor([False, False])].sum(),
    lambda x: (x.sum(0)[NONE].reshape(0, 1) @ tw.ones(1, 3)).sum(),
]


@pytest.mark.parametrize("term", EMPTY_TERMS)
def test_a_term_that_selects_nothing_changes_no_gradient(term):
    x = tw.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    w = tw.tensor([[1.0, 2.0], [3.0, 4.0]])

    def base(x):
        return (x @ w).tanh().sum()

    def both(x):
        return base(x) + term(x)

    want = tw.grad(base)(x).tolist()
    assert np.allclose(tw.grad(both)(x).tolist(), want, atol=1e-6)
    assert np.allclose(tw.jit(tw.grad(both))(x).tolist(), want, atol=1e-6)
    y = x.clone().requires_grad_()
    both(y).backward()
    assert np.allclose(y.grad.tolist(), want, atol=1e-6)


def address(x):
    return np.from_dlpack(x).ctypes.data


def overwrite(x):
    """Writes into memory that was lent, as a library may that does not look at the flag."""
    a = np.from_dlpack(x)
    ctypes.memset(a.ctypes.data, 0, a.nbytes)
    return a


def test_two_results_never_share_memory_that_another_library_writes():
    x = tw.tensor([1.0, 2.0, 3.0])
    y, z = tw.jit(lambda x: (x * 2, (x * 2) * 1))(x)
    overwrite(y)
    assert z.tolist() == [2.0, 4.0, 6.0]
    # A result that has an argument's value, a constant of the program, a view, a variable's value.
    (same,) = tw.jit(lambda x: (x,))(x)
    assert same is x
    (same,) = tw.jit(lambda x: (x.clone(),))(x)
    overwrite(same)
    assert x.tolist() == [1.0, 2.0, 3.0]
    constant = tw.jit(lambda x: tw.ones(3))
    overwrite(constant(x))
    assert constant(x).tolist() == [1.0, 1.0, 1.0]
    row = x.reshape(1, 3)
    assert row.tolist() == [[1.0, 2.0, 3.0]]
    overwrite(row)
    assert x.tolist() == [1.0, 2.0, 3.0]
    v = tw.Variable(tw.tensor([1.0, 2.0]))

    def step():
        new = v + 1
        v.assign(new)
        return new

    overwrite(tw.jit(step)())
    assert v.tolist() == [2.0, 3.0]


def test_memory_that_was_lent_is_not_shared_afterwards():
    x = tw.tensor([1.0, 2.0, 3.0])
    lent = np.from_dlpack(x)
    (same,) = tw.jit(lambda x: (x.clone(),))(x)
    row = x.reshape(1, 3)
    assert row.tolist() == [[1.0, 2.0, 3.0]]
    ctypes.memset(lent.ctypes.data, 0, lent.nbytes)
    assert same.tolist() == [1.0, 2.0, 3.0] and row.tolist() == [[1.0, 2.0, 3.0]]


def test_a_tensor_alone_in_its_memory_is_lent_without_a_copy():
    x = tw.tensor([1.0, 2.0]) * 2
    assert x.tolist() == [2.0, 4.0]
    assert address(x) == address(x)
    assert x.__dlpack__(max_version=(1, 0), copy=False) is not None


def test_pytorch_may_write_to_what_it_is_lent():
    torch = pytest.importorskip("torch")
    x = tw.tensor([1.0, 2.0, 3.0])
    y, z = tw.jit(lambda x: (x + 1, (x + 1) * 1))(x)
    torch.from_dlpack(y).zero_()
    assert z.tolist() == [2.0, 3.0, 4.0]


def arena(is_checkpointed):
    nn = tw.nn
    blocks = [nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64)) for _ in range(8)]
    optimizer = tw.optim.SGD([p for b in blocks for p in b.parameters()], lr=0.1)

    @tw.jit
    def step(x):
        for b in blocks:
            x = tw.checkpoint(b, x) if is_checkpointed else b(x)
        loss = (x**2).mean()
        loss.backward()
        optimizer.step()
        return loss

    text = step.explain(tw.zeros(512, 64))
    return int(text.split("arena ")[1].split(" ")[0])


def test_checkpoint_frees_memory():
    # Eight inputs of 128 KiB and the inside of one block; without it, the inside of all.
    kept, plain = arena(True), arena(False)
    assert kept < 3_500_000 < 5_000_000 < plain


@pytest.mark.parametrize("wrap", [lambda f: f, tw.jit], ids=["eager", "jit"])
def test_parts_of_parts_keep_their_places_in_gradients(wrap):
    # The gradient joins what was joined before: both parts of the inner one belong to the outer one.
    x = tw.arange(16.0).reshape(4, 2, 1, 2)

    def loss(x):
        left, right = x.split(2, 1)[0].chunk(2, 3)
        return (left * 2).sum() + (right * 3).sum()

    assert wrap(tw.grad(loss))(x).tolist() == [[[[2, 3]], [[2, 3]]]] * 4
