//! From a function to a directory: trace at several sizes, fit, check, write.

use crate::loaded::Model;
use crate::polymorphic::Polymorphic;
use crate::signature::{Axis, Dimension, Signature, TensorSpec};
use crate::{files, padding, polymorphic};
use ir::{Error, Graph, Literal, Result, Shape, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tensor::{Exported, ExportedInput, Tensor};

/// A model to be: its name, inputs and free dimensions.
pub struct Export {
    name: String,
    dims: Vec<Dimension>,
    inputs: Vec<(TensorSpec, Result<Literal>)>,
    outputs: Vec<String>,
}

/// Sizes that tell functions of them apart.
const PRIMES: [usize; 12] = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41];

impl Export {
    /// A model of that name.
    pub fn new(name: &str) -> Export {
        Export { name: name.into(), dims: Vec::new(), inputs: Vec::new(), outputs: Vec::new() }
    }
    /// Adds an input, with an example. `axes` names the free ones; `""` is an axis whose size is the example's.
    pub fn input(mut self, name: &str, example: &Tensor, axes: &[&str]) -> Export {
        let example = example.literal().and_then(|l| {
            if axes.len() == l.shape().rank() {
                return Ok(l);
            }
            let e = format!("{name}: {} axes are named, but the example has shape {}", axes.len(), l.shape());
            Err(Error::shape(e).in_op("export"))
        });
        let mut shape = Vec::new();
        if let Ok(l) = &example {
            for (&axis, &size) in axes.iter().zip(l.shape().iter()) {
                if !axis.is_empty() && !self.dims.iter().any(|d| d.name == axis) {
                    self.dims.push(Dimension::new(axis));
                }
                shape.push(if axis.is_empty() { Axis::Fixed(size) } else { Axis::Free(axis.into()) });
            }
        }
        let dtype = example.as_ref().map_or("", |l| l.dtype().name()).to_string();
        self.inputs.push((TensorSpec { name: name.into(), dtype, shape }, example));
        self
    }
    /// Bounds a free dimension.
    pub fn dimension(mut self, dimension: Dimension) -> Export {
        match self.dims.iter_mut().find(|d| d.name == dimension.name) {
            Some(d) => *d = dimension,
            None => self.dims.push(dimension),
        }
        self
    }
    /// Names the outputs; without names they are `output0`, `output1`, … or `output` if there is one.
    pub fn outputs(mut self, names: &[&str]) -> Export {
        self.outputs = names.iter().map(|n| n.to_string()).collect();
        self
    }

    /// Traces `f`, checks what was traced against `f` itself on the examples, and writes the directory. A directory
    /// that is there already is replaced in one step.
    #[track_caller]
    pub fn write(&self, dir: impl AsRef<Path>, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<()> {
        let made = self.make(&f)?;
        files::write(dir.as_ref(), &made)
    }

    fn make(&self, f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Model> {
        let examples = self.inputs.iter().map(|(_, e)| e.clone()).collect::<Result<Vec<Literal>>>()?;
        self.check_names()?;
        let mut traces: Vec<(Vec<usize>, Graph)> = Vec::new();
        let mut inputs = Vec::new();
        for sizes in self.samples() {
            let types = self.inputs.iter().map(|(spec, _)| spec.at(&self.dims, &sizes));
            let types = types.map(|t| t?.ok_or_else(|| Error::bug("an input has a derived axis")));
            let exported = Exported::trace(&types.collect::<Result<Vec<Type>>>()?, f)?;
            inputs = exported.inputs;
            traces.push((sizes, exported.graph));
        }
        let names: Vec<String> = self.dims.iter().map(|d| d.name.clone()).collect();
        let graph = Polymorphic::fit(&names, &traces)?;
        let outputs = self.output_specs(&graph, &traces)?;
        let specs: Vec<TensorSpec> = self.inputs.iter().map(|(s, _)| s.clone()).collect();
        let is_along =
            |s: &TensorSpec| matches!((s.shape.first(), names.first()), (Some(Axis::Free(a)), Some(b)) if a == b);
        let is_batched = !specs.is_empty() && specs.iter().chain(&outputs).all(is_along);
        let signature =
            Signature { name: self.name.clone(), dims: self.dims.clone(), inputs: specs, outputs, is_batched };
        let mut model = Model::new(signature, graph, roles(inputs)?)?;
        self.check_values(&model, &examples, f)?;
        if is_batched && !has_independent_rows(&model, &examples)? {
            model.set_batched(false);
        }
        for dim in usize::from(model.signature().is_batched)..self.dims.len() {
            if padding::is_harmless(&model, &examples, dim) {
                model.set_padded(dim);
            }
        }
        Ok(model)
    }

    fn check_names(&self) -> Result<()> {
        let all = self.inputs.iter().map(|(s, _)| &s.name).collect::<BTreeSet<_>>();
        if all.len() != self.inputs.len() || all.iter().any(|n| n.is_empty()) {
            return Err(Error::value("inputs need names that differ").in_op("export"));
        }
        if let Some(d) = self.dims.iter().find(|d| d.min > d.max || d.multiple_of == 0) {
            return Err(Error::value(format!("{}: no size is allowed", d.name)).in_op("export"));
        }
        Ok(())
    }

    /// Sizes to trace at: a base, one more for each dimension, and two in which all differ.
    fn samples(&self) -> Vec<Vec<usize>> {
        let candidates = |(i, d): (usize, &Dimension)| -> Vec<usize> {
            let fits = |s: &usize| d.check(*s).is_ok();
            let primes = PRIMES.iter().cycle().skip(3 * i).take(PRIMES.len()).map(|p| p * d.multiple_of).filter(fits);
            let least = d.min.next_multiple_of(d.multiple_of);
            let others = (0..8).map(|k| least + k * d.multiple_of).filter(fits);
            primes.chain(others).collect()
        };
        let all: Vec<Vec<usize>> = self.dims.iter().enumerate().map(candidates).collect();
        let pick = |choice: &dyn Fn(usize) -> usize| -> Vec<usize> {
            all.iter().enumerate().map(|(d, c)| c.get(choice(d) % c.len().max(1)).copied().unwrap_or(1)).collect()
        };
        let mut out = vec![pick(&|_| 0)];
        out.extend((0..self.dims.len()).map(|d| pick(&|e| usize::from(d == e))));
        out.push(pick(&|d| 2 + d % 2));
        out.push(pick(&|d| 1 + (d + 1) % 3));
        let mut seen = BTreeSet::new();
        out.retain(|s| seen.insert(s.clone()));
        out
    }

    fn output_specs(&self, graph: &Polymorphic, traces: &[(Vec<usize>, Graph)]) -> Result<Vec<TensorSpec>> {
        let outputs = &graph.graph().outputs;
        if !self.outputs.is_empty() && self.outputs.len() != outputs.len() {
            let e = format!("{} outputs are named, but the function returns {}", self.outputs.len(), outputs.len());
            return Err(Error::value(e).in_op("export"));
        }
        let spec = |(o, slot): (usize, &ir::Slot)| {
            let ty = graph.graph().ty(*slot);
            let axis = |a: usize| {
                let size = |g: &Graph| g.ty(g.outputs[o]).shape[a];
                let is = |d: usize| traces.iter().all(|(sizes, g)| sizes[d] == size(g));
                let n = ty.shape[a];
                match (0..self.dims.len()).find(|&d| is(d)) {
                    _ if traces.len() == 1 || traces.iter().all(|(_, g)| size(g) == n) => Axis::Fixed(n),
                    Some(d) => Axis::Free(self.dims[d].name.clone()),
                    None => Axis::Derived,
                }
            };
            let name = match (self.outputs.get(o), outputs.len()) {
                (Some(name), _) => name.clone(),
                (None, 1) => "output".into(),
                (None, _) => format!("output{o}"),
            };
            TensorSpec { name, dtype: ty.dtype.name().into(), shape: (0..ty.shape.rank()).map(axis).collect() }
        };
        Ok(outputs.iter().enumerate().map(spec).collect())
    }

    /// The model must compute what the function computes.
    fn check_values(
        &self,
        model: &Model,
        examples: &[Literal],
        f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let shapes: Vec<&Shape> = examples.iter().map(Literal::shape).collect();
        model.signature().sizes(&shapes).map_err(|e| e.in_op("export"))?;
        let got = model.run(examples)?;
        let args: Vec<Tensor> = examples.iter().map(|l| Tensor::from(l.clone())).collect();
        let want = tensor::no_grad(|| f(&args)?.iter().map(Tensor::literal).collect::<Result<Vec<_>>>())?;
        let is_near = |(a, b): (&Literal, &Literal)| a.shape() == b.shape() && a.dtype() == b.dtype() && close(a, b);
        if got.len() != want.len() || !got.iter().zip(&want).all(is_near) {
            let e = "the exported graph and the function disagree on the examples: the function reads something else \
                     than its arguments, such as a global counter";
            return Err(Error::value(e).in_op("export"));
        }
        Ok(())
    }
}

/// Equal, or as near as two orders of addition may come.
fn close(a: &Literal, b: &Literal) -> bool {
    if !a.dtype().is_float() {
        return a.bytes() == b.bytes();
    }
    let (a, b) = (a.to_f64(), b.to_f64());
    let scale = b.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    a.iter().zip(&b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-2 * scale.max(1e-30))
}

/// Weights with names that differ: the variable's, or a number.
fn roles(inputs: Vec<ExportedInput>) -> Result<Vec<polymorphic::Role>> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let role = |input| match input {
        ExportedInput::Argument(i) => Ok(polymorphic::Role::Argument(i)),
        ExportedInput::Weight { name, value } => {
            let name = if name.is_empty() { "constant".to_string() } else { name };
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let name = if *count == 1 { name } else { format!("{name}.{count}") };
            Ok(polymorphic::Role::Weight(name, value))
        }
    };
    inputs.into_iter().map(role).collect()
}

/// Whether the first row of every output stays as it is, bit for bit, when other rows of the inputs change.
fn has_independent_rows(model: &Model, examples: &[Literal]) -> Result<bool> {
    let row = |l: &Literal| l.bytes().len() / l.shape()[0].max(1);
    let joined = |l: &Literal, is_zero: bool| {
        let first = &l.bytes()[..row(l)];
        let second = if is_zero { vec![0; first.len()] } else { first.to_vec() };
        let mut shape = l.shape().clone();
        shape.dims_mut()[0] = 2;
        Literal::from_bytes(l.dtype(), shape, &[first, &second[..]].concat())
    };
    if examples.iter().any(|l| l.shape()[0] == 0) || model.signature().dims[0].check(2).is_err() {
        return Ok(false);
    }
    let run = |is_zero| model.run(&examples.iter().map(|l| joined(l, is_zero)).collect::<Result<Vec<_>>>()?);
    let (a, b) = (run(false)?, run(true)?);
    Ok(a.iter().zip(&b).all(|(a, b)| a.bytes()[..row(a)] == b.bytes()[..row(b)]))
}
