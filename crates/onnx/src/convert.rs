//! An imported model at chosen sizes: examples, graphs, and Talweg's own format.

use crate::element::Elem;
use crate::loaded::Model;
use ir::{DType, Error, Literal, Result, Type};
use std::collections::BTreeMap;
use std::path::Path;
use tensor::{Exported, Tensor};

/// Sizes by name, such as `batch`.
pub type Sizes = BTreeMap<String, usize>;

/// The axes of an input: a size, or the name of a free one.
type Axes = Vec<std::result::Result<usize, String>>;

impl Model {
    /// Name, type and axes of each input; a free axis without a name is called `INPUT_AXIS`.
    fn signature(&self) -> Result<Vec<(String, DType, Axes)>> {
        let mut out = Vec::new();
        for p in self.inputs() {
            let unfit = |e: &str| Error::value(format!("input {:?} is {}: {e}", p.name, p.describe()));
            let dtype = p.elem().filter(|e| !e.is_small()).and_then(Elem::storage);
            let dtype = dtype.ok_or_else(|| unfit("only tensors of numbers are supported here"))?;
            let axes = p.sizes().ok_or_else(|| unfit("its rank must be declared"))?;
            let name = |(a, d): (usize, std::result::Result<usize, String>)| match d {
                Err(n) if n.is_empty() => Err(format!("{}_{a}", p.name)),
                d => d,
            };
            out.push((p.name.clone(), dtype, axes.into_iter().enumerate().map(name).collect()));
        }
        Ok(out)
    }

    /// The free sizes of its inputs, by name.
    pub fn free_sizes(&self) -> Result<Vec<String>> {
        let mut out: Vec<String> = Vec::new();
        for (_, _, axes) in self.signature()? {
            for name in axes.into_iter().filter_map(std::result::Result::err) {
                if !out.contains(&name) {
                    out.push(name);
                }
            }
        }
        Ok(out)
    }

    fn check_names(&self, sizes: &Sizes) -> Result<()> {
        let free = self.free_sizes()?;
        match sizes.keys().find(|k| !free.contains(k)) {
            Some(k) => Err(Error::value(format!("the model has no size {k:?}; its free sizes are {free:?}"))),
            None => Ok(()),
        }
    }

    /// The types of its inputs at these sizes; those that are not given are 1.
    pub fn input_types(&self, sizes: &Sizes) -> Result<Vec<Type>> {
        self.check_names(sizes)?;
        let size = |d: &std::result::Result<usize, String>| match d {
            Ok(n) => *n,
            Err(name) => sizes.get(name).copied().unwrap_or(1),
        };
        let ty =
            |(_, dtype, axes): (String, DType, Axes)| Type::new(dtype, axes.iter().map(size).collect::<ir::Shape>());
        Ok(self.signature()?.into_iter().map(ty).collect())
    }

    /// Inputs of these types to try a model with: floats from 0 to 1, integers 0, truth true.
    pub fn examples(types: &[Type]) -> Vec<Tensor> {
        let one = |t: &Type| {
            let mut state = 0x2545_f491_4f6c_dd1du64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f64 / (1u64 << 24) as f64
            };
            let fill = |_: usize| if t.dtype.is_float() { next() } else { f64::from(u8::from(t.dtype == DType::Bool)) };
            let values: Vec<f64> = (0..t.shape.count()).map(fill).collect();
            Tensor::from(Literal::from_f64(t.dtype, t.shape.clone(), &values))
        };
        types.iter().map(one).collect()
    }

    /// The model as a graph, at these sizes of its inputs.
    pub fn trace(&self, sizes: &Sizes) -> Result<Exported> {
        Exported::trace(&self.input_types(sizes)?, |x| self.forward(x))
    }

    /// Writes the model in Talweg's own format, which can be served. Sizes that are given are fixed, the others free.
    pub fn export(&self, dir: impl AsRef<Path>, name: &str, sizes: &Sizes) -> Result<()> {
        self.check_names(sizes)?;
        let all: Sizes = self.free_sizes()?.into_iter().map(|n| (n, 2)).chain(sizes.clone()).collect();
        let examples = Model::examples(&self.input_types(&all)?);
        let mut export = model::Export::new(name);
        for ((name, _, axes), example) in self.signature()?.into_iter().zip(&examples) {
            let free = |d: &std::result::Result<usize, String>| match d {
                Err(n) if !sizes.contains_key(n) => n.clone(),
                _ => String::new(),
            };
            let axes: Vec<String> = axes.iter().map(free).collect();
            export = export.input(&name, example, &axes.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let outputs: Vec<&str> = self.outputs().iter().map(|p| p.name.as_str()).collect();
        let hint = |e: Error| match self.free_sizes() {
            Ok(free) if free.iter().any(|f| !sizes.contains_key(f)) => {
                Error { message: format!("{}; fixing a size may help: its free sizes are {free:?}", e.message), ..e }
            }
            _ => e,
        };
        export.outputs(&outputs).write(dir, |x| self.forward(x)).map_err(hint)
    }
}
