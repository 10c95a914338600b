//! Optimizers: a rule is ordinary tensor code for one parameter; everything else is the same for
//! all of them.

mod clip;
mod lbfgs;
mod loss_scale;
mod rules;
pub(crate) mod settings;
mod wolfe;

pub use clip::{average_gradients, clip_grad_norm, clip_grad_value, mean_gradients};
pub use lbfgs::{Lbfgs, LbfgsOptions};
pub use loss_scale::LossScale;
pub use rules::{Adadelta, Adafactor, Adagrad, Adam, AdamW, Lion, NAdam, ROWS, RmsProp, Sgd};
pub use settings::{Described, Hyperparameter, Row, Settable, Settings, Value};

use crate::train::Stored;
use crate::{Parameters, join, parallel};
use ir::Setting;
use parallel::Home;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensor::{DType, Error, ErrorKind, Result, Shape, Site, Tensor, Update, Variable, grad, no_grad};

/// What a rule sees of one parameter at one step.
pub struct Step<'a> {
    /// The parameter's value.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// Its state, in the order of [`Rule::slots`].
    pub slots: &'a [Tensor],
    /// Learning rate, a scalar.
    pub lr: &'a Tensor,
    /// Number of this step, from 1, a scalar.
    pub t: &'a Tensor,
    /// Weight decay of the parameter's group.
    pub weight_decay: f64,
}

/// How one parameter moves. Implement it for a custom optimizer.
pub trait Rule: Send + Sync {
    /// Learning rate to start with.
    fn lr(&self) -> f64;
    /// Weight decay to start with.
    fn weight_decay(&self) -> f64 {
        0.0
    }
    /// Names and first values of the state kept for a parameter of this shape.
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)>;
    /// The parameter's next value and the next state.
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>);
}

impl Rule for Box<dyn Rule> {
    fn lr(&self) -> f64 {
        (**self).lr()
    }
    fn weight_decay(&self) -> f64 {
        (**self).weight_decay()
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        (**self).slots(shape)
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        (**self).step(s)
    }
}

/// Parameters that share settings.
struct Group {
    params: Vec<Variable>,
    slots: Vec<Vec<(&'static str, Variable)>>,
    /// The table of each parameter in the parameter store, if there is one.
    tables: Vec<Option<u32>>,
    tuning: Mutex<Tuning>,
    /// The f32 master copies of 16-bit parameters, in which small steps would vanish.
    masters: Vec<Option<Variable>>,
    lr: Variable,
    /// Its learning rate relative to the rule's.
    scale: f64,
}
impl Group {
    fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.tuning.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Rule and decay of the next step, and for each parameter its table with the inputs of the rule there.
    fn now(&self) -> (Arc<dyn Rule>, f64, Vec<Option<(u32, Option<Tensor>)>>) {
        let tuning = self.tuning();
        let mut out: Vec<Option<(u32, Option<Tensor>)>> = Vec::with_capacity(tuning.homes.len());
        let mut last: Option<(&Home, Option<Tensor>)> = None;
        for home in &tuning.homes {
            let Some(home) = home else {
                out.push(None);
                continue;
            };
            let numbers = match last.take() {
                Some((before, numbers)) if before.is_told_as(home) => numbers,
                _ => home.numbers(),
            };
            out.push(Some((home.table, numbers.clone())));
            last = Some((home, numbers));
        }
        (tuning.rule.clone(), tuning.weight_decay, out)
    }
}

/// How the parameters of a group move, which may change from step to step.
struct Tuning {
    rule: Arc<dyn Rule>,
    weight_decay: f64,
    /// Where each parameter is in the parameter store, if there is one.
    homes: Vec<Option<Home>>,
}

/// A rule applied to parameters.
///
/// ```
/// # use talweg_nn::optim::{Optimizer, Sgd};
/// # use tensor::{Tensor, Variable};
/// let w = Variable::new("w", Tensor::from([3.0f32])).unwrap();
/// let optimizer = Optimizer::new(Sgd { lr: 0.1, ..Sgd::default() }, [w.clone()].as_slice()).unwrap();
/// for _ in 0..50 {
///     (&w.tensor() * &w.tensor()).sum(..).backward().unwrap();
///     optimizer.step().unwrap();
/// }
/// assert!(w.tensor().item::<f32>().unwrap().abs() < 1e-3);
/// ```
pub struct Optimizer {
    rule: Arc<dyn Rule>,
    groups: Vec<Group>,
    t: Variable,
    /// How often a group was tuned: a trace has the numbers that its rule had then.
    tuned: Setting,
}

impl Optimizer {
    /// A rule for the parameters of a module, or for a list of variables.
    pub fn new(rule: impl Rule + 'static, params: &(impl Parameters + ?Sized)) -> Result<Optimizer> {
        let t = Variable::buffer("step", Tensor::from(0.0f32))?;
        let (lr, decay) = (rule.lr(), rule.weight_decay());
        let mut o = Optimizer { rule: Arc::new(rule), groups: Vec::new(), t, tuned: Setting::new(0) };
        o.add_group(params, lr, decay)?;
        Ok(o)
    }
    /// Adds parameters with their own learning rate and weight decay. When the learning rate
    /// is set later, as schedules do, the group keeps its ratio to the first one.
    pub fn add_group(&mut self, params: &(impl Parameters + ?Sized), lr: f64, weight_decay: f64) -> Result<()> {
        self.add_group_with(self.rule.clone(), params, lr, weight_decay)
    }
    /// As [`Optimizer::add_group`], with its own rule.
    pub fn add_group_with(
        &mut self,
        rule: Arc<dyn Rule>,
        params: &(impl Parameters + ?Sized),
        lr: f64,
        weight_decay: f64,
    ) -> Result<()> {
        let params = params.variables();
        for p in &params {
            if self.groups.iter().flat_map(|g| &g.params).any(|q| q.is_same(p)) {
                return Err(Error::value(format!("parameter {} is in two groups", p.name())).in_op("optimizer"));
            }
        }
        let slots = params
            .iter()
            .map(|p| {
                let slots = rule.slots(&state_shape(p));
                slots.into_iter().map(|(n, v)| Ok((n, Variable::buffer(n, v.cast(state_dtype(p)))?))).collect()
            })
            .collect::<Result<_>>()?;
        let homes = parallel::share(&params, &*rule, weight_decay)?;
        let tables = homes.iter().map(|h| h.as_ref().map(|h| h.table)).collect();
        let master = |p: &Variable| {
            let is_half = matches!(p.dtype(), DType::BF16 | DType::F16);
            is_half.then(|| Variable::buffer("master", p.tensor().cast(DType::F32))).transpose()
        };
        let masters = params.iter().map(master).collect::<Result<_>>()?;
        let base = self.rule.lr();
        let scale = if base == 0.0 { 1.0 } else { lr / base };
        let lr = Variable::buffer("lr", Tensor::from(lr as f32))?;
        let tuning = Mutex::new(Tuning { rule, weight_decay, homes });
        self.groups.push(Group { params, slots, tables, tuning, masters, lr, scale });
        Ok(())
    }
    /// The rule with which it was made.
    pub fn rule(&self) -> Arc<dyn Rule> {
        self.rule.clone()
    }
    /// Gives a group another rule and weight decay from the next step on, as one with other settings; learning rate,
    /// step count and state stay. False, and nothing changes, if the rule keeps another state. Servers of a parameter
    /// store take other numbers for a rule, but no other computation: that is an error.
    pub fn tune(&self, group: usize, rule: Arc<dyn Rule>, weight_decay: f64) -> Result<bool> {
        let g = self.groups.get(group).ok_or_else(|| Error::value(format!("there is no group {group}")))?;
        for (p, slots) in g.params.iter().zip(&g.slots) {
            let next = rule.slots(&state_shape(p));
            let is_same = |((name, v), (other, value)): (&(&str, Variable), &(&str, Tensor))| {
                name == other && value.shape().is_ok_and(|s| s == v.shape())
            };
            if next.len() != slots.len() || !slots.iter().zip(&next).all(is_same) {
                return Ok(false);
            }
        }
        let mut tuning = g.tuning();
        let constants = |(p, h): (&Variable, &Option<Home>)| match h {
            Some(h) => h.constants(&*rule, &p.shape(), weight_decay),
            None => Ok(None),
        };
        let all = g.params.iter().zip(&tuning.homes).map(constants).collect::<Result<Vec<_>>>()?;
        tuning.homes.iter_mut().flatten().zip(all).for_each(|(h, c)| h.tune(c));
        (tuning.rule, tuning.weight_decay) = (rule, weight_decay);
        self.tuned.set(self.tuned.get() + 1);
        Ok(true)
    }
    /// Learning rate of the first group.
    pub fn lr(&self) -> Result<f64> {
        self.groups[0].lr.tensor().item()
    }
    /// Sets the learning rate of the first group; the others keep their ratio to it.
    pub fn set_lr(&self, lr: f64) -> Result<()> {
        self.groups.iter().try_for_each(|g| g.lr.assign(&Tensor::from((lr * g.scale) as f32)))
    }
    /// The settings of its steps, by name, for comparing workers: learning rates, weight decay, the parameters'
    /// shapes, and a hash of the update rule.
    pub fn settings(&self) -> Result<Vec<(&'static str, String)>> {
        let of = |f: &dyn Fn(&Group) -> Result<String>| -> Result<String> {
            Ok(self.groups.iter().map(f).collect::<Result<Vec<_>>>()?.join(", "))
        };
        let shapes = |g: &Group| g.params.iter().map(|p| format!("{:?}", p.shape().dims())).collect::<String>();
        let rule = |g: &Group| {
            // Rules that read variables, or take matrices alone, have no text of this shape.
            let tuning = g.tuning();
            let text = parallel::RuleText::of(&*tuning.rule, &Shape::from([2]), tuning.weight_decay);
            Ok(text.map_or("without a text".to_string(), |t| format!("{:016x}", hash(&t.encode()))))
        };
        Ok(vec![
            ("learning rate", of(&|g| Ok(format!("{:?}", g.lr.tensor().item::<f32>()?)))?),
            ("weight decay", of(&|g| Ok(g.tuning().weight_decay.to_string()))?),
            ("parameters", of(&|g| Ok(format!("{:016x}", hash(shapes(g).as_bytes()))))?),
            ("update rule", of(&rule)?),
        ])
    }
    /// The parameters.
    pub fn parameters(&self) -> Vec<Variable> {
        self.groups.iter().flat_map(|g| g.params.clone()).collect()
    }
    /// Everything a checkpoint needs: step count, learning rates and the state of each parameter
    /// (named by the parameter's name).
    pub fn state(&self) -> Vec<(String, Variable)> {
        self.state_by(|_, p| p.name().to_string())
    }
    /// The same with parameters named by a function of their index and themselves: for those whose
    /// own names need not differ.
    pub fn state_by(&self, name: impl Fn(usize, &Variable) -> String) -> Vec<(String, Variable)> {
        let mut out = vec![("step".to_string(), self.t.clone())];
        let mut place = 0;
        for (i, g) in self.groups.iter().enumerate() {
            out.push((format!("group.{i}.lr"), g.lr.clone()));
            for ((p, slots), master) in g.params.iter().zip(&g.slots).zip(&g.masters) {
                let name = name(place, p);
                out.extend(slots.iter().map(|(n, v)| (join(&name, n), v.clone())));
                out.extend(master.iter().map(|v| (join(&name, "master"), v.clone())));
                place += 1;
            }
        }
        out
    }

    /// If parameters live in the parameter store: brings them and their state here, for a
    /// checkpoint.
    #[doc(hidden)]
    pub fn fetch(&self) -> Result<()> {
        for g in &self.groups {
            for ((p, slots), table) in g.params.iter().zip(&g.slots).zip(&g.tables) {
                let Some(table) = *table else { continue };
                let (arrays, version) = parallel::dump(table)?;
                let all = std::iter::once(p).chain(slots.iter().map(|(_, v)| v));
                // State may be smaller than the parameter; what follows it means nothing.
                let cut =
                    |v: &Variable, values: &[f32]| v.assign(&Tensor::new(v.shape(), &values[..v.shape().count()]));
                all.zip(&arrays).try_for_each(|(v, values)| cut(v, values))?;
                self.t.assign(&Tensor::from(version as f32))?;
            }
        }
        Ok(())
    }
    /// If parameters live in the parameter store: where each of them and of its state is there, as
    /// a function of the variable.
    pub(crate) fn stored(&self) -> impl Fn(&Variable) -> Option<Stored> + use<> {
        let mut places: Vec<(Variable, u32, Option<usize>)> = Vec::new();
        for g in &self.groups {
            for ((p, slots), table) in g.params.iter().zip(&g.slots).zip(&g.tables) {
                let Some(table) = *table else { continue };
                let all = std::iter::once(p).chain(slots.iter().map(|(_, v)| v));
                places.extend(all.enumerate().map(|(i, v)| (v.clone(), table, Some(i))));
            }
        }
        places.extend(places.last().map(|(_, table, _)| (self.t.clone(), *table, None)));
        move |v| {
            let (_, table, array) = places.iter().find(|(p, ..)| p.is_same(v))?;
            Some(Stored { table: *table, array: *array, shape: v.shape() })
        }
    }
    /// Of a run's state, what a worker keeps of its own beside the parameter store: learning rates, and
    /// buffers such as running statistics. Parameters of no optimizer do not change.
    #[doc(hidden)]
    pub fn beside_store(&self, state: &[(String, Variable)]) -> Vec<(String, Variable)> {
        let stored = self.stored();
        let is_own = |v: &Variable| !v.var().is_parameter() && stored(v).is_none();
        state.iter().filter(|(_, v)| is_own(v)).cloned().collect()
    }
    /// If parameters live in the parameter store: writes the restored values there, unless the
    /// run has begun already.
    #[doc(hidden)]
    pub fn give(&self) -> Result<()> {
        for g in &self.groups {
            for ((p, slots), table) in g.params.iter().zip(&g.slots).zip(&g.tables) {
                let Some(table) = *table else { continue };
                let all = std::iter::once(p).chain(slots.iter().map(|(_, v)| v));
                let arrays = all.map(|v| v.tensor().to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
                parallel::restore(table, arrays, self.t.tensor().item::<f32>()? as u64)?;
            }
        }
        Ok(())
    }
    /// If parameters live in the parameter store: their values there become those here.
    #[doc(hidden)]
    pub fn take(&self) -> Result<()> {
        for (p, table) in self.groups.iter().flat_map(|g| g.params.iter().zip(&g.tables)) {
            let Some(table) = *table else { continue };
            p.assign(&Tensor::new(p.shape(), &parallel::values(table)?))?;
        }
        Ok(())
    }

    /// The assignments of one step, given a gradient for each parameter (`None`: it stays).
    #[track_caller]
    pub fn update(&self, grads: &[Option<Tensor>]) -> Result<Update> {
        // Profiles and errors name the line that asked for the step, not the rule's.
        let site = Site::here();
        site.scope(|| self.update_here(grads))
    }
    fn update_here(&self, grads: &[Option<Tensor>]) -> Result<Update> {
        no_grad(|| {
            let mut update = Update::new();
            self.tuned.get();
            let t = self.t.tensor() + 1.0;
            let shared = parallel::mean(&t, grads)?;
            let mut grads = shared.as_deref().unwrap_or(grads).iter();
            let (mut stored, mut pushes) = (Vec::new(), Vec::new());
            for g in &self.groups {
                let lr = g.lr.tensor();
                let (rule, weight_decay, told) = g.now();
                for (((p, slots), home), master) in g.params.iter().zip(&g.slots).zip(told).zip(&g.masters) {
                    let Some(Some(grad)) = grads.next() else { continue };
                    if let Some((table, numbers)) = home {
                        stored.push(p);
                        pushes.push(parallel::Push { table, grad: grad.clone(), lr: lr.clone(), numbers });
                        continue;
                    }
                    let values: Vec<Tensor> = slots.iter().map(|(_, v)| v.tensor()).collect();
                    let (param, grad) = match master {
                        Some(m) => (unrounded(p, m), grad.cast(DType::F32)),
                        None if p.dtype().is_complex() => (p.tensor().view_as_real(), grad.view_as_real()),
                        None => (p.tensor(), grad.clone()),
                    };
                    let s = Step { param: &param, grad: &grad, slots: &values, lr: &lr, t: &t, weight_decay };
                    let (next, state) = rule.step(&s);
                    let next = if p.dtype().is_complex() { next.view_as_complex() } else { next };
                    update.set(p, next.cast(p.dtype()));
                    master.iter().for_each(|m| update.set(m, next.cast(DType::F32)));
                    slots.iter().zip(state).for_each(|((_, v), x)| update.set(v, x.cast(v.dtype())));
                }
            }
            if !pushes.is_empty() {
                let next = parallel::step_in_store(&t, &pushes)?;
                stored.into_iter().zip(next).for_each(|(p, x)| update.set(p, x));
            }
            update.set(&self.t, t);
            Ok(update)
        })
    }
    /// One step with the gradients that `backward` has collected, which are then forgotten.
    #[track_caller]
    pub fn step(&self) -> Result<()> {
        let params = self.parameters();
        let grads: Vec<Option<Tensor>> = params.iter().map(Variable::grad).collect();
        if grads.iter().all(Option::is_none) {
            let e = "no parameter has a gradient: call backward() first";
            return Err(Error::new(ErrorKind::Gradient, e).in_op("step").at(Site::here()));
        }
        self.update(&grads)?.apply()?;
        params.iter().for_each(Variable::zero_grad);
        Ok(())
    }
    /// The assignments that make a loss smaller: fetch them in a `Session`, or `apply` them.
    #[track_caller]
    pub fn minimize(&self, loss: &Tensor) -> Result<Update> {
        let reads: Vec<Tensor> = self.parameters().iter().map(Variable::tensor).collect();
        let site = Site::here();
        let grads = no_grad(|| site.scope(|| grad(loss, &reads)))?;
        self.update(&grads.into_iter().map(Some).collect::<Vec<_>>())
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The f32 master copy of a 16-bit parameter; the parameter itself if it was assigned since.
fn unrounded(p: &Variable, master: &Variable) -> Tensor {
    let (p, master) = (p.tensor(), master.tensor());
    Tensor::where_(&master.cast_like(&p).eq(&p), &master, p.cast(DType::F32))
}

/// State is kept at least in f32: small steps vanish in half precision.
fn state_dtype(p: &Variable) -> DType {
    if p.dtype().part() == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Rules are about real values: a complex parameter is two of them.
fn state_shape(p: &Variable) -> Shape {
    let mut shape = p.shape();
    if p.dtype().is_complex() {
        shape.push(2);
    }
    shape
}
