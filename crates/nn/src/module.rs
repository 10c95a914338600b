//! Modules: trees of named parameters and buffers.

use tensor::{Result, Setting, Tensor, Variable};

/// What a module consists of.
pub enum Entry<'a> {
    /// A variable that is trained.
    Parameter(&'a Variable),
    /// A variable that is part of the state but not trained: a running mean.
    Buffer(&'a Variable),
    /// Whether the module behaves as in training.
    Mode(&'a Mode),
}

/// Sees every entry of a module with its path, such as `encoder.0.weight`.
pub trait Visitor {
    /// One entry.
    fn entry(&mut self, path: &str, entry: Entry);
}
impl<F: FnMut(&str, Entry)> Visitor for F {
    fn entry(&mut self, path: &str, entry: Entry) {
        self(path, entry)
    }
}

/// A tree of named parameters. `#[derive(Module)]` writes this for a struct; paths follow field
/// names, and the names inside layers are PyTorch's.
///
/// ```
/// # use talweg_nn::{Linear, Module};
/// #[derive(Module)]
/// struct Mlp {
///     hidden: Linear,
///     out: Linear,
///     #[module(skip)]
///     note: String,
/// }
/// let m = Mlp { hidden: Linear::new(4, 8).unwrap(), out: Linear::new(8, 2).unwrap(), note: "small".into() };
/// let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
/// assert_eq!(names, ["hidden.weight", "hidden.bias", "out.weight", "out.bias"]);
/// # assert_eq!(m.note, "small");
/// ```
pub trait Module {
    /// Shows every entry to the visitor, in a fixed order.
    fn visit(&self, path: &str, visitor: &mut dyn Visitor);

    /// Trained variables with their paths.
    fn named_parameters(&self) -> Vec<(String, Variable)> {
        let mut out = Vec::new();
        self.visit("", &mut |path: &str, e: Entry| {
            if let Entry::Parameter(v) = e {
                out.push((path.to_string(), v.clone()));
            }
        });
        out
    }
    /// Trained variables.
    fn parameters(&self) -> Vec<Variable> {
        self.named_parameters().into_iter().map(|(_, v)| v).collect()
    }
    /// Parameters and buffers with their paths: everything a checkpoint needs.
    fn state(&self) -> Vec<(String, Variable)> {
        let mut out = Vec::new();
        self.visit("", &mut |path: &str, e: Entry| match e {
            Entry::Parameter(v) | Entry::Buffer(v) => out.push((path.to_string(), v.clone())),
            Entry::Mode(_) => {}
        });
        out
    }
    /// Number of trained elements.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|v| v.shape().count()).sum()
    }
    /// Switches to training (`true`) or inference (`false`).
    fn train(&self, on: bool) {
        self.visit("", &mut |_: &str, e: Entry| {
            if let Entry::Mode(m) = e {
                m.set_training(on);
            }
        });
    }
    /// Forgets all collected gradients.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Variable::zero_grad);
    }
    /// Moves every parameter and buffer to the memory of a device (`cpu`, `cuda:0`…).
    fn to(&self, device: &str) -> Result<()> {
        self.state().iter().try_for_each(|(_, v)| v.to(device))
    }
    /// Renames every variable to its path, so that errors and files name it.
    fn name_variables(&self) {
        self.visit("", &mut |path: &str, e: Entry| match e {
            Entry::Parameter(v) | Entry::Buffer(v) => v.rename(path),
            Entry::Mode(_) => {}
        });
    }
}

/// The path of a part.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

/// A module of one tensor to one tensor, which `Sequential` can chain.
pub trait Layer: Module {
    /// Its result.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;
}

/// Whether a module behaves as in training; modules start in training. A jitted function that reads it
/// is traced once for each mode.
#[derive(Debug)]
pub struct Mode(Setting);
impl Default for Mode {
    fn default() -> Mode {
        Mode::new(true)
    }
}
impl Mode {
    /// In training or not.
    pub fn new(training: bool) -> Mode {
        Mode(Setting::new(training.into()))
    }
    /// True in training.
    pub fn is_training(&self) -> bool {
        self.0.get() != 0
    }
    /// Switches.
    pub fn set_training(&self, on: bool) {
        self.0.set(on.into());
    }
}
impl Module for Mode {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        visitor.entry(path, Entry::Mode(self));
    }
}
impl Module for Variable {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        let entry = if self.var().is_parameter() { Entry::Parameter(self) } else { Entry::Buffer(self) };
        visitor.entry(path, entry);
    }
}
impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        (**self).visit(path, visitor);
    }
}
impl<M: Module> Module for Option<M> {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        if let Some(m) = self {
            m.visit(path, visitor);
        }
    }
}
impl<M: Module> Module for Vec<M> {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        for (i, m) in self.iter().enumerate() {
            m.visit(&join(path, &i.to_string()), visitor);
        }
    }
}
impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        for (i, m) in self.iter().enumerate() {
            m.visit(&join(path, &i.to_string()), visitor);
        }
    }
}
macro_rules! settings {
    ($($t:ty),*) => {$( impl Module for $t { fn visit(&self, _: &str, _: &mut dyn Visitor) {} } )*};
}
settings!(bool, i32, i64, u32, u64, usize, f32, f64, String, &'static str);
impl<A: Module, B: Module> Module for (A, B) {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        self.0.visit(&join(path, "0"), visitor);
        self.1.visit(&join(path, "1"), visitor);
    }
}

/// Anything an optimizer can take its parameters from.
pub trait Parameters {
    /// The variables to train.
    fn variables(&self) -> Vec<Variable>;
}
impl<M: Module> Parameters for M {
    fn variables(&self) -> Vec<Variable> {
        // Plans of meshes and errors name parameters by their paths, the longest that is known of each.
        let all = self.named_parameters();
        all.iter().filter(|(path, v)| path.len() > v.name().len()).for_each(|(path, v)| v.rename(path));
        all.into_iter().map(|(_, v)| v).collect()
    }
}
impl Parameters for [Variable] {
    fn variables(&self) -> Vec<Variable> {
        self.to_vec()
    }
}
