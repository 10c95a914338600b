//! Terms that become parts where a use needs them combined, instead of the whole: activations along their sequence, and
//! gradients as ZeRO stores them.

use super::Walk;
use super::propagate::terms;
use ir::{FlatNode, Mesh, Result, Shape, Spec};

impl Walk<'_> {
    /// Activations that are terms, where a use needs them combined: each rank takes its part of the sequence.
    pub(super) fn scatter_sequences(&mut self, n: &FlatNode, inputs: &[usize]) -> Result<()> {
        let request = self.request;
        for &axis in &request.sequence {
            for (i, &h) in inputs.iter().enumerate() {
                let held = &self.held[h];
                let spec = &held.versions[0].0;
                let is_activation = held.ty.shape.rank() == 3 && !self.updated.contains(&held.ty.shape);
                if !spec.is_partial(axis) || held.versions.len() > 1 || !is_activation {
                    continue;
                }
                let is_even = held.ty.shape[1].is_multiple_of(request.mesh.size(axis)) && spec.dims[1].is_empty();
                let is_passed = terms(n, &self.given(inputs), axis).is_some_and(|found| found[i]);
                if is_even && !is_passed {
                    let mut to = spec.clone();
                    to.dims[1].push(axis);
                    to.partial.retain(|(a, _)| *a != axis);
                    self.moved(h, &to, Some(n.op), n.site)?;
                }
            }
        }
        Ok(())
    }

    /// Gradients of stored values, where a use needs them combined: each rank takes its part.
    pub(super) fn scatter_gradients(&mut self, n: &FlatNode, inputs: &[usize]) -> Result<()> {
        let request = self.request;
        for &axis in &request.scattered {
            for &h in inputs {
                let held = &self.held[h];
                let spec = &held.versions[0].0;
                if !spec.is_partial(axis) || held.versions.len() > 1 || !self.updated.contains(&held.ty.shape) {
                    continue;
                }
                let is_passed = held.uses <= 1 && n.op.linear_in.len() + usize::from(n.op.linear || n.op.is_view()) > 0;
                let Some(to) = scattered(spec, &held.ty.shape, axis, self.request.mesh) else { continue };
                if !is_passed {
                    self.moved(h, &to, Some(n.op), n.site)?;
                }
            }
        }
        Ok(())
    }
}

/// A sharding that is also cut along an axis: the first dimension that nothing cuts and that has even parts.
pub fn scattered(spec: &Spec, shape: &Shape, axis: u8, mesh: &Mesh) -> Option<Spec> {
    let is_free = |d: &usize| spec.dims[*d].is_empty() && shape[*d] > 0 && shape[*d].is_multiple_of(mesh.size(axis));
    let dim = (0..shape.rank()).find(is_free).filter(|_| spec.dim_of(axis).is_none())?;
    let mut to = spec.clone();
    to.dims[dim].push(axis);
    to.partial.retain(|(a, _)| *a != axis);
    Some(to)
}
