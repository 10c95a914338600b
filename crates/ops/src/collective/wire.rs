//! How elements of collectives are encoded on the wire: exactly, or in fewer bytes.

use crate::{Attrs, Error, Result};
use std::fmt;
use std::str::FromStr;

/// How the elements of a collective are encoded on the wire. Encoded ones are added in `f32`, and their
/// sum is encoded once more; every rank ends with the same bits.
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
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Exact => "exact",
            Wire::Bf16 => "bf16",
            Wire::Int8 => "int8",
        }
    }
    /// That of a node; exact if the node does not say.
    pub fn of_node(attrs: &Attrs) -> Result<Wire> {
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
