//! Runs a graph node by node. Each node is tensor code: called with placeholders this traces the graph for one set of
//! sizes, called with values it computes. Values that are known on the host become attributes on the way.

use crate::element::Elem;
use crate::graph::{Action, Attribute, Graph, Node};
use crate::ops;
use crate::value::{Item, Value};
use ir::{DType, Error, Literal, Result, Shape};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::sync::Arc;
use tensor::Tensor;

/// Nodes run at most, those of loops each time.
const STEPS_MAX: u64 = 20_000_000;
/// Graphs and functions within each other at most.
const DEPTH_MAX: usize = 64;

/// One run of a model.
pub struct Run {
    /// Bytes of one value at most.
    pub memory_limit: u64,
    /// A node needed the value of something that is only known when the program runs.
    pub needs_value: Cell<bool>,
    steps: Cell<u64>,
}

impl Run {
    /// A run whose values have at most this many bytes.
    pub fn new(memory_limit: u64) -> Run {
        Run { memory_limit, needs_value: Cell::new(false), steps: Cell::new(0) }
    }
    /// Fails if a value of so many elements would be too large.
    pub fn check_count(&self, count: usize, dtype: DType) -> Result<()> {
        let bytes = (count as u64).saturating_mul(dtype.size() as u64);
        if bytes <= self.memory_limit {
            return Ok(());
        }
        let e = format!("a result has {bytes} bytes; the memory limit is {}", self.memory_limit);
        Err(Error::value(e))
    }
}

/// Names and their values.
pub struct Scope<'a> {
    pub values: FxHashMap<String, Value>,
    outer: Option<&'a Scope<'a>>,
    /// Attributes of the function around.
    attributes: Option<&'a FxHashMap<String, Attribute>>,
    run: &'a Run,
    depth: usize,
}

impl<'a> Scope<'a> {
    /// The outermost scope.
    pub fn new(run: &'a Run, values: FxHashMap<String, Value>) -> Scope<'a> {
        Scope { values, outer: None, attributes: None, run, depth: 0 }
    }
    fn inside(outer: &'a Scope<'a>) -> Result<Scope<'a>> {
        if outer.depth >= DEPTH_MAX {
            return Err(Error::value(format!("graphs and functions are nested deeper than {DEPTH_MAX}")));
        }
        Ok(Scope {
            values: FxHashMap::default(),
            outer: Some(outer),
            attributes: outer.attributes,
            run: outer.run,
            depth: outer.depth + 1,
        })
    }
    fn find(&self, name: &str) -> Option<&Value> {
        self.values.get(name).or_else(|| self.outer?.find(name))
    }
    fn get(&self, name: &str) -> Result<Value> {
        if name.is_empty() {
            return Ok(Value::Missing);
        }
        self.find(name).cloned().ok_or_else(|| Error::format(format!("there is no value {name:?}")))
    }
    /// Everything that is alive and not computed yet, with the scopes around.
    fn pending<'b>(&'b self, out: &mut Vec<&'b Tensor>) {
        for v in self.values.values() {
            v.tensors(out);
        }
        if let Some(o) = self.outer {
            o.pending(out);
        }
        out.retain(|t| t.value().is_ok_and(|v| v.buffer().is_none() && !v.node().is_symbolic()));
    }

    /// Runs a graph whose inputs have these values.
    pub fn graph(&self, graph: &Graph, inputs: Vec<Value>) -> Result<Vec<Value>> {
        let mut inner = Scope::inside(self)?;
        if inputs.len() != graph.inputs.len() {
            let e = format!("graph {:?} has {} inputs, not {}", graph.name, graph.inputs.len(), inputs.len());
            return Err(Error::format(e));
        }
        inner.values.extend(graph.initializers.iter().cloned());
        inner.values.extend(graph.inputs.iter().map(|p| p.name.clone()).zip(inputs));
        inner.nodes(&graph.nodes)?;
        graph.outputs.iter().map(|o| inner.get(&o.name)).collect()
    }

    /// Runs nodes.
    pub fn nodes(&mut self, nodes: &[Node]) -> Result<()> {
        for node in nodes {
            self.node(node).map_err(|e| {
                if e.message.starts_with("node \"") {
                    return e;
                }
                let op = e.op.as_ref().map_or(String::new(), |op| format!("{op}: "));
                Error { message: format!("{}: {op}{}", node.title(), e.message), op: None, ..e }
            })?;
        }
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let steps = self.run.steps.get() + 1;
        self.run.steps.set(steps);
        if steps > STEPS_MAX {
            return Err(Error::value(format!("more than {STEPS_MAX} nodes were run")));
        }
        let inputs = node.inputs.iter().map(|n| self.get(n)).collect::<Result<Vec<_>>>()?;
        let outs = match &node.action {
            Action::Row(row) => {
                let call = Call { node, inputs, scope: self };
                let mut outs = (row.run)(&call)?;
                if row.moves {
                    call.keep_type(&mut outs);
                    ops::keep_steps(row, &call, &mut outs)?;
                }
                ops::keep_marks(row, &call, &mut outs);
                outs
            }
            Action::Function(f) => {
                let mut attributes = f.defaults.clone();
                for (name, a) in &node.attributes {
                    if let Some(a) = self.resolved(a) {
                        attributes.insert(name.clone(), a.clone());
                    }
                }
                let mut inner = Scope::inside(self)?;
                (inner.outer, inner.attributes) = (None, Some(&attributes));
                let missing = std::iter::repeat(Value::Missing);
                inner.values.extend(f.inputs.iter().cloned().zip(inputs.into_iter().chain(missing)));
                inner.nodes(&f.nodes)?;
                f.outputs.iter().map(|o| inner.get(o)).collect::<Result<Vec<_>>>()?
            }
        };
        for (name, value) in node.outputs.iter().zip(outs) {
            if let Value::Tensor(t) = &value {
                t.tensor.value()?;
            }
            if value.bytes() > self.run.memory_limit {
                let e = format!("{} is larger than the memory limit of {}", value.describe(), self.run.memory_limit);
                return Err(Error::value(e));
            }
            if !name.is_empty() {
                self.values.insert(name.clone(), value);
            }
        }
        if let Some(name) = node.outputs.iter().find(|n| !n.is_empty() && !self.values.contains_key(*n)) {
            return Err(Error::value(format!("the result {name:?} is not computed")));
        }
        node.last_uses.iter().for_each(|n| drop(self.values.remove(n)));
        Ok(())
    }

    fn resolved<'b>(&'b self, a: &'b Attribute) -> Option<&'b Attribute> {
        match a {
            Attribute::Of(name) => self.attributes?.get(name),
            a => Some(a),
        }
    }
}

/// A node with the values of its inputs.
pub struct Call<'a> {
    pub node: &'a Node,
    pub inputs: Vec<Value>,
    pub scope: &'a Scope<'a>,
}

impl Call<'_> {
    /// The version of its operator set.
    pub fn version(&self) -> i64 {
        self.node.version
    }
    /// How many results are wanted.
    pub fn outs(&self) -> usize {
        self.node.outputs.len()
    }
    /// Whether a result is wanted.
    pub fn wants(&self, out: usize) -> bool {
        self.node.outputs.get(out).is_some_and(|n| !n.is_empty())
    }
    /// An input; `Missing` beyond the last.
    pub fn value(&self, i: usize) -> &Value {
        self.inputs.get(i).unwrap_or(&Value::Missing)
    }
    /// Whether an input is given.
    pub fn has(&self, i: usize) -> bool {
        !self.value(i).is_missing()
    }
    /// An input that must be a tensor.
    pub fn item(&self, i: usize) -> Result<&Item> {
        match self.value(i) {
            Value::Tensor(t) => Ok(t),
            Value::Optional(Some(v)) => match &**v {
                Value::Tensor(t) => Ok(t),
                v => Err(Error::dtype(format!("input {i} must be a tensor, not {}", v.describe()))),
            },
            v => Err(Error::dtype(format!("input {i} must be a tensor, not {}", v.describe()))),
        }
    }
    /// An input as a tensor.
    pub fn x(&self, i: usize) -> Result<Tensor> {
        Ok(self.item(i)?.tensor.clone())
    }
    /// An input as a tensor, if it is given.
    pub fn opt(&self, i: usize) -> Result<Option<Tensor>> {
        if self.has(i) { self.x(i).map(Some) } else { Ok(None) }
    }
    /// The type of an input's elements.
    pub fn elem(&self, i: usize) -> Result<Elem> {
        Ok(self.item(i)?.elem)
    }
    /// The shape of an input.
    pub fn shape(&self, i: usize) -> Result<Shape> {
        match self.value(i) {
            Value::Strings(s, _) => Ok(s.clone()),
            _ => self.item(i)?.tensor.shape(),
        }
    }
    /// An input's values.
    pub fn host(&self, i: usize) -> Result<Literal> {
        let item = self.item(i)?;
        if let Some(l) = &item.host {
            return Ok(l.clone());
        }
        let name = self.node.inputs.get(i).map_or("", String::as_str);
        self.read(&item.tensor, name)
    }
    /// The values of a tensor.
    pub fn read(&self, t: &Tensor, name: &str) -> Result<Literal> {
        let v = t.value()?;
        if v.node().is_symbolic() {
            self.scope.run.needs_value.set(true);
            let e = format!(
                "sizes or control flow depend on the values of {name:?}, which are not known while a graph is traced; \
                 call the model outside of jit"
            );
            return Err(Error::value(e));
        }
        if v.buffer().is_none() {
            let mut all = vec![t];
            self.scope.pending(&mut all);
            Tensor::eval_all(&all)?;
        }
        t.literal()
    }
    /// Whether the values of a tensor can be read now.
    pub fn is_known(t: &Tensor) -> bool {
        t.value().is_ok_and(|v| !v.node().is_symbolic())
    }
    /// This call needs values that a trace does not have.
    pub fn needs_value(&self, why: &str) -> Error {
        self.scope.run.needs_value.set(true);
        Error::value(format!("{why}; call the model outside of jit"))
    }
    /// An input's values as integers.
    pub fn ints(&self, i: usize) -> Result<Vec<i64>> {
        Ok(self.host(i)?.to_i64())
    }
    /// An input's values as floats.
    pub fn floats(&self, i: usize) -> Result<Vec<f64>> {
        Ok(self.host(i)?.to_f64())
    }
    /// An input's only value.
    pub fn scalar(&self, i: usize) -> Result<f64> {
        match &*self.floats(i)? {
            [x] => Ok(*x),
            v => Err(Error::shape(format!("input {i} must have one element, not {}", v.len()))),
        }
    }
    /// An input's strings.
    pub fn strings(&self, i: usize) -> Result<(&Shape, &[String])> {
        match self.value(i) {
            Value::Strings(s, v) => Ok((s, v)),
            v => Err(Error::dtype(format!("input {i} must be strings, not {}", v.describe()))),
        }
    }
    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.scope.resolved(self.node.attributes.get(name)?)
    }
    /// An integer attribute.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Int(v)) => *v,
            _ => default,
        }
    }
    /// A flag.
    pub fn flag(&self, name: &str) -> bool {
        self.int(name, 0) != 0
    }
    /// A float attribute.
    pub fn float(&self, name: &str, default: f64) -> f64 {
        match self.attribute(name) {
            Some(Attribute::Float(v)) => f64::from(*v),
            _ => default,
        }
    }
    /// A float attribute that may be left out.
    pub fn maybe_float(&self, name: &str) -> Option<f64> {
        match self.attribute(name) {
            Some(Attribute::Float(v)) => Some(f64::from(*v)),
            _ => None,
        }
    }
    /// A text attribute.
    pub fn text<'b>(&'b self, name: &str, default: &'b str) -> &'b str {
        match self.attribute(name) {
            Some(Attribute::Text(v)) => v,
            _ => default,
        }
    }
    /// A list of integers.
    pub fn list(&self, name: &str) -> Option<Vec<i64>> {
        match self.attribute(name) {
            Some(Attribute::Ints(v)) => Some(v.clone()),
            _ => None,
        }
    }
    /// A list of floats.
    pub fn float_list(&self, name: &str) -> Option<Vec<f32>> {
        match self.attribute(name) {
            Some(Attribute::Floats(v)) => Some(v.clone()),
            _ => None,
        }
    }
    /// A list of texts.
    pub fn texts(&self, name: &str) -> Option<&[String]> {
        match self.attribute(name) {
            Some(Attribute::Texts(v)) => Some(v),
            _ => None,
        }
    }
    /// A graph.
    pub fn graph(&self, name: &str) -> Result<Arc<Graph>> {
        match self.attribute(name) {
            Some(Attribute::Graph(g)) => Ok(g.clone()),
            _ => Err(Error::format(format!("there is no graph {name:?}"))),
        }
    }
    /// What was an attribute once and is an input now.
    pub fn list_or_input(&self, name: &str, input: usize) -> Result<Option<Vec<i64>>> {
        if self.has(input) { self.ints(input).map(Some) } else { Ok(self.list(name)) }
    }
    /// A list of sizes, one for each of `rank` dimensions.
    pub fn sizes(&self, name: &str, rank: usize, default: usize) -> Result<Vec<usize>> {
        let Some(list) = self.list(name) else { return Ok(vec![default; rank]) };
        let size = |&v: &i64| usize::try_from(v).map_err(|_| Error::value(format!("{name} has {v}")));
        if list.len() != rank {
            return Err(Error::value(format!("{name} has {} numbers for {rank} dimensions", list.len())));
        }
        list.iter().map(size).collect()
    }
    /// The axis in an attribute, counted from the front.
    pub fn axis(&self, default: i64, rank: usize) -> Result<usize> {
        tensor::axis(self.int("axis", default), rank)
    }
    /// Fails if a result of so many elements would be too large.
    pub fn check_count(&self, count: usize, dtype: DType) -> Result<()> {
        self.scope.run.check_count(count, dtype)
    }
    /// The type in an attribute.
    pub fn elem_attribute(&self, name: &str, default: Elem) -> Result<Elem> {
        match self.int(name, 0) {
            0 => Ok(default),
            n => Elem::known(n),
        }
    }
    /// Results of ops that move elements have the type of the first input.
    fn keep_type(&self, outs: &mut [Value]) {
        let Ok(first) = self.item(0) else { return };
        if !first.elem.is_small() {
            return;
        }
        for v in outs {
            if let Value::Tensor(t) = v
                && Some(t.elem) == first.elem.storage().map(Elem::of)
            {
                t.elem = first.elem;
            }
        }
    }
}
