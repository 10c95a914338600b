//! The rows of the collectives: their types, what they do, their gradients and how they are batched.

use super::group::{Group, Inner, carried, group};
use super::line::element;
use super::wire::Wire;
use dist::collective::{Combine as How, Communicator, Element, Kind, Operation, Signature};
use ir::{AttrKind, Batch, BatchCall, Call, Grad, GradCall, Meaning, ORDERED, Shape, Type, Types, Value};
use std::sync::Arc;
use tensor::{Attrs, Combine, DType, Error, ErrorKind, Literal, Op, Result, Tensor};

type Outs = Result<Vec<Literal>>;
type Grads = Result<Vec<Option<Value>>>;

const GROUP: (&str, AttrKind) = ("group", AttrKind::Int);
const HOW: (&str, AttrKind) = ("how", AttrKind::Str);
const ROOT: (&str, AttrKind) = ("root", AttrKind::Int);
const PEER: (&str, AttrKind) = ("peer", AttrKind::Int);
const WIRE: (&str, AttrKind) = ("wire", AttrKind::Str);
const ORDER: (&str, AttrKind) = (ORDERED, AttrKind::Bool);

/// A row; what differs between collectives are these.
const fn row(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [(&'static str, AttrKind)],
    infer: fn(&Call) -> Result<Types>,
    run: fn(&Call, &[Literal]) -> Outs,
    grad: fn(&GradCall) -> Grads,
    batch: fn(&BatchCall) -> Result<Vec<Value>>,
) -> Op {
    let (meaning, grad, batch) = (Meaning::Kernel(run), Grad::Rule(grad), Batch::Rule(batch));
    Op { name, doc, attrs, infer, meaning, grad, batch, ..Op::DEFAULT }
}

pub(super) static ALL_REDUCE: Op = row(
    "all_reduce",
    "The combination of everybody's tensor, for everybody.",
    &[HOW, WIRE, GROUP, ORDER],
    |c| one(c, |c| combines(c).map(|()| c.types[0].clone())),
    |c, args| {
        let (group, how) = (group(c.attrs.int("group")?)?, how(c)?);
        if let Some(f) = wire(c)?.filter() {
            return packed(c, &group, "all_reduce", args, |by, deal, x, out| {
                out.copy_from_slice(x);
                by.all_reduce_packed(deal, out, f)
            });
        }
        exchanged(c, &group, "all_reduce", args, |carrier, deal, data| {
            carrier.all_reduce(deal, data, how).map(|()| 0..data.len())
        })
    },
    |c| {
        let (group, x, y) = (Group::of_node(c.attrs)?, Tensor::from(c.inputs[0].clone()), c.outputs[0].clone());
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        let total = group.all_reduced(&Tensor::from(g), Combine::Sum, Wire::of_node(c.attrs)?);
        gradient(match c.attrs.str("how")? {
            "sum" => total,
            "prod" => total * others(&group, &x),
            // Whoever has the extreme; several share it.
            _ => {
                let has = x.eq(&Tensor::from(y)).cast(x.dtype()?);
                total * &has / group.all_reduce(&has, Combine::Sum)
            }
        })
    },
    same,
);

pub(super) static REDUCE: Op = row(
    "reduce",
    "The combination of everybody's tensor, for one rank; zeros for the others.",
    &[HOW, ROOT, GROUP, ORDER],
    |c| one(c, |c| combines(c).and_then(|()| rank(c, "root")).map(|()| c.types[0].clone())),
    |c, args| {
        let (group, how, root) = (group(c.attrs.int("group")?)?, how(c)?, c.attrs.size("root")?);
        exchanged(c, &group, "reduce", args, |carrier, deal, data| {
            carrier.all_reduce(deal, data, how)?;
            if deal.team.me() != root {
                data.fill(0);
            }
            Ok(0..data.len())
        })
    },
    |c| {
        let group = summed(c, "reduce")?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(group.broadcast(&Tensor::from(g), c.attrs.size("root")?))
    },
    same,
);

pub(super) static BROADCAST: Op = row(
    "broadcast_from",
    "One rank's tensor, for everybody.",
    &[ROOT, GROUP, ORDER],
    |c| one(c, |c| rank(c, "root").map(|()| c.types[0].clone())),
    |c, args| {
        let (group, root) = (group(c.attrs.int("group")?)?, c.attrs.size("root")?);
        exchanged(c, &group, "broadcast_from", args, |carrier, deal, data| {
            carrier.broadcast(deal, data, root).map(|()| 0..data.len())
        })
    },
    |c| {
        let group = Group::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(group.reduce(&Tensor::from(g), c.attrs.size("root")?, Combine::Sum))
    },
    same,
);

pub(super) static REDUCE_SCATTER: Op = row(
    "reduce_scatter",
    "Each rank's part, along the first axis, of the combination of everybody's tensor.",
    &[HOW, WIRE, GROUP, ORDER],
    |c| one(c, |c| combines(c).and_then(|()| divided(c)).map(|t| long(t, |n| n / size(c)))),
    |c, args| {
        let (group, how) = (group(c.attrs.int("group")?)?, how(c)?);
        if let Some(f) = wire(c)?.filter() {
            return packed(c, &group, "reduce_scatter", args, |by, deal, x, out| {
                by.reduce_scatter_packed(deal, x, f, out)
            });
        }
        exchanged(c, &group, "reduce_scatter", args, |carrier, deal, data| carrier.reduce_scatter(deal, data, how))
    },
    |c| {
        let group = summed(c, "reduce_scatter")?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(group.all_gathered(&Tensor::from(g), 0, Wire::of_node(c.attrs)?))
    },
    aside,
);

pub(super) static ALL_GATHER: Op = row(
    "all_gather",
    "Everybody's tensors one after the other along the first axis.",
    &[WIRE, GROUP, ORDER],
    |c| one(c, |c| wire(c).and_then(|_| whole(c)).map(|t| long(t, |n| n * size(c)))),
    |c, args| {
        let group = group(c.attrs.int("group")?)?;
        if let Some(f) = wire(c)?.filter() {
            return packed(c, &group, "all_gather", args, |by, deal, x, out| by.all_gather_packed(deal, x, f, out));
        }
        let (part, own) = (args[0].bytes().len(), group.team.me());
        let element = element(args[0].dtype())?;
        let mut out = Literal::zeros(args[0].dtype(), long(c.types[0].clone(), |n| n * group.team.size()).shape);
        let data = out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?;
        data[own * part..][..part].copy_from_slice(args[0].bytes());
        let signature = signature("all_gather", c)?;
        if group.team.size() > 1 {
            group.line.carry(&group.team, signature, element, |carrier, deal| carrier.all_gather(deal, data))?;
        }
        Ok(vec![out])
    },
    |c| {
        let group = Group::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(group.reduce_scattered(&Tensor::from(g), Combine::Sum, 0, Wire::of_node(c.attrs)?))
    },
    aside,
);

pub(super) static ALL_TO_ALL: Op = row(
    "all_to_all",
    "Part i along the first axis goes to rank i; what comes stands in the order of ranks.",
    &[GROUP, ORDER],
    |c| one(c, divided),
    |c, args| {
        let group = group(c.attrs.int("group")?)?;
        let element = element(args[0].dtype())?;
        let mut out = args[0].clone();
        if group.team.size() > 1 {
            out = Literal::zeros(args[0].dtype(), args[0].shape().clone());
            let into = out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?;
            let signature = signature("all_to_all", c)?;
            let from = args[0].bytes();
            group.line.carry(&group.team, signature, element, |carrier, deal| carrier.all_to_all(deal, from, into))?;
        }
        Ok(vec![out])
    },
    |c| {
        let group = Group::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(group.applied(&ALL_TO_ALL, &Tensor::from(g), Attrs::new()))
    },
    aside,
);

pub(super) static SEND: Op = row(
    "send",
    "Sends a tensor to another rank. The result is a zero that stands for it.",
    &[PEER, GROUP, ORDER],
    |c| one(c, |c| peer(c).map(|()| Type::new(c.dtype(0), Shape::scalar()))),
    |c, args| {
        let (group, to) = (group(c.attrs.int("group")?)?, c.attrs.size("peer")?);
        let element = element(args[0].dtype())?;
        let signature = signature("send", c)?;
        let data = args[0].bytes();
        group.line.carry(&group.team, signature, element, |carrier, deal| carrier.send(deal, data, to))?;
        Ok(vec![Literal::zeros(args[0].dtype(), Shape::scalar())])
    },
    |c| {
        let group = Group::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        let like = Tensor::from(g).broadcast_to(c.inputs[0].ty().shape.clone());
        gradient(group.recv(&like, c.attrs.size("peer")?))
    },
    |c| {
        let zero = carried(Tensor::apply1(c.op, &[&Tensor::from(c.inputs[0].clone())], c.attrs.clone()));
        Ok(vec![zero.broadcast_to([c.size]).value()?.clone()])
    },
);

pub(super) static RECV: Op = row(
    "recv",
    "The tensor that another rank sends; the input gives its type.",
    &[PEER, GROUP, ORDER],
    |c| one(c, |c| peer(c).map(|()| c.types[0].clone())),
    |c, args| {
        let (group, from) = (group(c.attrs.int("group")?)?, c.attrs.size("peer")?);
        exchanged(c, &group, "recv", args, |carrier, deal, data| {
            carrier.receive(deal, data, from).map(|()| 0..data.len())
        })
    },
    |c| {
        let group = Group::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        // The value does not depend on what gives its type: zeros, once the gradient is sent.
        let sent = group.send(&Tensor::from(g), c.attrs.size("peer")?);
        gradient(sent.broadcast_to(c.inputs[0].ty().shape.clone()))
    },
    same,
);

fn one(c: &Call, out: impl FnOnce(&Call) -> Result<Type>) -> Result<Types> {
    c.arity(1)?;
    element(c.dtype(0))?;
    Ok(Types::from_iter([out(c)?]))
}
/// The type with another size of the first axis.
fn long(t: Type, size: impl FnOnce(usize) -> usize) -> Type {
    let mut sizes = t.shape.to_vec();
    sizes[0] = size(sizes[0]);
    Type::new(t.dtype, sizes.as_slice())
}
/// How many ranks the group has; infallible, as the group was looked for before.
fn size(c: &Call) -> usize {
    c.attrs.int("group").and_then(group).map_or(1, |g| g.team.size())
}
fn how(c: &Call) -> Result<How> {
    c.attrs.str("how")?.parse().map_err(|e: dist::Error| Error::value(e.to_string()))
}
/// How the elements travel; only those of sums of `f32` can be packed.
fn wire(c: &Call) -> Result<Wire> {
    let wire = Wire::of_node(c.attrs)?;
    if wire.filter().is_none() {
        return Ok(wire);
    }
    if c.dtype(0) != DType::F32 {
        return Err(Error::dtype(format!("elements sent as {wire} are f32, not {}", c.dtype(0))));
    }
    match c.attrs.str("how") {
        Ok(how) if how != "sum" => Err(Error::value(format!("by {how}: only sums and means are sent as {wire}"))),
        _ => Ok(wire),
    }
}
fn combines(c: &Call) -> Result<()> {
    group(c.attrs.int("group")?)?;
    wire(c)?;
    if c.dtype(0) == DType::Bool && !matches!(how(c)?, How::Max | How::Min) {
        return Err(Error::dtype("truth values are combined by max (any) or min (all)"));
    }
    Ok(())
}
/// The attribute `name` must be a rank of the group.
fn rank(c: &Call, name: &str) -> Result<()> {
    let (rank, size) = (c.attrs.int(name)?, group(c.attrs.int("group")?)?.team.size());
    if usize::try_from(rank).is_ok_and(|r| r < size) {
        return Ok(());
    }
    Err(Error::index(format!("{name} {rank} is not one of {size} ranks")))
}
fn peer(c: &Call) -> Result<()> {
    rank(c, "peer")?;
    if c.attrs.size("peer")? == group(c.attrs.int("group")?)?.team.me() {
        return Err(Error::value("a rank does not exchange with itself"));
    }
    Ok(())
}
fn whole(c: &Call) -> Result<Type> {
    group(c.attrs.int("group")?)?;
    if c.shape(0).rank() == 0 {
        return Err(Error::shape("a scalar has no axis: reshape it to [1]"));
    }
    Ok(c.types[0].clone())
}
fn divided(c: &Call) -> Result<Type> {
    let t = whole(c)?;
    if !t.shape[0].is_multiple_of(size(c)) {
        return Err(Error::shape(format!("an axis of {} cannot be cut into {} equal parts", t.shape[0], size(c))));
    }
    Ok(t)
}

/// What the others are told of a collective.
pub(super) fn signature(op: &str, c: &Call) -> Result<Signature> {
    let kind = match op {
        "all_reduce" => Kind::AllReduce,
        "reduce" => Kind::Reduce,
        "broadcast_from" => Kind::Broadcast,
        "reduce_scatter" => Kind::ReduceScatter,
        "all_gather" => Kind::AllGather,
        "all_to_all" => Kind::AllToAll,
        "send" | "recv" => Kind::Send,
        _ => return Err(Error::bug(format!("{op} is no collective"))),
    };
    let mut signature = Signature::new(kind, element(c.dtype(0))?, c.shape(0));
    if c.attrs.str("how").is_ok() {
        signature = signature.by(how(c)?);
    }
    if let Some(filter) = wire(c)?.filter() {
        signature = signature.packed(filter);
    }
    Ok(c.attrs.size("root").map_or(signature, |root| signature.rooted(root)))
}

/// Exchanges the elements of the first argument in place; the part of the bytes that is answered
/// becomes the result.
fn exchanged(
    c: &Call,
    group: &Arc<Inner>,
    op: &str,
    args: &[Literal],
    f: impl FnOnce(&mut dyn Communicator, &Operation, &mut [u8]) -> dist::Result<std::ops::Range<usize>>,
) -> Outs {
    let x = &args[0];
    if group.team.size() == 1 {
        return Ok(vec![x.clone()]);
    }
    let element: Element = element(x.dtype())?;
    let signature = signature(op, c)?;
    let mut out = Literal::from_bytes(x.dtype(), x.shape().clone(), x.bytes())?;
    let data = out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?;
    let kept = group.line.carry(&group.team, signature, element, |carrier, deal| f(carrier, deal, data))?;
    if kept.len() == data.len() {
        return Ok(vec![out]);
    }
    let t = long(c.types[0].clone(), |n| n / group.team.size());
    Ok(vec![Literal::from_bytes(t.dtype, t.shape, &out.bytes()[kept])?])
}

/// Exchanges elements that are packed on the wire.
fn packed(
    c: &Call,
    group: &Arc<Inner>,
    op: &str,
    args: &[Literal],
    f: impl FnOnce(&mut dyn Communicator, &Operation, &[f32], &mut [f32]) -> dist::Result<()>,
) -> Outs {
    let x = &args[0];
    if group.team.size() == 1 {
        return Ok(vec![x.clone()]);
    }
    let (n, signature) = (group.team.size(), signature(op, c)?);
    let shape = match op {
        "all_gather" => long(c.types[0].clone(), |rows| rows * n).shape,
        "reduce_scatter" => long(c.types[0].clone(), |rows| rows / n).shape,
        _ => x.shape().clone(),
    };
    let mut out = Literal::zeros(DType::F32, shape);
    let data = bytemuck::cast_slice_mut(out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?);
    let by = |carrier: &mut dyn Communicator, deal: &Operation| f(carrier, deal, x.stored::<f32>(), data);
    group.line.carry(&group.team, signature, Element::F32, by)?;
    Ok(vec![out])
}

fn gradient(g: Tensor) -> Grads {
    Ok(vec![Some(g.value()?.clone())])
}
/// The group of a node whose combination is a sum: only that has a gradient.
fn summed(c: &GradCall, op: &str) -> Result<Group> {
    match c.attrs.str("how")? {
        "sum" => Group::of_node(c.attrs),
        how => {
            let e = format!("has no gradient: {op} by {how} is not differentiable, by sum it is");
            Err(Error::new(ErrorKind::Gradient, e))
        }
    }
}
/// The product of the other ranks' tensors.
fn others(group: &Group, x: &Tensor) -> Tensor {
    let (me, n) = (group.rank(), group.size());
    let all = group.all_gather(&x.unsqueeze(0), 0);
    let (before, after) = (all.narrow(0, 0, me), all.narrow(0, me + 1, n - me - 1));
    before.prod(0) * after.prod(0)
}

/// Batched: each element by itself.
fn same(c: &BatchCall) -> Result<Vec<Value>> {
    let x = Tensor::from(c.inputs[0].clone());
    Ok(vec![carried(Tensor::apply1(c.op, &[&x], c.attrs.clone())).value()?.clone()])
}
/// Batched: the batch steps aside, as the first axis is the one that counts.
fn aside(c: &BatchCall) -> Result<Vec<Value>> {
    let x = Tensor::from(c.inputs[0].clone()).moveaxis(&[0], &[1]);
    let out = carried(Tensor::apply1(c.op, &[&x], c.attrs.clone()));
    Ok(vec![out.moveaxis(&[1], &[0]).value()?.clone()])
}
