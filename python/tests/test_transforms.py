"""Transforms of pictures: what torchvision's do."""

import numpy as np
import pytest

import talweg as tw
from talweg.data import transforms as T
from talweg.data.filters import resized


def picture(h=6, w=8, c=3, kind="uint8"):
    x = np.random.default_rng(3).integers(256, size=(h, w, c), dtype="uint8")
    return x if kind == "uint8" else (x / 255).astype(kind)


def tensor(**settings):
    return tw.tensor(np.moveaxis(picture(**settings), -1, 0).copy())


def test_pictures_become_tensors():
    x = picture()
    t = T.ToTensor()(x)
    assert t.shape == (3, 6, 8) and t.dtype == tw.float32
    np.testing.assert_allclose(np.asarray(t), np.moveaxis(x, -1, 0) / 255, rtol=1e-6)
    assert T.ToTensor()(x[..., 0]).shape == (1, 6, 8)
    assert T.ToTensor()(x.astype("float64")).dtype == tw.float64  # numbers that are no bytes stay
    assert T.PILToTensor()(x).dtype == tw.uint8
    with pytest.raises(TypeError, match="already"):
        T.ToTensor()(t)
    back = T.ConvertImageDtype(tw.uint8)(t)
    assert back.tolist() == np.moveaxis(x, -1, 0).tolist() and T.ConvertImageDtype(tw.float32)(back).tolist() == t.tolist()
    assert T.ConvertImageDtype(tw.int16)(back)[0, 0, 0].item() == int(x[0, 0, 0]) * 128


def test_normalize():
    t = T.ToTensor()(picture())
    got = T.Normalize((0.5, 0.4, 0.3), (0.1, 0.2, 0.3))(t)
    wanted = (np.asarray(t) - np.float32([0.5, 0.4, 0.3]).reshape(3, 1, 1)) / np.float32([0.1, 0.2, 0.3]).reshape(3, 1, 1)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5)
    assert T.Normalize([0.0], [2.0])(t).shape == (3, 6, 8)
    for wrong, text in [(lambda: T.Normalize([0, 0], [1, 1])(t), "do not fit 3"), (lambda: T.Normalize([0], [0]), "is 0"), (lambda: T.Normalize([0.5], [1], inplace=True), "inplace")]:
        with pytest.raises(ValueError, match=text):
            wrong()
    with pytest.raises(TypeError, match="put ToTensor before"):
        T.Normalize([0.5], [0.5])(picture())


@pytest.mark.parametrize("make", [picture, tensor])
def test_both_kinds_of_pictures(make):
    x = make()
    as_planes = (lambda a: np.moveaxis(np.asarray(a), -1, 0)) if make is picture else np.asarray
    planes = as_planes(x)
    for t, shape in [
        (T.Resize(3), (3, 3, 4)),
        (T.Resize([5, 2]), (3, 5, 2)),
        (T.Resize(12, max_size=14), (3, 10, 14)),
        (T.CenterCrop((2, 4)), (3, 2, 4)),
        (T.CenterCrop(9), (3, 9, 9)),
        (T.RandomCrop(4), (3, 4, 4)),
        (T.RandomCrop((9, 9), padding=2), (3, 9, 9)),
        (T.RandomCrop(10, pad_if_needed=True), (3, 10, 10)),
        (T.RandomResizedCrop((4, 5)), (3, 4, 5)),
        (T.Pad([1, 2]), (3, 10, 10)),
        (T.Pad((1, 2, 3, 4), padding_mode="edge"), (3, 12, 12)),
        (T.Grayscale(), (1, 6, 8)),
        (T.Grayscale(3), (3, 6, 8)),
        (T.RandomGrayscale(1.0), (3, 6, 8)),
        (T.ColorJitter(0.4, 0.4, 0.4, 0.1), (3, 6, 8)),
        (T.RandomErasing(1.0), (3, 6, 8)),
    ]:
        got = t(x)
        assert type(got) is type(x) and as_planes(got).shape == shape and as_planes(got).dtype == np.uint8, t
    assert (as_planes(T.CenterCrop((2, 4))(x)) == planes[:, 2:4, 2:6]).all()
    assert (as_planes(T.RandomHorizontalFlip(1)(x)) == planes[:, :, ::-1]).all()
    assert (as_planes(T.RandomVerticalFlip(1)(x)) == planes[:, ::-1]).all()
    assert (as_planes(T.RandomHorizontalFlip(0)(x)) == planes).all()
    assert (as_planes(T.Pad((1, 2, 3, 4), fill=9)(x))[:, 2:8, 1:9] == planes).all()
    with pytest.raises(ValueError, match="does not fit"):
        T.RandomCrop(7)(x)
    with pytest.raises(TypeError, match="an image is"):
        T.Resize(3)("a picture")


def test_random_transforms_follow_the_generator():
    x = picture(20, 20)
    steps = T.Compose([T.RandomCrop(8), T.RandomHorizontalFlip(), T.ColorJitter(0.5, 0.5, 0.5, 0.2), T.RandomResizedCrop(5), T.ToTensor()])

    def seen():
        tw.manual_seed(3)
        return [steps(x).tolist() for _ in range(4)]

    first = seen()
    assert first == seen() and len({str(s) for s in first}) == 4
    places = {(int(T.RandomCrop(19)(np.arange(400).reshape(20, 20))[0, 0])) for _ in range(40)}
    assert places == {0, 1, 20, 21}
    count = sum(T.RandomApply([T.Lambda(lambda n: n + 1)], 0.25)(0) for _ in range(400))
    assert 60 < count < 140
    assert {T.RandomChoice([T.Lambda(lambda n: 1), T.Lambda(lambda n: 2)], [0.0, 1.0])(0) for _ in range(9)} == {2}


def test_colors():
    x = np.array([[[100, 50, 200], [0, 0, 0], [255, 255, 255]]], "uint8")
    def fixed(**settings):
        return T.ColorJitter(**{k: (v, v) for k, v in settings.items()})(x).tolist()[0]
    assert fixed(brightness=0.5) == [[50, 25, 100], [0, 0, 0], [127, 127, 127]]
    assert fixed(saturation=0.0) == [[82, 82, 82], [0, 0, 0], [254, 254, 254]]  # the weights add up to 0.9999
    assert fixed(contrast=0.0) == [[112, 112, 112]] * 3
    assert fixed(hue=1 / 3) == [[200, 100, 50], [0, 0, 0], [255, 255, 255]]
    assert T.ColorJitter(0, 0, 0, 0)(x).tolist() == x.tolist()
    for wrong in [lambda: T.ColorJitter(brightness=-1), lambda: T.ColorJitter(hue=0.6), lambda: T.ColorJitter(contrast=(2, 1))]:
        with pytest.raises(ValueError):
            wrong()
    assert T.Grayscale()(tensor(kind="float32")).shape == (1, 6, 8)


def test_scaling():
    ramp = np.arange(8, dtype="float32")[None].repeat(2, 0)
    np.testing.assert_allclose(resized(ramp, 2, 4)[0], [0.7142857, 2.5, 4.5, 6.2857143], rtol=1e-5)  # PyTorch's
    np.testing.assert_allclose(resized(ramp, 2, 4, antialias=False)[0], [0.5, 2.5, 4.5, 6.5], rtol=1e-5)
    np.testing.assert_allclose(resized(ramp, 2, 4, "nearest")[0], [0, 2, 4, 6])
    np.testing.assert_allclose(resized(ramp[:, :2], 2, 4)[0], [0, 0.25, 0.75, 1.0], atol=1e-6)
    assert resized(np.full((2, 3, 5), 7, "uint8"), 9, 2, "bicubic").tolist() == [[[7, 7]] * 9] * 2
    with pytest.raises(ValueError, match="cannot be scaled"):
        resized(ramp, 0, 3)


def test_workers_transform():
    steps = T.Compose([T.RandomCrop(4), T.ToTensor()])

    class Pictures(tw.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return steps(picture())

    def seen(n):
        tw.manual_seed(1)
        return [b.tolist() for b in tw.utils.data.DataLoader(Pictures(), batch_size=4, num_workers=n)]

    assert seen(1) == seen(2)
