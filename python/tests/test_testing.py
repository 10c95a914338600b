"""`assert_close`, the wrappers for several processes, capsules."""

import pytest

import talweg as tw


def test_assert_close_tells_what_differs():
    tw.testing.assert_close(tw.ones(2), tw.ones(2) + 1e-7)
    tw.testing.assert_close({"a": [tw.ones(1), 2.0]}, {"a": [tw.ones(1), 2.0]})
    tw.testing.assert_close(tw.tensor([float("nan")]), tw.tensor([float("nan")]), equal_nan=True)
    tw.testing.assert_close(tw.ones(2), tw.ones(2) * 1.1, rtol=0.2, atol=0.0)
    for actual, expected, text in [
        (tw.ones(2), tw.tensor([1.0, 1.5]), "1 of 2 elements differ, by up to 0.5"),
        (tw.ones(2), tw.ones(3), "shapes differ"),
        (tw.ones(2), tw.ones(2, dtype="float64"), "types differ"),
        ([1.0], [1.0, 2.0], "lengths differ"),
        ({"a": 1.0}, {"b": 1.0}, "keys differ"),
    ]:
        with pytest.raises(AssertionError, match=text):
            tw.testing.assert_close(actual, expected)
    with pytest.raises(tw.Error, match="both rtol and atol"):
        tw.testing.assert_close(1.0, 1.0, rtol=0.1)


def test_wrappers_call_their_module():
    layer = tw.nn.Linear(2, 1)
    for wrap in (tw.nn.DataParallel, tw.nn.parallel.DataParallel, tw.nn.parallel.DistributedDataParallel):
        model = wrap(layer)
        assert model(tw.ones(1, 2)).tolist() == layer(tw.ones(1, 2)).tolist() and model.module is layer
    with pytest.raises(tw.Error, match="talweg launch --workers 2"):
        tw.nn.DataParallel(layer, device_ids=[0, 1])
    assert tw.distributed.is_available() and not tw.distributed.is_initialized()
    assert (tw.distributed.get_rank(), tw.distributed.get_world_size()) == (0, 1)
    assert tw.utils.dlpack.from_dlpack(tw.ones(2)).tolist() == [1.0, 1.0]
