"""Losses as modules: each holds the settings of its function."""

import inspect

from ..._checked import check
from .. import functional as F
from ..functional.common import refuse_old
from ..module import Module
from .common import bound

__all__ = []

_OLD = {"size_average": None, "reduce": None}
_REDUCTION = {"reduction": "mean"}


def _loss(name, f, inputs, /, **defaults):
    """The function ``f`` of tensors ``inputs`` as a module. A tensor among its settings is a buffer."""
    buffers = [k for k in defaults if k in ("weight", "pos_weight")]

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        given = bound(name, signature, self, args, kwargs)
        given.apply_defaults()
        settings = {k: v for k, v in given.arguments.items() if k != "self"}
        refuse_old(name, settings.pop("size_average", None), settings.pop("reduce", None))
        for k, v in settings.items():
            self.register_buffer(k, v) if k in buffers else self.__dict__.__setitem__(k, v)

    kinds = inspect.Parameter
    parts = [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
    signature = inspect.Signature(parts + [kinds(k, kinds.POSITIONAL_OR_KEYWORD, default=v) for k, v in defaults.items()])
    __init__.__signature__ = signature
    kept = [k for k in defaults if k not in _OLD]

    def forward(self, *tensors, **named):
        return f(*tensors, **named, **{k: getattr(self, k) for k in kept})

    parts += [kinds(k, kinds.POSITIONAL_OR_KEYWORD) for k in inputs.split()]
    forward.__signature__ = inspect.Signature(parts)

    doc = (f.__doc__ or "").split(">>>")[0].strip()
    body = {"__init__": __init__, "forward": forward, "__doc__": doc, "__module__": __name__}
    __all__.append(name)
    return type(name, (Module,), body)


_PAIR, _THREE = "input target", "input1 input2 target"
_weight = {"weight": None, "size_average": None}
CrossEntropyLoss = _loss(
    "CrossEntropyLoss", F.cross_entropy, _PAIR, **_weight, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
)  # fmt: skip
NLLLoss = _loss("NLLLoss", F.nll_loss, _PAIR, **_weight, ignore_index=-100, reduce=None, reduction="mean")
BCELoss = _loss("BCELoss", F.binary_cross_entropy, _PAIR, **_weight, reduce=None, reduction="mean")
BCEWithLogitsLoss = _loss(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, _PAIR, **_weight, reduce=None, reduction="mean", pos_weight=None
)  # fmt: skip
MultiLabelSoftMarginLoss = _loss("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, _PAIR, **_weight, reduce=None, **_REDUCTION)
MSELoss = _loss("MSELoss", F.mse_loss, _PAIR, **_OLD, **_REDUCTION)
L1Loss = _loss("L1Loss", F.l1_loss, _PAIR, **_OLD, **_REDUCTION)
SoftMarginLoss = _loss("SoftMarginLoss", F.soft_margin_loss, _PAIR, **_OLD, **_REDUCTION)
MultiLabelMarginLoss = _loss("MultiLabelMarginLoss", F.multilabel_margin_loss, _PAIR, **_OLD, **_REDUCTION)
SmoothL1Loss = _loss("SmoothL1Loss", F.smooth_l1_loss, _PAIR, **_OLD, **_REDUCTION, beta=1.0)
HuberLoss = _loss("HuberLoss", F.huber_loss, _PAIR, **_REDUCTION, delta=1.0)
KLDivLoss = _loss("KLDivLoss", F.kl_div, _PAIR, **_OLD, **_REDUCTION, log_target=False)
PoissonNLLLoss = _loss(
    "PoissonNLLLoss", F.poisson_nll_loss, _PAIR, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
)  # fmt: skip
GaussianNLLLoss = _loss("GaussianNLLLoss", F.gaussian_nll_loss, "input target var", full=False, eps=1e-6, reduction="mean")
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", F.hinge_embedding_loss, _PAIR, margin=1.0, **_OLD, **_REDUCTION)
MultiMarginLoss = _loss(
    "MultiMarginLoss", F.multi_margin_loss, _PAIR, p=1, margin=1.0, weight=None, **_OLD, reduction="mean"
)  # fmt: skip
MarginRankingLoss = _loss("MarginRankingLoss", F.margin_ranking_loss, _THREE, margin=0.0, **_OLD, **_REDUCTION)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", F.cosine_embedding_loss, _THREE, margin=0.0, **_OLD, **_REDUCTION)
_TRIPLET = "anchor positive negative"
TripletMarginLoss = _loss(
    "TripletMarginLoss", F.triplet_margin_loss, _TRIPLET, margin=1.0, p=2.0, eps=1e-6, swap=False, **_OLD, **_REDUCTION
)  # fmt: skip
TripletMarginWithDistanceLoss = _loss(
    "TripletMarginWithDistanceLoss", F.triplet_margin_with_distance_loss, _TRIPLET,
    distance_function=None, margin=1.0, swap=False, reduction="mean",
)  # fmt: skip
CTCLoss = _loss(
    "CTCLoss", F.ctc_loss, "log_probs targets input_lengths target_lengths", blank=0, reduction="mean", zero_infinity=False
)  # fmt: skip

check(globals(), __all__)
