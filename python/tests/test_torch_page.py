"""The page of PyTorch's names: current, every absent name with a reason, and the error of absent names the same."""

import importlib.util
import os
from pathlib import Path

import pytest

import talweg as tw

HERE = Path(__file__).parent


def generator():
    spec = importlib.util.spec_from_file_location("torch_page", HERE.parent / "torch_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = generator()


def test_the_page_is_current():
    text = PAGE.page()
    if os.environ.get("TALWEG_BLESS"):
        PAGE.PAGE.write_text(text)
    assert PAGE.PAGE.read_text() == text, "run TALWEG_BLESS=1 pytest python/tests/test_torch_page.py"


def test_every_absent_name_has_a_reason():
    without = [f"{title}.{name}" for (title, name), (state, words) in PAGE.table().items() if state == "absent" and not words]
    assert not without


def test_what_differs_is_a_name_of_pytorch():
    names = {f"{title}.{name}" for title in PAGE.SPACES for name in PAGE.NAMES[title]}
    assert not [n for n in PAGE._differences.DIFFERS if n not in names]


def test_most_names_are_the_same():
    states = [state for state, _ in PAGE.table().values()]
    # Of PyTorch's 2,099 names about 400 are internal to it.
    assert states.count("same") >= 1250


@pytest.mark.parametrize(
    ("space", "name", "words"),
    [
        (tw, "sparse_coo_tensor", "talweg has no sparse_coo_tensor: there are no sparse tensors"),
        (tw, "resize_as_", "a tensor keeps its shape"),
        (tw, "cudnn_convolution", "kernels for a back end"),
        (tw.nn, "NLLLoss2d", "talweg.nn has no NLLLoss2d: deprecated"),
        (tw.linalg, "ldl_factor", "use `linalg.cholesky`"),
        (tw, "no_such_name", "talweg has no no_such_name"),
    ],
)
def test_an_absent_name_says_what_to_write_instead(space, name, words):
    assert not hasattr(space, name)
    with pytest.raises(AttributeError) as caught:
        getattr(space, name)
    assert isinstance(caught.value, tw.Error) and words in str(caught.value)
    assert caught.value.name == name


def test_in_place_functions_are_the_methods():
    x = tw.tensor([-1.0, 2.0])
    assert tw.abs_(x) is x and x.tolist() == [1.0, 2.0]


def test_a_submodule_is_still_imported():
    from talweg import metrics

    assert metrics.__name__ == "talweg.metrics"
    with pytest.raises(ImportError):
        exec("from talweg import no_such_name")
