//! Exported models: a directory with a graph, weights and a signature, which any process can run and serve.
//!
//! ```
//! use talweg::export::{ExportLayer, Model};
//! use talweg::prelude::*;
//!
//! # let dir = std::env::temp_dir().join(format!("talweg-export-{}", std::process::id()));
//! let net = Sequential::new().with(Linear::new(4, 8)?).with(Relu).with(Linear::new(8, 2)?);
//! net.export(&dir, &Tensor::zeros([1, 4]))?;
//!
//! let model = Model::load(&dir)?;
//! assert_eq!(model.signature().inputs[0].describe(), "f32[batch, 4]");
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), talweg::Error>(())
//! ```

use nn::{Entry, Layer};
use std::path::Path;
use tensor::{Result, Tensor};

pub use model::{Axis, Dimension, Export, Model, Prepared, Signature, TensorSpec};

/// Layers can be exported. [`Export`] takes any function of tensors, and has names, bounds and several inputs.
pub trait ExportLayer: Layer {
    /// Writes the layer as a model with the input `x` and the output `output`, in inference mode. The first axis of the
    /// example is free.
    ///
    /// # Errors
    /// If the layer branches on sizes, draws random numbers, or the directory cannot be written.
    #[track_caller]
    fn export(&self, dir: impl AsRef<Path>, example: &Tensor) -> Result<()> {
        let mut modes = Vec::new();
        self.visit("", &mut |_: &str, e: Entry| {
            if let Entry::Mode(mode) = e {
                modes.push(mode.is_training());
            }
        });
        self.train(false);
        let name = dir.as_ref().file_name().map_or("model".into(), |n| n.to_string_lossy().into_owned());
        let rank = example.literal()?.shape().rank();
        let axes: Vec<&str> = (0..rank).map(|axis| if axis == 0 { "batch" } else { "" }).collect();
        let written = Export::new(&name).input("x", example, &axes).write(dir, |x| Ok(vec![self.forward(&x[0])]));
        let mut modes = modes.into_iter();
        self.visit("", &mut |_: &str, e: Entry| {
            if let Entry::Mode(mode) = e {
                mode.set_training(modes.next().unwrap_or(true));
            }
        });
        written
    }
}

impl<L: Layer + ?Sized> ExportLayer for L {}
