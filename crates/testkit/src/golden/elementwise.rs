//! Adapters: elementwise operators, activations, softmax, norms of layers.

use super::GoldenCase;
use ops::{Axes, Error, Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let t = unary(c).or_else(|| binary(c)).or_else(|| several(c)).or_else(|| activation(c)).or_else(|| norm(c));
    t.map(|t| Ok(vec![t]))
}

/// Functions of one tensor without parameters.
fn unary(c: &GoldenCase) -> Option<Tensor> {
    let f: fn(&Tensor) -> Tensor = match c.operator.as_str() {
        "abs" => Tensor::abs,
        "acos" => Tensor::acos,
        "acosh" => Tensor::acosh,
        "angle" => Tensor::angle,
        "asin" => Tensor::asin,
        "asinh" => Tensor::asinh,
        "atan" => Tensor::atan,
        "atanh" => Tensor::atanh,
        "ceil" => Tensor::ceil,
        "clone" => Tensor::clone,
        "cos" => Tensor::cos,
        "cosh" => Tensor::cosh,
        "deg2rad" => Tensor::deg2rad,
        "digamma" => Tensor::digamma,
        "erf" => Tensor::erf,
        "erfc" => Tensor::erfc,
        "exp" => Tensor::exp,
        "exp2" => Tensor::exp2,
        "expm1" => Tensor::expm1,
        "floor" => Tensor::floor,
        "frac" => Tensor::frac,
        "lgamma" => Tensor::lgamma,
        "log" => Tensor::log,
        "log10" => Tensor::log10,
        "log1p" => Tensor::log1p,
        "log2" => Tensor::log2,
        "neg" => Tensor::neg,
        "reciprocal" => Tensor::recip,
        "round" => Tensor::round,
        "rsqrt" => Tensor::rsqrt,
        "sigmoid" => Tensor::sigmoid,
        "sign" => Tensor::sign,
        "sin" => Tensor::sin,
        "sinc" => Tensor::sinc,
        "sinh" => Tensor::sinh,
        "sqrt" => Tensor::sqrt,
        "square" => Tensor::square,
        "tan" => Tensor::tan,
        "tanh" => Tensor::tanh,
        "trunc" => Tensor::trunc,
        _ => return None,
    };
    Some(f(&c.tensor(0)))
}

/// Functions of two tensors, or of a tensor and a number.
fn binary(c: &GoldenCase) -> Option<Tensor> {
    let x = || c.tensor(0);
    let other = || c.operand((1, "other"));
    // `alpha` scales the second operand of add and sub.
    let scaled = || if c.has("alpha") { other() * c.float("alpha", 1.0) } else { other() };
    Some(match c.operator.as_str() {
        "add" => x().add(scaled()),
        "atan2" => x().atan2(other()),
        "clamp_max" => x().clamp_max(c.operand((1, "max"))),
        "clamp_min" => x().clamp_min(c.operand((1, "min"))),
        "div:no_rounding_mode" => x().div(other()),
        "fmax" => x().fmax(other()),
        "fmin" => x().fmin(other()),
        "hypot" => x().hypot(other()),
        "logaddexp" => x().logaddexp(other()),
        "maximum" | "max:binary" => x().maximum(other()),
        "minimum" | "min:binary" => x().minimum(other()),
        "mul" => x().mul(other()),
        "pow" => x().pow(other()),
        "remainder" => x().rem(other()),
        "rsub" => other() - x() * c.float("alpha", 1.0),
        "sub" => x().sub(scaled()),
        "xlogy" => x().xlogy(other()),
        _ => return None,
    })
}

/// Functions of several tensors and numbers.
fn several(c: &GoldenCase) -> Option<Tensor> {
    let x = || c.tensor(0);
    let value = || c.float("value", 1.0);
    Some(match c.operator.as_str() {
        "addcdiv" => x().addcdiv(&c.tensor(1), &c.tensor(2), value()),
        "addcmul" => x().addcmul(&c.tensor(1), &c.tensor(2), value()),
        "clamp" => match (c.has((1, "min")), c.has((2, "max"))) {
            (true, true) => x().clamp(c.operand((1, "min")), c.operand((2, "max"))),
            (true, false) => x().clamp_min(c.operand((1, "min"))),
            (false, true) => x().clamp_max(c.operand((2, "max"))),
            (false, false) => x(),
        },
        "fill" => x().full_like(value()),
        "lerp" => x().lerp(&c.tensor(1), c.operand((2, "weight"))),
        "logit" => match c.opt_float((1, "eps")) {
            Some(eps) => x().logit_eps(eps),
            None => x().logit(),
        },
        "where" => Tensor::where_(&c.tensor(1), &x(), c.operand(2)),
        _ => return None,
    })
}

/// Activations.
fn activation(c: &GoldenCase) -> Option<Tensor> {
    let x = || c.tensor(0);
    let alpha = || c.float((1, "alpha"), 1.0);
    let lambda = || c.float((1, "lambd"), 0.5);
    Some(match c.operator.strip_prefix("nn.functional.")? {
        "celu" => x().celu(alpha()),
        "elu" => x().elu(alpha()),
        "gelu" if c.str("approximate", "none") == "tanh" => x().gelu_tanh(),
        "gelu" => x().gelu(),
        "glu" => x().glu(c.int((1, "dim"), -1)),
        "hardshrink" => x().hardshrink(lambda()),
        "hardsigmoid" => x().hardsigmoid(),
        "hardswish" => x().hardswish(),
        "hardtanh" => x().hardtanh(c.float((1, "min_val"), -1.0), c.float((2, "max_val"), 1.0)),
        "leaky_relu" => x().leaky_relu(c.float((1, "negative_slope"), 0.01)),
        "logsigmoid" => x().log_sigmoid(),
        "mish" => x().mish(),
        "prelu" => x().prelu(&c.tensor((1, "weight"))),
        "relu" => x().relu(),
        "relu6" => x().relu6(),
        "selu" => x().selu(),
        "silu" => x().silu(),
        "softplus" => x().softplus(c.float((1, "beta"), 1.0), c.float((2, "threshold"), 20.0)),
        "softshrink" => x().softshrink(lambda()),
        "softsign" => x().softsign(),
        "tanhshrink" => x().tanhshrink(),
        "threshold" => x().threshold(c.float((1, "threshold"), 0.0), c.float((2, "value"), 0.0)),
        _ => return None,
    })
}

/// Softmax and its kin, and the normalizations.
fn norm(c: &GoldenCase) -> Option<Tensor> {
    let x = || c.tensor(0);
    let (weight, bias) = (|at: usize| c.opt_tensor((at, "weight")), |at: usize| c.opt_tensor((at, "bias")));
    let eps = |at: usize| c.float((at, "eps"), 1e-5);
    let trailing = || c.ints((1, "normalized_shape")).unwrap_or_default().len();
    Some(match c.operator.as_str() {
        "softmax" => x().softmax(c.int((1, "dim"), -1)),
        "log_softmax" => x().log_softmax(c.int((1, "dim"), -1)),
        "nn.functional.softmin" => x().softmin(c.int((1, "dim"), -1)),
        "logsumexp" => super::shape::reduced(c, |t, a| t.logsumexp(a), |t, a| t.logsumexp_keep(a)),
        "nn.functional.layer_norm" => x().layer_norm(trailing(), weight(2).as_ref(), bias(3).as_ref(), eps(4)),
        // The data was computed in f64, whose smallest step is the default.
        "nn.functional.rms_norm" => x().rms_norm(trailing(), weight(2).as_ref(), c.float((3, "eps"), f64::EPSILON)),
        "nn.functional.group_norm" => {
            let groups = usize::try_from(c.int((1, "num_groups"), 1)).unwrap_or(0);
            x().group_norm(groups, weight(2).as_ref(), bias(3).as_ref(), eps(4))
        }
        "nn.functional.instance_norm" if c.bool((5, "use_input_stats"), true) => {
            x().instance_norm(weight(3).as_ref(), bias(4).as_ref(), eps(7))
        }
        // PyTorch lets an empty vector pass, which has no channels.
        "nn.functional.batch_norm" if x().count() == Ok(0) => x(),
        "nn.functional.batch_norm" if c.bool((5, "training"), false) => {
            let [y, _, _] = x().batch_norm_stats(weight(3).as_ref(), bias(4).as_ref(), eps(7));
            y
        }
        "nn.functional.instance_norm" | "nn.functional.batch_norm" => {
            match (c.opt_tensor((1, "running_mean")), c.opt_tensor((2, "running_var"))) {
                (Some(mean), Some(var)) => x().batch_norm(&mean, &var, weight(3).as_ref(), bias(4).as_ref(), eps(7)),
                _ => Error::value("inference needs running statistics").into(),
            }
        }
        "nn.functional.normalize" => {
            // PyTorch lets a scalar be normalized along axis 0 or -1.
            let axes = if x().rank() == Ok(0) { Axes::All } else { Axes::from(c.int((2, "dim"), 1)) };
            x().normalize(c.float((1, "p"), 2.0), axes, c.float((3, "eps"), 1e-12))
        }
        "nn.functional.local_response_norm" => {
            let size = usize::try_from(c.int((1, "size"), 1)).unwrap_or(0);
            x().local_response_norm(
                size,
                c.float((2, "alpha"), 1e-4),
                c.float((3, "beta"), 0.75),
                c.float((4, "k"), 1.0),
            )
        }
        _ => return None,
    })
}
