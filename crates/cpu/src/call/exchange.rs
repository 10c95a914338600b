//! Collectives over the memory of a program: nothing is copied but between processes. Those that go on while the rest is
//! computed have their memory from the op that begins them to the one that ends them.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, always, reference};
use crate::pool::Shared;
use ir::{Attrs, Call, FlatNode, Meaning, PeersHandle, Pending, Result, Type};
use std::cell::RefCell;
use std::sync::Arc;

/// Collectives.
pub static CLAIMS: &[Claim] = &[
    Claim { in_place: Some(0), ..Claim::new("all_reduce", always, |n, args, outs| Ok(exchange(n, args, outs))) },
    Claim::new("reduce_scatter", always, |n, args, outs| Ok(exchange(n, args, outs))),
    Claim::new("all_gather", always, |n, args, outs| Ok(exchange(n, args, outs))),
    Claim::new("all_to_all", always, |n, args, outs| Ok(exchange(n, args, outs))),
    Claim {
        in_place: Some(0),
        ..Claim::new("begin_all_reduce", always, |n, args, outs| Ok(begin(n, args, outs, "all_reduce")))
    },
    Claim::new("begin_reduce_scatter", always, |n, args, outs| Ok(begin(n, args, outs, "reduce_scatter"))),
    Claim::new("begin_all_gather", always, |n, args, outs| Ok(begin(n, args, outs, "all_gather"))),
    Claim { in_place: Some(0), ..Claim::new("end_exchange", always, |_, args, outs| Ok(end(args, outs))) },
];

thread_local! {
    /// What programs that run on this thread have begun: where the result is, and what it waits for.
    static UNDER_WAY: RefCell<Vec<(usize, Box<dyn Pending>)>> = const { RefCell::new(Vec::new()) };
}

/// While a program runs. When it is dropped, what the program began and did not end has ended: its memory is free.
pub struct Watch(usize);
impl Watch {
    /// From now on.
    pub fn new() -> Watch {
        Watch(UNDER_WAY.with_borrow(Vec::len))
    }
}
impl Drop for Watch {
    fn drop(&mut self) {
        let rest = UNDER_WAY.with_borrow_mut(|all| all.split_off(self.0.min(all.len())));
        for (_, mut pending) in rest {
            // The program failed, or the result is not needed.
            let _ = pending.wait();
        }
    }
}

/// An exchange of a contiguous value.
#[derive(Clone)]
struct Exchange {
    op: &'static str,
    attrs: Attrs,
    types: Arc<[Type]>,
    peers: PeersHandle,
    bytes: (usize, usize),
}

impl Exchange {
    fn new(n: &FlatNode, op: &'static str, args: &[Operand], outs: &[Operand]) -> Option<Exchange> {
        let (x, out) = (args.first()?, outs.first()?);
        let (attrs, peers) = (n.attrs.clone(), n.attrs.peers("group").ok()?.clone());
        let is_exact = n.attrs.str("wire").is_ok_and(|w| w == "exact") || op == "all_to_all";
        let types = Arc::from([x.ty.clone()]);
        is_exact.then(|| Exchange { op, attrs, types, peers, bytes: (x.ty.bytes(), out.ty.bytes()) })
    }
    /// Exchanges what lies at `x`, into `out`. False: these ranks do not.
    ///
    /// # Safety
    /// Both have their bytes and are the same or apart; `out` has no other use, and `x` is not written meanwhile.
    unsafe fn run(&self, x: *const u8, out: *mut u8) -> Result<bool> {
        let call = Call { types: &self.types, attrs: &self.attrs };
        // SAFETY: the caller's promise.
        let (input, out) = unsafe {
            // Empty values share an address and are not in place of one another.
            let is_in_place = std::ptr::eq(x, out) && self.bytes.1 > 0;
            let input = (!is_in_place).then(|| std::slice::from_raw_parts(x, self.bytes.0));
            (input, std::slice::from_raw_parts_mut(out, self.bytes.1))
        };
        self.peers.0.run_over(self.op, &call, input, out)
    }
}

/// A collective that is run here and now.
fn exchange(n: &FlatNode, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let Meaning::Kernel(rule) = n.op.meaning else { return None };
    let exchange = Exchange::new(n, n.op.name, args, outs)?;
    let (x, out, slow) = (args[0].clone(), outs[0].clone(), reference(n, args, outs, rule));
    Some(Box::new(move |bases| {
        // SAFETY: a program's regions run one after the other; the memory planner lets a result overwrite all of an
        // operand or nothing.
        let is_done = unsafe { exchange.run(x.first(bases), out.first(bases))? };
        if is_done { Ok(()) } else { slow(bases) }
    }))
}

/// Begins a collective.
fn begin(n: &FlatNode, args: &[Operand], outs: &[Operand], op: &'static str) -> Option<Prepared> {
    let Meaning::Kernel(rule) = n.op.meaning else { return None };
    let exchange = Exchange::new(n, op, args, outs)?;
    let (x, out, slow) = (args[0].clone(), outs[0].clone(), reference(n, args, outs, rule));
    let is_reduced = exchange.bytes.0 == exchange.bytes.1 && op == "all_reduce";
    Some(Box::new(move |bases| {
        if exchange.peers.0.size() == 1 {
            return slow(bases);
        }
        let (mut from, to) = (x.first::<u8>(bases), out.first::<u8>(bases));
        if is_reduced && from != to {
            // The operand may be overwritten as soon as this returns.
            // SAFETY: both have these bytes, and lie apart.
            unsafe { std::ptr::copy_nonoverlapping(from, to, exchange.bytes.1) };
            from = to;
        }
        let (from, place, job) = (Shared::new(from), Shared::new(to), exchange.clone());
        // SAFETY: the result's memory has no other use before the op that ends this, nor has the operand's, which that
        // op reads as well; a program that does not get there waits before it gives them up (`Watch`).
        let job = move || match unsafe { job.run(from.get(), place.get()) } {
            Ok(true) => Ok(()),
            Ok(false) => Err(ir::Error::bug("ranks that exchange nothing in the memory of a program")),
            Err(e) => Err(e),
        };
        let pending = exchange.peers.0.start(Box::new(job));
        UNDER_WAY.with_borrow_mut(|all| all.push((to.addr(), pending)));
        Ok(())
    }))
}

/// Waits for what was begun.
fn end(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, out) = (args.first()?.clone(), outs.first()?.clone());
    Some(Box::new(move |bases| {
        let (from, to) = (x.first::<u8>(bases), out.first::<u8>(bases));
        let found = UNDER_WAY.with_borrow_mut(|all| {
            let at = all.iter().rposition(|(place, _)| *place == from.addr())?;
            Some(all.remove(at).1)
        });
        // Where nothing is under way, the exchange took place at its beginning.
        found.map_or(Ok(()), |mut pending| pending.wait())?;
        if from != to {
            // SAFETY: both have these bytes, and lie apart; the exchange has ended.
            unsafe { std::ptr::copy_nonoverlapping(from, to, out.ty.bytes()) };
        }
        Ok(())
    }))
}
