//! What training a GPT costs on a cluster, and the plans that cost least.
//!
//! ```text
//! cargo run --release -p talweg-sim --example plan -- cluster=h100 devices=1024 batch=1536 layers=96 hidden=12288 heads=96
//! ```
//! More words: `sequence`, `vocabulary`, `top`; `data`, `tensor` or `pipe` to fix an axis; `context` and `expert` for axes
//! that are not searched, `experts` and `chosen` for a mixture; `overlap=1` for exchanges that go on while the rest is
//! computed. `timeline=FILE` writes the best plan's pipeline for ui.perfetto.dev. `cluster` may be a file.

use std::collections::BTreeMap;
use talweg_sim::{Cluster, Error, Estimate, Gpt, Kind, Limits, Plan, Recompute, Result, clusters, estimate, search};

const WORDS: &[&str] = &[
    "cluster",
    "devices",
    "batch",
    "layers",
    "hidden",
    "heads",
    "sequence",
    "vocabulary",
    "top",
    "data",
    "tensor",
    "pipe",
    "context",
    "expert",
    "experts",
    "chosen",
    "overlap",
    "timeline",
];

/// The words of the command line.
struct Words(BTreeMap<String, String>);

impl Words {
    fn read() -> Result<Words> {
        let pair = |word: String| {
            let (key, value) =
                word.split_once('=').ok_or_else(|| Error(format!("KEY=VALUE is expected, not {word:?}")))?;
            if !WORDS.contains(&key) {
                return Err(Error(format!("{key:?} is none of {}", WORDS.join(", "))));
            }
            Ok((key.to_string(), value.to_string()))
        };
        std::env::args().skip(1).map(pair).collect::<Result<_>>().map(Words)
    }
    fn number(&self, key: &str) -> Result<Option<usize>> {
        let bad = |text: &String| Error(format!("{key} is {text:?}, no number"));
        self.0.get(key).map(|text| text.parse().map_err(|_| bad(text))).transpose()
    }
    fn need(&self, key: &str, default: Option<usize>) -> Result<usize> {
        self.number(key)?.or(default).ok_or_else(|| Error(format!("{key}=NUMBER is missing")))
    }
}

fn cluster(name: &str) -> Result<Cluster> {
    let known = clusters().into_iter().find(|(n, _)| *n == name).map(|(_, text)| text.to_string());
    let names = || clusters().map(|(n, _)| n).join(", ");
    let read = || std::fs::read_to_string(name);
    let missing = |e| Error(format!("{} are clusters, {name:?} is none, and no file: {e}", names()));
    known.map_or_else(|| read().map_err(missing), Ok)?.parse()
}

fn row(p: &Plan, e: &Estimate) -> String {
    let schedule = match p.schedule {
        _ if p.pipe == 1 => "-".to_string(),
        Kind::GPipe => "gpipe".to_string(),
        Kind::OneForwardOneBackward => "1f1b".to_string(),
        Kind::Interleaved(v) => format!("interleaved {v}"),
        Kind::ZeroBubble => "zb-h1".to_string(),
    };
    let again = match p.recompute {
        Recompute::None => "nothing",
        Recompute::Selective => "attention",
        Recompute::Full => "layers",
    };
    let axes =
        format!("{:>5} {:>6} {:>5} {:>6} {schedule:>14} {:>4} {again:>10}", p.data, p.tensor, p.pipe, p.micro, p.zero);
    let (time, memory, wait) = (e.step_s, e.bytes() / 1e9, 100.0 * e.bubble);
    let (sent, share) = (e.sent_bytes / 1e9, 100.0 * e.utilization);
    format!("{axes} {time:>9.3} {memory:>7.1} {wait:>7.1} {sent:>9.1} {share:>6.1} {:>9.3}", e.price)
}

fn main() -> Result<()> {
    let words = Words::read()?;
    let name = words.0.get("cluster").map_or("a100", String::as_str);
    let cluster = cluster(name)?;
    let model = Gpt {
        layers: words.need("layers", None)?,
        hidden: words.need("hidden", None)?,
        heads: words.need("heads", None)?,
        sequence: words.need("sequence", Some(2048))?,
        vocabulary: words.need("vocabulary", Some(51200))?,
        experts: words.need("experts", Some(1))?,
        chosen: words.need("chosen", Some(1))?,
    };
    let (devices, batch) = (words.need("devices", None)?, words.need("batch", None)?);
    let limits = Limits {
        data: words.number("data")?,
        tensor: words.number("tensor")?,
        pipe: words.number("pipe")?,
        context: words.number("context")?,
        expert: words.number("expert")?,
        overlap: words.need("overlap", Some(0))? > 0,
    };
    let found = search(&model, &cluster, devices, batch, limits);
    let Some((best, _)) = found.first() else {
        return Err(Error(
            "no plan fits: too large a model, or a batch that cannot be divided among the devices".into(),
        ));
    };
    println!("{:.1} billion parameters on {devices} devices of {name}", model.parameters() / 1e9);
    println!(
        " data tensor  pipe  micro       schedule zero recomputed    s/step      GB  wait %   GB sent  MFU %    $/step"
    );
    found.iter().take(words.need("top", Some(5))?).for_each(|(p, e)| println!("{}", row(p, e)));
    if let Some(path) = words.0.get("timeline") {
        let trace = estimate(&model, &cluster, best, batch)?.timeline.trace();
        std::fs::write(path, trace).map_err(|e| Error(format!("{path}: {e}")))?;
    }
    Ok(())
}
