//! Which axes of the mesh cut which factors of a node: the choice that moves the fewest bytes of its inputs, and among
//! those the one that leaves the least work undivided.

use super::reshard::{cost, steps};
use ir::{Call, Deal, Factors, FlatNode, Kind, Layout, Meaning, Mesh, Monoid, Shape, Shard, Spec, Type};
use smallvec::SmallVec;

/// What an axis of the mesh does at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Nothing: every rank along it computes the same.
    Same,
    /// It cuts a factor, and deals it out so.
    Cut(u8, Deal),
    /// It deals out what a view sees.
    Seen(Dealt),
    /// It cuts all inputs along this dimension, in which they are concatenated.
    Joined(usize),
    /// The node is linear, and its result consists of terms as its inputs do.
    Terms,
}

/// A dimension of a view's input that is dealt out, and the dimension of the view that has its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dealt {
    input: (usize, Deal),
    output: (usize, Deal),
}

/// What is known of a node's input.
pub(super) struct Given<'a> {
    pub ty: &'a Type,
    /// How it is held; the first is how it came about.
    pub specs: SmallVec<[&'a Spec; 2]>,
    /// Axes that cut it where it is stored only: products and the like use it whole along them.
    pub stored: &'a [u8],
    /// Whether this is its only use.
    pub is_last: bool,
    /// Whether it is zero everywhere.
    pub is_zero: bool,
    /// Whether the plan cuts it for computation: it is not gathered where anything else will do.
    pub is_pinned: bool,
}

/// What gathering a parameter that the plan cuts counts beside its bytes: more than any other exchange.
const PINNED_BYTES: f64 = 1e15;

/// How a node is computed: the sharding of its inputs and of its outputs.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub inputs: Vec<Spec>,
    pub outputs: Vec<Spec>,
    /// Axes that cut a factor which is summed.
    pub summed: Vec<u8>,
    /// Bytes that a rank sends to have the inputs so.
    pub bytes: f64,
    uses: Vec<Use>,
}

impl Choice {
    /// Whether axes that cut inputs do nothing at this node.
    pub fn idles(&self, given: &[Given]) -> bool {
        let cut = given.iter().filter_map(|g| g.specs.first()).flat_map(|s| s.dims.iter().flatten());
        cut.copied().any(|a| self.uses.get(a as usize).is_none_or(|u| *u == Use::Same))
    }
    /// Whether an input has to be gathered.
    pub fn gathers(&self, given: &[Given]) -> bool {
        let lost = |(g, s): (&Given, &Spec)| {
            let kept = |a: &u8| s.dim_of(*a).is_some() || g.stored.contains(a);
            !g.specs.iter().any(|have| have.dims.iter().flatten().all(kept))
        };
        given.iter().zip(&self.inputs).any(lost)
    }
}

/// The best choice for a node.
/// The axis of microbatches comes with whether the node is computed once, not in each of them.
pub(super) fn choose(n: &FlatNode, f: &Factors, given: &[Given], mesh: &Mesh, time: Option<(u8, bool)>) -> Choice {
    let is_once = |a: u8| time == Some((a, true));
    let one = |a: u8| if is_once(a) { vec![Use::Same] } else { options(n, f, given, a) };
    let options: Vec<Vec<Use>> = (0..mesh.rank() as u8).map(one).collect();
    let even = time.map(|(axis, _)| axis);
    let mut best: Option<Choice> = None;
    let mut pick = vec![0; options.len()];
    loop {
        let uses: Vec<Use> = pick.iter().zip(&options).map(|(&i, o)| o[i]).collect();
        if let Some(c) = choice(n, f, given, mesh, uses, even) {
            let idle = |c: &Choice| c.uses.iter().filter(|u| **u == Use::Same).count();
            let is_better = |b: &Choice| (c.bytes, idle(&c)) < (b.bytes, idle(b));
            if best.as_ref().is_none_or(is_better) {
                best = Some(c);
            }
        }
        let Some(i) = (0..pick.len()).find(|&i| pick[i] + 1 < options[i].len()) else { break };
        pick[i] += 1;
        pick[..i].fill(0);
    }
    best.unwrap_or_else(|| whole(n, given.iter().map(|g| g.ty)))
}

/// Every rank computes everything.
pub(super) fn whole<'a>(n: &FlatNode, inputs: impl Iterator<Item = &'a Type>) -> Choice {
    let spec = |t: &Type| Spec::whole(t.shape.rank());
    Choice {
        inputs: inputs.map(spec).collect(),
        outputs: n.outs.iter().map(spec).collect(),
        summed: Vec::new(),
        bytes: 0.0,
        uses: Vec::new(),
    }
}

/// What an axis may do: nothing, or what one of the inputs suggests.
fn options(n: &FlatNode, f: &Factors, given: &[Given], axis: u8) -> Vec<Use> {
    let mut list = vec![Use::Same];
    for (g, dims) in given.iter().zip(&f.inputs) {
        let is_elementwise = matches!(n.op.meaning, Meaning::Scalar(_));
        if g.stored.contains(&axis) && !is_elementwise {
            continue;
        }
        for spec in &g.specs {
            let (dim, deal) = (spec.dim_of(axis), spec.deal(axis));
            let cut = match n.op.meaning {
                Meaning::View(_) if !deal.is_ranges() => dim.and_then(|d| seen(n, g.ty, d, deal)).map(Use::Seen),
                // What is inside of other dimensions where it is seen is one block; but for sequences of activations
                // [batch, sequence, width], which are gathered before their rows are joined.
                Meaning::View(_)
                    if dim.is_some_and(|d| dims[d].is_none() && spec.dims[d].len() == 1)
                        && (g.ty.shape.rank(), dim) != (3, Some(1)) =>
                {
                    dim.and_then(|d| seen(n, g.ty, d, Deal::blocks(g.ty.shape[d]))).map(Use::Seen)
                }
                _ if deal.is_ranges() && joins(n, given, dim) => dim.map(Use::Joined),
                _ => dim.and_then(|d| dims[d]).map(|k| Use::Cut(k, deal)),
            };
            list.extend(cut.filter(|u| !list.contains(u)));
        }
    }
    if given.iter().any(|g| g.specs[0].is_partial(axis)) {
        list.push(Use::Terms);
    }
    list
}

/// Whether a node concatenates equal inputs along this dimension.
fn joins(n: &FlatNode, given: &[Given], dim: Option<usize>) -> bool {
    let (Shard::Joins, Some(dim)) = (n.op.shard, dim) else { return false };
    let size = |g: &Given| g.ty.shape.get(dim).copied();
    n.attrs.size("axis").is_ok_and(|a| a == dim) && given.windows(2).all(|w| size(&w[0]) == size(&w[1]))
}

/// Where a view has a dimension of its input that is dealt out: the elements of each period must stay together.
fn seen(n: &FlatNode, input: &Type, dim: usize, deal: Deal) -> Option<Dealt> {
    let (Meaning::View(layout), out) = (n.op.meaning, &n.outs[0].shape) else { return None };
    let call = Call { types: std::slice::from_ref(input), attrs: &n.attrs };
    let view = layout(&call, &Layout::contiguous(&input.shape)).ok()??;
    let (size, stride, period) = (input.shape[dim], input.shape.strides()[dim], deal.period);
    let dealt = |j: usize, period: usize| {
        let output = Deal { period, ..deal }.on(out[j]);
        Some(Dealt { input: (dim, deal.on(size)), output: (j, output) })
    };
    // The same dimension again; or all elements, each once, so that dimensions are digits of positions.
    let same = (0..out.rank()).find(|&j| (out[j], view.strides[j]) == (size, stride));
    if let Some(j) = same {
        return dealt(j, period);
    }
    // Some of its blocks.
    let start = view.offset / (stride.max(1) as usize) % size.max(1);
    let has_blocks = |j: &usize| view.strides[*j] == stride && out[*j] > 1 && out[*j].is_multiple_of(period);
    if !deal.is_zigzag
        && out.count() < input.shape.count()
        && out.rank() == input.shape.rank()
        && start.is_multiple_of(period)
        && let Some(j) = (0..out.rank()).find(|j| *j == dim && has_blocks(j))
    {
        return dealt(j, period);
    }
    let is_all =
        out.count() == input.shape.count() && view.strides.iter().zip(out.iter()).all(|(s, n)| *s > 0 || *n == 1);
    let end = stride * period as isize;
    let has_period = |j: &usize| {
        let (s, all) = (view.strides[*j], view.strides[*j] * out[*j] as isize);
        out[*j] > 1 && s < end && end % s == 0 && all % end == 0 && (stride % s == 0 || s % stride == 0)
    };
    let j = (0..out.rank()).find(has_period).filter(|_| is_all)?;
    dealt(j, (end / view.strides[j]) as usize)
}

/// Whether terms along an axis may pass through a node, and which of its inputs then are terms.
pub(super) fn terms(n: &FlatNode, given: &[Given], axis: u8) -> Option<Vec<bool>> {
    let [out] = &n.outs[..] else { return None };
    let is_terms = |g: &Given| g.specs[0].partial.contains(&(axis, Monoid::Sum)) && g.is_last;
    let fits = |g: &Given| out.shape.count() <= g.ty.shape.count();
    if !out.dtype.is_float() {
        return None;
    }
    let is_view = matches!(n.op.meaning, Meaning::View(_));
    let found: Vec<bool> = given.iter().map(is_terms).collect();
    let one = found.iter().position(|t| *t)?;
    if !given.iter().zip(&found).all(|(g, t)| !t || fits(g)) {
        return None;
    }
    let is_joint =
        (n.op.linear || is_view) && given.iter().zip(&found).all(|(g, t)| *t || g.is_zero || !g.ty.dtype.is_float());
    let is_single = n.op.linear_in.contains(&one) && found.iter().filter(|t| **t).count() == 1;
    (is_joint || is_single).then_some(found)
}

/// The choice in which each axis is used so, if it is one. Parts along the axis `even` have one size.
fn choice(n: &FlatNode, f: &Factors, given: &[Given], mesh: &Mesh, uses: Vec<Use>, even: Option<u8>) -> Option<Choice> {
    let types: SmallVec<[Type; 3]> = given.iter().map(|g| g.ty.clone()).collect();
    let cuts = |k: u8| -> SmallVec<[(u8, Deal); 2]> {
        let cut = |a: usize| if let Use::Cut(f, deal) = uses[a] { (f == k).then_some((a as u8, deal)) } else { None };
        let mut all: SmallVec<_> = (0..uses.len()).filter_map(cut).collect();
        // What is dealt out is inside of other cuts.
        all.sort_by_key(|&(_, deal): &(u8, Deal)| !deal.is_ranges());
        all
    };
    for k in 0..f.kinds.len() as u8 {
        let n_parts: usize = cuts(k).iter().map(|&(a, _)| mesh.size(a)).product();
        let (least, is_equal) = f.size(k, &types, &n.outs);
        if n_parts > 1 && (least < n_parts || !is_equal && !least.is_multiple_of(n_parts)) {
            return None;
        }
        let fits_deal = |&(a, deal): &(u8, Deal)| {
            let outside = n_parts / mesh.size(a);
            deal.is_ranges() || is_equal && least.is_multiple_of(outside * deal.period) && deal.fits(mesh.size(a))
        };
        if !cuts(k).iter().all(fits_deal) {
            return None;
        }
        // A microbatch is none of the positions that its program could state.
        let fits = |a: u8| least.is_multiple_of(mesh.size(a)) && f.positions != Some(k);
        if even.is_some_and(|a| cuts(k).iter().any(|c| c.0 == a) && !fits(a)) {
            return None;
        }
    }
    let spec = |dims: &[Option<u8>]| {
        let mut spec = Spec::whole(dims.len());
        for (dim, k) in dims.iter().enumerate() {
            k.map(&cuts).unwrap_or_default().into_iter().for_each(|(a, deal)| spec.push(dim, a, deal));
        }
        let is_inside = |dim: &[u8]| dim.windows(2).all(|w| spec.deal(w[0]).is_ranges());
        spec.dims.iter().all(|d| is_inside(d)).then_some(spec)
    };
    let mut inputs: Vec<Spec> = f.inputs.iter().map(|d| spec(d)).collect::<Option<_>>()?;
    let mut outputs: Vec<Spec> = f.outputs.iter().map(|d| spec(d)).collect::<Option<_>>()?;
    let mut summed = Vec::new();
    for (a, u) in uses.iter().enumerate() {
        let a = a as u8;
        match u {
            Use::Cut(k, _) => {
                if let Kind::Reduce(how) = f.kinds[*k as usize] {
                    let is_term = |dims: &[Option<u8>]| !dims.contains(&Some(*k));
                    let terms = outputs.iter_mut().zip(&f.outputs).filter(|(_, dims)| is_term(dims));
                    terms.for_each(|(o, _)| o.partial.push((a, how)));
                    summed.push(a);
                }
            }
            Use::Seen(Dealt { input, output }) => {
                let size = mesh.size(a);
                // What else cuts the dimension leaves whole periods.
                let fits = |spec: &Spec, shape: &Shape, (dim, deal): (usize, Deal)| {
                    let outside: usize = spec.dims[dim].iter().map(|&b| mesh.size(b)).product();
                    let least = if deal.is_ranges() { size } else { deal.period };
                    let is_even = deal.is_ranges() || deal.fits(size);
                    is_even
                        && shape[dim].is_multiple_of(outside * least)
                        && spec.dims[dim].iter().all(|&b| spec.deal(b).is_ranges())
                };
                if !fits(&inputs[0], &types[0].shape, *input) || !fits(&outputs[0], &n.outs[0].shape, *output) {
                    return None;
                }
                inputs[0].push(input.0, a, input.1);
                outputs[0].push(output.0, a, output.1);
            }
            Use::Joined(dim) => {
                let (length, is_free) = (types[0].shape[*dim], |s: &Spec| s.dims[*dim].is_empty());
                if !length.is_multiple_of(mesh.size(a)) || !inputs.iter().chain(&outputs).all(is_free) {
                    return None;
                }
                inputs.iter_mut().for_each(|s| s.push(*dim, a, Deal::RANGES));
                outputs[0].push(*dim, a, Deal::blocks(length).on(n.outs[0].shape[*dim]));
            }
            Use::Terms => {
                let found = terms(n, given, a)?;
                inputs.iter_mut().zip(&found).filter(|(_, t)| **t).for_each(|(s, _)| s.partial.push((a, Monoid::Sum)));
                outputs.iter_mut().for_each(|o| o.partial.push((a, Monoid::Sum)));
            }
            Use::Same => {}
        }
    }
    // Terms of a maximum are no terms of a sum.
    let kinds = |o: &Spec| o.partial.windows(2).all(|w| w[0].1 == w[1].1);
    if !outputs.iter().all(kinds) {
        return None;
    }
    let mut bytes = 0.0;
    for (g, want) in given.iter().zip(&inputs) {
        let least = g.specs.iter().filter_map(|have| {
            let list = steps(have, want, &g.ty.shape, mesh)?;
            Some(cost(&list, have, g.ty, mesh))
        });
        bytes += least.min_by(f64::total_cmp)?;
        let is_kept = |a: &u8| want.dim_of(*a).is_some() || g.stored.contains(a);
        if g.is_pinned && !g.specs[0].dims.iter().flatten().all(is_kept) {
            bytes += PINNED_BYTES;
        }
    }
    Some(Choice { inputs, outputs, summed, bytes, uses })
}
