//! Adapters: losses.

use super::GoldenCase;
use ops::loss::{CrossEntropyOptions, NllOptions, PoissonOptions, Reduction, TripletOptions};
use ops::{Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let name = c.operator.strip_prefix("nn.functional.")?;
    let reduction = match Reduction::parse(&c.str("reduction", "mean")) {
        Ok(r) => r,
        Err(e) => return Some(Err(e)),
    };
    let (x, t) = (c.tensor(0), || c.tensor(1));
    let margin = |default: f64| c.float("margin", default);
    let (weight, ignore_index) = (|| c.opt_tensor("weight"), c.int("ignore_index", -100));
    Some(Ok(vec![match name {
        "mse_loss" => x.mse_loss(t(), reduction),
        "l1_loss" => x.l1_loss(t(), reduction),
        "smooth_l1_loss" => x.smooth_l1_loss(t(), c.float("beta", 1.0), reduction),
        "huber_loss" => x.huber_loss(t(), c.float("delta", 1.0), reduction),
        "kl_div" => x.kl_div(t(), c.bool("log_target", false), reduction),
        "cross_entropy" => {
            let label_smoothing = c.float("label_smoothing", 0.0);
            x.cross_entropy_with(
                &t(),
                CrossEntropyOptions { weight: weight(), ignore_index, label_smoothing, reduction },
            )
        }
        "nll_loss" => x.nll_loss(&t(), NllOptions { weight: weight(), ignore_index, reduction }),
        "binary_cross_entropy" => x.binary_cross_entropy(&t(), weight().as_ref(), reduction),
        "binary_cross_entropy_with_logits" => {
            let positive = c.opt_tensor("pos_weight");
            x.binary_cross_entropy_with_logits(&t(), weight().as_ref(), positive.as_ref(), reduction)
        }
        "hinge_embedding_loss" => x.hinge_embedding_loss(t(), margin(1.0), reduction),
        "margin_ranking_loss" => x.margin_ranking_loss(&t(), &c.tensor(2), margin(0.0), reduction),
        "cosine_embedding_loss" => x.cosine_embedding_loss(&t(), &c.tensor(2), margin(0.0), reduction),
        "poisson_nll_loss" => x.poisson_nll_loss(
            t(),
            PoissonOptions {
                log_input: c.bool("log_input", true),
                full: c.bool("full", false),
                eps: c.float("eps", 1e-8),
                reduction,
            },
        ),
        "triplet_margin_loss" => x.triplet_margin_loss(
            &t(),
            &c.tensor(2),
            TripletOptions {
                margin: margin(1.0),
                norm: c.float("p", 2.0),
                eps: c.float("eps", 1e-6),
                swap: c.bool("swap", false),
                reduction,
            },
        ),
        _ => return None,
    }]))
}
