//! Writes nodes: names, attributes, constants, and sizes that are free.

use super::{elem, key, rows};
use crate::wire::Writer;
use ir::{DType, Error, Graph, Literal, Result, Slot};
use rustc_hash::{FxHashMap, FxHashSet};

/// A free size: its name, the input and axis that has it, and its size in both traces.
pub struct Free {
    pub name: String,
    pub input: String,
    pub axis: usize,
    pub size: usize,
    pub other: usize,
}

/// An attribute.
pub enum A<'a> {
    Int(i64),
    Float(f64),
    Text(&'a str),
    Ints(&'a [i64]),
    /// A graph's message.
    Graph(Vec<u8>),
}

/// Collects the nodes of a graph.
pub struct Emitter<'a> {
    pub nodes: Vec<Vec<u8>>,
    pub constants: Vec<(String, Literal)>,
    names: FxHashMap<(u32, u32), String>,
    used: FxHashSet<String>,
    /// The graph at other sizes.
    other: Option<&'a Graph>,
    free: &'a [Free],
    /// Which node is being written.
    pub at: usize,
}

impl<'a> Emitter<'a> {
    pub fn new(other: Option<&'a Graph>, free: &'a [Free]) -> Emitter<'a> {
        Emitter {
            nodes: Vec::new(),
            constants: Vec::new(),
            names: FxHashMap::default(),
            used: FxHashSet::default(),
            other,
            free,
            at: 0,
        }
    }
    /// Collects the nodes of a graph inside of this one, given also at other sizes. It sees the names outside, so its own
    /// differ from them; `leave` takes them over.
    pub fn enter<'b>(&mut self, other: Option<&'b Graph>) -> Emitter<'b>
    where
        'a: 'b,
    {
        Emitter { used: std::mem::take(&mut self.used), ..Emitter::new(other, self.free) }
    }
    /// Ends a graph inside of this one.
    pub fn leave(&mut self, inner: &mut Emitter<'_>) {
        self.used = std::mem::take(&mut inner.used);
    }
    /// A name that no other value has.
    pub fn unique(&mut self, base: &str) -> String {
        let mut name = base.to_string();
        let mut k = 1;
        while !self.used.insert(name.clone()) {
            k += 1;
            name = format!("{base}.{k}");
        }
        name
    }
    /// The name of a value.
    pub fn name(&self, s: Slot) -> Result<String> {
        self.names.get(&key(s)).cloned().ok_or_else(|| Error::bug("a value without a name"))
    }
    /// Names a value.
    pub fn bind(&mut self, s: Slot, name: String) {
        self.names.insert(key(s), name);
    }

    /// Writes all nodes of a graph whose inputs have these names.
    pub fn graph(&mut self, graph: &Graph, inputs: &[String]) -> Result<()> {
        for (&node, name) in graph.inputs.iter().zip(inputs) {
            self.used.insert(name.clone());
            self.bind(Slot::new(node as usize, 0), name.clone());
        }
        for i in 0..graph.nodes.len() {
            self.at = i;
            rows::emit(self, graph, i)?;
        }
        Ok(())
    }

    /// A node with one result.
    pub fn node(&mut self, op: &str, inputs: &[&str], attributes: &[(&str, A<'_>)]) -> String {
        let out = self.unique(&format!("{}_{}", op.to_lowercase(), self.nodes.len()));
        self.node_to(op, inputs, &[&out], attributes);
        out
    }
    /// A node with these results.
    pub fn node_to(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, A<'_>)]) {
        let mut w = Writer::default();
        inputs.iter().for_each(|i| w.bytes(1, i.as_bytes()));
        outputs.iter().for_each(|o| w.bytes(2, o.as_bytes()));
        w.bytes(3, format!("{op}_{}", self.nodes.len()).as_bytes());
        w.bytes(4, op.as_bytes());
        for (name, a) in attributes {
            w.message(5, |w| {
                w.bytes(1, name.as_bytes());
                match a {
                    A::Int(v) => (w.int(3, *v), w.int(20, 2)).1,
                    A::Float(v) => (w.float(2, *v as f32), w.int(20, 1)).1,
                    A::Text(v) => (w.bytes(4, v.as_bytes()), w.int(20, 3)).1,
                    A::Ints(v) => (v.iter().for_each(|&v| w.int(8, v)), w.int(20, 7)).1,
                    A::Graph(v) => (w.bytes(6, v), w.int(20, 5)).1,
                }
            });
        }
        self.nodes.push(w.0);
    }
    /// A constant.
    pub fn constant(&mut self, value: Literal) -> String {
        let name = self.unique(&format!("constant_{}", self.constants.len()));
        self.constants.push((name.clone(), value));
        name
    }
    /// Constant integers.
    pub fn ints(&mut self, values: &[i64]) -> String {
        self.constant(Literal::from_i64(DType::I64, [values.len()], values))
    }
    /// A constant scalar.
    pub fn number(&mut self, dtype: DType, x: f64) -> String {
        self.constant(Literal::scalar_f64(dtype, x))
    }
    /// A value as another type.
    pub fn cast(&mut self, x: &str, to: DType) -> String {
        self.node("Cast", &[x], &[("to", A::Int(elem(to)))])
    }

    /// The sizes that the node has in the other trace.
    pub fn other_ints(&self, name: &str) -> Option<Vec<i64>> {
        self.other.and_then(|g| g.nodes[self.at].attrs.ints(name).ok().map(<[i64]>::to_vec))
    }
    /// The same for one size.
    pub fn other_int(&self, name: &str) -> Option<i64> {
        self.other.and_then(|g| g.nodes[self.at].attrs.int(name).ok())
    }
    /// The graph at other sizes, where it is that of the node being written.
    pub fn other_graph(&self) -> Option<&'a Graph> {
        self.other
    }
    /// The name of the free size that an axis of a value has.
    pub fn free_name(&self, s: Slot, axis: usize) -> String {
        let Some(other) = self.other else { return String::new() };
        let there = other.ty(s).shape[axis];
        self.free.iter().find(|f| f.other == there && f.other != f.size).map_or(String::new(), |f| f.name.clone())
    }
    /// One size as a list of one, computed if it is free.
    pub fn size(&mut self, here: i64, there: i64) -> Result<String> {
        if here == there {
            return Ok(self.ints(&[here]));
        }
        for f in self.free {
            let (a, b) = (f.size as i64, f.other as i64);
            let factor = if a > 0 { here / a } else { 0 };
            if factor > 0 && factor * a == here && factor * b == there {
                let shape = self.node("Shape", &[&f.input.clone()], &[]);
                let at = self.ints(&[f.axis as i64]);
                let size = self.node("Gather", &[&shape, &at], &[]);
                if factor == 1 {
                    return Ok(size);
                }
                let times = self.ints(&[factor]);
                return Ok(self.node("Mul", &[&size, &times], &[]));
            }
        }
        let e = format!("a size is {here} and {there} at two input sizes: export the model with fixed sizes");
        Err(Error::value(e).in_op("onnx"))
    }
    /// Sizes as a list, computed where they are free. With `may_infer`, a single free one is left to the operator.
    pub fn sizes(&mut self, here: &[i64], there: Option<&[i64]>, may_infer: bool) -> Result<String> {
        let there = there.unwrap_or(here);
        let differ: Vec<usize> = (0..here.len()).filter(|&i| here[i] != there[i]).collect();
        if differ.is_empty() {
            return Ok(self.ints(here));
        }
        if may_infer && differ.len() == 1 && !here.contains(&0) {
            let mut list = here.to_vec();
            list[differ[0]] = -1;
            return Ok(self.ints(&list));
        }
        let parts = here.iter().zip(there).map(|(&a, &b)| self.size(a, b)).collect::<Result<Vec<_>>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(self.node("Concat", &parts, &[("axis", A::Int(0))]))
    }
}
