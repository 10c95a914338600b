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


@pytest.fixture
def switches():
    """Some functions accept what they are given and change the whole process: that ends with the test."""
    yield
    tw.check_numerics(False)
    if tw.distributed.is_initialized():
        tw.distributed.destroy_process_group()


def test_every_function_raises_ours(switches):
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


def rows():
    """Mistakes, the exception of Python's that people catch, and what the message says."""
    F, x = nn.functional, tw.ones(2, 3)
    weights = [nn.Parameter(tw.ones(2))]
    leaf = tw.ones(2).requires_grad_()

    return [
        # Calls.
        (lambda: tw.ones(3, dtipe="float32"), TypeError, r"ones\(\) got an unexpected keyword 'dtipe'; did you mean 'dtype'\? It takes \("),
        (lambda: nn.Linear(2, 3, bais=False), TypeError, r"Linear\(\) got .* 'bais'; did you mean 'bias'\? It takes \(in_features, out_features, bias"),
        (lambda: F.cross_entropy(x, x, weigth=1), TypeError, r"cross_entropy\(\) got .*; did you mean 'weight'\?"),
        (lambda: tw.optim.Adam(weights, learning_rate=1.0), TypeError, r"Adam\(\) got .*; did you mean 'lr'\?"),
        (lambda: tw.optim.lr_scheduler.StepLR(tw.optim.SGD(weights, lr=1.0), step=3), TypeError, "did you mean 'step_size'"),
        (lambda: tw.utils.data.DataLoader([1], batchsize=2), TypeError, "did you mean 'batch_size'"),
        (lambda: tw.func.vmap(lambda x: x, indims=1), TypeError, "did you mean 'in_dims'"),
        (lambda: tw.autograd.grad(x, x, createGraph=True), TypeError, "did you mean 'create_graph'"),
        (lambda: tw.compile(lambda x: x, backnd="a"), TypeError, "did you mean 'backend'"),
        (lambda: nn.Linear(2), TypeError, r"Linear\(\) missing 1 required .* 'out_features'; it takes \(in_features"),
        (lambda: tw.matmul(x), TypeError, r"matmul\(\) missing 1 required"),
        (lambda: tw.exp(x, 1, 2), TypeError, r"exp\(\) takes"),
        (lambda: tw.optim.Adam(nn.Linear(2, 3)), TypeError, r"parameters\(\)"),
        (lambda: tw.optim.SGD([], lr=1.0), ValueError, "no parameters"),
        # Shapes and types.
        (lambda: tw.ones(2, 3) @ tw.ones(4, 5), ValueError, r"matmul: inner sizes differ: \[2, 3\] × \[4, 5\]"),
        (lambda: tw.ones(2, 3) + tw.ones(4), ValueError, r"add: shapes do not broadcast: \[2, 3\] and \[4\]"),
        (lambda: nn.Linear(3, 4)(tw.ones(2, 5)), ValueError, r"linear: .*\[2, 5\] and \[4, 3\]"),
        (lambda: tw.cat([tw.ones(2, 3), tw.ones(3, 2)]), ValueError, r"\[2, 3\] and \[3, 2\]"),
        (lambda: tw.ones(2, 3).reshape(4, 2), ValueError, "6 elements"),
        (lambda: F.cross_entropy(tw.ones(4, 3), tw.tensor([0, 1, 2, 3])).item(), IndexError, "class 3 is not among"),
        (lambda: F.cross_entropy(tw.ones(4, 3), tw.ones(4)), ValueError, r"labels must be integers of shape \[4\], or probabilities of shape \[4, 3\], not float32"),
        (lambda: nn.Conv2d(3, 8, 3)(tw.ones(1, 32, 32, 3)), ValueError, r"NCHW.*not the last"),
        (lambda: nn.LSTM(4, 5)(tw.ones(7, 2, 3)), ValueError, "LSTM: expected inputs of size 4, not 3"),
        (lambda: nn.GRUCell(4, 5)(tw.ones(2, 3)), ValueError, "GRUCell: expected inputs of size 4, not 3"),
        (lambda: nn.Embedding(4, 5)(tw.tensor([1.0])), TypeError, "embedding: the index must be integers, not float32"),
        (lambda: tw.ones(2)[5], IndexError, "index 5 is out of range"),
        (lambda: tw.ones(2).item(), ValueError, "item: only a tensor of one element"),
        (lambda: tw.ones(2, 3).softmax(5), IndexError, "softmax: axis 5"),
        (lambda: tw.tensor([[1, 2], [3]]), ValueError, "rows differ in length"),
        (lambda: nn.Linear(2, 3).load_state_dict({"w": x}), KeyError, "missing .*'weight'.* unexpected .*'w'"),
        (lambda: tw.scan(lambda c, r: (c.sum(), c), tw.ones(2), tw.ones(3)), ValueError, r"float32\[2\] at first, but the body returns float32\[\]"),
        (lambda: tw.vmap(lambda a, b: a)(tw.ones(2), tw.ones(3)), ValueError, "batch sizes differ: 2 and 3"),
        # Gradients.
        (lambda: tw.tensor([1, 2]).requires_grad_(), TypeError, "only floats and complex numbers can require gradients, but this tensor is talweg.int64"),
        (lambda: tw.tensor([1, 2], requires_grad=True), TypeError, "can require gradients, but this tensor is talweg.int64"),
        (lambda: leaf.add_(1.0), RuntimeError, r"cannot be changed in place outside of tw\.no_grad\(\)"),
        (lambda: (leaf * 2).backward(), RuntimeError, r"but this is float32\[2\]"),
        (lambda: tw.grad(leaf.sum(), [leaf]), TypeError, r"tw\.autograd\.grad\("),
        # Inside of jit.
        (lambda: tw.jit(lambda a: a if a > 0 else -a)(tw.tensor(1.0)), ValueError, r"tw\.where or tw\.cond"),
        (lambda: tw.jit(lambda a: a[a > 0])(x), ValueError, "unknown while the function is traced"),
        (lambda: tw.jit(lambda a: a.numpy())(x), ValueError, "unknown while the function is traced"),
    ]


@pytest.mark.parametrize("row", range(len(rows())))
def test_mistakes(row):
    call, kind, text = rows()[row]
    with pytest.raises(tw.Error, match=text) as info:
        call()
    e = info.value
    assert isinstance(e, kind)
    # One traceback, with the line of the program; no word of what is inside.
    assert e.__cause__ is None and (e.__context__ is None or e.__suppress_context__)
    assert f"test_errors.py:{call.__code__.co_firstlineno}" in str(e)
    for word in ["Session", "while_loop_within", "f32", "i64", "PyErr", "NoneType"]:
        assert word not in str(e).split(" (at ")[0].replace("float32", "").replace("int64", ""), word


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
