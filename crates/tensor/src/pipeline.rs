//! Runs the stages of a pipeline on one rank: its actions, and the values it passes, in the order of a schedule.
//!
//! All ranks know one order of everything that is passed in a step: when the schedule's clock says that it is computed.
//! Each rank sends and receives in that order, so that no two ranks wait for each other, whatever links can buffer. A
//! thread of the process does so while the parts run, unless the plan wants no overlap.

mod bytes;

use crate::plan::Pipe;
use ir::{Buffer, Error, Graph, Layout, Literal, Pending, Result, Site, Slot, Type};
use ops::collective::{Arriving, Ranks};
use parking_lot::Mutex;
use passes::partition::Exchange;
use passes::partition::time::Mark;
use passes::stage::{Gathered, Part, Pass, RankPrograms, Source, Staged};
use runtime::{Engine, Program, Revision, trace};
use rustc_hash::{FxHashMap, FxHashSet};
use sim::{Kind, Part as Phase, Schedule};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Run { stage: usize, pass: Pass, micro: usize },
    Send { passed: usize, micro: usize },
    Receive { passed: usize, micro: usize },
}

impl Item {
    fn micro(&self) -> usize {
        match *self {
            Item::Run { micro, .. } | Item::Send { micro, .. } | Item::Receive { micro, .. } => micro,
        }
    }
}

/// A pipeline, as one of its ranks runs it.
pub(crate) struct Pipeline {
    pub staged: Arc<Staged>,
    pipe: Pipe,
    rank: usize,
    /// The pair of this rank and each other one.
    pairs: Vec<Option<Ranks>>,
    /// Whether values are sent and received while it computes.
    is_meanwhile: bool,
    list: Vec<Item>,
    /// How often this rank uses a value of a microbatch that a stage computes.
    uses: FxHashMap<(Slot, usize), usize>,
    /// What each part gives to sums over microbatches, and to values that consist of their parts.
    gathered: FxHashMap<(usize, Pass), Vec<Gathered>>,
    programs: Mutex<Vec<(String, Revision, Arc<Programs>)>>,
    /// The most microbatches of which it held values at once.
    peak: AtomicUsize,
}

/// The programs of a rank on one device.
struct Programs {
    before: Arc<dyn Program>,
    during: FxHashMap<(usize, Pass), Arc<dyn Program>>,
    /// Those of all microbatches but the first, for parts that give something to sums: they add to it. With what they
    /// answer before the sums.
    adding: FxHashMap<(usize, Pass), (Arc<dyn Program>, Vec<Slot>)>,
    joins: FxHashMap<Slot, Arc<dyn Program>>,
    after: Vec<Arc<dyn Program>>,
}

/// The parts of a microbatch, and what a rank knows of it, with how often it is still used.
type Held = FxHashMap<(Slot, usize), (Value, usize)>;

/// A value that a rank has, or that was not sent yet when it asked for it.
enum Value {
    Here(Buffer),
    Arriving(Option<Arriving>),
}

impl Value {
    /// The value, once it is there.
    fn get(&mut self) -> Result<Buffer> {
        if let Value::Arriving(waiting) = self {
            let waiting = waiting.take().ok_or_else(|| Error::bug("a value that did not arrive is used"))?;
            *self = Value::Here(Buffer::Host(timed(waits, || waiting.wait())?));
        }
        let Value::Here(b) = self else { return Err(Error::bug("it arrived above")) };
        Ok(b.clone())
    }
}

fn waits() -> String {
    "wait".to_string()
}

fn pass_of(part: Phase) -> Pass {
    match part {
        Phase::Forward => Pass::Forward,
        Phase::Backward => Pass::Backward,
        Phase::Weights => Pass::Weights,
    }
}

impl Pipeline {
    pub fn new(
        staged: Arc<Staged>,
        pipe: Pipe,
        rank: usize,
        pairs: Vec<Option<Ranks>>,
        is_meanwhile: bool,
    ) -> Result<Pipeline> {
        let bad = |e: sim::Error| Error::value(e.0).in_op("schedule");
        let schedule = sim::generate(pipe.kind, pipe.ranks, pipe.micros).map_err(bad)?;
        let held = matches!(pipe.kind, Kind::OneForwardOneBackward | Kind::ZeroBubble).then_some(pipe.ranks);
        sim::verify(&schedule, held).map_err(bad)?;
        let list = items(&schedule, &staged, pipe, rank).map_err(bad)?;
        let mut uses: FxHashMap<(Slot, usize), usize> = FxHashMap::default();
        for source in staged.ranks[rank].during.values().flat_map(|p| &p.inputs) {
            if let Source::Held(s, stage) = source {
                *uses.entry((*s, *stage)).or_default() += 1;
            }
        }
        for p in staged.passed.iter().filter(|p| p.stage % pipe.ranks == rank) {
            *uses.entry((p.value, p.stage)).or_default() += 1;
        }
        let mut gathered: FxHashMap<(usize, Pass), Vec<Gathered>> = FxHashMap::default();
        for (key, part) in &staged.ranks[rank].during {
            let outputs: FxHashSet<Slot> = part.outputs.iter().copied().collect();
            let is_here = |g: &&Gathered| g.stage == key.0 && outputs.contains(&g.of);
            gathered.insert(*key, staged.gathered.iter().filter(is_here).copied().collect());
        }
        let (programs, peak) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Pipeline { staged, pipe, rank, pairs, is_meanwhile, list, uses, gathered, programs, peak })
    }

    fn own(&self) -> &RankPrograms {
        &self.staged.ranks[self.rank]
    }
    /// Whether this rank needs an input.
    pub fn needs(&self, input: usize) -> bool {
        self.own().inputs[input]
    }
    /// The most microbatches of which it held values at once.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Compiles its programs, unless that was done.
    pub fn compile(&self, engine: &Engine, exchange: &dyn Exchange) -> Result<()> {
        self.programs(engine, exchange).map(|_| ())
    }
    fn programs(&self, engine: &Engine, exchange: &dyn Exchange) -> Result<Arc<Programs>> {
        let (device, revision) = (engine.device().name().to_string(), engine.revision());
        let mut all = self.programs.lock();
        if let Some((_, _, found)) = all.iter().find(|(d, r, _)| *d == device && *r == revision) {
            return Ok(found.clone());
        }
        let own = self.own();
        let mut made = Programs {
            before: engine.compile(&own.before.graph)?,
            during: FxHashMap::default(),
            adding: FxHashMap::default(),
            joins: FxHashMap::default(),
            after: own.after.iter().map(|p| engine.compile(&p.graph)).collect::<Result<_>>()?,
        };
        for (&(stage, pass), part) in &own.during {
            made.during.insert((stage, pass), engine.compile(&part.graph)?);
            let list = &self.gathered[&(stage, pass)];
            if list.iter().any(|g| matches!(g.mark, Mark::Sum(_))) && self.pipe.micros > 1 {
                let (graph, answers) = self.adding(part, (stage, pass), exchange)?;
                made.adding.insert((stage, pass), (engine.compile(&graph)?, answers));
            }
            for g in list {
                if let Mark::Join(dim) = g.mark {
                    let mut graph = Graph::new();
                    let ty = self.staged.graph.ty(g.of);
                    let parts: Vec<Slot> = (0..self.pipe.micros).map(|_| graph.input("", ty, Site::UNKNOWN)).collect();
                    let all = exchange.concat(&mut graph, &parts, dim, Site::UNKNOWN)?;
                    graph.outputs.push(all);
                    made.joins.insert(g.into, engine.compile(&graph)?);
                }
            }
        }
        let made = Arc::new(made);
        all.retain(|(d, ..)| *d != device);
        all.push((device, revision, made.clone()));
        Ok(made)
    }
    /// Whether a value that a part answers is needed by itself, not in a sum alone.
    fn is_kept(&self, s: Slot, (stage, pass): (usize, Pass)) -> bool {
        let is_joined = |g: &Gathered| g.of == s && matches!(g.mark, Mark::Join(_));
        self.uses.contains_key(&(s, stage)) || self.gathered[&(stage, pass)].iter().any(is_joined)
    }
    /// What a part of this rank runs as in all microbatches but the first, if it adds to sums.
    pub fn adding_graph(&self, key: (usize, Pass), exchange: &dyn Exchange) -> Result<Option<Graph>> {
        let adds = self.pipe.micros > 1 && self.gathered[&key].iter().any(|g| matches!(g.mark, Mark::Sum(_)));
        adds.then(|| self.adding(&self.own().during[&key], key, exchange).map(|a| a.0)).transpose()
    }
    /// A part that takes the sums so far behind its inputs, and gives the next sums, in the same memory, behind what else
    /// is needed of it.
    fn adding(&self, part: &Part, key: (usize, Pass), exchange: &dyn Exchange) -> Result<(Graph, Vec<Slot>)> {
        let mut g = part.graph.clone();
        let outputs = std::mem::take(&mut g.outputs);
        let mut answers = Vec::new();
        for (&s, &at) in part.outputs.iter().zip(&outputs).filter(|(s, _)| self.is_kept(**s, key)) {
            answers.push(s);
            g.outputs.push(at);
        }
        for gathered in &self.gathered[&key] {
            let Mark::Sum(how) = gathered.mark else { continue };
            let place = part.outputs.iter().position(|s| *s == gathered.of);
            let term = outputs[place.ok_or_else(|| Error::bug("a term of a sum that its part does not answer"))?];
            let (ty, site) = (g.ty(term).clone(), g.node(term).site);
            let so_far = g.input("", &ty, site);
            let next = exchange.combine(&mut g, so_far, term, how, site)?;
            g.updates.push((g.inputs.len() as u32 - 1, g.outputs.len() as u32));
            g.outputs.push(next);
        }
        Ok((g, answers))
    }

    /// One step: from the inputs of the graph to its outputs. What this rank does not store is empty. Variables without
    /// other owners are updated where they are; if the step fails before, they are as they were.
    pub fn run(&self, engine: &Engine, exchange: &dyn Exchange, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        let programs = self.programs(engine, exchange)?;
        let input = |k: usize| Slot::new(self.staged.graph.inputs[k] as usize, 0);
        let mut once: FxHashMap<Slot, Buffer> = FxHashMap::default();
        for (k, b) in inputs.iter_mut().enumerate() {
            let is_here = self.staged.owners[k].is_none_or(|o| o == self.rank);
            if self.needs(k) && is_here {
                once.insert(input(k), std::mem::replace(b, nothing()));
            }
        }
        let done = self.step(&programs, &mut once);
        if done.is_err() {
            for (k, b) in inputs.iter_mut().enumerate() {
                if let Some(left) = once.remove(&input(k)) {
                    *b = left;
                }
            }
            // The others wait for what this rank does not send any more.
            self.pairs.iter().flatten().for_each(|pair| pair.0.0.abandon());
        }
        done
    }
    fn step(&self, programs: &Programs, once: &mut FxHashMap<Slot, Buffer>) -> Result<Vec<Buffer>> {
        self.pass_once(0, once)?;
        run_once(&self.own().before, &programs.before, once, |_| false)?;
        self.microbatches(programs, once)?;
        let levels = self.staged.passed_once.iter().map(|p| p.level).max().unwrap_or(0);
        for level in 0..levels.max(programs.after.len()) {
            if let Some(program) = programs.after.get(level) {
                run_once(&self.own().after[level], program, once, |s| self.is_over(s, level))?;
            }
            self.pass_once(level + 1, once)?;
        }
        let outputs = &self.staged.graph.outputs;
        Ok(outputs.iter().map(|s| once.get(s).cloned().unwrap_or_else(nothing)).collect())
    }
    /// Whether nothing needs a value any more once a part of the end has run.
    fn is_over(&self, s: Slot, level: usize) -> bool {
        let is_read = self.own().after.iter().skip(level + 1).any(|p| p.inputs.contains(&Source::Once(s)));
        let is_passed = self.staged.passed_once.iter().any(|p| p.value == s && p.from == self.rank && p.level > level);
        !is_read && !is_passed && !self.staged.graph.outputs.contains(&s)
    }

    fn microbatches(&self, programs: &Programs, once: &mut FxHashMap<Slot, Buffer>) -> Result<()> {
        let mut held: Vec<Held> = (0..self.pipe.micros).map(|_| Held::default()).collect();
        let mut sums: FxHashMap<(usize, Pass), (usize, Vec<Buffer>)> = FxHashMap::default();
        let mut parts: FxHashMap<Slot, Vec<Buffer>> = FxHashMap::default();
        let mut sent: VecDeque<(usize, Box<dyn Pending>)> = VecDeque::new();
        for item in &self.list {
            match *item {
                Item::Send { passed, micro } => {
                    let p = &self.staged.passed[passed];
                    let value = self.used(&mut held[micro], (p.value, p.stage))?;
                    if self.is_meanwhile {
                        // Ranks that are much faster than the next do not fill their memory.
                        while sent.front().is_some_and(|(earlier, _)| earlier + 1 < micro) {
                            sent.pop_front().map_or(Ok(()), |(_, mut pending)| timed(waits, || pending.wait()))?;
                        }
                        let pair = self.pair(p.to)?;
                        sent.push_back((micro, pair.begin_send(value.read()?, 1 - pair.rank())));
                    } else {
                        self.send(&value, p.to)?;
                    }
                }
                Item::Receive { passed, micro } => {
                    let p = &self.staged.passed[passed];
                    let from = p.stage % self.pipe.ranks;
                    let value = if self.is_meanwhile {
                        let (pair, ty) = (self.pair(from)?, self.staged.graph.ty(p.value).clone());
                        Value::Arriving(Some(pair.begin_receive(ty, 1 - pair.rank())))
                    } else {
                        Value::Here(Buffer::Host(self.receive(p.value, from)?))
                    };
                    self.hold(&mut held[micro], (p.value, p.stage), value);
                }
                Item::Run { stage, pass, micro } => {
                    let Some(part) = self.own().during.get(&(stage, pass)) else { continue };
                    let mut inputs = Vec::with_capacity(part.inputs.len());
                    for (source, &i) in part.inputs.iter().zip(&part.graph.inputs) {
                        inputs.push(match *source {
                            Source::Held(s, from) => self.used(&mut held[micro], (s, from))?,
                            Source::Once(s) => known(once, s)?.clone(),
                            Source::Take(s, dim) => {
                                self.taken(known(once, s)?, dim, micro, &part.graph.nodes[i as usize].outs[0])?
                            }
                            Source::First(s) if micro == 0 => known(once, s)?.clone(),
                            Source::First(_) => {
                                let ty = &part.graph.nodes[i as usize].outs[0];
                                Buffer::Host(Literal::zeros(ty.dtype, ty.shape.clone()))
                            }
                        });
                    }
                    let (count, so_far) = sums.entry((stage, pass)).or_default();
                    if *count != micro {
                        return Err(Error::bug(format!("microbatch {micro} comes after {count} others")));
                    }
                    *count += 1;
                    let gathered = &self.gathered[&(stage, pass)];
                    let name = || format!("{pass:?} of microbatch {micro} in stage {stage}").to_lowercase();
                    let given: FxHashMap<Slot, Buffer> = match programs.adding.get(&(stage, pass)) {
                        Some((program, answers)) if micro > 0 => {
                            inputs.append(so_far);
                            let mut outputs = timed(name, || program.run(&mut inputs))?;
                            *so_far = outputs.split_off(answers.len());
                            answers.iter().copied().zip(outputs).collect()
                        }
                        _ => {
                            let outputs = timed(name, || programs.during[&(stage, pass)].run(&mut inputs))?;
                            let mut given: FxHashMap<Slot, Buffer> =
                                part.outputs.iter().copied().zip(outputs).collect();
                            for g in gathered.iter().filter(|g| matches!(g.mark, Mark::Sum(_))) {
                                so_far.push(known(&given, g.of)?.clone());
                            }
                            // Their memory is that of the sums.
                            given.retain(|s, _| self.is_kept(*s, (stage, pass)));
                            given
                        }
                    };
                    drop(inputs);
                    for g in gathered.iter().filter(|g| matches!(g.mark, Mark::Join(_))) {
                        parts.entry(g.into).or_default().push(known(&given, g.of)?.clone());
                    }
                    for (s, b) in given {
                        self.hold(&mut held[micro], (s, stage), Value::Here(b));
                    }
                }
            }
            let now = held.iter().filter(|h| !h.is_empty()).count();
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
        sent.into_iter().try_for_each(|(_, mut pending)| timed(waits, || pending.wait()))?;
        for (key, (_, values)) in sums {
            let sums = self.gathered[&key].iter().filter(|g| matches!(g.mark, Mark::Sum(_)));
            once.extend(sums.map(|g| g.into).zip(values));
        }
        for (into, mut list) in parts {
            let joined = programs.joins[&into].run(&mut list)?;
            once.extend(joined.into_iter().map(|b| (into, b)));
        }
        if held.iter().any(|h| !h.is_empty()) {
            return Err(Error::bug("unused values of a microbatch"));
        }
        Ok(())
    }

    /// Keeps a value as long as it is used.
    fn hold(&self, held: &mut Held, key: (Slot, usize), value: Value) {
        if let Some(&uses) = self.uses.get(&key) {
            held.insert(key, (value, uses));
        }
    }
    /// A value for one of its uses; the last one takes it away.
    fn used(&self, held: &mut Held, key: (Slot, usize)) -> Result<Buffer> {
        let lost = || Error::bug("a value of a microbatch is used before it is there");
        let (value, uses) = held.get_mut(&key).ok_or_else(lost)?;
        *uses -= 1;
        if *uses > 0 {
            return value.get();
        }
        held.remove(&key).ok_or_else(lost).and_then(|(mut value, _)| value.get())
    }
    /// The part of a microbatch.
    fn taken(&self, whole: &Buffer, dim: usize, micro: usize, ty: &Type) -> Result<Buffer> {
        let whole = whole.read()?;
        let strides = whole.shape().strides();
        let offset = micro * ty.shape[dim] * strides[dim] as usize;
        if ty.shape[..dim].iter().all(|n| *n == 1) {
            let size = ty.dtype.size();
            let bytes = &whole.bytes()[offset * size..][..ty.bytes()];
            return Ok(Buffer::Host(Literal::from_bytes(ty.dtype, ty.shape.clone(), bytes)?));
        }
        Ok(Buffer::Host(whole.gather(&Layout { shape: ty.shape.clone(), strides, offset })))
    }

    fn pair(&self, other: usize) -> Result<&Ranks> {
        self.pairs[other].as_ref().ok_or_else(|| Error::bug("a rank passes nothing to itself"))
    }
    fn send(&self, value: &Buffer, to: usize) -> Result<()> {
        let pair = self.pair(to)?;
        pair.send_value(&value.read()?, 1 - pair.rank())
    }
    fn receive(&self, value: Slot, from: usize) -> Result<Literal> {
        let pair = self.pair(from)?;
        pair.receive_value(self.staged.graph.ty(value), 1 - pair.rank())
    }
    fn pass_once(&self, level: usize, once: &mut FxHashMap<Slot, Buffer>) -> Result<()> {
        for p in self.staged.passed_once.iter().filter(|p| p.level == level) {
            if p.from == self.rank {
                timed(waits, || self.send(known(once, p.value)?, p.to))?;
            } else if p.to == self.rank {
                let got = timed(waits, || self.receive(p.value, p.from))?;
                once.insert(p.value, Buffer::Host(got));
            }
        }
        Ok(())
    }

    /// For people: the stages, and what is passed.
    pub fn text(&self, names: &dyn Fn(usize) -> String) -> String {
        let (g, ranks) = (&self.staged.graph, self.pipe.ranks);
        let total: f64 = self.staged.work.iter().sum();
        let mut out = String::new();
        for (s, work) in self.staged.work.iter().enumerate() {
            let own = (0..g.inputs.len()).filter(|&k| self.staged.stage_of[k] == Some(s));
            let own: Vec<String> = own.map(names).collect();
            let list = match &own[..] {
                [first, _, _, .., last] => format!("{first} … {last} ({})", own.len()),
                few => few.join(" "),
            };
            let share = 100.0 * work / total.max(1.0);
            out += &format!("stage {s:<3} rank {:<3} {share:>3.0} % of the work: {list}\n", s % ranks);
        }
        for p in &self.staged.passed {
            let (n, ty, from) = (g.node(p.value), g.ty(p.value), p.stage % ranks);
            let (bytes, pass) = (ty.bytes(), format!("{:?}", p.pass).to_lowercase());
            out += &format!(
                "send           pipe     {bytes:>10} B  {ty} from rank {from} to {} in each microbatch, {pass}, from {} \
                 at {}\n",
                p.to, n.op.name, n.site
            );
        }
        for p in &self.staged.passed_once {
            let (n, ty) = (g.node(p.value), g.ty(p.value));
            let input = g.inputs.iter().position(|&i| i == p.value.node);
            let what = input.map_or_else(|| format!("{} at {}", n.op.name, n.site), names);
            let bytes = ty.bytes();
            out += &format!(
                "send           pipe     {bytes:>10} B  {ty} from rank {} to {} once, from {what}\n",
                p.from, p.to
            );
        }
        out
    }
    /// What was compiled, for people.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        for (_, _, p) in self.programs.lock().iter() {
            let mut during: Vec<_> = p.during.iter().collect();
            during.sort_by_key(|(key, _)| **key);
            out += &p.before.explain();
            during.iter().for_each(|(_, p)| out += &p.explain());
            p.after.iter().for_each(|p| out += &p.explain());
        }
        out
    }
}

fn known(values: &FxHashMap<Slot, Buffer>, s: Slot) -> Result<&Buffer> {
    values.get(&s).ok_or_else(|| Error::bug("a value of the step is used before it is there"))
}

/// Runs a part that is computed once a step. It takes the values that are over then.
fn run_once(
    part: &Part,
    program: &Arc<dyn Program>,
    once: &mut FxHashMap<Slot, Buffer>,
    is_over: impl Fn(Slot) -> bool,
) -> Result<()> {
    if part.outputs.is_empty() {
        return Ok(());
    }
    let mut inputs = Vec::with_capacity(part.inputs.len());
    for source in &part.inputs {
        let Source::Once(s) = *source else {
            return Err(Error::bug("a part of a microbatch in what is computed once"));
        };
        let taken = if is_over(s) { once.remove(&s) } else { once.get(&s).cloned() };
        inputs.push(taken.ok_or_else(|| Error::bug("a value of the step is used before it is there"))?);
    }
    match program.run(&mut inputs) {
        Ok(outputs) => once.extend(part.outputs.iter().copied().zip(outputs)),
        Err(e) => {
            let known = part.inputs.iter().zip(inputs);
            once.extend(known.filter_map(|(s, b)| if let Source::Once(s) = s { Some((*s, b)) } else { None }));
            return Err(e);
        }
    }
    Ok(())
}

/// Runs `f`, as a bar of the timeline if there is one.
fn timed<T>(name: impl FnOnce() -> String, f: impl FnOnce() -> T) -> T {
    let span = trace::is_on().then(|| trace::Span::begin(&name(), Site::UNKNOWN));
    let done = f();
    span.into_iter().for_each(trace::Span::end);
    done
}

fn nothing() -> Buffer {
    Buffer::Host(Literal::nothing())
}

/// What a rank does, in order: its actions, and before each what was computed until then and is sent or received.
fn items(schedule: &Schedule, staged: &Staged, pipe: Pipe, rank: usize) -> sim::Result<Vec<Item>> {
    let cost = |_: usize, a: sim::Action| if a.part == Phase::Backward && !schedule.is_split() { 2.0 } else { 1.0 };
    let clock = sim::run(schedule, cost, |_, _| 0.0)?;
    let mut all: Vec<(f64, usize, Item)> = Vec::new();
    for span in &clock.ranks[rank] {
        let (stage, micro) = (span.action.chunk * pipe.ranks + rank, span.action.micro);
        // What is passed at the same time comes first.
        all.push((span.start, usize::MAX, Item::Run { stage, pass: pass_of(span.action.part), micro }));
    }
    for (i, p) in staged.passed.iter().enumerate() {
        let from = p.stage % pipe.ranks;
        if from != rank && p.to != rank {
            continue;
        }
        let is_made = |s: &&sim::Span| pass_of(s.action.part) == p.pass && s.action.chunk == p.stage / pipe.ranks;
        for span in clock.ranks[from].iter().filter(is_made) {
            let (passed, micro) = (i, span.action.micro);
            let item = if from == rank { Item::Send { passed, micro } } else { Item::Receive { passed, micro } };
            all.push((span.end, i * pipe.micros + micro, item));
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    Ok(all.into_iter().map(|(_, _, item)| item).collect())
}
