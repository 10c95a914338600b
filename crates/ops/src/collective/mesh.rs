//! What ranks of a mesh exchange, as nodes of a flat graph: the collectives that partitioning inserts.

use super::{Ranks, overlapped};
use crate::{Combine, Result, Tensor, effects};
use ir::{FlatNode, Graph, Literal, Monoid, PeersHandle, Shape, Site, Slot, Type, Value};
use passes::partition::{Exchange, Kind, Order, Overlap, Recut};
use std::ops::Range;

/// The ranks along each axis of a mesh, this one included.
#[derive(Clone, Debug)]
pub struct MeshRanks(pub Vec<PeersHandle>);

impl MeshRanks {
    fn along(&self, axis: u8) -> Ranks {
        Ranks(self.0[axis as usize].clone())
    }
}

/// What a collective moves, for a model of its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every rank gets the combination of all.
    AllReduce,
    /// Every rank gets all parts.
    AllGather,
    /// Every rank gets its part of the combination.
    ReduceScatter,
    /// Every rank gets a part of each.
    AllToAll,
}

/// What a collective moves; `None` for what meshes do not use.
pub fn pattern(op: &ir::Op) -> Option<Pattern> {
    let all = [
        (&super::ALL_REDUCE, Pattern::AllReduce),
        (&super::ALL_GATHER, Pattern::AllGather),
        (&super::REDUCE_SCATTER, Pattern::ReduceScatter),
        (&super::ALL_TO_ALL, Pattern::AllToAll),
    ];
    let op = super::overlapped::collective(op).unwrap_or(op);
    all.into_iter().find(|(o, _)| *o == op).map(|(_, p)| p)
}

/// Appends what `f` makes of a value.
fn append(g: &mut Graph, x: Slot, site: Site, f: impl FnOnce(&Tensor) -> Tensor) -> Result<Slot> {
    append_all(g, &[x], site, |t| f(&t[0]))
}
/// Appends what `f` makes of values.
fn append_all(g: &mut Graph, x: &[Slot], site: Site, f: impl FnOnce(&[Tensor]) -> Tensor) -> Result<Slot> {
    let args: Vec<Value> = x.iter().map(|&s| Value::placeholder("", g.ty(s).clone(), site)).collect();
    let tensors: Vec<Tensor> = args.iter().cloned().map(Tensor::from).collect();
    let made = || site.scope(|| crate::autocast::off(|| f(&tensors)));
    let (out, _) = effects::collected(|| ir::no_grad(made));
    let out = out.value()?.clone();
    let body = passes::graph_of(&args, &[out])?;
    Ok(passes::splice(g, &body, x).remove(0))
}

fn combine(how: Monoid) -> Combine {
    match how {
        Monoid::Sum => Combine::Sum,
        Monoid::Prod => Combine::Prod,
        Monoid::Max => Combine::Max,
        Monoid::Min => Combine::Min,
    }
}

impl Exchange for MeshRanks {
    fn all_reduce(&self, g: &mut Graph, x: Slot, axis: u8, how: Monoid, site: Site) -> Result<Slot> {
        append(g, x, site, |t| self.along(axis).all_reduce(t, combine(how)))
    }
    fn all_gather(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, sizes: &[usize], site: Site) -> Result<Slot> {
        let (most, rank) = (sizes.iter().copied().max().unwrap_or(0), g.ty(x).shape.rank());
        let short = most - g.ty(x).shape[dim];
        let ranks = self.along(axis);
        append(g, x, site, |t| {
            if sizes.iter().all(|s| *s == most) {
                return ranks.all_gather(t, dim as i64);
            }
            // All ranks bring as much, and what was padded is cut away again.
            let mut hi = vec![0; rank];
            hi[dim] = short as i64;
            let all = ranks.all_gather(&t.pad_raw(&vec![0; rank], &hi, 0.0), dim as i64);
            let cut = |(i, &n): (usize, &usize)| all.narrow(dim as i64, i * most, n);
            Tensor::concat(&sizes.iter().enumerate().map(cut).collect::<Vec<_>>(), dim as i64)
        })
    }
    fn reduce_scatter(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, how: Monoid, site: Site) -> Result<Slot> {
        append(g, x, site, |t| self.along(axis).reduce_scatter(t, combine(how), dim as i64))
    }
    fn slice(&self, g: &mut Graph, x: Slot, _: u8, dim: usize, range: Range<usize>, site: Site) -> Result<Slot> {
        append(g, x, site, |t| t.narrow(dim as i64, range.start, range.len()))
    }
    fn all_to_all(&self, g: &mut Graph, x: Slot, axis: u8, cut: Recut, site: Site) -> Result<Slot> {
        append(g, x, site, |t| self.along(axis).all_to_all(t, cut.to as i64, cut.from as i64))
    }
    fn reorder(&self, g: &mut Graph, x: Slot, dim: usize, order: Order, site: Site) -> Result<Slot> {
        let (shape, Order { deal, ranks, is_dealt }) = (g.ty(x).shape.clone(), order);
        let (blocks, chunk) = (shape[dim] / deal.period, deal.period / (2 * ranks));
        let as_dims = |inner: &[usize]| -> Vec<usize> {
            shape[..dim].iter().chain(inner).chain(&shape[dim + 1..]).copied().collect()
        };
        let at = |i: usize| (dim + i) as i64;
        let mut swapped: Vec<i64> = (0..(shape.rank() + 3) as i64).collect();
        swapped.swap(dim, dim + 1);
        if !deal.is_zigzag {
            swapped.pop();
            let (a, b) = if is_dealt { (blocks, ranks) } else { (ranks, blocks) };
            let cut = as_dims(&[a, b, deal.period / ranks]);
            return append(g, x, site, |t| t.reshape(cut.as_slice()).permute(&swapped).reshape(shape.clone()));
        }
        append(g, x, site, |t| {
            if is_dealt {
                let t = t.reshape(as_dims(&[blocks, 2 * ranks, chunk]).as_slice());
                let (low, high) = (t.narrow(at(1), 0, ranks), t.narrow(at(1), ranks, ranks).flip(at(1)));
                let both = Tensor::stack(&[low, high], at(2));
                both.permute(&swapped).reshape(shape.clone())
            } else {
                let t = t.reshape(as_dims(&[ranks, blocks, 2, chunk]).as_slice()).permute(&swapped);
                let (low, high) = (t.select(at(2), 0), t.select(at(2), 1).flip(at(1)));
                Tensor::concat(&[low, high], at(1)).reshape(shape.clone())
            }
        })
    }
    fn zeros(&self, g: &mut Graph, ty: &Type, site: Site) -> Result<Slot> {
        let zero = Tensor::from(Literal::zeros(ty.dtype, Shape::scalar()));
        let out = site.scope(|| zero.broadcast_to(ty.shape.clone())).value()?.clone();
        let body = passes::graph_of(&[], &[out])?;
        Ok(passes::splice(g, &body, &[]).remove(0))
    }
    fn combine(&self, g: &mut Graph, a: Slot, b: Slot, how: Monoid, site: Site) -> Result<Slot> {
        append_all(g, &[a, b], site, |t| match how {
            Monoid::Sum => &t[0] + &t[1],
            Monoid::Prod => &t[0] * &t[1],
            Monoid::Max => t[0].maximum(&t[1]),
            Monoid::Min => t[0].minimum(&t[1]),
        })
    }
    fn concat(&self, g: &mut Graph, parts: &[Slot], dim: usize, site: Site) -> Result<Slot> {
        append_all(g, parts, site, |t| Tensor::concat(t, dim as i64))
    }
}

impl Overlap for MeshRanks {
    fn kind(&self, n: &FlatNode) -> Option<Kind> {
        overlapped::kind(n)
    }
    fn begin(&self, g: &mut Graph, n: &FlatNode, x: Slot, after: &[Slot]) -> Result<Slot> {
        overlapped::begin(g, n, x, after)
    }
    fn end(&self, g: &mut Graph, n: &FlatNode, begun: Slot, x: Slot) -> Result<Slot> {
        overlapped::end(g, n, begun, x)
    }
    fn flat(&self, g: &mut Graph, values: &[Slot], site: Site) -> Result<Slot> {
        append_all(g, values, site, overlapped::flat)
    }
    fn unflat(&self, g: &mut Graph, x: Slot, start: usize, ty: &Type, site: Site) -> Result<Slot> {
        append(g, x, site, |t| t.narrow(0, start, ty.shape.count()).reshape(ty.shape.clone()))
    }
}
