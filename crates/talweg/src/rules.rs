//! Optimizers on the servers of the parameter store: graphs that workers have announced.

use data::atomic::{read_sealed, write_sealed};
use dist::{Apply, Registrar, Target, Update};
use nn::parallel::{ORIGIN, RuleText, SlotText, rule_key};
use runtime::Program;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use talweg::ir::{Buffer, DType, Graph, Literal, Shape};
use talweg::{Error, Result, engine};

/// How long a rule that a worker has announced may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arrays of a rule, without heap where they are few.
type Slices<T> = SmallVec<[T; 8]>;

/// The update rules of the tables, fetched when they are first needed and compiled.
pub struct Rules {
    registrar: Registrar,
    /// By table and elements of a block.
    rules: BTreeMap<(u32, usize), Compiled>,
    /// Where they are kept with what they have made: a server that goes on with what is on its
    /// disk repeats updates before there is a worker to ask.
    folder: Option<PathBuf>,
    /// Memory that is used again by each step.
    mean: Vec<f32>,
}

struct Compiled {
    program: Arc<dyn Program>,
    inputs: Vec<Input>,
    shape: Shape,
    slots: Vec<SlotText>,
}

/// What an input of a rule's graph is.
#[derive(Clone, Copy)]
enum Input {
    Param,
    Grad,
    Rate,
    Count,
    Slot(usize),
}

impl Compiled {
    fn new(text: RuleText) -> Result<Compiled> {
        let inputs = text.graph.inputs.iter().map(|n| named(&text.graph, *n)).collect::<Result<Vec<_>>>()?;
        if let Some(Input::Slot(i)) = inputs.iter().find(|i| matches!(i, Input::Slot(i) if *i >= text.slots.len())) {
            return Err(Error::format(format!("a rule reads slot {i} of {}", text.slots.len())));
        }
        if text.graph.outputs.len() != 1 + text.slots.len() {
            return Err(Error::format("a rule answers the parameter and each slot"));
        }
        Ok(Compiled { program: engine().compile(&text.graph)?, inputs, shape: text.shape, slots: text.slots })
    }
    /// One step from what the block is to what it becomes; `mean` is memory to use.
    fn step(&self, to: &mut Target<'_>, u: &Update, mean: &mut Vec<f32>) -> Result<()> {
        let gradient = match u.count {
            0 | 1 => u.data.as_slice(),
            // What is summed up is a mean where workers do one step together.
            n => {
                mean.clear();
                mean.extend(u.data.iter().map(|x| x / n as f32));
                mean.as_slice()
            }
        };
        let (rate, count) = ([u.rate], [to.version as f32]);
        to.replace(|old, new| {
            let value = |input: &Input| match input {
                Input::Param => old[0],
                Input::Grad => gradient,
                Input::Rate => &rate,
                Input::Count => &count,
                Input::Slot(i) => &old[1 + i][..self.slots[*i].shape.count()],
            };
            let inputs: Slices<&[u8]> = self.inputs.iter().map(|i| bytemuck::cast_slice(value(i))).collect();
            // A slot may be shorter than the parameter.
            let lengths = std::iter::once(new[0].len()).chain(self.slots.iter().map(|s| s.shape.count()));
            let mut outs: Slices<&mut [u8]> = Slices::new();
            for (array, len) in new.iter_mut().zip(lengths) {
                let (next, rest) = array.split_at_mut(len);
                rest.fill(0.0);
                outs.push(bytemuck::cast_slice_mut(next));
            }
            if self.program.run_over(&inputs, &mut outs)? {
                return Ok(());
            }
            let literal = |(i, bytes): (&Input, &&[u8])| {
                let shape = match i {
                    Input::Param | Input::Grad => self.shape.clone(),
                    Input::Rate | Input::Count => Shape::scalar(),
                    Input::Slot(i) => self.slots[*i].shape.clone(),
                };
                Literal::from_bytes(DType::F32, shape, bytes).map(Buffer::Host)
            };
            let mut inputs = self.inputs.iter().zip(&inputs).map(literal).collect::<Result<Vec<_>>>()?;
            for (out, result) in outs.iter_mut().zip(self.program.run(&mut inputs)?) {
                out.copy_from_slice(result.read()?.bytes());
            }
            Ok(())
        })
    }
}

fn named(graph: &Graph, node: u32) -> Result<Input> {
    let name = graph.nodes[node as usize].attrs.str("name")?;
    Ok(match name {
        "param" => Input::Param,
        "grad" => Input::Grad,
        "lr" => Input::Rate,
        "t" => Input::Count,
        other => match other.strip_prefix("slot").and_then(|i| i.parse().ok()) {
            Some(i) => Input::Slot(i),
            None => return Err(Error::format(format!("a rule has no input {other:?}"))),
        },
    })
}

impl Rules {
    /// Rules that the membership store knows, or a folder that they are kept in as well.
    pub fn new(registrar: Registrar, folder: Option<PathBuf>) -> Rules {
        Rules { registrar, rules: BTreeMap::new(), folder, mean: Vec::new() }
    }
    fn rule(&mut self, table: u32, len: usize) -> Result<&Compiled> {
        if !self.rules.contains_key(&(table, len)) {
            let path = self.folder.as_ref().map(|f| f.join(format!("rule-{table}.{len}")));
            let failed = |e: data::Error| Error::value(e.to_string());
            let bytes = match path.as_ref().filter(|p| p.exists()) {
                Some(p) => read_sealed(p).map_err(failed)?,
                None => {
                    let found = self.registrar.wait(&rule_key(table, len), 0, Instant::now() + PATIENCE);
                    let (_, bytes) = found.map_err(|e| Error::value(e.to_string()))?;
                    path.map_or(Ok(()), |p| write_sealed(p, &bytes)).map_err(failed)?;
                    bytes
                }
            };
            let rule = Compiled::new(RuleText::decode(&bytes)?)?;
            if rule.shape.count() != len {
                let e = format!("a block of table {table} has {len} elements, its rule is for {}", rule.shape.count());
                return Err(Error::format(e));
            }
            self.rules.insert((table, len), rule);
        }
        self.rules.get(&(table, len)).ok_or_else(|| Error::bug("inserted above"))
    }
}

impl Apply for Rules {
    fn state(&mut self, table: u32, len: usize) -> std::result::Result<Vec<Vec<f32>>, String> {
        if table == ORIGIN {
            return Ok(Vec::new());
        }
        let rule = self.rule(table, len).map_err(|e| e.to_string())?;
        let first = |s: &SlotText| {
            let mut first = if s.values.is_empty() { vec![s.fill; s.shape.count()] } else { s.values.clone() };
            first.resize(len, 0.0);
            first
        };
        Ok(rule.slots.iter().map(first).collect())
    }
    fn apply(&mut self, mut to: Target<'_>, update: &Update) -> std::result::Result<(), String> {
        if !update.rows.is_empty() {
            return Err("an optimizer's rule takes whole blocks, not rows".to_string());
        }
        let mut mean = std::mem::take(&mut self.mean);
        let done = self.rule(update.table, to.len()).and_then(|rule| rule.step(&mut to, update, &mut mean));
        self.mean = mean;
        done.map_err(|e| e.to_string())
    }
}
