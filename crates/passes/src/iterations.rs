//! Where each iteration of a `scan` reads and writes. An iteration reads its rows in place and writes its results to
//! their rows of the whole result. A carried value stays where the iteration that computed it wrote it.

use crate::{ALIGN, Source};
use ir::{Attrs, Result, Type};
use smallvec::SmallVec;

/// An address that a device computes with.
pub trait Pointer: Copy + PartialEq {
    /// The address so many bytes further on.
    fn offset_by(self, bytes: usize) -> Self;
}
impl Pointer for *mut u8 {
    fn offset_by(self, bytes: usize) -> *mut u8 {
        self.wrapping_add(bytes)
    }
}
impl Pointer for u64 {
    fn offset_by(self, bytes: usize) -> u64 {
        self + bytes as u64
    }
}

/// Bytes to copy from one address to another.
pub struct Transfer<P> {
    /// The first byte to read.
    pub from: P,
    /// The first byte to write.
    pub to: P,
    /// How many.
    pub bytes: usize,
}

/// Where an iteration's result buffer lies.
#[derive(Clone, Copy)]
enum Target {
    /// The iteration's row of this result of the scan.
    Row(usize),
    /// The next iteration's row of this result, which is a carried value as each iteration finds it; after the last
    /// iteration, an offset in the loop's memory.
    Next(usize, usize),
    /// A double buffer in the loop's memory: the other half holds what the iteration reads.
    Pair(usize),
}

/// The iterations of a compiled scan.
pub struct Iterations {
    carried: usize,
    rows: usize,
    length: usize,
    reverse: bool,
    /// Bytes of an iteration's row of each argument and result; 0 for those without rows.
    arg_rows: Vec<usize>,
    out_rows: Vec<usize>,
    out_bytes: Vec<usize>,
    /// The sources of an iteration's results.
    sources: Vec<Source>,
    /// The size and the target of each result buffer of an iteration.
    buffers: Vec<(usize, Target)>,
    /// Of arguments whose rows are not aligned: where a row is copied to.
    staged: Vec<Option<usize>>,
    /// Of a carried value that is another one's old value: where it is copied to.
    moved: Vec<Option<usize>>,
    /// Inputs of an iteration.
    inputs: usize,
}

/// The memory of a loop, reserved piece by piece.
#[derive(Default)]
pub struct LoopMemory {
    /// Bytes so far.
    pub bytes: usize,
}
impl LoopMemory {
    /// The offset of new room for so many bytes.
    pub fn reserve(&mut self, bytes: usize) -> usize {
        let at = self.bytes;
        self.bytes += bytes.next_multiple_of(ALIGN);
        at
    }
}

impl Iterations {
    /// For a scan of these attributes, argument and result types, whose iteration takes `inputs` inputs and has these
    /// results and result buffers (in bytes). Rows are read and written in place if they are multiples of `align`.
    pub fn new(
        attrs: &Attrs,
        [args, outs]: [&[Type]; 2],
        inputs: usize,
        sources: Vec<Source>,
        buffers: &[usize],
        align: usize,
        memory: &mut LoopMemory,
    ) -> Result<Iterations> {
        let (carried, rows, length) = (attrs.size("carried")?, attrs.size("rows")?, attrs.size("length")?);
        let cut = |list: &[Type], end: usize| -> Vec<usize> {
            let row = |t: &Type| t.bytes() / length.max(1);
            list.iter().enumerate().map(|(i, t)| if (carried..end).contains(&i) { row(t) } else { 0 }).collect()
        };
        let (arg_rows, out_rows) = (cut(args, carried + rows), cut(outs, outs.len()));
        let is_aligned = |o: usize| out_rows[o].is_multiple_of(align);
        let target = |(b, &bytes): (usize, &usize), memory: &mut LoopMemory| {
            let is_it = |s: &Source| *s == Source::Buffer(b);
            let row = sources[carried..].iter().position(is_it).map(|o| carried + o).filter(|&o| is_aligned(o));
            if let Some(o) = row {
                return (bytes, Target::Row(o));
            }
            let kept = |c: usize| sources[carried..].iter().position(|a| *a == Source::Input(c)).map(|o| carried + o);
            let next = sources[..carried].iter().position(is_it).and_then(kept).filter(|&o| is_aligned(o));
            match next {
                Some(o) => (bytes, Target::Next(o, memory.reserve(bytes))),
                None => (bytes, Target::Pair(memory.reserve(2 * bytes.next_multiple_of(ALIGN)))),
            }
        };
        let targets = buffers.iter().enumerate().map(|b| target(b, memory)).collect();
        let out_bytes: Vec<usize> = outs.iter().map(Type::bytes).collect();
        let moved = sources[..carried].iter().enumerate().map(|(o, a)| match a {
            Source::Input(j) if *j < carried && *j != o => {
                Some(memory.reserve(2 * out_bytes[o].next_multiple_of(ALIGN)))
            }
            _ => None,
        });
        let moved = moved.collect();
        let staged = arg_rows.iter().map(|&row| (!row.is_multiple_of(align)).then(|| memory.reserve(row))).collect();
        Ok(Iterations {
            carried,
            rows,
            length,
            reverse: attrs.bool("reverse")?,
            arg_rows,
            out_rows,
            out_bytes,
            sources,
            buffers: targets,
            staged,
            moved,
            inputs,
        })
    }

    /// How many there are.
    pub fn length(&self) -> usize {
        self.length
    }
    fn index(&self, k: usize) -> usize {
        if self.reverse { self.length - 1 - k } else { k }
    }

    /// Sets the addresses of iteration `k` in `all`: its inputs, then its result buffers. `firsts` and `outs` are the
    /// arguments and results of the scan. Returns what to copy before it runs.
    pub fn enter<P: Pointer>(&self, k: usize, all: &mut [P], firsts: &[P], outs: &[P], memory: P) -> Vec<Transfer<P>> {
        let i = self.index(k);
        let mut copies = Vec::new();
        for r in self.carried..self.carried + self.rows {
            let from = firsts[r].offset_by(i * self.arg_rows[r]);
            all[r] = match self.staged[r] {
                None => from,
                Some(at) => {
                    let to = memory.offset_by(at);
                    copies.push(Transfer { from, to, bytes: self.arg_rows[r] });
                    to
                }
            };
        }
        for (b, &(bytes, target)) in self.buffers.iter().enumerate() {
            all[self.inputs + b] = match target {
                Target::Row(o) => outs[o].offset_by(i * self.out_rows[o]),
                Target::Next(o, _) if k + 1 < self.length => outs[o].offset_by(self.index(k + 1) * self.out_rows[o]),
                Target::Next(_, at) => memory.offset_by(at),
                Target::Pair(at) => memory.offset_by(at + k % 2 * bytes.next_multiple_of(ALIGN)),
            };
        }
        copies
    }

    /// After iteration `k`: passes the carried values on to the next. Returns what to copy, in order: results that were
    /// not written in place. `constant` gives the address of a constant of the iteration.
    pub fn leave<P: Pointer>(
        &self,
        k: usize,
        all: &mut [P],
        outs: &[P],
        memory: P,
        constant: impl Fn(usize) -> P,
    ) -> Vec<Transfer<P>> {
        let i = self.index(k);
        let source = |all: &[P], a: Source| match a {
            Source::Input(j) => all[j],
            Source::Buffer(b) => all[self.inputs + b],
            Source::Constant(c) => constant(c),
            Source::Empty => memory,
        };
        let mut copies = Vec::new();
        for (o, &a) in self.sources.iter().enumerate().skip(self.carried) {
            let (from, to) = (source(all, a), outs[o].offset_by(i * self.out_rows[o]));
            if from != to {
                copies.push(Transfer { from, to, bytes: self.out_rows[o] });
            }
        }
        let mut next: SmallVec<[P; 8]> = SmallVec::new();
        for (o, &a) in self.sources.iter().enumerate().take(self.carried) {
            let mut from = source(all, a);
            if let Some(at) = self.moved[o] {
                let bytes = self.out_bytes[o];
                let to = memory.offset_by(at + k % 2 * bytes.next_multiple_of(ALIGN));
                copies.push(Transfer { from, to, bytes });
                from = to;
            }
            next.push(from);
        }
        all[..self.carried].copy_from_slice(&next);
        copies
    }

    /// What to copy after the last iteration: the carried values to their results.
    pub fn finish<P: Pointer>(&self, all: &[P], outs: &[P]) -> Vec<Transfer<P>> {
        let copy = |o: usize| Transfer { from: all[o], to: outs[o], bytes: self.out_bytes[o] };
        (0..self.carried).map(copy).filter(|t| t.from != t.to).collect()
    }
}
