//! From one sharding of a value to another: the steps, what they cost, and the nodes that carry them out.

use ir::shard::part;
use ir::{Graph, Mesh, Monoid, Result, Shape, Site, Slot, Spec, Type};
use std::fmt;
use std::ops::Range;

/// What exchanges values between ranks along an axis of the mesh. Passes know no op by name: the op table provides it.
pub trait Exchange {
    /// The combination of all ranks' terms.
    fn all_reduce(&self, g: &mut Graph, x: Slot, axis: u8, how: Monoid, site: Site) -> Result<Slot>;
    /// The parts of all ranks along a dimension, whose sizes are given.
    fn all_gather(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, sizes: &[usize], site: Site) -> Result<Slot>;
    /// This rank's part of the combination of all ranks' terms; parts have one size.
    fn reduce_scatter(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, how: Monoid, site: Site) -> Result<Slot>;
    /// The range of a dimension that is this rank's part along an axis.
    fn slice(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, range: Range<usize>, site: Site) -> Result<Slot>;
    /// Zeros.
    fn zeros(&self, g: &mut Graph, ty: &Type, site: Site) -> Result<Slot>;
    /// The combination of two values of this rank.
    fn combine(&self, g: &mut Graph, a: Slot, b: Slot, how: Monoid, site: Site) -> Result<Slot>;
    /// Values of this rank one after the other, along a dimension.
    fn concat(&self, g: &mut Graph, parts: &[Slot], dim: usize, site: Site) -> Result<Slot>;
}

/// One step from a sharding to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Terms become the whole.
    Reduce {
        /// Along this axis of the mesh.
        axis: u8,
        /// How they are combined.
        how: Monoid,
    },
    /// Terms become parts.
    Scatter {
        /// Along this axis of the mesh.
        axis: u8,
        /// Parts of this dimension.
        dim: usize,
        /// How they are combined.
        how: Monoid,
    },
    /// Parts become the whole.
    Gather {
        /// Along this axis of the mesh.
        axis: u8,
        /// Parts of this dimension.
        dim: usize,
    },
    /// The whole becomes parts, without communication.
    Slice {
        /// Along this axis of the mesh.
        axis: u8,
        /// Parts of this dimension.
        dim: usize,
    },
}

impl Step {
    /// The axis along which ranks exchange.
    pub fn axis(self) -> u8 {
        match self {
            Step::Reduce { axis, .. } | Step::Scatter { axis, .. } => axis,
            Step::Gather { axis, .. } | Step::Slice { axis, .. } => axis,
        }
    }
    /// The same along another axis.
    pub(super) fn along(mut self, to: u8) -> Step {
        match &mut self {
            Step::Reduce { axis, .. } | Step::Scatter { axis, .. } => *axis = to,
            Step::Gather { axis, .. } | Step::Slice { axis, .. } => *axis = to,
        }
        self
    }
}
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Reduce { .. } => "all_reduce",
            Step::Scatter { .. } => "reduce_scatter",
            Step::Gather { .. } => "all_gather",
            Step::Slice { .. } => "local part",
        })
    }
}

/// Whether parts along these axes have one size.
fn is_even(size: usize, axes: &[u8], mesh: &Mesh) -> bool {
    size.is_multiple_of(axes.iter().map(|&a| mesh.size(a)).product())
}

/// The steps between two shardings; `None` if there are none, as from a whole value to terms.
pub fn steps(from: &Spec, to: &Spec, shape: &Shape, mesh: &Mesh) -> Option<Vec<Step>> {
    if to.partial.iter().any(|p| !from.partial.contains(p)) {
        return None;
    }
    let (mut now, mut list) = (from.clone(), Vec::new());
    // Local parts first: what follows then moves fewer bytes.
    for (dim, want) in to.dims.iter().enumerate() {
        while now.dims[dim].len() < want.len() && want.starts_with(&now.dims[dim]) {
            let axis = want[now.dims[dim].len()];
            if now.uses(axis) {
                break;
            }
            list.push(Step::Slice { axis, dim });
            now.dims[dim].push(axis);
        }
    }
    for &(axis, how) in from.partial.iter().filter(|p| !to.partial.contains(p)) {
        let target = to.dim_of(axis).filter(|&dim| {
            let mut with = now.dims[dim].clone();
            with.push(axis);
            to.dims[dim].starts_with(&with) && is_even(shape[dim], &with, mesh)
        });
        match target {
            Some(dim) => {
                list.push(Step::Scatter { axis, dim, how });
                now.dims[dim].push(axis);
            }
            None => list.push(Step::Reduce { axis, how }),
        }
        now.partial.retain(|(a, _)| *a != axis);
    }
    for (dim, want) in to.dims.iter().enumerate() {
        while !want.starts_with(&now.dims[dim]) {
            let axis = now.dims[dim].pop()?;
            list.push(Step::Gather { axis, dim });
        }
    }
    for (dim, want) in to.dims.iter().enumerate() {
        for &axis in &want[now.dims[dim].len()..] {
            list.push(Step::Slice { axis, dim });
        }
    }
    Some(list)
}

/// Bytes that a rank sends for these steps.
pub fn cost(list: &[Step], from: &Spec, ty: &Type, mesh: &Mesh) -> f64 {
    let cuts: usize = from.dims.iter().flatten().map(|&a| mesh.size(a)).product();
    let mut bytes = ty.bytes() as f64 / cuts as f64;
    let mut sum = 0.0;
    for step in list {
        let n = mesh.size(step.axis()) as f64;
        match step {
            Step::Reduce { .. } => sum += 2.0 * bytes * (n - 1.0) / n,
            Step::Scatter { .. } => {
                sum += bytes * (n - 1.0) / n;
                bytes /= n;
            }
            Step::Gather { .. } => {
                sum += bytes * (n - 1.0);
                bytes *= n;
            }
            Step::Slice { .. } => bytes /= n,
        }
    }
    sum
}

/// A value on its way between shardings.
pub(super) struct Moving<'a> {
    pub mesh: &'a Mesh,
    pub rank: usize,
    pub exchange: &'a dyn Exchange,
    pub shape: &'a Shape,
    pub site: Site,
}

impl Moving<'_> {
    /// Appends the nodes of one step to the graph.
    pub fn take(&self, g: &mut Graph, x: Slot, now: &mut Spec, step: Step) -> Result<Slot> {
        let Moving { mesh, rank, exchange, shape, site } = *self;
        match step {
            Step::Reduce { axis, how } => {
                now.partial.retain(|(a, _)| *a != axis);
                exchange.all_reduce(g, x, axis, how, site)
            }
            Step::Scatter { axis, dim, how } => {
                now.partial.retain(|(a, _)| *a != axis);
                now.dims[dim].push(axis);
                exchange.reduce_scatter(g, x, axis, dim, how, site)
            }
            Step::Gather { axis, dim } => {
                now.dims[dim].pop();
                let whole = now.ranges(shape, mesh, rank)[dim].len();
                let n = mesh.size(axis);
                let sizes: Vec<usize> = (0..n).map(|i| part(whole, n, i).len()).collect();
                exchange.all_gather(g, x, axis, dim, &sizes, site)
            }
            Step::Slice { axis, dim } => {
                let whole = now.ranges(shape, mesh, rank)[dim].len();
                now.dims[dim].push(axis);
                exchange.slice(g, x, axis, dim, part(whole, mesh.size(axis), mesh.coordinate(rank, axis)), site)
            }
        }
    }
}
