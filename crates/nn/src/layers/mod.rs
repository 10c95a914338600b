//! Layers, one file each; parameter names are PyTorch's.

mod conv;
mod dropout;
mod embedding;
mod linear;
mod norm;
mod sequential;

pub use conv::{Conv1d, Conv2d, Conv3d};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use sequential::{Activation, Sequential};
