"""Layers over graphs: nodes ``[N, inputs]`` and edges ``[2, E]``, whose first row is where an edge comes from and whose
second where it goes to. Parameters have PyTorch Geometric's names."""

from __future__ import annotations

from ... import _native
from ..._checked import check
from ..._native import Tensor
from ...errors import ShapeError
from .common import Described, size
from .linear import Linear

__all__ = ["GAT", "GCN"]


def _looped(x, edges):
    """Sources and targets of the edges, with one more from each node to itself, and the number of nodes."""
    if edges.ndim != 2 or edges.shape[0] != 2 or not str(edges.dtype).endswith("int64"):
        raise ShapeError(_native.located(f"edges must be int64[2, E], not {edges.dtype}{list(edges.shape)}"))
    nodes = x.shape[0]
    own = _native.arange(nodes)
    return Tensor.concat([edges.select(0, 0), own]), Tensor.concat([edges.select(0, 1), own]), nodes


def _sent_to(to, nodes, sent):
    """What arrives at each node, added up."""
    return _native.zeros(nodes, *sent.shape[1:], dtype=sent.dtype).index_add(0, to, sent)


class GCN(Described):
    """Graph convolution (Kipf and Welling 2017) of nodes ``[N, inputs]`` along edges ``[2, E]``. Every node gets an edge
    to itself: the edges given should have none.

    >>> tw.nn.GCN(3, 4)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    talweg.Size([3, 4])
    """

    _row = "GCN"

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels, self.out_channels = size(self, "in_channels", in_channels), size(self, "out_channels", out_channels)
        self.lin = Linear(self.in_channels, self.out_channels, bias=False)
        self._make_parameters(in_channels=self.in_channels, out_channels=self.out_channels)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, to, nodes = _looped(x, edges)
        h = self.lin(x)
        degree = _sent_to(to, nodes, _native.ones(to.shape[0], dtype=h.dtype))
        scale = (1.0 / degree.sqrt()).unsqueeze(-1)
        # Both square roots belong to nodes, so they are applied to nodes, not to edges.
        return _sent_to(to, nodes, (h * scale).take(source, 0)) * scale + self.bias

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}"


class GAT(Described):
    """Graph attention (Veličković and others 2018); ``concat`` puts the heads side by side, else they are averaged. Every
    node gets an edge to itself: the edges given should have none.

    >>> tw.nn.GAT(3, 4, heads=2)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    talweg.Size([3, 8])
    """

    _row = "GAT"

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True) -> None:
        super().__init__()
        self.in_channels, self.out_channels = size(self, "in_channels", in_channels), size(self, "out_channels", out_channels)
        self.heads, self.concat = size(self, "heads", heads, 1), concat
        self.lin = Linear(self.in_channels, self.heads * self.out_channels, bias=False)
        sizes = dict(in_channels=self.in_channels, out_channels=self.out_channels)
        self._make_parameters(**sizes, heads=self.heads, concat=bool(concat))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, to, nodes = _looped(x, edges)
        h = self.lin(x).reshape(nodes, self.heads, self.out_channels)
        raw = (h * self.att_src).sum(-1).take(source, 0) + (h * self.att_dst).sum(-1).take(to, 0)
        raw = raw.leaky_relu(0.2)
        # Softmax over the edges that meet in a node; the largest is taken out first.
        index = to.unsqueeze(-1).broadcast_to(raw.shape)
        top = _native.zeros(nodes, self.heads, dtype=h.dtype).scatter_reduce(0, index, raw.stop_gradient(), "amax", include_self=False)
        share = (raw - top.take(to, 0)).exp()
        share = share / _sent_to(to, nodes, share).take(to, 0)
        y = _sent_to(to, nodes, h.take(source, 0) * share.unsqueeze(-1))
        y = y.reshape(nodes, -1) if self.concat else y.mean(1)
        return y + self.bias

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"


check(globals(), __all__)
