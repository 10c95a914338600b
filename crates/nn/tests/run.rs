//! The state machine of a run under a seeded simulation of jobs, loaders, crashes and stops.

use cpu as _;
use data::random::Random;
use std::collections::BTreeMap;
use talweg_nn::train::{At, Event, Every, Facts, Goal, Length, Next, Plan, Question, Run, Stop, Task};

/// What a simulated world is like; scores and losses are functions of the step, so that runs can be compared.
#[derive(Clone, Debug)]
struct World {
    plan: Plan,
    batches: u64,
    /// Whether the loader can say its length.
    has_length: bool,
    facts: Facts,
    /// The step at which the job was asked to stop.
    stop_at: Option<u64>,
    /// Others do not wait for this worker after such steps.
    skips_after: Option<u64>,
    /// The others' workers write files at first.
    writes_after: u64,
}

impl World {
    fn of(seed: u64) -> World {
        let mut r = Random::new(seed, 0, 0);
        let every = |r: &mut Random| match r.below(4) {
            0 => None,
            1 => Some(Every::Epoch),
            _ => Some(Every::Steps(1 + r.below(5))),
        };
        let batches = 1 + r.below(6);
        let has_length = r.below(3) > 0;
        let (evaluate, save) = (every(&mut r), every(&mut r));
        let plan = Plan {
            length: if r.below(2) == 0 { Length::Steps(r.below(30)) } else { Length::Epochs(r.below(5)) },
            evaluate,
            save,
            keeps_best: r.below(2) == 0,
            goal: if r.below(2) == 0 { Goal::Min } else { Goal::Max },
            patience: (r.below(2) == 0).then(|| 1 + r.below(4)),
        };
        let has_store = has_length && r.below(3) == 0;
        World {
            plan,
            batches,
            has_length,
            facts: Facts { has_others: r.below(2) == 0, has_store, is_late: false },
            stop_at: (r.below(4) == 0).then(|| r.below(20)),
            skips_after: has_store.then(|| 1 + r.below(9)),
            writes_after: r.below(3) * r.below(8),
        }
    }
    /// NaN now and then.
    fn score(&self, step: u64) -> f64 {
        let mut r = Random::new(step, 1, 0);
        if r.below(9) == 0 { f64::NAN } else { r.below(1000) as f64 }
    }
    fn next_step(&self, done: u64) -> u64 {
        if self.skips_after.is_some_and(|n| done.is_multiple_of(n)) { done + 2 } else { done }
    }
}

/// A run that is driven, with everything it has done.
struct Driven {
    run: Run,
    /// Epoch and batch of each step that was done.
    steps: BTreeMap<u64, (u64, u64)>,
    evaluated: Vec<u64>,
    saved: Vec<(u64, At)>,
    tasks: Vec<Task>,
    last: Next,
}

impl Driven {
    fn new(world: &World, at: Option<At>) -> Driven {
        let mut run = Run::new(world.plan.clone());
        if let Some(at) = at {
            run.restore(at);
        }
        run.begin(world.has_length.then_some(world.batches));
        let last = Next::End(Stop::Done);
        Driven { run, steps: BTreeMap::new(), evaluated: Vec::new(), saved: Vec::new(), tasks: Vec::new(), last }
    }

    /// Returns the job's question.
    fn ask(&self, world: &World, question: Question) -> Event {
        let step = self.run.at().step;
        match question {
            Question::Enter(at) => {
                assert_eq!(at, step);
                Event::Done
            }
            Question::Facts => Event::Facts(world.facts),
            Question::Origin => Event::Origin(0, step),
            Question::WritesFiles => Event::Is(step >= world.writes_after),
            Question::StopAll => Event::Is(world.facts.has_others),
            Question::GoesOn(next) => {
                assert_eq!(next, step + 1);
                Event::Is(!(world.facts.has_others && world.stop_at.is_some_and(|at| step >= at)))
            }
            Question::Draw(at) => {
                assert_eq!(at, step);
                Event::Done
            }
            Question::Follow(done) => Event::Step(world.next_step(done)),
            Question::Settle(_) => Event::Is(world.facts.has_store),
            Question::Tell(..) | Question::Complete => Event::Done,
        }
    }

    /// Does the host's part.
    fn perform(&mut self, world: &World, task: Task) -> Event {
        let at = self.run.at();
        self.tasks.push(task);
        match task {
            Task::Batch if at.batch == world.batches => Event::EpochEnd,
            Task::Batch => {
                assert_eq!(at.epoch * world.batches + at.batch, at.step, "the data are elsewhere than the steps");
                Event::Batch(world.has_length.then_some(world.batches))
            }
            Task::Step => {
                assert!(self.steps.insert(at.step + 1, (at.epoch, at.batch)).is_none(), "step {} twice", at.step + 1);
                Event::Loss(1.0 / (at.step + 1) as f64, 4)
            }
            Task::Peek => Event::Is(at.batch + 1 < world.batches),
            Task::Report { loss, steps, ends_epoch } => {
                assert_eq!(loss, 1.0 / (at.step + 1 - steps) as f64);
                assert_eq!(ends_epoch, at.step.is_multiple_of(world.batches));
                Event::Done
            }
            Task::Evaluate => {
                assert!(!self.evaluated.contains(&at.step));
                self.evaluated.push(at.step);
                Event::Score(Some(world.score(at.step)))
            }
            Task::Save { score, is_last } => {
                assert!(at.step >= world.writes_after, "another worker writes files");
                assert_eq!(score.is_some(), self.evaluated.last() == Some(&at.step));
                assert!(is_last || !is_over(world, at) || score.is_some());
                self.run.note_saved();
                self.saved.push((at.step, at));
                Event::Done
            }
            Task::SaveLast => {
                if world.plan.save.is_some() && self.run.saved() != Some(at.step) && at.step >= world.writes_after {
                    self.run.note_saved();
                    self.saved.push((at.step, at));
                }
                Event::Done
            }
            _ => Event::Done,
        }
    }

    /// Goes on until the end, or through so many events.
    fn drive(&mut self, world: &World, events: usize) -> Option<Stop> {
        let mut event = Event::Done;
        for _ in 0..events {
            if world.stop_at.is_some_and(|at| self.run.at().step >= at) {
                self.run.stop();
            }
            self.last = self.run.next(event).unwrap();
            event = match self.last {
                Next::Ask(question) => self.ask(world, question),
                Next::Do(task) => self.perform(world, task),
                Next::End(stop) => return Some(stop),
            };
        }
        None
    }
}

fn is_over(world: &World, at: At) -> bool {
    match world.plan.length {
        Length::Steps(n) => at.step >= n,
        Length::Epochs(n) => at.epoch >= n,
    }
}
fn is_due(world: &World, every: Option<Every>, step: u64) -> bool {
    match every {
        None => false,
        Some(Every::Epoch) => step.is_multiple_of(world.batches),
        Some(Every::Steps(n)) => step.is_multiple_of(n),
    }
}
/// Everything that a run is allowed to depend on: NaN is equal to itself here.
fn text(at: At) -> String {
    format!("{at:?}")
}

const MANY: usize = 10_000;

#[test]
fn runs_evaluate_save_and_stop_when_they_should() {
    for seed in 0..2000 {
        let world = World::of(seed);
        let mut d = Driven::new(&world, None);
        let stop = d.drive(&world, MANY).unwrap_or_else(|| panic!("seed {seed}: the run does not end"));
        let at = d.run.at();
        let label = format!("seed {seed}: {world:?} ended {stop:?} {at:?}");
        match stop {
            Stop::Done => assert!(is_over(&world, at), "{label}"),
            Stop::Early => assert!(at.worse >= world.plan.patience.unwrap(), "{label}"),
            Stop::Interrupted => assert!(!is_over(&world, at) && at.step >= world.stop_at.unwrap(), "{label}"),
        }
        let reached: Vec<u64> = d.steps.keys().map(|&s| world.next_step(s)).collect();
        for &step in reached.iter().filter(|&&s| s < at.step) {
            let is_evaluated = d.evaluated.contains(&step);
            assert_eq!(is_evaluated, is_due(&world, world.plan.evaluate, step), "{label}: step {step}");
            if is_due(&world, world.plan.save, step) && step >= world.writes_after {
                assert!(d.saved.iter().any(|(s, _)| *s == step), "{label}: step {step} is not saved");
            }
        }
        // The best is that of all scores, and no NaN.
        let scores = d.evaluated.iter().map(|&s| (world.score(s), s)).filter(|(x, _)| !x.is_nan());
        let best = scores.reduce(|a, b| if world.plan.goal.is_better(b.0, a.0) { b } else { a });
        assert_eq!(at.best, best, "{label}");
        if world.plan.keeps_best && world.plan.save.is_some() {
            let is_kept = best.is_none_or(|(_, s)| s < world.writes_after || d.saved.iter().any(|(at, _)| *at == s));
            assert!(is_kept, "{label}: the best is not kept");
        }
        // The last state is saved, and the others are waited for between two attempts.
        let end: Vec<&Task> = d.tasks.iter().filter(|t| matches!(t, Task::SaveLast | Task::Finish)).collect();
        assert_eq!(end, [&Task::SaveLast, &Task::Finish, &Task::SaveLast], "{label}");
        if world.plan.save.is_some() && at.step >= world.writes_after {
            assert_eq!(d.saved.last().map(|(s, _)| *s), Some(at.step), "{label}");
        }
        assert_eq!(d.tasks.contains(&Task::Meet), d.tasks.contains(&Task::Batch) && joined(&world), "{label}");
    }
}
fn joined(world: &World) -> bool {
    world.facts.has_others || world.facts.has_store
}

#[test]
fn a_run_that_is_killed_anywhere_ends_as_one_that_was_not() {
    for seed in 0..1500 {
        let mut world = World::of(seed);
        (world.stop_at, world.writes_after) = (None, 0);
        let mut whole = Driven::new(&world, None);
        let expected = whole.drive(&world, MANY);
        let mut r = Random::new(seed, 7, 0);
        let (mut at, mut lives, mut done) = (None, 0, BTreeMap::new());
        loop {
            let mut d = Driven::new(&world, at);
            let stop = d.drive(&world, if lives < 4 { r.below(60) as usize } else { MANY });
            done.extend(d.steps.clone());
            // A checkpoint is all that the next life has.
            at = d.saved.last().map(|(_, at)| *at).or(at);
            lives += 1;
            if stop.is_some() {
                assert_eq!(stop, expected, "seed {seed}");
                assert_eq!(text(d.run.at()), text(whole.run.at()), "seed {seed}: {world:?}");
                break;
            }
        }
        assert_eq!(done, whole.steps, "seed {seed}");
    }
}

#[test]
fn a_worker_that_comes_late_takes_over_before_it_asks_the_store() {
    for (has_store, is_late, restored) in [(true, true, 0), (true, false, 6), (false, true, 0), (true, false, 0)] {
        let mut world = World::of(1);
        world.plan = Plan { length: Length::Steps(12), save: Some(Every::Steps(2)), ..world.plan };
        (world.batches, world.has_length, world.stop_at, world.skips_after) = (5, true, None, None);
        world.facts = Facts { has_others: true, has_store, is_late };
        let mut d = Driven::new(&world, (restored > 0).then_some(At { step: restored, ..At::default() }));
        let mut event = Event::Done;
        let mut seen = Vec::new();
        while !matches!(d.last, Next::Do(Task::Start(_))) {
            d.last = d.run.next(event).unwrap();
            event = match d.last {
                Next::Ask(Question::Origin) => Event::Origin(restored, 7),
                Next::Ask(Question::WritesFiles) => Event::Is(true),
                Next::Ask(question) => d.ask(&world, question),
                Next::Do(Task::TakeOver) => {
                    d.run.restore(At { step: 6, epoch: 1, batch: 1, ..At::default() });
                    Event::Done
                }
                _ => Event::Done,
            };
            if let Next::Do(task) = d.last {
                seen.push(task);
            }
        }
        use Task::*;
        let expected: &[Task] = match (has_store, is_late, restored) {
            (true, true, _) => &[Agree, TakeOver, Take, Seek, LoadResiduals, Start(false)],
            (true, false, 6) => &[Agree, Give, Take, Seek, LoadResiduals, CheckFolder, Start(false)],
            (true, false, _) => &[Agree, Seek, LoadResiduals, CheckFolder, Start(false)],
            _ => &[Agree, TakeOver, LoadResiduals, Start(true)],
        };
        assert_eq!(seen, expected);
        assert_eq!(d.run.at().step, if has_store { 7 } else { 6 });
        assert_eq!(d.run.at().batch, if has_store { 2 } else { 1 });
        assert_eq!(
            d.run.saved(),
            (restored > 0).then_some(6),
            "what was taken over is in no checkpoint of this worker"
        );
    }
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run() {
    let mut world = World::of(3);
    (world.plan.length, world.plan.patience) = (Length::Steps(9), None);
    (world.stop_at, world.skips_after) = (None, None);
    let mut d = Driven::new(&world, None);
    let mut event = Event::Done;
    loop {
        d.last = d.run.next(event).unwrap();
        event = match d.last {
            Next::Ask(question) => d.ask(&world, question),
            Next::Do(Task::Step) if d.run.at().step == 4 => Event::Loss(f64::NAN, 1),
            Next::Do(Task::Diverged(loss)) => {
                assert!(loss.is_nan() && d.run.at().step == 4);
                break;
            }
            Next::Do(task) => d.perform(&world, task),
            Next::End(_) => panic!("it went on"),
        };
    }
}

#[test]
fn an_answer_to_another_question_is_a_bug() {
    let mut d = Driven::new(&World::of(0), None);
    d.run.next(Event::Done).unwrap();
    let e = d.run.next(Event::Loss(1.0, 1)).unwrap_err();
    assert_eq!(e.kind, tensor::ErrorKind::Bug);
}
