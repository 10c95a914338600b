//! `Sequential`: layers one after the other; functions without parameters as layers.

use crate::{Layer, Module, Visitor, join};
use tensor::{Site, Tensor};

/// Layers applied one after the other.
///
/// ```
/// # use talweg_nn::{Layer, Linear, Relu, Sequential};
/// # use tensor::Tensor;
/// let model = Sequential::new()
///     .with(Linear::new(4, 8).unwrap())
///     .with(Relu)
///     .with(Linear::new(8, 2).unwrap());
/// assert_eq!(model.forward(&Tensor::ones([3, 4])).dims().unwrap(), [3, 2]);
/// ```
#[derive(Default)]
pub struct Sequential(Vec<Box<dyn Layer>>);

impl Sequential {
    /// Nothing yet: the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }
    /// With one more layer at the end.
    pub fn with(mut self, layer: impl Layer + 'static) -> Sequential {
        self.0.push(Box::new(layer));
        self
    }
}
impl Module for Sequential {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        for (i, m) in self.0.iter().enumerate() {
            m.visit(&join(path, &i.to_string()), visitor);
        }
    }
}
impl Layer for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let site = Site::here();
        site.scope(|| self.0.iter().fold(x.clone(), |x, l| l.forward(&x)))
    }
}

macro_rules! activations {
    ($($name:ident $method:ident $doc:literal)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl Module for $name {
            fn visit(&self, _: &str, _: &mut dyn Visitor) {}
        }
        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method()
            }
        }
    )*};
}
activations! {
    Gelu gelu "[`Tensor::gelu`] as a layer."
    Relu relu "[`Tensor::relu`] as a layer."
    Sigmoid sigmoid "[`Tensor::sigmoid`] as a layer."
    Silu silu "[`Tensor::silu`] as a layer."
    Tanh tanh "[`Tensor::tanh`] as a layer."
}

/// A function of one tensor as a layer.
#[derive(Clone, Copy, Debug)]
pub struct Activation {
    name: &'static str,
    f: fn(&Tensor) -> Tensor,
}
impl Activation {
    /// From a function.
    pub fn new(name: &'static str, f: fn(&Tensor) -> Tensor) -> Activation {
        Activation { name, f }
    }
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}
impl Module for Activation {
    fn visit(&self, _: &str, _: &mut dyn Visitor) {}
}
impl Layer for Activation {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        (self.f)(x)
    }
}
