//! Gradients kept within bounds.

use tensor::{Result, Tensor, Variable, no_grad};

/// Scales all gradients together so that their common length is at most `max`; returns the
/// length before.
pub fn clip_grad_norm(params: &[Variable], max: f64) -> Result<Tensor> {
    no_grad(|| {
        let grads: Vec<(&Variable, Tensor)> = params.iter().filter_map(|p| Some((p, p.grad()?))).collect();
        let squares: Tensor = grads.iter().map(|(_, g)| (g * g.conj()).real().sum(..)).sum();
        let norm = squares.sqrt();
        let scale = (Tensor::from(max as f32) / (&norm + 1e-6)).minimum(1.0);
        for (p, g) in grads {
            p.var().set_grad(Some((g * &scale).cast(p.dtype()).value()?.clone()));
        }
        Ok(norm)
    })
}

/// Cuts every gradient element to `-max ..= max`.
pub fn clip_grad_value(params: &[Variable], max: f64) -> Result<()> {
    no_grad(|| {
        for p in params {
            if let Some(g) = p.grad() {
                p.var().set_grad(Some(g.minimum(max).maximum(-max).value()?.clone()));
            }
        }
        Ok(())
    })
}
