//! Pinned staging buffers: uploads are copied there first, so that the host does not wait for the transfer.

#![allow(unsafe_code)]

use crate::driver::context::failed;
use cudarc::driver::result::DriverError;
use cudarc::driver::{result as cu, sys};
use ir::Result;

/// Bytes of one of the two halves.
const HALF: usize = 8 << 20;

/// Two halves of pinned memory; one is filled while the other is on its way.
pub struct Staging {
    memory: *mut u8,
    /// Which half is being filled, and how far.
    half: usize,
    at: usize,
    /// Recorded right after the last copy from a half. Any later, and work that follows it on the stream would be waited for,
    /// such as the batch that these bytes are for.
    sent: [sys::CUevent; 2],
}

impl Staging {
    /// Allocates it; the context is current.
    pub fn new() -> Result<Staging> {
        let bad = |e| failed("pinned memory", e);
        // SAFETY: freshly allocated, never freed.
        let memory = unsafe { cu::malloc_host(2 * HALF, 0) }.map_err(bad)?.cast();
        let event = || cu::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(bad);
        Ok(Staging { memory, half: 0, at: 0, sent: [event()?, event()?] })
    }

    /// Puts a copy of `bytes` to the device on the stream; they may change once it returns.
    pub fn upload(&mut self, stream: sys::CUstream, to: u64, bytes: &[u8]) -> Result<(), DriverError> {
        let mut to = to;
        for part in bytes.chunks(HALF) {
            if self.at + part.len() > HALF {
                (self.half, self.at) = (1 - self.half, 0);
                // SAFETY: the events live as long as the context.
                unsafe { cu::event::synchronize(self.sent[self.half])? };
            }
            // SAFETY: the part of this half from `at` on is not on its way to the device.
            unsafe {
                let from = self.memory.add(self.half * HALF + self.at);
                std::ptr::copy_nonoverlapping(part.as_ptr(), from, part.len());
                let from = std::slice::from_raw_parts(from, part.len());
                cu::memcpy_htod_async(to, from, stream)?;
                cu::event::record(self.sent[self.half], stream)?;
            }
            self.at = (self.at + part.len()).next_multiple_of(16).min(HALF);
            to += part.len() as u64;
        }
        Ok(())
    }
}
