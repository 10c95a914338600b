//! What one training step of a plan costs.

use crate::events::{Timeline, run};
use crate::schedule::{Action, Kind, Part, generate, verify};
use crate::{Cluster, Error, Gpt, Result};

/// What is computed again in the backward pass instead of being kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    None,
    /// The scores of attention (Korthikanti and others 2022).
    Selective,
    /// Whole layers.
    Full,
}

/// A plan: how a job is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Ranks that share a batch.
    pub data: usize,
    /// Ranks that share a layer.
    pub tensor: usize,
    /// Stages.
    pub pipe: usize,
    /// Sequences of a microbatch.
    pub micro: usize,
    /// The pipeline's schedule.
    pub schedule: Kind,
    /// 0 to 3: what is cut along the data axis.
    pub zero: u8,
    /// What is computed again.
    pub recompute: Recompute,
    /// Whether the parts between tensor-parallel ones are cut along the sequence.
    pub sequence: bool,
}

impl Plan {
    /// Devices it needs.
    pub fn devices(&self) -> usize {
        self.data * self.tensor * self.pipe
    }
}

/// What a step costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds of a step.
    pub step_s: f64,
    /// Bytes of parameters, gradients and optimizer state on the fullest rank.
    pub state_bytes: f64,
    /// Bytes of activations on the fullest rank.
    pub activation_bytes: f64,
    /// The share of the pipeline's time that ranks wait.
    pub bubble: f64,
    /// Bytes that a rank sends in a step.
    pub sent_bytes: f64,
    /// Share of the devices' peak that the model's operations are.
    pub utilization: f64,
    /// Price of a step, failures and checkpoints included.
    pub price: f64,
    /// What the ranks of a pipeline did.
    pub timeline: Timeline,
}

impl Estimate {
    /// Bytes on the fullest rank.
    pub fn bytes(&self) -> f64 {
        self.state_bytes + self.activation_bytes
    }
}

/// The parts of a step on one rank.
struct Costs<'a> {
    cluster: &'a Cluster,
    model: &'a Gpt,
    plan: &'a Plan,
}

impl Costs<'_> {
    /// Seconds of one exchange of activations among tensor-parallel ranks. With sequence parallelism it is an
    /// all-gather and a reduce-scatter, which move as much.
    fn tensor_s(&self) -> f64 {
        let (t, p) = (self.plan.tensor, self.plan);
        self.cluster.all_reduce_s(self.model.boundary(p.micro), t, t.min(self.cluster.node()))
    }
    /// Seconds of a layer forward, without exchanges.
    fn layer_s(&self) -> f64 {
        let p = self.plan;
        let products: f64 = self.model.products(p.micro, p.tensor).iter().map(|f| self.cluster.product_s(*f)).sum();
        products + self.cluster.stream_s(self.model.streamed(p.micro, p.tensor, p.sequence))
    }
    /// Seconds of the scores of attention, which are computed again.
    fn scores_s(&self) -> f64 {
        let (p, m) = (self.plan, self.model);
        let scores = m.products(p.micro, p.tensor)[4];
        let bytes = 12.0 * (p.micro * m.heads * m.sequence * m.sequence) as f64 / p.tensor as f64;
        self.cluster.product_s(scores) + self.cluster.stream_s(bytes)
    }
    /// Seconds of the last layer and the loss, forward.
    fn loss_s(&self) -> f64 {
        let (p, m) = (self.plan, self.model);
        let tokens = (p.micro * m.sequence) as f64 / p.tensor as f64;
        let product = self.cluster.product_s(2.0 * tokens * (m.hidden * m.vocabulary) as f64);
        product + self.cluster.stream_s(8.0 * tokens * m.vocabulary as f64)
    }
    /// Seconds of an action of a stage.
    fn action_s(&self, rank: usize, a: Action, is_split: bool) -> f64 {
        let (p, v) = (self.plan, self.plan.schedule.chunks());
        let layers = self.model.layers as f64 / (p.pipe * v) as f64;
        let is_last = rank + 1 == p.pipe && a.chunk + 1 == v;
        let (layer, exchange) = (self.layer_s(), 2.0 * self.tensor_s());
        let again = match p.recompute {
            Recompute::None => 0.0,
            Recompute::Selective => self.scores_s(),
            Recompute::Full => layer + exchange,
        };
        let loss = if is_last { self.loss_s() } else { 0.0 };
        let gather = if p.zero == 3 { self.gather_s() / (p.pipe * v) as f64 } else { 0.0 };
        match a.part {
            Part::Forward => layers * (layer + exchange) + loss + gather,
            Part::Backward if is_split => layers * (layer + exchange + again) + loss + gather,
            Part::Backward => layers * (2.0 * layer + exchange + again) + 2.0 * loss + gather,
            Part::Weights => layers * layer + loss,
        }
    }
    /// Seconds to gather all parameters of a rank along the data axis.
    fn gather_s(&self) -> f64 {
        let p = self.plan;
        self.cluster.gather_s(2.0 * self.rank_parameters() * p.pipe as f64, p.data, self.data_together())
    }
    /// Parameters of the fullest rank.
    fn rank_parameters(&self) -> f64 {
        let (p, m) = (self.plan, self.model);
        let layers = m.layers as f64 * m.layer_parameters() / p.pipe as f64;
        (layers + (m.vocabulary * m.hidden) as f64) / p.tensor as f64
    }
    /// Ranks of a data-parallel group in one node.
    fn data_together(&self) -> usize {
        (self.cluster.node() / self.plan.tensor).clamp(1, self.plan.data)
    }
    /// Seconds after the last backward pass: gradients are summed, parameters updated and spread.
    fn update_s(&self) -> f64 {
        let (p, parameters, together) = (self.plan, self.rank_parameters(), self.data_together());
        let sum = match p.zero {
            // Scattered as they are computed, and gathered again when they are used.
            3 => self.cluster.gather_s(2.0 * parameters, p.data, together),
            _ => self.cluster.all_reduce_s(2.0 * parameters, p.data, together),
        };
        let share = if p.zero > 0 { p.data as f64 } else { 1.0 };
        sum + self.cluster.stream_s(20.0 * parameters / share)
    }
    fn state_bytes(&self) -> f64 {
        let (n, d) = (self.rank_parameters(), self.plan.data as f64);
        // 16-bit parameters, gradients in f32, and master weights with two moments in f32.
        match self.plan.zero {
            0 => 18.0 * n,
            1 => n * (6.0 + 12.0 / d),
            2 => n * (2.0 + 16.0 / d),
            _ => n * 18.0 / d + 4.0 * self.model.layer_parameters() / self.plan.tensor as f64,
        }
    }
    /// Bytes of activations of one layer for one microbatch (Korthikanti and others 2022).
    fn layer_bytes(&self) -> f64 {
        let (p, m) = (self.plan, self.model);
        let sbh = (p.micro * m.sequence * m.hidden) as f64;
        let (t, scores) = (p.tensor as f64, 5.0 * (m.heads * m.sequence) as f64 / m.hidden as f64);
        let rest = if p.sequence { 34.0 / t } else { 10.0 + 24.0 / t };
        match p.recompute {
            Recompute::None => sbh * (rest + scores / t),
            Recompute::Selective => sbh * rest,
            Recompute::Full => 2.0 * sbh,
        }
    }
    fn sent_bytes(&self, micros: usize) -> f64 {
        let (p, m) = (self.plan, self.model);
        let share = |n: usize| if n > 1 { (n - 1) as f64 / n as f64 } else { 0.0 };
        let exchanges = if p.recompute == Recompute::Full { 6.0 } else { 4.0 };
        let layers = m.layers as f64 / p.pipe as f64;
        let tensor = exchanges * layers * 2.0 * share(p.tensor) * m.boundary(p.micro) * micros as f64;
        let data = if p.zero == 3 { 3.0 } else { 2.0 } * 2.0 * self.rank_parameters() * share(p.data);
        let between = if p.pipe > 1 { 2.0 * m.boundary(p.micro) / p.tensor as f64 } else { 0.0 };
        tensor + data + between * (micros * p.schedule.chunks()) as f64
    }
}

/// Microbatches of a plan; an error if it does not fit the model.
fn micros(model: &Gpt, plan: &Plan, batch: usize) -> Result<usize> {
    let fits = |what: &str, whole: usize, by: usize| match by > 0 && whole.is_multiple_of(by) {
        true => Ok(()),
        false => Err(Error(format!("{by} does not divide {whole} {what}"))),
    };
    fits("layers", model.layers, plan.pipe * plan.schedule.chunks())?;
    fits("heads", model.heads, plan.tensor)?;
    fits("sequences of the batch", batch, plan.data * plan.micro)?;
    Ok(batch / (plan.data * plan.micro))
}

/// Bytes on the fullest rank, and seconds that a step takes at least.
pub(crate) fn bounds(model: &Gpt, cluster: &Cluster, plan: &Plan, batch: usize) -> Result<(f64, f64)> {
    let (micros, v, p) = (micros(model, plan, batch)?, plan.schedule.chunks(), plan.pipe);
    let costs = Costs { cluster, model, plan };
    let held = match plan.schedule {
        Kind::GPipe => micros,
        Kind::OneForwardOneBackward | Kind::ZeroBubble | Kind::Interleaved(1) => p.min(micros),
        Kind::Interleaved(v) => (2 * (p - 1) + (v - 1) * p + 1).min(micros * v),
    };
    let layers = (model.layers / (p * v)) as f64;
    let bytes = costs.state_bytes() + costs.layer_bytes() * layers * held as f64;
    let one = |part| costs.action_s(0, Action { part, micro: 0, chunk: 0 }, false);
    Ok((bytes, (micros * v) as f64 * (one(Part::Forward) + one(Part::Backward))))
}

/// What a step of `batch` sequences costs under a plan; an error if the plan does not fit the model.
pub fn estimate(model: &Gpt, cluster: &Cluster, plan: &Plan, batch: usize) -> Result<Estimate> {
    let v = plan.schedule.chunks();
    let micros = micros(model, plan, batch)?;
    let schedule = generate(plan.schedule, plan.pipe, micros)?;
    let held = verify(&schedule, None)?;
    let costs = Costs { cluster, model, plan };
    // All actions of a kind on one rank take the same.
    let table: Vec<[f64; 3]> = (0..plan.pipe * v)
        .map(|k| {
            let of = |part| costs.action_s(k / v, Action { part, micro: 0, chunk: k % v }, schedule.is_split());
            [of(Part::Forward), of(Part::Backward), of(Part::Weights)]
        })
        .collect();
    let is_inside = plan.devices() <= cluster.node();
    // Ranks of a tensor-parallel group send a part each.
    let send = cluster.send_s(model.boundary(plan.micro) / plan.tensor as f64, is_inside);
    // A stage that sends does not compute meanwhile: both directions are blocking calls in the published systems.
    let own_send = if plan.pipe > 1 { send } else { 0.0 };
    let cost = |r: usize, a: Action| {
        let sends = if a.part == Part::Weights { 0.0 } else { own_send };
        table[r * v + a.chunk][a.part as usize] + sends
    };
    let timeline = run(&schedule, cost, |_, _| 0.0)?;
    let step_s = (timeline.end() + costs.update_s()) * (1.0 + cluster.jitter);
    let layers = (model.layers / (plan.pipe * v)) as f64;
    let kept = held.iter().copied().max().unwrap_or(1) as f64;
    let hours = step_s / 3600.0 / cluster.efficiency(plan.devices()).max(1e-3);
    Ok(Estimate {
        step_s,
        state_bytes: costs.state_bytes(),
        activation_bytes: costs.layer_bytes() * layers * kept,
        bubble: timeline.idle(),
        sent_bytes: costs.sent_bytes(micros),
        utilization: model.operations(batch) / (step_s * cluster.flops * plan.devices() as f64),
        price: hours * cluster.price * plan.devices() as f64,
        timeline,
    })
}
