//! Readers of `talweg-data` for Python: IDX files, tables, images, augmentation, byte-pair encoding.
//!
//! What is behind a feature there is behind the same one here: without it, the function is there and
//! says which feature is missing.

use crate::convert::arg;
use crate::error::{exception, value_error};
use crate::site::here;
use crate::tensor::{PyTensor, run};
use ::tensor::{DType, Error, Result, Tensor};
use data::random::{PURPOSE_AUGMENT, Random, derive};
use data::{Array, Augment, Csv, Dataset, Memory, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::path::PathBuf;

/// The features of `talweg-data` that this library has been built with.
const FEATURES: &[(&str, bool)] = &[
    ("image", cfg!(feature = "image")),
    ("parquet", cfg!(feature = "parquet")),
    ("tokenizers", cfg!(feature = "tokenizers")),
];

#[cfg(not(all(feature = "image", feature = "parquet", feature = "tokenizers")))]
fn lacking(what: &str, feature: &str) -> Error {
    let hint = format!(
        "this build has no {what}: build talweg with the feature `{feature}` (maturin build --features {feature})"
    );
    Error::new(::tensor::ErrorKind::Device, hint)
}

/// A result with its error as an exception that names the line of the program.
trait Told<T> {
    fn told(self, py: Python<'_>) -> PyResult<T>;
}
impl<T, E: Into<Error>> Told<T> for std::result::Result<T, E> {
    fn told(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|e| exception(py, &e.into().at(here(py))))
    }
}

/// The tensor of an IDX file, gzipped or not.
#[pyfunction]
fn read_idx(py: Python<'_>, #[pyo3(from_py_with = arg)] path: PathBuf) -> PyResult<PyTensor> {
    let load = || -> Result<Tensor> { nn::tensor_of(&data::idx::read(path)?) };
    py.detach(load).map(PyTensor::from).told(py)
}

/// What to make of columns: name, role, columns, element type, number of classes, their names.
type Field = (String, String, Vec<String>, String, usize, Option<Vec<String>>);

fn dtype_of(name: &str) -> PyResult<DType> {
    Ok(match name {
        "bool" => DType::Bool,
        "uint8" => DType::U8,
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "float32" => DType::F32,
        "float64" => DType::F64,
        _ => return Err(value_error(format!("a column has no elements of type {name}"))),
    })
}

/// Adds the fields to a reader of tables, which CSV and Parquet spell alike.
macro_rules! with_fields {
    ($reader:expr, $fields:expr) => {{
        let mut reader = $reader;
        for (name, role, columns, dtype, count, classes) in $fields {
            let first = columns.first().cloned().unwrap_or_default();
            reader = match (role.as_str(), classes) {
                ("numbers", _) => reader.numbers(name, dtype_of(&dtype)?, columns),
                ("label", _) => reader.label(name, first, count),
                ("category", None) => reader.category(name, first),
                ("category", Some(classes)) => reader.category_of(name, first, classes),
                ("text", _) => reader.text(name, first),
                (other, _) => return Err(value_error(format!("there is no role {other:?} of a column"))),
            };
        }
        reader
    }};
}

/// The columns of a table by name, and the names of classes by column.
type Columns = (Vec<(String, Py<PyAny>)>, Vec<(String, Vec<String>)>);

/// A table as Python has it: tensors, lists of tensors where lengths differ, lists of strings.
fn columns(py: Python<'_>, memory: &Memory) -> PyResult<Columns> {
    let (mut out, mut classes) = (Vec::new(), Vec::new());
    let first = if memory.is_empty() { Vec::new() } else { memory.get(0).told(py)?.into_fields() };
    for (name, _) in first {
        let name = name.as_deref().unwrap_or_default().to_owned();
        if let Some(names) = memory.classes(&name) {
            classes.push((name.clone(), names.to_vec()));
        }
        let column = match memory.array(&name) {
            Ok(array) => PyTensor::from(nn::tensor_of(array).told(py)?).into_pyobject(py)?.into_any().unbind(),
            Err(_) => rows(py, memory, &name)?,
        };
        out.push((name, column));
    }
    Ok((out, classes))
}
fn rows(py: Python<'_>, memory: &Memory, name: &str) -> PyResult<Py<PyAny>> {
    let list = PyList::empty(py);
    for i in 0..memory.len() {
        match memory.get(i).told(py)?.take(name) {
            Some(Value::Text(text)) => list.append(text)?,
            Some(Value::Array(array)) => list.append(PyTensor::from(nn::tensor_of(&array).told(py)?))?,
            None => {}
        }
    }
    Ok(list.into_any().unbind())
}

/// Columns of a CSV file, or of text in its place; `path` is for messages then.
#[pyfunction]
#[pyo3(signature = (path, fields, delimiter, header, text=None))]
fn read_csv(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] path: PathBuf,
    #[pyo3(from_py_with = arg)] fields: Vec<Field>,
    #[pyo3(from_py_with = arg)] delimiter: u8,
    #[pyo3(from_py_with = arg)] header: bool,
    text: Option<&[u8]>,
) -> PyResult<Columns> {
    let reader = Csv::new().delimiter(delimiter);
    let reader = with_fields!(if header { reader } else { reader.no_header() }, fields);
    let memory = py.detach(|| match text {
        Some(text) => reader.parse(path, text),
        None => reader.read(path),
    });
    columns(py, &memory.told(py)?)
}

/// Columns of a Parquet file.
#[cfg(feature = "parquet")]
#[pyfunction]
fn read_parquet(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] path: PathBuf,
    #[pyo3(from_py_with = arg)] fields: Vec<Field>,
) -> PyResult<Columns> {
    let reader = with_fields!(data::Parquet::new(), fields);
    let memory = py.detach(|| reader.read(path)).told(py)?;
    columns(py, &memory)
}
/// Columns of a Parquet file: not in this build.
#[cfg(not(feature = "parquet"))]
#[pyfunction]
fn read_parquet(py: Python<'_>, path: PathBuf, fields: Vec<Field>) -> PyResult<Columns> {
    let _ = (path, fields);
    Err(lacking("reader of Parquet files", "parquet")).told(py)
}

/// A PNG or JPEG file's content as `uint8[height, width, 3]`, or gray as `uint8[height, width]`.
#[cfg(feature = "image")]
#[pyfunction]
fn decode_image(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] path: PathBuf,
    content: &[u8],
    #[pyo3(from_py_with = arg)] gray: bool,
) -> PyResult<PyTensor> {
    let decode = || -> Result<Tensor> { nn::tensor_of(&data::decode_image(&path, content, gray)?) };
    py.detach(decode).map(PyTensor::from).told(py)
}
/// Images are not in this build.
#[cfg(not(feature = "image"))]
#[pyfunction]
fn decode_image(py: Python<'_>, path: PathBuf, content: &[u8], gray: bool) -> PyResult<PyTensor> {
    let _ = (path, content, gray);
    Err(lacking("decoder of images", "image")).told(py)
}

/// The PNG of an image, `uint8[height, width]` or `uint8[height, width, channels]`.
#[pyfunction]
fn encode_png<'py>(py: Python<'py>, image: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyBytes>> {
    let array = image_of(py, image)?;
    let (height, width, channels) = match array.shape() {
        [h, w] => (*h, *w, 1),
        [h, w, c] => (*h, *w, *c),
        other => return Err(value_error(format!("an image has two or three dimensions, not shape {other:?}"))),
    };
    let pixels = array.values::<u8>().told(py)?;
    let png = data::rendering::png(pixels, height, width, channels).told(py)?;
    Ok(PyBytes::new(py, &png))
}

fn image_of(py: Python<'_>, image: &Bound<'_, PyTensor>) -> PyResult<Array> {
    let l = image.get().literal(py)?;
    if l.dtype() != DType::U8 {
        return Err(value_error(format!("an image has elements of type uint8, not {}", l.dtype())));
    }
    Ok(Array::from(l))
}

/// A side of an image, and an area, beyond which a size is a mistake.
const SIDE_MAX: f32 = 65536.0;
const AREA_MAX: f32 = (1u32 << 28) as f32;

/// An image after the steps of an augmentation, with the randomness of a seed, an epoch and an index.
#[pyfunction]
fn augment(
    py: Python<'_>,
    image: &Bound<'_, PyTensor>,
    #[pyo3(from_py_with = arg)] steps: Vec<(String, Vec<f32>)>,
    #[pyo3(from_py_with = arg)] seed: u64,
    #[pyo3(from_py_with = arg)] epoch: u64,
    #[pyo3(from_py_with = arg)] index: u64,
) -> PyResult<PyTensor> {
    let array = image_of(py, image)?;
    let mut list = Augment::new();
    for (name, x) in &steps {
        let is_size = matches!(name.as_str(), "crop" | "center" | "resize");
        if is_size && (x.iter().any(|v| !(0.0..=SIDE_MAX).contains(v)) || x.iter().take(2).product::<f32>() > AREA_MAX)
        {
            return Err(value_error(format!("{name}: sizes are integers up to {SIDE_MAX}, not {x:?}")));
        }
        let size = |i: usize| x.get(i).map_or(0, |v| v.max(0.0) as usize);
        list = match (name.as_str(), x.as_slice()) {
            ("crop", [_, _, _]) => list.crop(size(0), size(1), size(2)),
            ("center", [_, _]) => list.center(size(0), size(1)),
            ("flip", [chance]) => list.flip(*chance),
            ("resize", [_, _]) => list.resize(size(0), size(1)),
            ("jitter", [brightness, contrast, saturation]) => list.jitter(*brightness, *contrast, *saturation),
            ("normalize", both) => {
                let (mean, deviation) = both.split_at(both.len() / 2);
                list.normalize(mean, deviation)
            }
            (other, _) => {
                return Err(value_error(format!("there is no augmentation {other:?} with {} numbers", x.len())));
            }
        };
    }
    run(py, move || {
        let mut random = Random::new(derive(seed, epoch), PURPOSE_AUGMENT, index);
        nn::tensor_of(&list.apply(&array, &mut random)?)
    })
    .map(PyTensor::from)
}

#[cfg(feature = "tokenizers")]
mod bpe {
    use super::*;
    use data::{Bpe, Tokenizer};

    /// A byte-pair encoder.
    #[pyclass(name = "Bpe", module = "talweg._native", frozen)]
    pub struct PyBpe(Bpe);

    #[pymethods]
    impl PyBpe {
        /// Learns `size` tokens from texts.
        #[staticmethod]
        fn train(
            py: Python<'_>,
            #[pyo3(from_py_with = arg)] texts: Vec<String>,
            #[pyo3(from_py_with = arg)] size: usize,
            #[pyo3(from_py_with = arg)] special: Vec<String>,
        ) -> PyResult<PyBpe> {
            let special: Vec<&str> = special.iter().map(String::as_str).collect();
            let bpe = py.detach(|| Bpe::train(texts.iter().map(String::as_str), size, &special));
            bpe.map(PyBpe).told(py)
        }
        /// Loads a `tokenizer.json`.
        #[staticmethod]
        fn load(py: Python<'_>, #[pyo3(from_py_with = arg)] path: PathBuf) -> PyResult<PyBpe> {
            Bpe::load(path).map(PyBpe).told(py)
        }
        /// Writes a `tokenizer.json`.
        fn save(&self, py: Python<'_>, #[pyo3(from_py_with = arg)] path: PathBuf) -> PyResult<()> {
            self.0.save(path).told(py)
        }
        /// How many tokens there are.
        fn size(&self) -> usize {
            self.0.size()
        }
        /// The number of a token.
        fn token(&self, #[pyo3(from_py_with = arg)] text: &str) -> Option<u32> {
            self.0.token(text)
        }
        /// The tokens of a text.
        fn encode(&self, py: Python<'_>, #[pyo3(from_py_with = arg)] text: &str) -> PyResult<Vec<u32>> {
            self.0.encode(text).told(py)
        }
        /// The text of tokens.
        fn decode(&self, py: Python<'_>, #[pyo3(from_py_with = arg)] tokens: Vec<u32>) -> PyResult<String> {
            self.0.decode(&tokens).told(py)
        }
    }
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let features: Vec<&str> = FEATURES.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    m.add("DATA_FEATURES", features)?;
    m.add_function(wrap_pyfunction!(read_idx, m)?)?;
    m.add_function(wrap_pyfunction!(read_csv, m)?)?;
    m.add_function(wrap_pyfunction!(read_parquet, m)?)?;
    m.add_function(wrap_pyfunction!(decode_image, m)?)?;
    m.add_function(wrap_pyfunction!(encode_png, m)?)?;
    #[cfg(feature = "tokenizers")]
    m.add_class::<bpe::PyBpe>()?;
    m.add_function(wrap_pyfunction!(augment, m)?)
}
