//! How values are cut over a mesh of processes: named axes, the sharding of a value, and what a row says about how its
//! op may be cut.
//!
//! A *factor* is a loop of an op: a set of dimensions of its inputs and outputs that run together. Cutting all of them
//! into the same parts computes the same parts of the results. A value is *partial* along an axis of the mesh if the
//! ranks along it hold terms that must still be combined.

use crate::{Call, Error, Monoid, Result, Shape, Type, Value};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;

/// A grid of ranks with named axes; the last axis varies fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    axes: Vec<(String, usize)>,
}

impl Mesh {
    /// From names and sizes.
    pub fn new(axes: &[(&str, usize)]) -> Result<Mesh> {
        for (i, (name, size)) in axes.iter().enumerate() {
            let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_word || *size == 0 {
                return Err(Error::value(format!("mesh axis {name:?} of size {size}: a name and a size are needed")));
            }
            if axes[..i].iter().any(|(n, _)| n == name) {
                return Err(Error::value(format!("the mesh has two axes {name:?}")));
            }
        }
        if axes.len() > 8 {
            return Err(Error::value(format!("a mesh has at most 8 axes, not {}", axes.len())));
        }
        Ok(Mesh { axes: axes.iter().map(|(n, s)| (n.to_string(), *s)).collect() })
    }
    /// From text such as `data=2,tensor=4`.
    pub fn parse(text: &str) -> Result<Mesh> {
        let bad = || Error::value(format!("a mesh is AXIS=SIZE,AXIS=SIZE…, not {text:?}"));
        let one = |part: &str| {
            let (name, size) = part.split_once('=').ok_or_else(bad)?;
            Ok((name.trim().to_string(), size.trim().parse().map_err(|_| bad())?))
        };
        let axes: Vec<(String, usize)> = text.split(',').map(one).collect::<Result<_>>()?;
        Mesh::new(&axes.iter().map(|(n, s)| (n.as_str(), *s)).collect::<Vec<_>>())
    }
    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.axes.iter().map(|(_, s)| s).product()
    }
    /// How many axes there are.
    pub fn rank(&self) -> usize {
        self.axes.len()
    }
    /// The size of an axis.
    pub fn size(&self, axis: u8) -> usize {
        self.axes[axis as usize].1
    }
    /// The name of an axis.
    pub fn name(&self, axis: u8) -> &str {
        &self.axes[axis as usize].0
    }
    /// The axis of that name.
    pub fn axis(&self, name: &str) -> Option<u8> {
        self.axes.iter().position(|(n, _)| n == name).map(|i| i as u8)
    }
    /// Where a rank is along an axis.
    pub fn coordinate(&self, rank: usize, axis: u8) -> usize {
        let inner: usize = self.axes[axis as usize + 1..].iter().map(|(_, s)| s).product();
        rank / inner % self.size(axis)
    }
    /// The ranks that differ from this one along an axis only, itself included, in order.
    pub fn group(&self, rank: usize, axis: u8) -> Vec<usize> {
        let inner: usize = self.axes[axis as usize + 1..].iter().map(|(_, s)| s).product();
        let first = rank - self.coordinate(rank, axis) * inner;
        (0..self.size(axis)).map(|i| first + i * inner).collect()
    }
}
impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.axes.iter().map(|(n, s)| format!("{n}={s}")).collect();
        f.write_str(&all.join(","))
    }
}

/// Part `i` of `n` of so many elements: parts differ by at most one, the larger ones first.
pub fn part(len: usize, n: usize, i: usize) -> Range<usize> {
    let at = |i: usize| len / n * i + (len % n).min(i);
    at(i)..at(i + 1)
}

/// Axes of a mesh, the outermost cut first.
pub type Axes = SmallVec<[u8; 2]>;

/// How a value is cut: for each dimension, the axes it is cut along, and the axes along which ranks hold terms of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Spec {
    /// The axes of each dimension.
    pub dims: SmallVec<[Axes; 4]>,
    /// Axes along which it is partial, in order.
    pub partial: SmallVec<[(u8, Monoid); 2]>,
    /// Axes that do not cut into ranges. Axes that cut the same dimension further outside leave whole periods.
    pub dealt: SmallVec<[(u8, Deal); 1]>,
}

/// How an axis of n ranks deals out the elements of a dimension: of every `period` elements, in chunks; where the period
/// is 0, into ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deal {
    /// Elements that are dealt out together.
    pub period: usize,
    /// Whether there are 2n chunks, of which rank r has r and 2n − 1 − r: queries of a causal attention then see as many
    /// keys on every rank. Otherwise there are n, one a rank: of queries, keys and values that lie one after the other,
    /// every rank has some of each.
    pub is_zigzag: bool,
}

impl Deal {
    /// Into ranges.
    pub const RANGES: Deal = Deal { period: 0, is_zigzag: false };

    /// In a zigzag.
    pub fn zigzag(period: usize) -> Deal {
        Deal { period, is_zigzag: true }
    }
    /// A chunk of every block.
    pub fn blocks(period: usize) -> Deal {
        Deal { period, is_zigzag: false }
    }
    /// Whether it cuts into ranges.
    pub fn is_ranges(self) -> bool {
        self.period == 0
    }
    /// Whether the chunks of `n` ranks have one size.
    pub fn fits(self, n: usize) -> bool {
        self.period.is_multiple_of(if self.is_zigzag { 2 * n } else { n })
    }
    /// The same on a dimension of this size: one block is cut into ranges.
    pub fn on(self, size: usize) -> Deal {
        if !self.is_zigzag && self.period == size { Deal::RANGES } else { self }
    }
}

/// Ranges of positions, in order.
pub type Runs = SmallVec<[Range<usize>; 2]>;

impl Spec {
    /// Whole on every rank.
    pub fn whole(rank: usize) -> Spec {
        Spec { dims: SmallVec::from_elem(Axes::new(), rank), ..Spec::default() }
    }
    /// True if every rank has all of it.
    pub fn is_whole(&self) -> bool {
        self.partial.is_empty() && self.dims.iter().all(|d| d.is_empty())
    }
    /// The dimension that an axis cuts.
    pub fn dim_of(&self, axis: u8) -> Option<usize> {
        self.dims.iter().position(|d| d.contains(&axis))
    }
    /// True if it is partial along an axis.
    pub fn is_partial(&self, axis: u8) -> bool {
        self.partial.iter().any(|(a, _)| *a == axis)
    }
    /// Whether the axis is used at all.
    pub fn uses(&self, axis: u8) -> bool {
        self.is_partial(axis) || self.dim_of(axis).is_some()
    }
    /// How an axis deals out elements.
    pub fn deal(&self, axis: u8) -> Deal {
        self.dealt.iter().find(|(a, _)| *a == axis).map_or(Deal::RANGES, |(_, d)| *d)
    }
    /// Cuts a dimension once more.
    pub fn push(&mut self, dim: usize, axis: u8, deal: Deal) {
        self.dims[dim].push(axis);
        self.dealt.extend((!deal.is_ranges()).then_some((axis, deal)));
    }
    /// Takes away the innermost cut of a dimension.
    pub fn pop(&mut self, dim: usize) -> Option<(u8, Deal)> {
        let axis = self.dims[dim].pop()?;
        let deal = self.deal(axis);
        self.dealt.retain(|(a, _)| *a != axis);
        Some((axis, deal))
    }
    /// The elements that a rank has along a dimension of this size.
    pub fn runs(&self, dim: usize, size: usize, mesh: &Mesh, rank: usize) -> Runs {
        let mut runs = Runs::from_iter(std::iter::once(0..size));
        for &a in &self.dims[dim] {
            let (n, i, len) = (mesh.size(a), mesh.coordinate(rank, a), runs.iter().map(Range::len).sum());
            let local = match self.deal(a) {
                Deal { period: 0, .. } => Runs::from_iter([part(len, n, i)]),
                deal => dealt(len, deal, n, i),
            };
            runs = local.iter().flat_map(|r| within(&runs, r)).collect();
        }
        joined(runs)
    }
    /// The elements that a rank has, in each dimension, all of which are cut into ranges.
    pub fn ranges(&self, shape: &Shape, mesh: &Mesh, rank: usize) -> SmallVec<[Range<usize>; 4]> {
        debug_assert!(self.dealt.is_empty(), "{self:?} has no single ranges");
        let one = |(dim, &size): (usize, &usize)| self.runs(dim, size, mesh, rank).into_iter().next().unwrap_or(0..0);
        shape.iter().enumerate().map(one).collect()
    }
    /// The shape that a rank has.
    pub fn local(&self, shape: &Shape, mesh: &Mesh, rank: usize) -> Shape {
        let one = |(dim, &size): (usize, &usize)| self.runs(dim, size, mesh, rank).iter().map(Range::len).sum();
        shape.iter().enumerate().map(one).collect()
    }
    /// For people: `[8@data, 4]`, with `+tensor` for terms.
    pub fn text(&self, shape: &Shape, mesh: &Mesh) -> String {
        let dim = |(axes, size): (&Axes, &usize)| {
            let names: String = axes.iter().map(|&a| format!("@{}", mesh.name(a))).collect();
            format!("{size}{names}")
        };
        let dims: Vec<String> = self.dims.iter().zip(shape.iter()).map(dim).collect();
        let terms: String = self.partial.iter().map(|(a, _)| format!(" +{}", mesh.name(*a))).collect();
        format!("[{}]{terms}", dims.join(", "))
    }
}

/// What rank `i` of `n` has of so many elements that are dealt out.
fn dealt(len: usize, Deal { period, is_zigzag }: Deal, n: usize, i: usize) -> Runs {
    if !is_zigzag {
        let starts = (0..len / period.max(1)).map(|b| b * period + i * (period / n));
        return starts.map(|start| start..start + period / n).collect();
    }
    let chunk = period / (2 * n);
    let starts = (0..len / period.max(1)).flat_map(|b| [b * period + i * chunk, (b + 1) * period - (i + 1) * chunk]);
    starts.map(|start| start..start + chunk).collect()
}
/// The positions that a range of elements has, which lie in these runs one after the other.
fn within(runs: &Runs, range: &Range<usize>) -> Runs {
    let (mut before, mut found) = (0, Runs::new());
    for r in runs {
        let (from, to) = (range.start.max(before), range.end.min(before + r.len()));
        if from < to {
            found.push(r.start + from - before..r.start + to - before);
        }
        before += r.len();
    }
    found
}
/// The same with neighbors joined; at least one run, which may be empty.
fn joined(runs: Runs) -> Runs {
    let mut all = Runs::new();
    for r in runs {
        match all.last_mut() {
            Some(last) if last.end == r.start => last.end = r.end,
            _ => all.push(r),
        }
    }
    if all.is_empty() { Runs::from_iter(std::iter::once(0..0)) } else { all }
}

/// What cutting a factor does to the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Parts of the inputs give parts of the results.
    Pass,
    /// Parts of the inputs give terms of the results; parts of those that have the factor.
    Reduce(Monoid),
}

/// The factors of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// What each does.
    pub kinds: Vec<Kind>,
    /// The factor of each dimension of each input; `None`: the dimension must be whole.
    pub inputs: Vec<Vec<Option<u8>>>,
    /// The factor of each dimension of each output; `None`: the dimension is whole.
    pub outputs: Vec<Vec<Option<u8>>>,
    /// Inputs that are added to the result: where a reducing factor is cut, only the first rank adds them.
    pub once: Vec<usize>,
    /// The factor along which another input states positions, as the rows of a table that is looked up: a part of it is
    /// computed as the row's [`on_part`](crate::Op::on_part) says.
    pub positions: Option<u8>,
}

impl Factors {
    /// Nothing may be cut.
    pub fn whole(inputs: &[Type], outputs: &[Type]) -> Factors {
        let none = |t: &Type| vec![None; t.shape.rank()];
        Factors {
            inputs: inputs.iter().map(none).collect(),
            outputs: outputs.iter().map(none).collect(),
            ..Factors::default()
        }
    }
    /// From a letter for each dimension, as in `einsum`: `["mk", "kn"]` to `["mn"]`. A dot is a whole dimension. A
    /// letter that no output has is summed.
    pub fn of(inputs: &[&str], outputs: &[&str]) -> Factors {
        let mut letters: Vec<char> = Vec::new();
        let mut number = |c: char| {
            if c == '.' {
                return None;
            }
            let at = letters.iter().position(|l| *l == c).unwrap_or_else(|| {
                letters.push(c);
                letters.len() - 1
            });
            Some(at as u8)
        };
        let mut all = |list: &[&str]| -> Vec<Vec<Option<u8>>> {
            list.iter().map(|s| s.chars().map(&mut number).collect()).collect()
        };
        let (inputs, outputs) = (all(inputs), all(outputs));
        let kind = |i: usize| {
            let is_kept = outputs.iter().flatten().any(|f| *f == Some(i as u8));
            if is_kept { Kind::Pass } else { Kind::Reduce(Monoid::Sum) }
        };
        let kinds = (0..letters.len()).map(kind).collect();
        Factors { kinds, inputs, outputs, once: Vec::new(), positions: None }
    }
    /// States inputs that are added to the result.
    pub fn adding(mut self, once: &[usize]) -> Factors {
        self.once = once.to_vec();
        self
    }
    /// States that terms of the results without this factor are added.
    pub fn summing(mut self, factor: Option<u8>) -> Factors {
        self.kinds.iter_mut().enumerate().filter(|(k, _)| factor == Some(*k as u8)).for_each(|(_, kind)| {
            *kind = Kind::Reduce(Monoid::Sum);
        });
        self
    }
    /// States that positions count along a dimension of the first input.
    pub fn looked_up(mut self, dim: usize) -> Factors {
        self.positions = self.inputs[0][dim];
        self
    }
    /// The sizes of the dimensions that a factor runs along: the least of them, and whether all are equal. Parts of
    /// unequal dimensions fit only where their number divides the least.
    pub fn size(&self, factor: u8, inputs: &[Type], outputs: &[Type]) -> (usize, bool) {
        let bound = |lists: &[Vec<Option<u8>>], types: &[Type]| -> Vec<usize> {
            let one = |(f, t): (&Vec<Option<u8>>, &Type)| -> Vec<usize> {
                f.iter().zip(t.shape.iter()).filter(|(f, _)| **f == Some(factor)).map(|(_, d)| *d).collect()
            };
            lists.iter().zip(types).flat_map(one).collect()
        };
        let mut all = bound(&self.inputs, inputs);
        all.extend(bound(&self.outputs, outputs));
        let least = all.iter().copied().min().unwrap_or(1);
        (least, all.iter().all(|d| *d == least))
    }
}

/// Letters for the leading dimensions of a shape, and dots for those that have size 1.
pub fn letters(shape: &[usize], first: char) -> String {
    let letter = |i: usize| char::from_u32(first as u32 + i as u32).unwrap_or('.');
    shape.iter().enumerate().map(|(i, &d)| if d == 1 { '.' } else { letter(i) }).collect()
}

/// How an op may be cut.
#[derive(Clone, Copy)]
pub enum Shard {
    /// By kind: elementwise ops pass, reductions combine, views by their layout, composites by what they consist of;
    /// kernels and control flow are whole.
    Auto,
    /// By this rule.
    Rule(fn(&Call) -> Result<Factors>),
    /// Every dimension passes but the one in attribute `axis`. All inputs and outputs have one rank, and dimensions of
    /// unequal sizes are whole.
    Lanes,
    /// As [`Shard::Lanes`], and the op concatenates its inputs along that axis: equal inputs that are cut along it
    /// into ranges give blocks that are dealt out.
    Joins,
    /// The leading dimensions of all inputs and outputs pass; the last so many are whole.
    Leading(usize),
}

/// The part of a dimension that a rank has, and the size of the whole dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    /// The positions of its elements.
    pub runs: Runs,
    /// The size of the whole.
    pub size: usize,
}

/// A call on a part of the dimension along which positions count: given the call on parts, its inputs and the part.
pub type OnPart = fn(&Call, &[Value], &Portion) -> Result<Vec<Value>>;

/// These ranges of the result of a call that is computed from positions, as random numbers are: given the whole call, its
/// whole inputs and a range of each dimension of the result.
pub type Generate = fn(&Call, &[Value], &[Range<usize>]) -> Result<Vec<Value>>;

/// The attributes of the same call on parts: given the whole call, the types of the parts, and the shapes of the
/// results.
pub type Resize = fn(&Call, &[Type], &[Shape]) -> Result<crate::Attrs>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_dealt_out() {
        let mesh = Mesh::parse("tensor=2").unwrap();
        let mut spec = Spec::whole(2);
        spec.push(0, 0, Deal::blocks(4));
        // Queries, keys and values of two heads each.
        assert_eq!(spec.runs(0, 12, &mesh, 0)[..], [0..2, 4..6, 8..10]);
        assert_eq!(spec.runs(0, 12, &mesh, 1)[..], [2..4, 6..8, 10..12]);
        assert_eq!(spec.local(&Shape::new(&[12, 5]), &mesh, 1), Shape::new(&[6, 5]));
        assert!(Deal::blocks(4).fits(2) && !Deal::blocks(3).fits(2));
        assert_eq!((Deal::blocks(4).on(4), Deal::zigzag(4).on(4)), (Deal::RANGES, Deal::zigzag(4)));
    }

    #[test]
    fn zigzag_cuts() {
        let mesh = Mesh::parse("data=2,context=2").unwrap();
        let mut spec = Spec::whole(2);
        spec.push(1, 1, Deal::zigzag(8));
        // Rank 1 has the middle of the sequence, rank 0 both ends.
        assert_eq!(spec.runs(1, 8, &mesh, 0)[..], [0..2, 6..8]);
        assert_eq!(spec.runs(1, 8, &mesh, 1)[..], *std::slice::from_ref(&(2..6)));
        // Rows of all sequences: the batch is cut outside, each sequence inside.
        let mut rows = Spec::whole(1);
        rows.push(0, 0, Deal::RANGES);
        rows.push(0, 1, Deal::zigzag(8));
        assert_eq!(rows.runs(0, 32, &mesh, 3)[..], [18..22, 26..30]);
        assert_eq!(rows.local(&Shape::new(&[32]), &mesh, 2)[0], 8);
        assert_eq!(rows.pop(0), Some((1, Deal::zigzag(8))));
        assert_eq!(rows.ranges(&Shape::new(&[32]), &mesh, 3)[0], 16..32);
        assert!(Deal::zigzag(8).fits(2) && !Deal::zigzag(6).fits(2));
    }
}
