//! Writes the checked-in subset of the recorded cases: one small case for each operator, in the
//! same format.
//!
//! `cargo run -p talweg-testkit --example subset -- FROM TO`
//!
//! Keys are shortened, and a case whose tensors share their first axis, with an operator that
//! treats the entries of that axis one by one, is cut to its first entries.

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

/// The subset stays below this, both files together.
const BYTES_MAX: usize = 300_000;

/// Operators that treat the entries of axis 0 one by one and are recorded on large tensors only.
const ROWWISE: &str = "abs acos acosh angle asin asinh atan atanh bmm ceil deg2rad digamma erf expm1 floor frac log1p \
    neg nn.functional.gelu nn.functional.hardswish nn.functional.leaky_relu round sign sin sinh sqrt tan tanh trunc";

/// Every tensor among the arguments.
fn arguments(tree: &Value, out: &mut BTreeSet<String>) {
    match tree {
        Value::Object(o) => match o.get("t") {
            Some(Value::String(k)) => drop(out.insert(k.clone())),
            _ => o.values().for_each(|v| arguments(v, out)),
        },
        Value::Array(a) => a.iter().for_each(|v| arguments(v, out)),
        _ => {}
    }
}

/// Every tensor a case names.
fn tensors_of(case: &Value) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    arguments(case, &mut out);
    for list in ["outputs", "cotangents", "wrt", "grads", "gradgrads"] {
        out.extend(case[list].as_array().into_iter().flatten().filter_map(|k| k.as_str().map(str::to_string)));
    }
    out
}

/// Puts short keys in place of the recorded ones.
fn rename(tree: &mut Value, keys: &BTreeMap<String, String>) {
    match tree {
        Value::String(s) => {
            if let Some(short) = keys.get(s) {
                *s = short.clone();
            }
        }
        Value::Array(a) => a.iter_mut().for_each(|v| rename(v, keys)),
        Value::Object(o) => o.values_mut().for_each(|v| rename(v, keys)),
        _ => {}
    }
}

/// A case as it would stand in the subset.
struct Candidate<'a> {
    case: Value,
    tensors: Vec<(String, TensorView<'a>)>,
    cost: usize,
    /// Elements of the largest tensor.
    largest: usize,
}

fn candidate<'a>(case: &Value, file: &SafeTensors<'a>, number: usize) -> Result<Candidate<'a>, Box<dyn Error>> {
    let old = tensors_of(case);
    let short = |k: &String| format!("{number}.{}", k.rsplit_once('.').map_or("", |(_, s)| s));
    let keys: BTreeMap<String, String> = old.iter().map(|k| (k.clone(), short(k))).collect();
    let views = old.iter().map(|k| file.tensor(k)).collect::<Result<Vec<_>, _>>()?;
    let is_rowwise = ROWWISE.split_whitespace().any(|n| case["op"] == *n);
    let rows = views.iter().map(|v| v.shape().first().copied().unwrap_or(0)).collect::<BTreeSet<_>>();
    let mut tensors = Vec::new();
    for (k, v) in keys.values().zip(views) {
        let view = match (is_rowwise && rows.len() == 1, v.shape()) {
            (true, [n, rest @ ..]) if *n > 1 => {
                let keep = if rest.is_empty() { (*n).min(20) } else { 1 };
                let data = &v.data()[..v.data().len() / n * keep];
                TensorView::new(v.dtype(), [&[keep], rest].concat(), data)?
            }
            _ => v,
        };
        tensors.push((k.clone(), view));
    }
    let mut case = case.clone();
    rename(&mut case, &keys);
    let cost = case.to_string().len() + tensors.iter().map(|(k, v)| k.len() + 68 + v.data().len()).sum::<usize>();
    let largest = tensors.iter().map(|(_, v)| v.shape().iter().product()).max().unwrap_or(0);
    Ok(Candidate { case, tensors, cost, largest })
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = args.as_slice() else { return Err("usage: subset FROM TO".into()) };
    let (from, to) = (Path::new(from), Path::new(to));
    let all: Value = serde_json::from_slice(&std::fs::read(from.join("cases.json"))?)?;
    let bytes = std::fs::read(from.join("tensors.safetensors"))?;
    let file = SafeTensors::deserialize(&bytes)?;

    let mut by_op: BTreeMap<(String, String), Vec<Candidate>> = BTreeMap::new();
    for (number, case) in all["cases"].as_array().ok_or("no cases")?.iter().enumerate() {
        let name = |k: &str| case[k].as_str().unwrap_or("").to_string();
        by_op.entry((name("op"), name("variant"))).or_default().push(candidate(case, &file, number)?);
    }
    // The cheapest case that is not empty; then, cheapest first, a case that says more in its place.
    let mut total = 0;
    let mut upgrades = Vec::new();
    let mut chosen: BTreeMap<_, &Candidate> = BTreeMap::new();
    for (name, cases) in &by_op {
        let first = cases.iter().min_by_key(|c| (c.largest == 0, c.cost)).ok_or("no case")?;
        total += first.cost;
        chosen.insert(name, first);
        if let (1, Some(rich)) = (first.largest, cases.iter().filter(|c| c.largest > 3).min_by_key(|c| c.cost)) {
            upgrades.push((rich.cost - first.cost, name, rich));
        }
    }
    upgrades.sort_by_key(|(more, ..)| *more);
    for (more, name, rich) in upgrades {
        if total + more < BYTES_MAX - 4_000 {
            total += more;
            chosen.insert(name, rich);
        }
    }

    std::fs::create_dir_all(to)?;
    let list: Vec<&Value> = chosen.values().map(|c| &c.case).collect();
    let cases = json!({"torch": all["torch"], "seed": all["seed"], "cases": list}).to_string();
    let tensors: BTreeMap<_, _> = chosen.values().flat_map(|c| c.tensors.iter().cloned()).collect();
    let tensors = safetensors::serialize(tensors, None)?;
    let single = chosen.values().filter(|c| c.largest == 1).count();
    let size = cases.len() + tensors.len();
    println!("{} operators, {single} of them by a single element, {size} bytes", chosen.len());
    if size > BYTES_MAX {
        return Err(format!("more than {BYTES_MAX} bytes").into());
    }
    std::fs::write(to.join("cases.json"), cases)?;
    std::fs::write(to.join("tensors.safetensors"), tensors)?;
    Ok(())
}
