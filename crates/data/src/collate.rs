//! From samples to one batch: stack what has equal shapes, pad what differs in
//! length.

use std::sync::Arc;

use crate::array::Array;
use crate::error::{Error, Result};
use crate::loader::{Part, Position};
use crate::sample::{Name, Sample, Value};
use ir::Literal;

/// How the samples of a batch are put together.
#[derive(Clone, Default)]
pub enum Collate {
    /// Every field has one shape; the batch gets a new first axis.
    #[default]
    Stack,
    /// The first axis of a field may differ from sample to sample: shorter ones
    /// are filled up, and [`Batch::lengths`] tells how long each was.
    Pad {
        /// What is filled in.
        value: f64,
        /// Padded lengths are rounded up to a multiple of this, so that batches
        /// come in few shapes and compiled plans are reused. 1 rounds nothing.
        multiple: usize,
    },
    /// A custom function.
    Custom(Arc<dyn Fn(Vec<Sample>) -> Result<Vec<Column>> + Send + Sync>),
}

impl std::fmt::Debug for Collate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Collate::Stack => write!(f, "Stack"),
            Collate::Pad { value, multiple } => write!(f, "Pad({value}, {multiple})"),
            Collate::Custom(_) => write!(f, "Custom"),
        }
    }
}

/// One field of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The field's name, if it has one.
    pub name: Option<Name>,
    /// Its values.
    pub values: ColumnValues,
    /// With [`Collate::Pad`]: the length of each sample before padding.
    pub lengths: Option<Array>,
}

/// The values of one field over a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// Numbers with the samples along the first axis.
    Array(Array),
    /// Texts, one a sample.
    Texts(Vec<String>),
}

/// A batch of the loader.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The fields in the samples' order.
    pub columns: Vec<Column>,
    /// Index in the data set of each sample.
    pub indices: Vec<usize>,
    /// Which rows of the batch that all ranks share these are. A rank without
    /// rows has the first sample, which counts nothing.
    pub part: Part,
    /// Where to continue after this batch.
    pub resume: Position,
}

impl Batch {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are no samples; the loader never yields such a batch.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The array called `name`.
    ///
    /// # Errors
    /// If there is no such field, or it is text.
    pub fn array(&self, name: &str) -> Result<&Array> {
        match &self.column(name)?.values {
            ColumnValues::Array(array) => Ok(array),
            ColumnValues::Texts(_) => Err(Error::mismatch(format!("field {name:?} is text, not an array"))),
        }
    }

    /// The texts called `name`.
    ///
    /// # Errors
    /// If there is no such field, or it is an array.
    pub fn texts(&self, name: &str) -> Result<&[String]> {
        match &self.column(name)?.values {
            ColumnValues::Texts(texts) => Ok(texts),
            ColumnValues::Array(_) => Err(Error::mismatch(format!("field {name:?} is an array, not text"))),
        }
    }

    /// The lengths of field `name` before padding.
    ///
    /// # Errors
    /// If there is no such field, or the batch was not padded.
    pub fn lengths(&self, name: &str) -> Result<&Array> {
        self.column(name)?
            .lengths
            .as_ref()
            .ok_or_else(|| Error::mismatch(format!("field {name:?} has no lengths: use Collate::Pad")))
    }

    /// The array at a position.
    ///
    /// # Errors
    /// If there is no such field, or it is text.
    pub fn at(&self, position: usize) -> Result<&Array> {
        match self.columns.get(position).map(|column| &column.values) {
            Some(ColumnValues::Array(array)) => Ok(array),
            Some(ColumnValues::Texts(_)) => Err(Error::mismatch(format!("field {position} is text, not an array"))),
            None => Err(Error::mismatch(format!("there is no field {position}: the batch has {}", self.columns.len()))),
        }
    }

    fn column(&self, name: &str) -> Result<&Column> {
        let found = self.columns.iter().find(|column| column.name.as_deref() == Some(name));
        found.ok_or_else(|| {
            let known: Vec<&str> = self.columns.iter().filter_map(|c| c.name.as_deref()).collect();
            Error::mismatch(format!("there is no field {name:?}, only {known:?}"))
        })
    }
}

impl Collate {
    /// Puts samples together.
    ///
    /// # Errors
    /// If they do not have the same fields, kinds and (but for padding) shapes.
    pub fn apply(&self, samples: Vec<Sample>) -> Result<Vec<Column>> {
        match self {
            Collate::Stack => columns(samples, &mut |name, arrays| stack(name, &arrays)),
            Collate::Pad { value, multiple } => {
                columns(samples, &mut |name, arrays| pad(name, &arrays, *value, *multiple))
            }
            Collate::Custom(function) => function(samples),
        }
    }
}

/// Transposes samples into columns and joins each with `join`.
fn columns(
    samples: Vec<Sample>,
    join: &mut dyn FnMut(&str, Vec<Array>) -> Result<(Array, Option<Array>)>,
) -> Result<Vec<Column>> {
    let count = samples.len();
    let mut rows = samples.into_iter().map(|sample| sample.into_fields().into_iter());
    let mut rows: Vec<_> = rows.by_ref().collect();
    let Some(width) = rows.first().map(ExactSizeIterator::len) else {
        return Err(Error::mismatch("a batch needs at least one sample"));
    };
    let mut columns = Vec::with_capacity(width);
    for place in 0..width {
        let (mut arrays, mut texts) = (Vec::with_capacity(count), Vec::new());
        let mut name: Option<Name> = None;
        for (row, fields) in rows.iter_mut().enumerate() {
            let field = fields.next();
            if row == 0 {
                name = field.as_ref().and_then(|f| f.0.clone());
            }
            match field {
                Some((own, Value::Array(array))) if own == name => arrays.push(array),
                Some((own, Value::Text(text))) if own == name => texts.push(text),
                _ => return Err(unlike(row, place)),
            }
        }
        let label = name.as_deref().map_or_else(|| format!("field {place}"), |n| format!("{n:?}"));
        let (values, lengths) = match (arrays.len(), texts.len()) {
            (n, 0) if n == count => {
                let (array, lengths) = join(&label, arrays)?;
                (ColumnValues::Array(array), lengths)
            }
            (0, n) if n == count => (ColumnValues::Texts(texts), None),
            _ => return Err(Error::mismatch(format!("{label} is text in some samples only"))),
        };
        columns.push(Column { name, values, lengths });
    }
    match rows.iter().position(|fields| fields.len() > 0) {
        Some(row) => Err(unlike(row, width)),
        None => Ok(columns),
    }
}

fn unlike(row: usize, place: usize) -> Error {
    Error::mismatch(format!("sample {row} of the batch has other fields than sample 0 (see field {place})"))
}

fn stack(name: &str, arrays: &[Array]) -> Result<(Array, Option<Array>)> {
    let first = &arrays[0];
    for (row, array) in arrays.iter().enumerate() {
        if array.shape() != first.shape() {
            return Err(Error::mismatch(format!(
                "{name}: sample {row} of the batch has shape {:?}, sample 0 has {:?}; \
                 use Collate::Pad for unequal lengths",
                array.shape(),
                first.shape()
            )));
        }
        same_type(name, first, row, array)?;
    }
    let shape = [&[arrays.len()], first.shape()].concat();
    let stacked = Array::written(first.dtype(), &shape, |out| {
        let size = first.literal().bytes().len().max(1);
        for (to, array) in out.chunks_mut(size).zip(arrays) {
            to.copy_from_slice(array.literal().bytes());
        }
    });
    Ok((stacked, None))
}

fn pad(name: &str, arrays: &[Array], value: f64, multiple: usize) -> Result<(Array, Option<Array>)> {
    let first = &arrays[0];
    let Some((_, rest)) = first.shape().split_first() else {
        return stack(name, arrays);
    };
    let longest = arrays.iter().filter_map(|array| array.shape().first()).max().copied();
    let padded = longest.unwrap_or(0).next_multiple_of(multiple.max(1));
    let size: usize = rest.iter().product();
    let mut lengths = Vec::with_capacity(arrays.len());
    for (row, array) in arrays.iter().enumerate() {
        if array.shape().get(1..) != Some(rest) {
            return Err(Error::mismatch(format!(
                "{name}: sample {row} of the batch has shape {:?}, sample 0 has {:?}; \
                 only the first axis may differ",
                array.shape(),
                first.shape()
            )));
        }
        same_type(name, first, row, array)?;
        lengths.push(array.shape()[0] as i64);
    }
    let shape = [&[arrays.len(), padded], rest].concat();
    let padding = Literal::scalar_f64(first.dtype(), value);
    let filled = Array::written(first.dtype(), &shape, |out| {
        let row = (padded * size * first.dtype().size()).max(1);
        for (to, array) in out.chunks_mut(row).zip(arrays) {
            let (given, rest) = to.split_at_mut(array.literal().bytes().len());
            given.copy_from_slice(array.literal().bytes());
            rest.chunks_mut(padding.bytes().len()).for_each(|x| x.copy_from_slice(padding.bytes()));
        }
    });
    Ok((filled, Some(Array::vector(lengths))))
}

fn same_type(name: &str, first: &Array, row: usize, array: &Array) -> Result<()> {
    let (found, expected) = (array.dtype(), first.dtype());
    if found == expected {
        return Ok(());
    }
    Err(Error::mismatch(format!("{name}: sample {row} of the batch has {found} elements, sample 0 has {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(lengths: &[usize]) -> Vec<Sample> {
        let sample = |n: &usize| Sample::new().with("t", Array::vector(vec![7i64; *n])).with("s", "x");
        lengths.iter().map(sample).collect()
    }

    #[test]
    fn stack_adds_an_axis() {
        let columns = Collate::Stack.apply(tokens(&[2, 2, 2])).unwrap();
        let ColumnValues::Array(array) = &columns[0].values else { panic!("an array") };
        assert_eq!(array.shape(), [3, 2]);
        assert_eq!(columns[1].values, ColumnValues::Texts(vec!["x".into(); 3]));
    }

    #[test]
    fn pad_fills_and_remembers_lengths() {
        let pad = Collate::Pad { value: -1.0, multiple: 4 };
        let columns = pad.apply(tokens(&[1, 3, 0])).unwrap();
        let ColumnValues::Array(array) = &columns[0].values else { panic!("an array") };
        assert_eq!(array.shape(), [3, 4]);
        assert_eq!(array.values::<i64>().unwrap(), [7, -1, -1, -1, 7, 7, 7, -1, -1, -1, -1, -1]);
        assert_eq!(columns[0].lengths, Some(Array::vector(vec![1i64, 3, 0])));
        assert_eq!(columns[1].lengths, None);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let message = |samples| Collate::Stack.apply(samples).unwrap_err().to_string();
        assert_eq!(
            message(tokens(&[2, 3])),
            "\"t\": sample 1 of the batch has shape [3], sample 0 has [2]; \
             use Collate::Pad for unequal lengths"
        );
        let kinds = vec![Sample::from([Array::scalar(1u8)]), Sample::from([Array::scalar(1.0f32)])];
        assert_eq!(message(kinds), "field 0: sample 1 of the batch has f32 elements, sample 0 has u8");
        let names = vec![Sample::new().with("a", Array::scalar(1u8)), Sample::new().with("b", Array::scalar(1u8))];
        assert!(message(names).contains("other fields"));
        let longer = vec![Sample::from([Array::scalar(1u8)]), Sample::from([Array::scalar(1u8), Array::scalar(1u8)])];
        assert!(message(longer).contains("see field 1"));
        assert!(message(vec![]).contains("at least one sample"));
    }
}
