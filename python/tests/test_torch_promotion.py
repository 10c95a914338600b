"""Element types of results are PyTorch's, for tensors with and without dimensions and Python's numbers.

`torch_promotion.txt` has what PyTorch 2.15 returns. There is no `complex32` here: it is `complex64`.
"""

import pathlib

import pytest

import talweg as tw

LINES = [line for line in (pathlib.Path(__file__).parent / "torch_promotion.txt").read_text().splitlines() if line[0] != "#"]
DTYPES = {line.split()[0] for line in LINES}


def tensor(name, dims):
    return tw.ones([2] * dims, dtype=getattr(tw, name))


def differ(got, want):
    """Names that are not PyTorch's, where it has a result."""
    return [(a, b) for a, b in zip(got, want.split(), strict=True) if b not in ("-", a)]


@pytest.mark.parametrize("first", sorted(DTYPES))
def test_types_are_pytorchs(first):
    for line in LINES:
        pair, _, want = line.replace("complex32", "complex64").partition(": ")
        a, b = pair.split()
        if a != first:
            continue
        if b in DTYPES:
            got = [tensor(a, x) * tensor(b, y) for x, y in ((1, 1), (1, 0), (0, 1), (0, 0))]
            asked = [tw.result_type(tensor(a, x), tensor(b, y)) for x, y in ((1, 1), (1, 0), (0, 1), (0, 0))]
            assert not differ([d.name for d in asked], want), line
        else:
            n = eval(b)
            many, one = tensor(a, 1), tensor(a, 0)
            got = [many * n, one * n, n * many, n * one, many / n, one / n]
        assert not differ([y.dtype.name for y in got], want), line


def test_a_tensor_without_dimensions_keeps_the_type_of_the_other():
    half, scale = tw.ones(2, dtype=tw.float16), tw.tensor(0.5)
    for y in (half + scale, scale - half, half / scale, tw.where(half > scale, half, scale), tw.maximum(half, scale), half**scale, half.clamp(scale, scale)):
        assert y.dtype == tw.float16
    assert (tw.ones(2, dtype=tw.int32) + tw.tensor(1)).dtype == tw.int32
    assert (tw.ones(2, dtype=tw.int64) + tw.tensor(1.5)).dtype == tw.float32
    x = tw.ones(2, dtype=tw.int32)
    x += tw.tensor(1)
    assert x.dtype == tw.int32 and (half == scale).dtype == tw.bool
    # The array API promotes an array without dimensions as any other.
    xp = tw.array_api
    assert (xp.asarray([1.0], dtype=xp.float32) * xp.asarray(2.0, dtype=xp.float64)).dtype == xp.float64
    assert xp.add(half, scale).dtype == xp.float32
    assert xp.where(half > 0, half, scale).dtype == xp.float32
