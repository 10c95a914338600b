//! Where the replies to reads belong in the caller's memory.

use std::ops::Range;

/// Where the answer to a question belongs: in which of the caller's slices, and where there.
pub(crate) type Spot = Option<(usize, Range<usize>)>;

/// Where the answers to questions belong that follow each other.
#[derive(Default)]
pub(crate) struct Places<'a, 'b> {
    /// Number of the first question.
    pub first: u64,
    pub spots: Vec<Spot>,
    pub into: &'a mut [&'b mut [f32]],
}

impl Places<'_, '_> {
    fn spot(&mut self, request: u64) -> Option<&mut Spot> {
        self.spots.get_mut(request.checked_sub(self.first)? as usize)
    }
    /// The place that the answer to a question belongs to, if it has not been filled.
    pub fn get(&mut self, request: u64) -> Option<&mut [f32]> {
        let (slice, range) = self.spot(request)?.clone()?;
        self.into.get_mut(slice)?.get_mut(range)
    }
    /// Marks the place as filled: a repeated reply finds none.
    pub fn mark_filled(&mut self, request: u64) {
        if let Some(spot) = self.spot(request) {
            *spot = None;
        }
    }
}
