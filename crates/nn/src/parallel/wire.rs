//! How elements of collectives travel: as they are, or in fewer bytes.

use super::group::Group;
use dist::Filter;
use std::fmt;
use std::str::FromStr;
use tensor::{Attrs, Combine, Error, Result, Tensor};

/// How the elements of a collective travel. Packed ones are added in `f32`, and their sum is packed
/// once more; everybody ends with the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// As they are.
    #[default]
    Exact,
    /// In two bytes: the upper half of an `f32`.
    Bf16,
    /// In one byte, with a scale for each 256 elements.
    Int8,
}

impl Wire {
    pub(super) fn filter(self) -> Option<Filter> {
        match self {
            Wire::Exact => None,
            Wire::Bf16 => Some(Filter::Bf16),
            Wire::Int8 => Some(Filter::Int8),
        }
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Exact => "exact",
            Wire::Bf16 => "bf16",
            Wire::Int8 => "int8",
        }
    }
    /// That of a node; nodes of which it is not said send elements as they are.
    pub(super) fn of_node(attrs: &Attrs) -> Result<Wire> {
        attrs.str("wire").map_or(Ok(Wire::Exact), str::parse)
    }
}

impl FromStr for Wire {
    type Err = Error;
    fn from_str(s: &str) -> Result<Wire> {
        match s {
            "exact" => Ok(Wire::Exact),
            "bf16" | "bfloat16" => Ok(Wire::Bf16),
            "int8" => Ok(Wire::Int8),
            _ => Err(Error::value(format!("wire must be exact, bf16 or int8, not {s:?}"))),
        }
    }
}
impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Collectives of a group that send elements in fewer bytes, for `f32` tensors; gradients go the same
/// way. What packing leaves out is lost: a sum over many steps, as of gradients, is better off with
/// `talweg launch --wire`, which adds it to the next one.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    pub(super) group: &'a Group,
    pub(super) wire: Wire,
}

impl Packed<'_> {
    /// [`Group::all_reduce`] by sum or mean.
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, how: Combine) -> Tensor {
        self.group.all_reduced(x, how, self.wire)
    }
    /// [`Group::reduce_scatter`] by sum or mean.
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, how: Combine, axis: i64) -> Tensor {
        self.group.reduce_scattered(x, how, axis, self.wire)
    }
    /// [`Group::all_gather`]; this rank's own tensor comes back as the others see it.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, axis: i64) -> Tensor {
        self.group.all_gathered(x, axis, self.wire)
    }
}
