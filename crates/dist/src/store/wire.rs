//! Messages as frames: payloads in parts that are not copied, sent together where there are several.

use crate::store::message::{Clocks, Rows};
use crate::{Error, Result, pool};
use net::{Header, Receiver, Sender, TOGETHER};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// A payload that keeps what it points to alive while it is sent. Elements come first, so that a
/// receiver has them where it read them.
#[derive(Default)]
pub struct Parts {
    pub(crate) arrays: SmallVec<[Arc<Vec<f32>>; 4]>,
    pub(crate) rows: Rows,
    /// What stands for the list of rows, or follows it.
    pub(crate) hash: Option<[u32; 2]>,
    pub(crate) bytes: SmallVec<[u8; 128]>,
    pub(crate) clocks: Clocks,
}

impl Parts {
    /// The pieces, in order.
    pub fn slices(&self) -> SmallVec<[&[u8]; 6]> {
        let mut out: SmallVec<[&[u8]; 6]> = self.arrays.iter().map(|a| bytemuck::cast_slice::<f32, u8>(a)).collect();
        let hash = self.hash.as_ref().map_or(&[][..], |h| bytemuck::cast_slice(h));
        out.extend([bytemuck::cast_slice(&self.rows), hash, &self.bytes[..], bytemuck::cast_slice(&self.clocks)]);
        out
    }
}

/// Reads the payload of a message, in words: all payloads consist of them.
pub(crate) fn receive(receiver: &mut Receiver, h: &Header, deadline: Instant) -> Result<Arc<Vec<f32>>> {
    if !h.length.is_multiple_of(4) {
        return Err(Error::refused(format!("a payload of {} bytes is not whole words", h.length)));
    }
    let mut words = pool::take(h.length as usize / 4);
    if h.length > 0 {
        receiver.payload_into(bytemuck::cast_slice_mut(pool::make_mut(&mut words)), deadline)?;
    }
    Ok(words)
}

/// A message on its way: its elements may lie elsewhere too, where they are read from then.
pub(crate) type Encoded<'a> = (Header, Parts, Option<&'a [f32]>);

/// Sends messages one after the other, in few calls of the system.
pub(crate) fn send_together<'a>(
    sender: &mut Sender,
    messages: impl IntoIterator<Item = Encoded<'a>>,
    deadline: Instant,
) -> net::Result<()> {
    let mut messages = messages.into_iter();
    loop {
        let some: SmallVec<[Encoded<'a>; TOGETHER]> = messages.by_ref().take(TOGETHER).collect();
        if some.is_empty() {
            return Ok(());
        }
        let frames = some.iter().map(|(h, parts, elements)| {
            let mut slices = parts.slices();
            elements.iter().for_each(|e| slices[0] = bytemuck::cast_slice(e));
            (*h, slices)
        });
        sender.send_frames(&frames.collect::<SmallVec<[_; TOGETHER]>>(), deadline)?;
    }
}
