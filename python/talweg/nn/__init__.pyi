"""Models: modules whose parameters are found by attribute, layers, losses: PyTorch's names, arguments and defaults."""

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

    >>> import talweg as tw
    >>> class Mlp(tw.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = tw.nn.Linear(4, 8)
    ...         self.out = tw.nn.Linear(8, 2)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> Mlp()(tw.ones(3, 4)).shape
    (3, 2)"""
    training: bool
    def __getattr__(self, name: str) -> Any: ...
    def __init__(self) -> None: ...
    def add_module(self, name: str, module: Module) -> None:
        """Registers a module."""
    def apply(self, fn: Callable[..., Any]) -> Self:
        """Calls ``fn`` with every module, the innermost first."""
    def bfloat16(self) -> Self:
        """Floating-point parameters and buffers in ``bfloat16``."""
    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once."""
    def children(self) -> Iterator[Module]:
        """Modules that are attributes."""
    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: what a module computes is compiled without it. ``tw.jit`` also leaves out the tracing."""
    def cpu(self) -> Self:
        """Moves everything to the host."""
    def cuda(self, device: str | None = None) -> Self:
        """Moves everything to a GPU."""
    def double(self) -> Self:
        """Floating-point parameters and buffers in ``float64``."""
    def eval(self) -> Self:
        """Switches to inference."""
    def extra_repr(self) -> str:
        """What stands between the brackets of ``repr``."""
    def float(self) -> Self:
        """Floating-point parameters and buffers in ``float32``."""
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def get_buffer(self, target: Tensor) -> Tensor:
        """The buffer at a path."""
    def get_parameter(self, target: Tensor) -> Tensor:
        """The parameter at a path."""
    def get_submodule(self, target: Tensor) -> Module:
        """The module at a path such as ``"encoder.layers.0"``."""
    def half(self) -> Self:
        """Floating-point parameters and buffers in ``float16``."""
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Takes values by path; arrays of other libraries are converted. Nothing changes if one does not fit.

        With ``assign``, tensors replace parameters and buffers, their types included, instead of being copied into them."""
    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
    def named_buffers(self, prefix: str = '', recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their paths."""
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Modules that are attributes, with their names; each once."""
    def named_modules(self, memo: set[int] | None = None, prefix: str = '', remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths."""
    def named_parameters(self, prefix: str = '', recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Parameters with their paths; a shared one under its first, unless duplicates are asked for."""
    def num_parameters(self) -> int:
        """Number of elements of all parameters."""
    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """Parameters, each once."""
    def register_backward_hook(self, hook: Callable[..., Any]) -> None:
        """PyTorch's deprecated form, whose gradients are not those of the module's inputs."""
    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Registers a tensor that is part of the state but not trained; ``state_dict`` has it if it is persistent."""
    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False) -> Any:
        """``hook(module, args, output)`` is called after ``forward`` and may return another output.

        >>> import talweg as tw
        >>> shapes, layer = [], tw.nn.Linear(4, 2)
        >>> with layer.register_forward_hook(lambda module, args, output: shapes.append(output.shape)):
        ...     y = layer(tw.ones(3, 4))
        >>> shapes
        [(3, 2)]"""
    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> Any:
        """``hook(module, args)`` is called before ``forward`` and may return other arguments."""
    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """``hook(module, grad_input, grad_output)`` is called when the gradients of the inputs are known, and may
        return others.

        A call whose result is never differentiated is kept: run those in ``tw.no_grad()``.

        >>> import talweg as tw
        >>> seen, layer = [], tw.nn.Linear(4, 2)
        >>> handle = layer.register_full_backward_hook(lambda module, given, out: seen.append(out[0].tolist()))
        >>> layer(tw.ones(1, 4)).sum().backward()
        >>> seen
        [[[1.0, 1.0]]]"""
    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """``hook(module, grad_output)`` is called when the gradients of the outputs are known, and may return others."""
    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, incompatible_keys)`` may remove keys from the lists."""
    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``."""
    def register_module(self, name: str, module: Module) -> None:
        """The same as ``add_module``."""
    def register_parameter(self, name: str, param: Tensor) -> None:
        """Registers a parameter; ``None``: the module has none of that name."""
    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, state_dict, prefix, local_metadata)`` is called after ``state_dict`` has read this module."""
    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, prefix, keep_vars)`` is called before ``state_dict`` reads this module."""
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freezes or unfreezes all parameters."""
    def set_submodule(self, target: Tensor, module: Module, strict: bool = False) -> None:
        """Replaces the module at a path."""
    def share_memory(self) -> None:
        """PyTorch's way to share parameters with other processes, which there is none of here."""
    def state_dict(self, *, destination: Any = None, prefix: str = '', keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and persistent buffers by path; with ``keep_vars`` the variables themselves."""
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device, and floating-point ones to a type: ``to(device)``, ``to(dtype)``,
        ``to(device, dtype)``, ``to(tensor)``.

        A parameter of another type is another parameter: make optimizers after that. ``tw.autocast`` computes in
        16 bits with parameters in ``float32``."""
    def to_empty(self, *, device: str | None, recurse: bool = True) -> Self:
        """Moves everything to a device, where the values mean nothing until they are set."""
    def train(self, mode: bool = True) -> Self:
        """Switches to training, or with ``False`` to inference."""
    def type(self, dst_type: DTypeLike) -> Self:
        """Floating-point parameters and buffers in another type."""
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or makes them zero."""

class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax by clusters (Grave and others 2017): the first ``cutoffs[0]`` classes and the other clusters make up the
    head, and each cluster has a smaller network of its own.

    >>> import talweg as tw
    >>> m = tw.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10])
    >>> output, loss = m(tw.randn(3, 8), tw.tensor([0, 5, 19]))
    >>> output.shape, m.log_prob(tw.randn(3, 8)).shape
    ((3,), (3, 20))"""
    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]: ...
    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes."""
    def predict(self, input: Tensor) -> Tensor:
        """The most likely classes."""
    def reset_parameters(self) -> None:
        """All parts as at the beginning."""

class BCELoss(Module):
    """Of probabilities."""
    def __init__(self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class BCEWithLogitsLoss(Module):
    """Of scores before the sigmoid."""
    def __init__(self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', pos_weight: Tensor | None = None) -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class Bilinear(Module):
    """y = x₁ᵀ W x₂ + b.

    >>> import talweg as tw
    >>> tw.nn.Bilinear(3, 4, 2)(tw.ones(5, 3), tw.ones(5, 4)).shape
    (5, 2)"""
    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        ...
    def __call__(self, input1: Tensor, input2: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√in1_features."""

class CELU(Module):
    """x, and alpha (exp(x / alpha) - 1) below zero."""
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class CTCLoss(Module):
    """Connectionist temporal classification: how unlikely ``targets`` ``[N, S]``, or all of them one after the other,
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time."""
    def __init__(self, blank: int = 0, reduction: str = 'mean', zero_infinity: bool = False) -> None: ...
    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        ...
    def __call__(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor: ...

class ChannelShuffle(Module):
    """Channels of several groups interleaved."""
    def __init__(self, groups: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class CosineEmbeddingLoss(Module):
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    def __init__(self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor: ...

class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension.

    >>> import talweg as tw
    >>> tw.nn.CosineSimilarity(dim=0)(tw.tensor([1.0, 0.0]), tw.tensor([2.0, 0.0])).item()
    1.0"""
    def __init__(self, dim: int | None = 1, eps: float = 1e-08) -> None: ...
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        ...
    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor: ...

class CrossEntropyLoss(Module):
    """How unlikely classes are under scores: ``input [N, C, ...]``, ``target`` classes ``[N, ...]`` or probabilities."""
    def __init__(self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = 'mean', label_smoothing: float = 0.0) -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class DataParallel(Module):
    """Calls its module, as in PyTorch on a machine with at most one GPU. Several GPUs are the work of several processes:
    ``talweg launch --workers N python script.py``.

    >>> import talweg as tw
    >>> sorted(tw.nn.DataParallel(tw.nn.Linear(2, 1)).state_dict())
    ['module.bias', 'module.weight']"""
    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int | None = 0) -> None: ...
    def forward(self, *inputs: Any, **kwargs: Any) -> Tensor:
        ...
    def __call__(self, *inputs: Any, **kwargs: Any) -> Tensor: ...

class ELU(Module):
    """x, and alpha (exp(x) - 1) below zero."""
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Flatten(Module):
    """Several dimensions as one.

    >>> import talweg as tw
    >>> tw.nn.Flatten()(tw.ones(2, 3, 4)).shape
    (2, 12)"""
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class GAT(Module):
    """Graph attention (Veličković and others 2018); ``concat`` puts the heads side by side, else they are averaged. Every
    node gets an edge to itself: the edges given should have none.

    >>> import talweg as tw
    >>> tw.nn.GAT(3, 4, heads=2)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    (3, 8)"""
    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True) -> None: ...
    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor, edges: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Glorot's weights and no bias."""

class GCN(Module):
    """Graph convolution (Kipf and Welling 2017) of nodes ``[N, inputs]`` along edges ``[2, E]``. Every node gets an edge
    to itself: the edges given should have none.

    >>> import talweg as tw
    >>> tw.nn.GCN(3, 4)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    (3, 4)"""
    def __init__(self, in_channels: int, out_channels: int) -> None: ...
    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        ...
    def __call__(self, x: Tensor, edges: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Glorot's weights and no bias."""

class GELU(Module):
    """x Φ(x), with the normal distribution function Φ; ``approximate="tanh"``: its approximation by tanh."""
    def __init__(self, approximate: str = 'none') -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class GLU(Module):
    """The first half of a dimension times the sigmoid of the second."""
    def __init__(self, dim: int | None = -1) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class GaussianNLLLoss(Module):
    """Of numbers under a normal distribution with mean ``input`` and variance ``var``."""
    def __init__(self, full: bool = False, eps: float = 1e-06, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor, var: Any) -> Tensor: ...

class GroupNorm(Module):
    """Mean 0 and variance 1 over groups of channels, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.GroupNorm(2, 4)(tw.randn(3, 4, 5)).shape
    (3, 4, 5)"""
    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-05, affine: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros."""

class Hardshrink(Module):
    """x, and zero within ±``lambd``."""
    def __init__(self, lambd: float = 0.5) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Hardsigmoid(Module):
    """(x + 3) / 6 held in [0, 1], elementwise."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Hardswish(Module):
    """x times (x + 3) / 6 held in [0, 1], elementwise."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Hardtanh(Module):
    """x between ``min_val`` and ``max_val``."""
    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class HingeEmbeddingLoss(Module):
    """x where the target is 1, max(0, margin - x) where it is -1."""
    def __init__(self, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class HuberLoss(Module):
    """Squares of differences below ``delta``, straight lines above."""
    def __init__(self, reduction: str = 'mean', delta: float = 1.0) -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class Identity(Module):
    """What comes in; arguments are taken and not used, as in PyTorch.

    >>> import talweg as tw
    >>> tw.nn.Identity(54, unused=0.1)(tw.ones(2)).tolist()
    [1.0, 1.0]"""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def forward(self, input: Tensor) -> Any:
        ...
    def __call__(self, input: Tensor) -> Any: ...

class KLDivLoss(Module):
    """Kullback-Leibler divergence; ``input`` are log-probabilities. Its mathematical mean is ``reduction="batchmean"``."""
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', log_target: bool = False) -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class L1Loss(Module):
    """Absolute differences."""
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dimensions, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.LayerNorm(4)(tw.randn(2, 4)).shape
    (2, 4)"""
    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-05, elementwise_affine: bool = True, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros."""

class LeakyReLU(Module):
    """x, and ``negative_slope`` x below zero."""
    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Linear(Module):
    """y = x Wᵀ + b on the last dimension.

    >>> import talweg as tw
    >>> tw.nn.Linear(4, 2)(tw.ones(3, 4)).shape
    (3, 2)"""
    weight: Tensor
    bias: Tensor | None
    in_features: int
    out_features: int
    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√in_features."""

class LocalResponseNorm(Module):
    """Divided by a power of the mean square of neighboring channels.

    >>> import talweg as tw
    >>> tw.nn.LocalResponseNorm(2)(tw.ones(1, 4, 3, 3)).shape
    (1, 4, 3, 3)"""
    def __init__(self, size: int | Sequence[int], alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class LogSigmoid(Module):
    """log(sigmoid(x)) without overflow, elementwise."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class LogSoftmax(Module):
    """The logarithm of ``softmax``."""
    def __init__(self, dim: int | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class MSELoss(Module):
    """Squares of differences."""
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class MarginRankingLoss(Module):
    """max(0, -target (input1 - input2) + margin)."""
    def __init__(self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor: ...

class Mish(Module):
    """x tanh(softplus(x)), elementwise."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ModuleDict(Module):
    """Modules by name.

    >>> import talweg as tw
    >>> heads = tw.nn.ModuleDict({"a": tw.nn.Linear(2, 1)})
    >>> list(heads.keys()), heads["a"](tw.ones(1, 2)).shape
    (['a'], (1, 1))"""
    def __init__(self, modules: Any = None) -> None: ...
    def __getitem__(self, key: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def __setitem__(self, key: Any, module: Module) -> None:
        ...
    def clear(self) -> None:
        """Removes all modules."""
    def items(self) -> Iterable[tuple[str, Module]]:
        ...
    def keys(self) -> Iterable[str]:
        ...
    def pop(self, key: Any) -> Module:
        """Removes a module and returns it."""
    def update(self, modules: Any) -> None:
        """Adds modules from a dictionary or from pairs."""
    def values(self) -> Iterable[Module]:
        ...

class MultiLabelMarginLoss(Module):
    """max(0, 1 - (x[label] - x[i])) over labels and other classes; labels end at the first -1."""
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class MultiLabelSoftMarginLoss(Module):
    """Binary cross entropy of each class, averaged over classes."""
    def __init__(self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class MultiMarginLoss(Module):
    """max(0, margin - x[class] + x[i])^p, averaged over classes."""
    def __init__(self, p: float = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class MultiheadAttention(Module):
    """Attention of several heads over ``[L, N, E]``, or ``[N, L, E]`` with ``batch_first``: the result and the weights.

    >>> import talweg as tw
    >>> x = tw.randn(2, 5, 8)
    >>> y, weights = tw.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> y.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))"""
    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, query: Tensor, key: Any, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False, *, key_lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The result, and the weights ``[N, L, S]`` (``[N, heads, L, S]`` if they are not averaged) or None.

        ``key_padding_mask [N, S]`` and ``attn_mask [L, S]`` or ``[N heads, L, S]``: true is left out; others are added to
        the scores. ``key_lengths [N]``: how many keys of each sequence count."""
    def __call__(self, query: Tensor, key: Any, value: Any, key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False, *, key_lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]: ...

class NLLLoss(Module):
    """Minus the log-probability of classes: ``input [N, C, ...]`` are log-probabilities."""
    def __init__(self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class PReLU(Module):
    """A leaky ReLU whose slope is trained, one for all or one for each channel.

    >>> import talweg as tw
    >>> tw.nn.PReLU()(tw.tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]"""
    def __init__(self, num_parameters: int = 1, init: Any = 0.25, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """All slopes as at the beginning."""

class PairwiseDistance(Module):
    """The p-norm of the difference along the last dimension.

    >>> import talweg as tw
    >>> round(tw.nn.PairwiseDistance()(tw.zeros(1, 2), tw.tensor([[3.0, 4.0]])).item(), 3)
    5.0"""
    def __init__(self, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> None: ...
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        ...
    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor: ...

class Parameter(Tensor):
    """A tensor that a module trains: a module registers it when it is assigned to an attribute.

    >>> import talweg as tw
    >>> p = tw.nn.Parameter(tw.zeros(2))
    >>> p.requires_grad, isinstance(p, tw.nn.Parameter)
    (True, True)"""
    def __init__(self, data: Any = None, requires_grad: bool = True, *, name: str = '') -> None: ...
    @property
    def grad(self) -> Any: ...
    @grad.setter
    def grad(self, value: Any) -> None: ...

class ParameterDict(Module):
    """Parameters by name.

    >>> import talweg as tw
    >>> p = tw.nn.ParameterDict({"scale": tw.ones(2)})
    >>> p["scale"].shape, list(p.state_dict())
    ((2,), ['scale'])"""
    def __init__(self, parameters: Iterable[Tensor] | None = None) -> None: ...
    def __getitem__(self, key: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def __setitem__(self, key: Any, value: Any) -> None:
        ...
    def clear(self) -> None:
        """Removes all parameters."""
    def get(self, key: Any, default: Any = None) -> Any:
        ...
    def items(self) -> list[tuple[Any, Any]]:
        ...
    def keys(self) -> Iterable[Any]:
        ...
    def pop(self, key: Any) -> Any:
        """Removes a parameter and returns it."""
    def update(self, parameters: Iterable[Tensor]) -> None:
        """Adds parameters from a dictionary or from pairs."""
    def values(self) -> list[Any]:
        ...

class ParameterList(Module):
    """Parameters by number.

    >>> import talweg as tw
    >>> len(tw.nn.ParameterList([tw.zeros(2), tw.zeros(3)]))
    2"""
    def __init__(self, values: Any = None) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def __setitem__(self, index: Any, value: Any) -> None:
        ...
    def append(self, value: Any) -> Self:
        """Adds a parameter at the end."""
    def extend(self, values: Any) -> Self:
        """Adds parameters at the end."""

class PixelShuffle(Module):
    """Channels to places: ``[N, C r², H, W]`` to ``[N, C, r H, r W]``."""
    def __init__(self, upscale_factor: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class PixelUnshuffle(Module):
    """Places to channels: ``[N, C, r H, r W]`` to ``[N, C r², H, W]``."""
    def __init__(self, downscale_factor: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class PoissonNLLLoss(Module):
    """Of counts under a Poisson distribution."""
    def __init__(self, log_input: bool = True, full: bool = False, size_average: Any = None, eps: float = 1e-08, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

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

class RMSNorm(Module):
    """Divided by the root of the mean square over the last dimensions, then scaled.

    >>> import talweg as tw
    >>> tw.nn.RMSNorm(4)(tw.randn(2, 4)).shape
    (2, 4)"""
    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones."""

class RNNBase(Module):
    """Layers on top of each other, of any cell."""
    def __init__(self, mode: bool, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    @property
    def all_weights(self) -> list[list[Tensor]]: ...
    def flatten_parameters(self) -> None:
        """Nothing: weights need not lie one after the other here."""
    def forward(self, input: Tensor, hx: Any = None, *, lengths: Any = None) -> Any:
        """The visible state at every step, and the last state.

        With ``lengths`` of sequences that are filled up at the end, results after a sequence's end are zero, and its
        last state is that of its own last step: what packed sequences do, in any order."""
    def __call__(self, input: Tensor, hx: Any = None, *, lengths: Any = None) -> Any: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√hidden_size."""

class RNNCellBase(Module):
    """One step of a recurrent layer."""
    def reset_parameters(self) -> None:
        """Uniform in ±1/√hidden_size."""

class RReLU(Module):
    """A leaky ReLU whose slope is drawn anew for each element in training."""
    def __init__(self, lower: float = 0.125, upper: float = 0.3333333333333333, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ReLU(Module):
    """max(x, 0), elementwise."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ReLU6(Module):
    """x held in [0, 6], elementwise; the slope at the ends is 0."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class SELU(Module):
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class SiLU(Module):
    """x sigmoid(x), elementwise; also known as swish."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Sigmoid(Module):
    """1 / (1 + exp(-x)), elementwise."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class SmoothL1Loss(Module):
    """Squares of differences below ``beta``, absolute differences above."""
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', beta: float = 1.0) -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class SoftMarginLoss(Module):
    """log(1 + exp(-target x))."""
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

class Softmax(Module):
    """exp(x) divided by its sum along a dimension; with ``dtype``, computed in that type."""
    def __init__(self, dim: int | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Softmax2d(Module):
    """``softmax`` over the channels of pictures."""
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Softmin(Module):
    """``softmax`` of -x."""
    def __init__(self, dim: int | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Softplus(Module):
    """log(1 + exp(beta x)) / beta; x where beta x is above ``threshold``."""
    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Softshrink(Module):
    """x moved towards zero by ``lambd``."""
    def __init__(self, lambd: float = 0.5) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Softsign(Module):
    """x / (1 + |x|), elementwise."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Tanh(Module):
    """Hyperbolic tangent, elementwise."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Tanhshrink(Module):
    """x - tanh(x), elementwise."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Threshold(Module):
    """x where it is above ``threshold``, else ``value``."""
    def __init__(self, threshold: float, value: Any, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Transformer(Module):
    """Encoder and decoder (Vaswani and others 2017).

    >>> import talweg as tw
    >>> model = tw.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(tw.randn(5, 2, 8), tw.randn(3, 2, 8)).shape
    (3, 2, 8)"""
    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = 'relu', custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-05, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        """In bool masks, true is left out."""
    def __call__(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor: ...
    def generate_square_subsequent_mask(self, device: str | None = None, dtype: DTypeLike | None = None) -> Tensor:
        """A mask in which nothing sees what follows it: -inf above the diagonal, zeros elsewhere.

        >>> import talweg as tw
        >>> tw.nn.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]"""

class TransformerDecoder(Module):
    """Decoder layers on top of each other, copies of the one that is given, all with the same memory.

    >>> import talweg as tw
    >>> layer = tw.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> tw.nn.TransformerDecoder(layer, 2)(tw.randn(2, 5, 8), tw.randn(2, 7, 8)).shape
    (2, 5, 8)"""
    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Any = None) -> None: ...
    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor:
        ...
    def __call__(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor: ...

class TransformerEncoder(Module):
    """Encoder layers on top of each other, copies of the one that is given.

    >>> import talweg as tw
    >>> layer = tw.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> tw.nn.TransformerEncoder(layer, 3)(tw.randn(5, 2, 8)).shape
    (5, 2, 8)"""
    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Any = None, enable_nested_tensor: bool = True, mask_check: bool = True) -> None: ...
    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None, *, src_lengths: Tensor | None = None) -> Tensor:
        ...
    def __call__(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None, *, src_lengths: Tensor | None = None) -> Tensor: ...

class TripletMarginLoss(Module):
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-06, swap: bool = False, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> None: ...
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        ...
    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor: ...

class TripletMarginWithDistanceLoss(Module):
    """``triplet_margin_loss`` with a custom distance."""
    def __init__(self, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False, reduction: str = 'mean') -> None: ...
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        ...
    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor: ...

class Unflatten(Module):
    """One dimension as several.

    >>> import talweg as tw
    >>> tw.nn.Unflatten(1, (2, 3))(tw.ones(4, 6)).shape
    (4, 2, 3)"""
    def __init__(self, dim: int | None, unflattened_size: Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Upsample(Module):
    """Resized pictures: to ``size``, or by ``scale_factor``.

    >>> import talweg as tw
    >>> tw.nn.Upsample(scale_factor=2)(tw.ones(1, 1, 2, 2)).shape
    (1, 1, 4, 4)"""
    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool | None = None, recompute_scale_factor: bool | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class AdaptiveAvgPool1d(Module):
    """Means of as many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class AdaptiveAvgPool2d(Module):
    """Means of as many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class AdaptiveAvgPool3d(Module):
    """Means of as many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class AdaptiveMaxPool1d(Module):
    """The largest elements of as many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int], return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any:
        ...
    def __call__(self, input: Tensor) -> Any: ...

class AdaptiveMaxPool2d(Module):
    """The largest elements of as many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int], return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any:
        ...
    def __call__(self, input: Tensor) -> Any: ...

class AdaptiveMaxPool3d(Module):
    """The largest elements of as many windows as asked for."""
    def __init__(self, output_size: int | Sequence[int], return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any:
        ...
    def __call__(self, input: Tensor) -> Any: ...

class AlphaDropout(Module):
    """Dropout that keeps mean and variance of what ``SELU`` returns."""
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class AvgPool1d(Module):
    """The mean of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class AvgPool2d(Module):
    """The mean of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class AvgPool3d(Module):
    """The mean of each window."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class CircularPad1d(Module):
    """Pads the last 1 dimensions with the other end."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class CircularPad2d(Module):
    """Pads the last 2 dimensions with the other end."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class CircularPad3d(Module):
    """Pads the last 3 dimensions with the other end."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Conv1d(Module):
    """Convolution of signals ``[N, C, L]``."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√fan_in."""

class Conv2d(Module):
    """Convolution of pictures ``[N, C, H, W]``."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√fan_in."""

class Conv3d(Module):
    """Convolution of volumes ``[N, C, D, H, W]``."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√fan_in."""

class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` of pictures."""
    def __init__(self, size: int | Sequence[int], alpha: float = 0.0001, beta: float = 0.75, k: int = 1) -> None: ...

class Dropout(Module):
    """Sets elements to zero with probability ``p``, in training only.

    >>> import talweg as tw
    >>> tw.nn.Dropout(0.5).eval()(tw.ones(3)).tolist()
    [1.0, 1.0, 1.0]"""
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Dropout1d(Module):
    """Sets whole channels ``[N, C, L]`` to zero."""
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Dropout2d(Module):
    """Sets whole channels ``[N, C, H, W]`` to zero."""
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Dropout3d(Module):
    """Sets whole channels ``[N, C, D, H, W]`` to zero."""
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Embedding(Module):
    """Row i of a table for each whole number i.

    >>> import talweg as tw
    >>> tw.nn.Embedding(10, 4)(tw.tensor([[1, 2], [3, 4]])).shape
    (2, 2, 4)"""
    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Normal numbers, and zeros at ``padding_idx``."""

class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a table.

    >>> import talweg as tw
    >>> bag = tw.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bag(tw.tensor([1, 2, 4, 5]), tw.tensor([0, 2])).shape
    (2, 3)"""
    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = 'mean', sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        ...
    def __call__(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Normal numbers, and zeros at ``padding_idx``."""

class FeatureAlphaDropout(Module):
    """``AlphaDropout`` of whole channels."""
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class Fold(Module):
    """Columns added up to pictures.

    >>> import talweg as tw
    >>> tw.nn.Fold((4, 4), 2, stride=2)(tw.ones(1, 12, 4)).shape
    (1, 3, 4, 4)"""
    def __init__(self, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class FractionalMaxPool2d(Module):
    """The largest element of windows at random places."""
    def __init__(self, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class FractionalMaxPool3d(Module):
    """The largest element of windows at random places."""
    def __init__(self, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class GRU(RNNBase):
    """Gated recurrent units.

    >>> import talweg as tw
    >>> y, h = tw.nn.GRU(3, 4, bidirectional=True)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    ((5, 2, 8), (2, 2, 4))"""
    def __call__(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]: ...
    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...

class GRUCell(RNNCellBase):
    """One step of a GRU.

    >>> import talweg as tw
    >>> tw.nn.GRUCell(3, 4)(tw.ones(2, 3)).shape
    (2, 4)"""
    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        ...
    def __call__(self, input: Tensor, hx: Any = None) -> Tensor: ...

class LPPool1d(Module):
    """The p-th root of the sum of p-th powers of each window."""
    def __init__(self, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class LPPool2d(Module):
    """The p-th root of the sum of p-th powers of each window."""
    def __init__(self, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class LPPool3d(Module):
    """The p-th root of the sum of p-th powers of each window."""
    def __init__(self, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class LSTM(RNNBase):
    """Long short-term memory; the state is the pair (h, c).

    >>> import talweg as tw
    >>> y, (h, c) = tw.nn.LSTM(3, 4, batch_first=True)(tw.randn(2, 5, 3))
    >>> y.shape, h.shape, c.shape
    ((2, 5, 4), (1, 2, 4), (1, 2, 4))"""
    def __call__(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...

class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    >>> import talweg as tw
    >>> h, c = tw.nn.LSTMCell(3, 4)(tw.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))"""
    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        ...
    def __call__(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]: ...

class MaxPool1d(Module):
    """The largest element of each window; with ``return_indices`` also where it is."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, return_indices: bool = False, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any:
        ...
    def __call__(self, input: Tensor) -> Any: ...

class MaxPool2d(Module):
    """The largest element of each window; with ``return_indices`` also where it is."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, return_indices: bool = False, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any:
        ...
    def __call__(self, input: Tensor) -> Any: ...

class MaxPool3d(Module):
    """The largest element of each window; with ``return_indices`` also where it is."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, return_indices: bool = False, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any:
        ...
    def __call__(self, input: Tensor) -> Any: ...

class MaxUnpool1d(Module):
    """Elements back at the places that ``MaxPool`` with ``return_indices`` has taken them from."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0) -> None: ...
    def forward(self, input: Tensor, indices: Sequence[int], output_size: int | Sequence[int] | None = None) -> Tensor:
        ...
    def __call__(self, input: Tensor, indices: Sequence[int], output_size: int | Sequence[int] | None = None) -> Tensor: ...

class MaxUnpool2d(Module):
    """Elements back at the places that ``MaxPool`` with ``return_indices`` has taken them from."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0) -> None: ...
    def forward(self, input: Tensor, indices: Sequence[int], output_size: int | Sequence[int] | None = None) -> Tensor:
        ...
    def __call__(self, input: Tensor, indices: Sequence[int], output_size: int | Sequence[int] | None = None) -> Tensor: ...

class MaxUnpool3d(Module):
    """Elements back at the places that ``MaxPool`` with ``return_indices`` has taken them from."""
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0) -> None: ...
    def forward(self, input: Tensor, indices: Sequence[int], output_size: int | Sequence[int] | None = None) -> Tensor:
        ...
    def __call__(self, input: Tensor, indices: Sequence[int], output_size: int | Sequence[int] | None = None) -> Tensor: ...

class ModuleList(Module):
    """Modules by number.

    >>> import talweg as tw
    >>> layers = tw.nn.ModuleList(tw.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)"""
    def __init__(self, modules: Any = None) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def __setitem__(self, index: Any, module: Module) -> None:
        ...
    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
    def extend(self, modules: Any) -> Self:
        """Adds modules at the end."""
    def insert(self, index: Any, module: Module) -> Self:
        """Adds a module before another."""
    def pop(self, key: Any) -> Module:
        """Removes a module and returns it."""

class RNN(RNNBase):
    """Elman's recurrent network.

    >>> import talweg as tw
    >>> y, h = tw.nn.RNN(3, 4)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    ((5, 2, 4), (1, 2, 4))"""
    def __call__(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]: ...
    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = 'tanh', bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...

class RNNCell(RNNCellBase):
    """One step of Elman's network.

    >>> import talweg as tw
    >>> tw.nn.RNNCell(3, 4)(tw.ones(2, 3)).shape
    (2, 4)"""
    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = 'tanh', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        ...
    def __call__(self, input: Tensor, hx: Any = None) -> Tensor: ...

class ReflectionPad1d(Module):
    """Pads the last 1 dimensions with their mirror image."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ReflectionPad2d(Module):
    """Pads the last 2 dimensions with their mirror image."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ReflectionPad3d(Module):
    """Pads the last 3 dimensions with their mirror image."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ReplicationPad1d(Module):
    """Pads the last 1 dimensions with the edge."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ReplicationPad2d(Module):
    """Pads the last 2 dimensions with the edge."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ReplicationPad3d(Module):
    """Pads the last 3 dimensions with the edge."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

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
    def __setitem__(self, index: Any, module: Module) -> None:
        ...
    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
    def extend(self, modules: Any) -> Self:
        """Adds modules at the end."""
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def insert(self, index: Any, module: Module) -> Self:
        """Adds a module before another."""
    def pop(self, key: Any) -> Module:
        """Removes a module and returns it."""

class TransformerDecoderLayer(Module):
    """Attention to itself, attention to a memory, and a two-layer network.

    >>> import talweg as tw
    >>> x = tw.randn(5, 2, 8)
    >>> tw.nn.TransformerDecoderLayer(8, 2, 16)(x, x, tgt_is_causal=True).shape
    (5, 2, 8)"""
    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = 'relu', layer_norm_eps: float = 1e-05, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False, memory_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor:
        """In bool masks, true is left out. ``tgt_lengths``, ``memory_lengths``: how much of each sequence counts."""
    def __call__(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False, memory_is_causal: bool = False, *, tgt_lengths: Tensor | None = None, memory_lengths: Tensor | None = None) -> Tensor: ...

class TransformerEncoderLayer(Module):
    """Attention and a two-layer network, each with a residual and a normalization.

    >>> import talweg as tw
    >>> tw.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(tw.randn(2, 5, 8)).shape
    (2, 5, 8)"""
    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = 'relu', layer_norm_eps: float = 1e-05, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool = False, *, src_lengths: Tensor | None = None) -> Tensor:
        """In bool masks, true is left out. ``src_lengths [N]``: how much of each sequence counts."""
    def __call__(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool = False, *, src_lengths: Tensor | None = None) -> Tensor: ...

class Unfold(Module):
    """Windows of pictures as columns.

    >>> import talweg as tw
    >>> tw.nn.Unfold(2, stride=2)(tw.ones(1, 3, 4, 4)).shape
    (1, 12, 4)"""
    def __init__(self, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class UninitializedParameter(Parameter):
    """A parameter of a lazy module, whose shape is not known before the first call.

    >>> import talweg as tw
    >>> isinstance(tw.nn.LazyLinear(3).weight, tw.nn.UninitializedParameter)
    True"""
    def __init__(self, data: Any = None, requires_grad: bool = True) -> None: ...

class UpsamplingBilinear2d(Upsample):
    """``Upsample(mode="bilinear", align_corners=True)``."""
    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> None: ...

class UpsamplingNearest2d(Upsample):
    """``Upsample(mode="nearest")``."""
    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> None: ...

class BatchNorm1d(Module):
    """Batch normalization of ``[N, C]`` or ``[N, C, L]``: by the batch's statistics in training, by running averages in inference."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros, and running averages as at the beginning."""
    def reset_running_stats(self) -> None:
        """Running averages as at the beginning."""

class BatchNorm2d(Module):
    """Batch normalization of ``[N, C, H, W]``: by the batch's statistics in training, by running averages in inference."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros, and running averages as at the beginning."""
    def reset_running_stats(self) -> None:
        """Running averages as at the beginning."""

class BatchNorm3d(Module):
    """Batch normalization of ``[N, C, D, H, W]``: by the batch's statistics in training, by running averages in inference."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros, and running averages as at the beginning."""
    def reset_running_stats(self) -> None:
        """Running averages as at the beginning."""

class ConstantPad1d(Module):
    """Pads the last 1 dimensions with a number."""
    def __init__(self, padding: int | str | Sequence[int], value: Any) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ConstantPad2d(Module):
    """Pads the last 2 dimensions with a number."""
    def __init__(self, padding: int | str | Sequence[int], value: Any) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ConstantPad3d(Module):
    """Pads the last 3 dimensions with a number."""
    def __init__(self, padding: int | str | Sequence[int], value: Any) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ConvTranspose1d(Module):
    """Transposed convolution of signals."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        """With ``output_size``, the output padding is what makes the result so large."""
    def __call__(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√fan_in."""

class ConvTranspose2d(Module):
    """Transposed convolution of pictures."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        """With ``output_size``, the output padding is what makes the result so large."""
    def __call__(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√fan_in."""

class ConvTranspose3d(Module):
    """Transposed convolution of volumes."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def forward(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        """With ``output_size``, the output padding is what makes the result so large."""
    def __call__(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Uniform in ±1/√fan_in."""

class InstanceNorm1d(Module):
    """Mean 0 and variance 1 of each channel of each example of ``[N, C, L]``."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros, and running averages as at the beginning."""
    def reset_running_stats(self) -> None:
        """Running averages as at the beginning."""

class InstanceNorm2d(Module):
    """Mean 0 and variance 1 of each channel of each example of ``[N, C, H, W]``."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros, and running averages as at the beginning."""
    def reset_running_stats(self) -> None:
        """Running averages as at the beginning."""

class InstanceNorm3d(Module):
    """Mean 0 and variance 1 of each channel of each example of ``[N, C, D, H, W]``."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros, and running averages as at the beginning."""
    def reset_running_stats(self) -> None:
        """Running averages as at the beginning."""

class LazyLinear(Linear):
    """A ``Linear`` whose ``in_features`` are those of its first input.

    >>> import talweg as tw
    >>> layer = tw.nn.LazyLinear(3)
    >>> layer(tw.ones(2, 5)).shape, layer
    ((2, 3), Linear(in_features=5, out_features=3, bias=True))"""
    def __init__(self, out_features: int, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the parameters for an input."""
    def reset_parameters(self) -> None:
        ...

class SyncBatchNorm(Module):
    """Batch normalization whose statistics are those of the batches of all workers.

    >>> import talweg as tw
    >>> model = tw.nn.Sequential(tw.nn.Conv2d(1, 2, 3), tw.nn.BatchNorm2d(2))
    >>> tw.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
    SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True, process_group: Any = None, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...
    def reset_parameters(self) -> None:
        """Ones and zeros, and running averages as at the beginning."""
    def reset_running_stats(self) -> None:
        """Running averages as at the beginning."""

class ZeroPad1d(Module):
    """Pads the last 1 dimensions with zeros."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ZeroPad2d(Module):
    """Pads the last 2 dimensions with zeros."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class ZeroPad3d(Module):
    """Pads the last 3 dimensions with zeros."""
    def __init__(self, padding: int | str | Sequence[int]) -> None: ...
    def forward(self, input: Tensor) -> Tensor:
        ...
    def __call__(self, input: Tensor) -> Tensor: ...

class LazyConv1d(Conv1d):
    """A ``Conv1d`` whose ``in_channels`` are those of its first input."""
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Makes the parameters for an input."""

class LazyConv2d(Conv2d):
    """A ``Conv2d`` whose ``in_channels`` are those of its first input."""
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Makes the parameters for an input."""

class LazyConv3d(Conv3d):
    """A ``Conv3d`` whose ``in_channels`` are those of its first input."""
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Makes the parameters for an input."""

class LazyBatchNorm1d(BatchNorm1d):
    """A ``BatchNorm1d`` whose ``num_features`` are the channels of its first input."""
    def __init__(self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        ...
    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running averages for an input."""

class LazyBatchNorm2d(BatchNorm2d):
    """A ``BatchNorm2d`` whose ``num_features`` are the channels of its first input."""
    def __init__(self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        ...
    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running averages for an input."""

class LazyBatchNorm3d(BatchNorm3d):
    """A ``BatchNorm3d`` whose ``num_features`` are the channels of its first input."""
    def __init__(self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        ...
    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running averages for an input."""

class LazyConvTranspose1d(ConvTranspose1d):
    """A ``ConvTranspose1d`` whose ``in_channels`` are those of its first input."""
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Makes the parameters for an input."""

class LazyConvTranspose2d(ConvTranspose2d):
    """A ``ConvTranspose2d`` whose ``in_channels`` are those of its first input."""
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Makes the parameters for an input."""

class LazyConvTranspose3d(ConvTranspose3d):
    """A ``ConvTranspose3d`` whose ``in_channels`` are those of its first input."""
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True, dilation: int | Sequence[int] = 1, padding_mode: str = 'zeros', device: str | None = None, dtype: DTypeLike | None = None) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Makes the parameters for an input."""

class LazyInstanceNorm1d(InstanceNorm1d):
    """A ``InstanceNorm1d`` whose ``num_features`` are the channels of its first input."""
    def __init__(self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        ...
    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running averages for an input."""

class LazyInstanceNorm2d(InstanceNorm2d):
    """A ``InstanceNorm2d`` whose ``num_features`` are the channels of its first input."""
    def __init__(self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        ...
    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running averages for an input."""

class LazyInstanceNorm3d(InstanceNorm3d):
    """A ``InstanceNorm3d`` whose ``num_features`` are the channels of its first input."""
    def __init__(self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True) -> None: ...
    def has_uninitialized_params(self) -> Tensor:
        ...
    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running averages for an input."""

def Buffer(data: Any = None, *, persistent: bool = True) -> Tensor:
    """A tensor that a module registers as a buffer when it is assigned to one of its attributes.

    >>> import talweg as tw
    >>> m = tw.nn.Module()
    >>> m.mean = tw.nn.Buffer(tw.zeros(2))
    >>> [name for name, _ in m.named_buffers()]
    ['mean']"""
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Means of as many windows as asked for; ``None``: as many as elements."""
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Means of as many windows as asked for; ``None``: as many as elements."""
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Means of as many windows as asked for; ``None``: as many as elements."""
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for."""
def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for."""
def adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for."""
def affine_grid(theta: Tensor, size: int | Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Places for ``grid_sample``: those of a picture of ``size [N, C, H, W]`` after the affine map ``theta [N, 2, 3]``.

    >>> import talweg as tw
    >>> same = tw.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> tw.nn.functional.affine_grid(same, (1, 1, 2, 2), align_corners=True).tolist()[0][0]
    [[-1.0, -1.0], [1.0, -1.0]]"""
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of what ``selu`` returns."""
def avg_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    """The mean of each window."""
def avg_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    """The mean of each window."""
def avg_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    """The mean of each window."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: bool | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-05) -> Tensor:
    """Batch normalization of channels at axis 1. In training by the batch's own statistics, and the running averages
    are updated; else by the running averages.

    >>> import talweg as tw
    >>> mean, var = tw.zeros(1), tw.ones(1)
    >>> tw.nn.functional.batch_norm(tw.tensor([[1.0], [5.0]]), mean, var, training=True, momentum=0.5).tolist()
    [[-1.0], [1.0]]"""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor | None, bias: bool | None = None) -> Tensor:
    """y = x₁ᵀ W x₂ + b."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Of probabilities."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Of scores before the sigmoid."""
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) below zero."""
def celu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``celu`` in place."""
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of several groups interleaved."""
def conv1d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """Convolution of 1 dimensions with weights ``[out, in / groups, *kernel]``."""
def conv2d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """Convolution of 2 dimensions with weights ``[out, in / groups, *kernel]``."""
def conv3d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """Convolution of 3 dimensions with weights ``[out, in / groups, *kernel]``."""
def conv_transpose1d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed convolution of 1 dimensions."""
def conv_transpose2d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed convolution of 2 dimensions."""
def conv_transpose3d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed convolution of 3 dimensions."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int | None = 1, eps: float = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along a dimension."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = 'mean', label_smoothing: float = 0.0) -> Tensor:
    """How unlikely classes are under scores: ``input [N, C, ...]``, ``target`` classes ``[N, ...]`` or probabilities.

    >>> import talweg as tw
    >>> round(tw.nn.functional.cross_entropy(tw.zeros(1, 4), tw.tensor([2])).exp().item(), 4)
    4.0"""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = 'mean', zero_infinity: bool = False) -> Tensor:
    """Connectionist temporal classification: how unlikely ``targets`` ``[N, S]``, or all of them one after the other,
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time.

    >>> import talweg as tw
    >>> even = tw.zeros(2, 1, 2).log_softmax(-1)
    >>> round(tw.nn.functional.ctc_loss(even, tw.tensor([[1]]), [2], [1]).exp().item(), 4)
    1.3333"""
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to zero with probability ``p``, the others scaled up.

    >>> import talweg as tw
    >>> tw.nn.functional.dropout(tw.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]"""
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels set to zero with probability ``p``, the others scaled up."""
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels set to zero with probability ``p``, the others scaled up."""
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels set to zero with probability ``p``, the others scaled up."""
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x) - 1) below zero."""
def elu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``elu`` in place."""
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Row i of ``weight`` for each whole number i. Gradients are dense, also with ``sparse``.

    >>> import talweg as tw
    >>> tw.nn.functional.embedding(tw.tensor([1, 0]), tw.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]"""
def embedding_bag(input: Tensor, weight: Tensor | None, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = 'mean', sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None) -> Tensor:
    """Sums, means or maxima of rows of ``weight``: of each row of ``input [B, L]``, or of the bags of a flat ``input``
    that begin at ``offsets``.

    >>> import talweg as tw
    >>> table, bags = tw.tensor([[1.0], [2.0], [4.0]]), tw.tensor([0, 2])
    >>> tw.nn.functional.embedding_bag(tw.tensor([0, 1, 2]), table, bags, mode="sum").tolist()
    [[3.0], [4.0]]"""
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels."""
def fold(input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> Tensor:
    """Columns added up to pictures: the transpose of ``unfold``."""
def fractional_max_pool2d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places.

    >>> import talweg as tw
    >>> tw.nn.functional.fractional_max_pool2d(tw.ones(1, 1, 4, 4), 2, output_size=2).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]"""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places, and its index in the flat plane."""
def fractional_max_pool3d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places of a volume.

    >>> import talweg as tw
    >>> tw.nn.functional.fractional_max_pool3d(tw.ones(1, 1, 4, 4, 4), 2, output_size=2).shape
    (1, 1, 2, 2, 2)"""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places of a volume, and its index in the flat volume."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-06, reduction: str = 'mean') -> Tensor:
    """Of numbers under a normal distribution with mean ``input`` and variance ``var``."""
def gelu(input: Tensor, approximate: str = 'none') -> Tensor:
    """x Φ(x), with the normal distribution function Φ; ``approximate="tanh"``: its approximation by tanh."""
def glu(input: Tensor, dim: int | None = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second."""
def grid_sample(input: Tensor, grid: Tensor, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: bool | None = None) -> Tensor:
    """Pictures read at places ``grid [N, H, W, 2]`` between -1 and 1."""
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: bool | None = None, eps: float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 over groups of channels, then scaled and shifted."""
def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int | None = -1) -> Tensor:
    """A sample of the categories; ``hard``: one-hot, with the gradient of the soft one."""
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and zero within ±``lambd``."""
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 3.0]).hardsigmoid().tolist()  # by hand
    [0.0, 0.5, 0.75, 1.0]"""
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times (x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 6.0]).hardswish().tolist()  # by hand
    [0.0, 0.0, 1.125, 6.0]"""
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x between ``min_val`` and ``max_val``."""
def hardtanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``hardtanh`` in place."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: str = 'mean', delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Squares of differences below ``delta``, straight lines above."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: bool | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 of each channel of each example; by the running averages without ``use_input_stats``."""
def interpolate(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False) -> Tensor:
    """Resized pictures: to ``size``, or by ``scale_factor``."""
def kl_div(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', log_target: bool = False) -> Tensor:
    """Kullback-Leibler divergence; ``input`` are log-probabilities. Its mathematical mean is ``reduction="batchmean"``."""
def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Absolute differences."""
def layer_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: bool | None = None, eps: float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.functional.layer_norm(tw.tensor([[1.0, 3.0]]), (2,), eps=0.0).tolist()
    [[-1.0, 1.0]]"""
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, and ``negative_slope`` x below zero."""
def leaky_relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``leaky_relu`` in place."""
def linear(input: Tensor, weight: Tensor, bias: bool | None = None) -> Tensor:
    """y = x Wᵀ + b on the last dimension.

    >>> import talweg as tw
    >>> tw.nn.functional.linear(tw.ones(3, 4), tw.ones(2, 4), tw.ones(2)).tolist()[0]
    [5.0, 5.0]"""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: str = 'mean', ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None) -> Tensor:
    """Cross entropy of ``linear(input, linear_weight, linear_bias)``, whose weight is ``[C, ..., features]``.

    ``options`` says in PyTorch how the product is cut; here the compiler decides, and they change nothing.

    >>> import talweg as tw
    >>> x, w = tw.ones(1, 2), tw.zeros(3, 2)
    >>> round(tw.nn.functional.linear_cross_entropy(x, w, tw.tensor([0])).item(), 4)
    1.0986"""
def local_response_norm(input: Tensor, size: int | Sequence[int], alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divided by a power of the mean square of neighboring channels."""
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """The logarithm of ``softmax``."""
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow, elementwise."""
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window."""
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window."""
def lp_pool3d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, -target (input1 - input2) + margin)."""
def max_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window; with ``return_indices`` also where it is."""
def max_pool1d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``max_pool1d`` with ``return_indices=True``."""
def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window; with ``return_indices`` also where it is."""
def max_pool2d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``max_pool2d`` with ``return_indices=True``."""
def max_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window; with ``return_indices`` also where it is."""
def max_pool3d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``max_pool3d`` with ``return_indices=True``."""
def max_unpool1d(input: Tensor, indices: Sequence[int], kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, output_size: int | Sequence[int] | None = None) -> Tensor:
    """Elements back at the places ``max_pool`` has taken them from, zeros elsewhere."""
def max_unpool2d(input: Tensor, indices: Sequence[int], kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, output_size: int | Sequence[int] | None = None) -> Tensor:
    """Elements back at the places ``max_pool`` has taken them from, zeros elsewhere."""
def max_unpool3d(input: Tensor, indices: Sequence[int], kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, output_size: int | Sequence[int] | None = None) -> Tensor:
    """Elements back at the places ``max_pool`` has taken them from, zeros elsewhere."""
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098]).mish().tolist()  # by hand: tanh(log 4) = 15/17
    [0.0, 0.969363784118920]"""
def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Squares of differences."""
def multi_head_attention_forward(query: Tensor, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads over ``[L, N, E]``, or ``[L, E]`` without a batch: the result, and the weights or None.

    In bool masks, true is left out; others are added to the scores."""
def multi_margin_loss(input: Tensor, target: Tensor, p: float = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, margin - x[class] + x[i])^p, averaged over classes."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, 1 - (x[label] - x[i])) over labels and other classes; labels end at the first -1."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Binary cross entropy of each class, averaged over classes."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Minus the log-probability of classes: ``input [N, C, ...]`` are log-probabilities."""
def normalize(input: Tensor, p: float = 2.0, dim: int | None = 1, eps: float = 1e-12, out: IO[str] | None = None) -> Tensor:
    """Divided by the p-norm along a dimension.

    >>> import talweg as tw
    >>> tw.nn.functional.normalize(tw.tensor([[3.0, 4.0]]), p=2.0, dim=1).tolist()
    [[0.6, 0.8]]"""
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A vector of zeros with a one at each class.

    >>> import talweg as tw
    >>> tw.nn.functional.one_hot(tw.tensor([0, 2]), num_classes=3).tolist()
    [[1, 0, 0], [0, 0, 1]]"""
def pad(input: Tensor, pad: Sequence[int], mode: str = 'constant', value: Any = None) -> Tensor:
    """Padded at the edges of the last dimensions: ``pad`` are before and after, last dimension first.

    >>> import talweg as tw
    >>> tw.nn.functional.pad(tw.ones(2), (1, 1), value=5.0).tolist()
    [5.0, 1.0, 1.0, 5.0]"""
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    """The p-norm of the difference along the last dimension."""
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances between all pairs of rows."""
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels to places: ``[N, C r², H, W]`` to ``[N, C, r H, r W]``."""
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Places to channels: ``[N, C, r H, r W]`` to ``[N, C r², H, W]``."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: Any = None, eps: float = 1e-08, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Of counts under a Poisson distribution."""
def prelu(input: Tensor, weight: Tensor | None) -> Tensor:
    """x, and ``weight`` x below zero, one weight for all or one for each channel."""
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise."""
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x held in [0, 6], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 7.0]).relu6().tolist()  # by hand
    [0.0, 0.5, 6.0]"""
def relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``relu`` in place."""
def rms_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divided by the root of the mean square over the last dimensions, then scaled. Without ``eps``, the type's epsilon."""
def rrelu(input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False, inplace: bool = False) -> Tensor:
    """A leaky ReLU whose slope is drawn between ``lower`` and ``upper``; in inference it is their mean."""
def rrelu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``rrelu`` in place."""
def scaled_dot_product_attention(query: Tensor, key: Any, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, query_lengths: Tensor | None = None, key_lengths: Tensor | None = None) -> Tensor:
    """Attention of queries ``[..., H, L, E]`` with keys and values. In a bool mask, true takes part; others are added
    to the scores. Of sequences of several lengths, ``query_lengths`` and ``key_lengths`` say how much of each counts.

    >>> import talweg as tw
    >>> q = tw.randn(2, 2, 5, 4)
    >>> tw.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, key_lengths=tw.tensor([5, 3])).shape
    (2, 2, 5, 4)"""
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer.

    >>> tensor([-1.0, 0.0, 1.0]).selu().tolist()  # Klambauer and others, equations 2 and 14
    [-1.1113307378125625, 0.0, 1.0507009873554805]"""
def selu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``selu`` in place."""
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098, -800.0]).sigmoid().tolist()  # by hand: the logit of 3/4 is log 3
    [0.5, 0.75, 0.0]"""
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x), elementwise; also known as swish.

    >>> tensor([0.0, 1.0986122886681098]).silu().tolist()  # by hand: 3/4 log 3
    [0.0, 0.8239592165010823]"""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', beta: float = 1.0) -> Tensor:
    """Squares of differences below ``beta``, absolute differences above."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """log(1 + exp(-target x))."""
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """exp(x) divided by its sum along a dimension; with ``dtype``, computed in that type.

    >>> import talweg as tw
    >>> tw.nn.functional.softmax(tw.zeros(2, 4), dim=1, dtype=tw.float64).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]"""
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """``softmax`` of -x."""
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x where beta x is above ``threshold``."""
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards zero by ``lambd``."""
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).softsign().tolist()  # by hand
    [-0.5, 0.0, 0.75]"""
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, elementwise.

    >>> tensor([0.0, 1.0]).tanh().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.7615941559557649]"""
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x), elementwise.

    >>> tensor([0.0, 1.0]).tanhshrink().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.23840584404423515]"""
def threshold(input: Tensor, threshold: float, value: Any, inplace: bool = False) -> Tensor:
    """x where it is above ``threshold``, else ``value``."""
def threshold_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``threshold`` in place."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-06, swap: bool = False, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False, reduction: str = 'mean') -> Tensor:
    """``triplet_margin_loss`` with a custom distance."""
def unfold(input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> Tensor:
    """Windows of pictures ``[N, C, H, W]`` as columns ``[N, C kernel, windows]``.

    >>> import talweg as tw
    >>> tw.nn.functional.unfold(tw.ones(1, 2, 4, 4), kernel_size=2, stride=2).shape
    (1, 8, 4)"""
def upsample(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool | None = None) -> Tensor:
    """The old name of ``interpolate``."""
def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """The old name of ``interpolate(mode="bilinear", align_corners=True)``."""
def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """The old name of ``interpolate(mode="nearest")``."""
