//! The mean of gradients and the step in the parameter store, as the ops of
//! [`tensor::collective::workers`] run them.

use crate::job::{Inner, Mode};
use crate::status::{Counters, failed, lock};
use dist::{Overlap, Reducer};
use ir::{Bytes, Call, Peers};
use std::sync::{Arc, Mutex};
use tensor::collective::workers::shapes;
use tensor::{DType, Error, Literal, Result, Shape};

impl Peers for Inner {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.world
    }
    fn run(&self, op: &'static str, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        match op {
            "mean_over_workers" => self.run_mean(args),
            "begin_mean_over_workers" => self.run_begin(c, args),
            "end_mean_over_workers" => self.run_end(c, args),
            "step_in_store" => self.run_step(c, args),
            _ => Err(Error::bug(format!("{op} is no op of a job"))),
        }
    }
}

/// What reduces gradients, apart from the job: the overlapping thread holds it.
struct Reducing {
    reducer: Arc<Mutex<Reducer>>,
    counters: Arc<Counters>,
    world: usize,
}
impl Reducing {
    /// The mean over all workers, counted as a step of this one.
    fn reduce(&self, bucket: usize, weight: f32, data: &mut [f32]) -> dist::Result<()> {
        let mut reducer = self.counters.exchange(&self.reducer);
        reducer.mean_of(bucket, weight, data)?;
        self.counters.stepped(reducer.done(), self.world.saturating_sub(reducer.workers()));
        Ok(())
    }
}

impl Inner {
    fn reducing(&self) -> Result<(Reducing, &Mutex<Option<Overlap>>)> {
        let Mode::Reduce(reducer, overlap) = &self.mode else {
            return Err(Error::bug("there are no workers to reduce with"));
        };
        let (reducer, counters) = (reducer.clone(), self.counters.clone());
        Ok((Reducing { reducer, counters, world: self.world }, overlap))
    }
    /// Hands the reducing thread to `f`; it is started when there is first something to reduce.
    fn with_overlap<T>(&self, f: impl FnOnce(&mut Overlap) -> dist::Result<T>) -> Result<T> {
        let (reducing, overlap) = self.reducing()?;
        let mut overlap = lock(overlap);
        if overlap.is_none() {
            let reduce = move |number: usize, bucket: &mut [f32]| match bucket.split_last_mut() {
                Some((weight, bucket)) => reducing.reduce(number, *weight, bucket),
                None => Err(dist::Error::value("a bucket begins without a weight")),
            };
            *overlap = Some(Overlap::new(reduce).map_err(failed)?);
        }
        overlap.as_mut().map_or_else(|| Err(Error::bug("started above")), |o| f(o).map_err(failed))
    }
    fn run_begin(&self, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        let (bucket, of) = (number(c, "bucket")?, number(c, "of")?);
        // What the gradients count goes last.
        let parts = args[2..].iter().chain([&args[1]]);
        self.with_overlap(|o| o.begin(bucket, of, parts.map(|g| g.stored::<f32>())))?;
        Ok(vec![Literal::scalar(0.0f32)])
    }
    fn run_end(&self, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        let shapes = shapes(c)?;
        let cut = |values: &[f32]| {
            let mut at = 0;
            let cut = |s: &Shape| {
                at += s.count();
                literal(s, &values[at - s.count()..at])
            };
            shapes.iter().map(cut).collect()
        };
        self.with_overlap(|o| {
            o.end(number(c, "bucket").map_err(|e| dist::Error::value(e.to_string()))?, args.len(), cut)
        })
    }
    fn run_mean(&self, args: &[Literal]) -> Result<Vec<Literal>> {
        let (weight, grads) = (scalar(&args[1]), &args[2..]);
        let mut all = Vec::with_capacity(grads.iter().map(Literal::count).sum());
        grads.iter().for_each(|g| all.extend_from_slice(g.stored::<f32>()));
        self.reducing()?.0.reduce(0, weight, &mut all).map_err(failed)?;
        let mut at = 0;
        let cut = |g: &Literal| {
            at += g.count();
            literal(g.shape(), &all[at - g.count()..at])
        };
        Ok(grads.iter().map(cut).collect())
    }
    fn run_step(&self, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        let mut shared = self.counters.exchange(self.store()?);
        let mut tables = Vec::new();
        for id in c.attrs.ints("tables")? {
            let table = usize::try_from(*id).ok().and_then(|i| shared.tables.get(i).copied());
            tables.push(table.ok_or_else(|| Error::bug(format!("there is no table {id} in the store")))?);
        }
        let (weight, (grads, rest)) = (scalar(&args[1]), args[2..].split_at(tables.len()));
        let (rates, numbers) = rest.split_at(tables.len());
        let mut numbers = numbers.iter().map(|n| Arc::new(n.stored::<f32>().to_vec()));
        for (((table, grad), rate), has) in tables.iter().zip(grads).zip(rates).zip(c.attrs.ints("numbers")?) {
            let grad = dist::merge::weighted(grad.stored::<f32>(), weight);
            let numbers = if *has == 0 { None } else { numbers.next() };
            shared.store.push_with(table, &grad, scalar(rate), numbers.as_ref()).map_err(failed)?;
        }
        shared.clock(&self.counters).map_err(failed)?;
        let mut values: Vec<Literal> = grads.iter().map(|g| unwritten(g.shape())).collect();
        let mut into: Vec<&mut [f32]> = values.iter_mut().map(Literal::stored_mut::<f32>).collect();
        shared.store.pull_into(&tables, &mut into).map_err(failed)?;
        Ok(values)
    }
}

fn number(c: &Call, name: &str) -> Result<usize> {
    usize::try_from(c.attrs.int(name)?).map_err(|_| Error::bug("a bucket has no such number"))
}

fn scalar(x: &Literal) -> f32 {
    x.stored::<f32>().first().copied().unwrap_or(0.0)
}
/// Memory for so many elements, whatever is in it.
fn unwritten(shape: &Shape) -> Literal {
    Literal::from_buffer(DType::F32, shape.clone(), Arc::new(Bytes::any(4 * shape.count())))
}
fn literal(shape: &Shape, values: &[f32]) -> Literal {
    let mut out = unwritten(shape);
    out.stored_mut::<f32>().copy_from_slice(values);
    out
}
