//! A pool of threads for kernels: low wake-up cost, no allocation per call.
//!
//! [`parallel_for`] runs task indexes `0..tasks`, each exactly once, on the calling thread and on
//! the workers, and returns when all are done. Workers spin for a while after a job before they
//! sleep, because a kernel is usually followed by another one.
//!
//! Tasks are dealt out in equal stretches, the same thread's at every job with as many tasks: what a
//! task left in the caches of its processor, the task of that number in the next job finds there. A
//! thread that is done with its own stretch takes tasks from the ends of the others'.
//!
//! The caller decides how the work is split, by the size of the problem and never by the number
//! of threads: then results do not depend on how many threads there are.
//!
//! What it does not do: no futures, no jobs side by side, no priorities. A call from
//! inside a task, in a forked child, or while another thread's job is running, runs its tasks
//! inline.
//!
//! A logical device has a pool of its own ([`within`]), with as many threads as its share.

#![allow(unsafe_code)]

mod share;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

pub use share::within;

/// The name under which a build links threads.
pub const THREADS: &str = "threads";

/// The most threads the pool will use.
pub const THREADS_MAX: usize = 256;

/// How long an idle worker looks for new work before it sleeps: longer than the regions of a small
/// training step that one thread runs alone, as waking a worker costs about as much.
const SPIN: Duration = Duration::from_micros(150);

/// After so long of it, threads with something to do go first.
const SPIN_ALONE: Duration = Duration::from_micros(20);

type Task = dyn Fn(usize) + Sync;

/// What the workers are to do now. Written by the caller that holds `busy`, while the gate is
/// shut and no worker is inside; read by workers that are inside.
struct Job {
    task: UnsafeCell<Option<*const Task>>,
    /// How many of the stretches are in use.
    dealt: AtomicUsize,
    stretches: [Stretch; THREADS_MAX],
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Tasks `next..end` that are not taken yet, as one number: `next` above, `end` below. On lines
/// of its own, as its thread changes it all the time.
#[repr(align(128))]
struct Stretch(AtomicU64);

impl Stretch {
    fn set(&self, next: usize, end: usize) {
        self.0.store((next as u64) << 32 | end as u64, Relaxed);
    }
    /// Takes the first task, or the last.
    fn take(&self, is_first: bool) -> Option<usize> {
        let halves = |x: u64| (x >> 32, x & u64::from(u32::MAX));
        let rest = |x: u64| {
            let (next, end) = halves(x);
            (next < end).then(|| if is_first { x + (1 << 32) } else { x - 1 })
        };
        let (next, end) = halves(self.0.fetch_update(Relaxed, Relaxed, rest).ok()?);
        Some(if is_first { next } else { end - 1 } as usize)
    }
}

struct Pool {
    /// Held by the one caller whose job is running.
    busy: AtomicBool,
    /// Odd while a job may be entered; changes twice a job.
    gate: AtomicUsize,
    /// Workers that are inside the job.
    inside: AtomicUsize,
    job: Job,
    /// Workers started so far; grows only under `busy`.
    started: AtomicUsize,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    bell: Condvar,
    placement: Placement,
    /// The threads of a logical device; 0: all.
    share: AtomicUsize,
}

// SAFETY: the only field that is not `Sync` by itself is `job.task`. It is written only by the
// holder of `busy` while the gate is even, after `inside` was 0, and read only by workers that are
// counted in `inside` and have then seen the gate as odd as when they were woken (both sequentially
// consistent).
unsafe impl Sync for Pool {}
// SAFETY: the raw pointer in `job.task` is never followed outside the call that stored it.
unsafe impl Send for Pool {}

static POOL: Pool = Pool::new();

/// Keeps workers off the processor of the caller. Systems like to wake a thread where the one runs that wakes it; there
/// it waits for the end of the job that it should help with.
struct Placement {
    /// The processor that workers stay off.
    caller: AtomicUsize,
    /// The workers' threads as the system numbers them, 0 before they run.
    threads: [AtomicI32; THREADS_MAX],
}

#[cfg(target_os = "linux")]
impl Placement {
    /// Notes the calling thread as a worker.
    fn enter(&self, index: usize) {
        // SAFETY: asks for a number.
        self.threads[index].store(unsafe { libc::gettid() }, Relaxed);
        // Placed anew at the next job.
        self.caller.store(usize::MAX, Relaxed);
    }

    /// Moves workers off the calling thread's processor, where the caller was on another one so far.
    fn keep_apart(&self) {
        // SAFETY: asks for a number.
        let Ok(here) = usize::try_from(unsafe { libc::sched_getcpu() }) else { return };
        if self.caller.swap(here, Relaxed) == here {
            return;
        }
        // SAFETY: a set of processors is plain bits; it is written before it is read, and numbers outside of it are
        // not asked for.
        unsafe {
            let mut others = std::mem::zeroed::<libc::cpu_set_t>();
            let size = size_of_val(&others);
            if here >= 8 * size || libc::sched_getaffinity(0, size, &mut others) != 0 {
                return;
            }
            libc::CPU_CLR(here, &mut others);
            if libc::CPU_COUNT(&others) == 0 {
                return;
            }
            // A worker that cannot be moved is only slower.
            for thread in self.threads.iter().map(|t| t.load(Relaxed)).take_while(|&t| t > 0) {
                libc::sched_setaffinity(thread, size, &others);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Placement {
    fn enter(&self, _index: usize) {}
    fn keep_apart(&self) {}
}

/// 0: not chosen by [`set_threads`].
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// Set in a forked child: fork copies neither the workers nor their promise to let go of `lock`.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Has the children of a fork work without the pool, whose threads they do not have.
fn notice_forks() {
    #[cfg(unix)]
    {
        extern "C" fn child() {
            FORKED.store(true, Relaxed);
        }
        static ONCE: std::sync::Once = std::sync::Once::new();
        // SAFETY: the handler only stores to an atomic, which is allowed after a fork.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(child));
        });
    }
}

/// Threads that run programs now.
static SHARING: AtomicUsize = AtomicUsize::new(0);

/// A thread that runs a program, and shares the pool with others that do; made by [`share`].
pub struct Sharing(std::marker::PhantomData<*const ()>);

/// Counts this thread among those that run programs until the result is dropped: each gets its part of the threads, so
/// that programs side by side do not wait for each other's processors. A program inside of another does not count.
pub fn share() -> Option<Sharing> {
    if IS_SHARING.get() || INSIDE_TASK.get() {
        return None;
    }
    IS_SHARING.set(true);
    SHARING.fetch_add(1, Relaxed);
    Some(Sharing(std::marker::PhantomData))
}

impl Drop for Sharing {
    fn drop(&mut self) {
        IS_SHARING.set(false);
        SHARING.fetch_sub(1, Relaxed);
    }
}

thread_local! {
    static IS_SHARING: Cell<bool> = const { Cell::new(false) };
    static INSIDE_TASK: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads that work on one job, the caller included: what [`set_threads`] said,
/// else the environment variable `TALWEG_THREADS`, else the processors available.
pub fn threads() -> usize {
    if !const { ir::is_linked(THREADS) } {
        return 1;
    }
    match CHOSEN.load(Relaxed) {
        0 => default_threads(),
        n => n,
    }
}

/// Whether this is called from inside a task, where all work is done by the thread it is on.
pub fn is_inside_task() -> bool {
    INSIDE_TASK.get()
}

fn default_threads() -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let wanted =
            std::env::var("TALWEG_THREADS").ok().and_then(|v| v.trim().parse().ok()).filter(|&n: &usize| n > 0);
        let n = wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
        n.min(THREADS_MAX)
    })
}

/// Sets the number of threads for all later jobs; 0 returns to the default.
pub fn set_threads(n: usize) {
    CHOSEN.store(n.min(THREADS_MAX), Relaxed);
}

/// Runs `f(0)`, `f(1)`, … `f(tasks - 1)`, each exactly once, in any order and on any thread of
/// the pool, and returns when all are done. A panic in a task is raised again here; the
/// tasks that had not begun by then may be left out.
pub fn parallel_for(tasks: usize, f: &(dyn Fn(usize) + Sync)) {
    if !const { ir::is_linked(THREADS) } {
        return (0..tasks).for_each(f);
    }
    let (pool, threads) = match share::own() {
        Some(pool) => (pool, pool.most()),
        None => (&POOL, threads() / SHARING.load(Relaxed).max(1)),
    };
    let is_too_many = u32::try_from(tasks).is_err();
    if tasks <= 1 || threads <= 1 || is_too_many || INSIDE_TASK.get() || FORKED.load(Relaxed) {
        return (0..tasks).for_each(f);
    }
    if pool.busy.compare_exchange(false, true, Acquire, Relaxed).is_err() {
        return (0..tasks).for_each(f);
    }
    pool.start_workers(threads - 1);
    let panic = pool.run(tasks, threads, f);
    pool.busy.store(false, Release);
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
}

impl Pool {
    /// Runs a job; the caller holds `busy`.
    fn run(&self, tasks: usize, threads: usize, f: &(dyn Fn(usize) + Sync)) -> Option<Box<dyn Any + Send>> {
        // SAFETY: the gate is even, and the last job waited until no worker was inside that had found
        // it open, so no thread reads. (One that comes too late for the last job may be counted in
        // `inside` just now: it finds the gate changed and leaves.) The lifetime is erased only
        // until `shut` below has returned.
        unsafe {
            debug_assert!(self.gate.load(SeqCst).is_multiple_of(2));
            *self.job.task.get() = Some(std::mem::transmute::<&(dyn Fn(usize) + Sync), *const Task>(f));
        }
        let dealt = threads.min(tasks);
        self.job.dealt.store(dealt, Relaxed);
        for (s, stretch) in self.job.stretches[..dealt].iter().enumerate() {
            stretch.set(s * tasks / dealt, (s + 1) * tasks / dealt);
        }
        self.gate.fetch_add(1, SeqCst);
        let asleep = self.sleepers.load(SeqCst);
        if asleep > 0 {
            self.placement.keep_apart();
            drop(self.lock.lock());
            if tasks > asleep {
                self.bell.notify_all();
            } else {
                (1..tasks).for_each(|_| self.bell.notify_one());
            }
        }
        self.work(0, f);
        self.shut();
        self.job.panic.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    /// Shuts the gate and waits until no worker is inside. Workers that have not entered by now
    /// find the gate shut and are not waited for.
    fn shut(&self) {
        self.gate.fetch_add(1, SeqCst);
        let mut spins = 0u32;
        while self.inside.load(SeqCst) != 0 {
            spins += 1;
            if spins < 20_000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Takes tasks until none is left; `me` counts the caller and the workers.
    fn work(&self, me: usize, f: &(dyn Fn(usize) + Sync)) {
        let stretches = &self.job.stretches[..self.job.dealt.load(Relaxed)];
        let own = || stretches.get(me).and_then(|s| s.take(true));
        let others = || (1..=stretches.len()).find_map(|k| stretches[(me + k) % stretches.len()].take(false));
        INSIDE_TASK.set(true);
        while let Some(i) = own().or_else(others) {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(i))) {
                self.job.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(payload);
            }
        }
        INSIDE_TASK.set(false);
    }

    /// Starts workers until there are `wanted`; the caller holds `busy`. Fewer than wanted is
    /// not an error: the caller works too.
    fn start_workers(&'static self, wanted: usize) {
        notice_forks();
        while self.started.load(Relaxed) < wanted {
            let index = self.started.load(Relaxed);
            let builder = std::thread::Builder::new().name(format!("talweg-{index}"));
            if builder.spawn(move || self.worker(index)).is_err() {
                break;
            }
            self.started.store(index + 1, Relaxed);
        }
    }

    fn worker(&self, index: usize) {
        self.placement.enter(index);
        let mut seen = 0;
        loop {
            let was_asleep;
            (seen, was_asleep) = self.wait_for_gate(seen);
            // A job of few tasks has work for few: others do not even count themselves, as each that does costs the
            // caller time, unless they were woken for it. Read too early or late, the number only decides who helps.
            let has_own = index + 1 < self.job.dealt.load(Relaxed);
            if index + 1 >= self.most() || !(has_own || was_asleep) {
                continue;
            }
            self.inside.fetch_add(1, SeqCst);
            if self.gate.load(SeqCst) == seen {
                // SAFETY: this thread is counted in `inside` and has then seen the gate open, so
                // the caller is between opening it and the end of `shut`: `task` is set, nothing
                // writes it, and what it points to is alive.
                let f = unsafe { &*(*self.job.task.get()).expect("an open gate has a task") };
                self.work(index + 1, f);
            }
            self.inside.fetch_sub(1, SeqCst);
        }
    }

    /// Returns the gate's value when it is open and not `seen`, and whether this thread slept: it spins first.
    ///
    /// A thread that wakes up too late for its job spins again. Jobs shorter than a wake-up would otherwise follow each
    /// other without it for good.
    fn wait_for_gate(&self, seen: usize) -> (usize, bool) {
        let is_new = |g: usize| g % 2 == 1 && g != seen;
        loop {
            if let Some(g) = self.spin(is_new) {
                return (g, false);
            }
            let guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
            self.sleepers.fetch_add(1, SeqCst);
            // The caller opens the gate before it reads `sleepers`: one of the two sees the other.
            if !is_new(self.gate.load(SeqCst)) {
                drop(self.bell.wait(guard).unwrap_or_else(|e| e.into_inner()));
            }
            self.sleepers.fetch_sub(1, SeqCst);
            let g = self.gate.load(SeqCst);
            if is_new(g) {
                return (g, true);
            }
        }
    }

    /// Looks for an open gate for a while.
    fn spin(&self, is_new: impl Fn(usize) -> bool) -> Option<usize> {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                let g = self.gate.load(Acquire);
                if is_new(g) {
                    return Some(g);
                }
                std::hint::spin_loop();
            }
            match start.elapsed() {
                t if t > SPIN => return None,
                t if t > SPIN_ALONE => std::thread::yield_now(),
                _ => {}
            }
        }
    }
}

/// A pointer that tasks may share; each task must keep to its own part of what it points to.
#[derive(Clone, Copy)]
pub struct Shared<T>(*mut T);

// SAFETY: a promise of the code that dereferences it, inside `unsafe`, that tasks write disjoint
// parts.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Wraps a pointer.
    pub fn new(p: *mut T) -> Shared<T> {
        Shared(p)
    }

    /// The pointer.
    pub fn get(self) -> *mut T {
        self.0
    }

    /// The elements `start..start + len`.
    ///
    /// # Safety
    /// They must lie inside one live allocation, be initialized, and be used by no other thread
    /// while the slice lives.
    pub unsafe fn slice<'a>(self, start: usize, len: usize) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn counts(tasks: usize) -> Vec<u32> {
        let c: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
        parallel_for(tasks, &|i| {
            c[i].fetch_add(1, SeqCst);
        });
        c.iter().map(|x| x.load(SeqCst)).collect()
    }

    #[test]
    fn each_task_runs_once() {
        set_threads(4);
        for round in 0..2000 {
            let n = round % 37;
            assert_eq!(counts(n), vec![1; n]);
        }
        // Long enough for the workers to fall asleep.
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(counts(9), vec![1; 9]);
        }
    }

    /// Short jobs ran on one processor: their worker was woken on that of the caller.
    #[cfg(target_os = "linux")]
    #[test]
    fn workers_stay_off_the_processor_of_the_caller() {
        fn allowed() -> Vec<usize> {
            // SAFETY: a set of processors is plain bits, written before they are read.
            unsafe {
                let mut set = std::mem::zeroed::<libc::cpu_set_t>();
                assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
                (0..8 * size_of_val(&set)).filter(|&p| libc::CPU_ISSET(p, &set)).collect()
            }
        }
        let placement =
            Placement { caller: AtomicUsize::new(usize::MAX), threads: [const { AtomicI32::new(0) }; THREADS_MAX] };
        let (entered, placed) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let all = allowed();
        let left = std::thread::scope(|s| {
            let worker = s.spawn(|| {
                placement.enter(0);
                entered.wait();
                placed.wait();
                allowed()
            });
            entered.wait();
            placement.keep_apart();
            placed.wait();
            worker.join().unwrap()
        });
        let caller = placement.caller.load(Relaxed);
        let others: Vec<usize> = all.iter().copied().filter(|&p| p != caller).collect();
        assert_eq!(left, if others.is_empty() { all.clone() } else { others });
        assert_eq!(allowed(), all, "the caller may run anywhere");
    }

    #[test]
    fn a_stretch_is_taken_from_both_ends_once() {
        let s = Stretch(AtomicU64::new(0));
        assert_eq!((s.take(true), s.take(false)), (None, None));
        s.set(3, 7);
        let taken = [true, false, false, true, false].map(|first| s.take(first));
        assert_eq!(taken, [Some(3), Some(6), Some(5), Some(4), None]);
    }

    /// A worker that was woken for a job and comes when it is over is counted for a moment, perhaps
    /// while the next job begins: that ended the program where debug assertions were on.
    #[test]
    fn workers_that_come_late_do_no_harm() {
        set_threads(4);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !is_done.load(SeqCst) {
                    // What `worker` does when it finds the gate changed.
                    POOL.inside.fetch_add(1, SeqCst);
                    POOL.inside.fetch_sub(1, SeqCst);
                }
            });
            let all = (0..2000).map(|_| counts(5)).collect::<Vec<_>>();
            is_done.store(true, SeqCst);
            assert!(all.iter().all(|c| *c == [1; 5]));
        });
    }

    #[test]
    fn concurrent_callers_and_nesting() {
        set_threads(4);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..300 {
                        let total = AtomicUsize::new(0);
                        parallel_for(5, &|_| {
                            parallel_for(7, &|j| {
                                total.fetch_add(j, SeqCst);
                            });
                        });
                        assert_eq!(total.load(SeqCst), 5 * 21);
                    }
                });
            }
        });
    }

    #[test]
    fn programs_side_by_side_share_the_threads() {
        let (first, again) = (share(), share());
        assert!(first.is_some() && again.is_none(), "a program inside of another does not count");
        let is_other = std::thread::spawn(|| share().is_some()).join().expect("the thread ends");
        assert!(is_other);
        drop(first);
        assert!(share().is_some());
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        set_threads(4);
        let ran = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            parallel_for(8, &|i| {
                ran.fetch_add(1, SeqCst);
                assert!(i != 3, "task three");
            })
        }));
        let message = caught.expect_err("the panic is passed on");
        assert!(message.downcast_ref::<&str>().is_some_and(|m| m.contains("task three")));
        assert_eq!(counts(16), vec![1; 16]);
    }
}
