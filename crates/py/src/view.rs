//! Handles and views of them.
//!
//! Values never change: an in-place operation makes a handle name another value. A view shares the elements of its
//! base, as in PyTorch and NumPy, so it remembers the base and the ops that lead from there to it. A write to the view
//! makes the base name a new value; a write to the base makes its views name new ones.
//!
//! A base that no program can reach any more is not kept alive: its view is then an ordinary handle.

use crate::error::{OrRaise, exception};
use crate::site::here;
use crate::transform;
use ::tensor::{DType, Error, ErrorKind, Tensor, Variable};
use ir::{Attrs, Call, Layout, Meaning, Op, Shape, Type, Value, VarStorage};
use parking_lot::{Mutex, RwLock};
use pyo3::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

/// The longest path from a base to its view; what comes after is a copy.
const HOPS_MAX: usize = 64;

/// What a handle names.
#[derive(Clone)]
pub enum Kind {
    /// A value.
    Value(Tensor),
    /// A variable: reading it gives its value at that point of the program.
    Variable(Variable),
}

/// Which results of an op are views.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strides {
    /// Those of an index, as in NumPy: any strides, the whole tensor as well.
    Any,
    /// Those of a method, as in PyTorch: strides that are not negative, so that `flip` is a copy.
    Positive,
    /// Those of a method that only arranges elements: as `Positive`, and the whole tensor as well.
    Arranged,
}

/// A handle: what it names, whose view it is, and its own views.
pub struct Cell {
    kind: RwLock<Kind>,
    view: RwLock<Option<View>>,
    views: Mutex<Vec<Weak<Cell>>>,
    /// The trace it was made in, 0 for none.
    born: u64,
    /// The node of a base that changes on its own from which a view was read last, and the trace it was read in.
    seen: Mutex<(u64, u64)>,
}

/// How a handle depends on another.
#[derive(Clone)]
struct View {
    base: Base,
    path: Vec<Hop>,
    /// Made by `detach`: writes go past the history.
    is_detached: bool,
    strides: Strides,
    /// Whether strides reach all elements from the base: else they are a copy. Found out when it matters.
    is_strided: OnceLock<bool>,
}

#[derive(Clone)]
enum Base {
    Handle(Weak<Cell>),
    Variable(Variable, VarStorage),
    /// The gradient that a variable collects, and its number.
    Gradient(Variable, u64),
}

/// One step from a base to its view.
#[derive(Clone, PartialEq)]
enum Hop {
    /// Other strides.
    View(ViewOp),
    /// The real parts of complex numbers.
    Real,
    /// The imaginary parts.
    Imag,
    /// The conjugates.
    Conj,
}

/// A use of an op that only changes strides.
#[derive(Clone)]
struct ViewOp {
    op: &'static Op,
    attrs: Attrs,
    /// Shape of what it takes.
    from: Shape,
}
impl PartialEq for ViewOp {
    fn eq(&self, other: &ViewOp) -> bool {
        std::ptr::eq(self.op, other.op) && self.attrs == other.attrs && self.from == other.from
    }
}

impl Hop {
    fn apply(&self, t: &Tensor) -> Tensor {
        match self {
            Hop::View(v) => Tensor::apply1(v.op, &[t], v.attrs.clone()),
            Hop::Real => t.real(),
            Hop::Imag => t.imag(),
            Hop::Conj => t.conj(),
        }
    }
}

impl Cell {
    /// A handle that is no view.
    pub fn new(kind: Kind) -> Arc<Cell> {
        Arc::new(Cell {
            kind: RwLock::new(kind),
            view: RwLock::new(None),
            views: Mutex::new(Vec::new()),
            born: transform::current(),
            seen: Mutex::new((0, 0)),
        })
    }
    /// Whose view it is.
    fn view(&self) -> Option<View> {
        self.view.read().as_ref().filter(|v| v.is_live()).cloned()
    }
    /// What it names.
    pub fn kind(&self) -> Kind {
        self.kind.read().clone()
    }
    /// The variable, if it names one.
    pub fn variable(&self) -> Option<Variable> {
        if let Kind::Variable(v) = &*self.kind.read() { Some(v.clone()) } else { None }
    }
    /// Its value at this point of the program.
    pub fn tensor(&self) -> Tensor {
        // A variable and its gradient change without telling their views.
        if let Some(view) = &*self.view.read()
            && let Some(value) = view.moving()
            && view.is_live()
        {
            return self.read_anew(view, &value);
        }
        match &*self.kind.read() {
            Kind::Value(t) => t.clone(),
            Kind::Variable(v) => v.tensor(),
        }
    }
    /// What a view shows of its base's value; the same node while that is the same, so that gradients can be taken with
    /// respect to it.
    fn read_anew(&self, view: &View, base: &Tensor) -> Tensor {
        let now = version(base);
        if *self.seen.lock() == now
            && let Kind::Value(t) = &*self.kind.read()
        {
            return t.clone();
        }
        let t = view.read(base);
        *self.kind.write() = Kind::Value(t.clone());
        *self.seen.lock() = now;
        t
    }
    /// Strides and offset of a view in its base, as in PyTorch; `None` for what has its own elements.
    pub fn strides(&self) -> Option<Layout> {
        self.view().and_then(|v| layout(&v.path))
    }
    /// Makes the handle name something else; its views follow. It is no view any more.
    pub fn set(&self, kind: Kind) {
        *self.view.write() = None;
        *self.kind.write() = kind;
        self.tell_views();
    }
    /// Makes the handle name something else; its views keep what they show.
    pub fn rebind(&self, kind: Kind) {
        for v in self.views.lock().drain(..).filter_map(|v| v.upgrade()) {
            *v.view.write() = None;
        }
        self.set(kind);
    }
    fn tell_views(&self) {
        let live: Vec<Arc<Cell>> = self.views.lock().iter().filter_map(Weak::upgrade).collect();
        if live.is_empty() {
            return;
        }
        let value = self.tensor();
        for v in live {
            let Some(view) = v.view() else { continue };
            *v.kind.write() = Kind::Value(view.read(&value));
        }
    }

    /// Writes a value in place: to the handle, or to what it is a view of.
    pub fn write(self: &Arc<Cell>, py: Python<'_>, new: Tensor) -> PyResult<()> {
        let new = here(py).scope(|| fitting(&self.tensor(), new)).or_raise(py)?;
        let Some(view) = self.view() else { return self.write_own(py, new, false) };
        match &view.base {
            Base::Gradient(v, _) => {
                let Some(grad) = view.moving() else {
                    self.set(Kind::Value(new));
                    return Ok(());
                };
                let whole = here(py).scope(|| view.written(&grad, &new)).or_raise(py)?;
                v.var().set_grad(Some(whole.value().or_raise(py)?.clone()));
                Ok(())
            }
            Base::Variable(_, storage) if storage.get().is_some() => {
                self.set(Kind::Value(new));
                Ok(())
            }
            Base::Variable(v, _) => {
                check_writable(py, v, view.is_detached)?;
                let whole = here(py).scope(|| view.written(&v.tensor(), &new)).or_raise(py)?;
                here(py).scope(|| v.assign(&whole)).or_raise(py)
            }
            Base::Handle(base) => {
                let Some(base) = base.upgrade() else {
                    self.set(Kind::Value(new));
                    return Ok(());
                };
                let whole = here(py).scope(|| view.written(&base.tensor(), &new)).or_raise(py)?;
                if base.follows() { base.write(py, whole) } else { base.write_own(py, whole, view.is_detached) }
            }
        }
    }
    fn write_own(&self, py: Python<'_>, new: Tensor, is_detached: bool) -> PyResult<()> {
        match self.kind() {
            Kind::Variable(v) => {
                check_writable(py, &v, is_detached)?;
                here(py).scope(|| v.assign(&new)).or_raise(py)?;
            }
            Kind::Value(old) => {
                let has_history = old.value().is_ok_and(|v| v.node().needs_grad() && !v.node().is_symbolic());
                if is_detached && has_history {
                    let e = "a computed tensor that requires gradients cannot be written through .data or .detach(): \
                             write to the tensor itself, or detach().clone() it first";
                    return Err(exception(py, &Error::new(ErrorKind::Gradient, e).at(here(py))));
                }
                self.check_born(py)?;
                *self.kind.write() = Kind::Value(new);
            }
        }
        self.tell_views();
        Ok(())
    }

    /// Fails for a handle from outside of the function that is traced now: the change would happen once, when it is
    /// traced, and not when it is called.
    pub fn check_born(&self, py: Python<'_>) -> PyResult<()> {
        let now = transform::current();
        if now == 0 || self.born == now {
            return Ok(());
        }
        let e = "a tensor from outside is changed in place while a function is traced, which would happen once and not at \
                 each call: return the new value, pass the tensor as an argument of jit, or make it a variable \
                 (tw.Variable, register_buffer)";
        Err(crate::error::trace_error(py, e))
    }
    /// A handle to `y`, which an op has made of `me`, this handle's value: a view if only strides differ.
    pub fn derive(self: &Arc<Cell>, me: &Tensor, y: Tensor, strides: Strides) -> Arc<Cell> {
        let hops = hops(me, &y, strides);
        let made = Cell::new(Kind::Value(y));
        if let Some(hops) = hops {
            self.attach(&made, hops, strides, false);
        }
        made
    }
    /// A handle to the real or imaginary parts, `y`, of this handle's value.
    pub fn part(self: &Arc<Cell>, y: Tensor, is_imag: bool) -> Arc<Cell> {
        let made = Cell::new(Kind::Value(y));
        if self.tensor().dtype().is_ok_and(|d| d.is_complex()) {
            self.attach(&made, vec![if is_imag { Hop::Imag } else { Hop::Real }], Strides::Any, false);
        } else if !is_imag {
            self.attach(&made, Vec::new(), Strides::Any, false);
        }
        made
    }
    /// A handle to `y`, the conjugates of this handle's value.
    pub fn conjugate(self: &Arc<Cell>, y: Tensor) -> Arc<Cell> {
        let made = Cell::new(Kind::Value(y));
        self.attach(&made, vec![Hop::Conj], Strides::Any, false);
        made
    }
    /// Another handle to `y`, this handle's value, that is changed with it.
    pub fn same(self: &Arc<Cell>, y: Tensor) -> Arc<Cell> {
        let made = Cell::new(Kind::Value(y));
        self.attach(&made, Vec::new(), Strides::Any, false);
        made
    }
    /// Makes the handle the gradient that a variable has got from it. A view stays one: the gradient is its copy.
    pub fn follow_gradient(&self, v: &Variable) {
        if self.view().is_some() || self.variable().is_some() || transform::current() != 0 {
            return;
        }
        *self.view.write() = Some(View::of_gradient(v));
    }
    /// True for a handle that was made the gradient of a variable.
    fn follows(&self) -> bool {
        self.view.read().as_ref().is_some_and(|v| matches!(v.base, Base::Gradient(..)))
    }
    /// The handle that this one is a view of, if that is no variable, and a way to show the same of another.
    pub fn base(&self) -> Option<(Arc<Cell>, impl Fn(&Arc<Cell>) -> Arc<Cell>)> {
        let view = self.view()?;
        let Base::Handle(base) = &view.base else { return None };
        let base = base.upgrade().filter(|b| b.variable().is_none())?;
        let again = move |other: &Arc<Cell>| {
            let made = Cell::new(Kind::Value(view.read(&other.tensor())));
            other.attach(&made, view.path.clone(), view.strides, view.is_detached);
            made
        };
        Some((base, again))
    }
    /// A handle to `y`, this handle's value without its history.
    pub fn detached(self: &Arc<Cell>, y: Tensor) -> Arc<Cell> {
        let made = Cell::new(Kind::Value(y));
        self.attach(&made, Vec::new(), Strides::Any, true);
        made
    }
    /// A handle to the gradient of a variable.
    pub fn gradient(v: &Variable, g: Tensor) -> Arc<Cell> {
        let made = Cell::new(Kind::Value(g));
        *made.view.write() = Some(View::of_gradient(v));
        made
    }
    /// True for the gradient of a variable, as `grad` returns it.
    pub fn is_gradient(&self) -> bool {
        self.view().is_some_and(|v| matches!(v.base, Base::Gradient(..)) && v.path.is_empty() && !v.is_detached)
    }
    /// True if `other` is a view of this handle that shows what `y`, made of its value `me`, does.
    pub fn shows(self: &Arc<Cell>, me: &Tensor, y: &Tensor, other: &Cell) -> bool {
        let (Some(view), Some(hops)) = (other.view(), hops(me, y, Strides::Any)) else { return false };
        let is_mine = match &view.base {
            Base::Handle(base) => base.upgrade().is_some_and(|b| Arc::ptr_eq(&b, self)),
            Base::Variable(v, storage) => {
                storage.get().is_none() && self.variable().is_some_and(|mine| mine.is_same(v))
            }
            Base::Gradient(..) => false,
        };
        is_mine && view.path == hops
    }
    fn attach(self: &Arc<Cell>, made: &Arc<Cell>, hops: Vec<Hop>, strides: Strides, is_detached: bool) {
        let mine = self.view();
        let (base, mut path, was_detached) = match mine {
            None => match self.variable() {
                Some(v) => {
                    let storage = v.var().storage();
                    (Base::Variable(v, storage), Vec::new(), false)
                }
                None => (Base::Handle(Arc::downgrade(self)), Vec::new(), false),
            },
            Some(v) => (v.base, v.path, v.is_detached),
        };
        path.extend(hops);
        let view = View { base, path, is_detached: is_detached || was_detached, strides, is_strided: OnceLock::new() };
        if let Base::Handle(base) = &view.base
            && let Some(base) = base.upgrade()
        {
            let mut views = base.views.lock();
            if views.len() == views.capacity() {
                views.retain(|v| v.strong_count() > 0);
            }
            views.push(Arc::downgrade(made));
        }
        // What it was made as is what it shows until the base changes: gradients find the way through this handle.
        if let Some(base) = view.moving() {
            *made.seen.lock() = version(&base);
        }
        *made.view.write() = Some(view);
    }
}

/// The node of a value, and the trace that is in progress.
fn version(t: &Tensor) -> (u64, u64) {
    (t.value().map_or(0, |v| v.node().id()), transform::current())
}

impl View {
    /// All of the gradient that a variable collects.
    fn of_gradient(v: &Variable) -> View {
        let base = Base::Gradient(v.clone(), v.var().grad_number());
        View { base, path: Vec::new(), is_detached: false, strides: Strides::Any, is_strided: OnceLock::from(true) }
    }
    /// False for what turned out to be a copy, and where the base is gone.
    fn is_live(&self) -> bool {
        let has_base = !matches!(&self.base, Base::Handle(base) if base.strong_count() == 0);
        has_base && *self.is_strided.get_or_init(|| is_strided(&self.path, self.strides))
    }
    /// The value of a base that changes without telling its views.
    fn moving(&self) -> Option<Tensor> {
        match &self.base {
            Base::Variable(v, storage) => Some(storage.get().map_or_else(|| v.tensor(), |old| old.clone().into())),
            Base::Handle(base) => {
                let base = base.upgrade()?;
                let own = base.variable().map(|v| v.tensor());
                own.or_else(|| base.follows().then(|| base.tensor()))
            }
            Base::Gradient(v, number) => v.grad().filter(|_| v.var().grad_number() == *number),
        }
    }
    /// What the view shows of its base's value.
    fn read(&self, base: &Tensor) -> Tensor {
        let start = if self.is_detached { base.detach() } else { base.clone() };
        self.path.iter().fold(start, |t, h| h.apply(&t))
    }
    /// The base's value with `new` in the place of what the view shows.
    fn written(&self, base: &Tensor, new: &Tensor) -> Result<Tensor, Error> {
        put(base, &self.path, new)
    }
}

/// A value with `new` in the place of what a path leads to.
fn put(base: &Tensor, path: &[Hop], new: &Tensor) -> Result<Tensor, Error> {
    let Some(at) = path.iter().position(|h| !matches!(h, Hop::View(_))) else { return put_strided(base, path, new) };
    let whole = path[..at].iter().fold(base.clone(), |t, h| h.apply(&t));
    let part = put(&path[at].apply(&whole), &path[at + 1..], new)?;
    let whole = match path[at] {
        Hop::Imag => Tensor::complex(&whole.real(), &part),
        Hop::Conj => part.conj(),
        _ => Tensor::complex(&part, &whole.imag()),
    };
    put_strided(base, &path[..at], &whole)
}

/// The same for a path of strides alone.
fn put_strided(base: &Tensor, path: &[Hop], new: &Tensor) -> Result<Tensor, Error> {
    if path.is_empty() {
        return Ok(new.clone());
    }
    let layout = layout(path).ok_or_else(|| Error::bug("a view without a layout"))?;
    if !is_injective(&layout) {
        let e = "several elements of the view are one element of its base: clone() the view before writing to it";
        return Err(Error::value(e).in_op("in-place write"));
    }
    let (shape, count) = (base.shape()?, base.count()?);
    if layout.is_contiguous() && layout.offset == 0 && new.count()? == count {
        return Ok(new.reshape(&shape));
    }
    // The same path of the elements' numbers says where the new ones go.
    let numbers = Tensor::iota(count, DType::I64).reshape(&shape);
    let places = path.iter().fold(numbers, |t, h| h.apply(&t));
    Ok(base.ravel().scatter(0, &places.ravel(), &new.ravel()).reshape(&shape))
}

/// Where the elements that a path of strides leads to lie; `None` where strides cannot say it.
fn layout(path: &[Hop]) -> Option<Layout> {
    let mut at: Option<Layout> = None;
    for h in path {
        let Hop::View(ViewOp { op, attrs, from }) = h else { return None };
        let Meaning::View(view) = op.meaning else { return None };
        let layout = at.unwrap_or_else(|| Layout::contiguous(from));
        let types = [Type::new(DType::F32, from.clone())];
        at = Some(view(&Call { types: &types, attrs }, &layout).ok()??);
    }
    at
}

/// True if every stretch of strides in a path can be said with strides, none of them negative unless they may be.
fn is_strided(path: &[Hop], strides: Strides) -> bool {
    path.split(|h| !matches!(h, Hop::View(_)))
        .filter(|part| !part.is_empty())
        .all(|part| layout(part).is_some_and(|l| strides == Strides::Any || l.strides.iter().all(|&s| s >= 0)))
}

/// A value that may be written over another in place: of its shape, converted to its element type where no kind of
/// number is lost.
fn fitting(old: &Tensor, new: Tensor) -> Result<Tensor, Error> {
    let (was, is) = (old.value()?.ty().clone(), new.value()?.ty().clone());
    if was.shape != is.shape {
        let e = format!("the result has shape {}, but the tensor that is changed has {}", is.shape, was.shape);
        return Err(Error::shape(e).in_op("in-place operation"));
    }
    if rank_of(is.dtype) > rank_of(was.dtype) {
        let e = format!("the result is {}, which the tensor that is changed, {}, cannot hold", is.dtype, was.dtype);
        return Err(Error::dtype(e).in_op("in-place operation"));
    }
    Ok(new.cast(was.dtype))
}

/// Kinds of numbers, each of which holds those before it.
fn rank_of(d: DType) -> u8 {
    match d {
        DType::Bool => 0,
        d if d.is_int() => 1,
        d if d.is_complex() => 3,
        _ => 2,
    }
}

fn check_writable(py: Python<'_>, v: &Variable, is_detached: bool) -> PyResult<()> {
    if v.is_trainable() && ir::is_grad_on() && !is_detached {
        let e = "a leaf that requires gradients cannot be changed in place outside of tw.no_grad()";
        return Err(exception(py, &Error::new(ErrorKind::Gradient, e).at(here(py))));
    }
    Ok(())
}
/// The ops that lead from one value to another, if all of them only change strides.
fn hops(from: &Tensor, to: &Tensor, strides: Strides) -> Option<Vec<Hop>> {
    let (base, y) = (from.value().ok()?, to.value().ok()?);
    let out = match (base.ty().dtype.is_complex(), y.ty().dtype.is_complex()) {
        (false, false) => walk(base, y.clone())?,
        (true, true) if y.is_same(base) => Vec::new(),
        // The real parts went the same way.
        (true, true) => {
            let real = y.node().inputs().first().filter(|_| y.node().inputs().len() == 2)?.clone();
            walk(from.real().value().ok()?, real.clone()).or_else(|| walk_parts(from, base, real))?
        }
        _ => return None,
    };
    (strides != Strides::Positive || !out.is_empty()).then_some(out)
}

/// The way from the real parts of a complex value to `to`, which was made from the value's pairs.
fn walk_parts(from: &Tensor, base: &Value, to: Value) -> Option<Vec<Hop>> {
    let pairs = from.view_as_real();
    let (real, pairs) = (from.real().value().ok()?.clone(), pairs.value().ok()?.clone());
    let same_pairs = |v: &Value| v.is_same(&pairs) || v.node().inputs().first().is_some_and(|i| i.is_same(base));
    let select = walk_until(real.clone(), &same_pairs)?;
    let mut whole = walk_until(to, &same_pairs)?;
    (whole.len() >= select.len() && whole[..select.len()] == select[..]).then(|| whole.split_off(select.len()))
}

fn walk(base: &Value, to: Value) -> Option<Vec<Hop>> {
    walk_until(to, &|v| v.is_same(base))
}

fn walk_until(to: Value, is_end: &dyn Fn(&Value) -> bool) -> Option<Vec<Hop>> {
    let (mut at, mut out) = (to, Vec::new());
    while !is_end(&at) {
        let op = at.node().op()?;
        let inputs = at.node().inputs();
        let input = inputs.first()?.clone();
        if out.len() == HOPS_MAX || inputs.len() != 1 {
            return None;
        }
        match op.meaning {
            Meaning::View(_) => {}
            Meaning::Composite(parts) if may_be_view(op) => {
                let call = Call { types: &[input.ty().clone()], attrs: at.node().attrs() };
                let inner = parts(&call, &inputs).ok()?.swap_remove(at.out());
                if !inner.is_same(&input) && !inner.node().op().is_some_and(may_be_view) {
                    NO_VIEWS.lock().insert(std::ptr::from_ref(op) as usize);
                    return None;
                }
                at = inner;
                continue;
            }
            _ => return None,
        }
        let from = input.ty().shape.clone();
        out.push(Hop::View(ViewOp { op, attrs: at.node().attrs().clone(), from }));
        at = input;
    }
    out.reverse();
    Some(out)
}

/// Composites that were found to compute something; to expand each of their calls would cost time.
static NO_VIEWS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// False for an op whose results share no elements with what it takes.
fn may_be_view(op: &'static Op) -> bool {
    match op.meaning {
        Meaning::View(_) => true,
        Meaning::Composite(_) => !NO_VIEWS.lock().contains(&(std::ptr::from_ref(op) as usize)),
        _ => false,
    }
}

/// True if no two elements of a layout are the same one of its buffer. It may say no of a layout with gaps that
/// interleave.
fn is_injective(l: &Layout) -> bool {
    let mut dims: Vec<(usize, usize)> = l.shape.iter().zip(&l.strides).map(|(&d, &s)| (s.unsigned_abs(), d)).collect();
    dims.retain(|&(_, d)| d > 1);
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().all(|&(stride, d)| {
        let is_free = stride > reach;
        reach += stride * (d - 1);
        is_free
    })
}
