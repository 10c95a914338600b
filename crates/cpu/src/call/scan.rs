//! `scan`: the turns of a loop over the rows of tensors, in place.
//!
//! A turn reads its rows where they lie and writes its results to their rows of the whole result.
//! A carried value stays where the turn that made it wrote it. What is the same at every turn is
//! computed once.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, control};
use crate::program::Compiled;
use crate::tile::access::Bases;
use ir::{Attrs, Bytes, FlatNode, Meaning, Result};
use parking_lot::Mutex;
use passes::Source;
use smallvec::SmallVec;

/// The scan.
pub static CLAIMS: &[Claim] = &[Claim::new("scan", may_fail, |n, args, outs| prepare(&n.attrs, args, outs).map(Some))];

/// A scan fails where a node of its body does.
fn may_fail(n: &FlatNode) -> bool {
    let is_safe = |n: &FlatNode| {
        matches!(
            n.op.meaning,
            Meaning::Input | Meaning::Const | Meaning::Scalar(_) | Meaning::View(_) | Meaning::Reduce(_)
        ) || !super::may_fail(n)
    };
    n.attrs.graph("body").map_or(true, |g| !g.nodes.iter().all(is_safe))
}

/// Where a turn's result buffer lies.
#[derive(Clone, Copy)]
enum Target {
    /// The turn's row of this result of the scan.
    Row(usize),
    /// The next turn's row of this result, which gives a carried value as each turn finds it; after
    /// the last turn a place in the loop's own memory.
    Next(usize, usize),
    /// One of two places in the loop's own memory, by turns: the other holds what this one reads.
    Pair(usize),
}

/// A compiled loop.
struct Turns {
    once: Compiled,
    each: Compiled,
    carried: usize,
    rows: usize,
    length: usize,
    reverse: bool,
    args: Vec<Operand>,
    outs: Vec<Operand>,
    /// Bytes of a turn's row of each argument and result; 0 for what is not cut into rows.
    arg_rows: Vec<usize>,
    out_rows: Vec<usize>,
    /// For each result buffer of a turn.
    targets: Vec<Target>,
    /// For a carried value that is another one's old value: where it is copied to.
    moved: Vec<Option<usize>>,
    /// The memory of the loop: results of `once`, pairs, the arenas.
    once_at: Vec<usize>,
    arenas_at: [usize; 2],
    bytes: usize,
    memory: Mutex<Vec<Bytes>>,
}

/// A loop ready to run.
pub fn prepare(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Result<Prepared> {
    let (carried, rows) = (attrs.size("carried")?, attrs.size("rows")?);
    let body = control::optimized(attrs.graph("body")?)?;
    let same: Vec<bool> = (0..args.len()).map(|i| i >= carried + rows).collect();
    let split = passes::hoist_invariants(&body, &same);
    let (once, each) = (Compiled::new(split.once)?, Compiled::new(split.each)?);
    let length = attrs.size("length")?;
    let row = |o: &Operand| o.ty.bytes() / length.max(1);
    let cut = |list: &[Operand], end: usize| -> Vec<usize> {
        list.iter().enumerate().map(|(i, o)| if (carried..end).contains(&i) { row(o) } else { 0 }).collect()
    };
    let mut at = 0;
    let mut room = |bytes: usize| {
        at += bytes.next_multiple_of(passes::ALIGN);
        at - bytes.next_multiple_of(passes::ALIGN)
    };
    let once_at = once.result_bytes().map(&mut room).collect();
    let sources: Vec<Source> = each.sources().collect();
    let targets = each.result_bytes().enumerate().map(|(b, bytes)| {
        let is_it = |s: &Source| *s == Source::Buffer(b);
        if let Some(o) = sources[carried..].iter().position(is_it) {
            return Target::Row(carried + o);
        }
        let found = sources[..carried]
            .iter()
            .position(is_it)
            .and_then(|c| sources[carried..].iter().position(|a| *a == Source::Input(c)).map(|o| carried + o));
        match found {
            Some(o) => Target::Next(o, room(bytes)),
            None => Target::Pair(room(2 * bytes.next_multiple_of(passes::ALIGN))),
        }
    });
    let targets = targets.collect();
    let moved = sources[..carried].iter().enumerate().map(|(o, a)| match a {
        Source::Input(j) if *j < carried && *j != o => {
            Some(room(2 * outs[o].ty.bytes().next_multiple_of(passes::ALIGN)))
        }
        _ => None,
    });
    let moved = moved.collect();
    let arenas_at = [room(once.arena_bytes()), room(each.arena_bytes())];
    let turns = Turns {
        carried,
        rows,
        length,
        reverse: attrs.bool("reverse")?,
        arg_rows: cut(args, carried + rows),
        out_rows: cut(outs, outs.len()),
        args: args.to_vec(),
        outs: outs.to_vec(),
        targets,
        moved,
        once_at,
        arenas_at,
        bytes: at,
        memory: Mutex::default(),
        once,
        each,
    };
    Ok(Box::new(move |bases| {
        let memory = turns.memory.lock().pop();
        let mut memory = memory.unwrap_or_else(|| Bytes::any(turns.bytes));
        // SAFETY: operands and results lie in live buffers of their types' sizes.
        let done = unsafe { turns.run(bases, memory.as_mut().as_mut_ptr()) };
        turns.memory.lock().push(memory);
        done
    }))
}

type Pointers = SmallVec<[*mut u8; 32]>;

impl Turns {
    /// # Safety
    /// The bases are alive, nobody else uses the results, and `memory` has `bytes` bytes.
    unsafe fn run(&self, bases: Bases, memory: *mut u8) -> Result<()> {
        let mut inputs: Pointers = self.args.iter().map(|a| a.first::<u8>(bases)).collect();
        let firsts: Pointers = inputs.clone();
        let outs: Pointers = self.outs.iter().map(|o| o.first::<u8>(bases)).collect();
        self.run_once(&mut inputs, memory)?;
        let given = inputs.len();
        let mut all: Pointers = inputs;
        all.extend(self.targets.iter().map(|_| memory));
        all.extend(self.each.const_bases());
        all.push(memory.wrapping_add(self.arenas_at[1]));
        for k in 0..self.length {
            let place = |k: usize| if self.reverse { self.length - 1 - k } else { k };
            let i = place(k);
            for r in self.carried..self.carried + self.rows {
                all[r] = firsts[r].wrapping_add(i * self.arg_rows[r]);
            }
            for (b, t) in self.targets.iter().enumerate() {
                all[given + b] = match *t {
                    Target::Row(o) => outs[o].wrapping_add(i * self.out_rows[o]),
                    Target::Next(o, _) if k + 1 < self.length => outs[o].wrapping_add(place(k + 1) * self.out_rows[o]),
                    Target::Next(_, at) => memory.wrapping_add(at),
                    Target::Pair(at) => {
                        let bytes = self.each.result_bytes().nth(b).unwrap_or(0);
                        memory.wrapping_add(at + k % 2 * bytes.next_multiple_of(passes::ALIGN))
                    }
                };
            }
            self.each.run_regions(Bases(&all))?;
            // SAFETY: the caller's promise; each value lies where it was just written.
            unsafe { self.hand_on(&mut all, given, &outs, i, memory, k) };
        }
        for (o, &to) in outs.iter().enumerate().take(self.carried) {
            // SAFETY: carried values have the size of their results, and lie apart from them.
            unsafe { std::ptr::copy_nonoverlapping(all[o], to, self.outs[o].ty.bytes()) };
        }
        Ok(())
    }

    /// Computes what is the same at every turn and adds it to the inputs of a turn.
    fn run_once(&self, inputs: &mut Pointers, memory: *mut u8) -> Result<()> {
        let mut all = inputs.clone();
        all.extend(self.once_at.iter().map(|&at| memory.wrapping_add(at)));
        all.extend(self.once.const_bases());
        all.push(memory.wrapping_add(self.arenas_at[0]));
        self.once.run_regions(Bases(&all))?;
        for a in self.once.sources() {
            inputs.push(match a {
                Source::Input(k) => all[k],
                Source::Buffer(b) => memory.wrapping_add(self.once_at[b]),
                Source::Constant(c) => self.once.constant(c).bytes().as_ptr().cast_mut(),
                Source::Empty => std::ptr::NonNull::dangling().as_ptr(),
            });
        }
        Ok(())
    }

    /// After a turn: copies results that were not written in place, and passes the carried values
    /// on to the next.
    ///
    /// # Safety
    /// As for [`Turns::run`].
    unsafe fn hand_on(&self, all: &mut Pointers, given: usize, outs: &[*mut u8], i: usize, memory: *mut u8, k: usize) {
        let source = |all: &Pointers, a: Source| match a {
            Source::Input(j) => all[j],
            Source::Buffer(b) => all[given + b],
            Source::Constant(c) => self.each.constant(c).bytes().as_ptr().cast_mut(),
            Source::Empty => std::ptr::NonNull::dangling().as_ptr(),
        };
        for (o, a) in self.each.sources().enumerate().skip(self.carried) {
            let (from, to) = (source(all, a), outs[o].wrapping_add(i * self.out_rows[o]));
            if from != to {
                // SAFETY: a row's worth at both ends; a row is written once.
                unsafe { std::ptr::copy_nonoverlapping(from, to, self.out_rows[o]) };
            }
        }
        let mut next: SmallVec<[*mut u8; 8]> = SmallVec::new();
        for (o, a) in self.each.sources().enumerate().take(self.carried) {
            let mut from = source(all, a);
            if let Some(at) = self.moved[o] {
                let bytes = self.outs[o].ty.bytes();
                let to = memory.wrapping_add(at + k % 2 * bytes.next_multiple_of(passes::ALIGN));
                // SAFETY: the pair's other half may be what is read.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
                from = to;
            }
            next.push(from);
        }
        all[..self.carried].copy_from_slice(&next);
    }
}
