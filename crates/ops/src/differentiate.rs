//! Reverse-mode differentiation: from the graph of a value to the graph of its gradient.
//!
//! Gradients are ordinary nodes, so they can be differentiated again. Each carries the line of
//! the forward op it belongs to.

use crate::tensor::held;
use crate::{Tensor, autocast, memo};
use ir::{AttrKind, Call, Error, ErrorKind, Grad, GradCall, Meaning, Node, Result, Source, Type, Value, Var, no_grad};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What lies between some results and the values their gradient is wanted for.
struct Reach {
    /// Nodes by program order, with their inputs.
    nodes: BTreeMap<u64, (Arc<Node>, SmallVec<[Value; 2]>)>,
}

fn key(v: &Value) -> (u64, usize) {
    (v.node().id(), v.out())
}

/// The numbers of the nodes of some values.
fn ids(values: &[Value]) -> BTreeSet<u64> {
    values.iter().map(|v| v.node().id()).collect()
}

/// Walks from `outputs` to the leaves and to what was made under `no_grad`, which no gradient flows
/// through, whether it is computed yet or not.
fn reach(outputs: &[Value]) -> Reach {
    reach_until(outputs, &|n| !n.needs_grad())
}

/// Walks from `outputs` to the leaves; nodes that `is_end` are not looked behind.
fn reach_until(outputs: &[Value], is_end: &dyn Fn(&Node) -> bool) -> Reach {
    let mut nodes = BTreeMap::new();
    let mut stack: Vec<Value> = outputs.to_vec();
    while let Some(v) = stack.pop() {
        if nodes.contains_key(&v.node().id()) {
            continue;
        }
        let is_leaf = v.node().op().is_none() || is_end(v.node());
        let inputs = if is_leaf { SmallVec::new() } else { v.node().inputs() };
        stack.extend(inputs.iter().cloned());
        nodes.insert(v.node().id(), (v.node().clone(), inputs));
    }
    Reach { nodes }
}

/// Accumulates `g` into the gradient of `v`.
fn accumulate(grads: &mut BTreeMap<(u64, usize), Value>, v: &Value, g: Value) -> Result<()> {
    let sum = match grads.remove(&key(v)) {
        None => g,
        Some(old) => (Tensor::from(old) + Tensor::from(g)).value()?.clone(),
    };
    grads.insert(key(v), sum);
    Ok(())
}

/// What a walk does beside taking gradients.
#[derive(Clone, Copy, Default)]
struct Walk {
    /// Hooks run, and gradients are kept where the program asked for it.
    is_watched: bool,
    /// The program asks once and no more: what the rules read of the forward pass is let go.
    releases: bool,
}

/// Vector-Jacobian product: gradients of Σ⟨outputs, cotangents⟩ with respect to `wrt`.
/// With `stop`, values in `wrt` are independent of each other even where one is computed from
/// another.
pub(crate) fn pull(
    outputs: &[Value],
    cotangents: &[Option<Value>],
    wrt: &[Value],
    stop: bool,
) -> Result<Vec<Option<Value>>> {
    let stops = ids(wrt);
    let reach = if stop { reach_until(outputs, &|n| stops.contains(&n.id())) } else { reach(outputs) };
    walk(&reach, outputs, cotangents, wrt, Walk::default())
}

fn walk(
    reach: &Reach,
    outputs: &[Value],
    cotangents: &[Option<Value>],
    wrt: &[Value],
    how: Walk,
) -> Result<Vec<Option<Value>>> {
    autocast::off(|| walk_here(reach, outputs, cotangents, wrt, how))
}

/// Gradients by node and output.
type Grads = BTreeMap<(u64, usize), Value>;

fn walk_here(
    Reach { nodes }: &Reach,
    outputs: &[Value],
    cotangents: &[Option<Value>],
    wrt: &[Value],
    how: Walk,
) -> Result<Vec<Option<Value>>> {
    // Inputs come before their users, so one pass in order finds what leads to `wrt`.
    let mut leads: BTreeMap<u64, bool> = BTreeMap::new();
    let ends = ids(wrt);
    for (id, (_, inputs)) in nodes {
        let yes = ends.contains(id) || inputs.iter().any(|v| v.ty().dtype.is_inexact() && leads[&v.node().id()]);
        leads.insert(*id, yes);
    }
    let mut grads = Grads::new();
    for (o, c) in outputs.iter().zip(cotangents) {
        if let Some(c) = c {
            if c.ty() != o.ty() {
                let e = format!("the cotangent is {}, but the value is {}", c.ty(), o.ty());
                return Err(Error::shape(e).in_op("grad"));
            }
            accumulate(&mut grads, o, c.clone())?;
        }
    }
    let mut released = Vec::new();
    // What is asked for of a computed value is the gradient before its own hooks, as in PyTorch.
    let mut asked = Grads::new();
    for (id, (node, inputs)) in nodes.iter().rev() {
        if !leads[id] {
            continue;
        }
        if how.is_watched {
            if ends.contains(id) && !is_collector(node) {
                let mine = (0..node.outs().len()).map(|o| (*id, o));
                asked.extend(mine.filter_map(|k| Some((k, grads.get(&k)?.clone()))));
            }
            watched(node, &mut grads)?;
        }
        let wanted: SmallVec<[bool; 2]> =
            inputs.iter().map(|v| v.ty().dtype.is_inexact() && leads[&v.node().id()]).collect();
        let outs: SmallVec<[Option<Value>; 1]> =
            (0..node.outs().len()).map(|o| grads.get(&(*id, o)).cloned()).collect();
        if !wanted.contains(&true) || outs.iter().all(Option::is_none) {
            continue;
        }
        if how.is_watched && node.is_released() {
            return Err(twice(node));
        }
        node.mark_differentiated();
        let since = ir::mark();
        let got = node.site().of_gradient().scope(|| node_grads(node, inputs, &outs, &wanted))?;
        if how.releases && is_saving(node, inputs, &wanted, &got, since) {
            released.push(node.clone());
        }
        for ((v, g), wanted) in inputs.iter().zip(got).zip(&wanted) {
            if let (Some(g), true) = (g, *wanted) {
                check_type(&g, v, node)?;
                node.site().of_gradient().scope(|| accumulate(&mut grads, v, g))?;
            }
        }
    }
    released.iter().for_each(|n| n.release());
    Ok(wrt.iter().map(|w| asked.get(&key(w)).or_else(|| grads.get(&key(w))).cloned()).collect())
}

fn check_type(g: &Value, v: &Value, node: &Node) -> Result<()> {
    if g.ty() == v.ty() {
        return Ok(());
    }
    let e = format!("the gradient rule gave {} for an input of type {}", g.ty(), v.ty());
    let is_ours = node.watched(|w| w.pullback.is_some()) != Some(true);
    let e = if is_ours { Error::bug(e) } else { Error::new(ErrorKind::Gradient, e) };
    Err(e.in_op(node.op().map_or("", |o| o.name)).at(node.site()))
}

fn twice(node: &Node) -> Error {
    let e = "the gradient is taken a second time of values that were let go after the first: pass retain_graph=True \
             to the first call, or detach() what the second should not reach";
    Error::new(ErrorKind::Gradient, e).in_op(node.op().map_or("backward", |o| o.name)).at(node.site())
}

thread_local! {
    /// Ops and wanted gradients, with whether their rules read the forward pass.
    static SAVING: RefCell<BTreeMap<(usize, u64), bool>> = const { RefCell::new(BTreeMap::new()) };
}

/// Whether the gradients of a node need its inputs or outputs. That is the same for all uses of an op, unless a graph or
/// a function belongs to the node.
fn is_saving(node: &Node, inputs: &[Value], wanted: &[bool], got: &[Option<Value>], since: u64) -> bool {
    let own = || reads_forward(got, node, inputs, since);
    let Some(op) = node.op().filter(|op| wanted.len() <= 64 && op.attrs.iter().all(|a| a.1 != AttrKind::Graph)) else {
        return own();
    };
    if node.watched(|w| w.pullback.is_some()) == Some(true) {
        return own();
    }
    let bits = wanted.iter().enumerate().fold(0, |bits, (i, &w)| bits | (u64::from(w) << i));
    let key = (std::ptr::from_ref(op).addr(), bits);
    SAVING.with_borrow_mut(|known| *known.entry(key).or_insert_with(own))
}

/// Whether the gradients of a node were computed from its inputs or outputs.
fn reads_forward(got: &[Option<Value>], node: &Node, inputs: &[Value], since: u64) -> bool {
    let forward: SmallVec<[u64; 4]> = inputs.iter().map(|v| v.node().id()).chain([node.id()]).collect();
    let mut seen: SmallVec<[u64; 16]> = SmallVec::new();
    let mut stack: SmallVec<[Value; 8]> = got.iter().flatten().cloned().collect();
    while let Some(v) = stack.pop() {
        let id = v.node().id();
        if id >= since {
            if !seen.contains(&id) {
                seen.push(id);
                stack.extend(v.node().inputs());
            }
        } else if forward.contains(&id) {
            return true;
        }
    }
    false
}

/// Runs the hooks of a node's gradients, and keeps those that are to be kept.
fn watched(node: &Arc<Node>, grads: &mut Grads) -> Result<()> {
    for out in 0..node.outs().len() {
        let Some(seen) = node.watched(|w| (w.hooks(out), w.keeps(out))) else { return Ok(()) };
        let (hooks, is_kept) = seen;
        let Some(g) = grads.get(&(node.id(), out)).cloned() else { continue };
        let g = hooked(g, &hooks)?;
        if is_kept {
            let sum = match node.watched(|w| w.kept(out)).flatten() {
                None => g.clone(),
                Some(old) => (Tensor::from(old) + Tensor::from(g.clone())).value()?.clone(),
            };
            node.watch(|w| w.set_kept(out, Some(sum)));
        }
        grads.insert((node.id(), out), g);
    }
    Ok(())
}

/// A gradient after its hooks.
fn hooked(mut g: Value, hooks: &[ir::GradHook]) -> Result<Value> {
    for hook in hooks {
        if let Some(new) = hook(&g)? {
            if new.ty() != g.ty() {
                let e = format!("a hook returned {} for a gradient of type {}", new.ty(), g.ty());
                return Err(Error::new(ErrorKind::Gradient, e).in_op("register_hook"));
            }
            g = new;
        }
    }
    Ok(g)
}

/// What a gradient is taken with respect to.
#[derive(Clone)]
pub enum Wrt {
    /// A value, computed or a leaf.
    Value(Value),
    /// A variable: all its reads.
    Variable(Arc<Var>),
}

/// The gradients of Σ⟨outputs, cotangents⟩ with respect to each of `wrt`, after hooks; `None` where nothing depends on
/// one. With `releases` the graph cannot be walked again.
pub fn gradients(outputs: &[Value], cotangents: &[Value], wrt: &[Wrt], releases: bool) -> Result<Vec<Option<Value>>> {
    gradients_in(&reach(outputs), outputs, cotangents, wrt, releases)
}

fn gradients_in(
    reach: &Reach,
    outputs: &[Value],
    cotangents: &[Value],
    wrt: &[Wrt],
    releases: bool,
) -> Result<Vec<Option<Value>>> {
    let has_variables = wrt.iter().any(|w| matches!(w, Wrt::Variable(_)));
    let reads = if has_variables { reads(reach) } else { BTreeMap::new() };
    let ends: Vec<Vec<Value>> = wrt
        .iter()
        .map(|w| match w {
            Wrt::Value(v) => vec![v.clone()],
            Wrt::Variable(v) => reads.get(&v.id()).cloned().unwrap_or_default(),
        })
        .collect();
    let cotangents: Vec<Option<Value>> = cotangents.iter().cloned().map(Some).collect();
    let how = Walk { is_watched: true, releases };
    let since = ir::mark();
    let mut got = walk(reach, outputs, &cotangents, &ends.concat(), how)?.into_iter();
    if !ir::is_grad_on() {
        RULED.with_borrow_mut(|r| {
            if r.len() >= RULED_MAX {
                r.remove(0);
            }
            r.push((since, ir::mark()));
        });
    }
    let one = |(w, ends): (&Wrt, &Vec<Value>)| -> Result<Option<Value>> {
        let mut sum: Option<Tensor> = None;
        for g in got.by_ref().take(ends.len()).flatten() {
            let g = Tensor::from(g);
            sum = Some(sum.map_or_else(|| g.clone(), |s| s + g.clone()));
        }
        let Some(sum) = sum else { return Ok(None) };
        let sum = sum.value()?.clone();
        match w {
            Wrt::Value(_) => Ok(Some(sum)),
            Wrt::Variable(v) => hooked(sum, &v.watched(|w| w.hooks(0)).unwrap_or_default()).map(Some),
        }
    };
    wrt.iter().zip(&ends).map(one).collect()
}

thread_local! {
    /// Where this thread took gradients that are not differentiated again: the numbers of the nodes
    /// that the rules made.
    static RULED: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}
/// As many of them as are remembered.
const RULED_MAX: usize = 256;

/// Values of a traced function with `stop_gradient` where it was said by `no_grad`: a graph does not
/// know under which scope a node was made. Nodes before the mark `since` are not looked behind.
pub fn stopped(outs: &[Value], since: u64) -> Result<Vec<Value>> {
    let Reach { nodes } = reach_until(outs, &|n| n.id() < since);
    let by_rules = RULED.with_borrow(Clone::clone);
    let is_cut = |n: &Node, inputs: &[Value]| {
        let is_ruled = || by_rules.iter().any(|(a, b)| (*a..*b).contains(&n.id()));
        n.op().is_some()
            && !n.needs_grad()
            && n.outs().iter().any(|t| t.dtype.is_inexact())
            && inputs.iter().any(|v| v.node().needs_grad())
            && !is_ruled()
    };
    if !nodes.values().any(|(n, inputs)| is_cut(n, inputs)) {
        return Ok(outs.to_vec());
    }
    let mut moved: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for (id, (n, inputs)) in &nodes {
        let is_cut = is_cut(n, inputs);
        let is_moved = inputs.iter().any(|v| moved.contains_key(&v.node().id()));
        let Some(op) = n.op().filter(|_| is_cut || is_moved) else { continue };
        let mut new = SmallVec::<[Value; 2]>::new();
        for v in inputs {
            let now = moved.get(&v.node().id()).map_or_else(|| v.clone(), |outs| outs[v.out()].clone());
            let stops = is_cut && now.node().needs_grad();
            new.push(if stops { Tensor::from(now).stop_gradient().value()?.clone() } else { now });
        }
        let outs = Value::apply(op, new, n.attrs().clone(), n.site())?;
        moved.insert(*id, outs.into_iter().collect());
    }
    Ok(outs.iter().map(|v| moved.get(&v.node().id()).map_or_else(|| v.clone(), |m| m[v.out()].clone())).collect())
}

/// The reads of variables that some values depend on, by variable.
fn reads(reach: &Reach) -> BTreeMap<u64, Vec<Value>> {
    let mut all: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for (n, _) in reach.nodes.values() {
        if let Source::Read(var) = n.source() {
            all.entry(var.id()).or_default().push(Value::from_node(n.clone()));
        }
    }
    all
}

/// One node's gradients with respect to its inputs.
fn node_grads(
    node: &Arc<Node>,
    inputs: &[Value],
    grads: &[Option<Value>],
    wanted: &[bool],
) -> Result<Vec<Option<Value>>> {
    let Source::Apply(op) = node.source() else { return Ok(vec![]) };
    let blame = |e: Error| e.in_op(op.name).at(node.site());
    if let Some(pullback) = node.watched(|w| w.pullback.clone()).flatten() {
        return pullback(grads).map_err(blame);
    }
    match (op.grad, op.meaning) {
        (Grad::Zero, _) => Ok(vec![None; inputs.len()]),
        (Grad::Missing(why), _) => Err(blame(Error::new(ErrorKind::Gradient, format!("has no gradient: {why}")))),
        (Grad::Rule(f), _) => {
            let first = Value::from_node(node.clone());
            let outputs: Vec<Value> = (0..node.outs().len()).map(|o| first.sibling(o)).collect();
            f(&GradCall { attrs: node.attrs(), inputs, outputs: &outputs, grads, wanted }).map_err(blame)
        }
        (Grad::Expand, Meaning::Composite(expand)) => {
            if let Some(got) = memo::gradients(node, expand, inputs, grads, wanted) {
                return got.map_err(blame);
            }
            let types: Vec<Type> = inputs.iter().map(|v| v.ty().clone()).collect();
            // The way from the results back to the inputs must be there still when it is walked.
            let outs = held(|| expand(&Call { types: &types, attrs: node.attrs() }, inputs)).map_err(blame)?;
            let mut got = pull(&outs, grads, inputs, true)?;
            // A value that is several of the inputs has its whole gradient once.
            for i in 1..inputs.len() {
                if inputs[..i].iter().any(|v| v.is_same(&inputs[i])) {
                    got[i] = None;
                }
            }
            Ok(got)
        }
        (Grad::Expand, _) => Err(blame(Error::bug("only a composite can be differentiated by expansion"))),
    }
}

/// Vector-Jacobian product of several outputs: `Σ ⟨outputs, cotangents⟩` differentiated with
/// respect to `wrt`. Inputs that the outputs do not depend on get zeros.
pub fn vjp(outputs: &[Tensor], cotangents: &[Tensor], wrt: &[Tensor]) -> Result<Vec<Tensor>> {
    let outs = outputs.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()?;
    let cots = cotangents.iter().map(|t| t.value().cloned().map(Some)).collect::<Result<Vec<_>>>()?;
    if outs.len() != cots.len() {
        return Err(Error::value(format!("{} outputs, but {} cotangents", outs.len(), cots.len())).in_op("vjp"));
    }
    let wrt_values = wrt.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()?;
    // A value that collects no gradient may have forgotten how it came about: a silent zero.
    if let Some(w) = wrt_values.iter().find(|w| !w.node().needs_grad()) {
        let e = format!(
            "{} does not collect gradients: make the leaf require gradients (requires_grad) before it is used",
            w.ty()
        );
        return Err(Error::new(ErrorKind::Gradient, e).in_op("grad").at(w.node().site()));
    }
    let got = pull(&outs, &cots, &wrt_values, false)?;
    Ok(got.into_iter().zip(wrt).map(|(g, w)| g.map_or_else(|| w.zeros_like(), Tensor::from)).collect())
}

/// The gradient of a scalar with respect to each of `wrt`; zeros where it does not depend on one.
/// The result can be differentiated again.
///
/// ```
/// # use talweg_ops::{Tensor, grad};
/// let x = Tensor::from([1.0f64, 2.0]).requires_grad();
/// let y = (&x * &x * &x).sum(..);
/// let g = &grad(&y, &[x.clone()]).unwrap()[0];
/// assert_eq!(g.to_vec::<f64>().unwrap(), [3.0, 12.0]);
/// let h = &grad(&g.sum(..), &[x]).unwrap()[0];
/// assert_eq!(h.to_vec::<f64>().unwrap(), [6.0, 12.0]);
/// ```
#[track_caller]
pub fn grad(y: &Tensor, wrt: &[Tensor]) -> Result<Vec<Tensor>> {
    let site = ir::Site::here();
    let one = seed(y, "grad").map_err(|e| e.at(site))?;
    vjp(std::slice::from_ref(y), &[one], wrt)
}

/// The cotangent a scalar loss starts from.
fn seed(y: &Tensor, what: &str) -> Result<Tensor> {
    let ty = y.value()?.ty();
    if ty.shape.count() != 1 || !ty.dtype.is_float() {
        let e = format!("only a float of one element can be differentiated without a cotangent, but this is {ty}");
        return Err(Error::new(ErrorKind::Gradient, e).in_op(what));
    }
    Ok(y.ones_like())
}

/// Adds the gradient of the scalar `y` to every variable and leaf it depends on that collects one.
#[track_caller]
pub fn backward(y: &Tensor) -> Result<()> {
    let site = ir::Site::here();
    let run = || collect_gradients(&[y.value()?.clone()], &[seed(y, "backward")?.value()?.clone()], None, false);
    no_grad(run).map_err(|e: Error| e.at(site))
}

/// Adds the gradients of Σ⟨outputs, cotangents⟩ to `inputs`, or to every variable and leaf that collects one. With
/// `releases` the graph cannot be walked again.
pub fn collect_gradients(
    outputs: &[Value],
    cotangents: &[Value],
    inputs: Option<&[Wrt]>,
    releases: bool,
) -> Result<()> {
    let reach = reach(outputs);
    let found = if inputs.is_none() { collectors(&reach) } else { Vec::new() };
    let leaves = inputs.unwrap_or(&found);
    if leaves.is_empty() {
        let e = "the value depends on no variable and no leaf that collects a gradient";
        return Err(Error::new(ErrorKind::Gradient, e).in_op("backward"));
    }
    let got = gradients_in(&reach, outputs, cotangents, leaves, releases)?;
    for (leaf, g) in leaves.iter().zip(got) {
        let Some(g) = g else { continue };
        let add = |old: Option<Value>| match old {
            None => Ok(g.clone()),
            Some(old) => (Tensor::from(old) + Tensor::from(g.clone())).value().cloned(),
        };
        let after = match leaf {
            Wrt::Variable(var) => {
                var.set_grad(Some(add(var.grad())?));
                var.watched(|w| w.after())
            }
            Wrt::Value(v) if is_collector(v.node()) => {
                v.node().set_grad(Some(add(v.node().grad())?));
                v.node().watched(|w| w.after())
            }
            // Its gradient is kept already, if it is kept.
            Wrt::Value(v) if v.node().watched(|w| w.keeps(v.out())) == Some(true) => None,
            Wrt::Value(v) => {
                let old = v.node().watched(|w| w.kept(v.out())).flatten();
                let sum = add(old)?;
                v.node().watch(|w| w.set_kept(v.out(), Some(sum)));
                None
            }
        };
        after.unwrap_or_default().iter().try_for_each(|hook| hook())?;
    }
    Ok(())
}

/// Everything that values depend on and that collects a gradient.
fn collectors(reach: &Reach) -> Vec<Wrt> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (n, _) in reach.nodes.values() {
        if !n.needs_grad() || !is_collector(n) {
            continue;
        }
        match n.source() {
            Source::Read(var) if !seen.insert(var.id()) => {}
            Source::Read(var) => all.push(Wrt::Variable(var.clone())),
            _ => all.push(Wrt::Value(Value::from_node(n.clone()))),
        }
    }
    all
}

/// The same value as a separate node, if gradients flow through it: what is a function of one is not of the other.
#[track_caller]
pub fn aliased(t: &Tensor) -> Tensor {
    match t.value() {
        Ok(v) if v.node().needs_grad() => Tensor::apply1(&crate::composite::alias::OP, &[t], ir::Attrs::new()),
        _ => t.clone(),
    }
}

/// The same value as a node that gradients can be taken with respect to, whatever it was computed from; they flow on
/// to that.
#[track_caller]
pub fn tracked(t: &Tensor) -> Result<Tensor> {
    let v = t.value()?;
    if !v.ty().dtype.is_inexact() {
        return Err(Error::dtype(format!("only floats have derivatives, not {}", v.ty().dtype)));
    }
    Ok(Value::tracked(&crate::composite::alias::OP, v.clone(), ir::Site::here()).into())
}

/// True if a gradient of the value may be requested outside of `own`, the values that a function was
/// called with: it depends on another value that collects one.
pub fn is_trained(t: &Tensor, own: &[Tensor]) -> Result<bool> {
    let stop = own.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()?;
    let inner = ids(&stop);
    let is_end = |n: &Node| is_collector(n) || matches!(n.source(), Source::Placeholder(_));
    let Reach { nodes } = reach(std::slice::from_ref(t.value()?));
    Ok(nodes.iter().any(|(id, (n, inputs))| {
        // What a tracked value was computed from decides whether it is requested outside.
        n.needs_grad()
            && !inner.contains(id)
            && (is_end(n) || (is_tracked(n) && !inputs.iter().any(|v| v.node().needs_grad())))
    }))
}

/// True for what [`tracked`] makes.
fn is_tracked(n: &Node) -> bool {
    n.op() == Some(&crate::composite::alias::OP)
}

/// True for a node at which gradients are collected.
pub fn is_collector(n: &Node) -> bool {
    matches!(n.source(), Source::Read(_) | Source::Data) || n.op() == Some(&crate::composite::leaf::OP)
}

impl Tensor {
    /// Adds this scalar's gradient to every variable and leaf it depends on that collects one.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([3.0f32]).requires_grad();
    /// (&x * &x).sum(..).backward().unwrap();
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [6.0]);
    /// ```
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        backward(self)
    }
    /// The gradient that `backward` has collected at this leaf.
    pub fn grad(&self) -> Option<Tensor> {
        let v = self.value().ok()?;
        match v.node().source() {
            Source::Read(var) => var.grad().map(Tensor::from),
            _ => v.node().grad().or_else(|| v.node().watched(|w| w.kept(v.out())).flatten()).map(Tensor::from),
        }
    }
    /// Forgets the gradient collected at this leaf.
    pub fn zero_grad(&self) {
        if let Ok(v) = self.value() {
            match v.node().source() {
                Source::Read(var) => var.set_grad(None),
                _ => {
                    v.node().set_grad(None);
                    if v.node().watched(|w| w.keeps(v.out())) == Some(true) {
                        v.node().watch(|w| w.set_kept(v.out(), None));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(x: f64) -> (Tensor, Wrt) {
        let t = Tensor::from([x]).requires_grad();
        let wrt = Wrt::Value(t.value().unwrap().clone());
        (t, wrt)
    }
    fn number(v: &Option<Value>) -> f64 {
        Tensor::from(v.clone().unwrap()).to_vec::<f64>().unwrap()[0]
    }

    #[test]
    fn hooks_replace_gradients_and_kept_ones_accumulate() {
        let (x, wrt) = leaf(3.0);
        let y = &x * &x;
        let node = y.value().unwrap().node().clone();
        let number_of_hook = node.watch(|w| {
            w.keep(0);
            w.add_hook(0, Arc::new(|g| Ok(Some((Tensor::from(g.clone()) * 10.0).value()?.clone()))))
        });
        let one = y.ones_like().value().unwrap().clone();
        let outs = [y.value().unwrap().clone()];
        let run = || gradients(&outs, std::slice::from_ref(&one), std::slice::from_ref(&wrt), false).unwrap();
        assert_eq!(number(&run()[0]), 60.0);
        node.watch(|w| w.remove(number_of_hook));
        assert_eq!(number(&run()[0]), 6.0);
        assert_eq!(number(&node.watched(|w| w.kept(0)).unwrap()), 11.0);
    }

    #[test]
    fn what_was_let_go_is_not_walked_again() {
        let (x, wrt) = leaf(3.0);
        let (saving, plain) = (x.exp(), x.neg());
        for (y, is_saving) in [(saving, true), (plain, false)] {
            let (out, one) = (y.value().unwrap().clone(), y.ones_like().value().unwrap().clone());
            let run =
                || gradients(std::slice::from_ref(&out), std::slice::from_ref(&one), std::slice::from_ref(&wrt), true);
            assert!(run().is_ok());
            assert_eq!(run().is_err(), is_saving);
        }
    }
}
