//! Right sides of products that are packed once and used again and again: the weights of a model
//! that only answers.

#![allow(unsafe_code)]

use super::element::{Float, Multiply, SweepOf};
use super::micro::{Ahead, Panels, Sweep, panel_at, panel_count};
use super::{BESIDE, Mat};
use crate::pool::{self, Shared};
use ir::Bytes;

/// Some matrices of one size as panels, each read from its first byte to its last.
pub struct Packed {
    k: usize,
    n: usize,
    lanes: usize,
    room: Bytes,
}

/// The left side of a product: `m` rows along `k`.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub p: *const f32,
    pub m: usize,
    /// Elements between rows; 0: one strip of `m` rows ([`Packed::strip`] at most), which lie together
    /// at each step of `k`.
    pub row: isize,
}

/// Where a product goes; one of the distances between rows and between columns is 1.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub p: *mut f32,
    pub row: isize,
    pub col: isize,
}

impl Packed {
    /// Packs `count` matrices of `k` rows and `n` columns.
    ///
    /// # Safety
    /// Every element of every matrix that `at` names must be valid for reading.
    pub unsafe fn new(count: usize, k: usize, n: usize, at: &(dyn Fn(usize) -> Mat<f32> + Sync)) -> Packed {
        let lanes = f32::tile().0;
        let mut room = Bytes::any(count * k * n.next_multiple_of(lanes) * size_of::<f32>());
        let to = Shared::new(room.as_mut().as_mut_ptr().cast::<f32>());
        let packed = Packed { k, n, lanes, room };
        let panels = packed.panels();
        pool::parallel_for(count * panels, &|task| {
            let (i, b) = (task / panels, at(task / panels));
            let (j, cols) = packed.panel(task % panels);
            let w = cols.next_multiple_of(lanes);
            // SAFETY: the caller's promise; each task writes its own panel.
            unsafe {
                let to = to.get().add(packed.offset(i, j));
                <f32 as Multiply>::pack(b.at(0, j), b.col, b.row, cols, k, w, to);
            }
        });
        packed
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.room.as_slice().len()
    }

    /// The most rows of a left side that lies as one strip: those of a tile, on this machine.
    pub(crate) fn strip() -> usize {
        f32::tile().1
    }

    /// How many panels a matrix has.
    pub(crate) fn panels(&self) -> usize {
        panel_count(self.n.div_ceil(self.lanes))
    }

    /// The first column of a panel, and how many columns it has.
    pub(crate) fn panel(&self, i: usize) -> (usize, usize) {
        let (v, nv) = panel_at(i, self.n.div_ceil(self.lanes));
        let j = v * self.lanes;
        (j, (nv * self.lanes).min(self.n - j))
    }

    /// Elements before the panel of matrix `i` that begins at column `j`.
    fn offset(&self, i: usize, j: usize) -> usize {
        (i * self.n.next_multiple_of(self.lanes) + j) * self.k
    }

    /// Computes the columns of the result that belong to a panel of matrix `i`, on this thread;
    /// `target` is where the whole result goes.
    ///
    /// # Safety
    /// The left side must be valid for reading, the result for writing, apart from each other.
    pub(crate) unsafe fn multiply(&self, i: usize, panel: usize, left: Left, target: Target) {
        assert!(left.row != 0 || left.m <= Packed::strip(), "a strip of {} rows is more than a tile's", left.m);
        let (j, n) = self.panel(panel);
        // SAFETY: panels lie inside the room; the rest is the caller's promise.
        unsafe {
            let p = self.room.as_slice().as_ptr().cast::<f32>().add(self.offset(i, j));
            let next = p.wrapping_add(n.next_multiple_of(self.lanes) * self.k).cast();
            let ahead = (panel + 1 < self.panels()).then(|| Ahead { step: 64, ..Ahead::nothing(next) });
            let c = target.p.offset(j as isize * target.col);
            assert!(self.lanes == f32::tile().0, "weights were packed for another instruction set");
            let q = Sweep {
                m: left.m,
                n,
                k: self.k,
                alpha: 1.0,
                left: left.p,
                left_row: left.row,
                right: Panels { p, row: 0 },
                c,
                c_row: target.row,
                c_col: target.col,
                add: false,
                strips_first: false,
                left_ahead: false,
                ahead,
                beside: [std::ptr::null(); BESIDE],
                keep: std::ptr::null_mut(),
                pairs: false,
            };
            f32::sweep(&SweepOf(q));
        }
    }
}
