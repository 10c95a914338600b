//! `Sample`: what a data set answers for one index: a short list of values,
//! each with or without a name.

use std::sync::Arc;

use crate::array::Array;
use crate::error::{Error, Result};

/// One value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Numbers.
    Array(Array),
    /// Text, for tokenizers further down.
    Text(String),
}

impl From<Array> for Value {
    fn from(array: Array) -> Self {
        Value::Array(array)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

/// A name of a field; cheap to copy, since every sample carries its own.
pub type Name = Arc<str>;

/// The values that belong to one index of a data set, in order.
///
/// ```
/// use talweg_data::{Array, Sample};
/// let named = Sample::new()
///     .with("image", Array::vector(vec![0u8; 4]))
///     .with("label", Array::scalar(3i64));
/// assert_eq!(named.array("label")?.integer()?, 3);
///
/// let positional = Sample::from([Array::scalar(1.0f32), Array::scalar(2.0f32)]);
/// assert_eq!(positional.at(1)?.values::<f32>()?, [2.0]);
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    fields: Vec<(Option<Name>, Value)>,
}

impl Sample {
    /// A sample without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// This sample with one more named value; a value of the same name is
    /// replaced and keeps its place.
    #[must_use]
    pub fn with(mut self, name: impl Into<Name>, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets the value of that name, at the end if it is new.
    pub fn set(&mut self, name: impl Into<Name>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.position(&name) {
            Some(place) => self.fields[place].1 = value,
            None => self.fields.push((Some(name), value)),
        }
    }

    /// Appends a value without a name.
    pub fn push(&mut self, value: impl Into<Value>) {
        self.fields.push((None, value.into()));
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Names and values in order.
    pub fn fields(&self) -> impl Iterator<Item = (Option<&Name>, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// The value called `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).map(|place| &self.fields[place].1)
    }

    /// The array called `name`.
    ///
    /// # Errors
    /// If there is no such value, or it is text.
    pub fn array(&self, name: &str) -> Result<&Array> {
        match self.get(name) {
            Some(Value::Array(array)) => Ok(array),
            Some(Value::Text(_)) => Err(Error::mismatch(format!("field {name:?} is text, not an array"))),
            None => Err(self.unknown(name)),
        }
    }

    /// The text called `name`.
    ///
    /// # Errors
    /// If there is no such value, or it is an array.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Array(_)) => Err(Error::mismatch(format!("field {name:?} is an array, not text"))),
            None => Err(self.unknown(name)),
        }
    }

    /// The array at a position.
    ///
    /// # Errors
    /// If there is no such value, or it is text.
    pub fn at(&self, position: usize) -> Result<&Array> {
        match self.fields.get(position) {
            Some((_, Value::Array(array))) => Ok(array),
            Some((_, Value::Text(_))) => Err(Error::mismatch(format!("field {position} is text, not an array"))),
            None => Err(Error::mismatch(format!("there is no field {position}: the sample has {}", self.len()))),
        }
    }

    /// Takes the value called `name` out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.position(name).map(|place| self.fields.remove(place).1)
    }

    /// Names and values in order, owned.
    pub fn into_fields(self) -> Vec<(Option<Name>, Value)> {
        self.fields
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(known, _)| known.as_deref() == Some(name))
    }

    fn unknown(&self, name: &str) -> Error {
        let known: Vec<&str> = self.fields.iter().filter_map(|f| f.0.as_deref()).collect();
        Error::mismatch(format!("there is no field {name:?}, only {known:?}"))
    }
}

impl<const N: usize> From<[Array; N]> for Sample {
    fn from(arrays: [Array; N]) -> Self {
        let fields = arrays.into_iter().map(|array| (None, Value::Array(array))).collect();
        Sample { fields }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_named() {
        let mut sample = Sample::new().with("a", Array::scalar(1u8)).with("b", "text");
        let wrong = sample.array("c").unwrap_err().to_string();
        assert_eq!(wrong, r#"there is no field "c", only ["a", "b"]"#);
        assert!(sample.array("b").unwrap_err().to_string().contains("is text"));
        assert!(sample.text("a").unwrap_err().to_string().contains("is an array"));
        assert!(sample.at(2).unwrap_err().to_string().contains("the sample has 2"));
        sample.set("a", Array::scalar(2u8));
        assert_eq!((sample.len(), sample.at(0).unwrap().integer().unwrap()), (2, 2));
        assert_eq!(sample.take("b"), Some(Value::from("text")));
        assert!(sample.get("b").is_none());
    }
}
