//! A data set that lies in memory: arrays and texts with the samples along the
//! first axis. The readers of tables and IDX files produce it.

use crate::array::Array;
use crate::dataset::{Dataset, check_label};
use crate::error::{Error, Result};
use crate::sample::{Name, Sample, Value};

/// Named fields of equally many samples.
///
/// ```
/// use talweg_data::{Array, Dataset, Memory};
/// let xor = Memory::new()
///     .with("x", Array::new(vec![0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[4, 2])?)?
///     .with("y", Array::vector(vec![0i64, 1, 1, 0]))?;
/// assert_eq!(xor.len(), 4);
/// assert_eq!(xor.get(2)?.array("x")?.values::<f32>()?, [1.0, 0.0]);
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memory {
    fields: Vec<(Name, Rows)>,
    classes: Vec<(Name, Vec<String>)>,
}

#[derive(Clone, Debug)]
enum Rows {
    /// Samples along the first axis.
    Array(Array),
    /// Samples of different shapes.
    Ragged(Vec<Array>),
    Texts(Vec<String>),
}

impl Rows {
    fn len(&self) -> usize {
        match self {
            Rows::Array(array) => array.shape()[0],
            Rows::Ragged(arrays) => arrays.len(),
            Rows::Texts(texts) => texts.len(),
        }
    }

    fn get(&self, index: usize) -> Result<Value> {
        Ok(match self {
            Rows::Array(array) => Value::Array(array.row(index)?),
            Rows::Ragged(arrays) => Value::Array(arrays[index].clone()),
            Rows::Texts(texts) => Value::Text(texts[index].clone()),
        })
    }
}

impl Memory {
    /// A data set without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array with the samples along its first axis.
    ///
    /// # Errors
    /// If the array is a scalar, has another number of samples than the fields
    /// before it, or the name is taken.
    pub fn with(self, name: impl Into<Name>, array: Array) -> Result<Self> {
        if array.shape().is_empty() {
            return Err(Error::mismatch("a field needs a first axis for the samples, found a scalar"));
        }
        self.add(name.into(), Rows::Array(array))
    }

    /// Adds one array a sample; they may differ in shape.
    ///
    /// # Errors
    /// If the number of samples differs, or the name is taken.
    pub fn with_ragged(self, name: impl Into<Name>, arrays: Vec<Array>) -> Result<Self> {
        self.add(name.into(), Rows::Ragged(arrays))
    }

    /// Adds one text a sample.
    ///
    /// # Errors
    /// If the number of samples differs, or the name is taken.
    pub fn with_texts(self, name: impl Into<Name>, texts: Vec<String>) -> Result<Self> {
        self.add(name.into(), Rows::Texts(texts))
    }

    /// Names the classes that the labels of a field stand for.
    #[must_use]
    pub fn with_classes(mut self, name: impl Into<Name>, classes: Vec<String>) -> Self {
        self.classes.push((name.into(), classes));
        self
    }

    /// The classes that the labels of a field stand for, if they are known.
    pub fn classes(&self, name: &str) -> Option<&[String]> {
        self.classes.iter().find(|(known, _)| &**known == name).map(|(_, classes)| classes.as_slice())
    }

    /// All samples of an array field at once.
    ///
    /// # Errors
    /// If there is no such field, or it is not one array.
    pub fn array(&self, name: &str) -> Result<&Array> {
        match self.fields.iter().find(|(known, _)| &**known == name) {
            Some((_, Rows::Array(array))) => Ok(array),
            Some(_) => Err(Error::mismatch(format!("field {name:?} is not one array"))),
            None => Err(Error::mismatch(format!("there is no field {name:?}"))),
        }
    }

    fn add(mut self, name: Name, rows: Rows) -> Result<Self> {
        if let Some((first, known)) = self.fields.first()
            && known.len() != rows.len()
        {
            return Err(Error::mismatch(format!(
                "field {name:?} has {} samples, but {first:?} has {}",
                rows.len(),
                known.len()
            )));
        }
        if self.fields.iter().any(|(known, _)| *known == name) {
            return Err(Error::mismatch(format!("there are two fields {name:?}")));
        }
        self.fields.push((name, rows));
        Ok(self)
    }
}

impl Dataset for Memory {
    fn len(&self) -> usize {
        self.fields.first().map_or(0, |(_, rows)| rows.len())
    }

    fn get(&self, index: usize) -> Result<Sample> {
        let len = self.len();
        if index >= len {
            return Err(Error::OutOfRange { index, len });
        }
        let mut sample = Sample::new();
        for (name, rows) in &self.fields {
            sample.set(Name::clone(name), rows.get(index)?);
        }
        Ok(sample)
    }

    fn check_labels(&self, field: &str, classes: usize) -> Result<()> {
        let labels = self.array(field)?;
        if labels.shape() != [self.len()] {
            return Err(Error::mismatch(format!(
                "field {field:?} holds no labels: one number a sample was expected, found shape {:?}",
                labels.shape()
            )));
        }
        (0..self.len()).try_for_each(|index| check_label(index, labels.integer_at(index)?, classes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_must_agree() {
        let message = |r: Result<Memory>| r.unwrap_err().to_string();
        let base = || Memory::new().with("a", Array::vector(vec![1u8, 2, 3])).unwrap();
        assert_eq!(message(base().with("b", Array::vector(vec![1u8]))), r#"field "b" has 1 samples, but "a" has 3"#);
        assert!(message(base().with("a", Array::vector(vec![1u8; 3]))).contains("two fields"));
        assert!(message(Memory::new().with("a", Array::scalar(1u8))).contains("scalar"));
        assert!(base().get(3).is_err());
        assert_eq!(Memory::new().len(), 0);
    }

    #[test]
    fn labels_are_checked() {
        let set = Memory::new().with("y", Array::vector(vec![0u8, 9, 10])).unwrap();
        assert!(set.check_labels("y", 11).is_ok());
        assert_eq!(
            set.check_labels("y", 10).unwrap_err().to_string(),
            "label 10 of sample 2 is out of range: 10 classes are 0 to 9"
        );
        let negative = Memory::new().with("y", Array::vector(vec![-1i64])).unwrap();
        assert!(negative.check_labels("y", 10).is_err());
        let matrix = Memory::new().with("y", Array::new(vec![0u8; 4], &[2, 2]).unwrap()).unwrap();
        assert!(matrix.check_labels("y", 10).unwrap_err().to_string().contains("shape [2, 2]"));
    }

    #[test]
    fn ragged_and_text() {
        let rows = vec![Array::vector(vec![1u8]), Array::vector(vec![2u8, 3])];
        let set = Memory::new().with_ragged("r", rows).unwrap();
        let set = set.with_texts("t", vec!["a".into(), "b".into()]).unwrap();
        let sample = set.get(1).unwrap();
        assert_eq!((sample.array("r").unwrap().shape(), sample.text("t").unwrap()), (&[2][..], "b"));
        assert!(set.array("r").is_err());
    }
}
