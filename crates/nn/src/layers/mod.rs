//! Layers, one file each; parameter names are PyTorch's.

mod attention;
mod bilinear;
mod conv;
mod dropout;
mod embedding;
mod graph;
mod linear;
mod linear_cross_entropy;
mod norm;
mod pool;
mod quantized;
mod recurrent;
pub mod rows;
mod sequential;

pub use attention::{
    MultiheadAttention, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions,
};
pub use bilinear::Bilinear;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use graph::{Gat, Gcn};
pub use linear::Linear;
pub use linear_cross_entropy::LinearCrossEntropyLoss;
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool1d, AvgPool2d, AvgPool3d, Flatten, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use quantized::QuantizedLinear;
pub use recurrent::{Gru, Lstm, RecurrentOptions, Rnn};
pub use sequential::{Activation, Gelu, Relu, Sequential, Sigmoid, Silu, Tanh};
