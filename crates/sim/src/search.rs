//! Every plan for a model on so many devices, the fastest that fit first.

use crate::estimate::{Estimate, Plan, Recompute, bounds, estimate};
use crate::schedule::Kind;
use crate::{Cluster, Gpt};

/// What is fixed in a search; `None`: tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Ranks of the data axis.
    pub data: Option<usize>,
    /// Ranks of the tensor axis.
    pub tensor: Option<usize>,
    /// Stages.
    pub pipe: Option<usize>,
    /// Ranks that share a sequence; without it, one.
    pub context: Option<usize>,
    /// Ranks that share the experts; without it, one.
    pub expert: Option<usize>,
    /// Whether exchanges of gradients and parameters go on while the rest is computed.
    pub overlap: bool,
}

fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n).filter(move |d| n.is_multiple_of(*d))
}

/// Plans that fit in memory, the fastest first. Microbatches are powers of two up to 16, tensor parallelism stays
/// within a node, chunks are at most four a stage.
pub fn search(model: &Gpt, cluster: &Cluster, devices: usize, batch: usize, limits: Limits) -> Vec<(Plan, Estimate)> {
    let allowed = |n: usize, limit: Option<usize>| limit.is_none_or(|l| l == n);
    let mut found = Vec::new();
    let (context, expert) = (limits.context.unwrap_or(1), limits.expert.unwrap_or(1));
    if !devices.is_multiple_of(context * expert) {
        return found;
    }
    let devices = devices / context / expert;
    let sizes = divisors(devices).filter(|t| *t <= cluster.node() && allowed(*t, limits.tensor));
    for tensor in sizes {
        for pipe in divisors(devices / tensor).filter(|p| model.layers.is_multiple_of(*p) && allowed(*p, limits.pipe)) {
            let data = devices / tensor / pipe;
            if !allowed(data, limits.data) {
                continue;
            }
            for plan in variants(tensor, pipe, data) {
                let plan = Plan { context, expert, overlap: limits.overlap, ..plan };
                // What cannot fit or cannot win is not run against the clock.
                let Ok((bytes, least_s)) = bounds(model, cluster, &plan, batch) else { continue };
                if bytes > USABLE * cluster.memory || least_s > worst(&found) {
                    continue;
                }
                let Ok(mut e) = estimate(model, cluster, &plan, batch) else { continue };
                // It can be drawn again; many would fill the memory.
                e.timeline.ranks.clear();
                found.push((plan, e));
                shrink(&mut found);
            }
        }
    }
    found.sort_by(|a, b| a.1.step_s.total_cmp(&b.1.step_s));
    found
}

/// How many plans are kept.
const KEPT: usize = 16;
/// The share of memory that a plan may fill: the rest is the allocator's and the workspaces'.
const USABLE: f64 = 0.92;

/// The slowest plan that would be kept.
fn worst(found: &[(Plan, Estimate)]) -> f64 {
    if found.len() < KEPT { f64::INFINITY } else { found.iter().map(|(_, e)| e.step_s).fold(0.0, f64::max) }
}

fn shrink(found: &mut Vec<(Plan, Estimate)>) {
    if found.len() > KEPT {
        found.sort_by(|a, b| a.1.step_s.total_cmp(&b.1.step_s));
        found.truncate(KEPT);
    }
}

fn variants(tensor: usize, pipe: usize, data: usize) -> Vec<Plan> {
    let schedules: &[Kind] = if pipe == 1 {
        &[Kind::OneForwardOneBackward]
    } else {
        &[
            Kind::OneForwardOneBackward,
            Kind::Interleaved(2),
            Kind::Interleaved(3),
            Kind::Interleaved(4),
            Kind::ZeroBubble,
        ]
    };
    let zeros: &[u8] = if data == 1 { &[0] } else { &[0, 1, 3] };
    let mut all = Vec::new();
    for &schedule in schedules {
        for micro in [1, 2, 4, 8, 16] {
            for &zero in zeros {
                // Gathering parameters for every microbatch of every stage is never worth it.
                if zero == 3 && pipe > 1 {
                    continue;
                }
                for recompute in [Recompute::None, Recompute::Selective, Recompute::Full] {
                    all.push(Plan {
                        data,
                        tensor,
                        pipe,
                        micro,
                        schedule,
                        zero,
                        recompute,
                        sequence: tensor > 1,
                        ..Plan::ONE
                    });
                }
            }
        }
    }
    all
}
