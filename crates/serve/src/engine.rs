//! The engine: one thread that owns the queues of all models and executes their batches. Requests come through a
//! bounded channel, answers leave through one-shot channels, and a step takes no lock. A second thread compiles.
//!
//! Answers of a batch go to the front end in one message: to wake a task from outside of its runtime costs a system call,
//! and a task of the runtime that passes them on wakes the others without one.
//!
//! The front end decides about admission by itself, from what the engine publishes: a request that must be refused
//! does not wait for the running batch.

use crate::batcher::{Batch, Batcher, Entry, Step, admit};
use crate::failure::{Answered, Failure, Kind};
use crate::served::{Run, Served, now_us};
use ir::Literal;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// The outputs of one request: rows of the outputs of a batch.
#[derive(Clone)]
pub struct Answer {
    /// Outputs of the whole batch.
    pub outputs: Arc<Vec<Literal>>,
    /// Rows of this request; `None` if the outputs are its alone.
    pub rows: Option<std::ops::Range<usize>>,
    /// Rows of the program that ran.
    pub batch_size: usize,
}

impl Answer {
    /// The shape and bytes of an output.
    pub fn output(&self, index: usize) -> (Vec<usize>, &[u8]) {
        let l = &self.outputs[index];
        let mut shape = l.shape().to_vec();
        let Some(rows) = &self.rows else { return (shape, l.bytes()) };
        let row = l.bytes().len() / shape[0].max(1);
        shape[0] = rows.len();
        (shape, &l.bytes()[rows.start * row..rows.end * row])
    }
}

/// A request on its way to the engine.
pub struct Job {
    served: Arc<Served>,
    inputs: Vec<Literal>,
    sizes: Vec<usize>,
    priority: u32,
    deadline_us: Option<u64>,
    arrived_us: u64,
    reply: oneshot::Sender<Answered<Answer>>,
    ticket: Ticket,
}

/// Answers of a batch, each with where it goes.
type Answers = Vec<(oneshot::Sender<Answered<Answer>>, Answered<Answer>)>;

/// Passes answers on inside of the runtime.
async fn pass_on(mut batches: UnboundedReceiver<Answers>) {
    while let Some(answers) = batches.recv().await {
        // A client that went away does not wait for its answer.
        answers.into_iter().for_each(|(reply, answer)| drop(reply.send(answer)));
    }
}

/// Room in the queue, returned when the request is answered or dropped.
struct Ticket {
    served: Arc<Served>,
    shared: Arc<Shared>,
    lane: usize,
    bytes: usize,
    /// Work in the backlog: none once it runs.
    work_us: AtomicU64,
}

impl Ticket {
    /// The request runs: its work is no more waiting.
    fn start(&self) {
        self.shared.backlog_us.fetch_sub(self.work_us.swap(0, Relaxed), Relaxed);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.start();
        let lane = &self.served.lanes[self.lane];
        lane.requests.fetch_sub(1, Relaxed);
        lane.bytes.fetch_sub(self.bytes, Relaxed);
        self.shared.jobs.fetch_sub(1, Relaxed);
    }
}

/// What an engine publishes.
#[derive(Default)]
struct Shared {
    /// Work of all models that waits.
    backlog_us: AtomicU64,
    /// When the running batch is expected to end.
    busy_until_us: AtomicU64,
    /// When the running step began; 0: none runs.
    step_since_us: AtomicU64,
    jobs: AtomicUsize,
    has_failed: AtomicBool,
}

enum Message {
    Job(Box<Job>),
    /// Have this compiled.
    Order(Order),
    Compiled {
        served: Arc<Served>,
        sizes: Vec<usize>,
        program: Answered<Arc<dyn Run>>,
    },
    Stop,
}

struct Order {
    served: Arc<Served>,
    sizes: Vec<usize>,
}

/// One engine, as the front end holds it.
pub struct Engine {
    lane: usize,
    shared: Arc<Shared>,
    sender: SyncSender<Message>,
    thread: parking_lot::Mutex<Option<JoinHandle<()>>>,
    /// Batches of answers until a task of the runtime passes them on.
    answers: parking_lot::Mutex<Option<UnboundedReceiver<Answers>>>,
    passing: Once,
}

/// Messages that wait at most, besides those that the queues of the models hold.
const CHANNEL_MAX: usize = 4096;
/// Programs that an engine keeps for a model.
const PROGRAMS_MAX: usize = 256;
/// How often clients that went away and deadlines are looked for while nothing can run.
const PATROL: Duration = Duration::from_millis(20);

/// How often models that were unloaded are looked for while no request comes.
const IDLE_PATROL: Duration = Duration::from_secs(1);

impl Drop for Engine {
    fn drop(&mut self) {
        // The thread may be in the middle of a batch: it ends after that.
        let _ = self.sender.try_send(Message::Stop);
    }
}

impl Engine {
    /// Starts an engine; `lane` is its number. With `parts` it stays on its part of the processors.
    pub fn start(lane: usize, parts: Option<usize>) -> std::io::Result<Engine> {
        let (sender, receiver) = sync_channel(CHANNEL_MAX);
        let (orders, compiler) = channel::<Order>();
        let shared = Arc::new(Shared::default());
        let replies = sender.clone();
        std::thread::Builder::new().name(format!("compiler-{lane}")).spawn(move || compile(&compiler, &replies))?;
        let owned = shared.clone();
        let (answers, batches) = unbounded_channel();
        let thread = std::thread::Builder::new().name(format!("engine-{lane}")).spawn(move || {
            // Where the system refuses, the engine is slower but right.
            let _ = parts.map(|parts| crate::pin::pin(lane, parts));
            let mut state = State { lane, shared: owned.clone(), orders, answers, queues: HashMap::new(), next_id: 0 };
            // A panic drops the state, and with it every open request: their clients are told.
            if catch_unwind(AssertUnwindSafe(|| state.work(&receiver))).is_err() {
                owned.has_failed.store(true, Relaxed);
                drop(state);
            }
        })?;
        let (thread, answers) = (parking_lot::Mutex::new(Some(thread)), parking_lot::Mutex::new(Some(batches)));
        Ok(Engine { lane, shared, sender, thread, answers, passing: Once::new() })
    }

    /// Requests that wait or run.
    pub fn jobs(&self) -> usize {
        self.shared.jobs.load(Relaxed)
    }
    /// Work that waits or runs.
    pub fn backlog_us(&self) -> u64 {
        let running = self.shared.busy_until_us.load(Relaxed).saturating_sub(now_us());
        self.shared.backlog_us.load(Relaxed) + running
    }
    /// Why it does not work, if it does not: a panic, or a step that takes longer than the watchdog allows.
    pub fn fault(&self, watchdog: Duration) -> Option<&'static str> {
        if self.shared.has_failed.load(Relaxed) {
            return Some("the engine has failed");
        }
        let since = self.shared.step_since_us.load(Relaxed);
        let is_stalled = since != 0 && now_us().saturating_sub(since) > watchdog.as_micros() as u64;
        is_stalled.then_some("the engine is stalled")
    }

    /// Queues a request, or refuses it at once. The answer comes through the receiver; dropping it cancels. Called inside
    /// of the runtime.
    pub fn submit(
        &self,
        served: &Arc<Served>,
        inputs: Vec<Literal>,
        sizes: Vec<usize>,
        priority: u32,
        deadline_us: Option<u64>,
    ) -> Answered<oneshot::Receiver<Answered<Answer>>> {
        if self.shared.has_failed.load(Relaxed) {
            return Err(Failure::new(Kind::Unavailable, "the engine has failed"));
        }
        let bytes = inputs.iter().map(|l| l.bytes().len()).sum();
        let lane = &served.lanes[self.lane];
        let running_us = self.shared.busy_until_us.load(Relaxed).saturating_sub(now_us());
        let load = lane.load(self.shared.backlog_us.load(Relaxed), running_us);
        if let Err(refusal) = admit(&served.policy, &load, bytes) {
            let seconds = refusal.retry_us.div_ceil(1_000_000);
            let failure = Failure::new(Kind::Overloaded, format!("{}: {}", served.name, refusal.reason));
            return Err(Failure { retry_seconds: Some(seconds), ..failure });
        }
        self.passing.call_once(|| {
            if let Some(batches) = self.answers.lock().take() {
                tokio::spawn(pass_on(batches));
            }
        });
        let rows = if served.model.signature().is_batched { sizes[0] } else { 1 };
        let work_us = lane.batch_us.load(Relaxed) * rows as u64 / lane.batch_rows.load(Relaxed).max(1) as u64;
        lane.requests.fetch_add(1, Relaxed);
        lane.bytes.fetch_add(bytes, Relaxed);
        self.shared.jobs.fetch_add(1, Relaxed);
        self.shared.backlog_us.fetch_add(work_us, Relaxed);
        let work_us = AtomicU64::new(work_us);
        let ticket = Ticket { served: served.clone(), shared: self.shared.clone(), lane: self.lane, bytes, work_us };
        let (reply, answer) = oneshot::channel();
        let arrived_us = now_us();
        let job = Job { served: served.clone(), inputs, sizes, priority, deadline_us, arrived_us, reply, ticket };
        match self.sender.try_send(Message::Job(Box::new(job))) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(Failure::new(Kind::Overloaded, "the engine's queue is full")),
            Err(TrySendError::Disconnected(_)) => Err(Failure::new(Kind::Unavailable, "the engine has stopped")),
        }
    }

    /// Has a size compiled in the background.
    pub fn order(&self, served: &Arc<Served>, sizes: Vec<usize>) -> Answered<()> {
        let stopped = |_| Failure::new(Kind::Unavailable, "the engine has stopped");
        self.sender.send(Message::Order(Order { served: served.clone(), sizes })).map_err(stopped)
    }

    /// Compiles a size now.
    pub fn warm(&self, served: &Arc<Served>, sizes: Vec<usize>) -> Answered<()> {
        let program = served.model.prepare(&sizes)?;
        let message = Message::Compiled { served: served.clone(), sizes, program: Ok(program) };
        let stopped = |_| Failure::new(Kind::Unavailable, "the engine has stopped");
        self.sender.send(message).map_err(stopped)
    }

    /// Ends the thread after what it runs now; requests that wait are answered with an error.
    pub fn stop(&self) {
        let _ = self.sender.send(Message::Stop);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

fn compile(orders: &Receiver<Order>, engine: &SyncSender<Message>) {
    while let Ok(Order { served, sizes }) = orders.recv() {
        let prepared = catch_unwind(AssertUnwindSafe(|| served.model.prepare(&sizes)));
        let program = match prepared {
            Ok(done) => done.map_err(Failure::from),
            Err(_) => Err(Failure::new(Kind::Internal, "compiling the model failed")),
        };
        if engine.send(Message::Compiled { served, sizes, program }).is_err() {
            return;
        }
    }
}

/// Programs for one group: equal sizes but for the rows.
#[derive(Default)]
struct Group {
    /// Sizes of the free dimensions after the first, or all of them where requests are not joined.
    tail: Vec<usize>,
    sizes: Vec<usize>,
    programs: BTreeMap<usize, Arc<dyn Run>>,
}

/// The queue of one model.
struct Queue {
    served: Arc<Served>,
    batcher: Batcher,
    jobs: HashMap<u64, Box<Job>>,
    groups: Vec<Group>,
    ordered: HashSet<Vec<usize>>,
}

impl Queue {
    fn new(served: Arc<Served>) -> Queue {
        let batcher = Batcher::new(served.policy);
        Queue { served, batcher, jobs: HashMap::new(), groups: Vec::new(), ordered: HashSet::new() }
    }
    fn is_batched(&self) -> bool {
        self.served.model.signature().is_batched
    }
    /// Rows and the rest of the sizes.
    fn split<'a>(&self, sizes: &'a [usize]) -> (usize, &'a [usize]) {
        if self.is_batched() { (sizes[0], &sizes[1..]) } else { (1, sizes) }
    }
    fn joined(&self, group: u64, rows: usize) -> Vec<usize> {
        let tail = &self.groups[group as usize].tail;
        if self.is_batched() { [&[rows], &tail[..]].concat() } else { tail.clone() }
    }
    fn group(&mut self, tail: &[usize]) -> u64 {
        if let Some(i) = self.groups.iter().position(|g| g.tail == tail) {
            return i as u64;
        }
        self.groups.push(Group { tail: tail.to_vec(), ..Group::default() });
        self.groups.len() as u64 - 1
    }
    fn add_program(&mut self, sizes: &[usize], program: Arc<dyn Run>) {
        if self.groups.iter().map(|g| g.sizes.len()).sum::<usize>() >= PROGRAMS_MAX {
            let used: HashSet<Vec<usize>> = self.jobs.values().map(|j| self.split(&j.sizes).1.to_vec()).collect();
            // Groups are known by number, so they stay; what they hold goes.
            for g in self.groups.iter_mut().filter(|g| !used.contains(&g.tail)) {
                (g.sizes, g.programs) = Default::default();
            }
        }
        let (rows, tail) = self.split(sizes);
        let group = self.group(tail) as usize;
        let g = &mut self.groups[group];
        g.programs.insert(rows, program);
        g.sizes = g.programs.keys().copied().collect();
    }
}

struct State {
    lane: usize,
    shared: Arc<Shared>,
    orders: Sender<Order>,
    answers: UnboundedSender<Answers>,
    queues: HashMap<u64, Queue>,
    next_id: u64,
}

impl State {
    fn work(&mut self, receiver: &Receiver<Message>) {
        loop {
            while let Ok(message) = receiver.try_recv() {
                if !self.take(message) {
                    return;
                }
            }
            self.patrol();
            let message = match self.step() {
                Step::Run(_) => continue,
                Step::Wait(until) => {
                    let wait = Duration::from_micros(until.saturating_sub(now_us())).min(PATROL);
                    receiver.recv_timeout(wait)
                }
                Step::Idle if self.queues.values().any(|q| !q.batcher.is_empty()) => receiver.recv_timeout(PATROL),
                Step::Idle => receiver.recv_timeout(IDLE_PATROL),
            };
            match message {
                Ok(message) => {
                    if !self.take(message) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Whether to go on.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Stop => return false,
            Message::Job(job) => self.enqueue(job),
            Message::Order(order) => {
                if self.queue(&order.served).ordered.insert(order.sizes.clone()) {
                    let _ = self.orders.send(order);
                }
            }
            Message::Compiled { served, sizes, program } => self.compiled(served, &sizes, program),
        }
        true
    }

    fn queue(&mut self, served: &Arc<Served>) -> &mut Queue {
        self.queues.entry(served.id).or_insert_with(|| Queue::new(served.clone()))
    }

    fn enqueue(&mut self, job: Box<Job>) {
        self.next_id += 1;
        let id = self.next_id;
        let queue = self.queue(&job.served);
        let (rows, tail) = queue.split(&job.sizes);
        let group = queue.group(tail);
        let (priority, arrived_us, deadline_us) = (job.priority, job.arrived_us, job.deadline_us);
        queue.batcher.push(Entry { id, group, rows, priority, arrived_us, deadline_us });
        queue.jobs.insert(id, job);
    }

    fn compiled(&mut self, served: Arc<Served>, sizes: &[usize], program: Answered<Arc<dyn Run>>) {
        let queue = self.queue(&served);
        match program {
            Ok(program) => {
                queue.ordered.remove(sizes);
                queue.add_program(sizes, program);
            }
            Err(e) => {
                // Requests that no other program can run would wait for ever. They fail.
                queue.ordered.remove(sizes);
                let (rows, tail) = queue.split(sizes);
                let largest = queue.groups.iter().find(|g| g.tail == tail).and_then(|g| g.sizes.last().copied());
                let is_stuck = |j: &Job| {
                    let (own, own_tail) = queue.split(&j.sizes);
                    own_tail == tail && own <= rows && largest.is_none_or(|l| own > l)
                };
                let stuck: Vec<u64> = queue.jobs.iter().filter(|(_, j)| is_stuck(j)).map(|(id, _)| *id).collect();
                for id in queue.batcher.remove(|id| stuck.contains(&id)) {
                    if let Some(job) = queue.jobs.remove(&id) {
                        let _ = job.reply.send(Err(e.clone()));
                    }
                }
            }
        }
    }

    /// Drops requests whose client went away or whose deadline passed, and queues of models that are gone.
    fn patrol(&mut self) {
        let now = now_us();
        for queue in self.queues.values_mut() {
            let Queue { batcher, jobs, .. } = queue;
            for id in batcher.remove(|id| jobs.get(&id).is_none_or(|j| j.reply.is_closed())) {
                jobs.remove(&id);
            }
            for id in batcher.expire(now) {
                if let Some(job) = jobs.remove(&id) {
                    let late = Failure::new(Kind::Deadline, "the deadline passes before the model could answer");
                    let _ = job.reply.send(Err(late));
                }
            }
        }
        // The repository and the queue hold one each.
        self.queues.retain(|_, q| !q.jobs.is_empty() || !q.ordered.is_empty() || Arc::strong_count(&q.served) > 1);
    }

    /// Runs the most urgent batch, if one can run.
    fn step(&mut self) -> Step {
        let mut order: Vec<((u32, u64), u64)> =
            self.queues.iter().filter_map(|(id, q)| Some((q.batcher.urgency()?, *id))).collect();
        order.sort_unstable();
        let mut idle = Step::Idle;
        for (_, id) in order {
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            let groups = &queue.groups;
            let plan = queue.batcher.next(now_us(), |g| &groups[g as usize].sizes[..]);
            for (group, rows) in plan.compile {
                let sizes = queue.joined(group, rows);
                let is_allowed = queue.served.model.signature().dims.first().is_none_or(|d| d.check(sizes[0]).is_ok());
                let sizes = if is_allowed { sizes } else { queue.joined(group, queue.largest_waiting(group)) };
                if queue.ordered.insert(sizes.clone()) {
                    // Without a compiler there is no engine either.
                    let _ = self.orders.send(Order { served: queue.served.clone(), sizes });
                }
            }
            match plan.step {
                Step::Run(batch) => {
                    execute(queue, &batch, &self.shared, self.lane, &self.answers);
                    return Step::Run(batch);
                }
                Step::Wait(t) => idle = Step::Wait(if let Step::Wait(u) = idle { t.min(u) } else { t }),
                Step::Idle => {}
            }
        }
        idle
    }
}

impl Queue {
    /// Rows of the largest request of a group: what to compile where the next rung is not allowed.
    fn largest_waiting(&self, group: u64) -> usize {
        let tail = &self.groups[group as usize].tail;
        self.jobs.values().map(|j| self.split(&j.sizes)).filter(|(_, t)| t == tail).map(|(r, _)| r).max().unwrap_or(1)
    }
}

/// Runs a batch and answers its requests.
fn execute(queue: &mut Queue, batch: &Batch, shared: &Shared, lane: usize, answers: &UnboundedSender<Answers>) {
    let jobs: Vec<Box<Job>> = batch.ids.iter().filter_map(|id| queue.jobs.remove(id)).collect();
    let program = queue.groups[batch.group as usize].programs[&batch.size].clone();
    let (served, stats) = (queue.served.clone(), queue.served.stats.clone());
    let begun = now_us();
    shared.step_since_us.store(begun, Relaxed);
    shared.busy_until_us.store(begun + queue.batcher.estimate_us(batch.size), Relaxed);
    for job in &jobs {
        job.ticket.start();
        stats.queue_us.fetch_add(begun.saturating_sub(job.arrived_us), Relaxed);
    }
    let is_whole = jobs.len() == 1 && batch.rows == batch.size;
    let inputs = if is_whole { jobs[0].inputs.clone() } else { join(&jobs, batch.size) };
    let joined = now_us();
    let ran = program.run(&inputs);
    let done = now_us();
    drop(inputs);
    queue.batcher.record_cost(batch.size, done - begun);
    stats.executions.fetch_add(1, Relaxed);
    stats.sizes.record(batch.rows as u64);
    stats.padding.fetch_add((batch.size - batch.rows) as u64, Relaxed);
    stats.input_us.fetch_add(joined - begun, Relaxed);
    stats.infer_us.fetch_add(done - joined, Relaxed);
    let (mut first, mut replies) = (0, Vec::with_capacity(jobs.len()));
    let outputs = ran.map(Arc::new).map_err(Failure::from);
    for job in jobs {
        let rows = if queue.is_batched() { job.sizes[0] } else { 1 };
        let range = (!is_whole).then(|| first..first + rows);
        first += rows;
        let answer = match &outputs {
            Ok(outputs) => Ok(Answer { outputs: outputs.clone(), rows: range, batch_size: batch.size }),
            Err(e) if is_whole => Err(e.clone()),
            // One request of the batch is to blame: each runs alone.
            Err(_) => alone(&*program, &job, batch.size),
        };
        if answer.is_ok() {
            stats.rows.fetch_add(rows as u64, Relaxed);
        }
        queue.batcher.record_latency(now_us().saturating_sub(job.arrived_us));
        let Job { reply, ticket, .. } = *job;
        // A client that has its answer finds its place in the queue free.
        drop(ticket);
        replies.push((reply, answer));
    }
    // Without a runtime nobody waits.
    let _ = answers.send(replies);
    let (batch_us, batch_rows) = queue.batcher.full_batch();
    served.lanes[lane].batch_us.store(batch_us, Relaxed);
    served.lanes[lane].batch_rows.store(batch_rows, Relaxed);
    served.lanes[lane].target_us.store(queue.batcher.target_us(), Relaxed);
    stats.output_us.fetch_add(now_us().saturating_sub(done), Relaxed);
    shared.step_since_us.store(0, Relaxed);
    shared.busy_until_us.store(0, Relaxed);
}

/// A request by itself, at the size of a batch that failed.
fn alone(program: &dyn Run, job: &Job, size: usize) -> Answered<Answer> {
    let rows = job.sizes[0];
    let outputs = program.run(&join(&[job], size))?;
    Ok(Answer { outputs: Arc::new(outputs), rows: Some(0..rows), batch_size: size })
}

/// The inputs of several requests, one after the other, repeated up to `size` rows: padding that is like the data
/// cannot fail where the data do not.
fn join(jobs: &[impl std::ops::Deref<Target = Job>], size: usize) -> Vec<Literal> {
    let column = |i: usize| {
        let first = &jobs[0].inputs[i];
        let mut shape = first.shape().clone();
        let row = first.bytes().len() / shape[0].max(1);
        shape.dims_mut()[0] = size;
        let mut out = Literal::zeros(first.dtype(), shape);
        let bytes = out.buffer_mut().expect("a new buffer is not shared");
        let mut at = 0;
        for job in jobs {
            let from = job.inputs[i].bytes();
            bytes[at..at + from.len()].copy_from_slice(from);
            at += from.len();
        }
        let padding = &first.bytes()[..row];
        bytes[at..size * row].chunks_exact_mut(row.max(1)).for_each(|chunk| chunk.copy_from_slice(padding));
        out
    };
    (0..jobs[0].inputs.len()).map(column).collect()
}
