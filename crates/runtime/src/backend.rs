//! The devices that are linked into the program. A device crate registers itself; no crate above it
//! has to name it, so the language does not wait for a device to compile.
//!
//! A program of the façade has the CPU. A program of the inner crates alone, such as one of their
//! documentation tests, names a device crate (`use talweg_cpu as _;`) or runs on the reference.

use crate::{Device, Reference, logical};
use ir::{Error, ErrorKind, Result};
use std::sync::Arc;

/// What a device crate says about itself with `inventory::submit!`.
pub struct Backend {
    /// Which kind of device: `cpu`, `cuda`.
    pub kind: &'static str,
    /// How many there are on this machine; none if what they need is missing.
    pub count: fn() -> usize,
    /// Opens the one with this number, or says what is missing.
    pub open: fn(usize) -> Result<Arc<dyn Device>>,
    /// Opens a device that compiles and explains programs without the hardware, and cannot run them.
    pub offline: Option<fn() -> Arc<dyn Device>>,
}
inventory::collect!(Backend);

/// The devices of this machine that are linked into the program: `cpu`, its logical devices, `cuda:0`…
pub fn devices() -> Vec<String> {
    let mut names = vec!["cpu".to_string()];
    names.extend(logical::logical_names());
    for backend in inventory::iter::<Backend>().filter(|o| o.kind != "cpu") {
        names.extend((0..(backend.count)()).map(|i| format!("{}:{i}", backend.kind)));
    }
    names
}

/// A device of this kind that compiles and explains without the hardware, if there is one.
pub fn open_offline(kind: &str) -> Option<Arc<dyn Device>> {
    let backend = inventory::iter::<Backend>().find(|b| b.kind == kind)?;
    backend.offline.map(|open| open())
}

/// Opens a device by its name: `cpu`, `cuda:1`; `cuda` is `cuda:0`. Without a CPU that is linked
/// the reference takes its place. `cpu:1` is a logical device, see [`crate::set_logical_devices`].
pub fn open(name: &str) -> Result<Arc<dyn Device>> {
    let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
    if kind == "cpu" && name != kind {
        let all = logical::logical_names();
        if all.iter().any(|n| n == name) {
            return logical::open(name, || open(kind));
        }
        if !all.is_empty() || number != "0" {
            let there =
                if all.is_empty() { "none is configured".into() } else { format!("there are {}", all.join(", ")) };
            let e = format!("there is no device {name:?}: it is a logical device, and {there} (set_logical_devices)");
            return Err(Error::new(ErrorKind::Device, e));
        }
    }
    let backend = inventory::iter::<Backend>().find(|o| o.kind == kind);
    match (backend, number.parse()) {
        (Some(backend), Ok(number)) => (backend.open)(number),
        (None, _) if kind == "cpu" => Ok(Arc::new(Reference)),
        _ => {
            let mut kinds: Vec<&str> = inventory::iter::<Backend>().map(|o| o.kind).collect();
            kinds.sort_unstable();
            let e = format!("there is no device {name:?}: this program has {}", kinds.join(" and "));
            Err(Error::new(ErrorKind::Device, e))
        }
    }
}
