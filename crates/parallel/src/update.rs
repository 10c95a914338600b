//! Carrying out updates of tables: on the servers of the parameter store, and in a process that is
//! alone.

use dist::Update;
use dist::merge::{add, add_rows};
use ir::{Buffer, DType, Graph, Literal, Shape};
use nn::parallel::{NUMBER, RuleText, SlotText, Takes, numbered};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tensor::{Error, Program, Result, engine};

/// Arrays of a rule, without heap where they are few.
type Slices<T> = SmallVec<[T; 8]>;

/// What an input of a rule's graph is.
#[derive(Clone, Copy)]
enum Input {
    Param,
    Grad,
    Sum,
    Rate,
    Count,
    Slot(usize),
    Number(usize),
}

/// A graph that is ready to run, and what its inputs are.
struct Runs {
    program: Arc<dyn Program>,
    inputs: Vec<Input>,
}
impl Runs {
    fn new(graph: &Graph, slots: usize) -> Result<Runs> {
        let inputs = graph.inputs.iter().map(|n| named(graph, *n)).collect::<Result<Vec<_>>>()?;
        if let Some(Input::Slot(i)) = inputs.iter().find(|i| matches!(i, Input::Slot(i) if *i >= slots)) {
            return Err(Error::format(format!("a rule reads slot {i} of {slots}")));
        }
        if graph.outputs.len() != 1 + slots {
            return Err(Error::format("a rule answers the parameter and each slot"));
        }
        Ok(Runs { program: engine().compile(graph)?, inputs })
    }
}

/// The graph of a step, with its own numbers and, once it is needed, with those that come with each update.
struct Stepping {
    plain: Runs,
    tuned: OnceLock<Result<Runs>>,
    graph: Graph,
    /// How many numbers each of them takes.
    numbers: usize,
    numbers_tuned: usize,
}
impl Stepping {
    fn runs(&self, update: &Update, slots: usize) -> Result<&Runs> {
        let given = update.numbers.as_ref().map_or(0, |n| n.len());
        if given == self.numbers {
            return Ok(&self.plain);
        }
        if given != self.numbers_tuned {
            let e = format!("an update brings {given} numbers, its rule takes {}", self.numbers);
            return Err(Error::value(format!("{e} or {}", self.numbers_tuned)));
        }
        let tuned = self.tuned.get_or_init(|| Runs::new(&numbered(&self.graph, self.numbers), slots));
        tuned.as_ref().map_err(Error::clone)
    }
}

/// A rule that is ready to run.
pub struct Compiled {
    takes: Takes,
    shape: Shape,
    slots: Vec<SlotText>,
    /// `None` adds what is pushed.
    step: Option<Stepping>,
}

/// An update, and what it meets.
pub struct Pushed<'a> {
    /// The update.
    pub update: &'a Update,
    /// Its number, from 1.
    pub version: u64,
    /// Elements of a row.
    pub width: usize,
}

/// What one run of a graph is given beside values and state: the mean of what was pushed, its sum,
/// and the numbers of the step.
#[derive(Clone, Copy)]
struct Given<'a> {
    gradient: &'a [f32],
    sum: &'a [f32],
    rate: f32,
    count: f32,
    numbers: &'a [f32],
}

impl Compiled {
    /// Compiles a rule for the device of this process.
    pub fn new(text: RuleText) -> Result<Compiled> {
        let numbers = text.number_count();
        let numbers_tuned = numbers + text.constants().len();
        let RuleText { takes, shape, slots, graph, .. } = text;
        let Some(graph) = graph else { return Ok(Compiled { takes, shape, slots, step: None }) };
        let plain = Runs::new(&graph, slots.len())?;
        if let Some(Input::Number(i)) = plain.inputs.iter().find(|i| matches!(i, Input::Number(i) if *i >= numbers)) {
            return Err(Error::format(format!("a rule reads number {i} of {numbers}")));
        }
        if takes == Takes::Rows && (shape.count() == 0 || slots.iter().any(|s| s.shape != shape)) {
            return Err(Error::format("a rule that takes rows takes some of them, with as much state"));
        }
        let step = Some(Stepping { plain, tuned: OnceLock::new(), graph, numbers, numbers_tuned });
        Ok(Compiled { takes, shape, slots, step })
    }

    /// First values of the state of a block of so many elements.
    pub fn state(&self, len: usize) -> Result<Vec<Vec<f32>>> {
        if self.takes == Takes::Rows {
            return Ok(self.slots.iter().map(|s| vec![s.fill; len]).collect());
        }
        if self.shape.count() != len {
            return Err(Error::format(format!("a block has {len} elements, its rule is for {}", self.shape.count())));
        }
        let first = |s: &SlotText| {
            let mut first = if s.values.is_empty() { vec![s.fill; s.shape.count()] } else { s.values.clone() };
            first.resize(len, 0.0);
            first
        };
        Ok(self.slots.iter().map(first).collect())
    }

    /// True if a block is changed in place, by [`Compiled::change`]; otherwise it is written anew.
    pub fn is_in_place(&self) -> bool {
        self.takes == Takes::Rows
    }

    /// One step from what a block's arrays are, the value and then the state, to what they become;
    /// `room` is memory to use.
    pub fn step(&self, old: &[&[f32]], new: &mut [&mut [f32]], pushed: &Pushed<'_>, room: &mut Vec<f32>) -> Result<()> {
        let u = pushed.update;
        let (Takes::Whole, Some(stepping)) = (self.takes, &self.step) else {
            return Err(Error::bug("this table's rule changes it in place"));
        };
        if !u.rows.is_empty() {
            return Err(Error::value("this table's rule takes whole blocks, not rows"));
        }
        let gradient = match u.count {
            0 | 1 => u.data.as_slice(),
            // What is summed up is a mean where workers do one step together.
            n => {
                room.clear();
                room.extend(u.data.iter().map(|x| x / n as f32));
                room.as_slice()
            }
        };
        let numbers = u.numbers.as_ref().map_or(&[][..], |n| n);
        let given = Given { gradient, sum: &u.data, rate: u.rate, count: pushed.version as f32, numbers };
        self.run(stepping.runs(u, self.slots.len())?, old, new, given)
    }

    /// Changes the rows that are named, or all of them, in a block's arrays: some at a time, as many
    /// as the rule takes; what is left over of them is computed in vain. If it fails, nothing changes.
    pub fn change(&self, arrays: &mut [&mut [f32]], pushed: &Pushed<'_>) -> Result<()> {
        let (u, width) = (pushed.update, pushed.width);
        let Some(stepping) = &self.step else {
            add_rows(arrays[0], width, &u.rows, &u.data);
            return Ok(());
        };
        let at_once = self.shape.first().copied().unwrap_or(1);
        if self.takes == Takes::Whole || self.shape.count() != at_once * width {
            let e = format!("a row has {width} elements, the rule's have {}", self.shape.count() / at_once);
            return Err(Error::value(e));
        }
        let runs = stepping.runs(u, self.slots.len())?;
        // A row that is named twice changes once, by both.
        let mut sums: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
        let all = u.rows.is_empty().then(|| 0..arrays[0].len() / width).into_iter().flatten();
        for (row, data) in all.chain(u.rows.iter().map(|r| *r as usize)).zip(u.data.chunks_exact(width)) {
            sums.entry(row).and_modify(|s| add(s, data)).or_insert_with(|| data.to_vec());
        }
        let (rows, sums): (Vec<usize>, Vec<Vec<f32>>) = sums.into_iter().unzip();
        let (len, n) = (at_once * width, u.count.max(1) as f32);
        let mut changed = Vec::new();
        for (rows, sums) in rows.chunks(at_once).zip(sums.chunks(at_once)) {
            let taken = |from: &&mut [f32]| {
                let mut out = Vec::with_capacity(len);
                rows.iter().for_each(|r| out.extend_from_slice(&from[r * width..][..width]));
                out.resize(len, 0.0);
                out
            };
            let before: Vec<Vec<f32>> = arrays.iter().map(taken).collect();
            let before: Vec<&[f32]> = before.iter().map(Vec::as_slice).collect();
            let mut after = vec![vec![0.0; len]; before.len()];
            let mut sum = sums.concat();
            sum.resize(len, 0.0);
            let gradient: Vec<f32> = sum.iter().map(|x| x / n).collect();
            let numbers = u.numbers.as_ref().map_or(&[][..], |n| n);
            let count = pushed.version as f32;
            let given = Given { gradient: &gradient, sum: &sum, rate: u.rate, count, numbers };
            let mut out: Vec<&mut [f32]> = after.iter_mut().map(Vec::as_mut_slice).collect();
            self.run(runs, &before, &mut out, given)?;
            changed.push((rows, after));
        }
        for (rows, after) in changed {
            for (into, from) in arrays.iter_mut().zip(&after) {
                let each = rows.iter().zip(from.chunks_exact(width));
                each.for_each(|(row, from)| into[row * width..][..width].copy_from_slice(from));
            }
        }
        Ok(())
    }

    /// One run of the graph.
    fn run(&self, runs: &Runs, old: &[&[f32]], new: &mut [&mut [f32]], given: Given<'_>) -> Result<()> {
        let (program, inputs) = (&runs.program, &runs.inputs);
        let (rate, count) = ([given.rate], [given.count]);
        let value = |input: &Input| match input {
            Input::Param => old[0],
            Input::Grad => given.gradient,
            Input::Sum => given.sum,
            Input::Rate => &rate,
            Input::Count => &count,
            Input::Slot(i) => &old[1 + i][..self.slots[*i].shape.count()],
            Input::Number(i) => &given.numbers[*i..*i + 1],
        };
        let bytes: Slices<&[u8]> = inputs.iter().map(|i| bytemuck::cast_slice(value(i))).collect();
        // A slot may be shorter than the parameter.
        let lengths = std::iter::once(new[0].len()).chain(self.slots.iter().map(|s| s.shape.count()));
        let mut outs: Slices<&mut [u8]> = Slices::new();
        for (array, len) in new.iter_mut().zip(lengths) {
            let (next, rest) = array.split_at_mut(len);
            rest.fill(0.0);
            outs.push(bytemuck::cast_slice_mut(next));
        }
        if program.run_over(&bytes, &mut outs)? {
            return Ok(());
        }
        let literal = |(i, bytes): (&Input, &&[u8])| {
            let shape = match i {
                Input::Param | Input::Grad | Input::Sum => self.shape.clone(),
                Input::Rate | Input::Count | Input::Number(_) => Shape::scalar(),
                Input::Slot(i) => self.slots[*i].shape.clone(),
            };
            Literal::from_bytes(DType::F32, shape, bytes).map(Buffer::Host)
        };
        let mut buffers = inputs.iter().zip(&bytes).map(literal).collect::<Result<Vec<_>>>()?;
        for (out, result) in outs.iter_mut().zip(program.run(&mut buffers)?) {
            out.copy_from_slice(result.read()?.bytes());
        }
        Ok(())
    }
}

fn named(graph: &Graph, node: u32) -> Result<Input> {
    let name = graph.nodes[node as usize].attrs.str("name")?;
    Ok(match name {
        "param" => Input::Param,
        "grad" => Input::Grad,
        "sum" => Input::Sum,
        "lr" => Input::Rate,
        "t" => Input::Count,
        other => {
            let number = |kind: &str| other.strip_prefix(kind).and_then(|i| i.parse().ok());
            match (number("slot"), number(NUMBER)) {
                (Some(i), _) => Input::Slot(i),
                (_, Some(i)) => Input::Number(i),
                _ => return Err(Error::format(format!("a rule has no input {other:?}"))),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nn::optim::{Adadelta, Adafactor, Adagrad, Adam, AdamW, Lion, NAdam, RmsProp, Rule, Sgd};

    /// Some steps of a rule, with numbers for each from another text.
    fn steps(text: RuleText, told: Option<&RuleText>) -> Vec<Vec<f32>> {
        let len = text.shape.count();
        let rule = Compiled::new(text).unwrap();
        let mut arrays = vec![(0..len).map(|i| 0.3 * i as f32 - 0.7).collect::<Vec<f32>>()];
        arrays.extend(rule.state(len).unwrap());
        for version in 1..5u64 {
            let data = Arc::new((0..len).map(|i| (i as f32 + version as f32).sin()).collect());
            let numbers = told.map(|t| Arc::new(t.constants()));
            let (rows, table, block) = (dist::Rows::default(), 0, 0);
            let update = Update { table, block, rows, data, rate: 0.01, numbers, count: 1, filter: None };
            let old = arrays.clone();
            let old: Vec<&[f32]> = old.iter().map(Vec::as_slice).collect();
            let mut new: Vec<&mut [f32]> = arrays.iter_mut().map(Vec::as_mut_slice).collect();
            rule.step(&old, &mut new, &Pushed { update: &update, version, width: 1 }, &mut Vec::new()).unwrap();
        }
        arrays
    }

    #[test]
    fn a_rule_that_is_told_numbers_does_what_one_made_with_them_does() {
        let pairs: [(Box<dyn Rule>, Box<dyn Rule>); 9] = [
            (
                Box::new(Sgd { momentum: 0.9, dampening: 0.1, nesterov: true, ..Sgd::default() }),
                Box::new(Sgd { momentum: 0.5, dampening: 0.2, nesterov: true, ..Sgd::default() }),
            ),
            (
                Box::new(Adagrad { lr_decay: 0.1, ..Adagrad::default() }),
                Box::new(Adagrad { lr_decay: 0.2, eps: 1e-3, ..Adagrad::default() }),
            ),
            (Box::new(Adam::default()), Box::new(Adam { betas: (0.7, 0.9), eps: 1e-2, ..Adam::default() })),
            (Box::new(AdamW::default()), Box::new(AdamW { betas: (0.7, 0.9), eps: 1e-2, ..AdamW::default() })),
            (
                Box::new(RmsProp { momentum: 0.9, centered: true, ..RmsProp::default() }),
                Box::new(RmsProp { momentum: 0.3, centered: true, alpha: 0.7, eps: 1e-2, ..RmsProp::default() }),
            ),
            (Box::new(Adadelta::default()), Box::new(Adadelta { rho: 0.6, eps: 1e-2, ..Adadelta::default() })),
            (Box::new(NAdam::default()), Box::new(NAdam { betas: (0.7, 0.9), eps: 1e-2, ..NAdam::default() })),
            (Box::new(Lion::default()), Box::new(Lion { betas: (0.7, 0.9), ..Lion::default() })),
            (Box::new(Adafactor::default()), Box::new(Adafactor { beta2_decay: -0.5, d: 0.3, ..Adafactor::default() })),
        ];
        for (i, (one, other)) in pairs.iter().enumerate() {
            let text = |rule: &dyn Rule, decay: f64| RuleText::of(rule, &Shape::from([4usize, 3]), decay).unwrap();
            let (first, second) = (text(&**one, 0.1), text(&**other, 0.03));
            assert!(first.is_like(&second), "rule {i}");
            let want = steps(text(&**other, 0.03), None);
            assert_ne!(steps(text(&**one, 0.1), None), want, "rule {i}: the numbers matter");
            assert_eq!(steps(first, Some(&second)), want, "rule {i}");
        }
    }
}
