//! Launches of a lowered graph: the buffers each kernel binds, where its parameters lie, and what has to be copied
//! together because a kernel may bind few buffers.
//!
//! A run's buffers are numbered: inputs, results, constants, the arena, and last the *stage*.

use crate::claims::claim;
use crate::kernel::{Arg, Kernel};
use crate::lower::{Code, Lowered};
use ir::{Error, Result, Site};
use passes::{Address, Plan};

/// Storage buffers that a kernel may bind in every browser.
pub const BUFFERS_MAX: usize = 8;
/// Words before the places of parameters: the bits of infinity and NaN, the launch's number for reports, and its own.
const HEAD: usize = 4;
/// Parameters of a launch begin at multiples of so many bytes.
pub const PARAMS_ALIGN: usize = 256;

/// A buffer that is copied to the stage before a launch, and back after it if it is written.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Its number.
    pub base: u32,
    /// Where it lies in the stage.
    pub at: usize,
    /// How much is copied.
    pub bytes: usize,
    /// It is copied back.
    pub is_written: bool,
}

/// A launch.
pub struct Launch {
    /// Its region.
    pub region: usize,
    /// The kernel's whole text.
    pub source: String,
    /// The buffers it binds, by number, after its parameters; whether each is written.
    pub bindings: Vec<(u32, bool)>,
    /// It binds a report after them, which is written.
    pub reports: bool,
    /// Where its parameters lie among those of all launches, and their bytes.
    pub params: (usize, usize),
    /// Workgroups.
    pub grid: [u32; 2],
    /// Buffers beyond those that a kernel may bind.
    pub staged: Vec<Staged>,
}

/// What to say of a bad index: the op, its line, and the text before and after the number.
#[derive(Clone)]
pub struct Blame {
    /// The op.
    pub op: String,
    /// Its line.
    pub site: Site,
    /// What the number is.
    pub before: &'static str,
    /// What is wrong with it.
    pub after: String,
}

/// All launches of a graph, in order.
#[derive(Default)]
pub struct Launches {
    /// The launches.
    pub list: Vec<Launch>,
    /// Parameters of all.
    pub words: Vec<u32>,
    /// Of launches that report, in order.
    pub blames: Vec<Blame>,
    /// Bytes of the stage.
    pub stage_bytes: usize,
}

impl Launches {
    /// The launches of a graph where a kernel may bind so many storage buffers.
    pub fn new(lowered: &Lowered, buffers_max: usize) -> Result<Launches> {
        let mut all = Launches::default();
        for (r, code) in lowered.code.iter().enumerate() {
            let Code::Kernels(list) = code else { continue };
            for k in list {
                let launch = all.launch(lowered, r, k, buffers_max).map_err(|e| lowered.plan.blame(r, e))?;
                all.list.push(launch);
            }
        }
        Ok(all)
    }

    fn launch(&mut self, lowered: &Lowered, region: usize, k: &Kernel, buffers_max: usize) -> Result<Launch> {
        let plan = &lowered.plan;
        let address = |arg: Arg| lowered.address(region, arg);
        let room = buffers_max - usize::from(k.reports);
        // The arena, which is large, is bound; what is too many is staged.
        let mut order = k.bindings(&|arg| address(arg).base);
        order.sort_by_key(|(b, _)| *b != plan.arena());
        let excess = if order.len() > room { order.split_off(room - 1) } else { Vec::new() };
        let mut staged = Vec::new();
        let mut at = 0;
        for &(base, is_written) in &excess {
            let bytes = bytes_of(plan, base).next_multiple_of(passes::ALIGN);
            staged.push(Staged { base, at, bytes, is_written });
            at += bytes;
        }
        self.stage_bytes = self.stage_bytes.max(at);
        let place = |arg: Arg| {
            let a = address(arg);
            match staged.iter().find(|s| s.base == a.base) {
                Some(s) => Address { base: plan.arena() + 1, offset: s.at + a.offset },
                None => a,
            }
        };
        let base = |arg: Arg| place(arg).base;
        let start = self.words.len().next_multiple_of(PARAMS_ALIGN / 4);
        self.words.resize(start, 0);
        self.words.extend([f32::INFINITY.to_bits(), f32::NAN.to_bits(), self.blames.len() as u32, k.number]);
        for p in &k.params {
            let word = place(p.arg).offset / 4;
            self.words.push(u32::try_from(word).map_err(|_| Error::value("the program takes more than 16 GiB"))?);
        }
        let words = HEAD + k.params.len().div_ceil(4).max(1) * 4;
        self.words.resize(start + words, 0);
        if k.reports {
            self.blames.push(blame(plan, region));
        }
        let (source, bindings) = (k.source(&base), k.bindings(&base));
        Ok(Launch {
            region,
            source,
            bindings,
            reports: k.reports,
            params: (4 * start, 4 * words),
            grid: k.grid(),
            staged,
        })
    }
}

/// Bytes of a buffer of a run.
pub fn bytes_of(plan: &Plan, base: u32) -> usize {
    let (inputs, results) = (plan.inputs.len(), plan.memory.buffers.len());
    match base as usize {
        b if b < inputs => plan.inputs[b].bytes(),
        b if b < inputs + results => plan.memory.buffers[b - inputs].bytes,
        b if b < plan.arena() as usize => plan.constants[b - inputs - results].1.bytes().len(),
        _ => plan.memory.arena_bytes,
    }
}

/// What to say of a bad index in a region.
fn blame(plan: &Plan, region: usize) -> Blame {
    let graph = &plan.fused.graph;
    let n = &graph.nodes[plan.fused.regions[region].nodes()[0] as usize];
    let before = claim(n.op.name).and_then(|c| c.reported).unwrap_or("index");
    if let (Ok(classes), Ok(ignored), Ok(op)) = (n.attrs.int("classes"), n.attrs.int("ignored"), n.attrs.str("op")) {
        let after = format!("is not among 0..{classes}, nor the ignored {ignored}");
        return Blame { op: op.to_string(), site: n.site, before, after };
    }
    let axis = n.attrs.size("axis").unwrap_or(0);
    let size = n.inputs.first().map_or(0, |&s| graph.ty(s).shape.get(axis).copied().unwrap_or(0));
    let after = format!("is out of range for axis {axis} of size {size}");
    Blame { op: n.op.name.to_string(), site: n.site, before, after }
}
