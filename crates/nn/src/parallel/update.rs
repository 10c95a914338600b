//! Carrying out updates of tables: on the servers of the parameter store, and in a process that is
//! alone.

use super::rule::{RuleText, SlotText, Takes};
use dist::Update;
use dist::merge::{add, add_rows};
use ir::{Buffer, DType, Graph, Literal, Shape};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
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
}

/// A rule that is ready to run.
pub struct Compiled {
    takes: Takes,
    shape: Shape,
    slots: Vec<SlotText>,
    /// `None` adds what is pushed.
    step: Option<(Arc<dyn Program>, Vec<Input>)>,
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
}

impl Compiled {
    /// Compiles a rule for the device of this process.
    pub fn new(text: RuleText) -> Result<Compiled> {
        let RuleText { takes, shape, slots, graph } = text;
        let Some(graph) = graph else { return Ok(Compiled { takes, shape, slots, step: None }) };
        let inputs = graph.inputs.iter().map(|n| named(&graph, *n)).collect::<Result<Vec<_>>>()?;
        if let Some(Input::Slot(i)) = inputs.iter().find(|i| matches!(i, Input::Slot(i) if *i >= slots.len())) {
            return Err(Error::format(format!("a rule reads slot {i} of {}", slots.len())));
        }
        if graph.outputs.len() != 1 + slots.len() {
            return Err(Error::format("a rule answers the parameter and each slot"));
        }
        if takes == Takes::Rows && (shape.count() == 0 || slots.iter().any(|s| s.shape != shape)) {
            return Err(Error::format("a rule that takes rows takes some of them, with as much state"));
        }
        Ok(Compiled { takes, shape, slots, step: Some((engine().compile(&graph)?, inputs)) })
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
        let (Takes::Whole, Some((program, inputs))) = (self.takes, &self.step) else {
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
        let given = Given { gradient, sum: &u.data, rate: u.rate, count: pushed.version as f32 };
        self.run(program.as_ref(), inputs, old, new, given)
    }

    /// Changes the rows that are named, or all of them, in a block's arrays: some at a time, as many
    /// as the rule takes; what is left over of them computes for nobody. If it fails, nothing changes.
    pub fn change(&self, arrays: &mut [&mut [f32]], pushed: &Pushed<'_>) -> Result<()> {
        let (u, width) = (pushed.update, pushed.width);
        let Some((program, inputs)) = &self.step else {
            add_rows(arrays[0], width, &u.rows, &u.data);
            return Ok(());
        };
        let at_once = self.shape.first().copied().unwrap_or(1);
        if self.takes == Takes::Whole || self.shape.count() != at_once * width {
            let e = format!("a row has {width} elements, the rule's have {}", self.shape.count() / at_once);
            return Err(Error::value(e));
        }
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
            let given = Given { gradient: &gradient, sum: &sum, rate: u.rate, count: pushed.version as f32 };
            let mut out: Vec<&mut [f32]> = after.iter_mut().map(Vec::as_mut_slice).collect();
            self.run(program.as_ref(), inputs, &before, &mut out, given)?;
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
    fn run(
        &self,
        program: &dyn Program,
        inputs: &[Input],
        old: &[&[f32]],
        new: &mut [&mut [f32]],
        given: Given<'_>,
    ) -> Result<()> {
        let (rate, count) = ([given.rate], [given.count]);
        let value = |input: &Input| match input {
            Input::Param => old[0],
            Input::Grad => given.gradient,
            Input::Sum => given.sum,
            Input::Rate => &rate,
            Input::Count => &count,
            Input::Slot(i) => &old[1 + i][..self.slots[*i].shape.count()],
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
                Input::Rate | Input::Count => Shape::scalar(),
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
        other => match other.strip_prefix("slot").and_then(|i| i.parse().ok()) {
            Some(i) => Input::Slot(i),
            None => return Err(Error::format(format!("a rule has no input {other:?}"))),
        },
    })
}
