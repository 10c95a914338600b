//! What chance does to a run: devices that are not equally fast, and failures. Everything follows from a seed.

use crate::Cluster;

/// Numbers that follow from a seed (SplitMix64).
struct Draws(u64);

impl Draws {
    /// Between 0 and 1, neither included.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON / 4.0
    }
    /// Normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// What the computation of each device takes, as a multiple: log-normal around 1 with this deviation.
pub fn uneven(devices: usize, deviation: f64, seed: u64) -> Vec<f64> {
    let mut draws = Draws(seed);
    (0..devices).map(|_| (deviation * draws.normal()).exp()).collect()
}

/// A run with failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Seconds from the start to the end of the last step.
    pub seconds: f64,
    /// How often a device failed.
    pub failures: usize,
    /// Seconds of steps that were computed again.
    pub lost_s: f64,
    /// Checkpoints that were written.
    pub checkpoints: usize,
}

/// Runs so many steps on so many devices: a device fails by chance, the job starts again from its last checkpoint. One is
/// written at the interval of Young and Daly.
pub fn run_with_failures(cluster: &Cluster, devices: usize, step_s: f64, steps: usize, seed: u64) -> Run {
    let mut draws = Draws(seed);
    let between = cluster.mtbf_hours * 3600.0 / devices as f64;
    let interval = (2.0 * cluster.checkpoint_s * between).sqrt();
    let each = ((interval / step_s).round() as usize).max(1);
    let mut next = || -between * draws.unit().ln();
    let mut run = Run { seconds: 0.0, failures: 0, lost_s: 0.0, checkpoints: 0 };
    let (mut done, mut left) = (0, next());
    while done < steps {
        // Until the next checkpoint, or the end.
        let (count, is_last) = (each.min(steps - done), done + each >= steps);
        let long = count as f64 * step_s + if is_last { 0.0 } else { cluster.checkpoint_s };
        if left >= long {
            (left, done) = (left - long, done + count);
            run.seconds += long;
            run.checkpoints += usize::from(!is_last);
            continue;
        }
        run.failures += 1;
        run.lost_s += left.min(count as f64 * step_s);
        run.seconds += left + cluster.restart_s;
        left = next();
    }
    run
}
