//! `MultiheadAttention` and the transformer layers made of it.

use super::rows::{Parameter, Start, layer};
use crate::parallel::next_key;
use crate::{Activation, Dropout, Layer, LayerNorm, Linear, Mode};
use nn_derive::Module;
use tensor::nn::AttentionOptions;
use tensor::{Error, Result, Site, Tensor, Variable};

/// Attention of several heads (Vaswani and others 2017) over `[N, L, width]`.
///
/// ```
/// # use talweg_nn::MultiheadAttention;
/// # use tensor::{Tensor, nn::AttentionOptions};
/// let attention = MultiheadAttention::new(8, 2).unwrap();
/// let (x, memory) = (Tensor::ones([3, 4, 8]), Tensor::ones([3, 6, 8]));
/// let y = attention.forward(&x, &memory, &memory, AttentionOptions::default());
/// assert_eq!(y.dims().unwrap(), [3, 4, 8]);
/// ```
#[derive(Module, Debug)]
pub struct MultiheadAttention {
    /// Queries', keys' and values' weights, `[3 width, width]`.
    pub in_proj_weight: Variable,
    /// Their biases, `[3 width]`.
    pub in_proj_bias: Variable,
    /// From the heads to the result.
    pub out_proj: Linear,
    /// Number of heads.
    pub heads: usize,
    /// Probability that a weight of the attention is dropped, in training.
    pub dropout: f64,
    mode: Mode,
}
layer! {
    AttentionSettings {
        /// Size of queries and results.
        embed_dim: usize;
        /// Number of heads, which divides it.
        num_heads: usize;
        ..
        /// Probability that a weight of the attention is dropped, in training.
        dropout: f64 = 0.0;
        /// Whether the projections have biases.
        bias: bool = true;
    }
}
impl AttentionSettings {
    /// Those of the first projections; that of the result is a [`Linear`] whose bias starts with zeros.
    fn parameters(&self) -> Result<[Parameter; 2]> {
        let (width, heads) = (self.embed_dim, self.num_heads);
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::value(format!("{heads} heads do not divide a width of {width}")));
        }
        let bias = Parameter::new("in_proj_bias", [3 * width], Start::Zeros).only_if(self.bias);
        Ok([Parameter::new("in_proj_weight", [3 * width, width], Start::xavier(width, 3 * width)), bias])
    }
}
impl MultiheadAttention {
    /// `heads` must divide `width`; starts as in PyTorch, without dropout.
    pub fn new(width: usize, heads: usize) -> Result<MultiheadAttention> {
        let settings = AttentionSettings::new(width, heads);
        let [in_proj_weight, in_proj_bias] = settings.parameters().map_err(|e| e.in_op("attention"))?;
        let mut out_proj = Linear::without_bias(width, width)?;
        out_proj.bias = Some(Variable::new("bias", Tensor::zeros([width]))?);
        Ok(MultiheadAttention {
            in_proj_weight: in_proj_weight.variable()?,
            in_proj_bias: in_proj_bias.variable()?,
            out_proj,
            heads,
            dropout: settings.dropout,
            mode: Mode::default(),
        })
    }
    /// With another probability of dropout.
    #[must_use]
    pub fn with_dropout(mut self, p: f64) -> MultiheadAttention {
        self.dropout = p;
        self
    }
    /// Queries `[N, L, width]` with keys and values `[N, S, width]`. A mask is broadcast to
    /// `[N, heads, L, S]`. Dropout that the options ask for goes before the layer's own.
    #[track_caller]
    pub fn forward(&self, q: &Tensor, k: &Tensor, v: &Tensor, mut options: AttentionOptions) -> Tensor {
        let site = Site::here();
        if options.dropout.is_none() && self.dropout > 0.0 && self.mode.is_training() {
            options.dropout = Some((self.dropout, next_key(q)));
        }
        let run = || {
            let (weights, biases) = (self.in_proj_weight.tensor().chunk(3, 0), self.in_proj_bias.tensor().chunk(3, 0));
            let heads = |x: &Tensor, i: usize| -> Result<Tensor> {
                let [n, l, width] = x.dims()?;
                let y = x.linear(&weights[i], Some(&biases[i]));
                Ok(y.reshape([n, l, self.heads, width / self.heads]).transpose(1, 2))
            };
            let y = heads(q, 0)?.attention(&heads(k, 1)?, &heads(v, 2)?, options);
            Ok(self.out_proj.forward(&y.transpose(1, 2).reshape(q.shape()?)))
        };
        site.scope(run).map_err(|e: Error| e.in_op("multihead_attention").at(site)).into()
    }
}

/// Shape of a transformer layer.
#[derive(Clone)]
pub struct TransformerOptions {
    /// Width between the two linear maps.
    pub inner: usize,
    /// Dropout probability of the attention weights, after each sublayer and between the linear
    /// maps.
    pub dropout: f64,
    /// Pre-norm instead of post-norm.
    pub norm_first: bool,
    /// Between the linear maps.
    pub activation: Activation,
}
impl Default for TransformerOptions {
    fn default() -> TransformerOptions {
        let activation = Activation::new("relu", Tensor::relu);
        let TransformerSettings { dim_feedforward: inner, dropout, norm_first, .. } =
            TransformerSettings::new(0usize, 0usize);
        TransformerOptions { inner, dropout, norm_first, activation }
    }
}
layer! {
    TransformerSettings {
        /// Size of inputs and results.
        d_model: usize;
        /// Number of heads.
        nhead: usize;
        ..
        /// Width between the two linear maps.
        dim_feedforward: usize = 2048;
        /// Dropout probability of the attention weights, after each sublayer and between the linear maps.
        dropout: f64 = 0.1;
        /// Pre-norm instead of post-norm.
        norm_first: bool = false;
    }
}
impl TransformerSettings {
    /// None of its own: all belong to the layers inside.
    fn parameters(&self) -> Result<[Parameter; 0]> {
        Ok([])
    }
}

/// x + f(x), normalized before `f` (pre-norm) or after the sum (post-norm).
#[track_caller]
fn residual(x: &Tensor, norm: &LayerNorm, first: bool, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    if first { x + f(&norm.forward(x)) } else { norm.forward(&(x + f(x))) }
}

/// Transformer encoder layer over `[N, L, width]`: self-attention and a feed-forward network, each with a residual
/// connection.
///
/// ```
/// # use talweg_nn::{Layer, TransformerEncoderLayer, TransformerOptions};
/// # use tensor::Tensor;
/// let options = TransformerOptions { inner: 16, ..Default::default() };
/// let layer = TransformerEncoderLayer::new(8, 2, options).unwrap();
/// assert_eq!(layer.forward(&Tensor::ones([3, 4, 8])).dims().unwrap(), [3, 4, 8]);
/// ```
#[derive(Module)]
pub struct TransformerEncoderLayer {
    /// Attention of the sequence with itself.
    pub self_attn: MultiheadAttention,
    /// Widens.
    pub linear1: Linear,
    /// Narrows.
    pub linear2: Linear,
    /// Of the attention.
    pub norm1: LayerNorm,
    /// Of the linear maps.
    pub norm2: LayerNorm,
    dropout: Dropout,
    norm_first: bool,
    activation: Activation,
}
impl TransformerEncoderLayer {
    /// `heads` must divide `width`.
    pub fn new(width: usize, heads: usize, options: TransformerOptions) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            self_attn: MultiheadAttention::new(width, heads)?.with_dropout(options.dropout),
            linear1: Linear::new(width, options.inner)?,
            linear2: Linear::new(options.inner, width)?,
            norm1: LayerNorm::new(&[width])?,
            norm2: LayerNorm::new(&[width])?,
            dropout: Dropout::new(options.dropout),
            norm_first: options.norm_first,
            activation: options.activation,
        })
    }
    /// With a mask, or causal.
    #[track_caller]
    pub fn run(&self, x: &Tensor, options: AttentionOptions) -> Tensor {
        let drop = |x: Tensor| self.dropout.forward(&x);
        let site = Site::here();
        site.scope(|| {
            let x = residual(x, &self.norm1, self.norm_first, |x| drop(self.self_attn.forward(x, x, x, options)));
            let inner = |x: &Tensor| drop(self.activation.forward(&self.linear1.forward(x)));
            residual(&x, &self.norm2, self.norm_first, |x| drop(self.linear2.forward(&inner(x))))
        })
    }
}
impl Layer for TransformerEncoderLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.run(x, AttentionOptions::default())
    }
}

/// Transformer decoder layer: self-attention, cross-attention to a memory and a feed-forward network, each with a
/// residual connection.
///
/// ```
/// # use talweg_nn::{TransformerDecoderLayer, TransformerOptions};
/// # use tensor::{Tensor, nn::AttentionOptions};
/// let layer = TransformerDecoderLayer::new(8, 2, TransformerOptions { inner: 16, ..Default::default() }).unwrap();
/// let causal = AttentionOptions { causal: true, ..Default::default() };
/// let y = layer.forward(&Tensor::ones([3, 4, 8]), &Tensor::ones([3, 6, 8]), causal, AttentionOptions::default());
/// assert_eq!(y.dims().unwrap(), [3, 4, 8]);
/// ```
#[derive(Module)]
pub struct TransformerDecoderLayer {
    /// Attention of the sequence with itself.
    pub self_attn: MultiheadAttention,
    /// Attention to the memory.
    pub multihead_attn: MultiheadAttention,
    /// Widens.
    pub linear1: Linear,
    /// Narrows.
    pub linear2: Linear,
    /// Of the self-attention.
    pub norm1: LayerNorm,
    /// Of the attention to the memory.
    pub norm2: LayerNorm,
    /// Of the linear maps.
    pub norm3: LayerNorm,
    dropout: Dropout,
    norm_first: bool,
    activation: Activation,
}
impl TransformerDecoderLayer {
    /// `heads` must divide `width`.
    pub fn new(width: usize, heads: usize, options: TransformerOptions) -> Result<TransformerDecoderLayer> {
        Ok(TransformerDecoderLayer {
            self_attn: MultiheadAttention::new(width, heads)?.with_dropout(options.dropout),
            multihead_attn: MultiheadAttention::new(width, heads)?.with_dropout(options.dropout),
            linear1: Linear::new(width, options.inner)?,
            linear2: Linear::new(options.inner, width)?,
            norm1: LayerNorm::new(&[width])?,
            norm2: LayerNorm::new(&[width])?,
            norm3: LayerNorm::new(&[width])?,
            dropout: Dropout::new(options.dropout),
            norm_first: options.norm_first,
            activation: options.activation,
        })
    }
    /// A sequence `[N, L, width]` and a memory `[N, S, width]`, with options of both attentions.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor, own: AttentionOptions, cross: AttentionOptions) -> Tensor {
        let drop = |x: Tensor| self.dropout.forward(&x);
        let (m, first) = (memory, self.norm_first);
        let site = Site::here();
        site.scope(|| {
            let x = residual(x, &self.norm1, first, |x| drop(self.self_attn.forward(x, x, x, own)));
            let x = residual(&x, &self.norm2, first, |x| drop(self.multihead_attn.forward(x, m, m, cross)));
            let inner = |x: &Tensor| drop(self.activation.forward(&self.linear1.forward(x)));
            residual(&x, &self.norm3, first, |x| drop(self.linear2.forward(&inner(x))))
        })
    }
}

macro_rules! stack {
    ($name:ident, $layer:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Module)]
        pub struct $name {
            /// The layers, the first one first.
            pub layers: Vec<$layer>,
            /// Of the last layer's result, if there is one.
            pub norm: Option<LayerNorm>,
        }
        impl $name {
            /// So many layers, without a norm at the end; `heads` must divide `width`.
            pub fn new(width: usize, heads: usize, layers: usize, options: TransformerOptions) -> Result<$name> {
                let layer = |_| $layer::new(width, heads, options.clone());
                Ok($name { layers: (0..layers).map(layer).collect::<Result<_>>()?, norm: None })
            }
            /// With a norm at the end, as layers that normalize first need.
            #[must_use]
            pub fn with_norm(mut self, norm: LayerNorm) -> $name {
                self.norm = Some(norm);
                self
            }
            #[track_caller]
            fn normalized(&self, x: Tensor) -> Tensor {
                self.norm.as_ref().map_or_else(|| x.clone(), |n| n.forward(&x))
            }
        }
    };
}
stack!(
    TransformerEncoder,
    TransformerEncoderLayer,
    "Encoder layers on top of each other.

```
# use talweg_nn::{Layer, LayerNorm, TransformerEncoder, TransformerOptions};
# use tensor::Tensor;
let options = TransformerOptions { inner: 16, norm_first: true, ..Default::default() };
let encoder = TransformerEncoder::new(8, 2, 3, options).unwrap().with_norm(LayerNorm::new(&[8]).unwrap());
assert_eq!(encoder.forward(&Tensor::ones([3, 4, 8])).dims().unwrap(), [3, 4, 8]);
```"
);
stack!(TransformerDecoder, TransformerDecoderLayer, "Decoder layers on top of each other, all with the same memory.");

impl TransformerEncoder {
    /// With a mask, or causal, in every layer.
    #[track_caller]
    pub fn run(&self, x: &Tensor, options: AttentionOptions) -> Tensor {
        let site = Site::here();
        site.scope(|| self.normalized(self.layers.iter().fold(x.clone(), |x, l| l.run(&x, options.clone()))))
    }
}
impl Layer for TransformerEncoder {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.run(x, AttentionOptions::default())
    }
}
impl TransformerDecoder {
    /// A sequence `[N, L, width]` and a memory `[N, S, width]`, with options of both attentions of
    /// every layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor, own: AttentionOptions, cross: AttentionOptions) -> Tensor {
        let site = Site::here();
        let step = |x: Tensor, l: &TransformerDecoderLayer| l.forward(&x, memory, own.clone(), cross.clone());
        site.scope(|| self.normalized(self.layers.iter().fold(x.clone(), step)))
    }
}
