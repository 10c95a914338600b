//! cuDNN's functions. The library is found by its name with the version first: where another library of the process,
//! such as PyTorch, has brought its own cuDNN, that one is used. Two at a time do not work, since each loads its parts by
//! name and finds those of the other.

#![allow(unsafe_code, non_snake_case)]

use cudarc::cudnn::sys::{
    cudaStream_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnHandle_t, cudnnStatus_t,
};
use libloading::Library;
use std::ffi::{c_char, c_void};
use std::sync::LazyLock;

/// Names of the library, the first that is found counts.
const NAMES: [&str; 3] = ["libcudnn.so.9", "libcudnn.so", "cudnn64_9.dll"];

macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($ty),*) -> $out,)*
        }

        impl Functions {
            fn load() -> Option<Functions> {
                // SAFETY: loading runs the library's own initializers. It stays loaded, so that its functions do, and they
                // have the signatures of cuDNN 9.
                unsafe {
                    let library = NAMES.iter().find_map(|name| Library::new(*name).ok())?;
                    let all = Functions { $($name: *library.get(stringify!($name).as_bytes()).ok()?,)* };
                    std::mem::forget(library);
                    Some(all)
                }
            }
        }

        $(
            /// cuDNN's function of this name; it is only called where [`is_present`].
            ///
            /// # Safety
            /// As the library's documentation says.
            pub unsafe fn $name($($arg: $ty),*) -> $out {
                let all = FUNCTIONS.as_ref().expect("cuDNN was looked for before");
                // SAFETY: the caller's promise.
                unsafe { (all.$name)($($arg),*) }
            }
        )*
    };
}

functions! {
    cudnnCreate(handle: *mut cudnnHandle_t) -> cudnnStatus_t;
    cudnnSetStream(handle: cudnnHandle_t, stream: cudaStream_t) -> cudnnStatus_t;
    cudnnGetVersion() -> usize;
    cudnnGetLastErrorString(message: *mut c_char, size: usize) -> ();
    cudnnBackendCreateDescriptor(
        kind: cudnnBackendDescriptorType_t,
        descriptor: *mut cudnnBackendDescriptor_t
    ) -> cudnnStatus_t;
    cudnnBackendDestroyDescriptor(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t;
    cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t;
    cudnnBackendSetAttribute(
        descriptor: cudnnBackendDescriptor_t,
        name: cudnnBackendAttributeName_t,
        kind: cudnnBackendAttributeType_t,
        count: i64,
        values: *const c_void
    ) -> cudnnStatus_t;
    cudnnBackendGetAttribute(
        descriptor: cudnnBackendDescriptor_t,
        name: cudnnBackendAttributeName_t,
        kind: cudnnBackendAttributeType_t,
        room: i64,
        count: *mut i64,
        values: *mut c_void
    ) -> cudnnStatus_t;
    cudnnBackendExecute(
        handle: cudnnHandle_t,
        plan: cudnnBackendDescriptor_t,
        pack: cudnnBackendDescriptor_t
    ) -> cudnnStatus_t;
}

static FUNCTIONS: LazyLock<Option<Functions>> = LazyLock::new(Functions::load);

/// Whether the library was found.
pub fn is_present() -> bool {
    FUNCTIONS.is_some()
}
