//! The rows: what each operator computes, by domain, name and the version since which it means that. One file for each
//! family of operators.

mod attention;
mod cast;
mod contrib;
mod control;
mod conv;
mod detection;
mod gather;
mod integers;
mod logic;
mod loss;
mod math;
mod matmul;
mod norm;
mod optimizer;
mod pool;
mod quantized;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod shape;
mod signal;
mod text;
mod trees;

use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal, Result, Shape, Site};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;
use tensor::Tensor;

/// The results of a node.
pub type Outs = Result<Vec<Value>>;

/// What an operator computes since a version.
pub struct Row {
    /// Its domain; ONNX's own is empty.
    pub domain: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The first version of the operator set in which it means this.
    pub since: i64,
    /// Whether results have the first input's type and elements, moved.
    pub moves: bool,
    /// Computes it.
    pub run: fn(&Call<'_>) -> Outs,
}

const fn row(name: &'static str, since: i64, run: fn(&Call<'_>) -> Outs) -> Row {
    Row { domain: "", name, since, moves: false, run }
}
/// A row of an operator that moves elements.
const fn moving(name: &'static str, since: i64, run: fn(&Call<'_>) -> Outs) -> Row {
    Row { domain: "", name, since, moves: true, run }
}
/// A row of another domain.
const fn of(domain: &'static str, name: &'static str, since: i64, run: fn(&Call<'_>) -> Outs) -> Row {
    Row { domain, name, since, moves: false, run }
}

pub use integers::{keep_marks, keep_steps};

/// No operator.
pub static NONE: Row = row("", 0, |_| Err(Error::bug("a node without a row")));

/// Every row.
pub fn table() -> impl Iterator<Item = &'static Row> {
    let parts: [&'static [Row]; 24] = [
        math::ROWS,
        logic::ROWS,
        cast::ROWS,
        matmul::ROWS,
        reduce::ROWS,
        shape::ROWS,
        gather::ROWS,
        conv::ROWS,
        pool::ROWS,
        norm::ROWS,
        resize::ROWS,
        recurrent::ROWS,
        attention::ROWS,
        quantized::ROWS,
        control::ROWS,
        sequence::ROWS,
        signal::ROWS,
        detection::ROWS,
        loss::ROWS,
        optimizer::ROWS,
        random::ROWS,
        text::ROWS,
        trees::ROWS,
        contrib::ROWS,
    ];
    parts.into_iter().flatten()
}

/// The row of an operator in a version of its set.
pub fn find(domain: &str, name: &str, version: i64) -> Option<&'static Row> {
    static BY_NAME: LazyLock<FxHashMap<(&str, &str), Vec<&'static Row>>> = LazyLock::new(|| {
        let mut out: FxHashMap<(&str, &str), Vec<&'static Row>> = FxHashMap::default();
        for r in table() {
            out.entry((r.domain, r.name)).or_default().push(r);
        }
        out
    });
    let rows = BY_NAME.get(&(domain, name))?;
    rows.iter().filter(|r| r.since <= version).max_by_key(|r| r.since).copied()
}

/// Inputs of a node that are scales of quantized tensors.
pub fn scales(node: &crate::graph::Node) -> impl Iterator<Item = &String> {
    let at: &[usize] = match &*node.op {
        "QuantizeLinear" | "DequantizeLinear" => &[1],
        "QLinearConv" | "QLinearMatMul" => &[1, 4, 6],
        _ => &[],
    };
    at.iter().filter_map(|&i| node.inputs.get(i))
}

/// One result.
fn one(t: Tensor) -> Outs {
    Ok(vec![t.into()])
}
/// Several results.
fn all(tensors: impl IntoIterator<Item = Tensor>) -> Outs {
    Ok(tensors.into_iter().map(Value::from).collect())
}
/// A constant scalar of a type.
fn number(dtype: DType, x: f64) -> Tensor {
    ir::Value::constant(Literal::scalar_f64(dtype, x), Site::here()).into()
}
/// A constant.
fn constant(l: Literal) -> Tensor {
    ir::Value::constant(l, Site::here()).into()
}
/// Sizes as a shape; a negative one is an error.
fn shape_of(sizes: &[i64]) -> Result<Shape> {
    crate::value::checked_shape(sizes).map_err(|e| Error::shape(e.message))
}
/// Axes counted from the front.
fn axes_of(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    axes.iter().map(|&a| tensor::axis(a, rank)).collect()
}
/// A per-channel vector along axis 1 of a tensor of that rank.
fn per_channel(t: &Tensor, rank: usize) -> Result<Tensor> {
    let n = t.count()?;
    let mut s = vec![1; rank.max(2)];
    s[1] = n;
    Ok(t.reshape(s))
}
