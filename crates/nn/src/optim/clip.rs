//! Gradients kept within bounds. Where workers average their gradients, it is the means that are clipped.

use crate::parallel;
use tensor::{Result, Tensor, Variable, no_grad};

/// Clips the gradients to a global norm of `max`; returns the
/// length before. Among workers that reduce gradients, these become their means first; where servers
/// average them it is an error.
pub fn clip_grad_norm(params: &[Variable], max: f64) -> Result<Tensor> {
    parallel::needs_mean("clip_grad_norm")?;
    no_grad(|| {
        let grads = means(params)?;
        let squares: Tensor = grads.iter().map(|(_, g)| (g * g.conj()).real().sum(..)).sum();
        let norm = squares.sqrt();
        let scale = (Tensor::from(max as f32) / (&norm + 1e-6)).minimum(1.0);
        grads.iter().try_for_each(|(p, g)| replace(p, &(g * &scale).cast(p.dtype())))?;
        Ok(norm)
    })
}

/// Cuts every gradient element to `-max ..= max`, of the means over workers where these reduce gradients.
pub fn clip_grad_value(params: &[Variable], max: f64) -> Result<()> {
    parallel::needs_mean("clip_grad_value")?;
    no_grad(|| means(params)?.iter().try_for_each(|(p, g)| replace(p, &g.minimum(max).maximum(-max))))
}

/// Replaces gradients by their means over workers under all-reduce, for code that reads all of them before a step;
/// where servers average them it is an error.
pub fn mean_gradients(params: &[Variable]) -> Result<()> {
    parallel::needs_mean("mean_gradients")?;
    if parallel::world()? == 1 {
        return Ok(());
    }
    no_grad(|| means(params)?.iter().try_for_each(|(p, g)| replace(p, g)))
}

/// Averages gradients over workers, for a program that does so itself (`parallel::set_local`). With a
/// parameter store, which averages them, nothing happens.
pub fn average_gradients(params: &[Variable]) -> Result<()> {
    no_grad(|| averaged(params, parallel::mean_of_all)?.iter().try_for_each(|(p, g)| replace(p, g)))
}

/// The gradients that there are, as all workers see them.
fn means(params: &[Variable]) -> Result<Vec<(&Variable, Tensor)>> {
    averaged(params, parallel::mean)
}
type Mean = fn(&Tensor, &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>;
fn averaged(params: &[Variable], mean: Mean) -> Result<Vec<(&Variable, Tensor)>> {
    let own: Vec<Option<Tensor>> = params.iter().map(Variable::grad).collect();
    let all = mean(&Tensor::from(0.0f32), &own)?.unwrap_or(own);
    Ok(params.iter().zip(all).filter_map(|(p, g)| Some((p, g?))).collect())
}
fn replace(p: &Variable, grad: &Tensor) -> Result<()> {
    let grad = grad.value()?;
    parallel::note_mean(grad)?;
    p.var().set_grad(Some(grad.clone()));
    Ok(())
}
