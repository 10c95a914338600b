//! Ensembles of decision trees. All rows walk down all trees at once, a level at a time.

use super::{Outs, Row, constant, number, of, one};
use crate::graph::Attribute;
use crate::run::Call;
use crate::value::{Item, Value};
use ir::{DType, Error, Literal, Result};
use tensor::Tensor;

pub static ROWS: &[Row] = &[of("ai.onnx.ml", "TreeEnsemble", 5, tree_ensemble)];

/// Levels of a tree at most.
const DEPTH_MAX: usize = 256;
/// The mode of a node that asks for a set.
const MEMBER: i64 = 6;

/// A tensor attribute's values.
fn tensor(c: &Call<'_>, name: &str) -> Result<Option<Literal>> {
    match c.attribute(name) {
        None => Ok(None),
        Some(Attribute::Value(Value::Tensor(Item { host: Some(l), .. }))) => Ok(Some(l.clone())),
        Some(_) => Err(Error::format(format!("{name} must be a tensor"))),
    }
}

fn indices(c: &Call<'_>, name: &str, count: usize) -> Result<Vec<i64>> {
    let list = c.list(name).unwrap_or_else(|| vec![0; count]);
    if list.len() == count {
        return Ok(list);
    }
    Err(Error::format(format!("{name} has {} numbers for {count} nodes", list.len())))
}

fn missing(name: &str) -> impl Fn() -> Error + '_ {
    move || Error::format(format!("{name} is missing"))
}

/// Nodes, then leaves, which lead to themselves.
struct Forest {
    /// Where each place leads if its question is answered by yes, and by no.
    ways: [Vec<i64>; 2],
    roots: Vec<i64>,
    nodes: usize,
}

impl Forest {
    fn new(c: &Call<'_>, nodes: usize, leaves: usize) -> Result<Forest> {
        let way = |ids: &str, are_leaves: &str| -> Result<Vec<i64>> {
            let (ids, are_leaves) = (indices(c, ids, nodes)?, indices(c, are_leaves, nodes)?);
            let mut way = Vec::with_capacity(nodes + leaves);
            for (id, is_leaf) in ids.into_iter().zip(are_leaves) {
                let (first, count) = if is_leaf != 0 { (nodes, leaves) } else { (0, nodes) };
                let at = usize::try_from(id).ok().filter(|&i| i < count);
                let at = at.ok_or_else(|| Error::format(format!("a node leads to {id} of {count}")))?;
                way.push((first + at) as i64);
            }
            way.extend(nodes as i64..(nodes + leaves) as i64);
            Ok(way)
        };
        let ways = [way("nodes_truenodeids", "nodes_trueleafs")?, way("nodes_falsenodeids", "nodes_falseleafs")?];
        let roots = c.list("tree_roots").ok_or_else(missing("tree_roots"))?;
        if let Some(r) = roots.iter().find(|r| **r < 0 || **r >= nodes as i64) {
            return Err(Error::format(format!("a tree begins at node {r} of {nodes}")));
        }
        Ok(Forest { ways, roots, nodes })
    }
    /// Levels above the deepest leaf.
    fn depth(&self) -> Result<usize> {
        let mut here: Vec<i64> = self.roots.clone();
        for depth in 0..DEPTH_MAX {
            here.retain(|&i| i < self.nodes as i64);
            if here.is_empty() {
                return Ok(depth);
            }
            here = here.iter().flat_map(|&i| self.ways.iter().map(move |w| w[i as usize])).collect();
            here.sort_unstable();
            here.dedup();
        }
        Err(Error::format(format!("a tree has more than {DEPTH_MAX} levels, or leads back to itself")))
    }
}

/// For each node the values of its set, filled up with NaN; sets are in the order of their nodes, each ended by NaN.
fn sets(c: &Call<'_>, modes: &[i64], places: usize, dtype: DType) -> Result<Option<Tensor>> {
    let count = modes.iter().filter(|m| **m == MEMBER).count();
    if count == 0 {
        return Ok(None);
    }
    let values = tensor(c, "membership_values")?.ok_or_else(missing("membership_values"))?.to_f64();
    let sets: Vec<&[f64]> = values.split(|x| x.is_nan()).collect();
    if sets.len() < count {
        return Err(Error::format(format!("membership_values has {} sets for {count} nodes", sets.len())));
    }
    let width = sets.iter().map(|s| s.len()).max().unwrap_or(0).max(1);
    let mut table = vec![f64::NAN; places * width];
    let members = modes.iter().enumerate().filter(|(_, m)| **m == MEMBER);
    for ((node, _), set) in members.zip(sets) {
        table[node * width..node * width + set.len()].copy_from_slice(set);
    }
    Ok(Some(constant(Literal::from_f64(dtype, [places, width], &table))))
}

fn tree_ensemble(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let ([_, features], dtype) = (x.dims()?, x.dtype()?);
    let splits = tensor(c, "nodes_splits")?.ok_or_else(missing("nodes_splits"))?;
    let weights = tensor(c, "leaf_weights")?.ok_or_else(missing("leaf_weights"))?;
    let (nodes, leaves) = (splits.count(), weights.count());
    let modes = tensor(c, "nodes_modes")?.ok_or_else(missing("nodes_modes"))?.to_i64();
    let asked = indices(c, "nodes_featureids", nodes)?;
    let targets = indices(c, "leaf_targetids", leaves)?;
    let outputs = usize::try_from(c.int("n_targets", 1)).unwrap_or(0);
    if modes.len() != nodes || asked.iter().any(|f| *f < 0 || *f >= features as i64) {
        return Err(Error::format(format!(
            "{nodes} nodes have {} modes, or ask for a feature beyond {features}",
            modes.len()
        )));
    }
    if targets.iter().any(|t| *t < 0 || *t >= outputs as i64) {
        return Err(Error::format(format!("a leaf belongs to a target beyond {outputs}")));
    }
    let forest = Forest::new(c, nodes, leaves)?;
    let places = nodes + leaves;
    let wide = |list: &[i64]| {
        let list: Vec<i64> = (0..places).map(|i| list.get(i).copied().unwrap_or(0)).collect();
        constant(Literal::from_i64(DType::I64, [places], &list))
    };
    let split: Vec<f64> = splits.to_f64().into_iter().chain(std::iter::repeat_n(0.0, leaves)).collect();
    let split = constant(Literal::from_f64(dtype, [places], &split));
    let (feature, mode, tracks) =
        (wide(&asked), wide(&modes), wide(&indices(c, "nodes_missing_value_tracks_true", nodes)?));
    let [yes, no] = [0, 1].map(|i: usize| wide(&forest.ways[i]));
    let sets = sets(c, &modes, places, dtype)?;
    let (rows, trees) = (x.shape()?[0], forest.roots.len());
    let roots = Literal::from_i64(DType::I64, [1, trees], &forest.roots);
    let mut at = constant(roots) + Tensor::zeros_of([rows, trees], DType::I64);
    for _ in 0..forest.depth()? {
        let value = x.gather(1, &feature.take(&at, 0));
        let (border, kind) = (split.take(&at, 0), mode.take(&at, 0));
        let mut answer = value.le(&border);
        let others = [value.lt(&border), value.ge(&border), value.gt(&border), value.eq(&border), value.ne(&border)];
        for (k, other) in others.iter().enumerate().filter(|(k, _)| modes.contains(&(*k as i64 + 1))) {
            answer = Tensor::where_(&kind.eq(k as i64 + 1), other, &answer);
        }
        if let Some(sets) = &sets {
            let is_member = sets.take(&at, 0).eq(value.unsqueeze(-1)).any(-1);
            answer = Tensor::where_(&kind.eq(MEMBER), &is_member, &answer);
        }
        let is_missing = value.ne(&value).cast(DType::I64) * tracks.take(&at, 0);
        answer = answer.logical_or(&is_missing.gt(0));
        at = Tensor::where_(&answer, &yes.take(&at, 0), &no.take(&at, 0));
    }
    let leaf = at - nodes as i64;
    let weight = constant(weights).take(&leaf, 0).unsqueeze(-1);
    let target = constant(Literal::from_i64(DType::I64, [leaves], &targets)).take(&leaf, 0).unsqueeze(-1);
    let is_own = target.eq(Tensor::iota(outputs, DType::I64));
    let kept = |other: f64| Tensor::where_(&is_own, &weight, &number(dtype, other));
    let y = match c.int("aggregate_function", 1) {
        0 => kept(0.0).sum(1) / trees.max(1) as f64,
        1 => kept(0.0).sum(1),
        2 => kept(f64::INFINITY).min(1),
        3 => kept(f64::NEG_INFINITY).max(1),
        n => return Err(Error::value(format!("aggregate_function {n} is not supported"))),
    };
    one(match c.int("post_transform", 0) {
        0 => y,
        1 => y.softmax(-1),
        2 => y.sigmoid(),
        n => return Err(Error::value(format!("post_transform {n} is not supported"))),
    })
}
