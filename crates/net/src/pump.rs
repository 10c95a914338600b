//! Sending while receiving, in one thread: two ends that both have much to send would wait for each
//! other to receive first, and a second thread for each exchange costs more than it helps.

use crate::connection::{Ends, Sender};
use crate::stream::{Stream, is_empty};
use crate::{Error, Header, Result};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::time::Instant;

/// Frames that go out over a link while a thread waits for others.
#[derive(Debug)]
pub struct Pump<'a> {
    sender: Sender,
    header: Header,
    data: &'a [u8],
    /// Bytes of a frame.
    piece: usize,
    /// The frame that is in progress: what goes around its payload, its part of the data, and how much
    /// of all is sent.
    ends: Ends,
    part: Range<usize>,
    sent: usize,
}

impl<'a> Pump<'a> {
    /// Sends `data` in frames of `piece` bytes with the same header.
    ///
    /// # Errors
    /// If a piece is too long for a frame.
    pub fn new(sender: Sender, header: &Header, data: &'a [u8], piece: usize) -> Result<Pump<'a>> {
        let part = 0..piece.min(data.len());
        let ends = sender.ends(header, &[&data[part.clone()]])?;
        Ok(Pump { sender, header: *header, data, piece, ends, part, sent: 0 })
    }
    /// True if everything is sent, but for what may be owed.
    fn is_over(&self) -> bool {
        self.part.end == self.data.len() && self.sent == self.frame_len()
    }
    /// Bytes of the frame that is in progress.
    fn frame_len(&self) -> usize {
        self.ends.head().len() + self.part.len() + self.ends.tail().len()
    }
    /// What is left of the frame that is in progress.
    fn rest(&self) -> [IoSlice<'_>; 3] {
        let mut sent = self.sent;
        [self.ends.head(), &self.data[self.part.clone()], self.ends.tail()].map(|bytes| {
            let done = sent.min(bytes.len());
            sent -= done;
            IoSlice::new(&bytes[done..])
        })
    }
    fn wrote(&mut self, n: usize) -> Result<()> {
        self.sent += n;
        if self.sent == self.frame_len() && self.part.end < self.data.len() {
            self.part = self.part.end..(self.part.end + self.piece).min(self.data.len());
            self.ends = self.sender.ends(&self.header, &[&self.data[self.part.clone()]])?;
            self.sent = 0;
        }
        Ok(())
    }
    /// Reads something, and sends whenever there is nothing to read.
    pub(crate) fn read(&mut self, from: &mut Stream, into: &mut [u8], until: Instant) -> io::Result<usize> {
        while !self.is_over() || self.sender.stream().owes() {
            let read = from.read_now(into);
            if !is_empty(&read) {
                return read;
            }
            let rest = if self.is_over() { [IoSlice::new(&[]); 3] } else { self.rest() };
            match self.sender.stream().write_now(&rest) {
                Ok(n) => self.wrote(n).map_err(io::Error::other)?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => from.wait_or(self.sender.stream(), until)?,
                Err(e) => return Err(e),
            }
        }
        from.read(into, until)
    }
    /// Sends the rest.
    ///
    /// # Errors
    /// If the connection is lost, or it is not sent by then.
    pub fn finish(mut self, deadline: Instant) -> Result<()> {
        while !self.is_over() {
            let rest = self.rest();
            let n = self.sender.stream().write(&rest, deadline);
            match n {
                Ok(0) => return Err(Error::Gone("the connection takes no more".to_string())),
                Ok(n) => self.wrote(n)?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.sender.stream().error(e, "sending")),
            }
        }
        self.sender.stream().flush(deadline).map_err(|e| Error::of(e, "sending"))
    }
}
