//! Settings of optimizers, described once: name, type, default and documentation are a row, from which the struct, its
//! `Default` and Python's constructor follow.

use super::Rule;
use tensor::nn::{Padding, PerAxis};
use tensor::{Error, Result};

/// A setting's value, as another language passes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Absent on purpose.
    None,
    /// True or false.
    Bool(bool),
    /// A number.
    Float(f64),
    /// A name.
    Text(String),
    /// Several values.
    Tuple(Vec<Value>),
}

/// A type that a setting can have.
pub trait Settable: Sized {
    /// Python's name for the type.
    const PYTHON: &'static str;
    /// The value.
    fn value(&self) -> Value;
    /// The value of this type, if it is one.
    fn of(value: &Value) -> Option<Self>;
}
impl Settable for f64 {
    const PYTHON: &'static str = "float";
    fn value(&self) -> Value {
        Value::Float(*self)
    }
    fn of(value: &Value) -> Option<f64> {
        if let Value::Float(x) = value { Some(*x) } else { None }
    }
}
impl Settable for bool {
    const PYTHON: &'static str = "bool";
    fn value(&self) -> Value {
        Value::Bool(*self)
    }
    fn of(value: &Value) -> Option<bool> {
        if let Value::Bool(x) = value { Some(*x) } else { None }
    }
}
impl Settable for usize {
    const PYTHON: &'static str = "int";
    fn value(&self) -> Value {
        Value::Float(*self as f64)
    }
    fn of(value: &Value) -> Option<usize> {
        f64::of(value).filter(|x| *x >= 0.0 && x.fract() == 0.0).map(|x| x as usize)
    }
}
impl Settable for (f64, f64) {
    const PYTHON: &'static str = "tuple[float, float]";
    fn value(&self) -> Value {
        Value::Tuple(vec![self.0.value(), self.1.value()])
    }
    fn of(value: &Value) -> Option<(f64, f64)> {
        let Value::Tuple(values) = value else { return None };
        let [a, b] = &values[..] else { return None };
        Some((f64::of(a)?, f64::of(b)?))
    }
}
impl Settable for (Option<f64>, f64) {
    const PYTHON: &'static str = "tuple[float | None, float]";
    fn value(&self) -> Value {
        Value::Tuple(vec![self.0.value(), self.1.value()])
    }
    fn of(value: &Value) -> Option<(Option<f64>, f64)> {
        let Value::Tuple(values) = value else { return None };
        let [a, b] = &values[..] else { return None };
        Some((Option::of(a)?, f64::of(b)?))
    }
}
impl Settable for Option<f64> {
    const PYTHON: &'static str = "float | None";
    fn value(&self) -> Value {
        self.map_or(Value::None, Value::Float)
    }
    fn of(value: &Value) -> Option<Option<f64>> {
        if *value == Value::None { Some(None) } else { f64::of(value).map(Some) }
    }
}
impl Settable for Option<usize> {
    const PYTHON: &'static str = "int | None";
    fn value(&self) -> Value {
        self.map_or(Value::None, |n| n.value())
    }
    fn of(value: &Value) -> Option<Option<usize>> {
        if *value == Value::None { Some(None) } else { usize::of(value).map(Some) }
    }
}

impl Settable for Vec<usize> {
    const PYTHON: &'static str = "int | Sequence[int]";
    fn value(&self) -> Value {
        if let [n] = &self[..] { n.value() } else { Value::Tuple(self.iter().map(Settable::value).collect()) }
    }
    fn of(value: &Value) -> Option<Vec<usize>> {
        if let Value::Tuple(all) = value {
            all.iter().map(usize::of).collect()
        } else {
            usize::of(value).map(|n| vec![n])
        }
    }
}
impl Settable for PerAxis {
    const PYTHON: &'static str = Vec::<usize>::PYTHON;
    fn value(&self) -> Value {
        self.sizes().to_vec().value()
    }
    fn of(value: &Value) -> Option<PerAxis> {
        Vec::of(value).map(PerAxis::from)
    }
}
impl Settable for Padding {
    const PYTHON: &'static str = "int | str | Sequence[int]";
    fn value(&self) -> Value {
        match self {
            Padding::Even(widths) => widths.value(),
            Padding::Sides(sides) => {
                let pair = |(a, b): &(i64, i64)| Value::Tuple(vec![Value::Float(*a as f64), Value::Float(*b as f64)]);
                Value::Tuple(sides.iter().map(pair).collect())
            }
            Padding::Named(name) => Value::Text(name.clone()),
        }
    }
    fn of(value: &Value) -> Option<Padding> {
        if let Value::Text(name) = value { Some(name.as_str().into()) } else { PerAxis::of(value).map(Padding::Even) }
    }
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Hyperparameter {
    /// PyTorch's name where it has one.
    pub name: &'static str,
    /// Python's type.
    pub python: &'static str,
    /// The default.
    pub default: Value,
    /// What it is.
    pub doc: &'static str,
}

/// A description with settings.
pub trait Settings: Default {
    /// The settings in the order of the constructor.
    fn settings() -> Vec<Hyperparameter>;
    /// Changes one; false if there is none of this name, an error if the value is of another type.
    fn set(&mut self, name: &str, value: &Value) -> Result<bool>;
    /// With defaults for all optional settings.
    fn given(values: &[(String, Value)]) -> Result<Self> {
        let mut out = Self::default();
        for (name, value) in values {
            if !out.set(name, value)? {
                let known: Vec<&str> = Self::settings().iter().map(|s| s.name).collect();
                return Err(Error::value(format!("there is no setting {name:?}, only {known:?}")));
            }
        }
        Ok(out)
    }
}

/// An optimizer that other languages know by name.
pub struct Row {
    /// Rust's name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its settings.
    pub settings: fn() -> Vec<Hyperparameter>,
    /// The rule with settings.
    pub make: fn(&[(String, Value)]) -> Result<Box<dyn Rule>>,
}

/// Settings of a schedule or layer, as other languages know them.
pub struct Described {
    /// Rust's name.
    pub name: &'static str,
    /// PyTorch's name.
    pub python: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its settings with a default, under PyTorch's names.
    pub settings: fn() -> Vec<Hyperparameter>,
}

/// Defines a struct of which some fields are required and the others have defaults: `new` takes the former, and
/// the latter are rows under PyTorch's names. Fields of a third kind are state.
macro_rules! described {
    (
        $(#[doc = $doc:literal])* $name:ident = $python:literal {
            $($(#[doc = $must_about:literal])* $must:ident: $must_type:ty;)*
            ..
            $($(#[doc = $about:literal])* $field:ident $(as $alias:literal)?: $type:ty = $default:expr;)*
            $(.. $($(#[doc = $state_about:literal])* $state:ident: $state_type:ty = $start:expr;)*)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $must_about])* pub $must: $must_type,)*
            $($(#[doc = $about])* pub $field: $type,)*
            $($($(#[doc = $state_about])* pub $state: $state_type,)*)?
        }
        impl $name {
            /// The settings that have defaults.
            pub const DESCRIBED: $crate::optim::Described = $crate::optim::Described {
                name: stringify!($name),
                python: $python,
                doc: concat!($($doc, "\n"),*),
                settings: || vec![$($crate::optim::Hyperparameter {
                    name: $crate::optim::settings::either!($field $(, $alias)?),
                    python: <$type as $crate::optim::Settable>::PYTHON,
                    default: <$type as $crate::optim::Settable>::value(&$default),
                    doc: concat!($($about),*),
                }),*],
            };
            /// With PyTorch's defaults.
            pub fn new($($must: $must_type),*) -> $name {
                $name { $($must,)* $($field: $default,)* $($($state: $start,)*)? }
            }
        }
    };
}
/// PyTorch's name of a field, where it is another.
macro_rules! either {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident, $alias:literal) => {
        $alias
    };
}
pub(crate) use {described, either};

/// Defines a struct of settings with its defaults; each setting is a row of documentation, name, type and default.
macro_rules! settings {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $about:literal])* $field:ident: $type:ty = $default:expr;)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $about])* pub $field: $type,)*
        }
        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }
        #[allow(dead_code, reason = "options that are no row")]
        impl $name {
            /// The documentation.
            pub const DOC: &'static str = concat!($($doc, "\n"),*);
        }
        impl $crate::optim::Settings for $name {
            fn settings() -> Vec<$crate::optim::Hyperparameter> {
                use $crate::optim::Settable;
                let d = $name::default();
                vec![$($crate::optim::Hyperparameter {
                    name: stringify!($field),
                    python: <$type as Settable>::PYTHON,
                    default: d.$field.value(),
                    doc: concat!($($about),*),
                }),*]
            }
            fn set(&mut self, name: &str, value: &$crate::optim::Value) -> tensor::Result<bool> {
                match name {
                    $(stringify!($field) => match <$type as $crate::optim::Settable>::of(value) {
                        Some(x) => self.$field = x,
                        None => {
                            let e = format!(concat!(stringify!($field), ": expected {}, not {:?}"), <$type as $crate::optim::Settable>::PYTHON, value);
                            return Err(tensor::Error::value(e));
                        }
                    },)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}
pub(crate) use settings;
