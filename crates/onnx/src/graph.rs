//! A model ready to run: rows found, functions resolved, nodes in order, tensors decoded. Whatever is not supported is
//! found here, all at once, before anything runs.

use crate::element::Elem;
use crate::ops::{self, Row};
use crate::proto::{
    AttributeProto, AttributeValue, Decoder, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfo,
};
use crate::source::Source;
use crate::value::Value;
use ir::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The newest operator set that is understood.
pub const OPSET_MAX: i64 = 28;
/// Functions that call each other, at most.
const CALLS_MAX: usize = 32;

/// A value that goes in or comes out.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its declared type.
    pub ty: TypeProto,
}

/// A graph in the order of its data.
#[derive(Default)]
pub struct Graph {
    pub name: String,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub initializers: Vec<(String, Value)>,
    pub nodes: Vec<Node>,
}

/// A node with what computes it.
pub struct Node {
    pub name: String,
    pub op: String,
    pub domain: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub attributes: FxHashMap<String, Attribute>,
    pub action: Action,
    /// The version of its operator set.
    pub version: i64,
    /// Values that no later node of the graph needs.
    pub last_uses: Vec<String>,
}

/// What computes a node.
pub enum Action {
    Row(&'static Row),
    Function(Arc<Function>),
}

/// A function of the model's own.
pub struct Function {
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub defaults: FxHashMap<String, Attribute>,
    pub nodes: Vec<Node>,
}

/// An attribute.
#[derive(Clone)]
pub enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Value(Value),
    Graph(Arc<Graph>),
    #[allow(dead_code, reason = "no operator reads its type attribute: values know theirs")]
    Type(TypeProto),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
    /// That attribute of the function around it.
    Of(String),
}

impl Node {
    /// How messages call it.
    pub fn title(&self) -> String {
        let op = if self.domain.is_empty() { self.op.clone() } else { format!("{}.{}", self.domain, self.op) };
        let name = if self.name.is_empty() { self.outputs.first().map_or("", String::as_str) } else { &self.name };
        format!("node {name:?} ({op})")
    }
}

/// Builds the graphs of one model.
pub struct Builder<'a> {
    source: &'a Source,
    functions: FxHashMap<(String, String, String), FunctionProto>,
    built: FxHashMap<(String, String, String), Arc<Function>>,
    /// Functions that are being built.
    calls: Vec<(String, String, String)>,
    memory_limit: u64,
    unsupported: Vec<String>,
}

type Opsets = FxHashMap<String, i64>;

fn opsets(list: &[(String, i64)]) -> Opsets {
    let name = |d: &String| if d == "ai.onnx" { String::new() } else { d.clone() };
    list.iter().map(|(d, v)| (name(d), *v)).collect()
}

/// Reads a model and prepares its graph.
pub fn build(source: &Source, memory_limit: u64) -> Result<(ModelProto, Graph)> {
    let mut proto = Decoder::new(source.bytes()).model(source.bytes())?;
    let graph = proto.graph.take().ok_or_else(|| Error::format("not an ONNX model: there is no graph"))?;
    let sets = opsets(&proto.opsets);
    let is_named = !proto.opsets.is_empty() || proto.ir_version < 3;
    if !is_named {
        return Err(Error::format("the model imports no operator set"));
    }
    if let Some(v) = sets.get("").filter(|&&v| v > OPSET_MAX) {
        return Err(Error::value(format!("the model uses operator set {v}; {OPSET_MAX} is the newest understood")));
    }
    let key = |f: &FunctionProto| (f.domain.clone(), f.name.clone(), f.overload.clone());
    let functions = std::mem::take(&mut proto.functions);
    let mut b = Builder {
        source,
        functions: functions.into_iter().map(|f| (key(&f), f)).collect(),
        built: FxHashMap::default(),
        calls: Vec::new(),
        memory_limit,
        unsupported: Vec::new(),
    };
    let graph = b.graph(graph, &sets)?;
    if b.unsupported.is_empty() {
        return Ok((proto, graph));
    }
    b.unsupported.sort();
    b.unsupported.dedup();
    let (n, list) = (b.unsupported.len(), b.unsupported.join("\n  "));
    Err(Error::value(format!("{n} of the model's nodes are not supported:\n  {list}")).in_op("onnx"))
}

impl Builder<'_> {
    fn graph(&mut self, g: GraphProto, sets: &Opsets) -> Result<Graph> {
        let mut initializers = Vec::with_capacity(g.initializers.len());
        for t in &g.initializers {
            initializers.push((t.name.clone(), self.source.value(t)?));
        }
        for s in &g.sparse {
            initializers.push(self.source.dense(s, self.memory_limit)?);
        }
        let known: FxHashSet<&str> = initializers.iter().map(|(n, _)| n.as_str()).collect();
        let port = |v: ValueInfo| Port { name: v.name, ty: v.ty };
        // Before IR 4 initializers were inputs too.
        let inputs: Vec<Port> = g.inputs.into_iter().filter(|i| !known.contains(i.name.as_str())).map(port).collect();
        let mut nodes = self.nodes(g.nodes, sets)?;
        let outputs: Vec<Port> = g.outputs.into_iter().map(port).collect();
        find_last_uses(&mut nodes, outputs.iter().map(|o| o.name.as_str()));
        Ok(Graph { name: g.name, inputs, outputs, initializers, nodes })
    }

    fn nodes(&mut self, list: Vec<NodeProto>, sets: &Opsets) -> Result<Vec<Node>> {
        let mut nodes = Vec::with_capacity(list.len());
        for n in list {
            if let Some(n) = self.node(n, sets)? {
                nodes.push(n);
            }
        }
        sorted(nodes)
    }

    fn node(&mut self, n: NodeProto, sets: &Opsets) -> Result<Option<Node>> {
        let version = sets.get(&n.domain).copied().unwrap_or(1);
        let mut attributes = FxHashMap::default();
        for a in n.attributes {
            let (name, value) = self.attribute(a, sets)?;
            if let Some(v) = value {
                attributes.insert(name, v);
            }
        }
        let key = (n.domain.clone(), n.op.clone(), n.overload.clone());
        let action = match ops::find(&n.domain, &n.op, version) {
            _ if self.functions.contains_key(&key) => Some(Action::Function(self.function(&key)?)),
            Some(row) => Some(Action::Row(row)),
            None => None,
        };
        let mut node = Node {
            name: n.name,
            op: n.op,
            domain: n.domain,
            inputs: n.inputs,
            outputs: n.outputs,
            attributes,
            action: Action::Row(&ops::NONE),
            version,
            last_uses: Vec::new(),
        };
        match action {
            Some(a) => node.action = a,
            None => {
                self.unsupported.push(format!("{} of operator set {version}", node.title()));
                return Ok(None);
            }
        }
        Ok(Some(node))
    }

    fn function(&mut self, key: &(String, String, String)) -> Result<Arc<Function>> {
        if let Some(f) = self.built.get(key) {
            return Ok(f.clone());
        }
        if self.calls.len() >= CALLS_MAX || self.calls.contains(key) {
            return Err(Error::format(format!("function {:?} calls itself, or calls are nested too deeply", key.1)));
        }
        let f = self.functions.get_mut(key).ok_or_else(|| Error::bug("a function was lost"))?;
        let f = std::mem::take(f);
        self.calls.push(key.clone());
        let sets = opsets(&f.opsets);
        let mut defaults = FxHashMap::default();
        for a in f.defaults {
            let (name, value) = self.attribute(a, &sets)?;
            if let Some(v) = value {
                defaults.insert(name, v);
            }
        }
        let mut nodes = self.nodes(f.nodes, &sets)?;
        find_last_uses(&mut nodes, f.outputs.iter().map(String::as_str));
        self.calls.pop();
        let f = Arc::new(Function { inputs: f.inputs, outputs: f.outputs, defaults, nodes });
        self.built.insert(key.clone(), f.clone());
        Ok(f)
    }

    fn attribute(&mut self, a: AttributeProto, sets: &Opsets) -> Result<(String, Option<Attribute>)> {
        use AttributeValue as V;
        let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
        if !a.reference.is_empty() {
            return Ok((a.name, Some(Attribute::Of(a.reference))));
        }
        let value = match a.value {
            V::None => None,
            V::Float(x) => Some(Attribute::Float(x)),
            V::Int(x) => Some(Attribute::Int(x)),
            V::Bytes(b) => Some(Attribute::Text(text(b))),
            V::Tensor(t) => Some(Attribute::Value(self.source.value(&t)?)),
            V::Sparse(s) => Some(Attribute::Value(self.source.dense(&s, self.memory_limit)?.1)),
            V::Graph(g) => Some(Attribute::Graph(Arc::new(self.graph(g, sets)?))),
            V::Type(t) => Some(Attribute::Type(t)),
            V::Floats(x) => Some(Attribute::Floats(x)),
            V::Ints(x) => Some(Attribute::Ints(x)),
            V::Strings(x) => Some(Attribute::Texts(x.into_iter().map(text).collect())),
            V::Tensors(_) => {
                return Err(Error::format(format!("attribute {:?}: lists of tensors are not read", a.name)));
            }
        };
        Ok((a.name, value))
    }
}

/// Names that the graphs in a node's attributes may take from outside.
fn free_names(node: &Node, out: &mut FxHashSet<String>) {
    for a in node.attributes.values() {
        if let Attribute::Graph(g) = a {
            for n in &g.nodes {
                out.extend(n.inputs.iter().cloned());
                free_names(n, out);
            }
            out.extend(g.outputs.iter().map(|o| o.name.clone()));
        }
    }
}

/// Says after which node a value is not needed any more.
fn find_last_uses<'a>(nodes: &mut [Node], kept: impl Iterator<Item = &'a str>) {
    let mut seen: FxHashSet<String> = kept.map(str::to_string).collect();
    for i in (0..nodes.len()).rev() {
        let mut used: FxHashSet<String> = nodes[i].inputs.iter().chain(&nodes[i].outputs).cloned().collect();
        free_names(&nodes[i], &mut used);
        let last = used.into_iter().filter(|n| !n.is_empty() && seen.insert(n.clone()));
        nodes[i].last_uses = last.collect();
    }
}

/// Nodes after those they depend on; the order of the file where it is free.
fn sorted(nodes: Vec<Node>) -> Result<Vec<Node>> {
    let mut maker: FxHashMap<&str, usize> = FxHashMap::default();
    for (i, n) in nodes.iter().enumerate() {
        for o in n.outputs.iter().filter(|o| !o.is_empty()) {
            if maker.insert(o, i).is_some() {
                return Err(Error::format(format!("two nodes make {o:?}")));
            }
        }
    }
    let mut waits = vec![0usize; nodes.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (i, n) in nodes.iter().enumerate() {
        let mut needs: FxHashSet<String> = n.inputs.iter().cloned().collect();
        free_names(n, &mut needs);
        for name in &needs {
            if let Some(&m) = maker.get(name.as_str())
                && m != i
            {
                waits[i] += 1;
                users[m].push(i);
            }
        }
    }
    let mut ready: std::collections::BTreeSet<usize> = (0..nodes.len()).filter(|&i| waits[i] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(i) = ready.pop_first() {
        order.push(i);
        for &u in &users[i] {
            waits[u] -= 1;
            if waits[u] == 0 {
                ready.insert(u);
            }
        }
    }
    if order.len() != nodes.len() {
        let stuck = nodes.iter().enumerate().find(|(i, _)| waits[*i] > 0).map_or(String::new(), |(_, n)| n.title());
        return Err(Error::format(format!("{stuck} depends on its own result")));
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|i| nodes[i].take()).collect())
}

/// A declared type in words.
pub fn describe(ty: &TypeProto) -> String {
    match ty {
        TypeProto::Tensor { elem, shape } => {
            let dims = shape.as_ref().map_or("...".to_string(), |s| {
                let dim = |d: &crate::proto::Dim| match d {
                    crate::proto::Dim::Any => "?".to_string(),
                    crate::proto::Dim::Fixed(n) => n.to_string(),
                    crate::proto::Dim::Named(n) => n.clone(),
                };
                s.iter().map(dim).collect::<Vec<_>>().join(", ")
            });
            format!("{}[{dims}]", Elem(*elem).name())
        }
        TypeProto::Sequence(t) => format!("sequence of {}", describe(t)),
        TypeProto::Optional(t) => format!("optional {}", describe(t)),
        TypeProto::Unknown | TypeProto::Other => "unknown".into(),
    }
}
