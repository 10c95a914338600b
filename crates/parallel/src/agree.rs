//! Before the first step: whether all workers are about to do the same.

use dist::launch::WorkerConfig;
use dist::{Reducer, Store};

/// Bytes that a worker says at most; what is longer is cut.
const BYTES: usize = 4096;

/// What the environment has set for this worker, and must have set for all.
pub(crate) fn environment(config: &WorkerConfig) -> [(&'static str, String); 3] {
    let wire = config.wire.map_or("f32".to_string(), |f| f.to_string());
    let bucket = std::env::var("TALWEG_BUCKET").unwrap_or_else(|_| "unset".to_string());
    [("WORLD_SIZE", config.world.to_string()), ("TALWEG_WIRE", wire), ("TALWEG_BUCKET", bucket)]
}

/// Fails, on every worker, unless all workers say the same settings; under all-reduce.
pub(crate) fn compare(reducer: &mut Reducer, rank: u32, settings: &[(&str, String)]) -> dist::Result<()> {
    are_same(&reducer.gather(&words(&said(rank, settings)))?)
}
/// The same with a parameter store, where the first worker's settings stay.
pub(crate) fn compare_in_store(store: &mut Store, rank: u32, settings: &[(&str, String)]) -> dist::Result<()> {
    let own = words(&said(rank, settings));
    let first = store.note(&own)?;
    are_same(&[first, own])
}
fn are_same(all: &[Vec<f32>]) -> dist::Result<()> {
    let all: Vec<String> = all.iter().map(|w| text(w)).collect();
    match differences(&all) {
        Some(what) => Err(dist::Error::value(format!("workers begin differently: {what}"))),
        None => Ok(()),
    }
}

fn said(rank: u32, settings: &[(&str, String)]) -> String {
    let line = |(name, value): &(&str, String)| format!("\n{name}\t{}", value.replace(['\n', '\t'], " "));
    settings.iter().fold(rank.to_string(), |all, s| all + &line(s))
}
/// Text in words of fixed number, which is not added up.
fn words(text: &str) -> Vec<f32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(BYTES, 0);
    bytemuck::pod_collect_to_vec(&bytes)
}
fn text(words: &[f32]) -> String {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    String::from_utf8_lossy(bytes).trim_end_matches(['\0', char::REPLACEMENT_CHARACTER]).to_string()
}

/// In what workers differ from the first.
fn differences(all: &[String]) -> Option<String> {
    fn parse(text: &str) -> (&str, Vec<(&str, &str)>) {
        let (rank, rest) = text.split_once('\n').unwrap_or((text, ""));
        (rank, rest.lines().filter_map(|l| l.split_once('\t')).collect())
    }
    let (first, wanted) = parse(all.first()?);
    let mut out: Vec<String> = Vec::new();
    for (rank, found) in all[1..].iter().map(|t| parse(t)) {
        for ((name, a), (_, b)) in wanted.iter().zip(&found).filter(|(a, b)| a != b) {
            out.push(format!("{name} is {a} on worker {first}, {b} on worker {rank}"));
        }
        if wanted.len() != found.len() {
            out.push(format!("workers {first} and {rank} run different programs"));
        }
    }
    (!out.is_empty()).then(|| out.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_values_and_their_workers_are_named() {
        let of = |rank, step: &str| said(rank, &[("step", step.to_string()), ("batch size", "8\n".to_string())]);
        let all = [of(0, "35"), of(1, "35"), of(2, "0")].map(|t| text(&words(&t)));
        assert_eq!(differences(&all[..2]), None);
        assert_eq!(differences(&all).unwrap(), "step is 35 on worker 0, 0 on worker 2");
        let other = said(1, &[("step", "35".to_string())]);
        assert_eq!(differences(&[of(0, "35"), other]).unwrap(), "workers 0 and 1 run different programs");
        let long = said(0, &[("step", "ü".repeat(BYTES))]);
        assert!(text(&words(&long)).ends_with('ü'), "cut within a character");
    }
}
