//! Layers with parameters, described once: their settings with defaults, and the shapes and initial values of their
//! parameters. Constructors in Rust and in Python take them from here.

use super::*;
use crate::init;
use crate::optim::{Hyperparameter, Settable, Value};
use tensor::{Error, Result, Tensor, Variable};

/// The initial distribution of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Uniform in ±bound.
    Uniform(f64),
    /// Standard normal.
    Normal,
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
}
impl Start {
    /// Uniform in ±1/√inputs, as PyTorch's linear maps start.
    pub(super) fn by_inputs(inputs: usize) -> Start {
        Start::Uniform(if inputs == 0 { 0.0 } else { 1.0 / (inputs as f64).sqrt() })
    }
    /// Uniform, by Glorot and Bengio (2010).
    pub(super) fn xavier(inputs: usize, outputs: usize) -> Start {
        Start::Uniform((6.0 / (inputs + outputs) as f64).sqrt())
    }
    fn values(self, shape: &[usize]) -> Tensor {
        match self {
            Start::Uniform(bound) => init::uniform(shape, bound),
            Start::Normal => Tensor::randn(shape),
            Start::Zeros => Tensor::zeros(shape),
            Start::Ones => Tensor::ones(shape),
        }
    }
}

/// A parameter or buffer of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// PyTorch's name.
    pub name: String,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its initial distribution.
    pub start: Start,
    /// False where the settings leave it out.
    pub is_present: bool,
    /// Part of the state, but not trained.
    pub is_buffer: bool,
}
impl Parameter {
    pub(super) fn new(name: impl Into<String>, shape: impl Into<Vec<usize>>, start: Start) -> Parameter {
        Parameter { name: name.into(), shape: shape.into(), start, is_present: true, is_buffer: false }
    }
    pub(super) fn buffer(name: &str, shape: impl Into<Vec<usize>>, start: Start) -> Parameter {
        Parameter { is_buffer: true, ..Parameter::new(name, shape, start) }
    }
    pub(super) fn only_if(self, is_present: bool) -> Parameter {
        Parameter { is_present, ..self }
    }
    /// The variable with its initial value.
    pub(super) fn variable(&self) -> Result<Variable> {
        let value = self.start.values(&self.shape);
        if self.is_buffer { Variable::buffer(&self.name, value) } else { Variable::new(&self.name, value) }
    }
    /// The variable, unless the settings leave it out.
    pub(super) fn optional(&self) -> Result<Option<Variable>> {
        self.is_present.then(|| self.variable()).transpose()
    }
}

/// A layer that both languages know.
pub struct Row {
    /// PyTorch's name.
    pub name: &'static str,
    /// The sizes that a constructor must get: name, Python's type and documentation.
    pub required: &'static [(&'static str, &'static str, &'static str)],
    /// Its settings with defaults.
    pub settings: fn() -> Vec<Hyperparameter>,
    /// The layer's own parameters and buffers; those of layers inside have rows of their own.
    pub parameters: fn(&[(String, Value)]) -> Result<Vec<Parameter>>,
}

/// A setting by name, or None if it was not given.
pub(super) fn given<T: Settable>(values: &[(String, Value)], name: &str) -> Result<Option<T>> {
    let Some((_, value)) = values.iter().find(|(n, _)| n == name) else { return Ok(None) };
    let wrong = || Error::value(format!("{name}: expected {}, not {value:?}", T::PYTHON));
    T::of(value).map(Some).ok_or_else(wrong)
}
pub(super) fn required<T: Settable>(values: &[(String, Value)], name: &str) -> Result<T> {
    given(values, name)?.ok_or_else(|| Error::value(format!("{name} is missing")))
}

/// Defines the settings of a layer under PyTorch's names: the required ones, then those with defaults. `parameters` is
/// written beside it.
macro_rules! layer {
    (
        $(#[doc = $doc:literal])* $name:ident {
            $($(#[doc = $must_about:literal])* $must:ident: $must_type:ty;)*
            ..
            $($(#[doc = $about:literal])* $field:ident: $type:ty = $default:expr;)*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        #[allow(dead_code, reason = "some settings change no parameter")]
        pub(super) struct $name {
            $($(#[doc = $must_about])* pub $must: $must_type,)*
            $($(#[doc = $about])* pub $field: $type,)*
        }
        impl $name {
            /// With PyTorch's defaults.
            #[allow(dead_code, reason = "layers of one family share the settings of one")]
            pub fn new($($must: impl Into<$must_type>),*) -> $name {
                $name { $($must: $must.into(),)* $($field: $default,)* }
            }
            const REQUIRED: &'static [(&'static str, &'static str, &'static str)] =
                &[$((stringify!($must), <$must_type as $crate::optim::Settable>::PYTHON, concat!($($must_about),*))),*];
            pub const fn row(name: &'static str) -> $crate::layers::rows::Row {
                $crate::layers::rows::Row {
                    name,
                    required: $name::REQUIRED,
                    settings: || vec![$($crate::optim::Hyperparameter {
                        name: stringify!($field),
                        python: <$type as $crate::optim::Settable>::PYTHON,
                        default: <$type as $crate::optim::Settable>::value(&$default),
                        doc: concat!($($about),*),
                    }),*],
                    parameters: |values| {
                        let settings = $name {
                            $($must: $crate::layers::rows::required(values, stringify!($must))?,)*
                            $($field: $crate::layers::rows::given(values, stringify!($field))?.unwrap_or($default),)*
                        };
                        Ok(settings.parameters()?.into())
                    },
                }
            }
        }
    };
}
pub(super) use layer;

/// The layers.
pub static ROWS: &[Row] = &[
    linear::LinearSettings::row("Linear"),
    bilinear::BilinearSettings::row("Bilinear"),
    linear_cross_entropy::LinearCrossEntropySettings::row("LinearCrossEntropyLoss"),
    conv::ConvSettings::row("Conv1d"),
    conv::ConvSettings::row("Conv2d"),
    conv::ConvSettings::row("Conv3d"),
    conv::ConvTransposeSettings::row("ConvTranspose1d"),
    conv::ConvTransposeSettings::row("ConvTranspose2d"),
    conv::ConvTransposeSettings::row("ConvTranspose3d"),
    embedding::EmbeddingSettings::row("Embedding"),
    norm::LayerNormSettings::row("LayerNorm"),
    norm::RmsNormSettings::row("RMSNorm"),
    norm::GroupNormSettings::row("GroupNorm"),
    norm::BatchNormSettings::row("BatchNorm1d"),
    norm::BatchNormSettings::row("BatchNorm2d"),
    norm::BatchNormSettings::row("BatchNorm3d"),
    recurrent::RnnSettings::row("RNN"),
    recurrent::LstmSettings::row("LSTM"),
    recurrent::GruSettings::row("GRU"),
    attention::AttentionSettings::row("MultiheadAttention"),
    attention::TransformerSettings::row("TransformerEncoderLayer"),
    attention::TransformerSettings::row("TransformerDecoderLayer"),
    graph::GcnSettings::row("GCN"),
    graph::GatSettings::row("GAT"),
];
