//! Random schedules keep the invariants of the KV cache, starve no sequence, and give every sequence the tokens it would
//! get alone.

use std::collections::BTreeMap;
use talweg_llm::engine::{Config, Finish, Request, RequestId, Scheduler, Sequence, Step};

/// A small generator: the schedules are those of their seed on every machine.
struct Random(u64);
impl Random {
    fn next(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A model: the next token is a function of all tokens before it. It reads them from the KV cache, as attention does,
/// so that a block that is shared wrongly or overwritten changes what it says.
struct Model {
    block_tokens: usize,
    memory: Vec<Option<u32>>,
}

impl Model {
    fn next(tokens: &[u32]) -> u32 {
        tokens.iter().fold(17u32, |h, t| h.rotate_left(5).wrapping_mul(31) ^ t) % 50
    }
    fn slot(&self, s: &Sequence, i: usize) -> usize {
        s.blocks()[i / self.block_tokens].0 as usize * self.block_tokens + i % self.block_tokens
    }
    /// Begins a step before its tokens are known: what it writes is right only if the sequence goes on.
    fn begin(&mut self, scheduler: &Scheduler, step: &Step) {
        for w in &step.work {
            let at = self.slot(scheduler.sequence(w.id).unwrap(), w.start);
            self.memory[at] = Some(u32::MAX);
        }
    }
    fn run(&mut self, scheduler: &Scheduler, step: &Step) -> Vec<u32> {
        let mut out = Vec::new();
        for w in &step.work {
            let s = scheduler.sequence(w.id).unwrap();
            for i in w.start..w.start + w.count {
                let at = self.slot(s, i);
                self.memory[at] = Some(s.tokens()[i]);
            }
            if w.samples {
                let seen: Vec<u32> = (0..s.tokens().len()).map(|i| self.memory[self.slot(s, i)].unwrap()).collect();
                assert_eq!(seen, s.tokens(), "the KV of {:?} is its own", w.id);
                out.push(Model::next(&seen));
            }
        }
        out
    }
}

/// What a request gives alone.
fn alone(r: &Request, length_max: usize) -> (Vec<u32>, Finish) {
    let mut tokens = r.prompt.clone();
    loop {
        let t = Model::next(&tokens);
        tokens.push(t);
        let generated = tokens.len() - r.prompt.len();
        if r.stops.contains(&t) {
            return (tokens, Finish::Stop);
        }
        if generated >= r.tokens_max || tokens.len() >= length_max {
            return (tokens, Finish::Length);
        }
    }
}

fn simulate(seed: u64) -> (u32, usize, usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let block_tokens = 1 + random.next(8);
    let length_max = 8 + random.next(56);
    let config = Config {
        tokens_max: 1 + random.next(40),
        sequences_max: 1 + random.next(8),
        block_tokens,
        chunk_max: 1 + random.next(32),
        length_max,
    };
    // Little more than the longest sequence fits, or less.
    let blocks =
        (length_max.div_ceil(block_tokens) + random.next(6)).saturating_sub(2).max(8usize.div_ceil(block_tokens));
    let mut scheduler = Scheduler::new(config, blocks);
    let length_max = length_max.min(blocks * block_tokens);
    let mut model = Model { block_tokens, memory: vec![None; blocks * block_tokens] };
    let mut open: BTreeMap<RequestId, Request> = BTreeMap::new();
    let (mut to_come, mut idle, mut preempted, mut cached) = (20 + random.next(20), 0, 0, 0);
    let (mut ahead, mut early): (Option<Step>, usize) = (None, 0);
    let prefix: Vec<u32> = (0..length_max as u32 / 2).collect();
    while to_come > 0 || !open.is_empty() {
        if to_come > 0 && random.next(3) == 0 {
            to_come -= 1;
            let shared = random.next(prefix.len() + 1);
            let own = 1 + random.next((length_max - 1 - shared).max(1));
            let prompt: Vec<u32> =
                prefix[..shared].iter().copied().chain((0..own).map(|_| random.next(50) as u32)).collect();
            let request = Request {
                prompt: prompt[..prompt.len().min(length_max - 1)].to_vec(),
                tokens_max: 1 + random.next(20),
                stops: vec![random.next(50) as u32],
                priority: random.next(3) as i32,
                salt: vec![random.next(2) as u8],
            };
            open.insert(scheduler.add(request.clone()).unwrap(), request);
        }
        scheduler.set_prefill_max(1 + random.next(40));
        let mut step = ahead.take().unwrap_or_default();
        step.work.retain(|w| scheduler.sequence(w.id).is_some());
        if step.work.is_empty() {
            step = scheduler.schedule();
        }
        scheduler.check();
        preempted += step.preempted.len() as u32;
        let sampled = model.run(&scheduler, &step);
        if random.next(3) > 0
            && let Some((next, rows)) = scheduler.follow(&step)
        {
            assert!(next.work.iter().zip(rows).all(|(w, row)| w.id == step.work[row].id));
            model.begin(&scheduler, &next);
            ahead = Some(next);
            early += 1;
        }
        // Clients go away while the step is computed.
        if random.next(20) == 0
            && let Some(id) = open.keys().nth(random.next(open.len().max(1))).copied()
        {
            open.remove(&id);
            assert!(scheduler.finish(id).is_some());
        }
        for (id, why) in scheduler.complete(&step, &sampled) {
            let s = scheduler.finish(id).unwrap();
            cached += s.cached();
            let request = open.remove(&id).unwrap();
            assert_eq!((s.tokens().to_vec(), why), alone(&request, length_max), "seed {seed}, {id:?}");
            assert_eq!(s.generated(), &s.tokens()[request.prompt.len()..]);
        }
        scheduler.check();
        idle = if step.work.is_empty() { idle + 1 } else { 0 };
        assert!(open.is_empty() || idle < 4, "seed {seed}: nothing runs, but {} wait", open.len());
    }
    assert_eq!(scheduler.counts(), (0, 0));
    assert_eq!(scheduler.pool().usage(), 0.0);
    (preempted, cached, early)
}

#[test]
fn a_thousand_random_schedules_keep_the_invariants() {
    let (mut preempted, mut cached, mut early) = (0, 0, 0);
    for seed in 0..1000 {
        let (p, c, e) = simulate(seed);
        preempted += p;
        cached += c;
        early += e;
    }
    // The simulation reaches what it is for.
    assert!(preempted > 100 && cached > 1000, "{preempted} preemptions, {cached} shared tokens");
    assert!(early > 1000, "{early} steps that began early");
}

#[test]
fn requests_that_cannot_run_are_refused() {
    let config = Config { tokens_max: 8, sequences_max: 2, block_tokens: 4, chunk_max: 8, length_max: 16 };
    let mut s = Scheduler::new(config, 2);
    let request = |n: usize, tokens_max: usize| Request {
        prompt: vec![1; n],
        tokens_max,
        stops: vec![],
        priority: 0,
        salt: vec![],
    };
    assert!(s.add(request(0, 1)).unwrap_err().contains("no token"));
    assert!(s.add(request(3, 0)).unwrap_err().contains("generated"));
    assert!(s.add(request(8, 1)).unwrap_err().contains("at most 7 fit"), "the KV cache has two blocks of four");
    assert!(Scheduler::new(config, 9).add(request(16, 1)).unwrap_err().contains("at most 15 fit"));
    s.add(request(7, 4)).unwrap();
}
