//! Define, then run: placeholders, feeds and fetches.

use crate::bind::{Bound, Weights};
use crate::{Tensor, Update, Variable};
use ir::{Buffer, Collect, DType, Error, ErrorKind, Result, Shape, Site, Type, Value, Var};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A value to be fed when the graph is run.
#[track_caller]
pub fn placeholder(name: &str, shape: impl Into<Shape>, dtype: DType) -> Tensor {
    Value::placeholder(name, Type::new(dtype, shape), Site::here()).into()
}

/// What can be asked of a run: a tensor's value, or that assignments happen.
pub trait Fetch {
    /// Adds the values to return and the assignments to carry out.
    fn fetch(&self, values: &mut Vec<Value>, assigned: &mut Vec<(Arc<Var>, Value)>) -> Result<()>;
}
impl Fetch for Tensor {
    fn fetch(&self, values: &mut Vec<Value>, _: &mut Vec<(Arc<Var>, Value)>) -> Result<()> {
        values.push(self.value()?.clone());
        Ok(())
    }
}
impl Fetch for Variable {
    fn fetch(&self, values: &mut Vec<Value>, _: &mut Vec<(Arc<Var>, Value)>) -> Result<()> {
        values.push(self.tensor().value()?.clone());
        Ok(())
    }
}
impl Fetch for Update {
    fn fetch(&self, _: &mut Vec<Value>, assigned: &mut Vec<(Arc<Var>, Value)>) -> Result<()> {
        for (var, value) in self.assignments() {
            let value = value.value()?.clone();
            if value.ty() != var.var().ty() {
                let e = format!("variable {} is {}, but the new value is {}", var.name(), var.var().ty(), value.ty());
                return Err(Error::shape(e).in_op("assign").at(value.node().site()));
            }
            if assigned.iter().any(|(v, _)| Arc::ptr_eq(v, var.var())) {
                return Err(Error::value(format!("variable {} is assigned twice in one run", var.name())).in_op("run"));
            }
            assigned.push((var.var().clone(), value));
        }
        Ok(())
    }
}

/// Runs graphs with placeholders. Each combination of fetches and feeds is compiled once. A graph has
/// the modes of modules and the scopes (`autocast`, `device`, `no_grad`) in which it was made: changing
/// them later does not change it.
///
/// ```
/// # use talweg_tensor::{DType, Session, Tensor, Update, Variable, placeholder};
/// let x = placeholder("x", [2], DType::F32);
/// let total = Variable::buffer("total", Tensor::from(0.0f32)).unwrap();
/// let sum = x.sum(..) + &total;
/// let mut keep = Update::new();
/// keep.set(&total, sum.clone());
/// let session = Session::new();
/// let out = session.run(&[&sum, &keep], &[(&x, &Tensor::from([1.0f32, 2.0]))]).unwrap();
/// assert_eq!(out[0].item::<f32>().unwrap(), 3.0);
/// let out = session.run(&[&sum], &[(&x, &Tensor::from([1.0f32, 2.0]))]).unwrap();
/// assert_eq!(out[0].item::<f32>().unwrap(), 6.0);
/// ```
#[derive(Default)]
pub struct Session {
    plans: Mutex<FxHashMap<Vec<u64>, Arc<Entry>>>,
}
struct Entry {
    bound: Bound,
    /// Keeps the nodes alive whose ids are the key.
    fetches: Vec<Value>,
    _assigned: Vec<(Arc<Var>, Value)>,
    _feeds: Vec<Value>,
}

/// Combinations kept at most.
const PLANS_MAX: usize = 256;

impl Session {
    /// A session.
    pub fn new() -> Session {
        Session::default()
    }

    /// Computes the fetched tensors, in order, and carries out the fetched assignments. All reads
    /// of variables see the values from before the run.
    #[track_caller]
    pub fn run(&self, fetches: &[&dyn Fetch], feeds: &[(&Tensor, &Tensor)]) -> Result<Vec<Tensor>> {
        let site = Site::here();
        let (mut values, mut assigned) = (Vec::new(), Vec::new());
        for f in fetches {
            f.fetch(&mut values, &mut assigned)?;
        }
        let mut keys = Vec::with_capacity(feeds.len());
        let mut buffers: Vec<Buffer> = Vec::with_capacity(feeds.len());
        for (to, what) in feeds {
            let (to, what) = (to.value()?, what.eval()?.value()?);
            if to.ty() != what.ty() {
                let e = format!("{to:?} was fed {}", what.ty());
                return Err(Error::new(ErrorKind::Feed, e).in_op("run").at(site));
            }
            keys.push(to.clone());
            buffers.push(what.buffer().ok_or_else(|| Error::bug("evaluated, but without a value"))?);
        }
        let entry = self.entry(values, assigned, keys).map_err(|e| e.in_op("run").at(site))?;
        let results = entry.bound.run(&buffers, entry.bound.keys())?;
        Ok(results
            .into_iter()
            .zip(&entry.fetches)
            .map(|(b, v)| Value::computed(v.ty().clone(), b, false, site).into())
            .collect())
    }

    fn entry(&self, fetches: Vec<Value>, assigned: Vec<(Arc<Var>, Value)>, feeds: Vec<Value>) -> Result<Arc<Entry>> {
        let mut key = Vec::new();
        for list in [&fetches, &feeds] {
            key.push(list.len() as u64);
            list.iter().for_each(|v| key.extend([v.node().id(), v.out() as u64]));
        }
        assigned.iter().for_each(|(var, v)| key.extend([var.id(), v.node().id(), v.out() as u64]));
        let mut plans = self.plans.lock();
        if let Some(e) = plans.get(&key) {
            return Ok(e.clone());
        }
        let bound = Bound::new(&fetches, &assigned, &feeds, Collect::Later, Weights::Live)?;
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        let entry = Arc::new(Entry { bound, fetches, _assigned: assigned, _feeds: feeds });
        plans.insert(key, entry.clone());
        Ok(entry)
    }
}
