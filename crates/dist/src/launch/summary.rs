//! What is said of a job when it is over.

use super::Outcome;
use std::time::Instant;

/// What has happened to a job, over all its tries.
pub(crate) struct Summary {
    began: Instant,
    pub workers: u32,
    pub workers_done: u32,
    /// Workers that were given up.
    pub lost: Vec<u32>,
    pub worker_restarts: u32,
    pub server_restarts: u32,
    pub job_restarts: u32,
    /// The share of the data that was left out.
    pub missed: f64,
    /// Step and path of the newest checkpoint that is known to be on disk.
    pub checkpoint: Option<(u64, String)>,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary {
            began: Instant::now(),
            workers: 0,
            workers_done: 0,
            lost: Vec::new(),
            worker_restarts: 0,
            server_restarts: 0,
            job_restarts: 0,
            missed: 0.0,
            checkpoint: None,
        }
    }
}

impl Summary {
    /// In one line.
    pub fn text(&self, outcome: &Outcome) -> String {
        let how = match outcome {
            Outcome::Done => "done".to_string(),
            Outcome::Stopped => "stopped".to_string(),
            Outcome::Failed(why) => format!("failed: {why}"),
        };
        let (n, of) = (self.workers_done, self.workers);
        let mut parts = vec![format!("{n} of {of} workers done in {:.1} s", self.began.elapsed().as_secs_f64())];
        if !self.lost.is_empty() {
            let lost: Vec<String> = self.lost.iter().map(u32::to_string).collect();
            parts.push(format!("lost for good: {}", lost.join(", ")));
        }
        let (workers, servers, jobs) = (self.worker_restarts, self.server_restarts, self.job_restarts);
        parts.push(format!("restarts: {workers} of workers, {servers} of servers, {jobs} of the whole job"));
        parts.push(format!("data missing: {:.1} %", 100.0 * self.missed));
        parts.push(match &self.checkpoint {
            Some((step, path)) => format!("newest checkpoint: step {step}, {path}"),
            None => "no checkpoint".to_string(),
        });
        format!("{how}; {}", parts.join("; "))
    }
}
