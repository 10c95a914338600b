//! What one training step of a plan costs.

use crate::events::{Timeline, run};
use crate::schedule::{Action, Kind, Part, generate, verify};
use crate::{Cluster, Error, Gpt, Result};
use std::collections::BTreeMap;

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
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Ranks that share a sequence.
    pub context: usize,
    /// Ranks that share the experts; each has a part of the batch.
    pub expert: usize,
    /// What the fullest expert gets, as a multiple of the mean.
    pub skew: f64,
    /// Whether gradients are summed, and parameters gathered, while the rest is computed.
    pub overlap: bool,
}

impl Plan {
    /// One device.
    pub const ONE: Plan = Plan {
        data: 1,
        tensor: 1,
        pipe: 1,
        micro: 1,
        schedule: Kind::OneForwardOneBackward,
        zero: 0,
        recompute: Recompute::None,
        sequence: false,
        context: 1,
        expert: 1,
        skew: 1.0,
        overlap: false,
    };
    /// Devices it needs.
    pub fn devices(&self) -> usize {
        self.data * self.tensor * self.pipe * self.context * self.expert
    }
    /// Ranks that a batch is divided among.
    fn replicas(&self) -> usize {
        self.data * self.expert
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
        self.cluster.all_reduce_s(self.model.boundary(p.micro) / p.context as f64, t, t.min(self.cluster.node()))
    }
    /// Ranks of a group in one node, whose neighbors are so far apart.
    fn together(&self, ranks: usize, stride: usize) -> usize {
        (self.cluster.node() / stride.max(1)).clamp(1, ranks)
    }
    /// Seconds in which ranks of one sequence gather the keys and values of a layer; backward, their gradients are
    /// scattered.
    fn context_s(&self) -> f64 {
        let (p, c) = (self.plan, self.plan.context);
        self.cluster.gather_s(2.0 * self.model.boundary(p.micro) / p.tensor as f64, c, self.together(c, p.tensor))
    }
    /// Seconds in which tokens of a layer go to their experts and come back.
    fn expert_s(&self) -> f64 {
        let (p, e) = (self.plan, self.plan.expert);
        let bytes = self.model.boundary(p.micro) * self.model.chosen as f64 / (p.tensor * p.context) as f64;
        2.0 * p.skew * self.cluster.gather_s(bytes, e, self.together(e, p.tensor * p.context))
    }
    /// Seconds of what a layer exchanges in one direction.
    fn exchange_s(&self) -> f64 {
        2.0 * self.tensor_s() + self.context_s() + self.expert_s()
    }
    /// Seconds of a layer forward, without exchanges.
    fn layer_s(&self) -> f64 {
        let p = self.plan;
        let mut products = self.model.products(p.micro, p.tensor);
        // The fullest expert is waited for.
        products[2..4].iter_mut().for_each(|f| *f *= p.skew);
        let products: f64 = products.iter().map(|f| self.cluster.product_s(f / p.context as f64)).sum();
        products + self.cluster.stream_s(self.model.streamed(p.micro, p.tensor, p.sequence) / p.context as f64)
    }
    /// Seconds of the scores of attention, which are computed again.
    fn scores_s(&self) -> f64 {
        let (p, m) = (self.plan, self.model);
        let scores = m.products(p.micro, p.tensor)[4] / p.context as f64;
        let bytes = 12.0 * (p.micro * m.heads * m.sequence * m.sequence) as f64 / (p.tensor * p.context) as f64;
        self.cluster.product_s(scores) + self.cluster.stream_s(bytes)
    }
    /// Seconds of the last layer and the loss, forward.
    fn loss_s(&self) -> f64 {
        let (p, m) = (self.plan, self.model);
        let tokens = (p.micro * m.sequence) as f64 / (p.tensor * p.context) as f64;
        let product = self.cluster.product_s(2.0 * tokens * (m.hidden * m.vocabulary) as f64);
        product + self.cluster.stream_s(8.0 * tokens * m.vocabulary as f64)
    }
    /// Seconds of an action of a stage.
    fn action_s(&self, rank: usize, a: Action, is_split: bool) -> f64 {
        let (p, v) = (self.plan, self.plan.schedule.chunks());
        let layers = self.model.layers as f64 / (p.pipe * v) as f64;
        let is_last = rank + 1 == p.pipe && a.chunk + 1 == v;
        let (layer, exchange) = (self.layer_s(), self.exchange_s());
        let again = match p.recompute {
            Recompute::None => 0.0,
            Recompute::Selective => self.scores_s(),
            Recompute::Full => layer + exchange,
        };
        let loss = if is_last { self.loss_s() } else { 0.0 };
        let gather = if p.zero == 3 { self.gather_s() / (p.pipe * v) as f64 } else { 0.0 };
        // The next layer's parameters are gathered while one is computed; nothing is computed during the first.
        let gathered = |compute: f64| match p.overlap {
            true => compute.max(gather * (layers - 1.0) / layers.max(1.0)) + gather / layers.max(1.0),
            false => compute + gather,
        };
        match a.part {
            Part::Forward => gathered(layers * (layer + exchange) + loss),
            Part::Backward if is_split => gathered(layers * (layer + exchange + again) + loss),
            Part::Backward => gathered(layers * (2.0 * layer + exchange + again) + 2.0 * loss),
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
        let experts = m.experts as f64 * m.expert_parameters() / p.expert as f64;
        let layers = m.layers as f64 * (m.shared_parameters() + experts) / p.pipe as f64;
        (layers + (m.vocabulary * m.hidden) as f64) / p.tensor as f64
    }
    /// Ranks of a data-parallel group in one node.
    fn data_together(&self) -> usize {
        self.together(self.plan.data, self.plan.tensor * self.plan.context * self.plan.expert)
    }
    /// Seconds after the last backward pass, which took `backward`: gradients are summed, parameters updated and spread.
    fn update_s(&self, backward: f64) -> f64 {
        let (p, parameters, together) = (self.plan, self.rank_parameters(), self.data_together());
        // Ranks that share a sequence or the experts have terms of the same gradients, but for those of experts.
        let m = self.model;
        let own = m.layers as f64 * m.experts as f64 * m.expert_parameters() / (p.expert * p.pipe * p.tensor) as f64;
        let (inner, common) = (p.context * p.expert, if p.expert > 1 { parameters - own } else { parameters });
        let inside = self.cluster.all_reduce_s(2.0 * common, inner, self.together(inner, p.tensor));
        let sum = inside
            + match p.zero {
                // Scattered as they are computed, and gathered again when they are used.
                3 => self.cluster.gather_s(2.0 * parameters, p.data, together),
                _ => self.cluster.all_reduce_s(2.0 * parameters, p.data, together),
            };
        // What the last layer to be computed gives cannot go on meanwhile.
        let layers = (m.layers / p.pipe).max(1) as f64;
        let sum = if p.overlap { (sum - backward * (layers - 1.0) / layers).max(sum / layers) } else { sum };
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
            _ => {
                let experts = self.model.experts as f64 * self.model.expert_parameters() / self.plan.expert as f64;
                n * 18.0 / d + 4.0 * (self.model.shared_parameters() + experts) / self.plan.tensor as f64
            }
        }
    }
    /// Bytes of activations of one layer for one microbatch (Korthikanti and others 2022).
    fn layer_bytes(&self) -> f64 {
        let (p, m) = (self.plan, self.model);
        let sbh = (p.micro * m.sequence * m.hidden) as f64;
        let (t, scores) = (p.tensor as f64, 5.0 * (m.heads * m.sequence) as f64 / m.hidden as f64);
        let rest = if p.sequence { 34.0 / t } else { 10.0 + 24.0 / t };
        // Keys and values of the whole sequence are kept.
        let (c, keys) = (p.context as f64, if p.context > 1 { 4.0 * sbh / t } else { 0.0 });
        // The feed-forward layer has 19 of 34 bytes of a token, for each expert that it goes to.
        let more = if m.chosen > 1 { 19.0 / t * (m.chosen as f64 * p.skew - 1.0) } else { 0.0 };
        match p.recompute {
            Recompute::None => sbh * (rest + more + scores / t) / c + keys,
            Recompute::Selective => sbh * (rest + more) / c + keys,
            Recompute::Full => 2.0 * sbh / c,
        }
    }
    fn sent_bytes(&self, micros: usize) -> f64 {
        let (p, m) = (self.plan, self.model);
        let share = |n: usize| if n > 1 { (n - 1) as f64 / n as f64 } else { 0.0 };
        let exchanges = if p.recompute == Recompute::Full { 6.0 } else { 4.0 };
        let layers = m.layers as f64 / p.pipe as f64;
        let boundary = m.boundary(p.micro) / p.context as f64;
        let tensor = exchanges * layers * 2.0 * share(p.tensor) * boundary * micros as f64;
        let data = if p.zero == 3 { 3.0 } else { 2.0 } * 2.0 * self.rank_parameters() * share(p.data);
        let between = if p.pipe > 1 { 2.0 * boundary / p.tensor as f64 } else { 0.0 };
        let keys = 2.0 * 2.0 * m.boundary(p.micro) / p.tensor as f64 * share(p.context);
        let tokens = 4.0 * boundary * m.chosen as f64 / p.tensor as f64 * share(p.expert);
        let tensor = tensor + layers * (keys + tokens) * micros as f64;
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
    fits("tokens of a sequence", model.sequence, plan.context)?;
    fits("experts", model.experts, plan.expert)?;
    fits("sequences of the batch", batch, plan.replicas() * plan.micro)?;
    Ok(batch / (plan.replicas() * plan.micro))
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
    estimate_among(model, cluster, plan, batch, None)
}

/// The same where devices are not alike: `slow` has for each what its computation takes, as a multiple of what the cluster
/// says. Ranks of a tensor-parallel group are neighbors, then those of a sequence, of the experts, of the stages and of
/// the data axis. Ranks that exchange in every layer wait for the slowest of them, replicas for the slowest of all.
pub fn estimate_among(
    model: &Gpt,
    cluster: &Cluster,
    plan: &Plan,
    batch: usize,
    slow: Option<&[f64]>,
) -> Result<Estimate> {
    let v = plan.schedule.chunks();
    let micros = micros(model, plan, batch)?;
    if let Some(slow) = slow.filter(|s| s.len() != plan.devices()) {
        return Err(Error(format!("{} factors are given for {} devices", slow.len(), plan.devices())));
    }
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
    // What an action exchanges does not depend on how fast the device computes.
    let layers = (model.layers / (plan.pipe * v)) as f64;
    let exchange = layers * costs.exchange_s();
    let is_inside = plan.devices() <= cluster.node();
    // Ranks of a tensor-parallel group send a part each.
    let boundary = model.boundary(plan.micro) / (plan.tensor * plan.context) as f64;
    // A stage that sends does not compute meanwhile: both directions are blocking calls in the published systems.
    let own_send = if plan.pipe > 1 { cluster.send_s(boundary, is_inside) } else { 0.0 };
    let replica = |factors: &[f64]| {
        let cost = |r: usize, a: Action| {
            let all = table[r * v + a.chunk][a.part as usize];
            let (waits, sends) = if a.part == Part::Weights { (0.0, 0.0) } else { (exchange.min(all), own_send) };
            (all - waits) * factors[r] + waits + sends
        };
        run(&schedule, cost, |_, _| 0.0)
    };
    // Replicas with the same devices take the same.
    let inner = plan.tensor * plan.context * plan.expert;
    let (mut slowest, mut known) = (1.0f64, BTreeMap::<Vec<u64>, f64>::new());
    let mut timeline: Option<Timeline> = None;
    for r in 0..slow.map_or(1, |_| plan.data) {
        let stage = |p: usize| match slow {
            Some(s) => s[(r * plan.pipe + p) * inner..][..inner].iter().copied().fold(0.0, f64::max),
            None => 1.0,
        };
        let factors: Vec<f64> = (0..plan.pipe).map(stage).collect();
        slowest = factors.iter().copied().fold(slowest, f64::max);
        let key: Vec<u64> = factors.iter().map(|f| f.to_bits()).collect();
        if known.contains_key(&key) {
            continue;
        }
        let one = replica(&factors)?;
        known.insert(key, one.end());
        if timeline.as_ref().is_none_or(|t| one.end() > t.end()) {
            timeline = Some(one);
        }
    }
    let timeline = timeline.ok_or_else(|| Error("a plan of no replicas".into()))?;
    let backward = table[0][Part::Backward as usize];
    let step_s = (timeline.end() + costs.update_s(backward) * slowest) * (1.0 + cluster.jitter);
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
