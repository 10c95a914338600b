//! Control flow: the op's own rule, over programs compiled once.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, always, literal, never, write};
use crate::call;
use crate::program::Compiled;
use ir::{Attr, Buffer, Call, FlatNode, Graph, Literal, Result, RunGraph, Type};
use runtime::{Program, reference};
use std::sync::Arc;

/// Ops without a kernel of their own: a fence, and ops that the program defines.
pub static CLAIMS: &[Claim] = &[
    // Its results lie where its operands do.
    Claim { is_fence: true, ..Claim::new("barrier", never, |_, _, _| Ok(Some(Box::new(|_| Ok(()))))) },
    Claim::new("custom", always, |n, args, outs| custom(&n.attrs, args, outs).map(Some)),
];

/// An op of the program's own, on the operands themselves.
fn custom(attrs: &ir::Attrs, args: &[Operand], outs: &[Operand]) -> Result<Prepared> {
    let (op, args, outs) = (attrs.custom("op")?.clone(), args.to_vec(), outs.to_vec());
    Ok(Box::new(move |bases| {
        // SAFETY: a program's regions run one after the other, and results lie apart from operands.
        let given: Vec<(&Type, &[u8])> = args.iter().map(|a| (&a.ty, unsafe { a.bytes(bases) })).collect();
        // SAFETY: as above.
        let room = |o: &Operand| unsafe { std::slice::from_raw_parts_mut(o.first::<u8>(bases), o.ty.bytes()) };
        let mut made: Vec<(&Type, &mut [u8])> = outs.iter().map(|o| (&o.ty, room(o))).collect();
        op.0.run(&given, &mut made).map_err(|e| e.in_op(op.0.name()))
    }))
}

type Rule = fn(&Call, &[Buffer], RunGraph) -> Result<Vec<Buffer>>;

/// Compiles the sub-graphs of a control node.
pub fn prepare(n: &FlatNode, args: &[Operand], outs: &[Operand], rule: Rule) -> Result<Prepared> {
    let mut programs: Vec<(Arc<Graph>, Compiled)> = Vec::new();
    for (_, a) in n.attrs.iter() {
        if let Attr::Graph(g) = a {
            programs.push((g.clone(), program(g)?));
        }
    }
    let (attrs, args, outs) = (n.attrs.clone(), args.to_vec(), outs.to_vec());
    let types: Vec<Type> = args.iter().map(|a| a.ty.clone()).collect();
    Ok(Box::new(move |bases| {
        // SAFETY: a program's regions run one after the other.
        let values: Vec<Buffer> = args.iter().map(|a| Buffer::Host(unsafe { literal(a, bases) })).collect();
        let mut run = |g: &Arc<Graph>, inputs: &[Buffer]| -> Result<Vec<Buffer>> {
            let mut inputs = inputs.to_vec();
            match programs.iter().find(|(h, _)| Arc::ptr_eq(g, h)) {
                Some((_, p)) => p.run(&mut inputs),
                // A graph the rule has made itself.
                None => program(g)?.run(&mut inputs),
            }
        };
        let results = rule(&Call { types: &types, attrs: &attrs }, &values, &mut run)?;
        let results = results.iter().map(Buffer::read).collect::<Result<Vec<Literal>>>()?;
        // SAFETY: as above.
        unsafe { write(&outs, bases, &results) }
    }))
}

fn program(g: &Graph) -> Result<Compiled> {
    Compiled::new(optimized(g)?)
}

/// A sub-graph after every pass.
pub fn optimized(g: &Graph) -> Result<Graph> {
    passes::optimize(g, &|n, t| call::claims(n, t), &reference::run_node)
}
