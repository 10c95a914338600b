//! What is read from a table: fields made of columns, and how a cell becomes a
//! value. Shared by CSV and Parquet.

use crate::array::{Array, Growing};
use crate::error::Result;
use crate::memory::Memory;
use crate::sample::Name;
use ir::DType;

/// One field to be made of one or several columns.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) columns: Vec<String>,
    pub(crate) role: Role,
}

/// What the cells of a field mean.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    Numbers(DType),
    /// A class number below this.
    Label(usize),
    /// A class name: one of these, or whatever occurs.
    Category(Option<Vec<String>>),
    Text,
}

/// Cells of one field as they are read.
#[derive(Debug)]
pub(crate) enum Cells {
    Numbers(Growing),
    Texts(Vec<String>),
}

impl Field {
    /// An empty container for the cells.
    pub(crate) fn cells(&self) -> Cells {
        match self.role {
            Role::Numbers(dtype) => Cells::Numbers(Growing::new(dtype)),
            Role::Label(_) => Cells::Numbers(Growing::new(DType::I64)),
            Role::Category(_) | Role::Text => Cells::Texts(Vec::new()),
        }
    }

    /// Parses one cell; on failure returns what was expected.
    pub(crate) fn push(&self, cells: &mut Cells, text: &str) -> Result<(), String> {
        match (cells, &self.role) {
            (Cells::Numbers(values), Role::Label(classes)) => {
                let label = text.trim().parse::<i64>().ok();
                match label.filter(|label| usize::try_from(*label).is_ok_and(|label| label < *classes)) {
                    Some(label) => values.push(label),
                    None => return Err(format!("a label from 0 to {}", classes.saturating_sub(1))),
                }
            }
            (Cells::Numbers(values), _) => parse(values, text.trim())?,
            (Cells::Texts(texts), Role::Category(Some(classes))) => {
                if !classes.iter().any(|class| class == text) {
                    return Err(format!("one of {classes:?}"));
                }
                texts.push(text.to_owned());
            }
            (Cells::Texts(texts), _) => texts.push(text.to_owned()),
        }
        Ok(())
    }

    /// Adds the finished field to a data set.
    pub(crate) fn finish(&self, cells: Cells, rows: usize, memory: Memory) -> Result<Memory> {
        let name = Name::clone(&self.name);
        match (cells, &self.role) {
            (Cells::Numbers(values), _) => {
                let shape = if self.columns.len() == 1 { vec![rows] } else { vec![rows, self.columns.len()] };
                memory.with(name, values.finish(&shape)?)
            }
            (Cells::Texts(texts), Role::Category(given)) => {
                let classes = given.clone().unwrap_or_else(|| distinct(&texts));
                let class = |text| classes.iter().position(|class| class == text).unwrap_or(0) as i64;
                let labels = Array::vector(texts.iter().map(class).collect());
                Ok(memory.with(Name::clone(&name), labels)?.with_classes(name, classes))
            }
            (Cells::Texts(texts), _) => memory.with_texts(name, texts),
        }
    }
}

/// The different texts, sorted so that the order of rows does not matter.
fn distinct(texts: &[String]) -> Vec<String> {
    let mut classes = texts.to_vec();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Appends a number; on failure returns what was expected.
fn parse(to: &mut Growing, text: &str) -> Result<(), String> {
    macro_rules! integer {
        ($type:ty) => {
            to.push::<$type>(
                text.parse().map_err(|_| {
                    format!("an integer from {} to {} ({})", <$type>::MIN, <$type>::MAX, stringify!($type))
                })?,
            )
        };
    }
    match to.dtype {
        DType::Bool => match text {
            "1" | "true" | "True" | "TRUE" => to.push(true),
            "0" | "false" | "False" | "FALSE" => to.push(false),
            _ => return Err("true, false, 0 or 1 (bool)".into()),
        },
        DType::U8 => integer!(u8),
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::F32 => to.push::<f32>(text.parse().map_err(|_| "a number (f32)")?),
        DType::F64 => to.push::<f64>(text.parse().map_err(|_| "a number (f64)")?),
        other => return Err(format!("a type that tables have: bool, u8, i8 to i64, f32 or f64, not {other}")),
    }
    Ok(())
}

/// The builder methods of every reader of tables: which fields to make.
macro_rules! fields {
    ($reader:ty) => {
        impl $reader {
            /// A field of numbers: one column makes one number a sample, several
            /// make a vector.
            pub fn numbers<C: Into<String>>(
                self,
                field: impl Into<crate::sample::Name>,
                dtype: ir::DType,
                columns: impl IntoIterator<Item = C>,
            ) -> Self {
                let columns = columns.into_iter().map(Into::into).collect();
                self.field(field.into(), columns, crate::table::Role::Numbers(dtype))
            }

            /// A field of class numbers from 0 to `classes - 1` (`i64`); others
            /// are refused.
            pub fn label(
                self,
                field: impl Into<crate::sample::Name>,
                column: impl Into<String>,
                classes: usize,
            ) -> Self {
                self.field(field.into(), vec![column.into()], crate::table::Role::Label(classes))
            }

            /// A field of class numbers (`i64`) made of class names, in
            /// alphabetical order; see [`Memory::classes`](crate::Memory::classes).
            pub fn category(self, field: impl Into<crate::sample::Name>, column: impl Into<String>) -> Self {
                self.field(field.into(), vec![column.into()], crate::table::Role::Category(None))
            }

            /// A field of class numbers (`i64`) made of the given class names;
            /// others are refused. Use it where a part of the data may lack a
            /// class.
            pub fn category_of<C: Into<String>>(
                self,
                field: impl Into<crate::sample::Name>,
                column: impl Into<String>,
                classes: impl IntoIterator<Item = C>,
            ) -> Self {
                let classes = classes.into_iter().map(Into::into).collect();
                let role = crate::table::Role::Category(Some(classes));
                self.field(field.into(), vec![column.into()], role)
            }

            /// A field of texts.
            pub fn text(self, field: impl Into<crate::sample::Name>, column: impl Into<String>) -> Self {
                self.field(field.into(), vec![column.into()], crate::table::Role::Text)
            }

            fn field(mut self, name: crate::sample::Name, columns: Vec<String>, role: crate::table::Role) -> Self {
                self.fields.push(crate::table::Field { name, columns, role });
                self
            }
        }
    };
}
pub(crate) use fields;
