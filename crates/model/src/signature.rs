//! What a model takes and returns.

use ir::{DType, Error, Result, Shape, Type};
use serde::{Deserialize, Serialize};

/// A dimension whose size is chosen at each call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// The least size.
    pub min: usize,
    /// The greatest size.
    pub max: usize,
    /// Sizes are multiples of this.
    pub multiple_of: usize,
    /// Whether inputs may be followed by zeros along it: outputs stay as they are, but for rounding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_padded: bool,
}

impl Dimension {
    /// A dimension of any size but 0.
    pub fn new(name: &str) -> Dimension {
        Dimension { name: name.into(), min: 1, max: u32::MAX as usize, multiple_of: 1, is_padded: false }
    }
    /// Fails unless `size` is allowed.
    pub fn check(&self, size: usize) -> Result<()> {
        if size < self.min || size > self.max {
            let e = format!("{} is {size}, but must lie between {} and {}", self.name, self.min, self.max);
            return Err(Error::shape(e));
        }
        if !size.is_multiple_of(self.multiple_of.max(1)) {
            return Err(Error::shape(format!(
                "{} is {size}, but must be a multiple of {}",
                self.name, self.multiple_of
            )));
        }
        Ok(())
    }
}

/// The size of one axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Axis {
    /// Always the same.
    Fixed(usize),
    /// A free dimension, by name.
    Free(String),
    /// A function of free dimensions: known when the model has run.
    Derived,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// Its name.
    pub name: String,
    /// Its element type, as in `f32`.
    pub dtype: String,
    /// Its axes.
    pub shape: Vec<Axis>,
}

impl TensorSpec {
    /// Its element type.
    pub fn dtype(&self) -> Result<DType> {
        let known = DType::ALL.into_iter().find(|d| d.name() == self.dtype);
        known.ok_or_else(|| Error::format(format!("{}: unknown element type {:?}", self.name, self.dtype)))
    }
    /// The type at these sizes of the free dimensions; `None` if an axis is derived.
    pub fn at(&self, dims: &[Dimension], sizes: &[usize]) -> Result<Option<Type>> {
        let mut shape = Vec::with_capacity(self.shape.len());
        for axis in &self.shape {
            shape.push(match axis {
                Axis::Fixed(n) => *n,
                Axis::Free(name) => sizes[position(dims, name)?],
                Axis::Derived => return Ok(None),
            });
        }
        Ok(Some(Type::new(self.dtype()?, shape)))
    }
    /// How people read it: `f32[batch, 784]`.
    pub fn describe(&self) -> String {
        let axis = |a: &Axis| match a {
            Axis::Fixed(n) => n.to_string(),
            Axis::Free(name) => name.clone(),
            Axis::Derived => "?".into(),
        };
        format!("{}[{}]", self.dtype, self.shape.iter().map(axis).collect::<Vec<_>>().join(", "))
    }
}

fn position(dims: &[Dimension], name: &str) -> Result<usize> {
    let found = dims.iter().position(|d| d.name == name);
    found.ok_or_else(|| Error::format(format!("there is no free dimension {name:?}")))
}

/// What a model takes and returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The model's name.
    pub name: String,
    /// Free dimensions.
    pub dims: Vec<Dimension>,
    /// Inputs, in order.
    pub inputs: Vec<TensorSpec>,
    /// Outputs, in order.
    pub outputs: Vec<TensorSpec>,
    /// Whether the first axis of every input and output is the first free dimension and rows do not influence each
    /// other, so that requests may be joined along it.
    pub is_batched: bool,
}

impl Signature {
    /// Fails unless names are given, differ, and every axis names a dimension.
    pub(crate) fn check(&self) -> Result<()> {
        for specs in [&self.inputs, &self.outputs] {
            for (i, spec) in specs.iter().enumerate() {
                spec.dtype()?;
                if specs[..i].iter().any(|s| s.name == spec.name) {
                    return Err(Error::format(format!("two tensors are called {:?}", spec.name)));
                }
            }
        }
        let specs = || self.inputs.iter().chain(&self.outputs);
        for axis in specs().flat_map(|s| &s.shape) {
            if let Axis::Free(name) = axis {
                position(&self.dims, name)?;
            }
        }
        let is_along = |s: &TensorSpec| matches!(s.shape.first(), Some(Axis::Free(n)) if *n == self.dims[0].name);
        if self.is_batched && (self.dims.is_empty() || self.inputs.is_empty() || !specs().all(is_along)) {
            return Err(Error::format("it is called batched, but not every tensor has the first dimension as axis 0"));
        }
        Ok(())
    }
    /// Sizes of the free dimensions for inputs of these shapes; an error says which input does not fit and why.
    pub fn sizes(&self, shapes: &[&Shape]) -> Result<Vec<usize>> {
        if shapes.len() != self.inputs.len() {
            let e = format!("{} takes {} inputs, but {} were given", self.name, self.inputs.len(), shapes.len());
            return Err(Error::value(e));
        }
        let mut sizes: Vec<Option<usize>> = vec![None; self.dims.len()];
        for (spec, shape) in self.inputs.iter().zip(shapes) {
            let unfit = || Error::shape(format!("{}: expected {}, got {shape}", spec.name, spec.describe()));
            if spec.shape.len() != shape.rank() {
                return Err(unfit());
            }
            for (axis, &size) in spec.shape.iter().zip(shape.iter()) {
                match axis {
                    Axis::Fixed(n) if *n == size => {}
                    Axis::Fixed(_) | Axis::Derived => return Err(unfit()),
                    Axis::Free(name) => {
                        let d = position(&self.dims, name)?;
                        let old = *sizes[d].get_or_insert(size);
                        if old != size {
                            return Err(Error::shape(format!("{}: {name} is {size}, but was {old} before", spec.name)));
                        }
                        self.dims[d].check(size).map_err(|e| Error::shape(format!("{}: {}", spec.name, e.message)))?;
                    }
                }
            }
        }
        let unused = |d: &Dimension| Error::format(format!("no input has the free dimension {:?}", d.name));
        sizes.into_iter().zip(&self.dims).map(|(s, d)| s.ok_or_else(|| unused(d))).collect()
    }
}
