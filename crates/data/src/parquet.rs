//! Tables in Parquet files: chosen columns are read and checked at once, as
//! with CSV. Lists of numbers become samples of different lengths.
//!
//! Files that are not compressed, or with Snappy or Zstandard, are read; arrow
//! is not linked.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field as Cell, Row};
use parquet::schema::types::Type;

use crate::array::{Array, Growing};
use crate::error::{Error, Result, quote};
use crate::memory::Memory;
use crate::table::{Cells, Field, Role, fields};
use ir::DType;

/// Which fields to make of the columns of a Parquet file.
///
/// ```no_run
/// use talweg_data::{DType, Parquet};
/// let reviews = Parquet::new()
///     .numbers("tokens", DType::I64, ["input_ids"]) // a list a row
///     .label("stars", "rating", 5)
///     .text("text", "review")
///     .read("reviews.parquet")?;
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Parquet {
    pub(crate) fields: Vec<Field>,
}

fields!(Parquet);

/// Cells of one field as they are read.
enum Store {
    Flat(Cells),
    /// One list a row.
    Lists(Vec<Array>),
}

impl Parquet {
    /// A reader that has not been told any fields yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, a column is missing, or a cell is null or
    /// does not fit; the message names file, row (from 1) and column.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Memory> {
        let path = path.as_ref();
        if self.fields.is_empty() {
            return Err(Error::mismatch("no fields were asked for: use numbers, label, category or text"));
        }
        let broken = |error: ParquetError| Error::format(path, format!("expected a Parquet file: {error}"));
        let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
        let reader = SerializedFileReader::new(file).map_err(broken)?;
        let schema = reader.metadata().file_metadata().schema();
        let rows = reader.get_row_iter(Some(self.projection(path, schema)?)).map_err(broken)?;

        let mut stores: Option<Vec<Store>> = None;
        let mut count = 0;
        for row in rows {
            let row = row.map_err(broken)?;
            count += 1;
            let stores = stores.get_or_insert_with(|| self.fields.iter().map(|field| store(field, &row)).collect());
            for (field, store) in self.fields.iter().zip(stores) {
                self.push(path, count, field, &row, store)?;
            }
        }
        let Some(stores) = stores else {
            return Err(Error::format(path, "expected rows of data, found none"));
        };
        self.fields.iter().zip(stores).try_fold(Memory::new(), |memory, (field, store)| match store {
            Store::Flat(cells) => field.finish(cells, count as usize, memory),
            Store::Lists(lists) => memory.with_ragged(field.name.clone(), lists),
        })
    }

    /// The part of the schema that is needed: other columns are not decoded.
    fn projection(&self, path: &Path, schema: &Type) -> Result<Type> {
        let known = || schema.get_fields().iter().map(|field| field.name()).collect::<Vec<_>>();
        let wanted: Vec<&String> = self.fields.iter().flat_map(|field| &field.columns).collect();
        if let Some(column) = wanted.iter().find(|column| !known().contains(&column.as_str())) {
            return Err(Error::format(path, format!("there is no column {column:?}, only {:?}", known())));
        }
        let chosen = schema.get_fields().iter().filter(|field| wanted.iter().any(|column| *column == field.name()));
        Type::group_type_builder(schema.name())
            .with_fields(chosen.map(Arc::clone).collect())
            .build()
            .map_err(|error| Error::format(path, error.to_string()))
    }

    fn push(&self, path: &Path, line: u64, field: &Field, row: &Row, store: &mut Store) -> Result<()> {
        for column in &field.columns {
            let cell = cell(row, column);
            let outcome = match store {
                Store::Lists(lists) => list(field, cell).map(|array| lists.push(array)),
                Store::Flat(cells) => flat(field, cells, cell),
            };
            outcome.map_err(|expected| Error::Cell {
                path: path.to_path_buf(),
                line,
                column: column.clone(),
                expected,
                found: if matches!(cell, Cell::Null) { "null".into() } else { quote(&cell.to_string()) },
            })?;
        }
        Ok(())
    }
}

/// The cell of a column; null if there is none, which the projection excludes.
fn cell<'a>(row: &'a Row, column: &str) -> &'a Cell {
    row.get_column_iter().find(|(name, _)| *name == column).map_or(&Cell::Null, |(_, cell)| cell)
}

/// Where a field's cells go: by the first row, since a column has one type.
fn store(field: &Field, row: &Row) -> Store {
    match (&field.role, field.columns.as_slice()) {
        (Role::Numbers(_), [column]) if matches!(cell(row, column), Cell::ListInternal(_)) => Store::Lists(Vec::new()),
        _ => Store::Flat(field.cells()),
    }
}

/// Takes one cell; on failure returns what was expected.
fn flat(field: &Field, cells: &mut Cells, cell: &Cell) -> Result<(), String> {
    match (cells, &field.role, cell) {
        (Cells::Numbers(values), Role::Numbers(kind), cell) => number(values, *kind, cell),
        (cells, _, Cell::Str(text)) => field.push(cells, text),
        // Labels, and class names that are numbers.
        (cells, Role::Label(_) | Role::Category(_), cell) if integer(cell).is_some() => {
            field.push(cells, &cell.to_string())
        }
        (_, Role::Label(classes), _) => Err(format!("a label from 0 to {}", classes.saturating_sub(1))),
        _ => Err("text".into()),
    }
}

/// A list of numbers as a vector; on failure returns what was expected.
fn list(field: &Field, cell: &Cell) -> Result<Array, String> {
    let (Role::Numbers(kind), Cell::ListInternal(list)) = (&field.role, cell) else {
        return Err("a list of numbers".into());
    };
    let mut values = Growing::new(*kind);
    for element in list.elements() {
        number(&mut values, *kind, element).map_err(|expected| format!("a list, each {expected}"))?;
    }
    let len = values.len();
    values.finish(&[len]).map_err(|error| error.to_string())
}

/// Appends a number that fits the type; on failure returns what was expected.
fn number(to: &mut Growing, dtype: DType, cell: &Cell) -> Result<(), String> {
    let whole = integer(cell);
    let real = match cell {
        Cell::Float(x) => Some(f64::from(*x)),
        Cell::Double(x) => Some(*x),
        Cell::Float16(x) => Some(f64::from(*x)),
        _ => whole.map(|x| x as f64),
    };
    macro_rules! integer {
        ($type:ty) => {
            whole.and_then(|x| <$type>::try_from(x).ok()).map(|x| to.push(x))
        };
    }
    let taken = match dtype {
        DType::Bool => {
            let truth = if let Cell::Bool(x) = cell { Some(*x) } else { None };
            truth.map(|x| to.push(x))
        }
        DType::U8 => integer!(u8),
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::F32 => real.map(|x| to.push(x as f32)),
        DType::F64 => real.map(|x| to.push(x)),
        _ => None,
    };
    taken.ok_or_else(|| format!("a number that fits {dtype}"))
}

fn integer(cell: &Cell) -> Option<i64> {
    Some(match cell {
        Cell::Byte(x) => i64::from(*x),
        Cell::Short(x) => i64::from(*x),
        Cell::Int(x) => i64::from(*x),
        Cell::Long(x) => *x,
        Cell::UByte(x) => i64::from(*x),
        Cell::UShort(x) => i64::from(*x),
        Cell::UInt(x) => i64::from(*x),
        Cell::ULong(x) => i64::try_from(*x).ok()?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Dataset;
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::path::PathBuf;

    const SCHEMA: &str = "message table {
        required float x;
        optional int32 y;
        required binary name (UTF8);
        optional group tokens (LIST) { repeated group list { required int64 element; } }
    }";

    /// Three rows; the second label is `y`.
    fn write(folder: &Path, compression: Compression, y: Option<i32>) -> PathBuf {
        let path = folder.join("t.parquet");
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<FloatType>().write_batch(&[0.5, 1.5, 2.5], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let labels: Vec<i32> = [Some(0), y, Some(1)].into_iter().flatten().collect();
        let levels = [1, i16::from(y.is_some()), 1];
        column.typed::<Int32Type>().write_batch(&labels, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let names = ["b", "a", "b"].map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        // [1, 2], [], [3]
        let (defined, repeated) = ([2, 2, 1, 2], [0, 1, 0, 0]);
        column.typed::<Int64Type>().write_batch(&[1, 2, 3], Some(&defined), Some(&repeated)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        path
    }

    #[test]
    fn numbers_labels_names_and_lists() {
        let folder = tempfile::tempdir().unwrap();
        let codecs = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(Default::default())];
        for codec in codecs {
            let path = write(folder.path(), codec, Some(2));
            let set = Parquet::new()
                .numbers("x", DType::F32, ["x"])
                .numbers("both", DType::F64, ["x", "y"])
                .numbers("tokens", DType::I64, ["tokens"])
                .label("y", "y", 3)
                .category("class", "name")
                .text("name", "name")
                .read(&path)
                .unwrap();
            assert_eq!(set.len(), 3);
            let sample = |index| set.get(index).unwrap();
            assert_eq!(sample(1).array("x").unwrap(), &Array::scalar(1.5f32));
            assert_eq!(sample(1).array("both").unwrap(), &Array::vector(vec![1.5, 2.0]));
            assert_eq!(sample(0).array("tokens").unwrap(), &Array::vector(vec![1i64, 2]));
            assert_eq!(sample(1).array("tokens").unwrap().shape(), [0]);
            assert_eq!(sample(1).array("y").unwrap().integer().unwrap(), 2);
            assert_eq!(
                (sample(1).array("class").unwrap().integer().unwrap(), sample(1).text("name").unwrap()),
                (0, "a")
            );
        }
    }

    #[test]
    fn bad_cells_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let message = |parquet: Parquet, path: &Path| {
            let text = parquet.read(path).unwrap_err().to_string();
            text.replace(&*folder.path().to_string_lossy(), "").trim_start_matches('/').to_owned()
        };
        let path = write(folder.path(), Compression::SNAPPY, Some(7));
        assert_eq!(
            message(Parquet::new().label("y", "y", 3), &path),
            "t.parquet: line 2, column y: expected a label from 0 to 2, found \"7\""
        );
        assert_eq!(
            message(Parquet::new().numbers("n", DType::F32, ["name"]), &path),
            "t.parquet: line 1, column name: expected a number that fits f32, found \"\\\"b\\\"\""
        );
        assert!(message(Parquet::new().text("t", "y"), &path).contains("expected text, found \"0\""));
        assert_eq!(
            message(Parquet::new().text("t", "z"), &path),
            "t.parquet: there is no column \"z\", only [\"x\", \"y\", \"name\", \"tokens\"]"
        );
        let path = write(folder.path(), Compression::SNAPPY, None);
        assert_eq!(
            message(Parquet::new().numbers("y", DType::I64, ["y"]), &path),
            "t.parquet: line 2, column y: expected a number that fits i64, found null"
        );
        std::fs::write(&path, b"PAR1 no").unwrap();
        assert!(message(Parquet::new().text("t", "x"), &path).starts_with("t.parquet: expected a Parquet file: "));
        assert!(message(Parquet::new().text("t", "x"), Path::new("no/file")).starts_with("cannot read no/file"));
        assert!(message(Parquet::new(), &path).contains("no fields"));
    }

    /// `python/tests/test_readers.py` reads it; `TALWEG_BLESS=1` rewrites it.
    #[test]
    fn the_sample_of_the_python_tests_is_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), Compression::SNAPPY, Some(2));
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests/data/table.parquet");
        if std::env::var_os("TALWEG_BLESS").is_some() {
            std::fs::copy(&path, &sample).unwrap();
        }
        let rows = |path: &Path| {
            let set = Parquet::new().numbers("x", DType::F32, ["x"]).text("name", "name").read(path).unwrap();
            (0..set.len()).map(|i| set.get(i).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(rows(&path), rows(&sample));
    }
}
