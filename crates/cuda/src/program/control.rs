//! Loops and branches of a run: scans as launches, other control flow by the op's own rule over programs of the device.

use super::{Compiled, body};
use crate::emit::kernels::Operand;
use crate::lower::Code;
use crate::memory::storage::{Block, DeviceValue};
use ir::{Buffer, Call, Error, FlatNode, Graph, Result, RunGraph, Type};
use passes::{Source, Transfer};
use runtime::{Program, interrupt};
use smallvec::SmallVec;
use std::sync::Arc;

/// The rule of a control-flow op.
type Rule = fn(&Call, &[Buffer], RunGraph) -> Result<Vec<Buffer>>;

impl Compiled {
    /// Puts the iterations of a scan on the stream.
    pub(super) fn run_scan(&self, r: usize, [once, each]: &[Compiled; 2], bases: &[u64]) -> Result<()> {
        let Code::Scan(s) = &self.lowered.code[r] else { return Err(Error::bug("not a scan")) };
        let [.., memory, workspace] = *bases else { return Err(Error::bug("no memory for a scan")) };
        let at = |offset: usize| memory + offset as u64;
        let address = |o: &Operand| {
            let a = self.lowered.address(o);
            bases[a.base as usize] + a.offset as u64
        };
        let mut firsts: SmallVec<[u64; 16]> = s.args.iter().map(address).collect();
        for ((first, o), offset) in firsts.iter_mut().zip(&s.args).zip(&s.staged) {
            if let Some(offset) = *offset {
                self.context.copy(at(offset), *first, o.ty.bytes())?;
                *first = at(offset);
            }
        }
        let outs: SmallVec<[u64; 16]> = s.outs.iter().map(address).collect();
        // The bases of a part after its inputs and result buffers.
        let rest = |c: &Compiled, arena: usize| {
            let consts = c.consts.iter().map(|b| b.address).collect::<SmallVec<[u64; 8]>>();
            consts.into_iter().chain([at(arena), at(s.inner_at), workspace])
        };
        let mut all = firsts.clone();
        all.extend(s.once_at.iter().map(|&offset| at(offset)));
        all.extend(rest(once, s.arenas_at[0]));
        once.run_tasks(0..once.tasks.len(), &all)?;
        let same = once.lowered.plan.results.iter().map(|(source, _)| match *source {
            Source::Input(k) => firsts[k],
            Source::Constant(k) => once.consts[k].address,
            Source::Buffer(b) => at(s.once_at[b]),
            Source::Empty => memory,
        });
        all = firsts.iter().copied().chain(same).collect();
        all.extend(each.lowered.plan.memory.buffers.iter().map(|_| memory));
        all.extend(rest(each, s.arenas_at[1]));
        let copy = |list: Vec<Transfer<u64>>| list.iter().try_for_each(|t| self.context.copy(t.to, t.from, t.bytes));
        for k in 0..s.iterations.length() {
            interrupt::check()?;
            copy(s.iterations.enter(k, &mut all, &firsts, &outs, memory))?;
            each.run_tasks(0..each.tasks.len(), &all)?;
            copy(s.iterations.leave(k, &mut all, &outs, memory, |c| each.consts[c].address))?;
        }
        copy(s.iterations.finish(&all, &outs))
    }

    /// Control flow over programs of the device. Values stay in its memory; only conditions are read.
    pub(super) fn run_control(
        &self,
        n: &FlatNode,
        rule: Rule,
        args: &[Operand],
        outs: &[Operand],
        bases: &[u64],
    ) -> Result<()> {
        let at = |o: &Operand| {
            let a = self.lowered.address(o);
            bases[a.base as usize] + a.offset as u64
        };
        let value = |o: &Operand| {
            let (address, bytes) = (at(o), o.ty.bytes());
            let block = match address.is_multiple_of(passes::ALIGN as u64) {
                true => Block::borrowed(&self.context, address, bytes),
                false => Block::copied(&self.context, address, bytes)?,
            };
            Ok(Buffer::Device(Arc::new(DeviceValue { block: Arc::new(block), ty: o.ty.clone(), run: None })))
        };
        let values = args.iter().map(value).collect::<Result<Vec<Buffer>>>()?;
        let types: Vec<Type> = args.iter().map(|o| o.ty.clone()).collect();
        let mut run = |g: &Arc<Graph>, inputs: &[Buffer]| {
            interrupt::check()?;
            let mut inputs = inputs.to_vec();
            match self.bodies.iter().find(|(h, _)| Arc::ptr_eq(g, h)) {
                Some((_, p)) => p.run(&mut inputs),
                // A graph the rule has made itself.
                None => body(&self.context, g)?.run(&mut inputs),
            }
        };
        let results = rule(&Call { types: &types, attrs: &n.attrs }, &values, &mut run)?;
        self.context.enter()?;
        for (o, v) in outs.iter().zip(&results) {
            match v {
                Buffer::Device(s) if let Some(h) = s.as_any().downcast_ref::<DeviceValue>() => {
                    self.context.copy(at(o), h.block.address, o.ty.bytes())?;
                }
                _ => self.context.upload(at(o), v.read()?.bytes())?,
            }
        }
        Ok(())
    }
}
