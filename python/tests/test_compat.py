"""Programs in Theano's and MXNet's names run with their imports changed, and compute what NumPy does by hand."""

import numpy as np
import pytest

import talweg as tw
import talweg.compat.mxnet as mx
import talweg.compat.theano as theano
import talweg.compat.theano.tensor as T


def test_theanos_logistic_regression():
    rng = np.random.RandomState(0)
    N, feats = 40, 8
    D = (rng.randn(N, feats), rng.randint(size=N, low=0, high=2))
    x = T.dmatrix("x")
    y = T.dvector("y")
    w = theano.shared(rng.randn(feats), name="w")
    b = theano.shared(0.0, name="b")
    W, B = w.get_value(), b.get_value()
    p_1 = 1 / (1 + T.exp(-T.dot(x, w) - b))
    prediction = p_1 > 0.5
    xent = -y * T.log(p_1) - (1 - y) * T.log(1 - p_1)
    cost = xent.mean() + 0.01 * (w**2).sum()
    gw, gb = T.grad(cost, [w, b])
    train = theano.function(inputs=[x, y], outputs=[prediction, xent], updates=((w, w - 0.1 * gw), (b, b - 0.1 * gb)))
    predict = theano.function(inputs=[x], outputs=prediction)
    for _ in range(30):
        pred, err = train(D[0], D[1])
        p = 1 / (1 + np.exp(-D[0] @ W - B))
        np.testing.assert_allclose(err, -D[1] * np.log(p) - (1 - D[1]) * np.log(1 - p), rtol=1e-9)
        g = (p - D[1]) / N
        W, B = W - 0.1 * (D[0].T @ g + 0.02 * W), B - 0.1 * g.sum()
    np.testing.assert_allclose(w.get_value(), W, rtol=1e-9)
    assert err.dtype == np.float64 and predict(D[0]).shape == (N,)


def test_theanos_classes_of_layers_with_givens():
    rng = np.random.RandomState(0)
    data_x = theano.shared(rng.randn(12, 4).astype(theano.config.floatX))
    data_y = theano.shared(np.arange(12) % 3)
    index, x, y = T.lscalar(), T.matrix("x"), T.ivector("y")
    W = theano.shared(np.zeros((4, 3)), name="W", borrow=True)
    b = theano.shared(np.zeros((3,)), name="b")
    p = T.nnet.softmax(T.dot(x, W) + b)
    cost = -T.mean(T.log(p)[T.arange(y.shape[0]), y])
    same = T.mean(T.nnet.categorical_crossentropy(p, y))
    errors = T.mean(T.neq(T.argmax(p, axis=1), y))
    updates = [(param, param - 0.5 * T.grad(cost=cost, wrt=param)) for param in (W, b)]
    batch = {x: data_x[index * 6 : (index + 1) * 6], y: data_y[index * 6 : (index + 1) * 6]}
    train = theano.function([index], cost, updates=updates, givens=batch)
    test = theano.function([index], [errors, same], givens=batch)
    first = [train(k) for k in (0, 1)]
    for _ in range(20):
        last = [train(k) for k in (0, 1)]
    assert first[0] == pytest.approx(np.log(3)) and sum(last) < sum(first)
    assert test(0)[1] == pytest.approx(T.mean(cost).eval({x: data_x.get_value()[:6], y: data_y.get_value()[:6]}))
    assert 0 <= test(0)[0] <= 1


def test_theanos_mistakes_say_what_to_do():
    x = T.dvector("x")
    with pytest.raises(tw.Error, match="T.switch"):
        bool(x > 0)
    with pytest.raises(tw.Error, match="dimensions"):
        theano.function([x], x)([[1.0]])
    with pytest.raises(tw.Error, match="inputs of function"):
        theano.function([], x * 2)()
    with pytest.raises(tw.Error, match="shared variable"):
        theano.function([x], x, updates=[(x, x)])


def test_mxnets_arrays():
    A = mx.nd.ones((2, 2)) * 2
    C = A + 2
    B = A + 1
    D = B * C
    assert D.asnumpy().tolist() == [[12.0, 12.0], [12.0, 12.0]]
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [2.0, 4.0] and y.asscalar() == 5.0
    assert mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((3, 1))).shape == (2, 1) and mx.nd.array([1]).dtype == tw.float32
