"""Embeddings, and distances between vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._checked import check, value_error
from .. import functional as F
from ..._state import no_grad
from ..module import Module
from ..parameter import Parameter
from .common import Described, placed, shown, size

if TYPE_CHECKING:
    from ... import DTypeLike, Tensor

__all__ = ["CosineSimilarity", "Embedding", "EmbeddingBag", "PairwiseDistance"]


class _Table(Described):
    _row = "Embedding"

    def _make(self, num_embeddings, embedding_dim, padding_idx, weight):
        self.num_embeddings = size(self, "num_embeddings", num_embeddings)
        self.embedding_dim = size(self, "embedding_dim", embedding_dim)
        name = type(self).__name__
        if padding_idx is not None and not -self.num_embeddings <= padding_idx < self.num_embeddings:
            raise value_error(f"{name}: padding_idx {padding_idx} is not within {num_embeddings} embeddings")
        self.padding_idx = None if padding_idx is None else padding_idx % self.num_embeddings
        sizes = dict(num_embeddings=self.num_embeddings, embedding_dim=self.embedding_dim)
        if weight is None:
            self._make_parameters(**sizes)
        else:
            self._describe(**sizes)
            if tuple(weight.shape) != (self.num_embeddings, self.embedding_dim):
                raise value_error(f"{name}: the weight is {tuple(weight.shape)}, not {(num_embeddings, embedding_dim)}")
            self.weight = weight if isinstance(weight, Parameter) else Parameter(weight)

    def reset_parameters(self) -> None:
        """Standard normal values, and zeros at ``padding_idx``."""
        super().reset_parameters()
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def _of(cls, embeddings, freeze, **settings):
        if len(embeddings.shape) != 2:
            raise value_error(f"{cls.__name__}: a table has 2 dimensions, not {len(embeddings.shape)}")
        made = cls(*embeddings.shape, _weight=embeddings, **settings)
        made.weight.requires_grad = not freeze
        return made

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        settings = {k: getattr(self, k) for k, plain in self._shown.items() if getattr(self, k) != plain}
        return f"{text}, {shown(**settings)}" if settings else text


class Embedding(_Table):
    """Embedding table: row i for each integer i.

    >>> tw.nn.Embedding(10, 4)(tw.tensor([[1, 2], [3, 4]])).shape
    talweg.Size([2, 2, 4])
    """

    _shown = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._make(num_embeddings, embedding_dim, padding_idx, _weight)
        if _freeze:
            self.weight.requires_grad = False
        placed(self, device, dtype)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """A layer with a given table, not trained unless ``freeze`` is false.

        >>> tw.nn.Embedding.from_pretrained(tw.tensor([[1.0], [2.0]]))(tw.tensor([1])).tolist()
        [[2.0]]
        """
        settings = dict(padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type)
        return cls._of(embeddings, freeze, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, **settings)

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)
        return F.embedding(input, self.weight, *settings)


class EmbeddingBag(_Table):
    """Sums, means or maxima over bags of rows of an embedding table.

    >>> bag = tw.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bag(tw.tensor([1, 2, 4, 5]), tw.tensor([0, 2])).shape
    talweg.Size([2, 3])
    """

    _shown = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "mode": None, "padding_idx": None}

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if mode not in ("sum", "mean", "max"):
            raise value_error(f"EmbeddingBag: mode is 'sum', 'mean' or 'max', not {mode!r}")
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        self._make(num_embeddings, embedding_dim, padding_idx, _weight)
        placed(self, device, dtype)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """A layer with a given table, not trained unless ``freeze`` is false."""
        settings = dict(max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode)
        settings |= dict(sparse=sparse, include_last_offset=include_last_offset, padding_idx=padding_idx)
        return cls._of(embeddings, freeze, **settings)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )


class CosineSimilarity(Module):
    """Cosine similarity along a dimension.

    >>> tw.nn.CosineSimilarity(dim=0)(tw.tensor([1.0, 0.0]), tw.tensor([2.0, 0.0])).item()
    1.0
    """

    def __init__(self, dim: int | None = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference along the last dimension.

    >>> round(tw.nn.PairwiseDistance()(tw.zeros(1, 2), tw.tensor([[3.0, 4.0]])).item(), 3)
    5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


check(globals(), __all__)
