//! `jit(f)`: trace once, replay without tracing or hashing.

use crate::bind::{Bound, Weights};
use crate::mesh::current_mesh;
use crate::trace::{Traced, trace};
use ir::{Buffer, Collect, DType, Graph, Result, SettingRead, Site, Source, Type, Value, collect};
use ops::control::recorded;
use ops::{Tensor, autocast_dtype, engine};
use parking_lot::Mutex;
use passes::partition::Inserted;
use runtime::{Engine, Placed, Profile};
use std::sync::Arc;

/// Traces kept at most; the one that was not used for the longest goes first.
const TRACES_MAX: usize = 64;

/// The scopes around a call that decide what a function traces.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Scopes {
    has_grad: bool,
    autocast: Option<DType>,
    engine: usize,
    mesh: usize,
    /// Which logical devices there are.
    logical: u64,
}

impl Scopes {
    fn now() -> Result<Scopes> {
        let engine: *const Engine = engine();
        let mesh = current_mesh()?.map_or(0, |m| Arc::as_ptr(&m).addr());
        let (has_grad, autocast, engine) = (ir::is_grad_on(), autocast_dtype(), engine.addr());
        Ok(Scopes { has_grad, autocast, engine, mesh, logical: runtime::logical_revision() })
    }
}

/// A traced function, with everything the trace depends on.
struct Trace<X> {
    arguments: Vec<Type>,
    scopes: Scopes,
    settings: Vec<SettingRead>,
    bound: Bound,
    results: Vec<Type>,
    /// Whether gradients flow to what it reads beside its arguments.
    is_trained: bool,
    extra: X,
}

impl<X> Trace<X> {
    fn holds(&self, args: &dyn Arguments, scopes: Scopes) -> bool {
        self.arguments.len() == args.count()
            && self.scopes == scopes
            && self.arguments.iter().enumerate().all(|(i, t)| args.ty(i).is_ok_and(|ty| ty == t))
            && self.settings.iter().all(|(setting, value)| setting.is(*value))
    }
}

/// What a trace is looked up by: the types of the arguments.
trait Arguments {
    fn count(&self) -> usize;
    fn ty(&self, i: usize) -> Result<&Type>;
}
impl Arguments for &[&Tensor] {
    fn count(&self) -> usize {
        self.len()
    }
    fn ty(&self, i: usize) -> Result<&Type> {
        Ok(self[i].value()?.ty())
    }
}
impl Arguments for &[Type] {
    fn count(&self) -> usize {
        self.len()
    }
    fn ty(&self, i: usize) -> Result<&Type> {
        Ok(&self[i])
    }
}

/// A function to trace, which returns its results and what is kept beside the trace.
type Body<'a, X> = &'a mut dyn FnMut(&[Tensor]) -> Result<(Vec<Tensor>, X)>;

/// A function that is called at most once, behind a pointer that may be called more often.
fn once<X>(f: impl FnOnce(&[Tensor]) -> Result<(Vec<Tensor>, X)>) -> impl FnMut(&[Tensor]) -> Result<(Vec<Tensor>, X)> {
    let mut f = Some(f);
    move |args| f.take().ok_or_else(|| ir::Error::bug("a function was traced twice"))?(args)
}

/// The traces of one function, each with something that its caller keeps beside it. What they are
/// keyed on stands at [`jit`].
pub struct Traces<X = ()> {
    weights: Weights,
    /// The last used is the last.
    list: Mutex<Vec<Arc<Trace<X>>>>,
}

impl<X> Default for Traces<X> {
    fn default() -> Traces<X> {
        Traces { weights: Weights::Live, list: Mutex::default() }
    }
}

impl<X> Traces<X> {
    /// Traces whose variables and captured values are compiled in as they are: [`Jit::frozen`].
    pub fn frozen() -> Traces<X> {
        Traces { weights: Weights::Frozen, list: Mutex::default() }
    }

    /// Calls `f`, or replays what it did at an earlier call with the same key. `keep` sees what was
    /// kept beside the trace.
    #[track_caller]
    pub fn call<K>(
        &self,
        args: &[&Tensor],
        f: impl FnOnce(&[Tensor]) -> Result<(Vec<Tensor>, X)>,
        keep: impl FnOnce(&X) -> K,
    ) -> Result<(Vec<Tensor>, K)> {
        let (results, trace) = self.run(args, Site::here(), &mut once(f))?;
        Ok((results, keep(&trace.extra)))
    }

    /// A call behind a pointer: it is compiled once for all functions of a program.
    fn run(&self, args: &[&Tensor], site: Site, f: Body<'_, X>) -> Result<(Vec<Tensor>, Arc<Trace<X>>)> {
        let mut feeds: Vec<Buffer> = Vec::with_capacity(args.len());
        for a in args {
            a.eval()?;
            feeds.push(a.value()?.buffer().ok_or_else(|| ir::Error::bug("evaluated, but without a value"))?);
        }
        let trace = self.find(&args, site, f)?;
        let keys = trace.bound.keys();
        let results = trace.bound.run(&feeds, keys)?;
        let needs_grad = trace.is_trained || args.iter().any(|a| a.value().is_ok_and(|v| v.node().needs_grad()));
        let is_recorded = needs_grad && trace.scopes.has_grad && trace.bound.is_function() && !results.is_empty();
        let results = if is_recorded {
            let feeds = args.iter().map(|a| a.value().cloned()).collect::<Result<Vec<_>>>()?;
            recorded(trace.bound.graph(), trace.bound.sources(&feeds, keys, site), results, site)?
        } else {
            let computed = |(b, t): (Buffer, &Type)| Value::computed(t.clone(), b, false, site);
            results.into_iter().zip(&trace.results).map(computed).collect()
        };
        Ok((results.into_iter().map(Tensor::from).collect(), trace))
    }

    /// What was compiled for such a call, for people.
    #[track_caller]
    pub fn explain(&self, args: &[&Tensor], f: impl FnOnce(&[Tensor]) -> Result<(Vec<Tensor>, X)>) -> Result<String> {
        Ok(self.find(&args, Site::here(), &mut once(f))?.bound.explain())
    }

    /// The graph that was traced for such a call, before any pass.
    #[track_caller]
    pub fn graph(&self, args: &[&Tensor], f: impl FnOnce(&[Tensor]) -> Result<(Vec<Tensor>, X)>) -> Result<Graph> {
        Ok(self.find(&args, Site::here(), &mut once(f))?.bound.named_graph())
    }

    /// Calls `f` on values of these types, or replays what it did. For tensors that are another library's, which have
    /// no node of their own: no gradient flows through the results.
    #[track_caller]
    pub fn call_values<K>(
        &self,
        types: &[Type],
        feeds: &[Buffer],
        f: impl FnOnce(&[Tensor]) -> Result<(Vec<Tensor>, X)>,
        keep: impl FnOnce(&X) -> K,
    ) -> Result<(Vec<(Type, Buffer)>, K)> {
        ir::no_grad(|| {
            let trace = self.find(&types, Site::here(), &mut once(f))?;
            let results = trace.bound.run(feeds, trace.bound.keys())?;
            Ok((trace.results.iter().cloned().zip(results).collect(), keep(&trace.extra)))
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.lock().len()
    }

    /// What was compiled so far, for people.
    pub fn explained(&self) -> String {
        self.list.lock().iter().map(|t| t.bound.explain()).collect()
    }

    /// Shows what is kept beside each trace, unless one is being made.
    pub fn visit(&self, mut see: impl FnMut(&X)) {
        if let Some(list) = self.list.try_lock() {
            list.iter().for_each(|t| see(&t.extra));
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        let gone = std::mem::take(&mut *self.list.lock());
        drop(gone);
    }

    fn find(&self, args: &dyn Arguments, site: Site, f: Body<'_, X>) -> Result<Arc<Trace<X>>> {
        let scopes = Scopes::now()?;
        let mut list = self.list.lock();
        if let Some(i) = list.iter().rposition(|t| t.holds(args, scopes)) {
            list[i..].rotate_left(1);
            return Ok(list[list.len() - 1].clone());
        }
        let arguments = (0..args.count()).map(|i| args.ty(i).cloned()).collect::<Result<Vec<Type>>>()?;
        let trace = Arc::new(self.trace(arguments, scopes, site, f)?);
        if list.len() >= TRACES_MAX {
            list.remove(0);
        }
        list.push(trace.clone());
        Ok(trace)
    }

    fn trace(&self, arguments: Vec<Type>, scopes: Scopes, site: Site, f: Body<'_, X>) -> Result<Trace<X>> {
        // Pending assignments belong to the program before the trace.
        engine().evaluate(&[])?;
        let mut stand_ins = Vec::new();
        let mut extra = None;
        let (traced, settings) = ir::record_settings(|| {
            trace(|| {
                stand_ins = arguments.iter().map(|t| Value::placeholder("argument", t.clone(), site)).collect();
                let args: Vec<Tensor> = stand_ins.iter().cloned().map(Tensor::from).collect();
                let (results, x) = f(&args)?;
                extra = Some(x);
                results.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()
            })
        });
        let traced = traced?;
        let mode = Collect::Trace { since: traced.since };
        // A function of its arguments may be differentiated later, from its graph.
        let is_function = scopes.has_grad && traced.assigned.is_empty();
        let mut fetches = if is_function { ops::stopped(&traced.result, traced.since)? } else { traced.result.clone() };
        fetches.extend(unasked(&traced, &stand_ins, mode)?);
        let bound = Bound::new(&fetches, &traced.assigned, &stand_ins, mode, self.weights)?;
        for var in bound.variables() {
            if var.grad().is_some_and(|g| g.node().id() >= traced.since) {
                var.set_grad(None);
            }
        }
        let results = traced.result.iter().map(|v| v.ty().clone()).collect();
        let extra = extra.ok_or_else(|| ir::Error::bug("traced, but nothing was kept"))?;
        let is_trained = self.weights == Weights::Live && bound.is_trained();
        Ok(Trace { arguments, scopes, settings, bound, results, is_trained, extra })
    }
}

/// A function that is traced and then replayed: [`jit`].
pub struct Jit<F> {
    f: F,
    traces: Traces,
}

/// Makes a function of tensors that is traced once for each key and then replayed. Variables it
/// reads are read at each call, those it assigns are assigned, and random draws are drawn again.
/// Gradients collected inside do not outlive the call. A gradient taken of the results runs the
/// function once more, unless it assigns variables: then none flows.
///
/// A trace is keyed on
/// - the types of the arguments;
/// - the scopes around the call: [`autocast`](ops::autocast), [`no_grad`](ops::no_grad),
///   [`device`](ops::device);
/// - the settings that the function read: modes of modules (training or inference), whether a
///   variable is trained, the gradient that a variable has collected before the call;
/// - of the device, the passes added to its engine, `check_numerics` and the precision of products.
///
/// So a call after `model.train(false)` is traced again, and both traces are kept. Everything else is
/// frozen as it was when traced, as in JAX: host control flow, captured tensors that are no
/// variables, fields of structs.
///
/// ```
/// # use talweg_tensor::{Tensor, Variable, jit};
/// let w = Variable::new("w", Tensor::from([1.0f32])).unwrap();
/// let step = jit(|a: &[Tensor]| {
///     let loss = (&w.tensor() * &a[0]).sum(..);
///     loss.backward()?;
///     w.assign(&(w.tensor() - w.grad().unwrap() * 0.5))?;
///     Ok(vec![loss])
/// });
/// let x = Tensor::from([2.0f32]);
/// assert_eq!(step.call(&[&x]).unwrap()[0].item::<f32>().unwrap(), 2.0);
/// assert_eq!(step.call(&[&x]).unwrap()[0].item::<f32>().unwrap(), 0.0);
/// ```
pub fn jit<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>>(f: F) -> Jit<F> {
    Jit { f, traces: Traces::default() }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Jit<F> {
    fn plain(&self, args: &[Tensor]) -> Result<(Vec<Tensor>, ())> {
        Ok(((self.f)(args)?, ()))
    }

    /// Calls it.
    #[track_caller]
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(self.traces.call(args, |a| self.plain(a), |()| ())?.0)
    }

    /// Calls it and says where the time went, by region and by line of the function. The first
    /// call also compiles, which is not counted.
    ///
    /// ```
    /// # use cpu as _;
    /// # use talweg_tensor::{Tensor, jit};
    /// let f = jit(|a: &[Tensor]| Ok(vec![a[0].matmul(&a[0]).exp()]));
    /// let (_, profile) = f.profile(&[&Tensor::ones([64, 64])]).unwrap();
    /// println!("{profile}");
    /// assert!(profile.regions.iter().any(|s| s.region.name == "matmul"));
    /// ```
    #[track_caller]
    pub fn profile(&self, args: &[&Tensor]) -> Result<(Vec<Tensor>, Profile)> {
        for a in args {
            a.eval()?;
        }
        self.traces.find(&args, Site::here(), &mut |a| self.plain(a))?;
        let (results, profile) = runtime::profile(|| self.call(args));
        Ok((results?, profile))
    }

    /// For inference: variables and captured values are compiled in as they are when a combination
    /// of argument types is first called, so that the device may bring weights into the form its
    /// kernels want, once. Variables that the function assigns stay variables.
    ///
    /// ```
    /// # use cpu as _;
    /// # use talweg_tensor::{Tensor, Variable, jit};
    /// let w = Variable::new("w", Tensor::from([2.0f32])).unwrap();
    /// let f = jit(|a: &[Tensor]| Ok(vec![&w.tensor() * &a[0]])).frozen();
    /// let x = Tensor::from([3.0f32]);
    /// assert_eq!(f.call(&[&x]).unwrap()[0].item::<f32>().unwrap(), 6.0);
    /// w.assign(&Tensor::from([5.0f32])).unwrap();
    /// assert_eq!(f.call(&[&x]).unwrap()[0].item::<f32>().unwrap(), 6.0);
    /// ```
    pub fn frozen(self) -> Jit<F> {
        Jit { traces: Traces::frozen(), ..self }
    }

    /// On several devices: where the ops of such a call are computed, and what is sent; `None` on one device.
    #[track_caller]
    pub fn placed(&self, args: &[&Tensor]) -> Result<Option<Arc<Placed>>> {
        Ok(self.traces.find(&args, Site::here(), &mut |a| self.plain(a))?.bound.placed())
    }

    /// On a mesh: the exchanges between ranks of such a call.
    #[track_caller]
    pub fn exchanges(&self, args: &[&Tensor]) -> Result<Vec<Inserted>> {
        Ok(self.traces.find(&args, Site::here(), &mut |a| self.plain(a))?.bound.exchanges())
    }

    /// On a mesh with a pipeline: the most microbatches of which this rank held values at once, in such calls so far.
    #[track_caller]
    pub fn microbatches_held(&self, args: &[&Tensor]) -> Result<usize> {
        Ok(self.traces.find(&args, Site::here(), &mut |a| self.plain(a))?.bound.microbatches_held())
    }

    /// What was compiled for such a call, for people.
    #[track_caller]
    pub fn explain(&self, args: &[&Tensor]) -> Result<String> {
        self.traces.explain(args, |a| self.plain(a))
    }

    /// The graph that was traced for such a call, before any pass: its outputs are the results,
    /// then the new values of the variables it assigns.
    #[track_caller]
    pub fn graph(&self, args: &[&Tensor]) -> Result<Graph> {
        self.traces.graph(args, |a| self.plain(a))
    }

    /// How many traces there are.
    pub fn traces(&self) -> usize {
        self.traces.count()
    }
}

/// Effects of a traced function that its results do not need. What happens in the body of a loop
/// belongs to the loop: it cannot be computed from the arguments.
fn unasked(traced: &Traced<Vec<Value>>, arguments: &[Value], mode: Collect) -> Result<Vec<Value>> {
    if traced.effects.is_empty() {
        return Ok(Vec::new());
    }
    let asked: Vec<Value> = traced.result.iter().chain(traced.assigned.iter().map(|(_, v)| v)).cloned().collect();
    let needed = collect(&asked, mode)?.nodes;
    let is_known = |leaf: &Value| {
        !matches!(leaf.node().source(), Source::Placeholder(_)) || arguments.iter().any(|a| a.is_same(leaf))
    };
    let is_missed = |e: &&Value| {
        !needed.iter().flatten().any(|n| Arc::ptr_eq(n, e.node()))
            && collect(std::slice::from_ref(*e), mode).is_ok_and(|c| c.leaves.iter().all(is_known))
    };
    Ok(traced.effects.iter().filter(is_missed).cloned().collect())
}
