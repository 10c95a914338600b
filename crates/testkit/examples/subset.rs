//! Writes the checked-in subset of the recorded cases: one or two small ones for each operator,
//! in the same format.
//!
//! `cargo run -p talweg-testkit --example subset -- FROM TO`

use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

/// The subset stays below this, both files together.
const BYTES_MAX: usize = 300_000;

/// Every tensor a case names.
fn keys(case: &Value, out: &mut BTreeSet<String>) {
    match case {
        Value::Object(o) => match o.get("t") {
            Some(Value::String(k)) => drop(out.insert(k.clone())),
            _ => o.values().for_each(|v| keys(v, out)),
        },
        Value::Array(a) => a.iter().for_each(|v| keys(v, out)),
        _ => {}
    }
}

fn tensors_of(case: &Value) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    keys(case, &mut out);
    for list in ["outputs", "cotangents", "wrt", "grads", "gradgrads"] {
        out.extend(case[list].as_array().into_iter().flatten().filter_map(|k| k.as_str().map(str::to_string)));
    }
    out
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = args.as_slice() else { return Err("usage: subset FROM TO".into()) };
    let (from, to) = (Path::new(from), Path::new(to));
    let all: Value = serde_json::from_slice(&std::fs::read(from.join("cases.json"))?)?;
    let bytes = std::fs::read(from.join("tensors.safetensors"))?;
    let file = SafeTensors::deserialize(&bytes)?;

    // Cases by operator, small first; empty and single-element ones say least and come last.
    let mut by_op: BTreeMap<(String, String), Vec<(bool, usize, &Value)>> = BTreeMap::new();
    for case in all["cases"].as_array().ok_or("no cases")? {
        let mut cost = case.to_string().len();
        let mut largest = 0;
        for key in tensors_of(case) {
            let t = file.tensor(&key)?;
            cost += t.data().len() + key.len() + 70;
            largest = largest.max(t.shape().iter().product());
        }
        let name = |k: &str| case[k].as_str().unwrap_or("").to_string();
        by_op.entry((name("op"), name("variant"))).or_default().push((largest < 2, cost, case));
    }
    by_op.values_mut().for_each(|cases| cases.sort_by_key(|(poor, cost, _)| (*poor, *cost)));
    let mut total: usize = by_op.values().map(|c| c[0].1).sum();
    let mut chosen: Vec<&Value> = by_op.values().map(|c| c[0].2).collect();
    let mut second: Vec<_> = by_op.values().filter_map(|c| c.get(1)).collect();
    second.sort_by_key(|(_, cost, _)| *cost);
    for (_, cost, case) in second {
        if total + cost < BYTES_MAX {
            total += cost;
            chosen.push(case);
        }
    }
    chosen.sort_by_key(|c| (c["op"].to_string(), c["variant"].to_string(), c["index"].as_u64()));

    let mut kept = BTreeMap::new();
    for key in chosen.iter().flat_map(|c| tensors_of(c)) {
        kept.insert(key.clone(), file.tensor(&key)?);
    }
    std::fs::create_dir_all(to)?;
    let cases = json!({"torch": all["torch"], "seed": all["seed"], "cases": chosen}).to_string();
    let tensors = safetensors::serialize(kept, None)?;
    println!("{} cases of {} operators, {} bytes", chosen.len(), by_op.len(), cases.len() + tensors.len());
    if cases.len() + tensors.len() > BYTES_MAX {
        return Err(format!("more than {BYTES_MAX} bytes").into());
    }
    std::fs::write(to.join("cases.json"), cases)?;
    std::fs::write(to.join("tensors.safetensors"), tensors)?;
    Ok(())
}
