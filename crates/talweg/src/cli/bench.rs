//! `talweg bench`: workloads of the peers' benchmark harness, one JSON line each.

use crate::Result;

/// What to measure.
#[derive(clap::Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub struct Options {
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    other: Option<Other>,
    /// A workload; `list` names them. `gpt:8x384x6x256` is a training step of a GPT with this batch,
    /// width, depth and context.
    #[arg(required = true)]
    workload: Option<String>,
    /// The device. A GPU has workloads of its own; `all` runs every one.
    #[arg(long, default_value = "cpu")]
    device: String,
}

/// What is measured from outside.
#[cfg(feature = "serve")]
#[derive(clap::Subcommand)]
enum Other {
    /// Put load on an inference server: latency percentiles and goodput.
    Serve(super::serve::BenchOptions),
}

/// Measures and prints.
pub fn run(o: &Options) -> Result<()> {
    #[cfg(feature = "serve")]
    if let Some(Other::Serve(load)) = &o.other {
        return super::serve::bench(load);
    }
    bench::run(o.workload.as_deref().unwrap_or("list"), &o.device)
}
