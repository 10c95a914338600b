//! A computed value, wherever it lives.

use crate::{Literal, Result, Type};
use std::any::Any;
use std::sync::Arc;

/// Memory of a device other than the host.
pub trait Storage: Send + Sync + 'static {
    /// The device's name, such as `cuda:0`.
    fn device(&self) -> &str;
    /// Copies the value to the host, waiting for whatever computes it.
    fn read(&self) -> Result<Literal>;
    /// The same memory seen as another type of as many bytes.
    fn retyped(&self, ty: Type) -> Arc<dyn Storage>;
    /// Whether another value lies in the same memory.
    fn is_shared(&self) -> bool {
        false
    }
    /// Whether ranks of a mesh hold parts of it: reading it gathers them, on all ranks at the same point of the
    /// program.
    fn is_spread(&self) -> bool {
        false
    }
    /// The value, where it lies in host memory: that of a logical device of the host.
    fn host(&self) -> Option<Literal> {
        None
    }
    /// For the device to find its own type again.
    fn as_any(&self) -> &dyn Any;
    /// The value, or a copy of it, for another library of this process to read; `None` where no
    /// other library knows the device's memory. Unless `is_unready`, whatever computes the value is
    /// waited for.
    fn lend(&self, is_copy: bool, is_unready: bool) -> Result<Option<DeviceMemory>> {
        let _ = (is_copy, is_unready);
        Ok(None)
    }
    /// The same for a library whose work is in the order of a stream, which must wait for the device before it reads:
    /// nothing is waited for here. When the library is done, the device waits for what that stream has then.
    fn lend_in_order(&self, is_copy: bool, stream: u64) -> Result<Option<DeviceMemory>> {
        let _ = (is_copy, stream);
        Ok(None)
    }
}

/// Memory of a device that one library reads and another one owns.
pub struct DeviceMemory {
    /// Its first byte.
    pub address: u64,
    /// Keeps the memory until it is dropped; readers hold it.
    pub owner: Box<dyn Any + Send + Sync>,
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
    /// The same value seen as another type of as many bytes.
    pub fn retyped(&self, ty: &Type) -> Buffer {
        match self {
            Buffer::Host(l) => Buffer::Host(l.retyped(ty.dtype, ty.shape.clone())),
            Buffer::Device(s) => Buffer::Device(s.retyped(ty.clone())),
        }
    }
    /// The same value as one of the host, where it lies in host memory.
    pub fn in_host(self) -> Buffer {
        let host = if let Buffer::Device(s) = &self { s.host() } else { None };
        host.map_or(self, Buffer::Host)
    }
    /// The value on the host.
    pub fn read(&self) -> Result<Literal> {
        match self {
            Buffer::Host(l) => Ok(l.clone()),
            Buffer::Device(s) => s.read(),
        }
    }
}
