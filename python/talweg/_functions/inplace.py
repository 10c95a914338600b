"""The in-place twins of functions: ``x.exp_()`` writes ``x.exp()`` to ``x``, or to what ``x`` is a view of."""

from typing import Any

from .._checked import checked, type_error, value_error
from .dtypes import kind
from .._native import Tensor

IN_PLACE = """
abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin arcsinh arctan arctan2 arctanh
asin asinh atan atan2 atanh baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
ceil celu clamp clamp_max clamp_min clip conj_physical copysign cos cosh cumprod cumsum deg2rad digamma div divide elu eq
erf erfc erfinv exp exp2 expm1 float_power floor floor_divide fmod frac gcd ge greater greater_equal gt hardshrink
hardtanh heaviside hypot i0 index_add index_copy index_fill index_put index_reduce lcm ldexp le leaky_relu lerp less
less_equal lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt masked_fill masked_scatter
mul multiply mvlgamma nan_to_num ne neg negative nextafter not_equal polygamma pow put rad2deg reciprocal relu relu6
remainder renorm round rsqrt scatter scatter_add scatter_reduce selu sgn sigmoid sign silu sin sinc sinh softplus sqrt
square sub subtract tan tanh threshold tril triu true_divide trunc xlogy
"""


def _in_place(name: str) -> Any:
    op = getattr(Tensor, name)

    def change(self: Any, *args: Any, **settings: Any) -> Any:
        return self.copy_(fitting(name, self, op(self, *args, **settings)))

    change.__name__, change.__qualname__, change.__doc__ = name + "_", f"Tensor.{name}_", f"``{name}``, in place."
    return checked(change)


def fitting(name: str, x: Any, y: Any) -> Any:
    """A result that fits into a tensor: of its shape, and of a kind of number that it holds."""
    if y.shape != x.shape:
        shapes = f"the result has shape {tuple(y.shape)}, the tensor {tuple(x.shape)}"
        raise value_error(f"{name}_: {shapes}; a tensor keeps its shape in place")
    if kind(y.dtype) > kind(x.dtype) and y.dtype.name != "bool":
        raise type_error(f"{name}_: the result is {y.dtype}, which {x.dtype} does not hold; {name} returns a new tensor")
    return y


# Methods that reorder dimensions: the handle names the reordered value.
REORDERED = """squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_"""


def _reordered(name: str) -> Any:
    op = getattr(Tensor, name.removesuffix("_"))

    def change(self: Any, *args: Any, **settings: Any) -> Any:
        if self.is_variable:
            raise type_error(f"{name}: a variable keeps its shape; {name[:-1]} returns a new tensor")
        self.data = op(self, *args, **settings).clone()
        return self

    change.__name__, change.__qualname__, change.__doc__ = name, f"Tensor.{name}", f"``{name[:-1]}``, in place."
    return checked(change)


def install() -> None:
    """Gives ``Tensor`` the methods, when all functions are there."""
    for name in IN_PLACE.split():
        setattr(Tensor, name + "_", _in_place(name))
    for name in REORDERED.split():
        setattr(Tensor, name, _reordered(name))
