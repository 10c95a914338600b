//! Composites: ops made of other ops; devices may claim them.

/// Writes the row and the method of a smooth or piecewise function of one float input with
/// numbers as parameters: its body and its gradient, both in tensors.
macro_rules! activation {
    (
        $(#[doc = $doc:literal])*
        $name:ident($($p:ident),*);
        $(autocast: $autocast:ident;)?
        $(complex: $complex:expr;)?
        body: |$x:ident| $body:expr;
        grad: |$gx:ident, $gy:ident, $g:ident| $grad:expr;
        samples: $domain:expr => [$(($($v:expr),*)),*];
        example: ($($ev:expr),*), $ein:expr => $eout:expr, $source:literal;
    ) => {
        #[doc = concat!("The row of `", stringify!($name), "`.")]
        pub static OP: ir::Op = ir::Op {
            name: stringify!($name),
            doc: concat!($($doc),*),
            attrs: &[$((stringify!($p), ir::AttrKind::Float)),*],
            infer: |c| {
                c.arity(1)?;
                $crate::rules::float(c, 0)?;
                $crate::rules::same(c, 0)
            },
            meaning: ir::Meaning::Composite(|_c, args| {
                $( let $p = _c.attrs.float(stringify!($p))?; )*
                // 16-bit floats would be rounded at every step.
                $crate::rules::expand1(args, |t| { let $x = &t[0].widened(); ($body).cast_like(&t[0]) })
            }),
            #[allow(unused_variables)]
            grad: ir::Grad::Rule(|c| {
                // Not every parameter shows in the slope.
                $( let $p = c.attrs.float(stringify!($p))?; )*
                $crate::rules::unary_grad(c, |$gx, $gy, $g| $grad)
            }),
            $(autocast: ir::Autocast::$autocast,)?
            $(complex: $complex,)?
            cases: || {
                #[allow(unused_mut, unused_assignments, clippy::redundant_closure_call)]
                let attrs = |values: &[f64]| {
                    let mut values = values.iter().copied();
                    let mut attrs = ir::Attrs::new();
                    $( attrs = attrs.with(stringify!($p), values.next().unwrap_or(f64::NAN)); )*
                    assert!(values.next().is_none());
                    attrs
                };
                let (x, y) = ($ein, $eout);
                vec![
                    $( ir::Case::new(vec![$crate::rules::sample(ir::DType::F64, [2, 4], 3, $domain)], attrs(&[$($v),*])), )*
                    ir::Case::new(vec![$crate::rules::f64s([x.len()], &x)], attrs(&[$($ev),*]))
                        .expect(vec![$crate::rules::f64s([y.len()], &y)], $source)
                        .kinked(),
                ]
            },
            ..ir::Op::DEFAULT
        };
        impl $crate::Tensor {
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self $(, $p: f64)*) -> $crate::Tensor {
                $crate::Tensor::apply1(&OP, &[self], ir::Attrs::new()$(.with(stringify!($p), $p))*)
            }
        }
    };
}
use activation;

crate::table! {
    addcdiv,
    addcmul,
    alias,
    angle,
    celu,
    clamp,
    clamp_max,
    clamp_min,
    deg2rad,
    elu,
    entr,
    frac,
    gelu,
    gelu_grad,
    gelu_tanh,
    gelu_tanh_grad,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaf,
    leaky_relu,
    lerp,
    log_ndtr,
    log_sigmoid,
    logaddexp,
    logaddexp2,
    logit,
    mish,
    nan_to_num,
    ndtr,
    prelu,
    rad2deg,
    relu,
    relu6,
    selu,
    silu,
    silu_grad,
    sinc,
    softplus,
    softshrink,
    softsign,
    stop_gradient,
    tanhshrink,
    threshold,
    xlog1py,
    xlogy,
}

use crate::{Result, Tensor};
use ir::Value;

/// What a value gets of the gradient where it is equal to a bound, as in PyTorch: half if that is a
/// tensor, nothing if it is a number.
fn tie(bound: &Value) -> f64 {
    let node = bound.node();
    match node.op() {
        Some(op) if op == &ir::CONST && bound.ty().shape.rank() == 0 => 0.0,
        Some(op) if op.is_view() || op == &crate::scalar::cast::OP => node.inputs().first().map_or(0.5, tie),
        _ => 0.5,
    }
}
/// What a value and its bound get of the gradient: the value all of it where it `wins`, `tie` of it where it is `equal`,
/// the bound the rest. It is chosen, not multiplied: an infinite gradient leaves 0 to the one that gets nothing.
fn parted(wins: &Tensor, equal: &Tensor, tie: f64, g: &Tensor) -> (Tensor, Tensor) {
    let zero = g.zeros_like();
    if tie == 0.0 {
        return (Tensor::where_(wins, g, &zero), Tensor::where_(wins, &zero, g));
    }
    let of_bound = Tensor::where_(equal, &(g * (1.0 - tie)), g);
    (Tensor::where_(wins, g, Tensor::where_(equal, &(g * tie), &zero)), Tensor::where_(wins, &zero, of_bound))
}

/// All tensors in their common element type.
pub(crate) fn promote<const N: usize>(list: [&Tensor; N]) -> Result<[Tensor; N]> {
    let mut dtype = list[0].dtype()?;
    for t in &list[1..] {
        dtype = dtype.promote(t.dtype()?);
    }
    Ok(list.map(|t| t.cast(dtype)))
}
