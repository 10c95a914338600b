//! Running parts: each device has a thread, which runs the device's parts in the order of the list. Values are handed over
//! through a table; a thread waits for what its next part reads.
//!
//! Devices take runs in one order, which [`submit`] decides for all of them at once: two runs never wait for each other.

use super::{Inner, home, on};
use crate::{Device, Program, interrupt};
use ir::{Buffer, Error, Literal, Result};
use parking_lot::{Condvar, Mutex};
use passes::split::{From, Output};
use rustc_hash::FxHashMap;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How often a caller that waits looks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(20);

type Job = Box<dyn FnOnce() + Send>;

/// The threads of devices, by name, and the process that has them: a fork has none.
static THREADS: Mutex<(u32, Vec<(String, Sender<Job>)>)> = Mutex::new((0, Vec::new()));

thread_local! {
    /// Whether this is the thread of a device.
    static IS_DEVICE: Cell<bool> = const { Cell::new(false) };
}

/// Puts a job into the queue of each device, at the same place in all of them.
fn submit(jobs: Vec<(String, Job)>) -> Result<()> {
    let mut threads = THREADS.lock();
    let process = std::process::id();
    if threads.0 != process {
        // Those of the parent's are not here; their queues are never read.
        std::mem::forget(std::mem::take(&mut threads.1));
        threads.0 = process;
    }
    let find = |threads: &[(String, Sender<Job>)], name: &str| threads.iter().position(|(n, _)| n == name);
    for (name, _) in &jobs {
        if find(&threads.1, name).is_none() {
            let (send, receive) = channel::<Job>();
            let run = move || {
                IS_DEVICE.set(true);
                receive.into_iter().for_each(|job| job());
            };
            let failed = |e| Error::new(ir::ErrorKind::Device, format!("no thread for {name}: {e}"));
            std::thread::Builder::new().name(name.clone()).spawn(run).map_err(failed)?;
            threads.1.push((name.clone(), send));
        }
    }
    for (name, job) in jobs {
        let at = find(&threads.1, &name).ok_or_else(|| Error::bug("a device has no thread"))?;
        // A thread ends with the process.
        let _ = threads.1[at].1.send(job);
    }
    Ok(())
}

/// One run.
struct Run {
    inner: Arc<Inner>,
    table: Mutex<Table>,
    changed: Condvar,
}

struct Table {
    inputs: Vec<Option<Buffer>>,
    /// By part and result, until its last reader has it.
    values: Vec<Vec<Option<Buffer>>>,
    uses: Vec<Vec<usize>>,
    /// Values that were sent, by value and device.
    received: FxHashMap<(Origin, usize), Buffer>,
    is_done: Vec<bool>,
    failed: Option<Error>,
    panic: Option<Box<dyn Any + Send>>,
    /// Whether a part has begun that may overwrite a variable: from then on the run goes on to its end.
    is_committed: bool,
    /// Devices that are not done yet.
    busy: usize,
}

/// A value before it is sent: an input, or a result of a part.
type Origin = (usize, usize);
const INPUTS: usize = usize::MAX;

impl Table {
    fn is_ended(&self) -> bool {
        self.failed.is_some() || self.panic.is_some()
    }
}

/// Runs all parts.
pub(super) fn run(inner: &Arc<Inner>, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
    let want = inner.graph.inputs.len();
    if inputs.len() != want {
        return Err(Error::value(format!("the graph takes {want} inputs, but {} were given", inputs.len())));
    }
    let mut devices: Vec<usize> = inner.split.parts.iter().map(|p| p.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let nothing = || Buffer::Host(Literal::nothing());
    let table = Table {
        inputs: inputs.iter_mut().map(|b| Some(std::mem::replace(b, nothing()))).collect(),
        values: inner.split.parts.iter().map(|p| vec![None; p.outputs.len()]).collect(),
        uses: inner.uses.clone(),
        received: FxHashMap::default(),
        is_done: vec![false; inner.split.parts.len()],
        failed: None,
        panic: None,
        is_committed: false,
        busy: devices.len(),
    };
    let run = Arc::new(Run { inner: inner.clone(), table: Mutex::new(table), changed: Condvar::new() });
    if inner.is_inline || devices.len() < 2 || IS_DEVICE.get() {
        (0..inner.split.parts.len()).for_each(|p| run.part(p));
    } else {
        run.on_all(&devices);
    }
    let mut t = run.table.lock();
    for (to, left) in inputs.iter_mut().zip(t.inputs.iter_mut()) {
        *to = left.clone().unwrap_or_else(nothing);
    }
    if let Some(payload) = t.panic.take() {
        drop(t);
        resume_unwind(payload);
    }
    if let Some(e) = t.failed.take() {
        return Err(e);
    }
    let lost = || Error::bug("a part has not left its result");
    let mut results = Vec::with_capacity(inner.split.outputs.len());
    for o in &inner.split.outputs {
        results.push(match o {
            Output::Constant(c) => Buffer::Host(c.clone()),
            Output::From(From::Input(k)) => t.inputs[*k].clone().ok_or_else(lost)?,
            Output::From(From::Part { part, out }) => {
                t.uses[*part][*out] -= 1;
                let slot = &mut t.values[*part][*out];
                let value = if inner.uses[*part][*out] > 1 { slot.clone() } else { slot.take() };
                value.ok_or_else(lost)?
            }
        });
    }
    Ok(results)
}

impl Run {
    /// Has each device run its parts, and waits for all of them.
    fn on_all(self: &Arc<Run>, devices: &[usize]) {
        let job = |&d: &usize| {
            let run = self.clone();
            let work = move || {
                for p in (0..run.inner.split.parts.len()).filter(|&p| run.inner.split.parts[p].device == d) {
                    run.part(p);
                }
                let mut t = run.table.lock();
                t.busy -= 1;
                run.changed.notify_all();
            };
            (self.inner.engines[d].device().name().to_string(), Box::new(work) as Job)
        };
        if let Err(e) = submit(devices.iter().map(job).collect()) {
            // Nothing was begun.
            let mut t = self.table.lock();
            t.failed.get_or_insert(e);
            return;
        }
        let mut t = self.table.lock();
        while t.busy > 0 {
            self.changed.wait_for(&mut t, PATIENCE);
            if t.busy > 0 && !t.is_committed && !t.is_ended() {
                drop(t);
                let asked = interrupt::check();
                t = self.table.lock();
                if let Err(e) = asked
                    && !t.is_committed
                {
                    t.failed.get_or_insert(e);
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Runs one part when everything that it reads is there; does nothing once the run has failed.
    fn part(&self, p: usize) {
        let i = &*self.inner;
        {
            let mut t = self.table.lock();
            while !t.is_ended() && !i.waits[p].iter().all(|&q| t.is_done[q]) {
                self.changed.wait(&mut t);
            }
            if t.is_ended() {
                return;
            }
            t.is_committed |= i.in_place[p];
        }
        if let Some(program) = &i.programs[p] {
            match catch_unwind(AssertUnwindSafe(|| self.compute(p, &**program))) {
                Ok(Ok(())) => {}
                Ok(Err(e)) => {
                    let engine = i.engines[i.split.parts[p].device];
                    let e = on(engine, engine.own_line(&i.split.parts[p].graph, e));
                    self.table.lock().failed.get_or_insert(e);
                }
                Err(payload) => {
                    self.table.lock().panic.get_or_insert(payload);
                }
            }
        }
        self.table.lock().is_done[p] = true;
        self.changed.notify_all();
    }

    fn compute(&self, p: usize, program: &dyn Program) -> Result<()> {
        let i = &*self.inner;
        let part = &i.split.parts[p];
        let device = i.engines[part.device].device();
        let mut inputs = Vec::with_capacity(part.inputs.len());
        for f in &part.inputs {
            inputs.push(self.take(*f, p, device)?);
        }
        let done = program.run(&mut inputs).and_then(|results| {
            // What a device computes later may still fail.
            if i.fails[p] {
                device.synchronize()?;
            }
            Ok(results)
        });
        let mut t = self.table.lock();
        match done {
            Ok(results) => {
                for (out, value) in
                    results.into_iter().enumerate().filter(|(o, _)| t.uses[p][*o] > 0).collect::<Vec<_>>()
                {
                    t.values[p][out] = Some(value);
                }
                Ok(())
            }
            Err(e) => {
                // The program has left its inputs as they were.
                for (f, left) in part.inputs.iter().zip(inputs) {
                    if let From::Input(k) = f {
                        t.inputs[*k].get_or_insert(left);
                    }
                }
                Err(e)
            }
        }
    }

    /// A value for a part, on its device: moved where no other part reads it, sent where it is not there yet.
    fn take(&self, f: From, p: usize, device: &Arc<dyn Device>) -> Result<Buffer> {
        let lost = || Error::bug("a value was lost between two parts");
        let i = &*self.inner;
        let d = i.split.parts[p].device;
        let (origin, value, is_last) = {
            let mut t = self.table.lock();
            match f {
                From::Input(k) => {
                    let is_lent = i.in_place[p] && i.split.parts[p].lent.contains(&k);
                    let slot = &mut t.inputs[k];
                    let value = if is_lent { slot.take() } else { slot.clone() };
                    ((INPUTS, k), value.ok_or_else(lost)?, is_lent)
                }
                From::Part { part, out } => {
                    t.uses[part][out] -= 1;
                    let is_last = t.uses[part][out] == 0;
                    let slot = &mut t.values[part][out];
                    let value = if is_last { slot.take() } else { slot.clone() };
                    ((part, out), value.ok_or_else(lost)?, is_last)
                }
            }
        };
        if is_here(&value, device) {
            return Ok(value);
        }
        let key = (origin, d);
        if let Some(known) = self.table.lock().received.get(&key) {
            return Ok(known.clone());
        }
        let sent = device.receive(&value)?;
        if !is_last {
            self.table.lock().received.insert(key, sent.clone());
        }
        Ok(sent)
    }
}

/// Whether a value lies where a device reads it.
fn is_here(value: &Buffer, device: &Arc<dyn Device>) -> bool {
    match home(value) {
        Some(name) => name == device.name(),
        None => matches!(value, Buffer::Host(_)) && device.speed().is_host && !crate::is_logical(device.name()),
    }
}
