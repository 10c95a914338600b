//! The model of a library behind a C interface, and of a WebAssembly module behind its host's.
//!
//! There is one model in a process. Functions return 0, or 1 after they have kept the words of an error.

#![allow(unsafe_code)]

use crate::{Model, Port};
use ir::{Error, Result};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// The most inputs, and outputs, of a library: their addresses are copied without an allocation.
const PORTS_MAX: usize = 32;

static MODEL: OnceLock<Model> = OnceLock::new();

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Declares the C functions of a library around a bundle: `library!(init, run, error, embed!("model.bin"))`.
#[macro_export]
macro_rules! library {
    ($init:ident, $run:ident, $error:ident, $bundle:expr) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $init() -> i32 {
            $crate::host::init($bundle)
        }
        /// # Safety
        /// As many addresses as the model has inputs and outputs, each of as many bytes as it has.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $run(inputs: *const *const u8, outputs: *const *mut u8) -> i32 {
            unsafe { $crate::host::run(inputs, outputs) }
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $error() -> *const std::ffi::c_char {
            $crate::host::error()
        }
    };
}

/// Declares the functions of a WebAssembly module, whose host hands over the bundle.
#[macro_export]
macro_rules! module {
    () => {
        #[unsafe(no_mangle)]
        pub extern "C" fn talweg_alloc(bytes: usize) -> *mut u8 {
            $crate::host::alloc(bytes)
        }
        /// # Safety
        /// Bytes of [`talweg_alloc`], which the host leaves alone from now on.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn talweg_init(bundle: *const u8, bytes: usize) -> i32 {
            unsafe { $crate::host::init(core::slice::from_raw_parts(bundle, bytes)) }
        }
        /// # Safety
        /// A table of the addresses of all inputs, then of all outputs, of these numbers.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn talweg_run(table: *const *mut u8, inputs: usize, _outputs: usize) -> i32 {
            unsafe { $crate::host::run(table.cast(), table.add(inputs)) }
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn talweg_error() -> *const core::ffi::c_char {
            $crate::host::error()
        }
    };
}

fn status(done: Result<()>) -> i32 {
    let Err(e) = done else { return 0 };
    let text = CString::new(e.to_string().replace('\0', "")).unwrap_or_default();
    ERROR.set(text);
    1
}

/// Makes the model ready; a second call does nothing.
pub fn init(bundle: &'static [u8]) -> i32 {
    if MODEL.get().is_some() {
        return 0;
    }
    status(Model::new(bundle).and_then(|m| {
        let most = m.inputs().len().max(m.outputs().len());
        if most > PORTS_MAX {
            return Err(Error::value(format!("a library has at most {PORTS_MAX} inputs and outputs, not {most}")));
        }
        // Another thread may have been first: both have made the same.
        let _ = MODEL.set(m);
        Ok(())
    }))
}

/// Runs the model.
///
/// # Safety
/// `inputs` and `outputs` have an address for each input and output, of as many bytes as each takes; outputs lie apart
/// from all else.
pub unsafe fn run(inputs: *const *const u8, outputs: *const *mut u8) -> i32 {
    let Some(model) = MODEL.get() else { return status(Err(Error::value("the model was not made ready: call init"))) };
    let mut ins: [&[u8]; PORTS_MAX] = [&[]; PORTS_MAX];
    let mut outs: [&mut [u8]; PORTS_MAX] = std::array::from_fn(|_| &mut [][..]);
    let missing = |p: &Port| status(Err(Error::value(format!("the address of {} is null", p.name))));
    for (i, port) in model.inputs().iter().enumerate() {
        // SAFETY: the caller's promise.
        let p = unsafe { *inputs.add(i) };
        if p.is_null() {
            return missing(port);
        }
        // SAFETY: the caller's promise.
        ins[i] = unsafe { std::slice::from_raw_parts(p, port.ty.bytes()) };
    }
    for (i, port) in model.outputs().iter().enumerate() {
        // SAFETY: the caller's promise.
        let p = unsafe { *outputs.add(i) };
        if p.is_null() {
            return missing(port);
        }
        // SAFETY: the caller's promise.
        outs[i] = unsafe { std::slice::from_raw_parts_mut(p, port.ty.bytes()) };
    }
    status(model.run(&ins[..model.inputs().len()], &mut outs[..model.outputs().len()]))
}

/// What failed last in this thread.
pub fn error() -> *const c_char {
    ERROR.with_borrow(|e| e.as_ptr())
}

/// Memory on a boundary of 64 bytes that stays as long as the module.
pub fn alloc(bytes: usize) -> *mut u8 {
    Box::leak(Box::new(ir::Bytes::zeroed(bytes.max(1)))).as_mut().as_mut_ptr()
}
