//! Values that depend on positions alone, as random numbers and ranges do: a rank computes its shard, where the whole
//! would be computed only to be sliced.

use super::propagate::Choice;
use super::{Placed, Request, Walk};
use ir::{Call, FlatNode, Graph, Kind, Layout, Meaning, Mesh, Result, Slot, Spec, Type};
use smallvec::SmallVec;

/// How a value that every rank could compute whole came about.
pub(super) struct Generated {
    node: FlatNode,
    inputs: SmallVec<[usize; 3]>,
}

impl Request<'_> {
    /// That of a graph which reads whole values and updates none.
    fn of_whole<'a>(graph: &Graph, (mesh, rank, exchange): (&'a Mesh, usize, &'a dyn super::Exchange)) -> Request<'a> {
        let place = |&i: &u32| {
            let spec = Spec::whole(graph.nodes[i as usize].outs[0].shape.rank());
            Placed { spec, stored: Vec::new(), is_open: false, is_variable: false }
        };
        let inputs = graph.inputs.iter().map(place).collect();
        let (state, scattered, sequence, regathered) = Default::default();
        Request { mesh, rank, inputs, state, scattered, sequence, regathered, in_time: false, exchange, overlap: None }
    }
}

/// The graph that computes a rank's parts of the outputs from whole inputs; `None` if ranks would have to exchange.
pub fn shards(graph: &Graph, wanted: &[Spec], on: (&Mesh, usize, &dyn super::Exchange)) -> Result<Option<Graph>> {
    let request = Request::of_whole(graph, on);
    let once = vec![false; graph.nodes.len()];
    let (done, ..) = Walk::run(graph, &request, &request.inputs, &once, Some(wanted))?;
    Ok(done.inserted.is_empty().then_some(done.graph))
}

impl Walk<'_> {
    /// How the value of a node can be computed in parts, if it can.
    pub(super) fn generated(&self, n: &FlatNode, inputs: &[usize], choice: &Choice) -> Option<Generated> {
        let is_whole = choice.inputs.iter().chain(&choice.outputs).all(Spec::is_whole);
        let is_elementwise = matches!(n.op.meaning, Meaning::Scalar(_) | Meaning::View(_));
        let follows = is_elementwise && inputs.iter().any(|&h| self.held[h].generated.is_some());
        let can = is_whole && n.outs.len() == 1 && !self.request.in_time && (n.op.generate.is_some() || follows);
        can.then(|| Generated { node: n.clone(), inputs: inputs.into() })
    }

    /// A part of a value, computed as such; `None` where it has to be cut off the whole.
    pub(super) fn generate(&mut self, h: usize, want: &Spec) -> Result<Option<Slot>> {
        let Some(generated) = self.held[h].generated.clone() else { return Ok(None) };
        if want.is_whole() || !want.partial.is_empty() || !want.dealt.is_empty() {
            return Ok(None);
        }
        let Generated { node: n, inputs } = &*generated;
        let Request { mesh, rank, .. } = *self.request;
        let types: SmallVec<[Type; 3]> = inputs.iter().map(|&i| self.held[i].ty.clone()).collect();
        let at = if let Some(f) = n.op.generate {
            let ranges = want.ranges(&n.outs[0].shape, mesh, rank);
            let mut args: SmallVec<[Slot; 3]> = SmallVec::new();
            for (&i, t) in inputs.iter().zip(&types) {
                args.push(self.moved(i, &Spec::whole(t.shape.rank()), Some(n.op), n.site)?);
            }
            self.body(n, &args, &n.attrs, |c, given| f(c, given, &ranges))?[0]
        } else {
            let Some(specs) = self.parts(n, &types, want)? else { return Ok(None) };
            let Ok((attrs, outs)) = self.local(n, &types, std::slice::from_ref(want), &specs) else { return Ok(None) };
            let mut args: SmallVec<[Slot; 3]> = SmallVec::new();
            for (&i, spec) in inputs.iter().zip(&specs) {
                args.push(self.moved(i, spec, Some(n.op), n.site)?);
            }
            self.out.push_typed(n.op, args, attrs, outs, n.site)
        };
        self.held[h].versions.push((want.clone(), at));
        Ok(Some(at))
    }

    /// The parts of the inputs from which that part of the result is computed.
    fn parts(&mut self, n: &FlatNode, types: &SmallVec<[Type; 3]>, want: &Spec) -> Result<Option<Vec<Spec>>> {
        let factors = self.factors(n, types)?;
        let mesh = self.request.mesh;
        let seen = match n.op.meaning {
            Meaning::View(layout) => layout(&Call { types, attrs: &n.attrs }, &Layout::contiguous(&types[0].shape))?,
            _ => None,
        };
        let mut specs: Vec<Spec> = types.iter().map(|t| Spec::whole(t.shape.rank())).collect();
        for (d, axes) in want.dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty()) {
            let n_parts: usize = axes.iter().map(|&a| mesh.size(a)).product();
            let Some(k) = factors.outputs[0][d] else {
                // A dimension that a view repeats has no part of the input.
                if seen.as_ref().is_some_and(|l| l.strides[d] == 0) {
                    continue;
                }
                return Ok(None);
            };
            let (least, is_equal) = factors.size(k, types, &n.outs);
            let fits = least >= n_parts && (is_equal || least.is_multiple_of(n_parts));
            if factors.kinds[k as usize] != Kind::Pass || factors.positions == Some(k) || !fits {
                return Ok(None);
            }
            for (spec, dims) in specs.iter_mut().zip(&factors.inputs) {
                dims.iter().enumerate().filter(|(_, f)| **f == Some(k)).for_each(|(i, _)| spec.dims[i] = axes.clone());
            }
        }
        Ok(Some(specs))
    }
}
