//! A model that was read: what it takes, its weights, and how it runs.

use crate::element::Elem;
use crate::graph::{self, Graph, describe};
use crate::ops;
use crate::proto::{Dim, TypeProto};
use crate::run::{Run, Scope};
use crate::source::Source;
use crate::value::{Item, Value, read_value};
use ir::{Error, Result, Type};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tensor::{Tensor, Traces, Variable};

pub use crate::graph::Port;

/// How a model is read and run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Bytes of one value at most. By default 1 GiB, or four times the file and 64 times the inputs if that is more.
    pub memory_limit: Option<u64>,
}

/// The least memory limit that is the default.
const MEMORY_LIMIT_MIN: u64 = 1 << 30;

/// An ONNX model.
pub struct Model {
    graph: Graph,
    /// The name of the graph, the program that wrote the file, and its operator sets.
    producer: String,
    opsets: Vec<(String, i64)>,
    weights: Vec<(String, Variable)>,
    traces: Traces<()>,
    /// Sizes depend on values: the model runs node by node.
    is_eager: AtomicBool,
    /// The weights that the traces were made with.
    seen: Mutex<Vec<u64>>,
    file_bytes: u64,
    options: Options,
}

impl Model {
    /// Reads a file. External data must lie in its folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Model::open_with(path, Options::default())
    }
    /// Reads a file.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Model> {
        let path = path.as_ref();
        let named = |e: Error| Error { message: format!("{}: {}", path.display(), e.message), ..e };
        Source::open(path).and_then(|s| Model::read(&s, options)).map_err(named)
    }
    /// Reads a model in memory. It can have no external data.
    pub fn from_bytes(bytes: Vec<u8>, options: Options) -> Result<Model> {
        Model::read(&Source::of(bytes, None), options)
    }

    fn read(source: &Source, options: Options) -> Result<Model> {
        let file_bytes = source.bytes().len() as u64;
        let limit = options.memory_limit.unwrap_or(MEMORY_LIMIT_MIN.max(4 * file_bytes));
        let (proto, mut graph) = graph::build(source, limit)?;
        let scales: FxHashSet<String> = graph.nodes.iter().flat_map(ops::scales).cloned().collect();
        let mut weights = Vec::new();
        for (name, value) in &mut graph.initializers {
            // Numbers that are trained; the others are sizes, indices, quantized weights and their scales.
            if let Value::Tensor(Item { tensor, elem, host: Some(l), .. }) = value
                && !scales.contains(name)
                && l.dtype().is_float()
                && !elem.is_small()
                && l.count() > 1
            {
                let var = Variable::new(name, ir::Value::data(l.clone(), false, ir::Site::here()))?;
                *tensor = var.tensor();
                weights.push((name.clone(), var));
            }
        }
        Ok(Model {
            graph,
            producer: proto.producer,
            opsets: proto.opsets,
            weights,
            traces: Traces::frozen(),
            is_eager: AtomicBool::new(false),
            seen: Mutex::default(),
            file_bytes,
            options,
        })
    }

    /// The name of the graph.
    pub fn name(&self) -> &str {
        &self.graph.name
    }
    /// The program that wrote the file.
    pub fn producer(&self) -> &str {
        &self.producer
    }
    /// The operator sets that it uses, with their versions.
    pub fn opsets(&self) -> &[(String, i64)] {
        &self.opsets
    }
    /// What it takes.
    pub fn inputs(&self) -> &[Port] {
        &self.graph.inputs
    }
    /// What it returns.
    pub fn outputs(&self) -> &[Port] {
        &self.graph.outputs
    }
    /// Its weights, by name.
    pub fn weights(&self) -> &[(String, Variable)] {
        &self.weights
    }
    /// Operators with how often they occur, functions and subgraphs counted once.
    pub fn operators(&self) -> Vec<(String, usize)> {
        fn count(nodes: &[graph::Node], out: &mut std::collections::BTreeMap<String, usize>) {
            for n in nodes {
                let name = if n.domain.is_empty() { n.op.clone() } else { format!("{}.{}", n.domain, n.op) };
                *out.entry(name).or_default() += 1;
                for a in n.attributes.values() {
                    if let graph::Attribute::Graph(g) = a {
                        count(&g.nodes, out);
                    }
                }
            }
        }
        let mut out = Default::default();
        count(&self.graph.nodes, &mut out);
        let mut out: Vec<_> = out.into_iter().collect();
        out.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        out
    }

    fn memory_limit(&self, inputs: &[Value]) -> u64 {
        let inputs = inputs.iter().map(Value::bytes).fold(0u64, u64::saturating_add);
        let default = MEMORY_LIMIT_MIN.max(4 * self.file_bytes + inputs.saturating_mul(64));
        self.options.memory_limit.unwrap_or(default)
    }

    /// Values must have the declared types, and sizes of one name must agree.
    fn check(&self, inputs: &[Value]) -> Result<()> {
        if inputs.len() != self.graph.inputs.len() {
            let names: Vec<&str> = self.graph.inputs.iter().map(|p| p.name.as_str()).collect();
            let e = format!("the model takes {} inputs {names:?}, but {} were given", names.len(), inputs.len());
            return Err(Error::value(e));
        }
        let mut named: FxHashMap<&str, (usize, &str)> = FxHashMap::default();
        for (port, value) in self.graph.inputs.iter().zip(inputs) {
            check_type(port, value, &mut named)?;
        }
        Ok(())
    }

    /// The model as tensor code: part of the caller's graph, differentiable, and traceable in a `jit`.
    pub fn call(&self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.check(inputs)?;
        self.interpret(inputs.to_vec(), &Run::new(self.memory_limit(inputs)))
    }

    /// [`Model::call`] of tensors.
    pub fn forward(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let inputs: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
        tensors(self.call(&inputs)?)
    }

    fn interpret(&self, inputs: Vec<Value>, run: &Run) -> Result<Vec<Value>> {
        let mut values: FxHashMap<String, Value> = FxHashMap::default();
        values.extend(self.graph.initializers.iter().cloned());
        for (name, var) in &self.weights {
            // A read of its own: the weight may have been assigned.
            if let Some(Value::Tensor(t)) = values.get_mut(name) {
                t.tensor = var.tensor();
            }
        }
        values.extend(self.graph.inputs.iter().map(|p| p.name.clone()).zip(inputs));
        let mut scope = Scope::new(run, values);
        scope.nodes(&self.graph.nodes)?;
        let get = |p: &Port| {
            let missing = || Error::format(format!("no node makes the output {:?}", p.name));
            scope.values.get(&p.name).cloned().ok_or_else(missing)
        };
        self.graph.outputs.iter().map(get).collect()
    }

    /// Runs the model: compiled for these sizes with its weights inside, or node by node where sizes depend on values.
    pub fn run(&self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.check(inputs)?;
        tensor::no_grad(|| self.run_checked(inputs))
    }

    fn run_checked(&self, inputs: &[Value]) -> Result<Vec<Value>> {
        let run = Run::new(self.memory_limit(inputs));
        let plain = |v: &Value| matches!(v, Value::Tensor(t) if !t.elem.is_small());
        if !self.is_eager.load(Ordering::Relaxed) && inputs.iter().all(plain) {
            self.forget_if_changed();
            let args: Vec<&Tensor> =
                inputs.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(&t.tensor) } else { None }).collect();
            let mut other = false;
            let done = self.traces.call(
                &args,
                |args| {
                    let values = args.iter().cloned().map(Value::from).collect();
                    let outs = self.interpret(values, &run)?;
                    let outs = outs.into_iter().map(|v| match v {
                        Value::Tensor(t) if !t.elem.is_small() => Ok(t.tensor),
                        _ => {
                            other = true;
                            Err(Error::dtype("an output is no tensor"))
                        }
                    });
                    Ok((outs.collect::<Result<Vec<_>>>()?, ()))
                },
                |()| (),
            );
            match done {
                Ok((outs, ())) => return Ok(outs.into_iter().map(Value::from).collect()),
                Err(_) if run.needs_value.get() || other => self.is_eager.store(true, Ordering::Relaxed),
                Err(e) => return Err(e),
            }
        }
        let outs = self.interpret(inputs.to_vec(), &Run::new(self.memory_limit(inputs)))?;
        let mut all = Vec::new();
        outs.iter().for_each(|v| v.tensors(&mut all));
        Tensor::eval_all(&all)?;
        Ok(outs)
    }

    /// [`Model::run`] of tensors.
    pub fn run_tensors(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let inputs: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
        tensors(self.run(&inputs)?)
    }

    /// Whether it runs node by node, because sizes or control flow depend on values. Known after the first run.
    pub fn is_eager(&self) -> bool {
        self.is_eager.load(Ordering::Relaxed)
    }

    /// Compiled programs hold the weights; if one was assigned, they are made anew.
    fn forget_if_changed(&self) {
        let now: Vec<u64> = self.weights.iter().map(|(_, v)| v.var().current().node().id()).collect();
        let mut seen = self.seen.lock();
        if *seen != now {
            self.traces.clear();
            *seen = now;
        }
    }

    /// What was compiled for inputs of these types, for people.
    pub fn explain(&self, types: &[Type]) -> Result<String> {
        let zero = |t: &Type| Tensor::zeros_of(&t.shape, t.dtype);
        let args: Vec<Tensor> = types.iter().map(zero).collect();
        self.check(&args.iter().cloned().map(Value::from).collect::<Vec<_>>())?;
        tensor::no_grad(|| {
            let f = |args: &[Tensor]| Ok((self.forward(args)?, ()));
            self.traces.explain(&args.iter().collect::<Vec<_>>(), f)
        })
    }

    /// A value from a file of test data, of the type of an input or output.
    pub fn read_data(&self, bytes: Vec<u8>, port: &Port) -> Result<Value> {
        read_value(bytes, &port.ty)
    }
}

fn tensors(values: Vec<Value>) -> Result<Vec<Tensor>> {
    let one = |v: Value| match v {
        Value::Tensor(t) => match t.elem {
            Elem::FLOAT8E4M3FN => Ok(t.tensor.cast(ir::DType::F8E4M3)),
            Elem::FLOAT8E5M2 => Ok(t.tensor.cast(ir::DType::F8E5M2)),
            _ => Ok(t.tensor),
        },
        v => Err(Error::dtype(format!("an output is {}, not a tensor", v.describe()))),
    };
    values.into_iter().map(one).collect()
}

impl Port {
    /// Its declared type in words.
    pub fn describe(&self) -> String {
        describe(&self.ty)
    }
    /// The element type, for a tensor.
    pub fn elem(&self) -> Option<Elem> {
        match &self.ty {
            TypeProto::Tensor { elem, .. } => Some(Elem(*elem)),
            _ => None,
        }
    }
    /// The declared sizes, for a tensor of known rank: a number, or the name of a free size (perhaps empty).
    pub fn sizes(&self) -> Option<Vec<std::result::Result<usize, String>>> {
        let TypeProto::Tensor { shape: Some(s), .. } = &self.ty else { return None };
        let dim = |d: &Dim| match d {
            Dim::Fixed(n) => Ok(*n),
            Dim::Named(n) => Err(n.clone()),
            Dim::Any => Err(String::new()),
        };
        Some(s.iter().map(dim).collect())
    }
}

fn check_type<'a>(port: &'a Port, value: &Value, named: &mut FxHashMap<&'a str, (usize, &'a str)>) -> Result<()> {
    let unfit =
        || Error::shape(format!("input {:?}: expected {}, got {}", port.name, port.describe(), value.describe()));
    let TypeProto::Tensor { elem, shape } = &port.ty else { return Ok(()) };
    let got = match value {
        Value::Tensor(t) if t.elem.0 == *elem || *elem == 0 => t.tensor.shape()?,
        Value::Strings(s, _) if *elem == Elem::STRING.0 => s.clone(),
        _ => return Err(Error::dtype(unfit().message)),
    };
    let Some(dims) = shape else { return Ok(()) };
    if dims.len() != got.rank() {
        return Err(unfit());
    }
    for (dim, &size) in dims.iter().zip(got.iter()) {
        match dim {
            Dim::Fixed(n) if *n != size => return Err(unfit()),
            Dim::Named(n) => {
                let (old, first) = *named.entry(n).or_insert((size, &port.name));
                if old != size {
                    let e = format!("input {:?}: {n} is {size}, but {old} in input {first:?}", port.name);
                    return Err(Error::shape(e));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
