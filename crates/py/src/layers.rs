//! The layers of `nn` behind one class: made by name and settings, with their parameters and
//! results. Their Python classes, with PyTorch's signatures, are in `talweg/nn`.

use crate::convert::{Ints, Like, PaddingArg, PerAxisArg, Sizes, refused};
use crate::error::OrRaise;
use crate::error::{named, type_error, value_error};
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use ::tensor::nn::{AttentionOptions, AvgPoolOptions, ConvOptions, MaxPoolOptions, PerAxis};
use ::tensor::{Error, Result, Tensor};
use nn::{Entry, Layer, Mode, Module, RecurrentOptions, TransformerOptions};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// What goes into a layer beside its first tensor.
struct Inputs {
    tensors: Vec<Tensor>,
    mask: Option<Tensor>,
    memory_mask: Option<Tensor>,
    lengths: Option<Tensor>,
    memory_lengths: Option<Tensor>,
    causal: bool,
}
impl Inputs {
    fn get(&self, i: usize) -> Result<&Tensor> {
        let missing =
            || Error::value(format!("takes at least {} tensors, but {} were given", i + 1, self.tensors.len()));
        self.tensors.get(i).ok_or_else(missing)
    }
    fn options(&self) -> AttentionOptions {
        let key_lengths = self.lengths.clone();
        AttentionOptions { mask: self.mask.clone(), causal: self.causal, key_lengths, ..Default::default() }
    }
    fn cross(&self) -> AttentionOptions {
        let key_lengths = self.memory_lengths.clone();
        AttentionOptions { mask: self.memory_mask.clone(), key_lengths, ..Default::default() }
    }
}

type Run<L> = fn(&L, &Inputs) -> Result<Vec<Tensor>>;

/// A layer with how it is run.
struct Made<L> {
    layer: L,
    run: Run<L>,
}
trait Any: Send + Sync {
    fn module(&self) -> &dyn Module;
    fn run(&self, inputs: &Inputs) -> Result<Vec<Tensor>>;
}
impl<L: Module + Send + Sync> Any for Made<L> {
    fn module(&self) -> &dyn Module {
        &self.layer
    }
    fn run(&self, inputs: &Inputs) -> Result<Vec<Tensor>> {
        (self.run)(&self.layer, inputs)
    }
}

fn simple<L: Layer + Send + Sync + 'static>(layer: L) -> Box<dyn Any> {
    Box::new(Made { layer, run: |l: &L, x| Ok(vec![l.forward(x.get(0)?)]) })
}
fn with<L: Module + Send + Sync + 'static>(layer: L, run: Run<L>) -> Box<dyn Any> {
    Box::new(Made { layer, run })
}

/// The settings a layer is made with.
struct Settings<'a, 'py>(&'a Bound<'py, PyDict>);
impl<'py> Settings<'_, 'py> {
    fn get<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str) -> PyResult<T> {
        match self.0.get_item(name)? {
            Some(x) => x.extract::<T>().map_err(|e| {
                let e: PyErr = e.into();
                let is_size = e.is_instance_of::<PyOverflowError>(x.py());
                if is_size {
                    refused(x.py(), format!("{name} must be a size, not {x}"))
                } else {
                    named(x.py(), name, e)
                }
            }),
            None => Err(type_error(format!("the setting {name} is missing"))),
        }
    }
    fn window<const N: usize>(&self, name: &str) -> PyResult<[usize; N]> {
        let sizes = self.get::<Sizes>(name)?.0;
        match sizes.len() {
            1 => Ok([sizes[0]; N]),
            n => sizes.try_into().map_err(|_| refused(self.0.py(), format!("{name} has {n} sizes, not {N}"))),
        }
    }
    fn conv(&self, has_output_padding: bool) -> PyResult<ConvOptions> {
        let plain = ConvOptions {
            stride: self.get::<PerAxisArg>("stride")?.0,
            padding: self.get::<PaddingArg>("padding")?.0,
            dilation: self.get::<PerAxisArg>("dilation")?.0,
            groups: self.get("groups")?,
            ..ConvOptions::default()
        };
        if !has_output_padding {
            return Ok(plain);
        }
        Ok(ConvOptions { output_padding: self.get::<PerAxisArg>("output_padding")?.0, ..plain })
    }
    fn max_pool(&self) -> PyResult<(PerAxis, MaxPoolOptions)> {
        let options = MaxPoolOptions {
            stride: self.get::<Option<PerAxisArg>>("stride")?.map(|s| s.0),
            padding: self.get::<PerAxisArg>("padding")?.0,
            dilation: self.get::<PerAxisArg>("dilation")?.0,
            ceil_mode: self.get("ceil_mode")?,
        };
        Ok((self.get::<PerAxisArg>("kernel_size")?.0, options))
    }
    fn avg_pool(&self) -> PyResult<(PerAxis, AvgPoolOptions)> {
        let options = AvgPoolOptions {
            stride: self.get::<Option<PerAxisArg>>("stride")?.map(|s| s.0),
            padding: self.get::<PerAxisArg>("padding")?.0,
            ceil_mode: self.get("ceil_mode")?,
            count_include_pad: self.get("count_include_pad")?,
            ..AvgPoolOptions::default()
        };
        Ok((self.get::<PerAxisArg>("kernel_size")?.0, options))
    }
    fn recurrent(&self) -> PyResult<RecurrentOptions> {
        Ok(RecurrentOptions {
            layers: self.get("num_layers")?,
            batch_first: self.get("batch_first")?,
            bias: self.get("bias")?,
            bidirectional: self.get("bidirectional")?,
            dropout: self.get("dropout")?,
        })
    }
    fn transformer(&self) -> PyResult<TransformerOptions> {
        let name: String = self.get("activation")?;
        let activation = match name.as_str() {
            "relu" => nn::Activation::new("relu", Tensor::relu),
            "gelu" => nn::Activation::new("gelu", Tensor::gelu),
            "silu" => nn::Activation::new("silu", Tensor::silu),
            other => return Err(refused(self.0.py(), format!("expected relu, gelu or silu, not {other:?}"))),
        };
        Ok(TransformerOptions {
            inner: self.get("dim_feedforward")?,
            dropout: self.get("dropout")?,
            norm_first: self.get("norm_first")?,
            activation,
        })
    }
}

/// A recurrent layer's results: every step, then the last state.
macro_rules! recurrent {
    ($py:expr, $s:expr, $layer:ident) => {{
        let l = nn::$layer::with($s.get("input_size")?, $s.get("hidden_size")?, $s.recurrent()?).or_raise($py)?;
        with(l, |l: &nn::$layer, x: &Inputs| {
            let state = (x.tensors.len() > 1).then(|| &x.tensors[1..]);
            let (y, last) = match &x.lengths {
                None => l.run(x.get(0)?, state)?,
                Some(lengths) => l.run_lengths(x.get(0)?, lengths, state)?,
            };
            Ok([vec![y], last].concat())
        })
    }};
}
macro_rules! conv {
    ($py:expr, $s:expr, $layer:ident, $transposed:literal) => {{
        let kernel = $s.window("kernel_size")?;
        let (inputs, outputs, bias) = ($s.get("in_channels")?, $s.get("out_channels")?, $s.get("bias")?);
        let make = if bias { nn::$layer::with } else { nn::$layer::without_bias };
        simple(make(inputs, outputs, kernel, $s.conv($transposed)?).or_raise($py)?)
    }};
}
macro_rules! pool {
    ($s:expr, $layer:ident, $options:ident) => {{
        let (window, options) = $s.$options()?;
        simple(nn::$layer::with(window, options))
    }};
}
macro_rules! adaptive {
    ($s:expr, $layer:ident) => {
        simple(nn::$layer::new($s.get::<PerAxisArg>("output_size")?.0))
    };
}

/// Layers without attention or state.
fn plain(py: Python<'_>, kind: &str, s: &Settings) -> PyResult<Option<Box<dyn Any>>> {
    Ok(Some(match kind {
        "Linear" => {
            let (i, o) = (s.get("in_features")?, s.get("out_features")?);
            let l = if s.get("bias")? { nn::Linear::new(i, o) } else { nn::Linear::without_bias(i, o) };
            simple(l.or_raise(py)?)
        }
        "Conv1d" => conv!(py, s, Conv1d, false),
        "Conv2d" => conv!(py, s, Conv2d, false),
        "Conv3d" => conv!(py, s, Conv3d, false),
        "ConvTranspose1d" => conv!(py, s, ConvTranspose1d, true),
        "ConvTranspose2d" => conv!(py, s, ConvTranspose2d, true),
        "ConvTranspose3d" => conv!(py, s, ConvTranspose3d, true),
        "MaxPool1d" => pool!(s, MaxPool1d, max_pool),
        "MaxPool2d" => pool!(s, MaxPool2d, max_pool),
        "MaxPool3d" => pool!(s, MaxPool3d, max_pool),
        "AvgPool1d" => pool!(s, AvgPool1d, avg_pool),
        "AvgPool2d" => pool!(s, AvgPool2d, avg_pool),
        "AvgPool3d" => pool!(s, AvgPool3d, avg_pool),
        "AdaptiveAvgPool1d" => adaptive!(s, AdaptiveAvgPool1d),
        "AdaptiveAvgPool2d" => adaptive!(s, AdaptiveAvgPool2d),
        "AdaptiveAvgPool3d" => adaptive!(s, AdaptiveAvgPool3d),
        "AdaptiveMaxPool1d" => adaptive!(s, AdaptiveMaxPool1d),
        "AdaptiveMaxPool2d" => adaptive!(s, AdaptiveMaxPool2d),
        "AdaptiveMaxPool3d" => adaptive!(s, AdaptiveMaxPool3d),
        "Flatten" => simple(nn::Flatten::new(s.get("start_dim")?, s.get("end_dim")?)),
        "Dropout" => simple(nn::Dropout::new(s.get("p")?)),
        "Embedding" => simple(nn::Embedding::new(s.get("num_embeddings")?, s.get("embedding_dim")?).or_raise(py)?),
        "LayerNorm" => {
            let shape = s.get::<Sizes>("normalized_shape")?.0;
            let l = if s.get("bias")? { nn::LayerNorm::new(&shape) } else { nn::LayerNorm::without_bias(&shape) };
            let mut l = l.or_raise(py)?;
            l.eps = s.get("eps")?;
            simple(l)
        }
        "RMSNorm" => {
            let mut l = nn::RmsNorm::new(&s.get::<Sizes>("normalized_shape")?.0).or_raise(py)?;
            l.eps = s.get("eps")?;
            simple(l)
        }
        "GroupNorm" => {
            let mut l = nn::GroupNorm::new(s.get("num_groups")?, s.get("num_channels")?).or_raise(py)?;
            l.eps = s.get("eps")?;
            simple(l)
        }
        "BatchNorm" => {
            let mut l = nn::BatchNorm::new(s.get("num_features")?).or_raise(py)?;
            (l.eps, l.momentum) = (s.get("eps")?, s.get("momentum")?);
            simple(l)
        }
        _ => return Ok(None),
    }))
}

/// Layers that take several tensors.
fn joined(py: Python<'_>, kind: &str, s: &Settings) -> PyResult<Option<Box<dyn Any>>> {
    Ok(Some(match kind {
        "RNN" => recurrent!(py, s, Rnn),
        "LSTM" => recurrent!(py, s, Lstm),
        "GRU" => recurrent!(py, s, Gru),
        "MultiheadAttention" => {
            let l = nn::MultiheadAttention::new(s.get("embed_dim")?, s.get("num_heads")?).or_raise(py)?;
            let l = l.with_dropout(s.get("dropout")?);
            with(l, |l, x| Ok(vec![l.forward(x.get(0)?, x.get(1)?, x.get(2)?, x.options())]))
        }
        "TransformerEncoderLayer" => {
            let l =
                nn::TransformerEncoderLayer::new(s.get("d_model")?, s.get("nhead")?, s.transformer()?).or_raise(py)?;
            with(l, |l, x| Ok(vec![l.run(x.get(0)?, x.options())]))
        }
        "TransformerEncoder" => {
            let (width, heads, count) = (s.get("d_model")?, s.get("nhead")?, s.get("num_layers")?);
            let l = nn::TransformerEncoder::new(width, heads, count, s.transformer()?).or_raise(py)?;
            let l = if s.get("norm")? { l.with_norm(nn::LayerNorm::new(&[width]).or_raise(py)?) } else { l };
            with(l, |l, x| Ok(vec![l.run(x.get(0)?, x.options())]))
        }
        "TransformerDecoderLayer" => {
            let l =
                nn::TransformerDecoderLayer::new(s.get("d_model")?, s.get("nhead")?, s.transformer()?).or_raise(py)?;
            with(l, |l, x| Ok(vec![l.forward(x.get(0)?, x.get(1)?, x.options(), x.cross())]))
        }
        "TransformerDecoder" => {
            let (width, heads, count) = (s.get("d_model")?, s.get("nhead")?, s.get("num_layers")?);
            let l = nn::TransformerDecoder::new(width, heads, count, s.transformer()?).or_raise(py)?;
            let l = if s.get("norm")? { l.with_norm(nn::LayerNorm::new(&[width]).or_raise(py)?) } else { l };
            with(l, |l, x| Ok(vec![l.forward(x.get(0)?, x.get(1)?, x.options(), x.cross())]))
        }
        "GCN" => {
            let l = nn::Gcn::new(s.get("in_channels")?, s.get("out_channels")?).or_raise(py)?;
            with(l, |l, x| Ok(vec![l.forward(x.get(0)?, x.get(1)?)]))
        }
        "GAT" => {
            let (i, o, heads) = (s.get("in_channels")?, s.get("out_channels")?, s.get("heads")?);
            let l = if s.get("concat")? { nn::Gat::new(i, o, heads) } else { nn::Gat::averaged(i, o, heads) };
            with(l.or_raise(py)?, |l, x| Ok(vec![l.forward(x.get(0)?, x.get(1)?)]))
        }
        _ => return Ok(None),
    }))
}

/// A layer of the Rust side.
#[pyclass(name = "Layer", module = "talweg._native", frozen)]
struct PyLayer(Box<dyn Any>);

#[pymethods]
impl PyLayer {
    #[new]
    fn new(py: Python<'_>, kind: &str, settings: &Bound<'_, PyDict>) -> PyResult<PyLayer> {
        let s = Settings(settings);
        let make = || match plain(py, kind, &s)? {
            Some(l) => Ok(Some(l)),
            None => joined(py, kind, &s),
        };
        match here(py).scope(make)? {
            Some(l) => Ok(PyLayer(l)),
            None => Err(value_error(format!("there is no layer {kind:?}"))),
        }
    }
    /// Paths and variables, and whether each is trained.
    fn state(&self) -> Vec<(String, PyTensor, bool)> {
        let mut out = Vec::new();
        self.0.module().visit("", &mut |path: &str, e: Entry| match e {
            Entry::Parameter(v) => out.push((path.to_string(), PyTensor::from(v.clone()), true)),
            Entry::Buffer(v) => out.push((path.to_string(), PyTensor::from(v.clone()), false)),
            Entry::Mode(_) => {}
        });
        out
    }
    /// Switches to training or inference.
    fn train(&self, on: bool) {
        self.0.module().train(on);
    }
    /// Its results.
    #[pyo3(signature = (*tensors, mask=None, memory_mask=None, lengths=None, memory_lengths=None, causal=false))]
    fn __call__(
        &self,
        py: Python<'_>,
        tensors: Vec<Like>,
        mask: Option<Like>,
        memory_mask: Option<Like>,
        lengths: Option<Like>,
        memory_lengths: Option<Like>,
        causal: bool,
    ) -> PyResult<Vec<Py<PyTensor>>> {
        let tensors = tensors.into_iter().map(|t| t.0).collect();
        let given = |x: Option<Like>| x.map(|x| x.0);
        let (mask, memory_mask) = (given(mask), given(memory_mask));
        let (lengths, memory_lengths) = (given(lengths), given(memory_lengths));
        let inputs = Inputs { tensors, mask, memory_mask, lengths, memory_lengths, causal };
        let site = here(py);
        let outs = site.scope(|| self.0.run(&inputs)).map_err(|e| e.at(site)).or_raise(py)?;
        outs.into_iter().map(|t| wrap(py, t)).collect()
    }
}

/// Initial values by name: `xavier_uniform`, `kaiming_normal` and the like.
#[pyfunction]
#[pyo3(signature = (kind, shape, gain=1.0))]
fn initial(py: Python<'_>, kind: &str, shape: Ints, gain: f64) -> PyResult<Py<PyTensor>> {
    use nn::init;
    let sizes: Vec<usize> = shape.0.iter().map(|&d| d.max(0) as usize).collect();
    let t = here(py).scope(|| {
        Some(match kind {
            "uniform" => init::uniform(sizes, gain),
            "xavier_uniform" => init::xavier_uniform(sizes, gain),
            "xavier_normal" => init::xavier_normal(sizes, gain),
            "kaiming_uniform" => init::kaiming_uniform(sizes, gain),
            "kaiming_normal" => init::kaiming_normal(sizes, gain),
            "truncated_normal" => init::truncated_normal(sizes, gain),
            "orthogonal" => init::orthogonal(sizes, gain),
            _ => return None,
        })
    });
    wrap(py, t.ok_or_else(|| value_error(format!("there are no initial values {kind:?}")))?)
}

/// Whether a module behaves as in training. A jitted function that asks is traced for each answer.
#[pyclass(name = "Mode", module = "talweg._native", frozen)]
struct PyMode(Mode);

#[pymethods]
impl PyMode {
    #[new]
    #[pyo3(signature = (training=true))]
    fn new(training: bool) -> PyMode {
        PyMode(Mode::new(training))
    }
    #[getter]
    fn training(&self) -> bool {
        self.0.is_training()
    }
    #[setter]
    fn set_training(&self, on: bool) {
        self.0.set_training(on);
    }
    fn __reduce__<'py>(slf: &Bound<'py, PyMode>) -> (Bound<'py, PyType>, (bool,)) {
        (slf.get_type(), (slf.get().training(),))
    }
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyMode>()?;
    m.add_class::<PyLayer>()?;
    m.add_function(wrap_pyfunction!(initial, m)?)
}
