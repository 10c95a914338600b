//! Exported models: a directory that holds a shape-polymorphic graph, its weights and its signature, and that any
//! Talweg process can run without the program that made it.
//!
//! ```text
//! model.json            name, free dimensions, inputs, outputs, hashes of the other files
//! graph.bin, graph.txt  the graph, binary and for people
//! weights.safetensors   the weights, by name
//! ```
//!
//! ```
//! # use talweg_model::{Export, Model};
//! # use cpu as _;
//! # use tensor::Tensor;
//! # let dir = tempfile::tempdir().unwrap();
//! # let dir = dir.path().join("double");
//! let example = Tensor::from([[1.0f32, 2.0, 3.0]]);
//! Export::new("double").input("x", &example, &["batch", ""]).write(&dir, |x| Ok(vec![&x[0] * 2.0])).unwrap();
//!
//! let model = Model::load(&dir).unwrap();
//! let y = model.run(&[Tensor::from([[1.0f32, 1.0, 1.0], [2.0, 2.0, 2.0]]).literal().unwrap()]).unwrap();
//! assert_eq!(y[0].to_vec::<f32>().unwrap(), [2.0, 2.0, 2.0, 4.0, 4.0, 4.0]);
//! ```

mod export;
mod files;
mod fold;
mod loaded;
mod mapped;
mod padding;
mod polymorphic;
mod signature;

pub use export::Export;
pub use loaded::{Model, Prepared};
pub use mapped::{map as map_opened, open as map_file};
pub use padding::half_octave;
pub use polymorphic::{Expr, Polymorphic};
pub use signature::{Axis, Dimension, Signature, TensorSpec};
