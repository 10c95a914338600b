"""Losses as modules, with PyTorch's names."""

from .._native import Tensor
from .._checked import check, type_error
from .functional import ctc_loss
from .module import Module

__all__ = []


def _loss(name, op, **defaults):
    call = getattr(Tensor, op)
    defaults["reduction"] = "mean"

    def __init__(self, **settings):
        unknown = set(settings) - set(defaults)
        if unknown:
            raise type_error(f"{name} has no setting {sorted(unknown)[0]!r}; it has {sorted(defaults)}")
        object.__setattr__(self, "_settings", {**defaults, **settings})

    def forward(self, *tensors):
        return call(*tensors, **self._settings)

    def extra_repr(self):
        return ", ".join(f"{k}={v!r}" for k, v in self._settings.items())

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": __name__}
    body["__doc__"] = getattr(call, "__doc__", None) or f"The loss {op} as a module."
    __all__.append(name)
    return type(name, (Module,), body)


CrossEntropyLoss = _loss("CrossEntropyLoss", "cross_entropy", weight=None, ignore_index=-100, label_smoothing=0.0)
NLLLoss = _loss("NLLLoss", "nll_loss", weight=None, ignore_index=-100)
MSELoss = _loss("MSELoss", "mse_loss")
L1Loss = _loss("L1Loss", "l1_loss")
SmoothL1Loss = _loss("SmoothL1Loss", "smooth_l1_loss", beta=1.0)
HuberLoss = _loss("HuberLoss", "huber_loss", delta=1.0)
BCELoss = _loss("BCELoss", "binary_cross_entropy", weight=None)
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", weight=None, pos_weight=None)
KLDivLoss = _loss("KLDivLoss", "kl_div", log_target=False)
PoissonNLLLoss = _loss("PoissonNLLLoss", "poisson_nll_loss", log_input=True, full=False, eps=1e-8)
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", "hinge_embedding_loss", margin=1.0)
MarginRankingLoss = _loss("MarginRankingLoss", "margin_ranking_loss", margin=0.0)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", "cosine_embedding_loss", margin=0.0)
TripletMarginLoss = _loss("TripletMarginLoss", "triplet_margin_loss", margin=1.0, swap=False)
GaussianNLLLoss = _loss("GaussianNLLLoss", "gaussian_nll_loss", full=False, eps=1e-6)


class CTCLoss(Module):
    """Connectionist temporal classification as a module: see ``functional.ctc_loss``."""

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)

    def extra_repr(self):
        return f"blank={self.blank}, reduction={self.reduction!r}, zero_infinity={self.zero_infinity}"


__all__.append("CTCLoss")

check(globals(), __all__)
