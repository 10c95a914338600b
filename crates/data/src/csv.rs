//! Tables in text files: comma-separated values.
//!
//! The whole table is read and checked at once, so that a bad cell is found
//! before training starts and not in its third hour.

use std::path::Path;

use csv::{ErrorKind, Position, ReaderBuilder, StringRecord, Trim};

use crate::error::{Error, Result, quote};
use crate::memory::Memory;
use crate::table::{Cells, Field, fields};

/// Which fields to make of the columns of a CSV file.
///
/// ```
/// use talweg_data::{Csv, DType, Dataset};
/// let table = "length,width,species\n5.1,3.5,setosa\n7.0,3.2,versicolor\n";
/// let iris = Csv::new()
///     .numbers("x", DType::F32, ["length", "width"])
///     .category("y", "species")
///     .parse("iris.csv", table.as_bytes())?;
/// assert_eq!(iris.get(1)?.array("x")?.values::<f32>()?, [7.0, 3.2]);
/// assert_eq!(iris.get(1)?.array("y")?.integer()?, 1);
/// assert_eq!(iris.classes("y").unwrap(), ["setosa", "versicolor"]);
///
/// let bad = Csv::new().numbers("x", DType::F32, ["length"]);
/// let error = bad.parse("iris.csv", &b"length\n5.1\nfive\n"[..]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"iris.csv: line 3, column length: expected a number (f32), found "five""#
/// );
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Csv {
    pub(crate) fields: Vec<Field>,
    delimiter: u8,
    header: bool,
}

fields!(Csv);

impl Default for Csv {
    fn default() -> Self {
        Csv { fields: Vec::new(), delimiter: b',', header: true }
    }
}

impl Csv {
    /// A comma-separated file whose first line names the columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another separator, such as `b'\t'` or `b';'`.
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// There is no header: columns are called `"0"`, `"1"` and so on.
    pub fn no_header(mut self) -> Self {
        self.header = false;
        self
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, a column is missing, or a cell does not fit;
    /// the message names file, line and column.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Memory> {
        let path = path.as_ref();
        let file = std::fs::File::open(path).map_err(|error| Error::io("read", path, error))?;
        self.parse(path, file)
    }

    /// Reads from anything; `path` is for messages.
    ///
    /// # Errors
    /// As [`Csv::read`].
    pub fn parse(&self, path: impl AsRef<Path>, mut reader: impl std::io::Read) -> Result<Memory> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|error| Error::io("read", &path, error))?;
        self.table(&Input { path: path.as_ref(), bytes: &bytes })
    }

    fn table(&self, input: &Input) -> Result<Memory> {
        if self.fields.is_empty() {
            return Err(Error::mismatch("no fields were asked for: use numbers, label, category or text"));
        }
        let mut reader = ReaderBuilder::new()
            .delimiter(self.delimiter)
            .has_headers(self.header)
            .trim(Trim::Headers)
            .from_reader(input.bytes);
        let header = if self.header { Some(reader.headers().map_err(|e| input.explain(e))?.clone()) } else { None };
        let mut record = StringRecord::new();
        let mut cells: Vec<Cells> = self.fields.iter().map(Field::cells).collect();
        let mut places: Option<Vec<Vec<usize>>> = None;
        let mut rows = 0;
        while reader.read_record(&mut record).map_err(|e| input.explain(e))? {
            let places = match &places {
                Some(places) => places,
                None => {
                    let names = header.clone().unwrap_or_else(|| (0..record.len()).map(|i| i.to_string()).collect());
                    &*places.insert(self.places(input.path, &names)?)
                }
            };
            self.push(input, &record, places, &mut cells)?;
            rows += 1;
        }
        if rows == 0 {
            return Err(Error::format(input.path, "expected rows of data, found none"));
        }
        let mut fields = self.fields.iter().zip(cells);
        fields.try_fold(Memory::new(), |memory, (field, cells)| field.finish(cells, rows, memory))
    }

    /// Where the columns of each field stand.
    fn places(&self, path: &Path, header: &StringRecord) -> Result<Vec<Vec<usize>>> {
        let place = |column: &String| {
            let mut found = (0..header.len()).filter(|i| &header[*i] == column.as_str());
            match (found.next(), found.next()) {
                (Some(place), None) => Ok(place),
                (None, _) => {
                    let names: Vec<&str> = header.iter().collect();
                    Err(Error::format(path, format!("there is no column {column:?}, only {names:?}")))
                }
                (Some(_), Some(_)) => Err(Error::format(path, format!("there is more than one column {column:?}"))),
            }
        };
        self.fields.iter().map(|field| field.columns.iter().map(place).collect()).collect()
    }

    fn push(&self, input: &Input, record: &StringRecord, places: &[Vec<usize>], cells: &mut [Cells]) -> Result<()> {
        for ((field, places), cells) in self.fields.iter().zip(places).zip(cells) {
            for (column, place) in field.columns.iter().zip(places) {
                let text = record.get(*place).unwrap_or_default();
                field.push(cells, text).map_err(|expected| Error::Cell {
                    path: input.path.to_path_buf(),
                    line: input.line(record.position()),
                    column: column.clone(),
                    expected,
                    found: if text.trim().is_empty() { "an empty cell".into() } else { quote(text) },
                })?;
            }
        }
        Ok(())
    }
}

/// A table before parsing, kept for messages.
struct Input<'a> {
    path: &'a Path,
    bytes: &'a [u8],
}

impl Input<'_> {
    /// The line on which a record starts, from 1. The reader's own count does
    /// not include empty lines before the record.
    fn line(&self, position: Option<&Position>) -> u64 {
        let start = position.map_or(0, |position| position.byte() as usize);
        let skipped = self.bytes[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        1 + self.bytes[..start + skipped].iter().filter(|byte| **byte == b'\n').count() as u64
    }

    /// The csv crate's errors in the words of this crate.
    fn explain(&self, error: csv::Error) -> Error {
        let text = error.to_string();
        match error.into_kind() {
            ErrorKind::Io(error) => Error::io("read", self.path, error),
            ErrorKind::UnequalLengths { pos, expected_len, len } => {
                let line = self.line(pos.as_ref());
                Error::format(self.path, format!("line {line}: expected {expected_len} cells, found {len}"))
            }
            ErrorKind::Utf8 { pos, err } => {
                let (line, cell) = (self.line(pos.as_ref()), err.field() + 1);
                let what = format!("line {line}, cell {cell}: expected UTF-8 text, found other bytes");
                Error::format(self.path, what)
            }
            _ => Error::format(self.path, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Dataset;
    use ir::DType;

    fn message(csv: Csv, text: &[u8]) -> String {
        csv.parse("t.csv", text).unwrap_err().to_string()
    }

    /// Each bad table with the message a person gets.
    #[test]
    fn bad_tables() {
        let x = || Csv::new().numbers("x", DType::F32, ["a", "b"]);
        let cases: [(Csv, &[u8], &str); 13] = [
            (x(), b"a,b\n1,2\n3,\n", "t.csv: line 3, column b: expected a number (f32), found an empty cell"),
            (x(), b"a,b\n1,2\n3,oops\n", "t.csv: line 3, column b: expected a number (f32), found \"oops\""),
            (x(), b"a,b\n1,2\n3\n", "t.csv: line 3: expected 2 cells, found 1"),
            (x(), b"a,b\n1,2\n\n3,4,5\n", "t.csv: line 4: expected 2 cells, found 3"),
            (x(), b"a,b\r\n\r\n1,2\r\n3,x\r\n", "t.csv: line 4, column b: expected a number (f32), found \"x\""),
            (x(), b"a,c\n1,2\n", "t.csv: there is no column \"b\", only [\"a\", \"c\"]"),
            (x(), b"a,b,b\n1,2,3\n", "t.csv: there is more than one column \"b\""),
            (x(), b"a,b\n", "t.csv: expected rows of data, found none"),
            (x(), b"", "t.csv: expected rows of data, found none"),
            (x(), b"a,b\n1,\xff\n", "t.csv: line 2, cell 2: expected UTF-8 text, found other bytes"),
            (
                Csv::new().numbers("x", DType::I8, ["a"]),
                b"a\n300\n",
                "t.csv: line 2, column a: expected an integer from -128 to 127 (i8), found \"300\"",
            ),
            (
                Csv::new().label("y", "a", 10),
                b"a\n9\n10\n",
                "t.csv: line 3, column a: expected a label from 0 to 9, found \"10\"",
            ),
            (
                Csv::new().category_of("y", "a", ["cat", "dog"]),
                b"a\ncat\ncow\n",
                "t.csv: line 3, column a: expected one of [\"cat\", \"dog\"], found \"cow\"",
            ),
        ];
        for (csv, text, expected) in cases {
            assert_eq!(message(csv, text), expected);
        }
        assert!(message(Csv::new(), b"a\n1\n").contains("no fields"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Csv::new().text("t", "a").read("no/such/file.csv").unwrap_err().to_string();
        assert!(error.starts_with("cannot read no/such/file.csv: "), "{error}");
    }

    #[test]
    fn long_cells_are_cut_in_messages() {
        let text = format!("a\n{}\n", "x".repeat(1000));
        let error = message(Csv::new().numbers("x", DType::F64, ["a"]), text.as_bytes());
        assert!(error.len() < 150, "{error}");
    }

    #[test]
    fn every_kind_and_option() {
        let text = "1;-2;true; 4 ;\"a;b\"\n2;-3;0;5;c\n";
        let set = Csv::new()
            .no_header()
            .delimiter(b';')
            .numbers("u8", DType::U8, ["0"])
            .numbers("i64", DType::I64, ["1", "3"])
            .numbers("bool", DType::Bool, ["2"])
            .text("text", "4")
            .label("label", "0", 3)
            .parse("t.csv", text.as_bytes())
            .unwrap();
        let first = set.get(0).unwrap();
        assert_eq!(first.array("u8").unwrap().values::<u8>().unwrap(), [1]);
        assert_eq!(first.array("i64").unwrap().values::<i64>().unwrap(), [-2, 4]);
        assert_eq!(first.array("bool").unwrap().values::<bool>().unwrap(), [true]);
        assert_eq!(first.text("text").unwrap(), "a;b");
        assert_eq!(set.get(1).unwrap().array("label").unwrap().integer().unwrap(), 2);
    }
}
