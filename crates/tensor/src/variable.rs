//! Variables: named leaves whose value changes by assignment.

use crate::mesh::current_mesh;
use crate::trace;
use ir::{DType, Result, Shape, Site, Var};
use ops::{Error, ErrorKind, Operand, Tensor};
use std::fmt;
use std::sync::Arc;

/// A named value that changes by assignment; clones are the same variable.
///
/// ```
/// # use talweg_tensor::{Tensor, Variable};
/// let w = Variable::new("w", Tensor::from([1.0f32, 2.0])).unwrap();
/// let before = w.tensor();
/// w.assign(&(&w.tensor() * 10.0)).unwrap();
/// assert_eq!(w.tensor().to_vec::<f32>().unwrap(), [10.0, 20.0]);
/// assert_eq!(before.to_vec::<f32>().unwrap(), [1.0, 2.0]); // the value at that point of the program
/// ```
#[derive(Clone)]
pub struct Variable(Arc<Var>);

impl Variable {
    /// A trainable variable that starts with this value.
    #[track_caller]
    pub fn new(name: &str, initial: impl Into<Tensor>) -> Result<Variable> {
        Variable::with(name, initial.into(), true)
    }
    /// A variable that collects no gradient: a counter, a running mean, a learning rate.
    #[track_caller]
    pub fn buffer(name: &str, initial: impl Into<Tensor>) -> Result<Variable> {
        Variable::with(name, initial.into(), false)
    }
    #[track_caller]
    fn with(name: &str, initial: Tensor, trainable: bool) -> Result<Variable> {
        let site = Site::here();
        let value = initial.value()?.clone();
        if trainable && !value.ty().dtype.is_inexact() {
            let name = if name.is_empty() { "this tensor" } else { name };
            let e = format!("only floats and complex numbers can require gradients, but {name} is {}", value.ty());
            return Err(Error::new(ErrorKind::DType, e).in_op("requires_grad").at(site));
        }
        let var = Var::new(name, value, trainable, site);
        // On a mesh, its first value is computed when it is needed: a rank may need a shard only.
        if current_mesh()?.is_none() {
            runtime::note_assigned(&var);
        }
        Ok(Variable(var))
    }
    /// The state behind it.
    pub fn var(&self) -> &Arc<Var> {
        &self.0
    }
    /// Its name.
    pub fn name(&self) -> Arc<str> {
        self.0.name()
    }
    /// Renames it, as modules do with the path of their parameters.
    pub fn rename(&self, name: &str) {
        self.0.rename(name);
    }
    /// Shape.
    pub fn shape(&self) -> Shape {
        self.0.ty().shape.clone()
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.0.ty().dtype
    }
    /// Its value at this point of the program.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        self.0.read(Site::here()).into()
    }
    /// Gives it another value of the same type, from here on in the program.
    #[track_caller]
    pub fn assign(&self, value: &Tensor) -> Result<()> {
        let site = Site::here();
        let value = trace::assigned(&self.0, value)?;
        self.0.assign(value).map_err(|e| e.at(site))?;
        runtime::note_assigned(&self.0);
        Ok(())
    }
    /// Moves its value to the memory of a device (`cpu`, `cuda:0`…). What it is updated with is
    /// computed there, so it stays there.
    pub fn to(&self, device: &str) -> Result<()> {
        let value = self.tensor().to(device);
        let buffer = value.eval()?.value()?.buffer().ok_or_else(|| Error::bug("evaluated, but without a value"))?;
        self.0.set_buffer(buffer);
        Ok(())
    }
    /// True if gradients flow to it.
    pub fn is_trainable(&self) -> bool {
        self.0.is_trainable()
    }
    /// Freezes or unfreezes it.
    pub fn set_trainable(&self, yes: bool) {
        self.0.set_trainable(yes);
    }
    /// The gradient that `backward` has collected.
    pub fn grad(&self) -> Option<Tensor> {
        self.0.grad().map(Tensor::from)
    }
    /// Forgets the gradient.
    pub fn zero_grad(&self) {
        self.0.set_grad(None);
    }
    /// True if both are the same variable.
    pub fn is_same(&self, other: &Variable) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
impl From<Arc<Var>> for Variable {
    /// The variable with this state.
    fn from(var: Arc<Var>) -> Variable {
        Variable(var)
    }
}
impl Operand for &Variable {
    #[track_caller]
    fn operand(self, _: DType) -> Tensor {
        self.tensor()
    }
}
impl From<&Variable> for Tensor {
    #[track_caller]
    fn from(v: &Variable) -> Tensor {
        v.tensor()
    }
}

/// Assignments that happen together: every new value is computed from the old ones.
#[derive(Clone, Default, Debug)]
pub struct Update(Vec<(Variable, Tensor)>);

impl Update {
    /// No assignment.
    pub fn new() -> Update {
        Update::default()
    }
    /// Adds an assignment.
    pub fn set(&mut self, variable: &Variable, value: Tensor) {
        self.0.push((variable.clone(), value));
    }
    /// Adds the assignments of another.
    pub fn extend(&mut self, other: Update) {
        self.0.extend(other.0);
    }
    /// The assignments.
    pub fn assignments(&self) -> &[(Variable, Tensor)] {
        &self.0
    }
    /// Carries them out at this point of the program; none if one of the values is an error.
    #[track_caller]
    pub fn apply(&self) -> Result<()> {
        for (v, t) in &self.0 {
            let ty = t.value()?.ty();
            if ty != v.var().ty() {
                let e = format!("variable {} is {}, but the new value is {ty}", v.name(), v.var().ty());
                return Err(Error::shape(e).in_op("assign").at(t.value()?.node().site()));
            }
        }
        self.0.iter().try_for_each(|(v, t)| v.assign(t))
    }
}
