//! From one sharding of a value to another: the steps, what they cost, and the nodes that carry them out.

use ir::shard::part;
use ir::{Deal, Graph, Mesh, Monoid, Result, Shape, Site, Slot, Spec, Type};
use smallvec::SmallVec;
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
    /// Parts along one dimension, which have one size, become parts along another.
    fn all_to_all(&self, g: &mut Graph, x: Slot, axis: u8, cut: Recut, site: Site) -> Result<Slot>;
    /// A dimension in another order of its elements, between positions and the parts of ranks.
    fn reorder(&self, g: &mut Graph, x: Slot, dim: usize, order: Order, site: Site) -> Result<Slot>;
    /// Zeros.
    fn zeros(&self, g: &mut Graph, ty: &Type, site: Site) -> Result<Slot>;
    /// The combination of two values of this rank.
    fn combine(&self, g: &mut Graph, a: Slot, b: Slot, how: Monoid, site: Site) -> Result<Slot>;
    /// Values of this rank one after the other, along a dimension.
    fn concat(&self, g: &mut Graph, parts: &[Slot], dim: usize, site: Site) -> Result<Slot>;
}

/// A change of the dimension that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recut {
    /// The dimension that was cut.
    pub from: usize,
    /// The dimension that is cut then.
    pub to: usize,
    /// Into so many parts.
    pub parts: usize,
}

/// An order of elements that dealing them out needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How they are dealt out.
    pub deal: Deal,
    /// Ranks that have a part each.
    pub ranks: usize,
    /// Whether elements in the order of positions become those of each rank, one rank after the other; else back.
    pub is_dealt: bool,
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
        /// How its elements are dealt out.
        deal: Deal,
    },
    /// Parts become the whole.
    Gather {
        /// Along this axis of the mesh.
        axis: u8,
        /// Parts of this dimension.
        dim: usize,
        /// How its elements are dealt out.
        deal: Deal,
    },
    /// Parts along a dimension become parts along another.
    Exchange {
        /// Along this axis of the mesh.
        axis: u8,
        /// The dimension that was cut, and how.
        from: (usize, Deal),
        /// The dimension that is cut then, and how.
        to: (usize, Deal),
    },
    /// The whole becomes parts, without communication.
    Slice {
        /// Along this axis of the mesh.
        axis: u8,
        /// Parts of this dimension.
        dim: usize,
        /// How its elements are dealt out.
        deal: Deal,
    },
}

impl Step {
    /// The axis along which ranks exchange.
    pub fn axis(self) -> u8 {
        match self {
            Step::Reduce { axis, .. } | Step::Scatter { axis, .. } => axis,
            Step::Gather { axis, .. } | Step::Exchange { axis, .. } | Step::Slice { axis, .. } => axis,
        }
    }
    /// The same along another axis.
    pub(super) fn along(mut self, to: u8) -> Step {
        match &mut self {
            Step::Reduce { axis, .. } | Step::Scatter { axis, .. } => *axis = to,
            Step::Gather { axis, .. } | Step::Exchange { axis, .. } | Step::Slice { axis, .. } => *axis = to,
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
            Step::Exchange { .. } => "all_to_all",
            Step::Slice { .. } => "local part",
        })
    }
}

/// Whether parts along these axes have one size.
fn is_even(size: usize, axes: &[Cut], mesh: &Mesh) -> bool {
    let fits = |&(a, deal): &Cut| deal.is_ranges() || deal.fits(mesh.size(a));
    size.is_multiple_of(axes.iter().map(|(a, _)| mesh.size(*a)).product()) && axes.iter().all(fits)
}

/// An axis that cuts a dimension, and how.
type Cut = (u8, Deal);
/// The axes that cut a dimension, the outermost first.
fn cuts(spec: &Spec, dim: usize) -> SmallVec<[Cut; 2]> {
    spec.dims[dim].iter().map(|&a| (a, spec.deal(a))).collect()
}

/// The steps between two shardings; `None` if there are none, as from a whole value to terms.
pub fn steps(from: &Spec, to: &Spec, shape: &Shape, mesh: &Mesh) -> Option<Vec<Step>> {
    if to.partial.iter().any(|p| !from.partial.contains(p)) {
        return None;
    }
    let (mut now, mut list) = (from.clone(), Vec::new());
    let wanted: SmallVec<[SmallVec<[Cut; 2]>; 4]> = (0..to.dims.len()).map(|dim| cuts(to, dim)).collect();
    // Local parts first: what follows then moves fewer bytes.
    for (dim, want) in wanted.iter().enumerate() {
        while now.dims[dim].len() < want.len() && want.starts_with(&cuts(&now, dim)) {
            let (axis, deal) = want[now.dims[dim].len()];
            if now.uses(axis) {
                break;
            }
            list.push(Step::Slice { axis, dim, deal });
            now.push(dim, axis, deal);
        }
    }
    for &(axis, how) in from.partial.iter().filter(|p| !to.partial.contains(p)) {
        let target = to.dim_of(axis).filter(|&dim| {
            let mut with = cuts(&now, dim);
            with.push((axis, to.deal(axis)));
            wanted[dim].starts_with(&with) && is_even(shape[dim], &with, mesh)
        });
        match target {
            Some(dim) => {
                let deal = to.deal(axis);
                list.push(Step::Scatter { axis, dim, how, deal });
                now.push(dim, axis, deal);
            }
            None => list.push(Step::Reduce { axis, how }),
        }
        now.partial.retain(|(a, _)| *a != axis);
    }
    for (dim, want) in wanted.iter().enumerate() {
        while !want.starts_with(&cuts(&now, dim)) {
            let all = cuts(&now, dim);
            let (axis, deal) = now.pop(dim)?;
            // Into another dimension, if that is what is cut next there, and parts have one size before and after.
            let target = to.dim_of(axis).filter(|&other| {
                let mut with = cuts(&now, other);
                with.push((axis, to.deal(axis)));
                let is_next = other != dim && wanted[other].starts_with(&with);
                is_next && is_even(shape[other], &with, mesh) && is_even(shape[dim], &all, mesh)
            });
            match target {
                Some(other) => {
                    let to_deal = to.deal(axis);
                    list.push(Step::Exchange { axis, from: (dim, deal), to: (other, to_deal) });
                    now.push(other, axis, to_deal);
                }
                None => list.push(Step::Gather { axis, dim, deal }),
            }
        }
    }
    for (dim, want) in wanted.iter().enumerate() {
        for &(axis, deal) in &want[now.dims[dim].len()..] {
            list.push(Step::Slice { axis, dim, deal });
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
            Step::Exchange { .. } => sum += bytes * (n - 1.0) / n,
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
            Step::Scatter { axis, dim, how, deal } => {
                now.partial.retain(|(a, _)| *a != axis);
                now.push(dim, axis, deal);
                let dealt = self.reordered(g, x, dim, (axis, deal), true)?;
                exchange.reduce_scatter(g, dealt, axis, dim, how, site)
            }
            Step::Gather { axis, dim, deal } => {
                now.pop(dim);
                let whole = now.local(shape, mesh, rank)[dim];
                let n = mesh.size(axis);
                let sizes: Vec<usize> = (0..n).map(|i| part(whole, n, i).len()).collect();
                let all = exchange.all_gather(g, x, axis, dim, &sizes, site)?;
                self.reordered(g, all, dim, (axis, deal), false)
            }
            Step::Exchange { axis, from, to } => {
                now.pop(from.0);
                now.push(to.0, axis, to.1);
                let dealt = self.reordered(g, x, to.0, (axis, to.1), true)?;
                let cut = Recut { from: from.0, to: to.0, parts: mesh.size(axis) };
                let parts = exchange.all_to_all(g, dealt, axis, cut, site)?;
                self.reordered(g, parts, from.0, (axis, from.1), false)
            }
            Step::Slice { axis, dim, deal } => {
                let whole = now.local(shape, mesh, rank)[dim];
                now.push(dim, axis, deal);
                let dealt = self.reordered(g, x, dim, (axis, deal), true)?;
                exchange.slice(g, dealt, axis, dim, part(whole, mesh.size(axis), mesh.coordinate(rank, axis)), site)
            }
        }
    }
    /// A dimension in the order that an axis needs, if it does not cut into ranges.
    fn reordered(&self, g: &mut Graph, x: Slot, dim: usize, (axis, deal): Cut, is_dealt: bool) -> Result<Slot> {
        let order = Order { deal, ranks: self.mesh.size(axis), is_dealt };
        if deal.is_ranges() { Ok(x) } else { self.exchange.reorder(g, x, dim, order, self.site) }
    }
}
