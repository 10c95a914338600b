//! Launches of kernels: shared memory that they may have, tensor maps, arguments.

use super::{Context, Function, failed};
use crate::emit::Tiles;
use cudarc::driver::sys;
use ir::Result;
use std::ffi::c_void;

impl Context {
    /// Lets launches of a kernel have so much shared memory beside what its text declares.
    pub fn allow_shared(&self, f: Function, bytes: u32) -> Result<()> {
        let what = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        if bytes == 0 { Ok(()) } else { self.set(f, what, bytes as i32) }
    }
    /// Lets a kernel run where memory is divided for kernels that want much shared memory. A multiprocessor
    /// divides its memory anew only when nothing runs on it, so that no launch could begin before the end
    /// of one that wants another division.
    pub fn prefer_shared(&self, f: Function) -> Result<()> {
        self.set(f, sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100)
    }
    fn set(&self, f: Function, what: sys::CUfunction_attribute, value: i32) -> Result<()> {
        // SAFETY: the function is loaded for as long as the process lives.
        let done = unsafe { sys::cuFuncSetAttribute(f.0, what, value).result() };
        done.map_err(|e| failed(&format!("{}: {value} for {what:?}", self.name), e))
    }

    /// What the GPU's copy engine needs to know of a matrix at an address: rows of 128 bytes of a tile have their pieces
    /// of 16 bytes exchanged in shared memory.
    pub fn tensor_map(&self, m: &Tiles, at: u64) -> Result<sys::CUtensorMap> {
        use sys::{
            CUtensorMapDataType as Data, CUtensorMapFloatOOBfill as Outside, CUtensorMapInterleave as Interleave,
        };
        use sys::{CUtensorMapL2promotion as Promotion, CUtensorMapSwizzle as Swizzle};
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let (sizes, tile) = (m.sizes.map(|n| n as u64), m.tile.map(|n| n as u32));
        let (step, each) = (m.step as u64, [1u32; 2]);
        // SAFETY: the arrays have as many elements as the map has dimensions, and live until the call returns.
        let done = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                Data::CU_TENSOR_MAP_DATA_TYPE_UINT16,
                2,
                at as *mut c_void,
                sizes.as_ptr(),
                &raw const step,
                tile.as_ptr(),
                each.as_ptr(),
                Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                Outside::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        done.result().map_err(|e| failed(&format!("{}: a tensor map of {m:?}", self.name), e))?;
        Ok(map)
    }

    /// Puts a launch of so many blocks, threads of each and bytes of shared memory on the stream. Tensor maps come first;
    /// every other argument is eight bytes, or all are one table of such.
    pub fn launch(
        &self,
        f: Function,
        [grid, block, shared]: [u32; 3],
        maps: &mut [sys::CUtensorMap],
        args: &mut [u64],
        is_table: bool,
    ) -> Result<()> {
        let count = if is_table { 1 } else { args.len() };
        let maps = maps.iter_mut().map(|m| (&raw mut *m).cast::<c_void>());
        let args = (0..count).map(|i| args.as_mut_ptr().wrapping_add(i).cast::<c_void>());
        let mut list: smallvec::SmallVec<[*mut c_void; 16]> = maps.chain(args).collect();
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: self.stream,
            attrs: &raw mut early,
            numAttrs: u32::from(self.major >= 9),
        };
        // SAFETY: the arguments are those the kernel's text declares, and their memory is alive in
        // the stream's order, which kernels that begin early wait for themselves.
        unsafe { sys::cuLaunchKernelEx(&raw const config, f.0, list.as_mut_ptr(), std::ptr::null_mut()).result() }
            .map_err(|e| failed(&format!("{}: a launch", self.name), e))
    }
}
