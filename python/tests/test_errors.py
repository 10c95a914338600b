"""Wrong arguments: what is raised is one of ours and one of Python's, and names the line of the program."""

import inspect

import pytest

import talweg as tw
from talweg import nn

SPACES = {
    "tw": tw,
    "tw.linalg": tw.linalg,
    "tw.fft": tw.fft,
    "tw.random": tw.random,
    "nn": nn,
    "nn.functional": nn.functional,
    "optim": tw.optim,
    "lr_scheduler": tw.optim.lr_scheduler,
    "metrics": tw.metrics,
    "distributed": tw.distributed,
    "train": tw.train,
    "data": tw.utils.data,
}
# These write or read files, or may rightly run for ever.
EXCLUDED = {"tw.save", "tw.load", "data.fashion_mnist", "Tensor.backward"}
# Classes without a constructor, and functions that Python programs give to each other.
NO_CONSTRUCTOR = "cannot create"
# How a function is called at all is Python's to say.
COUNTS = ["positional argument", "unexpected keyword", "takes no arguments", "takes no keyword"]


def targets():
    for space, where in SPACES.items():
        for name in getattr(where, "__all__", None) or dir(where):
            f = getattr(where, name)
            if name.startswith("_") or not callable(f) or (inspect.isclass(f) and issubclass(f, BaseException)):
                continue
            yield f"{space}.{name}", f
    for name in dir(tw.Tensor):
        if not name.startswith("_") and callable(getattr(tw.Tensor, name)):
            yield f"Tensor.{name}", lambda *args, name=name: getattr(tw.ones(2, 2), name)(*args)


def wrong_arguments():
    x = tw.ones(2, 2)
    yield from [("a",), (object(),), (x, "a"), (x, object()), (x, 1, "a"), (2, "a"), (2, 2, "a"), (x, x, object()), (2, 2, 2, object())]


def test_every_function_raises_ours():
    plain, raised = [], 0
    for name, f in targets():
        if name in EXCLUDED:
            continue
        for args in wrong_arguments():
            try:
                f(*args)
            except tw.Error as e:
                raised += 1
                assert isinstance(e, (TypeError, ValueError, LookupError, ArithmeticError, OSError, RuntimeError)), name
            except Exception as e:
                if not any(c in str(e) for c in [NO_CONSTRUCTOR, *COUNTS]):
                    plain.append(f"{name}({', '.join(type(a).__name__ for a in args)}): {e!r}")
    assert not plain, "\n".join(plain[:40])
    assert raised > 2000


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda: nn.Linear(3, "b"), TypeError, "out_features"),
        (lambda: tw.ones(2) + "a", TypeError, "add: expected a tensor, a number or an array, not str"),
        (lambda: "a" - tw.ones(2), TypeError, "sub: expected"),
        (lambda: tw.ones(2) < "a", TypeError, "lt: expected"),
        (lambda: tw.ones(2) ** None, TypeError, "pow: expected"),
        (lambda: tw.ones(2).sum(axis="a"), TypeError, "int"),
        (lambda: tw.exp("a"), TypeError, "str"),
        (lambda: tw.ones(2).softmax("a"), TypeError, "integer"),
        (lambda: tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr="a"), ValueError, "float"),
        (lambda: tw.optim.SGD(3), TypeError, "SGD"),
        (lambda: tw.optim.lr_scheduler.StepLR("a", 2), TypeError, "StepLR"),
        (lambda: tw.utils.data.DataLoader(range(3), batch_size="a"), TypeError, "DataLoader"),
        (lambda: nn.Linear(2, 2).load_state_dict({}), KeyError, "missing"),
        (lambda: tw.ones(2**40).exp().numpy(), MemoryError, "out of memory"),
        (lambda: tw.zeros(*[1] * 81), ValueError, "81 dimensions, but 64 is the most"),
    ],
)
def test_names_the_line(call, kind, text):
    with pytest.raises(tw.Error, match=text) as info:
        call()
    assert isinstance(info.value, kind)
    assert f"test_errors.py:{call.__code__.co_firstlineno}" in str(info.value)


class Known:
    """A class that knows what to do with tensors."""

    def __radd__(self, other):
        return ("radd", other.shape)

    def __gt__(self, other):
        return ("gt", other.shape)


def test_operators_are_left_to_classes_that_define_them():
    assert tw.ones(2) + Known() == ("radd", (2,))
    assert (tw.ones(2) < Known()) == ("gt", (2,))
    assert (tw.ones(2) == "a") is False
    assert "%s" % tw.tensor(1.0) == "tensor(1.)"


def test_what_functions_raise_stays_as_it_is():
    def wrong(x):
        return x + {}["missing"]

    with pytest.raises(KeyError) as info:
        tw.jvp(wrong, (tw.ones(2),), (tw.ones(2),))
    assert not isinstance(info.value, tw.Error)


def test_functions_take_what_can_become_a_tensor():
    assert tw.exp([0.0]).tolist() == [1.0]
    assert nn.functional.relu(-1.0).item() == 0.0
    assert tw.linalg.det([[2.0, 0.0], [0.0, 3.0]]).item() == 6.0
