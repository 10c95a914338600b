//! Data for training, and the records a run leaves behind. No tensors: samples
//! are plain [`Array`]s, so that this crate can be used and tested alone.
//!
//! In the order the data flows:
//! - sources: [`Digits`] (built in), [`Memory`], [`Csv`], [`idx`] and
//!   [`fashion`], [`Text`] with a [`Tokenizer`], [`Lines`]; behind features
//!   `Images` (`image`), `Parquet` (`parquet`) and `Bpe` (`tokenizers`);
//! - [`Dataset`]: samples by index, and combinators (`map`, `vary`, `subset`,
//!   `concat`, `shard`, `split`); [`Augment`] for images;
//! - [`Loader`]: shuffled, batched, prefetched, sharded, with a [`Position`]
//!   that is saved and restored exactly;
//! - records: [`events`] for TensorBoard, [`journal`] in JSON lines, [`atomic`]
//!   for files that are whole or absent, [`Place`] for a folder of them or, with
//!   the feature `s3`, a bucket.
//!
//! Not here: anything that knows a model or a device.
//!
//! ```
//! use talweg_data::{Dataset, Digits, Loader};
//!
//! let mut train = Loader::builder(Digits::new(0, 256)).batch(64).shuffle(1).build()?;
//! for epoch in 0..2 {
//!     for batch in &mut train {
//!         let batch = batch?;
//!         assert_eq!(batch.array("image")?.shape(), [64, 28, 28]);
//!     }
//! }
//! assert_eq!(train.position().epoch, 2);
//! # Ok::<(), talweg_data::Error>(())
//! ```

mod array;
pub mod atomic;
pub mod augment;
mod background;
#[cfg(feature = "tokenizers")]
mod bpe;
mod collate;
mod csv;
mod dataset;
mod digits;
mod error;
pub mod events;
pub mod fashion;
mod glyphs;
pub mod idx;
#[cfg(feature = "image")]
mod images;
pub mod journal;
mod loader;
mod memory;
#[cfg(feature = "parquet")]
mod parquet;
mod place;
mod pool;
pub mod random;
pub mod rendering;
#[cfg(feature = "s3")]
mod s3;
mod sample;
mod table;
mod text;
mod token;

pub use array::Array;
pub use augment::Augment;
pub use background::background;
#[cfg(feature = "tokenizers")]
pub use bpe::Bpe;
pub use collate::{Batch, Collate, Column, ColumnValues};
pub use csv::Csv;
pub use dataset::{Concat, Dataset, Map, Shard, Subset, Vary};
pub use digits::{Digits, Image, SIDE};
pub use error::{Error, Result};
pub use fashion::load as fashion_mnist;
#[cfg(feature = "image")]
pub use images::{Images, decode_image};
pub use loader::{Builder, Loader, Part, Permute, Position};
pub use memory::Memory;
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
pub use place::{Content, Entry, Place};
pub use sample::{Name, Sample, Value};
pub use text::{Lines, Text};
pub use token::{Bytes, Chars, Tokenizer};
// The host array and its element types are those of tensors.
pub use ir::{DType, Element};
