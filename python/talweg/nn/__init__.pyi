"""Models: modules whose parameters are found by attribute, layers, losses."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from .. import Tensor
from .. import dtype
from .. import DTypeLike
from .. import Update
from ..train import Callback
from ..train import History
from ..train import Silent
from ..train import Trainer
from ..utils.data import Subset
from . import functional as functional
from . import init as init
from . import utils as utils

class Module:
    """The base of models: a subclass sets modules and parameters as attributes and has ``forward``.

    >>> class Mlp(Module):
    ...     def __init__(self):
    ...         self.hidden = Linear(4, 8)
    ...         self.out = Linear(8, 2)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())"""
    training: bool
    def __getattr__(self, name: str) -> Any: ...
    def add_module(self, name: str, module: Module) -> None:
        """The same as setting an attribute."""
    def apply(self, f: Callable[[Module], Any]) -> Self:
        """Calls ``f`` with every module, the innermost first."""
    def buffers(self) -> Iterator[Tensor]:
        ...
    def children(self) -> Iterator[Module]:
        ...
    def cpu(self) -> Tensor:
        """Moves everything to the host."""
    def cuda(self, index: Any = 0) -> Tensor:
        """Moves everything to a GPU."""
    def eval(self) -> Self:
        """Switches to inference."""
    def extra_repr(self) -> str:
        """What stands between the brackets of ``repr``."""
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Takes values by path; arrays of other libraries are converted. Nothing changes if one does not fit."""
    def modules(self) -> Iterator[Module]:
        ...
    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        ...
    def named_children(self) -> Iterator[tuple[str, Module]]:
        ...
    def named_modules(self, prefix: str = '', memo: set[int] | None = None) -> Iterator[tuple[str, Module]]:
        ...
    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Trained variables with their paths; a shared one stands under its first."""
    def num_parameters(self) -> int:
        """Number of trained elements."""
    def parameters(self) -> Iterator[Tensor]:
        ...
    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """A tensor that is part of the state but not trained."""
    def register_parameter(self, name: str, param: Tensor) -> None:
        """The same as setting an attribute."""
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freezes or unfreezes all parameters."""
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by path: what a file needs."""
    def to(self, device: str | None) -> Self:
        """Moves all parameters and buffers to a device; what the model computes is computed there.

        Types stay: ``tw.autocast`` computes in 16 bits with parameters in ``float32``."""
    def train(self, mode: bool = True) -> Self:
        """Switches to training, or with ``False`` to inference."""
    def zero_grad(self) -> None:
        """Forgets all collected gradients."""

class BCELoss(Module):
    """Cross entropy of these probabilities with target probabilities, each element optionally
    weighted, reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class BCEWithLogitsLoss(Module):
    """Cross entropy of the probabilities with these logits with target probabilities; each element
    and the positive class optionally weighted; reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class CELU(Module):
    """x where it is positive, else alpha (exp(x / alpha) - 1), elementwise.

    >>> tensor([-2.0, 0.0, 3.0]).celu(2.0).tolist()  # by hand: 2 (1/e - 1)
    [-1.2642411176571153, 0.0, 3.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class CTCLoss(Module):
    """Connectionist temporal classification as a module: see ``functional.ctc_loss``."""
    def __init__(self, blank: int = 0, reduction: str = 'mean', zero_infinity: bool = False) -> None: ...
    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        ...
    def __call__(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor: ...

class CosineEmbeddingLoss(Module):
    """1 − cos where the target is 1, max(0, cos − margin) where it is −1, cos the cosine of the
    angle with `other` along the last axis, reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class CrossEntropyLoss(Module):
    """Cross entropy of these logits `[N, C, *D]` (or `[C]`) with class numbers `[N, *D]` or class
    probabilities `[N, C, *D]`."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class ELU(Module):
    """x where it is positive, else alpha (exp(x) - 1), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).elu(2.0).tolist()  # by hand: 2 (1/e - 1)
    [-1.2642411176571153, 0.0, 3.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class GELU(Module):
    """x Φ(x) with the normal distribution function Φ, elementwise; exact, by the error function."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class GaussianNLLLoss(Module):
    """Negative log-likelihood of a target under a normal distribution with this mean and the given
    variance (at least `eps`, usually 1e-6); with its constant term if `full`; reduced. A variance
    without the last dimension is that of whole rows."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class Hardshrink(Module):
    """x, but 0 where its size is not above `lambda`, elementwise.

    >>> tensor([-1.0, 0.25, 0.5, 2.0]).hardshrink(0.5).tolist()  # by hand
    [-1.0, 0.0, 0.0, 2.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Hardsigmoid(Module):
    """(x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 3.0]).hardsigmoid().tolist()  # by hand
    [0.0, 0.5, 0.75, 1.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Hardswish(Module):
    """x times (x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 6.0]).hardswish().tolist()  # by hand
    [0.0, 0.0, 1.125, 6.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Hardtanh(Module):
    """x held in [lo, hi], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 3.0]).hardtanh(-1.0, 1.0).tolist()  # by hand
    [-1.0, 0.5, 1.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class HingeEmbeddingLoss(Module):
    """This distance where the target is 1, max(0, margin − distance) where it is −1, reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class HuberLoss(Module):
    """d² / 2 where the difference |d| from a target is at most delta, else
    delta (|d| − delta / 2), reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class Identity(Module):
    """What comes in.

    >>> import talweg as tw
    >>> tw.nn.Identity()(tw.ones(2)).tolist()
    [1.0, 1.0]"""
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class KLDivLoss(Module):
    """Kullback-Leibler divergence of these log-probabilities from a target, which is given as its
    logarithm if `log_target`, reduced ([`Reduction::BatchMean` is the mathematical one)."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class L1Loss(Module):
    """The absolute difference from a target, reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class LeakyReLU(Module):
    """x where it is positive, else `slope` times x, elementwise.

    >>> tensor([-2.0, 0.0, 3.0]).leaky_relu(0.25).tolist()  # by hand
    [-0.5, 0.0, 3.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class LogSigmoid(Module):
    """log(sigmoid(x)) without overflow, elementwise."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class LogSoftmax(Module):
    """The logarithm of softmax along an axis, computed without it."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class MSELoss(Module):
    """The squared difference from a target, reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class MarginRankingLoss(Module):
    """max(0, margin − t (this − other)) for a target t of 1 (this above) or −1 (other above),
    reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class Mish(Module):
    """x tanh(softplus(x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098]).mish().tolist()  # by hand: tanh(log 4) = 15/17
    [0.0, 0.969363784118920]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class ModuleDict(Module):
    """Modules by name.

    >>> import talweg as tw
    >>> heads = tw.nn.ModuleDict({"a": tw.nn.Linear(2, 1)})
    >>> list(heads.keys()), heads["a"](tw.ones(1, 2)).shape
    (['a'], (1, 1))"""
    def __init__(self, modules: Any = None) -> None: ...
    def __getitem__(self, name: str) -> Any:
        ...
    def __len__(self) -> int:
        ...
    def __setitem__(self, name: str, module: Module) -> None:
        ...
    def items(self) -> Iterable[tuple[str, Module]]:
        ...
    def keys(self) -> Iterable[str]:
        ...

class ModuleList(Module):
    """Modules by number.

    >>> import talweg as tw
    >>> layers = tw.nn.ModuleList(tw.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)"""
    def __init__(self, modules: Any = ...) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def append(self, module: Module) -> Self:
        ...
    def extend(self, modules: Any) -> Self:
        ...

class NLLLoss(Module):
    """Minus these log-probabilities `[N, C, *D]` (or `[C]`) at the classes `[N, *D]`."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class Parameter:
    """A tensor that a module trains. Any trainable variable is one.

    >>> import talweg as tw
    >>> p = tw.nn.Parameter(tw.zeros(2))
    >>> p.requires_grad, isinstance(p, tw.nn.Parameter)
    (True, True)"""
    def __init__(self, data: Any, requires_grad: bool = True) -> None: ...

class ParameterList(Module):
    """Parameters by number.

    >>> import talweg as tw
    >>> len(tw.nn.ParameterList([tw.zeros(2), tw.zeros(3)]))
    2"""
    def __init__(self, parameters: Iterable[Tensor] = ...) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def append(self, parameter: Tensor) -> Self:
        ...

class PixelShuffle(Module):
    """Channels spread over pixels `factor` times as fine: `[.., c·f², h, w]` becomes
    `[.., c, h·f, w·f]`."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class PixelUnshuffle(Module):
    """Blocks of `factor` × `factor` pixels gathered into channels: the inverse of `pixel_shuffle`."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class PoissonNLLLoss(Module):
    """Negative log-likelihood of counts under Poisson distributions with these rates."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class QuantizedLinear(Module):
    """A trained ``Linear`` with a weight of 8-bit integers and a scale for each output, for inference: a quarter of
    the memory, and on processors that multiply bytes several times as fast. Each row of x is quantized as it comes.

    >>> import talweg as tw
    >>> tw.nn.QuantizedLinear(tw.nn.Linear(4, 2))(tw.ones(3, 4)).shape
    (3, 2)"""
    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    def __init__(self, linear: Linear) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class ReLU(Module):
    """max(x, 0), elementwise."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class ReLU6(Module):
    """x held in [0, 6], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 7.0]).relu6().tolist()  # by hand
    [0.0, 0.5, 6.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class SELU(Module):
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer.

    >>> tensor([-1.0, 0.0, 1.0]).selu().tolist()  # Klambauer and others, equations 2 and 14
    [-1.1113307378125625, 0.0, 1.0507009873554805]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Sequential(Module):
    """Modules one after the other.

    >>> import talweg as tw
    >>> model = tw.nn.Sequential(tw.nn.Linear(4, 8), tw.nn.ReLU(), tw.nn.Linear(8, 2))
    >>> model(tw.ones(1, 4)).shape, len(model)
    ((1, 2), 3)"""
    def __init__(self, *modules: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def append(self, module: Module) -> Self:
        ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class SiLU(Module):
    """x sigmoid(x), elementwise; also known as swish.

    >>> tensor([0.0, 1.0986122886681098]).silu().tolist()  # by hand: 3/4 log 3
    [0.0, 0.8239592165010823]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Sigmoid(Module):
    """1 / (1 + exp(-x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098, -800.0]).sigmoid().tolist()  # by hand: the logit of 3/4 is log 3
    [0.5, 0.75, 0.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class SmoothL1Loss(Module):
    """d² / (2 beta) where the difference |d| from a target is below beta, else |d| − beta / 2,
    reduced."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class Softmax(Module):
    """exp(x) divided by its sum along an axis, without overflow."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Softmin(Module):
    """Softmax of the negative along an axis."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Softplus(Module):
    """log(1 + exp(beta x)) / beta, elementwise; x itself where beta x is above `threshold`."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Softshrink(Module):
    """x moved toward 0 by `lambda`, but not beyond 0, elementwise.

    >>> tensor([-1.0, 0.25, 2.0]).softshrink(0.5).tolist()  # by hand
    [-0.5, 0.0, 1.5]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Softsign(Module):
    """x / (1 + |x|), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).softsign().tolist()  # by hand
    [-0.5, 0.0, 0.75]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Tanh(Module):
    """Hyperbolic tangent, elementwise.

    >>> tensor([0.0, 1.0]).tanh().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.7615941559557649]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Tanhshrink(Module):
    """x - tanh(x), elementwise.

    >>> tensor([0.0, 1.0]).tanhshrink().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.23840584404423515]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class TripletMarginLoss(Module):
    """max(0, margin + |a − p| − |a − n|) for this anchor a, a positive p and a negative n."""
    def __init__(self, **settings: Any) -> None: ...
    def forward(self, *tensors: Any) -> Tensor:
        ...
    def __call__(self, *tensors: Any) -> Tensor: ...

class AdaptiveAvgPool1d(Module):
    """As many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AdaptiveAvgPool2d(Module):
    """As many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AdaptiveAvgPool3d(Module):
    """As many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AdaptiveMaxPool1d(Module):
    """As many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AdaptiveMaxPool2d(Module):
    """As many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AdaptiveMaxPool3d(Module):
    """As many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AvgPool1d(Module):
    """The mean of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AvgPool2d(Module):
    """The mean of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class AvgPool3d(Module):
    """The mean of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Conv1d(Module):
    """Convolution of signals ``[N, C, L]``."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Conv2d(Module):
    """Convolution of pictures ``[N, C, H, W]``."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Conv3d(Module):
    """Convolution of volumes ``[N, C, D, H, W]``."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class ConvTranspose1d(Module):
    """Transposed convolution of signals."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class ConvTranspose2d(Module):
    """Transposed convolution of pictures."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class ConvTranspose3d(Module):
    """Transposed convolution of volumes."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Dropout(Module):
    """Sets elements to zero with probability ``p``, in training only.

    >>> import talweg as tw
    >>> tw.nn.Dropout(0.5).eval()(tw.ones(3)).tolist()
    [1.0, 1.0, 1.0]"""
    def __init__(self, p: float = 0.5) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Embedding(Module):
    """Row i of a table for each whole number i.

    >>> import talweg as tw
    >>> tw.nn.Embedding(10, 4)(tw.tensor([[1, 2], [3, 4]])).shape
    (2, 2, 4)"""
    def __init__(self, num_embeddings: int, embedding_dim: int) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Flatten(Module):
    """Several dimensions as one.

    >>> import talweg as tw
    >>> tw.nn.Flatten()(tw.ones(2, 3, 4)).shape
    (2, 12)"""
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class GAT(Module):
    """Graph attention; ``concat`` puts the heads side by side, else they are averaged.

    >>> import talweg as tw
    >>> tw.nn.GAT(3, 4, heads=2)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    (3, 8)"""
    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True) -> None: ...
    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor, edges: Tensor) -> Tensor: ...

class GCN(Module):
    """Graph convolution of nodes ``[N, inputs]`` along edges ``[2, E]``.

    >>> import talweg as tw
    >>> tw.nn.GCN(3, 4)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    (3, 4)"""
    def __init__(self, in_channels: int, out_channels: int) -> None: ...
    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor, edges: Tensor) -> Tensor: ...

class GroupNorm(Module):
    """Mean 0 and variance 1 over groups of channels, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.GroupNorm(2, 4)(tw.randn(3, 4, 5)).shape
    (3, 4, 5)"""
    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-05) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dimensions, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.LayerNorm(4)(tw.randn(2, 4)).shape
    (2, 4)"""
    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-05, bias: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class Linear(Module):
    """y = x Wᵀ + b on the last dimension.

    >>> import talweg as tw
    >>> tw.nn.Linear(4, 2)(tw.ones(3, 4)).shape
    (3, 2)"""
    weight: Tensor
    bias: Tensor | None
    in_features: int
    out_features: int
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class MaxPool1d(Module):
    """The largest element of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class MaxPool2d(Module):
    """The largest element of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class MaxPool3d(Module):
    """The largest element of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class MultiheadAttention(Module):
    """Attention with several heads on ``[N, L, E]``.

    >>> import talweg as tw
    >>> x = tw.randn(2, 5, 8)
    >>> tw.nn.MultiheadAttention(8, 2)(x, x, x, is_causal=True).shape
    (2, 5, 8)"""
    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, *, batch_first: bool = True) -> None: ...
    def forward(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, *, key_lengths: Tensor | None = None) -> Tensor:
        """``attn_mask``: true (or 0) takes part; PyTorch's bool masks say the opposite. ``key_lengths [N]``: how many
        keys of each sequence count."""
    def __call__(self, query: Tensor, key: Tensor, value: Any, attn_mask: Tensor | None = None, is_causal: bool = False, *, key_lengths: Tensor | None = None) -> Tensor: ...

class RMSNorm(Module):
    """Divided by the root of the mean square over the last dimensions, then scaled.

    >>> import talweg as tw
    >>> tw.nn.RMSNorm(4)(tw.randn(2, 4)).shape
    (2, 4)"""
    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-06) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class BatchNorm1d(Module):
    """Batch normalization of ``[N, C]`` or ``[N, C, L]``.

    >>> import talweg as tw
    >>> tw.nn.BatchNorm1d(4)(tw.randn(3, 4)).shape
    (3, 4)"""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class BatchNorm2d(Module):
    """Batch normalization of ``[N, C, H, W]``.

    >>> import talweg as tw
    >>> tw.nn.BatchNorm2d(4)(tw.randn(3, 4, 5, 5)).shape
    (3, 4, 5, 5)"""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class BatchNorm3d(Module):
    """Batch normalization of ``[N, C, D, H, W]``.

    >>> import talweg as tw
    >>> tw.nn.BatchNorm3d(4)(tw.randn(3, 4, 2, 2, 2)).shape
    (3, 4, 2, 2, 2)"""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1) -> None: ...
    def forward(self, x: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor) -> Tensor: ...

class GRU(Module):
    """Gated recurrent units.

    >>> import talweg as tw
    >>> y, h = tw.nn.GRU(3, 4, bidirectional=True)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    ((5, 2, 8), (2, 2, 4))"""
    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False) -> None: ...
    def forward(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """The visible state at every step, and the last state.

        With ``lengths`` of sequences that are filled up at the end, results behind a sequence's end are zero, and
        its last state is that of its own last step: PyTorch's packed sequences, in any order."""
    def __call__(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, Tensor]: ...

class LSTM(Module):
    """Long short-term memory; the state is the pair (h, c).

    >>> import talweg as tw
    >>> y, (h, c) = tw.nn.LSTM(3, 4, batch_first=True)(tw.randn(2, 5, 3))
    >>> y.shape, h.shape, c.shape
    ((2, 5, 4), (1, 2, 4), (1, 2, 4))"""
    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False) -> None: ...
    def forward(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The visible state at every step, and the last state.

        With ``lengths`` of sequences that are filled up at the end, results behind a sequence's end are zero, and
        its last state is that of its own last step: PyTorch's packed sequences, in any order."""
    def __call__(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...

class RNN(Module):
    """Elman's recurrent network.

    >>> import talweg as tw
    >>> y, h = tw.nn.RNN(3, 4)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    ((5, 2, 4), (1, 2, 4))"""
    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False) -> None: ...
    def forward(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """The visible state at every step, and the last state.

        With ``lengths`` of sequences that are filled up at the end, results behind a sequence's end are zero, and
        its last state is that of its own last step: PyTorch's packed sequences, in any order."""
    def __call__(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, Tensor]: ...

class TransformerDecoder(Module):
    """Decoder layers on top of each other, copies of the one that is given, all with the same memory.

    >>> import talweg as tw
    >>> layer = tw.nn.TransformerDecoderLayer(8, 2, 16)
    >>> tw.nn.TransformerDecoder(layer, 2)(tw.randn(2, 5, 8), tw.randn(2, 7, 8)).shape
    (2, 5, 8)"""
    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Any = None) -> None: ...
    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor:
        ...
    def __call__(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor: ...

class TransformerDecoderLayer(Module):
    """Attention to itself, attention to a memory, and a two-layer network.

    >>> import talweg as tw
    >>> x = tw.randn(2, 5, 8)
    >>> tw.nn.TransformerDecoderLayer(8, 2, 16)(x, x, tgt_is_causal=True).shape
    (2, 5, 8)"""
    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: str = 'relu', *, norm_first: bool = False, batch_first: bool = True) -> None: ...
    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor:
        ...
    def __call__(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor: ...

class TransformerEncoder(Module):
    """Encoder layers on top of each other, copies of the one that is given.

    >>> import talweg as tw
    >>> layer = tw.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> tw.nn.TransformerEncoder(layer, 3)(tw.randn(2, 5, 8)).shape
    (2, 5, 8)"""
    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Any = None) -> None: ...
    def forward(self, src: Tensor, mask: Tensor | None = None, is_causal: bool = False, *, src_lengths: Tensor | None = None) -> Tensor:
        ...
    def __call__(self, src: Tensor, mask: Tensor | None = None, is_causal: bool = False, *, src_lengths: Tensor | None = None) -> Tensor: ...

class TransformerEncoderLayer(Module):
    """Attention and a two-layer network, each with a residual and a normalization.

    >>> import talweg as tw
    >>> tw.nn.TransformerEncoderLayer(8, 2, 16)(tw.randn(2, 5, 8)).shape
    (2, 5, 8)"""
    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: str = 'relu', *, norm_first: bool = False, batch_first: bool = True) -> None: ...
    def forward(self, src: Tensor, mask: Tensor | None = None, is_causal: bool = False, *, src_lengths: Tensor | None = None) -> Tensor:
        ...
    def __call__(self, src: Tensor, mask: Tensor | None = None, is_causal: bool = False, *, src_lengths: Tensor | None = None) -> Tensor: ...

adaptive_avg_pool1d = Tensor.adaptive_avg_pool1d
adaptive_avg_pool2d = Tensor.adaptive_avg_pool2d
adaptive_avg_pool3d = Tensor.adaptive_avg_pool3d
adaptive_max_pool1d = Tensor.adaptive_max_pool1d
adaptive_max_pool2d = Tensor.adaptive_max_pool2d
adaptive_max_pool3d = Tensor.adaptive_max_pool3d
avg_pool1d = Tensor.avg_pool1d
avg_pool2d = Tensor.avg_pool2d
avg_pool3d = Tensor.avg_pool3d
bilinear = Tensor.bilinear
binary_cross_entropy = Tensor.binary_cross_entropy
binary_cross_entropy_with_logits = Tensor.binary_cross_entropy_with_logits
celu = Tensor.celu
conv1d = Tensor.conv1d
conv2d = Tensor.conv2d
conv3d = Tensor.conv3d
conv_transpose1d = Tensor.conv_transpose1d
conv_transpose2d = Tensor.conv_transpose2d
conv_transpose3d = Tensor.conv_transpose3d
cosine_embedding_loss = Tensor.cosine_embedding_loss
cosine_similarity = Tensor.cosine_similarity
cross_entropy = Tensor.cross_entropy
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = 'mean', zero_infinity: bool = False) -> Tensor:
    """Connectionist temporal classification: how unlikely ``targets`` ``[N, S]``, or all of them one after the other,
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time.

    >>> import talweg as tw
    >>> even = tw.zeros(2, 1, 2).log_softmax(-1)
    >>> round(tw.nn.functional.ctc_loss(even, tw.tensor([[1]]), [2], [1]).exp().item(), 4)
    1.3333"""
def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements set to zero with probability ``p``, the others scaled up.

    >>> import talweg as tw
    >>> tw.nn.functional.dropout(tw.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]"""
elu = Tensor.elu
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Row i of ``weight`` for each whole number i.

    >>> import talweg as tw
    >>> tw.nn.functional.embedding(tw.tensor([1, 0]), tw.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]"""
gaussian_nll_loss = Tensor.gaussian_nll_loss
gelu = Tensor.gelu
glu = Tensor.glu
grid_sample = Tensor.grid_sample
group_norm = Tensor.group_norm
hardshrink = Tensor.hardshrink
hardsigmoid = Tensor.hardsigmoid
hardswish = Tensor.hardswish
hardtanh = Tensor.hardtanh
hinge_embedding_loss = Tensor.hinge_embedding_loss
huber_loss = Tensor.huber_loss
instance_norm = Tensor.instance_norm
interpolate = Tensor.interpolate
kl_div = Tensor.kl_div
l1_loss = Tensor.l1_loss
layer_norm = Tensor.layer_norm
leaky_relu = Tensor.leaky_relu
linear = Tensor.linear
local_response_norm = Tensor.local_response_norm
log_softmax = Tensor.log_softmax
logsigmoid = Tensor.log_sigmoid
margin_ranking_loss = Tensor.margin_ranking_loss
max_pool1d = Tensor.max_pool1d
max_pool2d = Tensor.max_pool2d
max_pool3d = Tensor.max_pool3d
mish = Tensor.mish
mse_loss = Tensor.mse_loss
nll_loss = Tensor.nll_loss
normalize = Tensor.normalize
one_hot = Tensor.one_hot
pad = Tensor.pad
pairwise_distance = Tensor.pairwise_distance
pixel_shuffle = Tensor.pixel_shuffle
pixel_unshuffle = Tensor.pixel_unshuffle
poisson_nll_loss = Tensor.poisson_nll_loss
prelu = Tensor.prelu
relu = Tensor.relu
relu6 = Tensor.relu6
rms_norm = Tensor.rms_norm
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, query_lengths: Tensor | None = None, key_lengths: Tensor | None = None) -> Tensor:
    """Attention of queries ``[..., H, L, E]`` with keys and values. Of sequences of several lengths, ``query_lengths``
    and ``key_lengths`` say how much of each counts.

    >>> import talweg as tw
    >>> q = tw.randn(2, 2, 5, 4)
    >>> tw.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, key_lengths=tw.tensor([5, 3])).shape
    (2, 2, 5, 4)"""
selu = Tensor.selu
sigmoid = Tensor.sigmoid
silu = Tensor.silu
smooth_l1_loss = Tensor.smooth_l1_loss
softmax = Tensor.softmax
softmin = Tensor.softmin
softplus = Tensor.softplus
softshrink = Tensor.softshrink
softsign = Tensor.softsign
tanh = Tensor.tanh
tanhshrink = Tensor.tanhshrink
threshold = Tensor.threshold
triplet_margin_loss = Tensor.triplet_margin_loss
