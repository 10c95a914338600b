//! The engine: one thread that owns the queues of all models and executes their batches. Requests come through a
//! bounded channel, answers leave through one-shot channels, and a step takes no lock. A second thread compiles.
//!
//! Answers of a batch go to the front end in one message: to wake a task from outside of its runtime costs a system call,
//! and a task of the runtime that passes them on wakes the others without one. The answer to a request that was alone is
//! written here ([`crate::direct`]).
//!
//! The front end decides about admission by itself, from what the engine publishes: a request that must be refused
//! does not wait for the running batch.

mod join;

use crate::answer::Answer;
use crate::batcher::{Asked, Batch, Batcher, Entry, Step};
use crate::direct::Direct;
use crate::failure::{Answered, Failure, Kind};
use crate::input::Input;
use crate::programs::Programs;
use crate::served::{Run, Served, now_us};
use crate::ticket::{Front, Shared, Ticket};
use join::{alone, join};
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Once, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// A request on its way to the engine.
pub struct Job {
    served: Arc<Served>,
    inputs: Vec<Input>,
    sizes: Vec<usize>,
    priority: u32,
    deadline_us: Option<u64>,
    reply: oneshot::Sender<Answered<Answer>>,
    /// How to answer without the front end.
    direct: Option<Direct>,
    ticket: Ticket,
    /// Says that a request of its group waits.
    token: Option<Arc<()>>,
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

enum Message {
    Job(Box<Job>),
    /// A request is about to be complete.
    Soon,
    /// Have this compiled.
    Order(Order),
    Compiled {
        served: Arc<Served>,
        sizes: Vec<usize>,
        program: Answered<Arc<dyn Run>>,
    },
    /// No client waits for it any more: it was not compiled.
    Unwanted(Order),
    Stop,
}

struct Order {
    served: Arc<Served>,
    sizes: Vec<usize>,
    /// Of use only while this lives, if it is stated.
    wanted: Option<Weak<()>>,
}

/// One engine, as the front end holds it.
pub struct Engine {
    lane: usize,
    shared: Arc<Shared>,
    front: Arc<Front>,
    sender: SyncSender<Message>,
    thread: parking_lot::Mutex<Option<JoinHandle<()>>>,
    /// Batches of answers until a task of the runtime passes them on.
    answers: parking_lot::Mutex<Option<UnboundedReceiver<Answers>>>,
    passing: Once,
}

/// Messages that wait at most, besides those that the queues of the models hold.
const CHANNEL_MAX: usize = 4096;
/// Sizes of a model that wait to be compiled, at most. Requests of further sizes are refused.
const ORDERS_MAX: usize = 32;
/// How often clients that went away and deadlines are looked for while nothing can run.
const PATROL: Duration = Duration::from_millis(20);

/// While more requests wait, they are not looked at before every batch,
const PATROL_MANY: usize = 64;
/// but this often.
const PATROL_MANY_US: u64 = 2_000;

/// How long an engine looks for the next request before it sleeps: longer than a client of the same machine takes to read
/// an answer and to ask again.
const LOOK_US: u64 = 200;
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
    pub fn start(lane: usize, parts: Option<usize>, front: Arc<Front>) -> std::io::Result<Engine> {
        let (sender, receiver) = sync_channel(CHANNEL_MAX);
        let (orders, compiler) = channel::<Order>();
        let shared = Arc::new(Shared::default());
        let replies = sender.clone();
        std::thread::Builder::new().name(format!("compiler-{lane}")).spawn(move || compile(&compiler, &replies))?;
        let (owned, lag) = (shared.clone(), front.clone());
        let (answers, batches) = unbounded_channel();
        let thread = std::thread::Builder::new().name(format!("engine-{lane}")).spawn(move || {
            // Where the system refuses, the engine is slower but right.
            let _ = parts.map(|parts| crate::pin::pin(lane, parts));
            let to = Published { lane, shared: owned.clone(), front: lag, answers };
            let mut state = State {
                to,
                orders,
                queues: HashMap::new(),
                next_id: 0,
                ran_us: 0,
                busy_since_us: None,
                patrolled_us: 0,
            };
            // A panic drops the state, and with it every open request: their clients are told.
            if catch_unwind(AssertUnwindSafe(|| state.work(&receiver))).is_err() {
                owned.has_failed.store(true, Relaxed);
                drop(state);
            }
        })?;
        let (thread, answers) = (parking_lot::Mutex::new(Some(thread)), parking_lot::Mutex::new(Some(batches)));
        Ok(Engine { lane, shared, front, sender, thread, answers, passing: Once::new() })
    }

    /// Requests that wait or run.
    pub fn jobs(&self) -> usize {
        self.shared.jobs.load(Relaxed)
    }
    /// Work that waits or runs.
    pub fn backlog_us(&self) -> u64 {
        self.shared.backlog_us.load(Relaxed) + self.shared.running_us()
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

    /// Takes room in the queue for a request that is about to be read, or refuses it at once. Called inside of the runtime.
    pub fn reserve(&self, served: &Arc<Served>, asked: Asked, arrived_us: Option<u64>) -> Answered<Ticket> {
        if self.shared.has_failed.load(Relaxed) {
            return Err(Failure::new(Kind::Unavailable, "the engine has failed"));
        }
        // A single request waits for no other, and to measure wakes another thread.
        if self.shared.jobs.load(Relaxed) > 0 {
            self.front.probe(arrived_us.is_some());
        }
        Ticket::take(served, &self.shared, self.lane, &self.front, asked, arrived_us)
    }

    /// Says that a request is about to be complete: an engine that sleeps wakes up meanwhile.
    pub fn expect(&self) {
        if self.shared.step_since_us.load(Relaxed) == 0 {
            // A channel that is full has woken it already.
            let _ = self.sender.try_send(Message::Soon);
        }
    }

    /// Queues a request that has room. The answer comes through the receiver; dropping it cancels. Called inside of the
    /// runtime.
    pub fn submit(
        &self,
        mut ticket: Ticket,
        inputs: Vec<Input>,
        sizes: Vec<usize>,
        priority: u32,
        deadline_us: Option<u64>,
        direct: Option<Direct>,
    ) -> Answered<oneshot::Receiver<Answered<Answer>>> {
        assert_eq!(ticket.lane, self.lane, "room in the queue of another engine");
        let served = ticket.served.clone();
        let bytes = inputs.iter().map(Input::byte_count).sum();
        let rows = if served.model.signature().is_batched { sizes[0] } else { 1 };
        ticket.correct(&self.front, Asked { rows, bytes })?;
        self.passing.call_once(|| {
            if let Some(batches) = self.answers.lock().take() {
                tokio::spawn(pass_on(batches));
            }
        });
        let (reply, answer) = oneshot::channel();
        let job = Job { served, inputs, sizes, priority, deadline_us, reply, direct, ticket, token: None };
        match self.sender.try_send(Message::Job(Box::new(job))) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(Failure::new(Kind::Overloaded, "the engine's queue is full")),
            Err(TrySendError::Disconnected(_)) => Err(Failure::new(Kind::Unavailable, "the engine has stopped")),
        }
    }

    /// Has a size compiled in the background.
    pub fn order(&self, served: &Arc<Served>, sizes: Vec<usize>) -> Answered<()> {
        let stopped = |_| Failure::new(Kind::Unavailable, "the engine has stopped");
        self.sender.send(Message::Order(Order { served: served.clone(), sizes, wanted: None })).map_err(stopped)
    }

    /// Compiles a size now.
    pub fn warm(&self, served: &Arc<Served>, sizes: Vec<usize>) -> Answered<()> {
        let program = served.prepare(&sizes)?;
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
    while let Ok(order) = orders.recv() {
        if order.wanted.as_ref().is_some_and(|wanted| wanted.strong_count() == 0) {
            if engine.send(Message::Unwanted(order)).is_err() {
                return;
            }
            continue;
        }
        let Order { served, sizes, .. } = order;
        let prepared = catch_unwind(AssertUnwindSafe(|| served.prepare(&sizes)));
        let program = match prepared {
            Ok(done) => done.map_err(Failure::from),
            Err(_) => Err(Failure::new(Kind::Internal, "compiling the model failed")),
        };
        if engine.send(Message::Compiled { served, sizes, program }).is_err() {
            return;
        }
    }
}

/// The queue of one model.
struct Queue {
    served: Arc<Served>,
    batcher: Batcher,
    jobs: HashMap<u64, Box<Job>>,
    programs: Programs<Arc<dyn Run>>,
    ordered: HashSet<Vec<usize>>,
}

impl Queue {
    fn new(served: Arc<Served>) -> Queue {
        // Where lengths are free too, each has its batch sizes: they are fewer.
        let batcher = Batcher::new(served.policy, served.model.signature().dims.len() > 1);
        Queue { served, batcher, jobs: HashMap::new(), programs: Programs::default(), ordered: HashSet::new() }
    }
    fn is_batched(&self) -> bool {
        self.served.model.signature().is_batched
    }
    /// Rows and the rest of the sizes.
    fn split<'a>(&self, sizes: &'a [usize]) -> (usize, &'a [usize]) {
        if self.is_batched() { (sizes[0], &sizes[1..]) } else { (1, sizes) }
    }
    fn joined(&self, group: u64, rows: usize) -> Vec<usize> {
        let tail = self.programs.tail(group);
        if self.is_batched() { [&[rows], tail].concat() } else { tail.to_vec() }
    }
    /// Whether a request has sizes without any program, and as many others wait to be compiled as may.
    fn is_flooded(&self, sizes: &[usize]) -> bool {
        let (_, tail) = self.split(sizes);
        let is_new = || !self.ordered.iter().any(|other| self.split(other).1 == tail);
        self.ordered.len() >= ORDERS_MAX && self.programs.largest(tail).is_none() && is_new()
    }
}

/// Where an engine's work goes.
struct Published {
    lane: usize,
    shared: Arc<Shared>,
    front: Arc<Front>,
    answers: UnboundedSender<Answers>,
}

struct State {
    to: Published,
    orders: Sender<Order>,
    queues: HashMap<u64, Queue>,
    next_id: u64,
    /// When the last batch ended, or when a request was announced.
    ran_us: u64,
    /// When the last batch ended, if the engine has not waited since: what lies between two batches is part of their cost.
    busy_since_us: Option<u64>,
    patrolled_us: u64,
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
            let step = self.step();
            if let Step::Run(_) = step {
                continue;
            }
            self.busy_since_us = None;
            let message = match step {
                Step::Run(_) => continue,
                Step::Wait(until) => {
                    let wait = Duration::from_micros(until.saturating_sub(now_us())).min(PATROL);
                    receiver.recv_timeout(wait)
                }
                Step::Idle if self.queues.values().any(|q| !q.batcher.is_empty()) => receiver.recv_timeout(PATROL),
                Step::Idle => match self.look(receiver) {
                    Some(message) => Ok(message),
                    None => receiver.recv_timeout(IDLE_PATROL),
                },
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

    /// Looks for a message before the thread sleeps: to wake it costs more than a small model. Other threads go first.
    fn look(&self, receiver: &Receiver<Message>) -> Option<Message> {
        let until = self.ran_us + LOOK_US;
        while now_us() < until {
            match receiver.try_recv() {
                Ok(message) => return Some(message),
                Err(_) => std::thread::yield_now(),
            }
        }
        None
    }

    /// Whether to go on.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Stop => return false,
            Message::Soon => self.ran_us = now_us(),
            Message::Job(job) => self.enqueue(job),
            Message::Order(order) => {
                if self.queue(&order.served).ordered.insert(order.sizes.clone()) {
                    let _ = self.orders.send(order);
                }
            }
            Message::Compiled { served, sizes, program } => self.compiled(served, &sizes, program),
            Message::Unwanted(order) => drop(self.queue(&order.served).ordered.remove(&order.sizes)),
        }
        true
    }

    fn queue(&mut self, served: &Arc<Served>) -> &mut Queue {
        self.queues.entry(served.id).or_insert_with(|| Queue::new(served.clone()))
    }

    fn enqueue(&mut self, mut job: Box<Job>) {
        self.next_id += 1;
        let id = self.next_id;
        let queue = self.queue(&job.served);
        if queue.is_flooded(&job.sizes) {
            let e = format!("{}: {ORDERS_MAX} other sizes wait to be compiled", job.served.name);
            let _ = job.reply.send(Err(Failure::new(Kind::Overloaded, e)));
            return;
        }
        let (rows, tail) = queue.split(&job.sizes);
        let (group, token) = queue.programs.enter(tail);
        job.token = Some(token);
        let (priority, arrived_us, deadline_us) = (job.priority, job.ticket.arrived_us, job.deadline_us);
        queue.batcher.push(Entry { id, group, rows, priority, arrived_us, deadline_us });
        queue.jobs.insert(id, job);
    }

    fn compiled(&mut self, served: Arc<Served>, sizes: &[usize], program: Answered<Arc<dyn Run>>) {
        let queue = self.queue(&served);
        match program {
            Ok(program) => {
                queue.ordered.remove(sizes);
                let (rows, tail) = queue.split(sizes);
                queue.programs.add(tail, rows, program);
            }
            Err(e) => {
                // Requests that no other program can run would wait for ever. They fail.
                queue.ordered.remove(sizes);
                let (rows, tail) = queue.split(sizes);
                let largest = queue.programs.largest(tail);
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
        let waiting: usize = self.queues.values().map(|q| q.batcher.len()).sum();
        if waiting > PATROL_MANY && now < self.patrolled_us + PATROL_MANY_US {
            return;
        }
        self.patrolled_us = now;
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
            let programs = &queue.programs;
            let plan = queue.batcher.next(now_us(), |g| programs.sizes(g));
            for (group, rows) in plan.compile {
                let sizes = queue.joined(group, rows);
                let is_allowed = queue.served.model.signature().dims.first().is_none_or(|d| d.check(sizes[0]).is_ok());
                let sizes = if is_allowed { sizes } else { queue.joined(group, queue.largest_waiting(group)) };
                if queue.ordered.insert(sizes.clone()) {
                    // Without a compiler there is no engine either.
                    let wanted = queue.programs.first_wanted(group);
                    let _ = self.orders.send(Order { served: queue.served.clone(), sizes, wanted });
                }
            }
            match plan.step {
                Step::Run(batch) => {
                    execute(queue, &batch, &self.to, self.busy_since_us);
                    self.ran_us = now_us();
                    self.busy_since_us = Some(self.ran_us);
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
        let tail = self.programs.tail(group);
        self.jobs.values().map(|j| self.split(&j.sizes)).filter(|(_, t)| *t == tail).map(|(r, _)| r).max().unwrap_or(1)
    }
}

/// Runs a batch and answers its requests. It costs what passes since `busy_since_us`, if that is stated.
fn execute(queue: &mut Queue, batch: &Batch, to: &Published, busy_since_us: Option<u64>) {
    let shared = &to.shared;
    let jobs: Vec<Box<Job>> = batch.ids.iter().filter_map(|id| queue.jobs.remove(id)).collect();
    let program = queue.programs.get(batch.group, batch.size).expect("a batch has a program").clone();
    let (served, stats) = (queue.served.clone(), queue.served.stats.clone());
    let begun = now_us();
    shared.busy_until_us.store(begun + queue.batcher.estimate_us(batch.size), Relaxed);
    shared.step_since_us.store(begun, Relaxed);
    for job in &jobs {
        job.ticket.start();
        stats.queue_us.fetch_add(begun.saturating_sub(job.ticket.arrived_us), Relaxed);
    }
    let is_whole = jobs.len() == 1 && batch.rows == batch.size;
    let inputs = join(&jobs, batch.size);
    let joined = now_us();
    let ran = program.run(&inputs);
    let done = now_us();
    drop(inputs);
    stats.executions.fetch_add(1, Relaxed);
    stats.sizes.record(batch.rows as u64);
    stats.padding.fetch_add((batch.size - batch.rows) as u64, Relaxed);
    stats.input_us.fetch_add(joined - begun, Relaxed);
    stats.infer_us.fetch_add(done - joined, Relaxed);
    let (mut first, mut replies) = (0, Vec::with_capacity(jobs.len()));
    // The answer still has to be written by a thread of the front end.
    let front_us = to.front.lag_us();
    let ready = done + front_us;
    queue.batcher.set_front_us(front_us);
    let outputs = ran.map(Arc::new).map_err(Failure::from);
    for job in jobs {
        let rows = if queue.is_batched() { job.sizes[0] } else { 1 };
        let range = (!is_whole).then(|| first..first + rows);
        first += rows;
        let mut answer = match &outputs {
            Ok(outputs) => Ok(Answer::new(outputs.clone(), range, batch.size, done)),
            Err(e) if is_whole => Err(e.clone()),
            // One request of the batch is to blame: each runs alone.
            Err(_) => alone(&*program, &job, batch.size),
        };
        if answer.is_ok() {
            stats.rows.fetch_add(rows as u64, Relaxed);
        }
        let Job { reply, ticket, direct, .. } = *job;
        queue.batcher.record_latency(ready.saturating_sub(ticket.arrived_us));
        // A client that has its answer finds its place in the queue free.
        drop(ticket);
        // While others wait, to run them is the engine's business.
        let is_idle = shared.jobs.load(Relaxed) == 0 && replies.is_empty() && !reply.is_closed();
        if let (true, Ok(answer), Some(direct)) = (is_idle, &mut answer, direct) {
            answer.sent = direct.send(answer);
        }
        replies.push((reply, answer));
    }
    // Without a runtime there is no client.
    let _ = to.answers.send(replies);
    let ended = now_us();
    queue.batcher.record_cost(batch.size, ended - busy_since_us.unwrap_or(begun));
    stats.output_us.fetch_add(ended - done, Relaxed);
    let full = queue.batcher.full_batch();
    let lane = &served.lanes[to.lane];
    lane.batch_us.store(full.us, Relaxed);
    lane.batch_spread_us.store(full.spread_us, Relaxed);
    lane.batch_rows.store(full.rows, Relaxed);
    lane.target_us.store(queue.batcher.target_us(), Relaxed);
    shared.step_since_us.store(0, Relaxed);
    shared.busy_until_us.store(0, Relaxed);
}
