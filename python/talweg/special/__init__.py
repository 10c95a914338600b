"""Special functions with PyTorch's names and arguments."""

from .. import _ops
from .._checked import tensor_first
from .._functions import arithmetic, reductions, shapes
from . import bessel, gamma, polynomials
from .bessel import *
from .gamma import *
from .polynomials import *

digamma = psi = tensor_first(_ops.digamma)
entr = tensor_first(_ops.entr)
erf = tensor_first(_ops.erf)
erfc = tensor_first(_ops.erfc)
erfcx = tensor_first(_ops.erfcx)
erfinv = tensor_first(_ops.erfinv)
exp2 = tensor_first(_ops.exp2)
expit = tensor_first(_ops.sigmoid)
expm1 = tensor_first(_ops.expm1)
gammaln = tensor_first(_ops.lgamma)
i0 = tensor_first(_ops.i0)
i1 = tensor_first(_ops.i1)
log1p = tensor_first(_ops.log1p)
log_ndtr = tensor_first(_ops.log_ndtr)
log_softmax = tensor_first(reductions.log_softmax)
logit = tensor_first(arithmetic.logit)
logsumexp = tensor_first(reductions.logsumexp)
multigammaln = tensor_first(_ops.mvlgamma)
ndtr = tensor_first(_ops.ndtr)
round = tensor_first(shapes.round)
sinc = tensor_first(_ops.sinc)
softmax = tensor_first(reductions.softmax)
xlog1py = tensor_first(_ops.xlog1py)
xlogy = tensor_first(_ops.xlogy)

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i1", "log1p",
    "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "psi", "round", "sinc", "softmax",
    "xlog1py", "xlogy",
]  # fmt: skip
__all__ += bessel.__all__
__all__ += gamma.__all__
__all__ += polynomials.__all__
