//! How the rows of a loop are spread over threads and blocks.

use super::PARTIALS_MAX;
use super::body::Body;

/// Threads of a block that handles several rows.
const BLOCK: usize = 256;
/// Threads of a row at most.
pub const LANES_MAX: usize = 1024;
/// Threads of a row at most where four blocks should run at once.
const LANES_WIDE: usize = 512;
/// Vectors of a row that a thread should have, and rows that do not keep the device busy.
const EACH: usize = 4;
const ROWS_FEW: usize = 256;

/// How a row is spread over threads.
pub struct Geometry {
    /// Elements side by side in a thread.
    pub width: usize,
    /// Threads a row has.
    pub lanes: usize,
    /// Vectors a thread has.
    pub each: usize,
    /// Rows a block handles at once.
    pub rows: usize,
    /// Blocks.
    pub grid: usize,
}

impl Geometry {
    /// The rows of a loop, of which a block leaves partial results or not.
    pub fn new(b: &Body, is_partial: bool) -> Geometry {
        let mut width = b.width();
        // Short rows: a thread each rather than a vector each.
        while width > 1 && b.l.columns() / width < 8 {
            width /= 2;
        }
        let vectors = b.l.columns() / width;
        // Few rows leave threads idle: they get more of them.
        let each = if b.l.rows() <= ROWS_FEW { 1 } else { EACH };
        let lanes = if vectors <= 32 * each {
            vectors.next_power_of_two().min(32)
        } else {
            vectors.div_ceil(each).next_multiple_of(32).min(LANES_MAX)
        };
        let each = vectors.div_ceil(lanes);
        // What is small is reduced by one block: another launch takes longer.
        let is_small = is_partial && lanes <= 32 && each * width <= 4 && b.l.rows() * b.l.columns() <= super::SMALL;
        let rows = match lanes {
            _ if is_small => (1024 / lanes).min(b.l.rows().next_power_of_two().max(32 / lanes)),
            1..=32 => BLOCK / lanes,
            _ => 1,
        };
        let blocks = b.l.rows().div_ceil(rows);
        let grid = if is_small { 1 } else { blocks.min(if is_partial { PARTIALS_MAX } else { usize::MAX }) };
        Geometry { width, lanes, each, rows, grid }
    }
    /// One row that every block of so many threads has.
    pub fn inside(b: &Body, block: usize) -> Geometry {
        let columns = b.l.columns();
        let mut width = 8;
        while width > 1 && (!columns.is_multiple_of(width) || columns / width < block / 2) {
            width /= 2;
        }
        Geometry { width, lanes: block, each: (columns / width).div_ceil(block), rows: 1, grid: 1 }
    }
    /// Gives a row as many threads as can run at once: they wait for each other, and for what is read.
    pub fn widen(&mut self, columns: usize) {
        let vectors = columns / self.width;
        self.each = vectors.div_ceil(LANES_WIDE);
        self.lanes = vectors.div_ceil(self.each).next_multiple_of(32);
    }
    /// Threads of a block.
    pub fn block(&self) -> usize {
        self.lanes * self.rows
    }
}
