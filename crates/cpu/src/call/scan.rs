//! `scan`: a loop over the rows of tensors, in place. What is the same in every iteration is computed once.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, control};
use crate::program::Compiled;
use crate::tile::access::Bases;
use ir::{Attrs, Bytes, FlatNode, Meaning, Result, Type};
use parking_lot::Mutex;
use passes::{Iterations, LoopMemory, Source, Transfer};
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

/// A compiled loop.
struct Scan {
    once: Compiled,
    each: Compiled,
    iterations: Iterations,
    args: Vec<Operand>,
    outs: Vec<Operand>,
    /// The memory of the loop: results of `once`, double buffers, the arenas.
    once_at: Vec<usize>,
    arenas_at: [usize; 2],
    bytes: usize,
    memory: Mutex<Vec<Bytes>>,
}

/// A loop ready to run.
pub fn prepare(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Result<Prepared> {
    let fixed = attrs.size("carried")? + attrs.size("rows")?;
    let body = control::optimized(attrs.graph("body")?)?;
    let same: Vec<bool> = (0..args.len()).map(|i| i >= fixed).collect();
    let split = passes::hoist_invariants(&body, &same);
    let (once, each) = (Compiled::new(split.once)?, Compiled::new(split.each)?);
    let mut memory = LoopMemory::default();
    let once_at: Vec<usize> = once.result_bytes().map(|bytes| memory.reserve(bytes)).collect();
    let types = [args, outs].map(|list| list.iter().map(|o| o.ty.clone()).collect::<Vec<Type>>());
    let (sources, buffers): (Vec<Source>, Vec<usize>) = (each.sources().collect(), each.result_bytes().collect());
    let inputs = args.len() + once.sources().len();
    let iterations = Iterations::new(attrs, [&types[0], &types[1]], inputs, sources, &buffers, 1, &mut memory)?;
    let arenas_at = [&once, &each].map(|c| memory.reserve(c.arena_bytes()));
    let (args, outs) = (args.to_vec(), outs.to_vec());
    let bytes = memory.bytes;
    let scan = Scan { once, each, iterations, args, outs, once_at, arenas_at, bytes, memory: Mutex::default() };
    Ok(Box::new(move |bases| {
        let memory = scan.memory.lock().pop();
        let mut memory = memory.unwrap_or_else(|| Bytes::any(scan.bytes));
        // SAFETY: operands and results lie in live buffers of their types' sizes.
        let done = unsafe { scan.run(bases, memory.as_mut().as_mut_ptr()) };
        scan.memory.lock().push(memory);
        done
    }))
}

type Pointers = SmallVec<[*mut u8; 32]>;

impl Scan {
    /// # Safety
    /// The bases are alive, nothing else uses the results, and `memory` has `bytes` bytes.
    unsafe fn run(&self, bases: Bases, memory: *mut u8) -> Result<()> {
        let firsts: Pointers = self.args.iter().map(|a| a.first::<u8>(bases)).collect();
        let outs: Pointers = self.outs.iter().map(|o| o.first::<u8>(bases)).collect();
        let mut all = firsts.clone();
        self.run_once(&mut all, memory)?;
        all.extend(self.each.result_bytes().map(|_| memory));
        all.extend(self.each.const_bases());
        all.push(memory.wrapping_add(self.arenas_at[1]));
        // SAFETY: both ends hold as many bytes, and lie apart; a row is written once.
        let copy = |t: Transfer<*mut u8>| unsafe { std::ptr::copy_nonoverlapping(t.from, t.to, t.bytes) };
        let constant = |c: usize| self.each.constant(c).bytes().as_ptr().cast_mut();
        for k in 0..self.iterations.length() {
            self.iterations.enter(k, &mut all, &firsts, &outs, memory).into_iter().for_each(copy);
            self.each.run_regions(Bases(&all))?;
            self.iterations.leave(k, &mut all, &outs, memory, constant).into_iter().for_each(copy);
        }
        self.iterations.finish(&all, &outs).into_iter().for_each(copy);
        Ok(())
    }

    /// Computes what is the same in every iteration and adds it to the inputs of an iteration.
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
}
