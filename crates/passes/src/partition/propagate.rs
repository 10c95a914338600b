//! Which axes of the mesh cut which factors of a node: the choice that moves the fewest bytes of its inputs, and among
//! those the one that leaves the least work undivided.

use super::reshard::{cost, steps};
use ir::{Factors, FlatNode, Kind, Meaning, Mesh, Monoid, Spec, Type};
use smallvec::SmallVec;

/// What an axis of the mesh does at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Nothing: every rank along it computes the same.
    Same,
    /// It cuts a factor.
    Cut(u8),
    /// The node is linear, and its result consists of terms as its inputs do.
    Terms,
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
            let cut = spec.dim_of(axis).and_then(|d| dims[d]).map(Use::Cut);
            list.extend(cut.filter(|u| !list.contains(u)));
        }
    }
    if given.iter().any(|g| g.specs[0].is_partial(axis)) {
        list.push(Use::Terms);
    }
    list
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
    let cuts =
        |k: u8| -> SmallVec<[u8; 2]> { (0..uses.len() as u8).filter(|&a| uses[a as usize] == Use::Cut(k)).collect() };
    for k in 0..f.kinds.len() as u8 {
        let n_parts: usize = cuts(k).iter().map(|&a| mesh.size(a)).product();
        let (least, is_equal) = f.size(k, &types, &n.outs);
        if n_parts > 1 && (least < n_parts || !is_equal && !least.is_multiple_of(n_parts)) {
            return None;
        }
        // A microbatch is none of the positions that its program could state.
        let fits = |a: u8| least.is_multiple_of(mesh.size(a)) && f.positions != Some(k);
        if even.is_some_and(|a| cuts(k).contains(&a) && !fits(a)) {
            return None;
        }
    }
    let spec = |dims: &[Option<u8>]| Spec {
        dims: dims.iter().map(|k| k.map(&cuts).unwrap_or_default()).collect(),
        partial: SmallVec::new(),
    };
    let mut inputs: Vec<Spec> = f.inputs.iter().map(|d| spec(d)).collect();
    let mut outputs: Vec<Spec> = f.outputs.iter().map(|d| spec(d)).collect();
    let mut summed = Vec::new();
    for (a, u) in uses.iter().enumerate() {
        let a = a as u8;
        match u {
            Use::Cut(k) => {
                if let Kind::Reduce(how) = f.kinds[*k as usize] {
                    outputs.iter_mut().for_each(|o| o.partial.push((a, how)));
                    summed.push(a);
                }
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
