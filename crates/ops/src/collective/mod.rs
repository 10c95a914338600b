//! Collectives between processes: rows of the op table, and the tensor functions that add them.
//!
//! The ranks are a handle in the attribute `group` ([`ir::Peers`]); this crate knows nothing of how
//! they are reached. In imperative code a collective runs where it is called. Under `jit` it is an
//! effect of the trace and runs whether or not its result is used; nodes keep their program order.
//!
//! Gradients are those of the sum of all ranks' losses.

mod mesh;
mod overlapped;
mod wire;
pub mod workers;

pub use mesh::{MeshRanks, Pattern, pattern};
pub use wire::Wire;

use crate::rules::f64s;
use crate::{Combine, Error, ErrorKind, Result, Tensor, axis, effects};
use ir::{
    Alone, AttrKind, Attrs, Batch, BatchCall, Bytes, Call, Case, DType, Effect, Grad, GradCall, Literal, Meaning, Op,
    Peers, PeersHandle, Pending, Shape, Type, Types, Value,
};
use std::sync::{Arc, OnceLock};

/// The rows of this module.
pub const ROWS: &[&Op] = &[
    &ALL_REDUCE,
    &REDUCE,
    &BROADCAST,
    &REDUCE_SCATTER,
    &ALL_GATHER,
    &ALL_TO_ALL,
    &SEND,
    &RECV,
    &overlapped::BEGIN_ALL_REDUCE,
    &overlapped::BEGIN_REDUCE_SCATTER,
    &overlapped::BEGIN_ALL_GATHER,
    &overlapped::END,
    &workers::MEAN,
    &workers::BEGIN,
    &workers::END,
    &workers::STEP,
];

type Outs = Result<Vec<Literal>>;
type Grads = Result<Vec<Option<Value>>>;

const GROUP: (&str, AttrKind) = ("group", AttrKind::Peers);
const HOW: (&str, AttrKind) = ("how", AttrKind::Str);
const ROOT: (&str, AttrKind) = ("root", AttrKind::Int);
const PEER: (&str, AttrKind) = ("peer", AttrKind::Int);
const WIRE: (&str, AttrKind) = ("wire", AttrKind::Str);

/// A row; these are all that differs between collectives.
const fn row(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [(&'static str, AttrKind)],
    infer: fn(&Call) -> Result<Types>,
    run: fn(&Call, &[Literal]) -> Outs,
    grad: fn(&GradCall) -> Grads,
    batch: fn(&BatchCall) -> Result<Vec<Value>>,
    cases: fn() -> Vec<Case>,
) -> Op {
    let (meaning, grad, batch) = (Meaning::Kernel(run), Grad::Rule(grad), Batch::Rule(batch));
    Op { name, doc, attrs, infer, meaning, grad, batch, effect: Effect::Ordered, cases, ..Op::DEFAULT }
}

static ALL_REDUCE: Op = row(
    "all_reduce",
    "The combination of every rank's tensor, on every rank.",
    &[HOW, WIRE, GROUP],
    |c| one(c, |c| combines(c).map(|()| c.types[0].clone())),
    |c, args| run("all_reduce", c, args),
    |c| {
        let (ranks, x, y) = (Ranks::of_node(c.attrs)?, Tensor::from(c.inputs[0].clone()), c.outputs[0].clone());
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        let total = ranks.all_reduced(&Tensor::from(g), Combine::Sum, Wire::of_node(c.attrs)?);
        gradient(match c.attrs.str("how")? {
            "sum" => total,
            "prod" => total * others(&ranks, &x),
            // The ranks that hold the extreme share it.
            _ => {
                let has = x.eq(&Tensor::from(y)).cast(x.dtype()?);
                total * &has / ranks.all_reduce(&has, Combine::Sum)
            }
        })
    },
    same,
    || alone(&[1.0, 2.0], by("sum").with("wire", "exact")),
);

static REDUCE: Op = row(
    "reduce",
    "The combination of every rank's tensor, on rank `root`; zeros on the others.",
    &[HOW, ROOT, GROUP],
    |c| one(c, |c| combines(c).and_then(|()| rank(c, "root")).map(|()| c.types[0].clone())),
    |c, args| run("reduce", c, args),
    |c| {
        let ranks = summed(c, "reduce")?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(ranks.broadcast(&Tensor::from(g), c.attrs.size("root")?))
    },
    same,
    || alone(&[1.0, 2.0], by("sum").with("root", 0i64)),
);

static BROADCAST: Op = row(
    "broadcast_from",
    "Rank `root`'s tensor, on every rank.",
    &[ROOT, GROUP],
    |c| one(c, |c| rank(c, "root").map(|()| c.types[0].clone())),
    |c, args| run("broadcast_from", c, args),
    |c| {
        let ranks = Ranks::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(ranks.reduce(&Tensor::from(g), c.attrs.size("root")?, Combine::Sum))
    },
    same,
    || alone(&[1.0, 2.0], Attrs::new().with("root", 0i64)),
);

static REDUCE_SCATTER: Op = row(
    "reduce_scatter",
    "Each rank's part, along the first axis, of the combination of every rank's tensor.",
    &[HOW, WIRE, GROUP],
    |c| one(c, |c| combines(c).and_then(|()| divided(c)).map(|t| long(t, |n| n / size(c)))),
    |c, args| run("reduce_scatter", c, args),
    |c| {
        let ranks = summed(c, "reduce_scatter")?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(ranks.all_gathered(&Tensor::from(g), 0, Wire::of_node(c.attrs)?))
    },
    aside,
    || alone(&[1.0, 2.0], by("sum").with("wire", "exact")),
);

static ALL_GATHER: Op = row(
    "all_gather",
    "Every rank's tensors, concatenated along the first axis.",
    &[WIRE, GROUP],
    |c| one(c, |c| wire(c).and_then(|_| whole(c)).map(|t| long(t, |n| n * size(c)))),
    |c, args| run("all_gather", c, args),
    |c| {
        let ranks = Ranks::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(ranks.reduce_scattered(&Tensor::from(g), Combine::Sum, 0, Wire::of_node(c.attrs)?))
    },
    aside,
    || alone(&[1.0, 2.0], Attrs::new().with("wire", "exact")),
);

static ALL_TO_ALL: Op = row(
    "all_to_all",
    "Part `i` along the first axis goes to rank `i`; the received parts are in the order of ranks.",
    &[GROUP],
    |c| one(c, divided),
    |c, args| run("all_to_all", c, args),
    |c| {
        let ranks = Ranks::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        gradient(ranks.applied(&ALL_TO_ALL, &Tensor::from(g), Attrs::new()))
    },
    aside,
    || alone(&[1.0, 2.0], Attrs::new()),
);

static SEND: Op = row(
    "send",
    "Sends a tensor to rank `peer`. The result is a zero that stands for it.",
    &[PEER, GROUP],
    |c| one(c, |c| peer(c).map(|()| Type::new(c.dtype(0), Shape::scalar()))),
    |c, args| run("send", c, args),
    |c| {
        let ranks = Ranks::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        let like = Tensor::from(g).broadcast_to(c.inputs[0].ty().shape.clone());
        gradient(ranks.recv(&like, c.attrs.size("peer")?))
    },
    |c| {
        let zero = ordered(Tensor::apply1(c.op, &[&Tensor::from(c.inputs[0].clone())], c.attrs.clone()));
        Ok(vec![zero.broadcast_to([c.size]).value()?.clone()])
    },
    || echoed(&[0.0]),
);

static RECV: Op = row(
    "recv",
    "The tensor that rank `peer` sends; the input gives its type.",
    &[PEER, GROUP],
    |c| one(c, |c| peer(c).map(|()| c.types[0].clone())),
    |c, args| run("recv", c, args),
    |c| {
        let ranks = Ranks::of_node(c.attrs)?;
        let Some(g) = c.grads[0].clone() else { return Ok(vec![None]) };
        // The value does not depend on what gives its type: zeros, once the gradient is sent.
        let sent = ranks.send(&Tensor::from(g), c.attrs.size("peer")?);
        gradient(sent.broadcast_to(c.inputs[0].ty().shape.clone()))
    },
    same,
    || echoed(&[1.0, 2.0]),
);

/// A value that is received while the caller goes on.
pub struct Arriving {
    pending: Box<dyn Pending>,
    value: Arc<OnceLock<Literal>>,
}

impl Arriving {
    /// The value, once it is there.
    pub fn wait(mut self) -> Result<Literal> {
        self.pending.wait()?;
        self.value.get().cloned().ok_or_else(|| Error::bug("recv gives one value"))
    }
}

/// Ranks that exchange tensors.
#[derive(Clone, Debug)]
pub struct Ranks(pub PeersHandle);

impl Ranks {
    /// This process's rank.
    pub fn rank(&self) -> usize {
        self.0.0.rank()
    }
    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.0.0.size()
    }
    fn of_node(attrs: &Attrs) -> Result<Ranks> {
        attrs.peers("group").cloned().map(Ranks)
    }

    /// All-reduce. Ranks that tie for the maximum or minimum share its gradient.
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, how: Combine) -> Tensor {
        self.all_reduced(x, how, Wire::Exact)
    }
    /// The same, with elements encoded on the wire.
    #[track_caller]
    pub fn all_reduced(&self, x: &Tensor, how: Combine, wire: Wire) -> Tensor {
        self.combined(&ALL_REDUCE, x, how, Attrs::new().with("wire", wire.name()))
    }
    /// The combination for rank `root`; zeros for the others. Only sums and means have gradients.
    #[track_caller]
    pub fn reduce(&self, x: &Tensor, root: usize, how: Combine) -> Tensor {
        self.combined(&REDUCE, x, how, Attrs::new().with("root", root as i64))
    }
    /// Each rank's part of the combination: rank `i` gets part `i` along an axis, whose size must be
    /// a multiple of the number of ranks. Only sums and means have gradients.
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, how: Combine, axis: i64) -> Tensor {
        self.reduce_scattered(x, how, axis, Wire::Exact)
    }
    /// The same, with elements encoded on the wire.
    #[track_caller]
    pub fn reduce_scattered(&self, x: &Tensor, how: Combine, axis: i64, wire: Wire) -> Tensor {
        x.then(|t| {
            let (at, attrs) = (place(axis, t, "reduce_scatter")?, Attrs::new().with("wire", wire.name()));
            Ok(self.combined(&REDUCE_SCATTER, &x.moveaxis(&[at], &[0]), how, attrs).moveaxis(&[0], &[at]))
        })
    }
    /// Every rank's tensors, concatenated along an axis.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, axis: i64) -> Tensor {
        self.all_gathered(x, axis, Wire::Exact)
    }
    /// The same, with elements encoded on the wire.
    #[track_caller]
    pub fn all_gathered(&self, x: &Tensor, axis: i64, wire: Wire) -> Tensor {
        x.then(|t| {
            let (at, attrs) = (place(axis, t, "all_gather")?, Attrs::new().with("wire", wire.name()));
            Ok(self.applied(&ALL_GATHER, &x.moveaxis(&[at], &[0]), attrs).moveaxis(&[0], &[at]))
        })
    }
    /// Rank `root`'s tensor on every rank; the others' inputs give the type.
    #[track_caller]
    pub fn broadcast(&self, x: &Tensor, root: usize) -> Tensor {
        self.applied(&BROADCAST, x, Attrs::new().with("root", root as i64))
    }
    /// Cuts the tensor into as many parts as there are ranks along one axis, sends part `i` to rank
    /// `i`, and concatenates the received parts along another axis, in the order of ranks.
    #[track_caller]
    pub fn all_to_all(&self, x: &Tensor, split_axis: i64, concat_axis: i64) -> Tensor {
        x.then(|t| {
            let (split, join) = (place(split_axis, t, "all_to_all")?, place(concat_axis, t, "all_to_all")?);
            let (n, mut sizes) = (self.size(), t.shape.to_vec());
            let rest = sizes.remove(split as usize) / n;
            let came = self.applied(&ALL_TO_ALL, &x.moveaxis(&[split], &[0]), Attrs::new());
            // From whom, then the tensor with a part of the axis that was cut.
            let parts = came.reshape([&[n, rest][..], &sizes].concat().as_slice()).moveaxis(&[1], &[split + 1]);
            sizes.insert(split as usize, rest);
            sizes[join as usize] *= n;
            Ok(parts.moveaxis(&[0], &[join]).reshape(sizes.as_slice()))
        })
    }
    /// Sends a tensor to rank `to`, which must receive it. The result is a zero that stands for it:
    /// in a loss, it brings the gradient that comes back.
    #[track_caller]
    pub fn send(&self, x: &Tensor, to: usize) -> Tensor {
        self.applied(&SEND, x, Attrs::new().with("peer", to as i64))
    }
    /// The tensor that rank `from` sends; `like` gives the type. If `like` collects a gradient, the
    /// result's is sent back, and the sender must ask for it.
    #[track_caller]
    pub fn recv(&self, like: &Tensor, from: usize) -> Tensor {
        self.applied(&RECV, like, Attrs::new().with("peer", from as i64))
    }
    /// Sends a value to rank `to`, now.
    pub fn send_value(&self, x: &Literal, to: usize) -> Result<()> {
        let (ty, attrs) = (Type::new(x.dtype(), x.shape().clone()), Attrs::new().with("peer", to as i64));
        let call = Call { types: &[ty], attrs: &attrs };
        let done = self.0.0.run_over(SEND.name, &call, Some(x.bytes()), &mut []).and_then(|is_done| match is_done {
            true => Ok(()),
            false => self.0.0.run(SEND.name, &call, std::slice::from_ref(x)).map(drop),
        });
        done.map_err(|e| e.in_op(SEND.name))
    }
    /// Receives a value from rank `from`, now.
    pub fn receive_value(&self, ty: &Type, from: usize) -> Result<Literal> {
        let attrs = Attrs::new().with("peer", from as i64);
        let call = Call { types: std::slice::from_ref(ty), attrs: &attrs };
        let mut bytes = Bytes::any(ty.bytes());
        let got = self.0.0.run_over(RECV.name, &call, None, bytes.as_mut()).and_then(|is_done| {
            let room = Literal::from_buffer(ty.dtype, ty.shape.clone(), Arc::new(bytes));
            if is_done { Ok(vec![room]) } else { self.0.0.run(RECV.name, &call, &[room]) }
        });
        got.map_err(|e| e.in_op(RECV.name))?.pop().ok_or_else(|| Error::bug("recv gives one value"))
    }
    /// Sends a value to rank `to` while the caller goes on, after all exchanges that were started before.
    pub fn begin_send(&self, x: Literal, to: usize) -> Box<dyn Pending> {
        let ranks = self.clone();
        self.0.0.start(Box::new(move || ranks.send_value(&x, to)))
    }
    /// Receives a value from rank `from` while the caller goes on, after all exchanges that were started before.
    pub fn begin_receive(&self, ty: Type, from: usize) -> Arriving {
        let (ranks, value) = (self.clone(), Arc::new(OnceLock::new()));
        let into = value.clone();
        let job = move || ranks.receive_value(&ty, from).map(|got| drop(into.set(got)));
        Arriving { pending: self.0.0.start(Box::new(job)), value }
    }
    /// The value of rank `root`, now; the others bring one of its type.
    pub fn broadcast_value(&self, x: &Literal, root: usize) -> Result<Literal> {
        let (ty, attrs) = (Type::new(x.dtype(), x.shape().clone()), Attrs::new().with("root", root as i64));
        let call = Call { types: &[ty], attrs: &attrs };
        let got = self.0.0.run(BROADCAST.name, &call, std::slice::from_ref(x));
        let mut got = got.map_err(|e| e.in_op(BROADCAST.name))?;
        got.pop().ok_or_else(|| Error::bug("broadcast gives one value"))
    }
    /// Returns when every rank has called it.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.all_reduce(&Tensor::from(0i32), Combine::Sum).value().map(|_| ())
    }

    #[track_caller]
    fn combined(&self, op: &'static Op, x: &Tensor, how: Combine, attrs: Attrs) -> Tensor {
        let name = match how {
            Combine::Sum | Combine::Mean => "sum",
            Combine::Prod => "prod",
            Combine::Max => "max",
            Combine::Min => "min",
        };
        let attrs = attrs.with("how", name);
        if how != Combine::Mean {
            return self.applied(op, x, attrs);
        }
        x.then(|t| {
            if !t.dtype.is_float() {
                return Err(Error::dtype(format!("the mean is of floats, not of {}", t.dtype)).in_op(op.name));
            }
            Ok(self.applied(op, x, attrs) / self.size() as f64)
        })
    }
    #[track_caller]
    fn applied(&self, op: &'static Op, x: &Tensor, attrs: Attrs) -> Tensor {
        ordered(Tensor::apply1(op, &[x], attrs.with("group", self.0.clone())))
    }
}

/// An axis, counted from the front.
fn place(a: i64, t: &Type, op: &str) -> Result<i64> {
    axis(a, t.shape.rank()).map(|a| a as i64).map_err(|e| e.in_op(op))
}

/// Runs an ordered op now, or as an effect of the trace that is under way.
fn ordered(out: Tensor) -> Tensor {
    match effects::note(&out) {
        Ok(()) => out,
        Err(e) => Tensor::from(e),
    }
}

fn run(op: &'static str, c: &Call, args: &[Literal]) -> Outs {
    c.attrs.peers("group")?.0.run(op, c, args)
}

fn one(c: &Call, out: impl FnOnce(&Call) -> Result<Type>) -> Result<Types> {
    c.arity(1)?;
    exchangeable(c.dtype(0))?;
    Ok(Types::from_iter([out(c)?]))
}
/// The type with another size of the first axis.
fn long(t: Type, size: impl FnOnce(usize) -> usize) -> Type {
    let mut sizes = t.shape.to_vec();
    sizes[0] = size(sizes[0]);
    Type::new(t.dtype, sizes.as_slice())
}
/// How many ranks the group has.
fn size(c: &Call) -> usize {
    c.attrs.peers("group").map_or(1, |g| g.0.size())
}
fn how<'a>(c: &Call<'a>) -> Result<&'a str> {
    match c.attrs.str("how")? {
        how @ ("sum" | "prod" | "max" | "min") => Ok(how),
        how => Err(Error::value(format!("ranks combine by sum, prod, max or min, not {how:?}"))),
    }
}
/// How the elements travel; only those of sums of `f32` can be packed.
fn wire(c: &Call) -> Result<Wire> {
    let wire = Wire::of_node(c.attrs)?;
    if wire == Wire::Exact {
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
    c.attrs.peers("group")?;
    wire(c)?;
    how(c)?;
    if c.dtype(0) == DType::Bool && !matches!(how(c)?, "max" | "min") {
        return Err(Error::dtype("booleans are combined by max (any) or min (all)"));
    }
    Ok(())
}
/// The attribute `name` must be a rank of the group.
fn rank(c: &Call, name: &str) -> Result<()> {
    let (rank, size) = (c.attrs.int(name)?, c.attrs.peers("group")?.0.size());
    if usize::try_from(rank).is_ok_and(|r| r < size) {
        return Ok(());
    }
    Err(Error::index(format!("{name} {rank} is not one of {size} ranks")))
}
fn peer(c: &Call) -> Result<()> {
    rank(c, "peer")?;
    if c.attrs.size("peer")? == c.attrs.peers("group")?.0.rank() {
        return Err(Error::value("a rank does not exchange with itself"));
    }
    Ok(())
}
fn whole(c: &Call) -> Result<Type> {
    c.attrs.peers("group")?;
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

fn gradient(g: Tensor) -> Grads {
    Ok(vec![Some(g.value()?.clone())])
}
/// The group of a node whose combination is a sum: only that has a gradient.
fn summed(c: &GradCall, op: &str) -> Result<Ranks> {
    match c.attrs.str("how")? {
        "sum" => Ranks::of_node(c.attrs),
        how => {
            let e = format!("has no gradient: {op} by {how} is not differentiable, by sum it is");
            Err(Error::new(ErrorKind::Gradient, e))
        }
    }
}
/// The product of the other ranks' tensors.
fn others(ranks: &Ranks, x: &Tensor) -> Tensor {
    let (me, n) = (ranks.rank(), ranks.size());
    let all = ranks.all_gather(&x.unsqueeze(0), 0);
    let (before, after) = (all.narrow(0, 0, me), all.narrow(0, me + 1, n - me - 1));
    before.prod(0) * after.prod(0)
}

/// Batched: each element by itself.
fn same(c: &BatchCall) -> Result<Vec<Value>> {
    let x = Tensor::from(c.inputs[0].clone());
    Ok(vec![ordered(Tensor::apply1(c.op, &[&x], c.attrs.clone())).value()?.clone()])
}
/// Batched: the batch steps aside, as the first axis is the one that counts.
fn aside(c: &BatchCall) -> Result<Vec<Value>> {
    let x = Tensor::from(c.inputs[0].clone()).moveaxis(&[0], &[1]);
    let out = ordered(Tensor::apply1(c.op, &[&x], c.attrs.clone()));
    Ok(vec![out.moveaxis(&[1], &[0]).value()?.clone()])
}

/// An error for elements that have no encoding between processes.
fn exchangeable(dtype: DType) -> Result<()> {
    if dtype.is_f8() {
        return Err(Error::dtype(format!("ranks do not exchange {dtype}: cast it to bf16")));
    }
    if dtype.is_complex() {
        return Err(Error::dtype(format!("ranks do not exchange {dtype}: send its parts with view_as_real")));
    }
    Ok(())
}

fn by(how: &str) -> Attrs {
    Attrs::new().with("how", how)
}
/// A group of one: every collective is the identity.
fn alone(x: &[f64], attrs: Attrs) -> Vec<Case> {
    let x = f64s([x.len()], x);
    let attrs = attrs.with("group", PeersHandle(Arc::new(Alone)));
    vec![Case::new(vec![x.clone()], attrs).expect(vec![x], "a group of one")]
}
/// The first of two ranks; the other sends back what is expected.
struct Echo;
impl Peers for Echo {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        2
    }
    fn run(&self, op: &'static str, c: &Call, args: &[Literal]) -> Outs {
        Ok(if op == "send" { vec![Literal::zeros(c.dtype(0), Shape::scalar())] } else { args.to_vec() })
    }
}
/// What is sent to or received from an echo.
fn echoed(want: &[f64]) -> Vec<Case> {
    let attrs = Attrs::new().with("peer", 1i64).with("group", PeersHandle(Arc::new(Echo)));
    let shape = if want.len() == 1 { Shape::scalar() } else { Shape::from([want.len()]) };
    let want = f64s(shape, want);
    vec![Case::new(vec![f64s([2], &[1.0, 2.0])], attrs).expect(vec![want], "by hand").kinked()]
}
