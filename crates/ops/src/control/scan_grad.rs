//! The gradient of `scan`: a scan the other way round.
//!
//! What each step found and what it computed at a cost comes from the saved results. The gradient
//! of a captured value is a sum over the steps. Where each step adds a matrix product or the sum
//! of rows, the factors are kept as rows and multiplied once after the loop: one large product
//! instead of many small ones, and no accumulator to read and write at each step.

use super::scan::{OP, Parts};
use super::{chosen, graph, input_types, output_types, saving_inputs, tensors, values};
use crate::batch::over_batch;
use crate::kernel::matmul;
use crate::reduce::sum;
use crate::rules::GradTensors;
use crate::scalar::add;
use crate::{Result, Tensor, vjp};
use ir::{Cost, FlatNode, GradCall, Graph, Meaning, Site, Slot, Type, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// Rows are kept for after the loop if a step's are at most this many times the size of the sum.
const ROWS_MAX: usize = 4;

/// A graph that also gives what its gradient asks for: its first `n` inputs as they came in, and
/// the results of costly nodes that the gradient reads and that vary along the loop, which they do
/// through its first `varying` inputs.
pub(super) fn saving(g: &Graph, n: usize, varying: usize) -> Result<Graph> {
    let mut out = saving_inputs(g, n);
    let mut varies = vec![false; g.nodes.len()];
    g.inputs[..varying].iter().for_each(|&i| varies[i as usize] = true);
    let mut costly: Vec<Slot> = Vec::new();
    for (i, node) in g.nodes.iter().enumerate() {
        varies[i] |= node.inputs.iter().any(|s| varies[s.node as usize]);
        if varies[i] && is_costly(g, node)? {
            let floats = (0..node.outs.len()).filter(|&o| node.outs[o].dtype.is_inexact());
            costly.extend(floats.map(|o| Slot::new(i, o)));
        }
    }
    let floats = |list: &[Type]| list.iter().map(|t| t.dtype.is_inexact()).collect::<Vec<bool>>();
    let mut all = out.clone();
    all.outputs.extend(&costly);
    let (ins, outs) = (input_types(g), output_types(&all));
    let back = Back {
        n,
        inner: costly.len(),
        floats: floats(&ins[..n]),
        rows: floats(&ins[n..varying]),
        captures: floats(&ins[varying..]),
        has: floats(&outs[n..outs.len() - costly.len()]).into_iter().chain(costly.iter().map(|_| false)).collect(),
    };
    // A body without a gradient is reported when one is requested.
    if let Ok(step) = back.step(&all) {
        let first = step.inputs.len() - back.captures.len() - costly.len();
        let is_read = |k: &usize| is_used(&step, step.inputs[first + k]);
        out.outputs.extend((0..costly.len()).filter(is_read).map(|k| costly[k]));
    }
    Ok(out)
}

/// True for kernels, control flow, elementwise ops that take long, and composites with one inside.
fn is_costly(g: &Graph, node: &FlatNode) -> Result<bool> {
    match node.op.meaning {
        Meaning::Kernel(_) | Meaning::Control(_) => Ok(true),
        Meaning::Scalar(s) => Ok(s.cost > Cost::Division),
        Meaning::Composite(_) => {
            let mut alone = Graph::new();
            let inputs: Vec<Slot> = g.input_types(node).iter().map(|t| alone.input("", t, node.site)).collect();
            alone.push(node.op, &inputs, node.attrs.clone(), node.site)?;
            let parts = passes::decompose(&alone, &|_, _| false)?;
            parts.nodes.iter().try_fold(false, |yes, n| Ok(yes || is_costly(&parts, n)?))
        }
        _ => Ok(false),
    }
}

pub(super) fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let mut p = Parts::of(c.attrs)?;
    let mut body = c.attrs.graph("body")?.clone();
    let (n, m) = (p.carried, p.rows);
    let mut outputs = c.outputs.to_vec();
    let mut gs: Vec<Tensor> = (0..outputs.len()).map(|o| c.g(o)).collect();
    let mut has: Vec<bool> = c.grads.iter().map(Option::is_some).collect();
    if p.saved == 0 {
        // Nothing was saved: run once more, saving.
        body = Arc::new(saving(&body, n, n + m)?);
        p.saved = output_types(&body).len() - outputs.len();
        outputs =
            Value::apply(&OP, c.inputs.iter().cloned().collect(), p.attrs(body.clone()), Site::here())?.into_vec();
        gs.extend(outputs[gs.len()..].iter().map(|v| Tensor::from(v.clone()).zeros_like()));
        has.resize(outputs.len(), false);
    }
    let back = Back {
        n,
        inner: p.saved - n,
        floats: input_types(&body)[..n].iter().map(|t| t.dtype.is_inexact()).collect(),
        rows: c.wanted[n..n + m].to_vec(),
        captures: c.wanted[n + m..].to_vec(),
        has: has[n..].to_vec(),
    };
    if ![&back.floats, &back.rows, &back.captures].into_iter().flatten().any(|&b| b) {
        return Ok(vec![None; c.inputs.len()]);
    }
    let start = chosen(&gs[..n], &back.floats);
    let saved = tensors(&outputs[outputs.len() - p.saved..]);
    let rows = [&saved[..n], &tensors(&c.inputs[n..n + m]), &chosen(&gs[n..], &back.has), &saved[n..]].concat();
    let step = back.step(&body)?;
    let got = Turns { step: &step, start, rows, captures: tensors(&c.inputs[n + m..]) }.run(&back, p)?;
    // Results: gradients of the first carried values, of the captures, then the rows'.
    let mut got = got.into_iter();
    let mut take =
        |marks: &[bool]| -> Vec<Option<Value>> { marks.iter().map(|&m| if m { got.next() } else { None }).collect() };
    let (carried, captures, rows) = (take(&back.floats), take(&back.captures), take(&back.rows));
    Ok([carried, rows, captures].concat())
}

/// Which values take part in the way back.
struct Back {
    /// Carried values.
    n: usize,
    /// Inner values that were saved.
    inner: usize,
    /// Carried values that are floats.
    floats: Vec<bool>,
    /// Row inputs whose gradient is wanted.
    rows: Vec<bool>,
    /// Captured inputs whose gradient is wanted.
    captures: Vec<bool>,
    /// Row results that a gradient came to.
    has: Vec<bool>,
}
impl Back {
    /// One step back. It takes the gradients of the new carried values; then as rows the carried
    /// values found, the row inputs, the gradients of the row results and the saved inner values;
    /// then the captures. It gives the gradients of the carried values found, of the captures and
    /// of the row inputs.
    fn step(&self, body: &Graph) -> Result<Graph> {
        let n = self.n;
        let (ins, outs) = (input_types(body), output_types(body));
        let varying = ins.len() - self.captures.len();
        let list = [
            chosen(&outs[..n], &self.floats),
            ins[..varying].to_vec(),
            chosen(&outs[n..], &self.has),
            outs[outs.len() - self.inner..].to_vec(),
            ins[varying..].to_vec(),
        ];
        let mut end = 0;
        let ends = list.each_ref().map(|l| {
            end += l.len();
            end
        });
        let mut g = graph(&list.concat(), |a| {
            let (gc, xs, gy, captures) =
                (&a[..ends[0]], &a[ends[0]..ends[1]], &a[ends[1]..ends[2]], &a[ends[3]..ends[4]]);
            let ys = tensors(&body.inline(&values(&[xs, captures].concat())?)?);
            let of = [chosen(&ys[..n], &self.floats), chosen(&ys[n..], &self.has)].concat();
            let wrt = [chosen(&xs[..n], &self.floats), chosen(captures, &self.captures), chosen(&xs[n..], &self.rows)];
            let got = vjp(&of, &[gc, gy].concat(), &wrt.concat())?;
            Ok([&got, &ys[ys.len() - self.inner..]].concat())
        })?;
        // What was saved is not computed again.
        let flat = Arc::make_mut(&mut g);
        let computed = flat.outputs.split_off(flat.outputs.len() - self.inner);
        let given: Vec<Slot> = flat.inputs[ends[2]..ends[3]].iter().map(|&i| Slot { node: i, out: 0 }).collect();
        let swap = |s: &mut Slot| {
            if let Some(k) = computed.iter().position(|c| c == s) {
                *s = given[k];
            }
        };
        flat.nodes.iter_mut().flat_map(|n| n.inputs.iter_mut()).for_each(swap);
        flat.outputs.iter_mut().for_each(swap);
        Ok(passes::deduplicate(&passes::prune(flat)))
    }
}

/// A sum over all steps, from rows.
enum Sum {
    /// A matrix product of two rows.
    Product(Slot, Slot),
    /// The sum of a row along axes (a node of the step).
    Reduced(Slot, usize),
    /// A view (a node of the step) of a sum.
    View(usize, Box<Sum>),
    Plus(Box<Sum>, Box<Sum>),
}

/// The way back as a scan, and what is left to do after it.
struct Turns<'a> {
    step: &'a Graph,
    start: Vec<Tensor>,
    rows: Vec<Tensor>,
    captures: Vec<Tensor>,
}
impl Turns<'_> {
    /// The gradients of the carried values, the captures and the rows.
    fn run(&self, back: &Back, p: Parts) -> Result<Vec<Value>> {
        let step = self.step;
        let (nc, nr) = (self.start.len(), self.rows.len());
        let wanted = back.captures.iter().filter(|&&w| w).count();
        let (found, sums, rows) = (&step.outputs[..nc], &step.outputs[nc..nc + wanted], &step.outputs[nc + wanted..]);
        // Rows that are there without being asked for.
        let mut kept: Vec<Slot> = rows.to_vec();
        let free = rows.len();
        let mut later: Vec<Option<Sum>> = sums.iter().map(|_| None).collect();
        // Products first: what they keep is there for the others.
        for is_product in [true, false] {
            for (s, l) in sums.iter().zip(&mut later) {
                if l.is_none() && self.contains_product(*s) == is_product {
                    *l = self.later(*s, &mut kept);
                }
            }
        }
        let in_loop: Vec<bool> = later.iter().map(Option::is_none).collect();
        let mut full = step.clone();
        full.outputs = [found, &chosen(sums, &in_loop), &kept].concat();
        let full = passes::prune(&full);
        let is_used: Vec<bool> = full.inputs.iter().map(|&i| is_used(&full, i)).collect();
        let (used_rows, used_captures) = (&is_used[nc..nc + nr], &is_used[nc + nr..]);
        let wanted_captures = chosen(&self.captures, &back.captures);
        let zeros: Vec<Tensor> = chosen(&wanted_captures, &in_loop).iter().map(Tensor::zeros_like).collect();
        let rows_in = chosen(&self.rows, used_rows);
        let captures_in = chosen(&self.captures, used_captures);
        let carried = [self.start.clone(), zeros].concat();
        let parts =
            Parts { carried: carried.len(), rows: rows_in.len(), length: p.length, reverse: !p.reverse, saved: 0 };
        let body = self.assemble(&full, &is_used, carried.len())?;
        let inputs: SmallVec<[Value; 2]> = values(&[carried, rows_in, captures_in].concat())?.into();
        let got = if full.outputs.is_empty() {
            vec![]
        } else {
            tensors(&Value::apply(&OP, inputs, parts.attrs(body), Site::here())?)
        };
        let mut added = got[nc..parts.carried].iter();
        let stacked = Stacked { turns: self, kept: &kept, results: &got[parts.carried..] };
        let mut out = got[..nc].to_vec();
        for l in &later {
            out.push(match l {
                Some(sum) => stacked.sum(sum)?,
                None => added.next().cloned().ok_or_else(|| ir::Error::bug("a sum is missing"))?,
            });
        }
        out.extend_from_slice(&got[parts.carried..parts.carried + free]);
        values(&out)
    }

    /// The body: sums that are made in the loop are added to what is carried, and inputs that
    /// nothing uses are left out.
    fn assemble(&self, full: &Graph, is_used: &[bool], carried: usize) -> Result<Arc<Graph>> {
        let nc = self.start.len();
        let types = input_types(full);
        let sums: Vec<Type> = full.outputs[nc..carried].iter().map(|&s| full.ty(s).clone()).collect();
        let list = [types[..nc].to_vec(), sums, chosen(&types[nc..], &is_used[nc..])].concat();
        graph(&list, |a| {
            let mut used = a[carried..].iter();
            let mut args = a[..nc].to_vec();
            for (t, &u) in types[nc..].iter().zip(&is_used[nc..]) {
                let arg = if u { used.next().cloned() } else { None };
                args.push(arg.unwrap_or_else(|| Value::placeholder("", t.clone(), Site::here()).into()));
            }
            let mut out = tensors(&full.inline(&values(&args)?)?);
            for i in nc..carried {
                out[i] = &a[i] + &out[i];
            }
            Ok(out)
        })
    }

    fn contains_product(&self, s: Slot) -> bool {
        let n = self.step.node(s);
        match n.op {
            op if op == &matmul::OP => true,
            op if op == &add::OP => n.inputs.iter().any(|&i| self.contains_product(i)),
            op => op.is_view() && self.contains_product(n.inputs[0]),
        }
    }

    /// How the sum of a value over all steps is had from rows after the loop, where that pays.
    fn later(&self, s: Slot, kept: &mut Vec<Slot>) -> Option<Sum> {
        let mut more = Vec::new();
        let sum = self.split(s, kept, &mut more)?;
        let bytes: usize = more.iter().map(|&s| self.step.ty(s).bytes()).sum();
        if bytes > ROWS_MAX * self.step.ty(s).bytes() {
            return None;
        }
        kept.extend(more);
        Some(sum)
    }

    fn split(&self, s: Slot, kept: &[Slot], more: &mut Vec<Slot>) -> Option<Sum> {
        let n = self.step.node(s);
        match n.op {
            op if op == &matmul::OP && n.inputs.iter().all(|&i| self.step.ty(i).shape.rank() == 2) => {
                self.keep(n.inputs[0], kept, more)?;
                self.keep(n.inputs[1], kept, more)?;
                Some(Sum::Product(n.inputs[0], n.inputs[1]))
            }
            op if op == &add::OP && n.inputs.iter().all(|&i| self.step.ty(i) == self.step.ty(s)) => Some(Sum::Plus(
                Box::new(self.split(n.inputs[0], kept, more)?),
                Box::new(self.split(n.inputs[1], kept, more)?),
            )),
            op if op == &sum::OP => {
                self.keep(n.inputs[0], kept, more)?;
                Some(Sum::Reduced(n.inputs[0], s.node as usize))
            }
            op if op.is_view() => Some(Sum::View(s.node as usize, Box::new(self.split(n.inputs[0], kept, more)?))),
            _ => None,
        }
    }

    /// The value a row's views lead to, and the views from there on.
    fn root(&self, mut s: Slot) -> (Slot, Vec<usize>) {
        let mut views = Vec::new();
        loop {
            let n = self.step.node(s);
            let is_same_size = matches!(n.op.meaning, Meaning::View(_))
                && self.step.ty(n.inputs[0]).bytes() == self.step.ty(s).bytes();
            if !is_same_size {
                views.reverse();
                return (s, views);
            }
            views.push(s.node as usize);
            s = n.inputs[0];
        }
    }

    /// Sees to it that a row's root is kept. Captures and constants are not rows.
    fn keep(&self, s: Slot, kept: &[Slot], more: &mut Vec<Slot>) -> Option<()> {
        let root = self.root(s).0;
        let is_carried = self.step.inputs[..self.start.len()].contains(&root.node);
        match self.step.node(root).op.meaning {
            Meaning::Input if !is_carried => self.row(root).map(|_| ()),
            Meaning::Const => None,
            _ => {
                if !kept.contains(&root) && !more.contains(&root) {
                    more.push(root);
                }
                Some(())
            }
        }
    }

    /// The rows behind an input of the step.
    fn row(&self, s: Slot) -> Option<&Tensor> {
        let i = self.step.inputs.iter().position(|&i| i == s.node)?;
        self.rows.get(i.checked_sub(self.start.len())?)
    }
}

fn is_used(g: &Graph, input: u32) -> bool {
    let is_it = |s: &Slot| s.node == input;
    g.outputs.iter().any(is_it) || g.nodes.iter().any(|n| n.inputs.iter().any(is_it))
}

/// The rows of all steps, one above the other.
struct Stacked<'a> {
    turns: &'a Turns<'a>,
    kept: &'a [Slot],
    results: &'a [Tensor],
}
impl Stacked<'_> {
    fn view(&self, node: usize, x: &Tensor) -> Result<Tensor> {
        let n = &self.turns.step.nodes[node];
        let inputs: SmallVec<[Value; 2]> = SmallVec::from_iter([x.value()?.clone()]);
        Ok(Value::apply(n.op, inputs, n.attrs.clone(), n.site)?.swap_remove(0).into())
    }

    /// A value of the step for all steps, with the steps as the first dimension.
    fn rows(&self, s: Slot) -> Result<Tensor> {
        let (root, views) = self.turns.root(s);
        let x = match self.kept.iter().position(|&k| k == root) {
            Some(k) => Some(&self.results[k]),
            None => self.turns.row(root),
        };
        let x = x.ok_or_else(|| ir::Error::bug("a row was not kept"))?.clone();
        if views.is_empty() {
            return Ok(x);
        }
        let viewed = over_batch(
            |x| Ok(vec![views.iter().try_fold(x[0].clone(), |x, &v| self.view(v, &x))?]),
            std::slice::from_ref(&x),
            None,
        )?;
        Ok(viewed[0].clone())
    }

    fn sum(&self, s: &Sum) -> Result<Tensor> {
        Ok(match s {
            Sum::Product(a, b) => {
                let (a, b) = (self.rows(*a)?, self.rows(*b)?);
                let [t, m, k] = a.dims()?;
                let [_, _, n] = b.dims()?;
                a.permute(&[1, 0, 2]).reshape([m, t * k]).matmul(b.reshape([t * k, n]))
            }
            Sum::Reduced(x, node) => {
                let n = &self.turns.step.nodes[*node];
                let mut axes = vec![0];
                axes.extend(n.attrs.sizes("axes")?.iter().map(|&a| a as i64 + 1));
                self.rows(*x)?.sum(axes).reshape(n.outs[0].shape.clone())
            }
            Sum::View(node, of) => self.view(*node, &self.sum(of)?)?,
            Sum::Plus(a, b) => self.sum(a)? + self.sum(b)?,
        })
    }
}
