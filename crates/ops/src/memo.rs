//! Composites are expanded once per signature: their result types and the graphs of their gradients are cached by op,
//! input types and attributes. Eager programs ask for both at every call.

use crate::differentiate::pull;
use crate::tensor::{computed_if_long, held};
use ir::{Attr, Attrs, Call, Collect, Graph, Node, Result, Slot, Type, Types, Value, collect, mark};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The body of a composite.
pub(crate) type Expand = fn(&Call, &[Value]) -> Result<Vec<Value>>;

/// Entries of a cache; a full one is cleared.
const ENTRIES_MAX: usize = 1024;

thread_local! {
    static TYPES: RefCell<Cache<Types>> = RefCell::default();
    static GRADIENTS: RefCell<Cache<Option<Arc<Template>>>> = RefCell::default();
}

/// One signature. `flags` holds what else the entry depends on.
#[derive(PartialEq)]
struct Key {
    body: usize,
    flags: u64,
    types: SmallVec<[Type; 3]>,
    attrs: Attrs,
}

/// Entries by the hash of their key.
struct Cache<T>(FxHashMap<u64, (Key, T)>);
impl<T> Default for Cache<T> {
    fn default() -> Cache<T> {
        Cache(FxHashMap::default())
    }
}

impl<T: Clone> Cache<T> {
    fn get(&self, hash: u64, body: usize, flags: u64, c: &Call) -> Option<T> {
        let (key, found) = self.0.get(&hash)?;
        let is_same = key.body == body && key.flags == flags && key.types[..] == *c.types && key.attrs == *c.attrs;
        is_same.then(|| found.clone())
    }
    fn put(&mut self, hash: u64, body: usize, flags: u64, c: &Call, value: T) {
        if self.0.len() >= ENTRIES_MAX {
            self.0.clear();
        }
        let key = Key { body, flags, types: c.types.into(), attrs: c.attrs.clone() };
        self.0.insert(hash, (key, value));
    }
}

fn hash_of(body: usize, flags: u64, c: &Call) -> u64 {
    let mut h = FxHasher::default();
    (body, flags, c.types, c.attrs).hash(&mut h);
    h.finish()
}

/// Sub-graphs and constants are not compared at every call.
fn is_small(attrs: &Attrs) -> bool {
    !attrs.iter().any(|(_, a)| matches!(a, Attr::Literal(_) | Attr::Graph(_) | Attr::Custom(_)))
}

/// The result types of a composite, from the cache or from `infer`. Errors are not cached.
pub(crate) fn types(body: Expand, c: &Call, infer: impl FnOnce() -> Result<Types>) -> Result<Types> {
    if !is_small(c.attrs) {
        return infer();
    }
    let body = body as usize;
    let hash = hash_of(body, 0, c);
    if let Some(found) = TYPES.with_borrow(|t| t.get(hash, body, 0, c)) {
        return Ok(found);
    }
    let types = infer()?;
    TYPES.with_borrow_mut(|t| t.put(hash, body, 0, c, types.clone()));
    Ok(types)
}

/// The gradient of a composite as a graph whose inputs are operands: the composite's inputs, then the gradients of its
/// outputs.
struct Template {
    graph: Graph,
    /// The operand each input of the graph stands for.
    operands: Vec<usize>,
    /// For each input of the composite, the output of the graph that is its gradient.
    gradients: Vec<Option<Slot>>,
}

/// The gradients of a composite with respect to its inputs, or `None` if they have to be made by expansion: they draw
/// random numbers, hold data, or depend on which values the inputs are.
pub(crate) fn gradients(
    node: &Node,
    body: Expand,
    inputs: &[Value],
    grads: &[Option<Value>],
    wanted: &[bool],
) -> Option<Result<Vec<Option<Value>>>> {
    let is_plain = |(i, v): (usize, &Value)| v.as_const().is_none() && !inputs[..i].iter().any(|w| w.is_same(v));
    if inputs.len() + grads.len() > 60 || !is_small(node.attrs()) || !inputs.iter().enumerate().all(is_plain) {
        return None;
    }
    let bits = wanted.iter().copied().chain(grads.iter().map(Option::is_some));
    let flags = bits.fold(1, |flags, bit| flags << 1 | u64::from(bit));
    let types: SmallVec<[Type; 3]> = inputs.iter().map(|v| v.ty().clone()).collect();
    let call = Call { types: &types, attrs: node.attrs() };
    let key = body as usize;
    let hash = hash_of(key, flags, &call);
    let template = GRADIENTS.with_borrow(|g| g.get(hash, key, flags, &call)).unwrap_or_else(|| {
        let made = Template::new(node, body, &call, grads, wanted).map(Arc::new);
        GRADIENTS.with_borrow_mut(|g| g.put(hash, key, flags, &call, made.clone()));
        made
    })?;
    Some(template.instantiate(node, inputs, grads))
}

impl Template {
    fn new(node: &Node, body: Expand, call: &Call, grads: &[Option<Value>], wanted: &[bool]) -> Option<Template> {
        let since = mark();
        let site = node.site();
        let leaf = |t: &Type| Value::placeholder("", t.clone(), site);
        let inputs: Vec<Value> = call.types.iter().map(leaf).collect();
        let seeds: Vec<Option<Value>> = grads.iter().map(|g| g.as_ref().map(|g| leaf(g.ty()))).collect();
        let outs = held(|| body(call, &inputs)).ok()?;
        let got = held(|| pull(&outs, &seeds, &inputs, true)).ok()?;
        let got: Vec<Option<Value>> = got.into_iter().zip(wanted).map(|(g, &w)| g.filter(|_| w)).collect();
        let fetches: Vec<Value> = got.iter().flatten().cloned().collect();
        let collected = collect(&fetches, Collect::Trace { since }).ok()?;
        let all: Vec<Option<&Value>> = inputs.iter().map(Some).chain(seeds.iter().map(Option::as_ref)).collect();
        let operand = |leaf: &Value| all.iter().position(|v| v.is_some_and(|v| v.is_same(leaf)));
        let operands = collected.leaves.iter().map(operand).collect::<Option<Vec<usize>>>()?;
        let mut slots = collected.graph.outputs.iter().copied();
        let gradients = got.iter().map(|g| g.as_ref().and_then(|_| slots.next())).collect();
        Some(Template { graph: collected.graph, operands, gradients })
    }

    fn instantiate(&self, node: &Node, inputs: &[Value], grads: &[Option<Value>]) -> Result<Vec<Option<Value>>> {
        let mut values: Vec<Value> = Vec::with_capacity(self.graph.nodes.len());
        let mut operands = self.operands.iter();
        for n in &self.graph.nodes {
            let value = if n.op == &ir::INPUT {
                let at = *operands.next().expect("an operand for every input");
                let operand = if at < inputs.len() { Some(&inputs[at]) } else { grads[at - inputs.len()].as_ref() };
                operand.expect("the flags say which gradients there are").clone()
            } else {
                let inputs = n.inputs.iter().map(|&s| at(&values, s)).collect();
                Value::apply_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), node.site())
            };
            values.push(value);
        }
        let got: Vec<Option<Value>> = self.gradients.iter().map(|s| s.map(|s| at(&values, s))).collect();
        let before = inputs.iter().chain(grads.iter().flatten()).map(|v| v.node().depth()).max().unwrap_or(0);
        let made: SmallVec<[Value; 4]> = got.iter().flatten().cloned().collect();
        computed_if_long(&made, before)?;
        Ok(got)
    }
}

/// The value of a slot: nodes are held by their first output, operands as they are.
fn at(values: &[Value], s: Slot) -> Value {
    let v = &values[s.node as usize];
    if s.out == 0 { v.clone() } else { v.sibling(s.out as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tensor, grad};

    fn templates() -> usize {
        GRADIENTS.with_borrow(|g| g.0.values().filter(|(_, t)| t.is_some()).count())
    }
    fn slope(x: &Tensor, y: &Tensor) -> Vec<f64> {
        grad(&y.sum(..), std::slice::from_ref(x)).unwrap()[0].to_vec().unwrap()
    }

    #[test]
    fn a_second_call_uses_the_graph_of_the_first() {
        let x = Tensor::from([[0.5f64, -1.0]]).requires_grad();
        let first = slope(&x, &x.glu(-1));
        let made = templates();
        assert!(made > 0);
        assert_eq!(slope(&x, &x.glu(-1)), first);
        assert_eq!(templates(), made);
        let two = Tensor::from([[0.5f64, -1.0], [0.5, -1.0]]).requires_grad();
        assert_eq!(slope(&two, &two.glu(-1)), [&first[..], &first[..]].concat());
        assert!(templates() > made);
    }

    #[test]
    fn an_input_used_twice_has_its_whole_gradient() {
        let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]).requires_grad();
        assert_eq!(slope(&x, &x.linear(&x, None)), [8.0, 12.0, 8.0, 12.0]);
    }

    #[test]
    fn gradients_of_cached_gradients() {
        let at = |v: f64| Tensor::from([v, 0.7]).requires_grad();
        let once = |x: &Tensor| grad(&x.glu(-1).sum(..), std::slice::from_ref(x)).unwrap().swap_remove(0);
        let (x, h) = (at(0.3), 1e-5);
        let second = slope(&x, &once(&x));
        assert_eq!(slope(&x, &once(&x)), second);
        let sum = |v: f64| once(&at(v)).sum(..).item::<f64>().unwrap();
        assert!((second[0] - (sum(0.3 + h) - sum(0.3 - h)) / (2.0 * h)).abs() < 1e-6);
    }
}
