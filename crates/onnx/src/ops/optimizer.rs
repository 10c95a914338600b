//! Update rules of the training preview.

use super::{Outs, Row, all, of};
use crate::run::Call;
use ir::{Error, Result};
use tensor::Tensor;

const DOMAIN: &str = "ai.onnx.preview.training";

pub static ROWS: &[Row] = &[
    of(DOMAIN, "Adagrad", 1, |c| {
        let (r, t) = (c.scalar(0)?, c.scalar(1)?);
        let r = r / (1.0 + t * c.float("decay_factor", 0.0));
        let (norm, eps) = (c.float("norm_coefficient", 0.0), c.float("epsilon", 1e-6));
        each(c, 3, |v| {
            let g = &v[0] * norm + &v[1];
            let h = &v[2] + g.square();
            vec![&v[0] - g * r / (h.sqrt() + eps), h]
        })
    }),
    of(DOMAIN, "Adam", 1, |c| {
        let (r, t) = (c.scalar(0)?, c.scalar(1)?);
        let (a, b, eps) = (c.float("alpha", 0.9), c.float("beta", 0.999), c.float("epsilon", 1e-6));
        let (norm, post) = (c.float("norm_coefficient", 0.0), c.float("norm_coefficient_post", 0.0));
        let r = if t > 0.0 { r * (1.0 - b.powf(t)).sqrt() / (1.0 - a.powf(t)) } else { r };
        each(c, 4, |v| {
            let g = &v[0] * norm + &v[1];
            let m = &v[2] * a + &g * (1.0 - a);
            let h = &v[3] * b + g.square() * (1.0 - b);
            vec![(&v[0] - (&m / (h.sqrt() + eps)) * r) * (1.0 - post), m, h]
        })
    }),
    of(DOMAIN, "Momentum", 1, |c| {
        let (r, t) = (c.scalar(0)?, c.scalar(1)?);
        let (a, norm) = (c.float("alpha", 0.9), c.float("norm_coefficient", 0.0));
        let b = if t > 0.0 { c.float("beta", 1.0) } else { 1.0 };
        let is_nesterov = match c.text("mode", "standard") {
            "standard" => false,
            "nesterov" => true,
            m => return Err(Error::value(format!("mode is {m:?}"))),
        };
        each(c, 3, |v| {
            let g = &v[0] * norm + &v[1];
            let m = &v[2] * a + &g * b;
            let step = if is_nesterov { &g + &m * a } else { m.clone() };
            vec![&v[0] - step * r, m]
        })
    }),
];

/// Applies a rule to each parameter; the inputs are lists of `kinds` sorts, the results lists as well.
fn each(c: &Call<'_>, kinds: usize, rule: impl Fn(&[Tensor]) -> Vec<Tensor>) -> Outs {
    let n = c.inputs.len().saturating_sub(2) / kinds;
    let mut out: Vec<Vec<Tensor>> = vec![Vec::new(); kinds - 1];
    for i in 0..n {
        let v = (0..kinds).map(|k| c.x(2 + k * n + i)).collect::<Result<Vec<_>>>()?;
        out.iter_mut().zip(rule(&v)).for_each(|(o, t)| o.push(t));
    }
    all(out.concat())
}
