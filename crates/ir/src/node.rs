//! The live graph: what a program has asked for so far.
//!
//! A [`Value`] is a counted reference to one output of a [`Node`]. Nodes point at their inputs,
//! never the other way, so a value lives exactly as long as a handle can reach it.
//! Variables are chains of values: assigning makes the variable name another value, and a read
//! fixes the value it had at that point of the program.

use crate::{Attrs, Buffer, CONST, Call, Error, ErrorKind, Literal, Op, Result, Setting, Site, Type, Types, Watch};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// What a live node is.
pub enum Source {
    /// The result of an op.
    Apply(&'static Op),
    /// Data that the program gave.
    Data,
    /// A value to be fed.
    Placeholder(Arc<str>),
    /// A variable's value at one point of the program.
    Read(Arc<Var>),
    /// The key of one random draw; a replayed graph draws again.
    Key,
}

struct State {
    inputs: SmallVec<[Value; 2]>,
    buffers: SmallVec<[Option<Buffer>; 1]>,
    grad: Option<Value>,
    watch: Option<Box<Watch>>,
}

/// One node of the live graph.
pub struct Node {
    id: u64,
    source: Source,
    attrs: Attrs,
    outs: Types,
    site: Site,
    needs_grad: bool,
    is_symbolic: bool,
    depth: u32,
    differentiated: AtomicBool,
    released: AtomicBool,
    state: Mutex<State>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);
thread_local! {
    static GRAD: Cell<bool> = const { Cell::new(true) };
    static PLACE: Cell<u32> = const { Cell::new(0) };
}

/// Says where what this thread asks for from now on is to be computed, as a number that the caller
/// knows; 0 is anywhere. Returns what it was before.
pub fn set_place(place: u32) -> u32 {
    PLACE.replace(place)
}

/// A point in program order: nodes made from now on have an id that is not smaller.
pub fn mark() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// True unless inside [`no_grad`].
pub fn is_grad_on() -> bool {
    GRAD.get()
}

/// Begins or stops to record, on this thread, that results depend on trainable values; returns what
/// it was before. For languages whose scopes are not closures; Rust has [`no_grad`].
pub fn set_grad(on: bool) -> bool {
    GRAD.replace(on)
}

/// Runs `f` without recording that its results depend on trainable values.
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            GRAD.set(self.0);
        }
    }
    let _restore = Restore(GRAD.replace(false));
    f()
}

impl Node {
    /// Number in program order: inputs have smaller ones than their users.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// What it is.
    pub fn source(&self) -> &Source {
        &self.source
    }
    /// The op, if it is the result of one.
    pub fn op(&self) -> Option<&'static Op> {
        if let Source::Apply(op) = self.source { Some(op) } else { None }
    }
    /// Its attributes.
    pub fn attrs(&self) -> &Attrs {
        &self.attrs
    }
    /// Types of its outputs.
    pub fn outs(&self) -> &[Type] {
        &self.outs
    }
    /// The user's line that made it.
    pub fn site(&self) -> Site {
        self.site
    }
    /// True if a trainable value is among its ancestors.
    pub fn needs_grad(&self) -> bool {
        self.needs_grad
    }
    /// True if a placeholder is among its ancestors: it cannot be computed as the program stands.
    pub fn is_symbolic(&self) -> bool {
        self.is_symbolic
    }
    /// Where it is to be computed, as [`set_place`] said when it was made; 0 is anywhere.
    pub fn place(&self) -> u32 {
        self.site.place
    }
    /// Length of the longest chain of uncomputed nodes that ends here, when it was made.
    pub fn depth(&self) -> u32 {
        self.depth
    }
    /// Its inputs; empty for leaves, and once computed when no gradient can ask for them.
    pub fn inputs(&self) -> SmallVec<[Value; 2]> {
        self.state.lock().inputs.clone()
    }
    /// The computed value of output `i`, if there is one.
    pub fn buffer(&self, i: usize) -> Option<Buffer> {
        self.state.lock().buffers.get(i).and_then(Clone::clone)
    }
    /// Whether output `i` is computed.
    pub fn is_computed(&self, i: usize) -> bool {
        self.state.lock().buffers.get(i).is_some_and(Option::is_some)
    }
    /// Records that a gradient was taken through it: its inner values need not be kept for one.
    pub fn mark_differentiated(&self) {
        self.differentiated.store(true, Ordering::Relaxed);
    }
    /// True if a gradient was taken through it.
    pub fn is_differentiated(&self) -> bool {
        self.differentiated.load(Ordering::Relaxed)
    }
    /// Records that the program asked for its gradient once and no more.
    pub fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }
    /// True if the program asked for its gradient once and no more.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }
    /// What is attached to it, if anything is.
    pub fn watched<R>(&self, f: impl FnOnce(&Watch) -> R) -> Option<R> {
        self.state.lock().watch.as_deref().map(f)
    }
    /// Changes what is attached to it.
    pub fn watch<R>(&self, f: impl FnOnce(&mut Watch) -> R) -> R {
        f(self.state.lock().watch.get_or_insert_default())
    }
    /// Stores the computed value of output `i`, and lets go of the inputs if all outputs are
    /// there and no gradient can ask for them.
    pub fn fill(&self, i: usize, buffer: Buffer) {
        let mut old = SmallVec::new();
        {
            let mut s = self.state.lock();
            s.buffers[i] = Some(buffer);
            let is_done = s.buffers.iter().all(Option::is_some);
            if is_done && (!self.needs_grad || matches!(self.source, Source::Read(_))) {
                old = std::mem::take(&mut s.inputs);
            }
        }
        release(old);
    }
    /// The accumulated gradient of a leaf.
    pub fn grad(&self) -> Option<Value> {
        self.state.lock().grad.clone()
    }
    /// Replaces the accumulated gradient of a leaf.
    pub fn set_grad(&self, g: Option<Value>) {
        self.state.lock().grad = g;
    }
}

/// Frees a chain of nodes without recursion: a million-node chain must not overflow the stack.
fn release(mut stack: SmallVec<[Value; 2]>) {
    while let Some(v) = stack.pop() {
        if let Some(mut node) = Arc::into_inner(v.node) {
            let s = node.state.get_mut();
            stack.extend(std::mem::take(&mut s.inputs));
            stack.extend(s.grad.take());
        }
    }
}
impl Drop for Node {
    fn drop(&mut self) {
        let s = self.state.get_mut();
        let mut stack = std::mem::take(&mut s.inputs);
        stack.extend(s.grad.take());
        release(stack);
    }
}

/// A handle to one output of a live node.
#[derive(Clone)]
pub struct Value {
    node: Arc<Node>,
    out: u32,
}

impl Value {
    fn node_of(
        source: Source,
        inputs: SmallVec<[Value; 2]>,
        attrs: Attrs,
        outs: Types,
        site: Site,
        grad: bool,
    ) -> Arc<Node> {
        let depth = inputs
            .iter()
            .map(|v| if v.node.is_computed(v.out as usize) { 0 } else { v.node.depth + 1 })
            .max()
            .unwrap_or(0);
        let is_symbolic = matches!(source, Source::Placeholder(_)) || inputs.iter().any(|v| v.node.is_symbolic);
        let buffers = SmallVec::from_elem(None, outs.len());
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let or = |own: u32, other: u32| if own == 0 { other } else { own };
        let site = Site { place: or(site.place, PLACE.get()), origin: or(site.origin, id as u32), ..site };
        Arc::new(Node {
            id,
            source,
            attrs,
            outs,
            site,
            needs_grad: grad,
            is_symbolic,
            depth,
            differentiated: AtomicBool::new(false),
            released: AtomicBool::new(false),
            state: Mutex::new(State { inputs, buffers, grad: None, watch: None }),
        })
    }

    /// The results of an op, types checked; nothing is computed.
    pub fn apply(
        op: &'static Op,
        inputs: SmallVec<[Value; 2]>,
        attrs: Attrs,
        site: Site,
    ) -> Result<SmallVec<[Value; 1]>> {
        let types: SmallVec<[Type; 3]> = inputs.iter().map(|v| v.ty().clone()).collect();
        let outs = op.check(&Call { types: &types, attrs: &attrs }).map_err(|e| e.at(site))?;
        let count = outs.len() as u32;
        let Value { node, .. } = Value::apply_typed(op, inputs, attrs, outs, site);
        Ok((0..count).map(|out| Value { node: node.clone(), out }).collect())
    }

    /// The first result of an op whose result types are known to be right.
    pub fn apply_typed(op: &'static Op, inputs: SmallVec<[Value; 2]>, attrs: Attrs, outs: Types, site: Site) -> Value {
        let grad = GRAD.get() && inputs.iter().any(|v| v.node.needs_grad) && outs.iter().any(|t| t.dtype.is_inexact());
        Value { node: Value::node_of(Source::Apply(op), inputs, attrs, outs, site, grad), out: 0 }
    }

    /// The result of an op of one input that keeps its type, which gradients are taken with respect to whether or not
    /// the input collects any.
    pub fn tracked(op: &'static Op, input: Value, site: Site) -> Value {
        let outs = Types::from_iter([input.ty().clone()]);
        let node = Value::node_of(Source::Apply(op), SmallVec::from_iter([input]), Attrs::new(), outs, site, true);
        Value { node, out: 0 }
    }

    fn leaf(source: Source, ty: Type, buffer: Option<Buffer>, site: Site, grad: bool) -> Value {
        let mut outs = Types::new();
        outs.push(ty);
        let node = Value::node_of(source, SmallVec::new(), Attrs::new(), outs, site, grad);
        if let Some(b) = buffer {
            node.state.lock().buffers[0] = Some(b);
        }
        Value { node, out: 0 }
    }
    /// A leaf that holds data; `grad` makes it collect a gradient.
    pub fn data(literal: Literal, grad: bool, site: Site) -> Value {
        let ty = Type::new(literal.dtype(), literal.shape().clone());
        Value::leaf(Source::Data, ty, Some(Buffer::Host(literal)), site, grad)
    }
    /// A leaf over a computed value.
    pub fn computed(ty: Type, buffer: Buffer, grad: bool, site: Site) -> Value {
        Value::leaf(Source::Data, ty, Some(buffer), site, grad)
    }
    /// A leaf to be fed.
    pub fn placeholder(name: &str, ty: Type, site: Site) -> Value {
        Value::leaf(Source::Placeholder(name.into()), ty, None, site, true)
    }
    /// A leaf for one random draw, with the key it has when the program is run as it stands.
    pub fn key(literal: Literal, site: Site) -> Value {
        let ty = Type::new(literal.dtype(), literal.shape().clone());
        Value::leaf(Source::Key, ty, Some(Buffer::Host(literal)), site, false)
    }
    /// A constant baked into the graph.
    pub fn constant(literal: Literal, site: Site) -> Value {
        let mut outs = Types::new();
        outs.push(Type::new(literal.dtype(), literal.shape().clone()));
        let attrs = Attrs::new().with("value", literal);
        Value { node: Value::node_of(Source::Apply(&CONST), SmallVec::new(), attrs, outs, site, false), out: 0 }
    }

    /// The first output of a node.
    pub fn from_node(node: Arc<Node>) -> Value {
        Value { node, out: 0 }
    }
    /// Its node.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }
    /// Which output of the node.
    pub fn out(&self) -> usize {
        self.out as usize
    }
    /// Another output of the same node.
    pub fn sibling(&self, out: usize) -> Value {
        assert!(out < self.node.outs.len());
        Value { node: self.node.clone(), out: out as u32 }
    }
    /// Its type.
    pub fn ty(&self) -> &Type {
        &self.node.outs[self.out as usize]
    }
    /// The computed value, if there is one.
    pub fn buffer(&self) -> Option<Buffer> {
        self.node.buffer(self.out as usize)
    }
    /// Whether it is computed.
    pub fn is_computed(&self) -> bool {
        self.node.is_computed(self.out as usize)
    }
    /// The value of a constant node.
    pub fn as_const(&self) -> Option<&Literal> {
        if self.node.op() == Some(&CONST) { self.node.attrs.literal("value").ok() } else { None }
    }
    /// True if both handles name the same output of the same node.
    pub fn is_same(&self, other: &Value) -> bool {
        Arc::ptr_eq(&self.node, &other.node) && self.out == other.out
    }
    /// Adds to the error the node's op and line.
    pub fn blame(&self, e: Error) -> Error {
        let e = e.at(self.node.site);
        if let Some(op) = self.node.op() { e.in_op(op.name) } else { e }
    }
}
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.node.source {
            Source::Apply(op) => op.name,
            Source::Data => "data",
            Source::Placeholder(_) => "placeholder",
            Source::Read(_) => "read",
            Source::Key => "key",
        };
        write!(f, "%{}.{} {what}: {}", self.node.id, self.out, self.ty())
    }
}

/// The state behind a variable: a name for a value that changes.
pub struct Var {
    id: u64,
    name: Mutex<Arc<str>>,
    ty: Type,
    is_parameter: bool,
    trainable: Setting,
    /// The node of its gradient, 0 where it has none: a trace that adds to a gradient depends on it.
    graded: Setting,
    /// Changes with its hooks: a trace that takes its gradient depends on them.
    hooked: Setting,
    site: Site,
    state: Mutex<VarState>,
}
struct VarState {
    current: Value,
    /// The newest computed value, while the current one is not computed yet.
    settled: Option<Value>,
    /// The shared read of this version; weak, as reads keep their variable alive.
    read: Weak<Node>,
    grad: Option<Value>,
    /// How often the gradient was dropped: what is collected after that is another one.
    drops: u64,
    watch: Option<Box<Watch>>,
    storage: Option<VarStorage>,
}
/// What handles share that see a variable's value change: empty until the variable gets another
/// storage, then the value that they go on with.
pub type VarStorage = Arc<OnceLock<Value>>;

impl Var {
    /// A variable whose first value is `initial`.
    pub fn new(name: &str, initial: Value, trainable: bool, site: Site) -> Arc<Var> {
        Arc::new(Var {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: Mutex::new(name.into()),
            ty: initial.ty().clone(),
            is_parameter: trainable,
            trainable: Setting::new(trainable.into()),
            graded: Setting::new(0),
            hooked: Setting::new(0),
            site,
            state: Mutex::new(VarState {
                current: initial,
                settled: None,
                read: Weak::new(),
                grad: None,
                drops: 0,
                watch: None,
                storage: None,
            }),
        })
    }
    /// Number in program order.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// Its name.
    pub fn name(&self) -> Arc<str> {
        self.name.lock().clone()
    }
    /// Renames it.
    pub fn rename(&self, name: &str) {
        *self.name.lock() = name.into();
    }
    /// Its type, which never changes.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
    /// True if it was made to be trained; freezing does not change that.
    pub fn is_parameter(&self) -> bool {
        self.is_parameter
    }
    /// True if gradients flow to it.
    pub fn is_trainable(&self) -> bool {
        self.trainable.get() != 0
    }
    /// Freezes or unfreezes it.
    pub fn set_trainable(&self, yes: bool) {
        self.trainable.set(yes.into());
        self.state.lock().read = Weak::new();
    }
    /// The line that made it.
    pub fn site(&self) -> Site {
        self.site
    }
    /// The value it names now.
    pub fn current(&self) -> Value {
        self.state.lock().current.clone()
    }
    /// Makes it name another value of the same type.
    pub fn assign(&self, value: Value) -> Result<()> {
        if *value.ty() != self.ty {
            let e = format!("variable {} is {}, but the new value is {}", self.name(), self.ty, value.ty());
            return Err(Error::new(ErrorKind::Shape, e).in_op("assign").at(value.node.site));
        }
        let is_computed = value.is_computed();
        let old = {
            let mut s = self.state.lock();
            s.read = Weak::new();
            let old = std::mem::replace(&mut s.current, value);
            if is_computed {
                (s.settled.take(), Some(old))
            } else if s.settled.is_none() && old.is_computed() {
                (s.settled.replace(old), None)
            } else {
                (None, Some(old))
            }
        };
        drop(old);
        Ok(())
    }
    /// Gives it back its newest computed value, where the current one cannot be computed. False
    /// where it has none.
    pub fn roll_back(&self) -> bool {
        let settled = self.state.lock().settled.take();
        settled.is_some_and(|value| self.assign(value).is_ok())
    }
    /// Its value at this point of the program, as a leaf; reads of one version share it.
    pub fn read(self: &Arc<Self>, site: Site) -> Value {
        let is_trainable = self.is_trainable();
        let mut s = self.state.lock();
        if let Some(node) = s.read.upgrade() {
            return Value { node, out: 0 };
        }
        let current = s.current.clone();
        let mut outs = Types::new();
        outs.push(self.ty.clone());
        let buffer = current.buffer();
        let inputs = if buffer.is_some() { SmallVec::new() } else { SmallVec::from_iter([current]) };
        let node = Value::node_of(Source::Read(self.clone()), inputs, Attrs::new(), outs, site, is_trainable);
        node.state.lock().buffers[0] = buffer;
        s.read = Arc::downgrade(&node);
        Value { node, out: 0 }
    }
    /// Gives it a computed value.
    pub fn set_buffer(&self, buffer: Buffer) {
        let value = Value::computed(self.ty.clone(), buffer, false, self.site);
        self.assign(value).expect("same type");
    }
    /// Locks it against reads and assignments by others. A holder of several takes them in the
    /// order of their ids.
    pub fn lock(&self) -> VarGuard<'_> {
        VarGuard { var: self, state: self.state.lock() }
    }
    /// What handles that see its value change hold on to.
    pub fn storage(&self) -> VarStorage {
        self.state.lock().storage.get_or_insert_default().clone()
    }
    /// Takes another storage: handles that share the present one keep the present value.
    pub fn leave_storage(&self) {
        let mut s = self.state.lock();
        if let Some(storage) = s.storage.take() {
            let _ = storage.set(s.current.clone());
        }
    }
    /// Its accumulated gradient.
    pub fn grad(&self) -> Option<Value> {
        self.graded.get();
        self.state.lock().grad.clone()
    }
    /// Replaces its accumulated gradient.
    pub fn set_grad(&self, g: Option<Value>) {
        self.graded.set(g.as_ref().map_or(0, |g| g.node.id));
        let old = {
            let mut state = self.state.lock();
            state.drops += u64::from(g.is_none());
            std::mem::replace(&mut state.grad, g)
        };
        drop(old);
    }
    /// What is attached to it, if anything is.
    pub fn watched<R>(&self, f: impl FnOnce(&Watch) -> R) -> Option<R> {
        self.hooked.get();
        self.state.lock().watch.as_deref().map(f)
    }
    /// Changes what is attached to it.
    pub fn watch<R>(&self, f: impl FnOnce(&mut Watch) -> R) -> R {
        self.hooked.set(NEXT.fetch_add(1, Ordering::Relaxed));
        f(self.state.lock().watch.get_or_insert_default())
    }
    /// A number that is the same while one gradient accumulates.
    pub fn grad_number(&self) -> u64 {
        self.state.lock().drops
    }
}

/// A variable that is held, so that its memory can be lent to a run.
pub struct VarGuard<'a> {
    var: &'a Var,
    state: MutexGuard<'a, VarState>,
}
impl VarGuard<'_> {
    /// The variable.
    pub fn var(&self) -> &Var {
        self.var
    }
    /// Puts its value, if that is computed, in place of an older copy. Where no other handle can ask
    /// for the value it is moved: then the variable has none until [`VarGuard::put`], and this is true.
    pub fn take(&mut self, copy: &mut Buffer) -> bool {
        let node = &self.state.current.node;
        let is_mine = self.is_mine();
        let mut s = node.state.lock();
        let Some(buffer) = s.buffers[self.state.current.out as usize].clone() else { return false };
        *copy = buffer;
        if is_mine {
            s.buffers[0] = None;
        }
        is_mine
    }
    fn is_mine(&self) -> bool {
        let node = &self.state.current.node;
        Arc::strong_count(node) == 1 && matches!(node.source, Source::Data) && !node.needs_grad
    }
    /// Gives it the value that was taken from it, or a new one.
    pub fn put(&mut self, buffer: Buffer) {
        self.state.read = Weak::new();
        if self.is_mine() {
            self.state.current.node.state.lock().buffers[0] = Some(buffer);
        } else {
            self.state.current = Value::computed(self.var.ty.clone(), buffer, false, self.var.site);
        }
    }
}
impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.ty)
    }
}
