//! Loops as tile programs: a few rows of the space at a time stay in cache while every step of
//! the loop runs over them with vector loops.
//!
//! A *value* of a tile program is a tile of one lane type: all points of the tile, one number a
//! row, one a column, or one. [`emit()`] writes the program of a loop, [`Tiles::run`] runs it.

#![allow(unsafe_code)]

pub mod access;
mod chain;
mod code;
mod combine;
mod emit;
mod epilogue;
mod exec;
mod functions;
pub mod lane;
mod peephole;
pub mod plan;
mod requantize;
mod visit;

use access::{Access, Spot};
use chain::{Chain, Simple, Triple};
use combine::{Row, Wide};
use functions::Binary;
use ir::{DType, Monoid};
use lane::{F1, F3, Lane};
use plan::Plan;

pub use emit::{Homes, emit, plan, scratch_bytes};
pub use epilogue::recognize as recognize_epilogue;
pub use functions::{has_vector_loop, texts};
pub use requantize::recognize as recognize_requantize;

/// What a tile's numbers vary along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// There is one a row.
    pub by_row: bool,
    /// There is one a column.
    pub by_column: bool,
}

impl Span {
    const ONE: Span = Span { by_row: false, by_column: false };

    fn of(a: &Access) -> Span {
        Span { by_row: a.varies_by_row(), by_column: a.varies_by_column() }
    }
    fn or(self, other: Span) -> Span {
        Span { by_row: self.by_row || other.by_row, by_column: self.by_column || other.by_column }
    }
    #[inline]
    fn count(self, h: usize, w: usize) -> usize {
        (if self.by_row { h } else { 1 }) * (if self.by_column { w } else { 1 })
    }
}

/// A value of a tile program, by number.
type Val = u16;

/// An operand of an instruction.
#[derive(Clone, Copy, Debug)]
struct Arg {
    val: Val,
    span: Span,
    size: u8,
}

/// The function in an op's row.
#[derive(Clone, Copy)]
enum Function {
    Float(fn(&[f64]) -> f64),
    Int(fn(&[i128]) -> i128),
}

/// One instruction, run once a tile.
enum Instr {
    /// Reads strided memory into a tile.
    Read {
        access: Access,
        dtype: DType,
        y: Val,
    },
    /// The sum of each row of strided memory whose neighboring rows lie together.
    ReadSum {
        access: Access,
        dtype: DType,
        y: Val,
    },
    /// Writes a tile to strided memory.
    Write {
        access: Access,
        x: Val,
    },
    Unary {
        f: F1,
        x: Val,
        y: Val,
        span: Span,
    },
    /// `code` is the text of a simple operation, or empty.
    Binary {
        code: &'static str,
        f: Binary,
        a: Arg,
        b: Arg,
        y: Arg,
    },
    /// Two operations in one pass.
    Chain {
        ops: (Simple, Simple),
        f: [[Chain; 2]; 2],
        a: Arg,
        b: Arg,
        c: Arg,
        y: Arg,
    },
    /// Three operations in one pass.
    Triple {
        f: [Triple; 8],
        args: [Arg; 4],
        y: Arg,
    },
    /// The sum of a product's row.
    Dot {
        a: Arg,
        b: Arg,
        y: Val,
    },
    Select {
        f: F3,
        c: Arg,
        a: Arg,
        b: Arg,
        y: Arg,
    },
    /// An op without a vector loop.
    Each {
        f: Function,
        args: Vec<(Arg, Lane)>,
        y: Arg,
        to: Lane,
    },
    /// Repeats a value along what it does not vary along.
    Expand {
        x: Arg,
        y: Arg,
    },
    /// Each row to one value.
    Rows {
        monoid: Monoid,
        f: Row,
        x: Arg,
        y: Val,
    },
    /// Adds rows of memory, `apart` elements from each other, to the accumulators of a reduction of columns.
    AccumulateRead {
        to: usize,
        access: Access,
        apart: usize,
    },
    /// Adds to the accumulators of a reduction over the whole loop.
    Accumulate {
        to: usize,
        x: Val,
    },
}

/// How a reduction over the whole loop accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gather {
    /// One accumulator a row, for each task across.
    Rows,
    /// One a column, for each task down.
    Columns,
    /// One a task, of all points.
    Points,
    /// One a task, of one value a row.
    RowValues,
}

/// A reduction over the whole loop.
struct Accumulator {
    wide: Wide,
    how: Gather,
    /// Of its partial results, from the start of the loop's scratch space.
    offset: usize,
    dtype: DType,
    out: Spot,
}

/// Where a value's numbers are.
enum Home {
    /// In the thread's scratch memory, at this byte.
    Scratch(usize),
    /// In the program's constants, at this index.
    Const(usize),
    /// In memory, where this walk begins.
    Memory(Access),
}

/// Memory that is brought closer while the tile before is computed.
struct Ahead {
    access: Access,
    span: Span,
    is_written: bool,
}

/// The program of a loop.
pub struct Tiles {
    plan: Plan,
    homes: Vec<Home>,
    consts: Vec<u64>,
    instrs: Vec<Instr>,
    accumulators: Vec<Accumulator>,
    /// What tiles read and write in place, for loops over more memory than caches hold.
    ahead: Vec<Ahead>,
    /// The loop's scratch space in the arena.
    partials: Spot,
    /// Bytes of scratch memory a thread needs.
    scratch: usize,
}

#[cfg(test)]
impl Tiles {
    /// How many values are copied from memory into tiles.
    pub fn copies(&self) -> usize {
        self.instrs.iter().filter(|i| matches!(i, Instr::Read { .. })).count()
    }
}
