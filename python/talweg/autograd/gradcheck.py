"""Gradients against finite differences."""

from .. import _native, _tree
from .._native import Tensor
from ..errors import GradientError

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(GradientError):
    """A gradient that differs from finite differences."""


def _outputs(out):
    return [y for y in _tree.flatten(out)[0] if isinstance(y, Tensor) and y.dtype.is_floating_point]


def _numerical(f, inputs, at, eps):
    """A list with the derivative of each output along each element of an input: columns."""
    x = inputs[at]
    flat = x.detach().reshape((-1,))
    columns = []
    for i in range(flat.numel()):
        ends = []
        for sign in (1.0, -1.0):
            moved = flat.clone()
            moved[i] = moved[i] + sign * eps
            args = list(inputs)
            args[at] = moved.reshape(tuple(x.shape)).requires_grad_()
            ends.append([y.detach() for y in _outputs(f(*args))])
        columns.append([(a - b) / (2 * eps) for a, b in zip(*ends)])
    return columns


def _analytical(f, inputs, at, is_unused_zero):
    """The same from gradients: for each output, a matrix of its elements by those of the input."""
    found = []
    for y in _outputs(f(*inputs)):
        if not y.requires_grad:
            found.append(_native.zeros((y.numel(), inputs[at].numel()), dtype=y.dtype))
            continue
        rows = []
        for i in range(y.numel()):
            seed = _native.zeros(y.numel(), dtype=y.dtype)
            seed[i] = 1.0
            (g,) = _native.autograd_grad([y], [seed.reshape(tuple(y.shape))], [inputs[at]], True, False)
            rows.append(_native.zeros(inputs[at].numel(), dtype=y.dtype) if g is None else g.reshape((-1,)).astype(y.dtype))
        found.append(Tensor.stack(rows, 0) if rows else _native.zeros((0, inputs[at].numel()), dtype=y.dtype))
    return found


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    fast_mode=False,
):
    """True if the gradients of a function agree with finite differences; use ``float64``. A mismatch raises, or with
    ``raise_exception=False`` returns False. Every element is looked at, also with ``fast_mode``.

    >>> x = tw.tensor([0.3, -0.5], dtype=tw.float64, requires_grad=True)
    >>> tw.autograd.gradcheck(lambda x: x.sin() * x, x)
    True
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise GradientError(_native.located("gradcheck: no input requires gradients"))
    if not _outputs(func(*inputs)):
        raise GradcheckError(_native.located("gradcheck: the function returns no float tensor"))
    for at in wanted:
        exact, near = _analytical(func, inputs, at, True), _numerical(func, inputs, at, eps)
        for o, matrix in enumerate(exact):
            if not near or not matrix.numel():
                continue
            other = Tensor.stack([column[o].reshape((-1,)) for column in near], 1)
            off = (matrix - other).abs() > atol + rtol * other.abs()
            if bool(off.any()) or bool((matrix - other).isnan().any()):
                if not raise_exception:
                    return False
                e = (
                    f"gradcheck: the gradient of output {o} with respect to input {at} differs from finite differences:\n"
                    f"numerical: {other}\nanalytical: {matrix}"
                )
                raise GradcheckError(_native.located(e))
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    fast_mode=False,
):
    """True if the second derivatives of a function agree with finite differences of its gradients.

    >>> x = tw.tensor([0.3, -0.5], dtype=tw.float64, requires_grad=True)
    >>> tw.autograd.gradgradcheck(lambda x: x.sin() * x, x)
    True
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    outs = _outputs(func(*inputs))
    if grad_outputs is None:
        grads = [(_native.randn(tuple(y.shape), dtype=y.dtype) * 0.5 + 1.0).requires_grad_() for y in outs]
    else:
        grads = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    n = len(inputs)

    def slopes(*args):
        ys = _outputs(func(*args[:n]))
        xs = [x for x in args[:n] if isinstance(x, Tensor) and x.requires_grad]
        pairs = [(y, g) for y, g in zip(ys, args[n:]) if y.requires_grad]
        found = _native.autograd_grad([y for y, _ in pairs], [g for _, g in pairs], xs, True, True)
        return tuple(g for g in found if g is not None)

    return gradcheck(slopes, [*inputs, *grads], eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
