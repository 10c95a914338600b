//! A computed value, wherever it lives.

use crate::{Literal, Result};
use std::any::Any;
use std::sync::Arc;

/// Memory of a device other than the host.
pub trait Storage: Send + Sync + 'static {
    /// The device's name, such as `cuda:0`.
    fn device(&self) -> &str;
    /// Copies the value to the host, waiting for whatever computes it.
    fn read(&self) -> Result<Literal>;
    /// For the device to find its own type again.
    fn as_any(&self) -> &dyn Any;
}

/// A computed value: on the host, or on another device.
#[derive(Clone)]
pub enum Buffer {
    /// Host memory.
    Host(Literal),
    /// A device's memory.
    Device(Arc<dyn Storage>),
}

impl Buffer {
    /// The value on the host.
    pub fn read(&self) -> Result<Literal> {
        match self {
            Buffer::Host(l) => Ok(l.clone()),
            Buffer::Device(s) => s.read(),
        }
    }
}
