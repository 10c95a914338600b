//! A compiled graph with where each of its inputs comes from at a run.

use ir::{Buffer, Collect, Error, ErrorKind, Literal, Result, Source, Value, Var, collect};
use ops::{engine, generator};
use runtime::Program;
use std::sync::Arc;

/// Where an input comes from.
enum Input {
    /// The feed with that number.
    Feed(usize),
    /// A variable's value when the run begins.
    Variable(Arc<Var>),
    /// The key of the n-th random draw of the run.
    Key(u64),
    /// A value captured when the graph was made.
    Captured(Value),
}

/// A graph ready to run many times.
pub(crate) struct Bound {
    program: Arc<dyn Program>,
    inputs: Vec<Input>,
    fetches: usize,
    assigned: Vec<Arc<Var>>,
    draws: u64,
}

impl Bound {
    /// Compiles the graph of `fetches` and the assignments; `feeds` are the leaves given at a run.
    pub fn new(fetches: &[Value], assigned: &[(Arc<Var>, Value)], feeds: &[Value], mode: Collect) -> Result<Bound> {
        let mut wanted = fetches.to_vec();
        wanted.extend(assigned.iter().map(|(_, v)| v.clone()));
        let c = collect(&wanted, mode)?;
        let mut draws = 0;
        let mut inputs = Vec::with_capacity(c.leaves.len());
        for leaf in &c.leaves {
            inputs.push(match (feeds.iter().position(|f| f.is_same(leaf)), leaf.node().source()) {
                (Some(i), _) => Input::Feed(i),
                (None, Source::Read(var)) => Input::Variable(var.clone()),
                (None, Source::Key) => {
                    draws += 1;
                    Input::Key(draws - 1)
                }
                (None, Source::Placeholder(name)) => {
                    let e = format!("placeholder {name:?} of type {} is needed, but was not fed", leaf.ty());
                    return Err(Error::new(ErrorKind::Feed, e).at(leaf.node().site()));
                }
                (None, _) => {
                    engine().evaluate(std::slice::from_ref(leaf))?;
                    Input::Captured(leaf.clone())
                }
            });
        }
        let program = engine().compile(&c.graph)?;
        let assigned = assigned.iter().map(|(v, _)| v.clone()).collect();
        Ok(Bound { program, inputs, fetches: fetches.len(), assigned, draws })
    }

    /// Every variable it reads.
    pub fn variables(&self) -> impl Iterator<Item = &Arc<Var>> {
        self.inputs.iter().filter_map(|i| if let Input::Variable(v) = i { Some(v) } else { None })
    }

    /// Runs it: reads see the values from before, then the assignments happen together.
    pub fn run(&self, feeds: &[Buffer]) -> Result<Vec<Buffer>> {
        let (seed, first) = generator::take(self.draws);
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            inputs.push(match input {
                Input::Feed(i) => feeds[*i].clone(),
                Input::Variable(var) => current(var)?,
                Input::Key(n) => {
                    let key = [seed as i64, (first + n) as i64];
                    Buffer::Host(Literal::generate([2], |i| key[i]))
                }
                Input::Captured(v) => v.buffer().ok_or_else(|| Error::bug("a captured value was lost"))?,
            });
        }
        let mut results = self.program.run(inputs)?;
        for (var, b) in self.assigned.iter().zip(results.drain(self.fetches..)) {
            var.set_buffer(b);
        }
        Ok(results)
    }

    /// What was compiled, for people.
    pub fn explain(&self) -> String {
        self.program.explain()
    }
}

/// A variable's computed value, computing it first if it is pending.
fn current(var: &Arc<Var>) -> Result<Buffer> {
    let v = var.current();
    if let Some(b) = v.buffer() {
        return Ok(b);
    }
    engine().evaluate(&[])?;
    let v = var.current();
    if v.buffer().is_none() {
        engine().evaluate(std::slice::from_ref(&v))?;
    }
    v.buffer().ok_or_else(|| Error::bug(format!("variable {} has no value", var.name())))
}
