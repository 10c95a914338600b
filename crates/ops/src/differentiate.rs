//! Reverse-mode differentiation: from the graph of a value to the graph of its gradient.
//!
//! Gradients are ordinary nodes, so they can be differentiated again. Each carries the line of
//! the forward op it belongs to.

use crate::tensor::held;
use crate::{Tensor, autocast};
use ir::{Call, Error, ErrorKind, Grad, GradCall, Meaning, Node, Result, Source, Type, Value, no_grad};
use smallvec::SmallVec;
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

/// Walks from `outputs` to the leaves; `stop` values are not looked behind.
fn reach(outputs: &[Value], stop: &[Value]) -> Reach {
    let stop = ids(stop);
    let mut nodes = BTreeMap::new();
    let mut stack: Vec<Value> = outputs.to_vec();
    while let Some(v) = stack.pop() {
        if nodes.contains_key(&v.node().id()) {
            continue;
        }
        let is_leaf = v.node().op().is_none() || stop.contains(&v.node().id());
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

/// Vector-Jacobian product: gradients of Σ⟨outputs, cotangents⟩ with respect to `wrt`.
/// With `stop`, values in `wrt` are independent of each other even where one is computed from
/// another.
pub(crate) fn pull(
    outputs: &[Value],
    cotangents: &[Option<Value>],
    wrt: &[Value],
    stop: bool,
) -> Result<Vec<Option<Value>>> {
    autocast::off(|| pull_here(outputs, cotangents, wrt, stop))
}

fn pull_here(outputs: &[Value], cotangents: &[Option<Value>], wrt: &[Value], stop: bool) -> Result<Vec<Option<Value>>> {
    let Reach { nodes } = reach(outputs, if stop { wrt } else { &[] });
    // Inputs come before their users, so one pass in order finds what leads to `wrt`.
    let mut leads: BTreeMap<u64, bool> = BTreeMap::new();
    let ends = ids(wrt);
    for (id, (_, inputs)) in &nodes {
        let yes = ends.contains(id) || inputs.iter().any(|v| v.ty().dtype.is_inexact() && leads[&v.node().id()]);
        leads.insert(*id, yes);
    }
    let mut grads = BTreeMap::new();
    for (o, c) in outputs.iter().zip(cotangents) {
        if let Some(c) = c {
            if c.ty() != o.ty() {
                let e = format!("the cotangent is {}, but the value is {}", c.ty(), o.ty());
                return Err(Error::shape(e).in_op("grad"));
            }
            accumulate(&mut grads, o, c.clone())?;
        }
    }
    for (id, (node, inputs)) in nodes.iter().rev() {
        if !leads[id] || inputs.is_empty() {
            continue;
        }
        let outs: SmallVec<[Option<Value>; 1]> =
            (0..node.outs().len()).map(|o| grads.get(&(*id, o)).cloned()).collect();
        if outs.iter().all(Option::is_none) {
            continue;
        }
        node.mark_differentiated();
        let wanted: SmallVec<[bool; 2]> =
            inputs.iter().map(|v| v.ty().dtype.is_inexact() && leads[&v.node().id()]).collect();
        let got = node.site().scope(|| node_grads(node, inputs, &outs, &wanted))?;
        for ((v, g), wanted) in inputs.iter().zip(got).zip(&wanted) {
            if let (Some(g), true) = (g, *wanted) {
                if g.ty() != v.ty() {
                    let e = format!("the gradient rule gave {} for an input of type {}", g.ty(), v.ty());
                    return Err(Error::bug(e).in_op(node.op().map_or("", |o| o.name)).at(node.site()));
                }
                node.site().scope(|| accumulate(&mut grads, v, g))?;
            }
        }
    }
    Ok(wrt.iter().map(|w| grads.get(&key(w)).cloned()).collect())
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
    match (op.grad, op.meaning) {
        (Grad::Zero, _) => Ok(vec![None; inputs.len()]),
        (Grad::Missing(why), _) => Err(blame(Error::new(ErrorKind::Gradient, format!("has no gradient: {why}")))),
        (Grad::Rule(f), _) => {
            let first = Value::from_node(node.clone());
            let outputs: Vec<Value> = (0..node.outs().len()).map(|o| first.sibling(o)).collect();
            f(&GradCall { attrs: node.attrs(), inputs, outputs: &outputs, grads, wanted }).map_err(blame)
        }
        (Grad::Expand, Meaning::Composite(expand)) => {
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
        let e = format!("{} does not collect gradients: mark the leaf with requires_grad() before it is used", w.ty());
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
    let run = || {
        let one = seed(y, "backward")?;
        let y = y.value()?.clone();
        let leaves: Vec<Value> = reach(std::slice::from_ref(&y), &[])
            .nodes
            .values()
            .filter(|(n, _)| n.needs_grad() && is_collector(n))
            .map(|(n, _)| Value::from_node(n.clone()))
            .collect();
        if leaves.is_empty() {
            let e = "the value depends on no variable and no leaf that collects a gradient";
            return Err(Error::new(ErrorKind::Gradient, e).in_op("backward"));
        }
        let got = pull(&[y], &[Some(one.value()?.clone())], &leaves, false)?;
        for (leaf, g) in leaves.iter().zip(got) {
            let Some(g) = g else { continue };
            let add = |old: Option<Value>| match old {
                None => Ok(g.clone()),
                Some(old) => (Tensor::from(old) + Tensor::from(g.clone())).value().cloned(),
            };
            match leaf.node().source() {
                Source::Read(var) => var.set_grad(Some(add(var.grad())?)),
                _ => leaf.node().set_grad(Some(add(leaf.node().grad())?)),
            }
        }
        Ok(())
    };
    no_grad(run).map_err(|e: Error| e.at(site))
}

/// True for a node at which gradients are collected.
fn is_collector(n: &Node) -> bool {
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
            _ => v.node().grad().map(Tensor::from),
        }
    }
    /// Forgets the gradient collected at this leaf.
    pub fn zero_grad(&self) {
        if let Ok(v) = self.value() {
            match v.node().source() {
                Source::Read(var) => var.set_grad(None),
                _ => v.node().set_grad(None),
            }
        }
    }
}
