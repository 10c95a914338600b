//! `talweg store-server`: a server of the parameter store that runs optimizers as graphs.

use data::atomic::{read_sealed, write_sealed};
use dist::launch::Service;
use dist::{Apply, Center, Coordinator, Hello, Host, Registrar, Roster, Saver, Snapshot, Target, Update};
use nn::parallel::{ORIGIN, RuleText, SlotText, rule_key};
use nn::train::write_part;
use runtime::Program;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use talweg::ir::{Buffer, Graph, Literal, Shape};
use talweg::{Error, Result, engine};

/// How long joining, or a rule that a worker has announced, may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves until the job is over.
pub fn run() -> Result<()> {
    let done = Service::from_env(|name| std::env::var(name).ok()).and_then(|service| match service {
        Service::Server { mut options, at, servers, copies } => {
            options.saver = Some(Arc::new(Parts));
            let (hello, secret) = (Hello::new("server", options.server), options.secret.clone());
            let connect = || Registrar::connect(&at, &hello, secret.clone(), Instant::now() + PATIENCE);
            let (workers, servers) = (options.workers, servers as usize);
            let roster = move || Roster::new(workers, servers, copies);
            let kept = dist::keep(&at, roster, |text| eprintln!("{text}"), Instant::now() + PATIENCE)?;
            kept.map(|center| std::thread::spawn(move || end_after_the_workers(center.as_ref())));
            let folder = options.disk.as_ref().map(|d| d.folder.clone());
            let apply = || {
                let (registrar, rules, folder) = (connect()?, BTreeMap::new(), folder.clone());
                Ok(Box::new(Rules { registrar, rules, folder }) as Box<dyn Apply>)
            };
            Host::run(*options, connect()?, apply, |text| eprintln!("{text}"))
        }
        Service::Coordinator { at, workers, servers, secret } => {
            let roster = Roster::new(workers as usize, servers as usize, 2);
            let _serving = Coordinator::start(&at, secret, roster, |text| eprintln!("{text}"))?;
            // As DMLC's scheduler does, it serves until whoever started it ends it.
            loop {
                std::thread::park();
            }
        }
    });
    done.map_err(|e: dist::Error| Error::value(e.to_string()))
}

/// Writes parts of checkpoints.
struct Parts;

impl Saver for Parts {
    fn save(&self, snapshot: Snapshot) -> std::result::Result<(), String> {
        let blocks = snapshot.blocks.iter().map(|b| {
            let arrays = b.arrays.iter().map(|a| a.as_slice()).collect();
            (b.table, b.block, b.version, arrays)
        });
        write_part(&snapshot.to, blocks).map_err(|e| e.message)
    }
}

/// Ends this process when the workers have, if there may be no launcher left to do it.
fn end_after_the_workers(center: &dyn Center) {
    let mut last: Option<Instant> = None;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        if !center.list("progress/").is_empty() {
            last = Some(Instant::now());
        } else if last.is_some_and(|at| at.elapsed() > PATIENCE) {
            eprintln!("no worker is left: the server ends");
            std::process::exit(0);
        }
    }
}

/// The update rules of the tables, fetched when they are first needed and compiled.
struct Rules {
    registrar: Registrar,
    /// By table and elements of a block.
    rules: BTreeMap<(u32, usize), Compiled>,
    /// Where they are kept with what they have made: a server that goes on with what is on its
    /// disk repeats updates before there is a worker to ask.
    folder: Option<PathBuf>,
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
    fn step(&self, to: &mut Target<'_>, u: &Update) -> Result<()> {
        let n = u.count.max(1) as f32;
        let like = |values: &[f32]| Literal::new(self.shape.clone(), values);
        let slot = |i: usize| {
            let shape = &self.slots[i].shape;
            Literal::new(shape.clone(), &to.state[i][..shape.count()])
        };
        let scalar = |x: f32| Ok(Literal::scalar(x));
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let value = match input {
                Input::Param => like(to.value),
                // What is summed up is a mean where workers do one step together.
                Input::Grad => like(&u.data.iter().map(|x| x / n).collect::<Vec<_>>()),
                Input::Rate => scalar(u.rate),
                Input::Count => scalar(to.version as f32),
                Input::Slot(i) => slot(*i),
            };
            inputs.push(Buffer::Host(value?));
        }
        let outs = self.program.run(&mut inputs)?;
        let mut outs = outs.into_iter();
        if let Some(value) = outs.next() {
            *to.value = value.read()?.to_vec::<f32>()?;
        }
        for (slot, out) in to.state.iter_mut().zip(outs) {
            let mut next = out.read()?.to_vec::<f32>()?;
            next.resize(slot.len(), 0.0);
            *slot = Arc::new(next);
        }
        Ok(())
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
        let rule = self.rule(update.table, to.value.len()).map_err(|e| e.to_string())?;
        rule.step(&mut to, update).map_err(|e| e.to_string())
    }
}
