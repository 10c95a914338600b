//! Models: their shapes, their weights, and the tensor code that runs them.

pub mod attend;
mod bert;
mod config;
mod decoder;
mod layers;
mod names;
mod packed;
mod rope;
mod weights;

pub use bert::{Bert, Encoded, Pooling};
pub use config::{Activation, Config, Experts};
pub use decoder::Decoder;
pub use layers::{Chosen, Linear, Lora};
pub use names::{Names, peft_name};
pub use packed::{is_on_host, placed};
pub use rope::{Rope, Scaling};
pub use weights::{Folder, Matrix, Source, Weight};

use memmap2::Mmap;

/// Maps a file of weights.
pub(crate) fn map(file: &std::fs::File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only. A process that truncates the file meanwhile ends this one with SIGBUS, as with
    // any mapped file; no value read from it is trusted.
    #[allow(unsafe_code)]
    unsafe {
        Mmap::map(file)
    }
}
