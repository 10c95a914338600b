//! A plan: how the parameters of a model are cut over a mesh, by patterns over their names. It stands outside of the
//! model, which does not change.

use crate::mesh::Role;
use ir::{Deal, Mesh, Result, Spec, Type};
use ops::Error;
use passes::partition::{Inserted, Placed, scattered};
use sim::Kind;

/// How a model is cut over a mesh.
///
/// ```
/// # use talweg_tensor::Plan;
/// let plan = Plan::parse(
///     "batch: data                      # arguments are cut along their first dimension
///      zero: 1                          # optimizer state is cut along the batch's axis
///      microbatches: 8                  # a batch is computed in 8 parts
///      blocks.*.widen.weight: [tensor, -]
///      blocks.*.narrow.weight: [-, tensor]",
/// )?;
/// # Ok::<(), talweg_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Patterns over names of parameters, with an axis for each dimension; the last that matches counts.
    rules: Vec<(String, Vec<String>)>,
    /// The axes that cut the first dimension of arguments.
    batch: Vec<String>,
    /// The stage of ZeRO: 1 cuts the optimizer's state, 2 gradients as well, 3 parameters as well.
    zero: u8,
    is_strict: bool,
    /// How many microbatches a batch is cut into.
    microbatches: Option<usize>,
    /// In which order the stages of a pipeline compute.
    schedule: Option<Kind>,
    /// Stages of each rank.
    chunks: Option<usize>,
    /// Patterns over names of parameters, with their stage; the last that matches counts.
    stages: Vec<(String, usize)>,
    /// Whether stages keep their inputs only, and compute the rest again in the backward pass.
    recompute: bool,
    /// Whether what tensor-parallel layers exchange is cut along the sequence.
    sequence: bool,
    /// Whether keys and values of long contexts are gathered again for the backward pass.
    regathers: bool,
    /// Whether ranks wait for each exchange before they compute on.
    is_serial: bool,
    /// The mesh that it is for.
    mesh: Option<Mesh>,
}

/// An axis, and how many blocks of a dimension it cuts: `tensor/3` cuts each third. 0 if that is no number.
fn blocks(axis: &str) -> (&str, usize) {
    axis.split_once('/').map_or((axis, 1), |(axis, count)| (axis, count.parse().unwrap_or(0)))
}

/// A pipeline over an axis of the mesh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    pub ranks: usize,
    pub micros: usize,
    pub kind: Kind,
    pub recompute: bool,
}

/// The axis of the mesh along which stages are.
pub const PIPE: &str = "pipe";
/// The axis of the mesh that cuts layers.
const TENSOR: &str = "tensor";
/// The axis of the mesh along which experts of a mixture are; it cuts the batch as well.
const EXPERT: &str = "expert";
/// The axis of the mesh that cuts sequences, the second dimension of arguments.
pub(crate) const CONTEXT: &str = "context";
/// Stands for dimensions that are not cut.
const REST: &str = "...";
/// Schedules by name.
const SCHEDULES: [(&str, Kind); 4] = [
    ("gpipe", Kind::GPipe),
    ("1f1b", Kind::OneForwardOneBackward),
    ("interleaved", Kind::Interleaved(2)),
    ("zb-h1", Kind::ZeroBubble),
];

/// Names of linear layers whose outputs Megatron cuts, in common models.
const COLUMNS: &[&str] = &[
    "q",
    "k",
    "v",
    "query",
    "key",
    "value",
    "q_proj",
    "k_proj",
    "v_proj",
    "wq",
    "wk",
    "wv",
    "fc1",
    "c_fc",
    "linear1",
    "up",
    "up_proj",
    "gate",
    "gate_proj",
    "w1",
    "w3",
    "widen",
];
/// Names of linear layers whose outputs are queries, keys and values, one after the other.
const FUSED: &[&str] = &["qkv", "qkv_proj", "query_key_value", "c_attn", "Wqkv", "in_proj", "to_qkv", "attn_qkv"];
/// Names of tables and of last layers whose rows, a token each, Megatron cuts.
const VOCABULARIES: &[&str] =
    &["tokens", "wte", "embed_tokens", "tok_embeddings", "token_embedding", "word_embeddings", "lm_head"];
/// Names of linear layers whose inputs Megatron cuts.
const ROWS: &[&str] = &[
    "o",
    "o_proj",
    "out_proj",
    "wo",
    "proj",
    "c_proj",
    "fc2",
    "linear2",
    "down",
    "down_proj",
    "w2",
    "narrow",
    "attended",
];

impl Plan {
    /// A built-in plan: `data`, `fsdp` (data, with ZeRO 3), or `megatron` (data and tensor).
    pub fn named(name: &str) -> Option<Plan> {
        let experts = ("*experts.*".to_string(), vec![EXPERT.to_string(), REST.to_string()]);
        let batch = vec!["data".to_string(), EXPERT.to_string()];
        let data = Plan { batch, rules: vec![experts], ..Plan::default() };
        match name {
            "data" => Some(data),
            "fsdp" => Some(Plan { zero: 3, ..data }),
            "megatron" => {
                let mut rules = data.rules.clone();
                let mut rule = |names: &[&str], end: &str, axes: &[&str]| {
                    let axes: Vec<String> = axes.iter().map(|a| a.to_string()).collect();
                    for n in names {
                        rules.push((format!("*.{n}.{end}"), axes.clone()));
                        rules.push((format!("{n}.{end}"), axes.clone()));
                    }
                };
                rule(COLUMNS, "weight", &["tensor", "-"]);
                rule(COLUMNS, "bias", &["tensor"]);
                rule(FUSED, "weight", &["tensor/3", "-"]);
                rule(FUSED, "bias", &["tensor/3"]);
                rule(ROWS, "weight", &["-", "tensor"]);
                rule(VOCABULARIES, "weight", &["tensor", "-"]);
                rule(VOCABULARIES, "bias", &["tensor"]);
                Some(Plan { rules, ..data })
            }
            _ => None,
        }
    }

    /// From text: a line for each rule, `PATTERN: [AXIS, -, …]`, and the settings `batch: AXIS, …`, `zero: STAGE`,
    /// `strict: true` and `like: PLAN`, which takes over a built-in plan. For pipelines: `microbatches: COUNT`,
    /// `schedule: gpipe`, `1f1b`, `interleaved` or `zb-h1`, `chunks: COUNT` of an interleaved schedule, and
    /// `recompute: true` and `PATTERN: stage NUMBER`. `sequence: true` cuts what tensor-parallel layers exchange along
    /// the sequence. `context: regather` gathers keys and values of long contexts again for the backward pass, in which they are
    /// not kept. `overlap: false` lets ranks wait for each exchange before they compute on. `mesh: AXIS=SIZE,…` says
    /// which mesh it is for. What follows a `#` is a remark.
    pub fn parse(text: &str) -> Result<Plan> {
        let mut plan = Plan::default();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let bad = |why: &str| Error::value(format!("line {} of the plan, {line:?}: {why}", i + 1));
            let (key, value) = line.split_once(':').ok_or_else(|| bad("PATTERN: [AXIS, -, …] is expected"))?;
            match (key.trim(), value.trim()) {
                ("like", name) => {
                    let like = Plan::named(name).ok_or_else(|| bad("there is no such plan: data, fsdp or megatron"))?;
                    plan = Plan { mesh: plan.mesh, ..like };
                }
                ("batch", axes) => plan.batch = axes.split(',').map(|a| a.trim().to_string()).collect(),
                ("zero", stage) => {
                    plan.zero = stage.parse().ok().filter(|s| *s <= 3).ok_or_else(|| bad("a stage from 0 to 3"))?;
                }
                ("microbatches", count) => {
                    let count = count.parse().ok().filter(|n| *n > 0);
                    plan.microbatches = Some(count.ok_or_else(|| bad("a number of microbatches"))?);
                }
                ("chunks", count) => {
                    let count = count.parse().ok().filter(|n| *n > 1);
                    plan.chunks = Some(count.ok_or_else(|| bad("stages of a rank, 2 or more"))?);
                }
                ("schedule", name) => {
                    let found = SCHEDULES.iter().find(|(n, _)| *n == name);
                    plan.schedule = Some(found.ok_or_else(|| bad("gpipe, 1f1b, interleaved or zb-h1"))?.1);
                }
                (pattern, stage) if stage.starts_with("stage ") => {
                    let number = stage["stage ".len()..].trim().parse();
                    plan.stages.push((pattern.to_string(), number.map_err(|_| bad("stage NUMBER"))?));
                }
                ("sequence", yes) => plan.sequence = yes.parse().map_err(|_| bad("true or false"))?,
                ("recompute", yes) => plan.recompute = yes.parse().map_err(|_| bad("true or false"))?,
                (CONTEXT, "keep") => plan.regathers = false,
                (CONTEXT, "regather") => plan.regathers = true,
                (CONTEXT, _) => return Err(bad("keep or regather")),
                ("overlap", yes) => plan.is_serial = !yes.parse::<bool>().map_err(|_| bad("true or false"))?,
                ("mesh", axes) => plan.mesh = Some(Mesh::parse(axes).map_err(|e| bad(&e.message))?),
                ("strict", yes) => plan.is_strict = yes.parse().map_err(|_| bad("true or false"))?,
                (pattern, axes) => {
                    let inner = axes.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
                    let inner =
                        inner.ok_or_else(|| bad("[AXIS, -, …] or stage NUMBER is expected after the pattern"))?;
                    let axes: Vec<String> = inner.split(',').map(|a| a.trim().to_string()).collect();
                    if axes.iter().any(|a| blocks(a).1 == 0) {
                        return Err(bad("AXIS/COUNT cuts each of so many equal blocks"));
                    }
                    if axes.iter().rev().skip(1).any(|a| a == REST) {
                        return Err(bad("... stands for the last dimensions"));
                    }
                    if (0..axes.len()).any(|i| axes[i] != "-" && axes[..i].contains(&axes[i])) {
                        return Err(bad("an axis cuts one dimension"));
                    }
                    plan.rules.push((pattern.to_string(), axes));
                }
            }
        }
        Ok(plan)
    }

    /// Makes an exchange of a value that is not planned an error: terms may be combined, and what ZeRO cut gathered.
    #[must_use]
    pub fn strict(mut self) -> Plan {
        self.is_strict = true;
        self
    }
    /// With another stage of ZeRO.
    #[must_use]
    pub fn with_zero(mut self, stage: u8) -> Plan {
        self.zero = stage.min(3);
        self
    }
    /// With so many microbatches.
    #[must_use]
    pub fn with_microbatches(mut self, count: usize) -> Plan {
        self.microbatches = Some(count.max(1));
        self
    }
    /// With another schedule of a pipeline.
    pub(crate) fn with_schedule(mut self, kind: Kind) -> Plan {
        self.chunks = if let Kind::Interleaved(v) = kind { Some(v) } else { None };
        self.schedule = Some(kind);
        self
    }
    /// Whether stages compute their activations again.
    #[must_use]
    pub fn with_recompute(mut self, yes: bool) -> Plan {
        self.recompute = yes;
        self
    }
    /// For this mesh.
    pub(crate) fn on(mut self, mesh: Mesh) -> Plan {
        self.mesh = Some(mesh);
        self
    }
    /// The mesh that it names.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.mesh.as_ref()
    }
    pub(crate) fn zero(&self) -> u8 {
        self.zero
    }
    pub(crate) fn microbatches(&self) -> Option<usize> {
        self.microbatches
    }
    pub(crate) fn has_schedule(&self) -> bool {
        self.schedule.is_some()
    }
    pub(crate) fn recompute(&self) -> bool {
        self.recompute
    }
    /// Everything but patterns and the batch's axis, as lines of a plan file.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut list = Vec::new();
        let schedule = |k: Kind| SCHEDULES.iter().find(|(_, s)| s.is_like(k)).map_or("1f1b", |(n, _)| n);
        list.extend((self.zero > 0).then(|| ("zero", self.zero.to_string())));
        list.extend(self.microbatches.map(|m| ("microbatches", m.to_string())));
        list.extend(self.schedule.map(|k| ("schedule", schedule(k).to_string())));
        list.extend(self.chunks.map(|n| ("chunks", n.to_string())));
        list.extend(self.sequence.then(|| ("sequence", "true".to_string())));
        list.extend(self.recompute.then(|| ("recompute", "true".to_string())));
        list.extend(self.regathers.then(|| (CONTEXT, "regather".to_string())));
        list.extend(self.is_serial.then(|| ("overlap", "false".to_string())));
        list.extend(self.is_strict.then(|| ("strict", "true".to_string())));
        list
    }
    /// Whether a batch is cut into microbatches though the mesh has no pipeline: gradients are accumulated.
    pub(crate) fn is_accumulating(&self) -> bool {
        self.microbatches.is_some_and(|m| m > 1)
    }

    /// The pipeline of a mesh, if it has one.
    pub(crate) fn pipe(&self, mesh: &Mesh) -> Option<Pipe> {
        let axis = mesh.axis(PIPE).filter(|&a| mesh.size(a) > 1);
        let ranks = axis.map_or(1, |a| mesh.size(a));
        let kind = match self.schedule.unwrap_or(Kind::OneForwardOneBackward) {
            Kind::Interleaved(v) => Kind::Interleaved(self.chunks.unwrap_or(v)),
            kind => kind,
        };
        let micros = self.microbatches.unwrap_or(ranks);
        (axis.is_some() || self.is_accumulating()).then_some(Pipe { ranks, micros, kind, recompute: self.recompute })
    }
    /// The stage that a pattern gives a parameter.
    pub(crate) fn stage(&self, name: &str) -> Option<usize> {
        self.stages.iter().rev().find(|(p, _)| is_match(p, name)).map(|(_, s)| *s)
    }

    /// Fails if it names an axis that the mesh does not have, but for those that built-in plans leave out.
    pub(crate) fn check(&self, mesh: &Mesh) -> Result<()> {
        const KNOWN: [&str; 5] = ["data", TENSOR, EXPERT, "-", REST];
        let used = self.rules.iter().flat_map(|(_, axes)| axes).chain(&self.batch);
        let used = used.map(|a| blocks(a).0.to_string());
        for axis in used.filter(|a| !KNOWN.contains(&a.as_str())) {
            if mesh.axis(&axis).is_none() {
                return Err(Error::value(format!("the plan names axis {axis:?}, which the mesh {mesh} does not have")));
            }
        }
        if used_for_pipe(self) && mesh.axis(PIPE).is_none() {
            let e = format!("the plan has stages, a schedule or recompute, but the mesh {mesh} has no axis {PIPE:?}");
            return Err(Error::value(e));
        }
        if let Some(own) = self.mesh.as_ref().filter(|own| *own != mesh) {
            return Err(Error::value(format!("the plan is for the mesh {own}, not for {mesh}")));
        }
        if self.sequence && mesh.axis(TENSOR).is_none() {
            let e = format!("the plan cuts sequences over the axis {TENSOR:?}, which the mesh {mesh} does not have");
            return Err(Error::value(e));
        }
        let has_context = mesh.axis(CONTEXT).is_some_and(|a| mesh.size(a) > 1);
        if has_context && self.sequence {
            let e = format!("the plan cuts sequences over {TENSOR:?}, and the mesh {mesh} over {CONTEXT:?}: take one");
            return Err(Error::value(e));
        }
        if self.rules.iter().flat_map(|(_, axes)| axes).chain(&self.batch).any(|a| a == CONTEXT) {
            let e = format!("the axis {CONTEXT:?} cuts sequences of arguments; the plan names it for something else");
            return Err(Error::value(e));
        }
        if self.recompute && self.schedule == Some(Kind::ZeroBubble) {
            let e = "the plan recomputes activations, which schedule zb-h1 needs twice: take 1f1b, or recompute: false";
            return Err(Error::value(e));
        }
        if self.chunks.is_some() && !matches!(self.schedule, Some(Kind::Interleaved(_))) {
            return Err(Error::value("the plan has chunks, but its schedule is not interleaved"));
        }
        Ok(())
    }

    /// Axes along which activations are cut over their sequence where they would be reduced.
    pub(crate) fn sequence_axes(&self, mesh: &Mesh) -> Vec<u8> {
        let axis = mesh.axis(TENSOR).filter(|&a| self.sequence && mesh.size(a) > 1);
        axis.into_iter().collect()
    }
    /// Axes along which keys and values are gathered again for the backward pass.
    pub(crate) fn regathered_axes(&self, mesh: &Mesh) -> Vec<u8> {
        self.context(mesh).filter(|_| self.regathers).into_iter().collect()
    }
    /// Whether ranks compute while an exchange is under way.
    pub(crate) fn has_overlap(&self) -> bool {
        !self.is_serial
    }
    /// The axis that cuts sequences.
    pub(crate) fn context(&self, mesh: &Mesh) -> Option<u8> {
        mesh.axis(CONTEXT).filter(|&a| mesh.size(a) > 1)
    }
    /// Axes along which optimizer state is cut, and those along which gradients are scattered.
    pub(crate) fn zero_axes(&self, mesh: &Mesh) -> (Vec<u8>, Vec<u8>) {
        let axis: Vec<u8> = self.batch.iter().filter_map(|a| mesh.axis(a)).filter(|&a| mesh.size(a) > 1).collect();
        let from = |stage: u8| if self.zero >= stage { axis.clone() } else { Vec::new() };
        (from(1), from(2))
    }

    /// How an input of a graph is held.
    pub(crate) fn place(&self, ty: &Type, role: &Role, mesh: &Mesh) -> Result<Placed> {
        let whole = Spec::whole(ty.shape.rank());
        let (is_open, is_variable) = (matches!(role, Role::State), matches!(role, Role::State | Role::Parameter(_)));
        let mut placed = Placed { spec: whole, stored: Vec::new(), is_open, is_variable };
        match role {
            Role::Argument => {
                let mut rest = ty.shape.first().copied().unwrap_or(0);
                for axis in self.batch.iter().filter_map(|a| mesh.axis(a)).filter(|&a| mesh.size(a) > 1) {
                    if rest >= mesh.size(axis) {
                        placed.spec.dims[0].push(axis);
                        rest /= mesh.size(axis);
                    }
                }
                let length = ty.shape.get(1).copied().unwrap_or(0);
                let deal = Deal::zigzag(length);
                if let Some(axis) = self.context(mesh).filter(|&a| length > 0 && deal.fits(mesh.size(a))) {
                    placed.spec.push(1, axis, deal);
                }
            }
            Role::Parameter(name) => {
                if let Some((pattern, axes)) = self.rules.iter().rev().find(|(p, _)| is_match(p, name)) {
                    let stated = axes.iter().take_while(|a| *a != REST).count();
                    let fits = if stated < axes.len() { stated <= ty.shape.rank() } else { stated == ty.shape.rank() };
                    if !fits {
                        let e = format!("{pattern}: [{}] does not fit parameter {name} of type {ty}", axes.join(", "));
                        return Err(Error::value(e));
                    }
                    for (dim, axis) in axes[..stated].iter().enumerate() {
                        let (axis, blocks) = blocks(axis);
                        let axis = mesh.axis(axis).filter(|&a| mesh.size(a) > 1 && ty.shape[dim] >= mesh.size(a));
                        let deal = if blocks == 1 { Deal::RANGES } else { Deal::blocks(ty.shape[dim] / blocks) };
                        // Blocks that do not fit are cut into ranges: right, with more to exchange.
                        let fits = |a: u8| ty.shape[dim].is_multiple_of(blocks) && deal.fits(mesh.size(a));
                        if let Some(a) = axis {
                            placed.spec.push(dim, a, if fits(a) { deal } else { Deal::RANGES });
                        }
                    }
                }
                if self.zero >= 3 {
                    for axis in self.zero_axes(mesh).0 {
                        if let Some(cut) = scattered(&placed.spec, &ty.shape, axis, mesh) {
                            placed.spec = cut;
                            placed.stored.push(axis);
                        }
                    }
                }
            }
            Role::State | Role::Other => {}
        }
        Ok(placed)
    }

    /// Where it is strict: fails if a value is gathered that the plan does not store in parts.
    pub(crate) fn check_inserted(&self, inserted: &[Inserted], mesh: &Mesh) -> Result<()> {
        let is_planned = |i: &Inserted| match i.step {
            passes::partition::Step::Gather { axis, .. } | passes::partition::Step::Exchange { axis, .. } => {
                let stored = i.made_by.is_none() || i.used_by.is_none();
                let is_sequence = i.ty.shape.rank() == 3 && self.sequence_axes(mesh).contains(&axis);
                let is_keys = i.is_stated && self.context(mesh) == Some(axis);
                is_keys || is_sequence || stored && self.zero_axes(mesh).0.contains(&axis)
            }
            _ => true,
        };
        match inserted.iter().find(|i| self.is_strict && !is_planned(i)) {
            None => Ok(()),
            Some(i) => {
                let (value, axis) = (i.from.text(&i.ty.shape, mesh), mesh.name(i.step.axis()));
                let by = i.used_by.unwrap_or("the result");
                let made = i.made_by.unwrap_or("input");
                let e = format!(
                    "the plan is strict, and {by} needs all of {}{value} along {axis}, which {made} at {} left in parts",
                    i.ty.dtype, i.made_at
                );
                Err(Error::value(e).in_op(i.used_by.unwrap_or("mesh")).at(i.used_at))
            }
        }
    }
}

/// Whether a plan says how a pipeline computes.
fn used_for_pipe(plan: &Plan) -> bool {
    plan.schedule.is_some() || !plan.stages.is_empty() || plan.recompute
}

/// Whether a name fits a pattern, in which `*` stands for anything.
fn is_match(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("*.q.weight", "blocks.0.q.weight", true),
            ("*.q.weight", "q.weight", false),
            ("blocks.*.w*", "blocks.1.widen.weight", true),
            ("blocks.*.w*", "block.1.w", false),
            ("bias", "bias", true),
            ("bias", "bias2", false),
            ("a*b*c", "axbyc", true),
            ("a*b*c", "acb", false),
        ] {
            assert_eq!(is_match(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn plans_are_lines() {
        let plan = Plan::parse("like: data\nzero: 2 # two\n\na.*: [-, tensor]\n").unwrap();
        assert_eq!((plan.zero, plan.rules.len(), plan.batch[0].as_str()), (2, 2, "data"));
        for (text, why) in [
            ("zero: 4", "0 to 3"),
            ("a.b", "PATTERN"),
            ("a: tensor", "expected after"),
            ("like: x", "no such plan"),
            ("schedule: x", "1f1b"),
            ("microbatches: 0", "number of microbatches"),
            ("a: stage x", "stage NUMBER"),
            ("sequence: x", "true or false"),
            ("mesh: data", "a mesh is"),
            ("a: [..., tensor]", "last dimensions"),
        ] {
            let e = Plan::parse(text).unwrap_err().to_string();
            assert!(e.contains("line 1 of the plan") && e.contains(why), "{e}");
        }
        let mesh = Mesh::parse("data=2").unwrap();
        let e = Plan::parse("a: [expart]").unwrap().check(&mesh).unwrap_err().to_string();
        assert!(e.contains("axis \"expart\""), "{e}");
    }
}
