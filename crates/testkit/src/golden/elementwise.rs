//! Adapters: elementwise operators, norms of layers, random.

use super::GoldenCase;
use ops::{Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let x = || c.tensor(0);
    // `alpha` scales the second operand of add and sub.
    let scaled = || {
        let other = c.operand((1, "other"));
        if c.has("alpha") { other * c.float("alpha", 1.0) } else { other }
    };
    Some(Ok(vec![match c.operator.as_str() {
        "add" => x().add(scaled()),
        "sub" => x().sub(scaled()),
        "rsub" => scaled_rsub(c),
        "mul" => x().mul(c.operand(1)),
        "div:no_rounding_mode" => x().div(c.operand(1)),
        "exp" => x().exp(),
        "log" => x().log(),
        "sin" => x().sin(),
        "cos" => x().cos(),
        "neg" => x().neg(),
        "floor" => x().floor(),
        "pow" => x().pow(c.operand(1)),
        "remainder" => x().rem(c.operand(1)),
        "maximum" | "max:binary" => x().maximum(c.operand(1)),
        "nn.functional.relu" => x().relu(),
        "where" => Tensor::where_(&c.tensor(1), &x(), c.operand(2)),
        _ => return None,
    }]))
}

/// `other - alpha * input`.
fn scaled_rsub(c: &GoldenCase) -> Tensor {
    c.operand(1) - c.tensor(0) * c.float("alpha", 1.0)
}
