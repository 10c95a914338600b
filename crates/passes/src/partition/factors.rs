//! The factors of a call: stated by its row, or derived from the kind of its op.

use crate::decompose::expansion;
use ir::{Call, Factors, FlatNode, Graph, INPUT, Kind, Layout, Meaning, Result, Shard, Slot, Type};

/// How a node may be cut, given the types of its inputs.
pub fn factors(n: &FlatNode, types: &[Type]) -> Result<Factors> {
    let call = Call { types, attrs: &n.attrs };
    let mut found = match n.op.shard {
        Shard::Rule(rule) => rule(&call).map_err(|e| e.in_op(n.op.name).at(n.site))?,
        Shard::Lanes | Shard::Joins => lanes(&call, &n.outs)?,
        Shard::Leading(rest) => leading(types, &n.outs, rest),
        Shard::Auto => match n.op.meaning {
            Meaning::Scalar(_) => scalar(types, &n.outs),
            Meaning::Reduce(how) => {
                let axes = call.attrs.sizes("axes")?;
                let mut all = scalar(types, &n.outs[..0]);
                all.outputs = vec![all.inputs[0].clone()];
                for a in axes {
                    all.outputs[0][a] = None;
                    all.kinds[a] = Kind::Reduce(how);
                }
                all
            }
            Meaning::View(layout) => match layout(&call, &Layout::contiguous(&types[0].shape))? {
                Some(seen) => view(&types[0], &n.outs[0], &seen),
                None => Factors::whole(types, &n.outs),
            },
            Meaning::Composite(expand) => composite(&expansion(n, types, expand)?, types, &n.outs)?,
            _ => Factors::whole(types, &n.outs),
        },
    };
    tidy(&mut found, types, &n.outs);
    Ok(found)
}

/// Takes away what cannot be cut: dimensions of one element, and factors that a value has twice.
fn tidy(f: &mut Factors, inputs: &[Type], outputs: &[Type]) {
    let sides = [(&mut f.inputs, inputs), (&mut f.outputs, outputs)];
    let mut twice = Vec::new();
    for (lists, types) in sides {
        for (list, t) in lists.iter_mut().zip(types) {
            for (i, d) in t.shape.iter().enumerate() {
                if *d <= 1 {
                    list[i] = None;
                }
            }
            twice.extend(
                (0..list.len()).filter(|&i| list[i].is_some() && list[..i].contains(&list[i])).map(|i| list[i]),
            );
        }
    }
    for list in f.inputs.iter_mut().chain(&mut f.outputs) {
        list.iter_mut().filter(|d| twice.contains(d)).for_each(|d| *d = None);
    }
    // A factor that passes must be in the result.
    let kept: Vec<bool> = (0..f.kinds.len())
        .map(|k| {
            let is = |lists: &[Vec<Option<u8>>]| lists.iter().flatten().any(|d| *d == Some(k as u8));
            is(&f.inputs) && (is(&f.outputs) || matches!(f.kinds[k], Kind::Reduce(_)))
        })
        .collect();
    for list in f.inputs.iter_mut().chain(&mut f.outputs) {
        list.iter_mut().filter(|d| d.is_some_and(|k| !kept[k as usize])).for_each(|d| *d = None);
    }
}

/// Dimensions are aligned at the end, as they broadcast.
fn scalar(inputs: &[Type], outputs: &[Type]) -> Factors {
    let rank = inputs.iter().map(|t| t.shape.rank()).max().unwrap_or(0);
    let list = |t: &Type| (0..t.shape.rank()).map(|i| Some((rank - t.shape.rank() + i) as u8)).collect();
    Factors {
        kinds: vec![Kind::Pass; rank],
        inputs: inputs.iter().map(list).collect(),
        outputs: outputs.iter().map(list).collect(),
        once: Vec::new(),
        positions: None,
    }
}

/// Every dimension passes but the axis, where all values agree about its size.
fn lanes(c: &Call, outputs: &[Type]) -> Result<Factors> {
    let (axis, rank) = (c.attrs.size("axis")?, c.shape(0).rank());
    if c.types.iter().chain(outputs).any(|t| t.shape.rank() != rank) {
        return Ok(Factors::whole(c.types, outputs));
    }
    let agrees = |i: usize| i != axis && c.types.iter().chain(outputs).all(|t| t.shape[i] == c.shape(0)[i]);
    let list = |_: &Type| (0..rank).map(|i| agrees(i).then_some(i as u8)).collect();
    Ok(Factors {
        kinds: vec![Kind::Pass; rank],
        inputs: c.types.iter().map(list).collect(),
        outputs: outputs.iter().map(list).collect(),
        once: Vec::new(),
        positions: None,
    })
}

/// The leading dimensions pass, where all values have the same.
fn leading(inputs: &[Type], outputs: &[Type], rest: usize) -> Factors {
    let Some(lead) = inputs.first().map(|t| t.shape.rank().saturating_sub(rest)) else {
        return Factors::whole(inputs, outputs);
    };
    let first = &inputs[0].shape[..lead];
    if inputs.iter().chain(outputs).any(|t| t.shape.rank() < lead || t.shape[..lead] != *first) {
        return Factors::whole(inputs, outputs);
    }
    let list = |t: &Type| (0..t.shape.rank()).map(|i| (i < lead).then_some(i as u8)).collect();
    Factors {
        kinds: vec![Kind::Pass; lead],
        inputs: inputs.iter().map(list).collect(),
        outputs: outputs.iter().map(list).collect(),
        once: Vec::new(),
        positions: None,
    }
}

/// A view of a contiguous input, as its layout tells: an output dimension runs along an input dimension if both end at
/// the same distance. Where one of them is a merger of several, it is cut along its outermost part.
fn view(input: &Type, output: &Type, seen: &Layout) -> Factors {
    let mut f = Factors::whole(std::slice::from_ref(input), std::slice::from_ref(output));
    if input.shape.count() == 0 || output.shape.count() == 0 {
        return f;
    }
    let strides = input.shape.strides();
    for (j, (&n, &s)) in output.shape.iter().zip(&seen.strides).enumerate() {
        let is_same = |i: &usize| {
            let (size, stride) = (input.shape[*i], strides[*i]);
            size > 1 && s * n as isize == stride * size as isize && (s % stride == 0 || stride % s == 0)
        };
        if n <= 1 || s <= 0 {
            continue;
        }
        if let Some(i) = (0..input.shape.rank()).find(is_same) {
            f.kinds.push(Kind::Pass);
            let k = Some(f.kinds.len() as u8 - 1);
            (f.inputs[0][i], f.outputs[0][j]) = (k, k);
        }
    }
    f
}

/// The factors of a composite that pass through everything it consists of: dimensions that run together in one of its
/// ops are one factor, and a factor that one of them sums or needs whole is none.
fn composite(body: &Graph, inputs: &[Type], outputs: &[Type]) -> Result<Factors> {
    // A number for each dimension of each value.
    let mut first: Vec<Vec<usize>> = Vec::with_capacity(body.nodes.len());
    let (mut count, mut least) = (0, Vec::new());
    for n in &body.nodes {
        let mut starts = Vec::new();
        for t in &n.outs {
            starts.push(count);
            count += t.shape.rank();
            least.extend(t.shape.iter().map(|&d| if d > 1 { d } else { usize::MAX }));
        }
        first.push(starts);
    }
    let at = |s: Slot| first[s.node as usize][s.out as usize];
    let own = least.clone();
    let mut sets = Sets { parent: (0..count).collect(), is_whole: vec![false; count], least };
    for (i, n) in body.nodes.iter().enumerate() {
        if n.op == &INPUT {
            continue;
        }
        let types = body.input_types(n);
        let f = factors(n, &types)?;
        let mut home: Vec<Option<usize>> = vec![None; f.kinds.len()];
        let ins = n.inputs.iter().zip(&f.inputs).map(|(&s, list)| (at(s), list, body.ty(s)));
        let outs = f.outputs.iter().enumerate().map(|(o, list)| (first[i][o], list, &n.outs[o]));
        for (start, list, t) in ins.chain(outs) {
            for (d, k) in list.iter().enumerate() {
                match k {
                    Some(k) if f.kinds[*k as usize] == Kind::Pass && f.positions != Some(*k) => match home[*k as usize]
                    {
                        Some(h) => sets.join(h, start + d),
                        None => home[*k as usize] = Some(start + d),
                    },
                    _ if t.shape[d] > 1 => sets.block(start + d),
                    _ => {}
                }
            }
        }
    }
    // A dimension that is split inside only, as channels into groups, is split by a number that attributes state.
    let ends = body.inputs.iter().map(|&i| Slot::new(i as usize, 0)).chain(body.outputs.iter().copied());
    let ends: Vec<usize> = ends.flat_map(|s| at(s)..at(s) + body.ty(s).shape.rank()).collect();
    for &d in &ends {
        let root = sets.find(d);
        let outside = ends.iter().filter(|&&e| sets.find(e) == root).map(|&e| own[e]).min();
        if outside.is_some_and(|o| sets.least[root] < o) {
            sets.block(d);
        }
    }
    let mut f = Factors::whole(inputs, outputs);
    let mut roots: Vec<usize> = Vec::new();
    let mut number = |sets: &mut Sets, d: usize| -> Option<u8> {
        let root = sets.find(d);
        if sets.is_whole[root] {
            return None;
        }
        let k = roots.iter().position(|r| *r == root).unwrap_or_else(|| {
            roots.push(root);
            roots.len() - 1
        });
        Some(k as u8)
    };
    for (list, &i) in f.inputs.iter_mut().zip(&body.inputs) {
        let start = first[i as usize][0];
        list.iter_mut().enumerate().for_each(|(d, k)| *k = number(&mut sets, start + d));
    }
    for (list, &s) in f.outputs.iter_mut().zip(&body.outputs) {
        let start = at(s);
        list.iter_mut().enumerate().for_each(|(d, k)| *k = number(&mut sets, start + d));
    }
    f.kinds = vec![Kind::Pass; roots.len()];
    Ok(f)
}

/// Dimensions that run together.
struct Sets {
    parent: Vec<usize>,
    is_whole: Vec<bool>,
    /// The least size of a dimension, but for those of one element.
    least: Vec<usize>,
}
impl Sets {
    fn find(&mut self, mut i: usize) -> usize {
        while self.parent[i] != i {
            self.parent[i] = self.parent[self.parent[i]];
            i = self.parent[i];
        }
        i
    }
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[b] = a;
        self.is_whole[a] |= self.is_whole[b];
        self.least[a] = self.least[a].min(self.least[b]);
    }
    fn block(&mut self, i: usize) {
        let i = self.find(i);
        self.is_whole[i] = true;
    }
}
