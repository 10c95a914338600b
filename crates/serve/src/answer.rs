//! The answer to a request: its rows of the outputs of a batch, copied or shared.

use crate::direct::Sent;
use ir::Literal;
use std::sync::Arc;

/// Outputs of fewer bytes are copied rather than shared.
const SHARE_MIN: usize = 16 << 10;
/// Outputs are shared with a request that has at least one of so many parts of them.
const SHARE_PARTS: usize = 4;

/// The outputs of one request: rows of the outputs of a batch.
#[derive(Clone)]
pub struct Answer {
    /// Outputs of the whole batch.
    pub outputs: Arc<Vec<Literal>>,
    /// Rows of this request; `None` if the outputs are its alone.
    pub rows: Option<std::ops::Range<usize>>,
    /// Rows of the program that ran.
    pub batch_size: usize,
    /// Other free dimensions that were padded, with their sizes in the program that ran.
    pub padded: Vec<(String, usize)>,
    /// When the engine had it.
    pub done_us: u64,
    /// What the engine has written of it, if it has.
    pub sent: Option<Sent>,
}

/// Part of an output, shared with the rest of its batch.
struct Slice(Arc<Vec<Literal>>, usize, std::ops::Range<usize>);

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1].bytes()[self.2.clone()]
    }
}

impl Answer {
    /// Rows of the outputs of a program, or all of them, that the engine had at this time.
    pub fn new(
        outputs: Arc<Vec<Literal>>,
        rows: Option<std::ops::Range<usize>>,
        batch_size: usize,
        done_us: u64,
    ) -> Answer {
        Answer { outputs, rows, batch_size, padded: Vec::new(), done_us, sent: None }
    }
    /// The shape and bytes of an output.
    pub fn output(&self, index: usize) -> (Vec<usize>, &[u8]) {
        let (shape, range) = self.range(index);
        (shape, &self.outputs[index].bytes()[range])
    }
    /// The bytes of an output without copying them, if they are worth it: they keep the outputs of the whole batch in memory
    /// as long as a client takes to read them, so the request must have a good part of it.
    pub fn shared(&self, index: usize) -> Option<bytes::Bytes> {
        let (_, range) = self.range(index);
        let all = self.outputs[index].bytes().len();
        let is_worth = range.len() >= SHARE_MIN && range.len() * SHARE_PARTS >= all;
        is_worth.then(|| bytes::Bytes::from_owner(Slice(self.outputs.clone(), index, range)))
    }
    fn range(&self, index: usize) -> (Vec<usize>, std::ops::Range<usize>) {
        let l = &self.outputs[index];
        let mut shape = l.shape().to_vec();
        let Some(rows) = &self.rows else { return (shape, 0..l.bytes().len()) };
        let row = l.bytes().len() / shape[0].max(1);
        shape[0] = rows.len();
        (shape, rows.start * row..rows.end * row)
    }
}
