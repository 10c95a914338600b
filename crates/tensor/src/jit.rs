//! `jit(f)`: trace once, replay without tracing or hashing.

use crate::bind::{Bound, Weights};
use crate::trace::{Traced, trace};
use ir::{Buffer, Collect, Graph, Result, Site, Source, Type, Value, collect};
use ops::{Tensor, engine};
use parking_lot::Mutex;
use runtime::Profile;
use std::sync::Arc;

/// Signatures kept at most; a function called with ever new shapes is traced anew each time
/// beyond it.
const SIGNATURES_MAX: usize = 64;

/// A function traced once for each combination of argument types.
pub struct Jit<F> {
    f: F,
    weights: Weights,
    traces: Mutex<Vec<(Vec<Type>, Arc<(Bound, Vec<Type>)>)>>,
}

/// Makes a function of tensors that is traced once for each combination of argument types and
/// then replayed. Variables it reads are read at each call, those it assigns are assigned, and
/// random draws are drawn anew. Host control flow is fixed when traced. Gradients collected
/// inside do not outlive the call.
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
    Jit { f, weights: Weights::Live, traces: Mutex::default() }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Jit<F> {
    /// Calls it.
    #[track_caller]
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        let site = Site::here();
        let mut feeds: Vec<Buffer> = Vec::with_capacity(args.len());
        for a in args {
            a.eval()?;
            feeds.push(a.value()?.buffer().ok_or_else(|| ir::Error::bug("evaluated, but without a value"))?);
        }
        let bound = self.bound(args, site)?;
        let results = bound.0.run(&feeds)?;
        Ok(results.into_iter().zip(&bound.1).map(|(b, t)| Value::computed(t.clone(), b, false, site).into()).collect())
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
        let site = Site::here();
        for a in args {
            a.eval()?;
        }
        self.bound(args, site)?;
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
        Jit { weights: Weights::Frozen, traces: Mutex::default(), ..self }
    }

    /// What was compiled for these argument types, for people.
    #[track_caller]
    pub fn explain(&self, args: &[&Tensor]) -> Result<String> {
        Ok(self.bound(args, Site::here())?.0.explain())
    }

    /// The graph that was traced for these argument types, before any pass: its outputs are the
    /// results, then the new values of the variables it assigns.
    #[track_caller]
    pub fn graph(&self, args: &[&Tensor]) -> Result<Graph> {
        Ok(self.bound(args, Site::here())?.0.graph().clone())
    }

    fn bound(&self, args: &[&Tensor], site: Site) -> Result<Arc<(Bound, Vec<Type>)>> {
        let mut traces = self.traces.lock();
        for (types, bound) in traces.iter() {
            if types.len() == args.len() && types.iter().zip(args).all(|(t, a)| a.value().is_ok_and(|v| v.ty() == t)) {
                return Ok(bound.clone());
            }
        }
        let types = args.iter().map(|a| Ok(a.value()?.ty().clone())).collect::<Result<Vec<Type>>>()?;
        let bound = Arc::new(self.trace(&types, site)?);
        if traces.len() >= SIGNATURES_MAX {
            traces.remove(0);
        }
        traces.push((types, bound.clone()));
        Ok(bound)
    }

    fn trace(&self, types: &[Type], site: Site) -> Result<(Bound, Vec<Type>)> {
        // Pending assignments belong to the program before the trace.
        engine().evaluate(&[])?;
        let mut stand_ins = Vec::new();
        let traced = trace(|| {
            stand_ins = types.iter().map(|t| Value::placeholder("argument", t.clone(), site)).collect();
            let args: Vec<Tensor> = stand_ins.iter().cloned().map(Tensor::from).collect();
            (self.f)(&args)?.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()
        })?;
        let mode = Collect::Trace { since: traced.since };
        let mut fetches = traced.result.clone();
        fetches.extend(unasked(&traced, &stand_ins, mode)?);
        let bound = Bound::new(&fetches, &traced.assigned, &stand_ins, mode, self.weights)?;
        for var in bound.variables() {
            if var.grad().is_some_and(|g| g.node().id() >= traced.since) {
                var.set_grad(None);
            }
        }
        Ok((bound, traced.result.iter().map(|v| v.ty().clone()).collect()))
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
