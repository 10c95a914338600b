//! A traced function as an ONNX file: composites that ONNX has stay whole, the rest is written with what it consists
//! of. Weights are initializers with their names.

mod control;
mod emit;
mod rows;

use crate::element::Elem;
use crate::wire::Writer;
use emit::{Emitter, Free};
use ir::{DType, Error, ErrorKind, Graph, Literal, Meaning, Result, Slot, Type};
use std::path::Path;
use tensor::{Exported, ExportedInput, Tensor};

/// The operator set that is written.
const OPSET: i64 = 20;
/// The version of the file format that goes with it.
const IR_VERSION: i64 = 9;
/// Weights beyond this are written to a second file: a protobuf file ends at 2 GiB.
const EXTERNAL_MIN: usize = 1 << 30;

/// A model to be written.
pub struct Export {
    name: String,
    inputs: Vec<(String, Type, Vec<String>)>,
    outputs: Vec<String>,
}

impl Export {
    /// A model of that name.
    pub fn new(name: &str) -> Export {
        Export { name: name.into(), inputs: Vec::new(), outputs: Vec::new() }
    }
    /// Adds an input of a type. `axes` names the free ones; `""` is an axis of fixed size.
    pub fn input(mut self, name: &str, ty: Type, axes: &[&str]) -> Export {
        self.inputs.push((name.into(), ty, axes.iter().map(|a| a.to_string()).collect()));
        self
    }
    /// Names the outputs; without names they are `output`, or `output0` and so on.
    pub fn outputs(mut self, names: &[&str]) -> Export {
        self.outputs = names.iter().map(|n| n.to_string()).collect();
        self
    }

    /// Traces a function and writes it to a file.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<()> {
        let path = path.as_ref();
        let name = path.file_name().map(|n| format!("{}.data", n.to_string_lossy())).unwrap_or_default();
        let (bytes, data) = self.encode(&name, f)?;
        let io = |p: &Path, e: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {e}", p.display()));
        if !data.is_empty() {
            let beside = path.with_file_name(name);
            std::fs::write(&beside, data).map_err(|e| io(&beside, e))?;
        }
        std::fs::write(path, bytes).map_err(|e| io(path, e))
    }

    /// The file, and external data if the weights are too large for one.
    fn encode(&self, data_name: &str, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<(Vec<u8>, Vec<u8>)> {
        let (first, second, free) = self.traced(&f)?;
        let mut e = Emitter::new(second.as_ref().map(|s| &s.graph), &free);
        let mut names = Vec::new();
        let mut weights = Vec::new();
        for (k, input) in first.inputs.iter().enumerate() {
            names.push(match input {
                ExportedInput::Argument(i) => self.inputs[*i].0.clone(),
                ExportedInput::Weight { name, value } => {
                    let name = e.unique(if name.is_empty() { "constant" } else { name });
                    weights.push((name.clone(), value.clone(), k));
                    name
                }
            });
        }
        e.graph(&first.graph, &names)?;
        let outs = &first.graph.outputs;
        let out_name = |i: usize| match (self.outputs.get(i), outs.len()) {
            (Some(n), _) => n.clone(),
            (None, 1) => "output".to_string(),
            (None, _) => format!("output{i}"),
        };
        if !self.outputs.is_empty() && self.outputs.len() != outs.len() {
            let e = format!("{} outputs are named, but the function returns {}", self.outputs.len(), outs.len());
            return Err(Error::value(e).in_op("onnx"));
        }
        for (i, &slot) in outs.iter().enumerate() {
            let from = e.name(slot)?;
            e.node_to("Identity", &[&from], &[&out_name(i)], &[]);
        }
        let total: usize = weights.iter().map(|(_, l, _)| l.bytes().len()).sum();
        let is_external = total >= EXTERNAL_MIN;
        let mut data = Vec::new();
        let mut graph = Writer::default();
        e.nodes.iter().for_each(|n| graph.bytes(1, n));
        graph.bytes(2, self.name.as_bytes());
        for (name, value, _) in &weights {
            let external = is_external.then(|| {
                data.resize(data.len().next_multiple_of(4096), 0);
                let at = data.len();
                data.extend(value.bytes());
                (data_name.to_string(), at)
            });
            graph.message(5, |w| write_tensor(w, name, value, external));
        }
        e.constants.iter().for_each(|(name, value)| graph.message(5, |w| write_tensor(w, name, value, None)));
        for (name, ty, axes) in &self.inputs {
            graph.message(11, |w| write_info(w, name, ty, |a| axes.get(a).cloned().unwrap_or_default()));
        }
        for (i, &slot) in outs.iter().enumerate() {
            let axis = |a: usize| e.free_name(slot, a);
            graph.message(12, |w| write_info(w, &out_name(i), first.graph.ty(slot), axis));
        }
        let mut model = Writer::default();
        model.int(1, IR_VERSION);
        model.bytes(2, b"talweg");
        model.bytes(3, env!("CARGO_PKG_VERSION").as_bytes());
        model.bytes(7, &graph.0);
        model.message(8, |w| {
            w.bytes(1, b"");
            w.int(2, OPSET);
        });
        Ok((model.0, data))
    }

    /// The function at the given sizes, and at others if some are free.
    fn traced(&self, f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<(Exported, Option<Exported>, Vec<Free>)> {
        let mut free: Vec<Free> = Vec::new();
        for (name, ty, axes) in &self.inputs {
            if !axes.is_empty() && axes.len() != ty.shape.rank() {
                let e = format!("{name}: {} axes are named, but it has shape {}", axes.len(), ty.shape);
                return Err(Error::shape(e).in_op("onnx"));
            }
            for (axis, size) in axes.iter().enumerate().filter(|(_, a)| !a.is_empty()) {
                if !free.iter().any(|f| f.name == *size) {
                    let at = ty.shape[axis];
                    free.push(Free { name: size.clone(), input: name.clone(), axis, size: at, other: 2 * at + 3 });
                }
            }
        }
        let trace = |is_other: bool| {
            let ty = |(_, ty, axes): &(String, Type, Vec<String>)| {
                let mut shape = ty.shape.clone();
                for (a, name) in axes.iter().enumerate() {
                    if let Some(f) = free.iter().find(|f| f.name == *name) {
                        shape.dims_mut()[a] = if is_other { f.other } else { f.size };
                    }
                }
                Type::new(ty.dtype, shape)
            };
            let mut exported = Exported::trace(&self.inputs.iter().map(ty).collect::<Vec<_>>(), f)?;
            exported.graph = passes::decompose(&exported.graph, &|n, types| rows::keeps(n, types))?;
            Ok::<_, Error>(exported)
        };
        let first = trace(false)?;
        let unsupported = rows::unsupported(&first.graph);
        if !unsupported.is_empty() {
            let e = format!("ONNX has no operators for: {}", unsupported.join(", "));
            return Err(Error::value(e).in_op("onnx"));
        }
        let second = if free.is_empty() { None } else { Some(trace(true)?) };
        check_same(&first.graph, second.as_ref().map(|s| &s.graph))?;
        Ok((first, second, free))
    }
}

/// A graph must have the same nodes at other sizes.
fn check_same(graph: &Graph, other: Option<&Graph>) -> Result<()> {
    let Some(other) = other else { return Ok(()) };
    let is_same = other.nodes.len() == graph.nodes.len()
        && other.nodes.iter().zip(&graph.nodes).all(|(a, b)| {
            // A constant is written as it is.
            let is_kept = !matches!(a.op.meaning, Meaning::Const) || a.outs == b.outs;
            a.op.name == b.op.name && a.inputs == b.inputs && is_kept
        });
    if is_same {
        return Ok(());
    }
    let e = "the function does something else at other sizes: export it with fixed sizes";
    Err(Error::value(e).in_op("onnx"))
}

/// The element type that a type is written as.
pub(crate) fn elem(dtype: DType) -> i64 {
    i64::from(Elem::of(dtype).0)
}

fn write_info(w: &mut Writer, name: &str, ty: &Type, axis: impl Fn(usize) -> String) {
    w.bytes(1, name.as_bytes());
    w.message(2, |w| {
        w.message(1, |w| {
            w.int(1, elem(ty.dtype));
            w.message(2, |w| {
                for (a, &size) in ty.shape.iter().enumerate() {
                    let name = axis(a);
                    w.message(1, |w| if name.is_empty() { w.int(1, size as i64) } else { w.bytes(2, name.as_bytes()) });
                }
            });
        });
    });
}

fn write_tensor(w: &mut Writer, name: &str, value: &Literal, external: Option<(String, usize)>) {
    value.shape().iter().for_each(|&d| w.int(1, d as i64));
    w.int(2, elem(value.dtype()));
    w.bytes(8, name.as_bytes());
    match external {
        None => w.bytes(9, value.bytes()),
        Some((file, at)) => {
            let entries = [("location", file), ("offset", at.to_string()), ("length", value.bytes().len().to_string())];
            for (key, v) in entries {
                w.message(13, |w| {
                    w.bytes(1, key.as_bytes());
                    w.bytes(2, v.as_bytes());
                });
            }
            w.int(14, 1);
        }
    }
}

/// Where a value is used by number: a graph's slot.
pub(crate) fn key(s: Slot) -> (u32, u32) {
    (s.node, s.out)
}

/// A graph's types by slot.
pub(crate) fn ty(graph: &Graph, s: Slot) -> &Type {
    graph.ty(s)
}
