//! Tables of the parameter store that a program uses itself: `push`, `pull`, `clock`, `wait`.
//!
//! A process that is alone has them in its own memory, so that a program can be tried without
//! servers; it is then the only worker, and every step closes at its `clock`.

use crate::job::{BLOCK_BYTES, Job, Mode, current};
use crate::status::{failed, lock};
use crate::update::{Compiled, Pushed};
use dist::Update;
use dist::merge::add;
use nn::parallel::{RuleText, Takes};
use std::sync::{Arc, Mutex, Weak};
use tensor::{DType, Error, Result, Shape, Tensor};

/// Elements that an update of rows works on at a time.
const AT_ONCE: usize = 4096;

/// Values that all workers share: rows of `f32`, of which any can be read and changed.
///
/// Every worker makes the same tables in the same order. What is pushed counts when its step ends;
/// a read sees as much of the others' steps as the job's consistency demands. Whole tables that are
/// pushed in one step are summed over the workers where these do their steps together (`bsp`,
/// `backup:B`) and change the table once; rows change it one worker's after the other's.
///
/// ```
/// # use talweg_parallel::{self as parallel, Table};
/// # use tensor::Tensor;
/// # parallel::Job::alone().scope(|| {
/// let counts = Table::new(&Tensor::zeros([3, 2]))?;
/// counts.push_rows(&[2, 0], &Tensor::ones([2, 2]))?;
/// assert_eq!(counts.pull()?.sum(..).item::<f32>()?, 0.0, "the step has not ended");
/// parallel::clock()?;
/// assert_eq!(counts.pull_rows(&[1, 2])?.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), tensor::Error>(())
/// # })?;
/// # Ok::<(), tensor::Error>(())
/// ```
pub struct Table {
    shape: Shape,
    takes: Takes,
    place: Place,
    job: Job,
}

enum Place {
    Store(dist::Table),
    Alone(Arc<Mutex<Own>>),
}

impl Table {
    /// A table to which is added what is pushed. The first rank gives the first values.
    pub fn new(values: &Tensor) -> Result<Table> {
        Table::made(values, RuleText::add())
    }

    /// A table that changes as `update` says: a function of the values, of the sum of what was
    /// pushed and of its state, arrays like the values that begin with these numbers. It answers
    /// the new values and the new state. It is traced once and runs on the servers; one that
    /// [`Takes::Rows`] is given some rows at a time.
    ///
    /// ```
    /// # use talweg_parallel::{self as parallel, Table, Takes};
    /// # use tensor::Tensor;
    /// # parallel::Job::alone().scope(|| {
    /// let values = Tensor::ones([4]);
    /// let adagrad = Table::with_update(&values, Takes::Rows, &[0.0], |w, g, s| {
    ///     let squares = &s[0] + g.square();
    ///     Ok((w - g * 0.5 / squares.sqrt(), vec![squares]))
    /// })?;
    /// adagrad.push_rows(&[1], &Tensor::from([2.0f32]))?;
    /// parallel::clock()?;
    /// assert_eq!(adagrad.pull()?.to_vec::<f32>()?, [1.0, 0.5, 1.0, 1.0]);
    /// # Ok::<(), tensor::Error>(())
    /// # })?;
    /// # Ok::<(), tensor::Error>(())
    /// ```
    pub fn with_update(
        values: &Tensor,
        takes: Takes,
        state: &[f32],
        update: impl FnOnce(&Tensor, &Tensor, &[Tensor]) -> Result<(Tensor, Vec<Tensor>)>,
    ) -> Result<Table> {
        let mut shape = checked(values)?;
        if takes == Takes::Rows {
            let rows = (AT_ONCE / width(&shape)).clamp(1, shape[0]);
            shape.dims_mut()[0] = rows;
        }
        Table::made(values, RuleText::update(takes, &shape, state, update)?)
    }

    fn made(values: &Tensor, text: RuleText) -> Result<Table> {
        let (shape, takes) = (checked(values)?, text.takes);
        let (rows, width, values) = (shape[0], width(&shape), values.to_vec::<f32>()?);
        let job = current()?;
        let place = match &job.0.mode {
            Mode::Alone(local) => Place::Alone(Own::new(&mut lock(local), values, width, text)?),
            Mode::Store(shared) => {
                let block = if takes == Takes::Whole { usize::MAX } else { BLOCK_BYTES };
                Place::Store(lock(shared).add(rows, width, block, &values, |_| Ok(text.encode()))?)
            }
            Mode::Reduce(..) => return Err(no_servers()),
        };
        Ok(Table { shape, takes, place, job })
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Adds to this step's updates, of the whole table.
    pub fn push(&self, x: &Tensor) -> Result<()> {
        self.check(x, &self.shape)?;
        let values = x.to_vec::<f32>()?;
        match &self.place {
            Place::Store(table) => with_store(&self.job, |s| s.push(table, &values, 0.0))?,
            Place::Alone(own) => lock(own).push(Vec::new(), values),
        }
        Ok(())
    }

    /// Adds to this step's updates, of some rows.
    pub fn push_rows(&self, rows: &[usize], x: &Tensor) -> Result<()> {
        self.check_rows(rows)?;
        if self.takes == Takes::Whole {
            return Err(Error::value("this table's update takes whole tables, not rows").in_op("push"));
        }
        self.check(x, &self.of(rows.len()))?;
        let values = x.to_vec::<f32>()?;
        match &self.place {
            Place::Store(table) => with_store(&self.job, |s| s.push_rows(table, rows, &values, 0.0))?,
            // No rows at all would stand for the whole table.
            Place::Alone(_) if rows.is_empty() => {}
            Place::Alone(own) => lock(own).push(rows.iter().map(|r| *r as u32).collect(), values),
        }
        Ok(())
    }

    /// Reads it, as fresh as the job's consistency demands.
    pub fn pull(&self) -> Result<Tensor> {
        let values = match &self.place {
            Place::Store(table) => with_store(&self.job, |s| s.pull(&[*table]))?.remove(0),
            Place::Alone(own) => lock(own).arrays[0].clone(),
        };
        Ok(Tensor::new(self.shape.clone(), &values))
    }

    /// Reads some rows.
    pub fn pull_rows(&self, rows: &[usize]) -> Result<Tensor> {
        self.check_rows(rows)?;
        let values = match &self.place {
            Place::Store(table) => with_store(&self.job, |s| s.pull_rows(table, rows))?,
            Place::Alone(own) => {
                let own = lock(own);
                rows.iter().flat_map(|r| &own.arrays[0][r * own.width..][..own.width]).copied().collect()
            }
        };
        Ok(Tensor::new(self.of(rows.len()), &values))
    }

    /// The shape of so many rows.
    fn of(&self, rows: usize) -> Shape {
        let mut shape = self.shape.clone();
        shape.dims_mut()[0] = rows;
        shape
    }
    fn check(&self, x: &Tensor, wanted: &Shape) -> Result<()> {
        if x.dtype()? != DType::F32 {
            return Err(Error::dtype(format!("a table holds f32, not {}", x.dtype()?)).in_op("push"));
        }
        let found = x.shape()?;
        if found != *wanted {
            let e = format!("expected {:?}, found {:?}", wanted.dims(), found.dims());
            return Err(Error::shape(e).in_op("push"));
        }
        Ok(())
    }
    fn check_rows(&self, rows: &[usize]) -> Result<()> {
        match rows.iter().find(|r| **r >= self.shape[0]) {
            Some(r) => Err(Error::index(format!("row {r} is not one of {} rows", self.shape[0])).in_op("table")),
            None => Ok(()),
        }
    }
}

/// The shape of a table's first values.
fn checked(values: &Tensor) -> Result<Shape> {
    let (shape, dtype) = (values.shape()?, values.dtype()?);
    if dtype != DType::F32 {
        return Err(Error::dtype(format!("a table holds f32, not {dtype}")).in_op("table"));
    }
    if shape.rank() == 0 || shape.count() == 0 {
        let e = format!("a table has rows of elements, but its values are {:?}", shape.dims());
        return Err(Error::shape(e).in_op("table"));
    }
    Ok(shape)
}
fn width(shape: &Shape) -> usize {
    shape[1..].iter().product()
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("shape", &self.shape).field("takes", &self.takes).finish_non_exhaustive()
    }
}

fn no_servers() -> Error {
    Error::value("the workers of this job reduce among themselves: tables need servers (talweg launch --servers)")
}
fn with_store<T>(job: &Job, f: impl FnOnce(&mut dist::Store) -> dist::Result<T>) -> Result<T> {
    match &job.0.mode {
        Mode::Store(shared) => f(&mut job.0.counters.exchange(shared).store).map_err(failed),
        _ => Err(no_servers()),
    }
}

/// Ends this worker's step: what it has pushed counts from now on. An optimizer's step in the store
/// ends one too.
pub fn clock() -> Result<()> {
    let job = current()?;
    match &job.0.mode {
        Mode::Alone(local) => lock(local).clock(),
        Mode::Store(shared) => {
            let counters = &job.0.counters;
            counters.exchange(shared).clock(counters).map_err(failed)
        }
        Mode::Reduce(..) => Err(no_servers()),
    }
}
/// Waits until every step so far would survive the loss of a server.
pub fn wait() -> Result<()> {
    let job = current()?;
    if let Mode::Alone(_) = job.0.mode { Ok(()) } else { with_store(&job, dist::Store::wait) }
}
/// The step this worker is in: 0 at first, more if it takes the place of one that was lost.
pub fn step() -> Result<u64> {
    let job = current()?;
    if let Mode::Alone(local) = &job.0.mode { Ok(lock(local).step) } else { with_store(&job, |s| Ok(s.step())) }
}
/// How many reads were so many steps ahead of the slowest worker in what they saw; the last counts
/// all beyond.
pub fn staleness_counts() -> Result<Vec<u64>> {
    let job = current()?;
    if let Mode::Alone(_) = job.0.mode {
        Ok(Vec::new())
    } else {
        with_store(&job, |s| Ok(s.staleness_counts().to_vec()))
    }
}

/// The tables of a process alone.
#[derive(Default)]
pub(crate) struct Local {
    step: u64,
    tables: Vec<Weak<Mutex<Own>>>,
}
impl Local {
    fn clock(&mut self) -> Result<()> {
        self.step += 1;
        self.tables.retain(|t| t.strong_count() > 0);
        self.tables.iter().filter_map(Weak::upgrade).try_for_each(|t| lock(&t).clock())
    }
}

struct Own {
    /// The value, then the state.
    arrays: Vec<Vec<f32>>,
    width: usize,
    version: u64,
    rule: Compiled,
    /// What counts at the end of the step.
    pushed: Vec<Update>,
}
impl Own {
    fn new(local: &mut Local, value: Vec<f32>, width: usize, text: RuleText) -> Result<Arc<Mutex<Own>>> {
        let rule = Compiled::new(text)?;
        let state = rule.state(value.len())?;
        let arrays = std::iter::once(value).chain(state).collect();
        let own = Arc::new(Mutex::new(Own { arrays, width, version: 0, rule, pushed: Vec::new() }));
        local.tables.push(Arc::downgrade(&own));
        Ok(own)
    }
    fn push(&mut self, rows: Vec<u32>, data: Vec<f32>) {
        // As on a server, whole tables are summed and come first.
        match self.pushed.first_mut() {
            Some(first) if rows.is_empty() && first.rows.is_empty() => {
                let sum: &mut Vec<f32> = Arc::make_mut(&mut first.data);
                add(sum, &data);
            }
            _ => {
                let at = if rows.is_empty() { 0 } else { self.pushed.len() };
                let (rows, data, filter) = (rows.into(), Arc::new(data), None);
                self.pushed
                    .insert(at, Update { table: 0, block: 0, rows, data, rate: 0.0, numbers: None, count: 1, filter });
            }
        }
    }
    fn clock(&mut self) -> Result<()> {
        for update in &std::mem::take(&mut self.pushed) {
            self.version += 1;
            let pushed = Pushed { update, version: self.version, width: self.width };
            if self.rule.is_in_place() {
                let mut arrays: Vec<&mut [f32]> = self.arrays.iter_mut().map(Vec::as_mut_slice).collect();
                self.rule.change(&mut arrays, &pushed)?;
                continue;
            }
            let mut next: Vec<Vec<f32>> = self.arrays.iter().map(|a| vec![0.0; a.len()]).collect();
            let old: Vec<&[f32]> = self.arrays.iter().map(Vec::as_slice).collect();
            let mut new: Vec<&mut [f32]> = next.iter_mut().map(Vec::as_mut_slice).collect();
            self.rule.step(&old, &mut new, &pushed, &mut Vec::new())?;
            self.arrays = next;
        }
        Ok(())
    }
}
