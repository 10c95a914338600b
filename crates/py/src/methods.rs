//! The methods of `Tensor` that come from the op table: see `build.rs`.

use crate::convert::{
    AxesArg, Count, DTypeArg, Ints, Like, Likes, Other, PaddingArg, PerAxisArg, ShapeArg, Sizes, Word, arg, either,
    stored,
};
use crate::error::known;
use crate::strict;
use crate::tensor::{PyTensor, arrange, call, call_on};
use ::tensor::linalg::*;
use ::tensor::loss::*;
use ::tensor::nn::*;
use ::tensor::{Axes, Combine, DType, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

include!(concat!(env!("OUT_DIR"), "/methods.rs"));
