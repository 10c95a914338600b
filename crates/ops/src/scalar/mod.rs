//! Elementwise ops: a value on numbers, text for code generators, a gradient.

/// Writes the row of an op of two integers (and bool, where its cases say so).
macro_rules! bits {
    (
        $name:literal, $doc:literal;
        int: $int:expr;
        code: $code:literal;
        cost: $cost:expr;
        bool: $bool:literal;
        example: $ea:expr, $eb:expr => $eout:expr, $source:literal;
    ) => {
        #[doc = concat!("The row of `", $name, "`.")]
        pub static OP: ir::Op = ir::Op {
            name: $name,
            doc: $doc,
            infer: |c| $crate::scalar::infer_bits(c, $bool),
            meaning: ir::Meaning::Scalar(ir::Scalar {
                arity: 2,
                out: ir::Out::Same,
                // Floats are refused by the type rule.
                float: |_| f64::NAN,
                int: Some(|v| {
                    let f: fn(i128, i128) -> i128 = $int;
                    f(v[0], v[1])
                }),
                code: $code,
                domain: (0.0, 2.0),
                cost: $cost,
                ..ir::Scalar::DEFAULT
            }),
            grad: ir::Grad::Zero,
            cases: || {
                let ints = |x: &[i64]| $crate::rules::i64s([x.len()], x);
                vec![
                    ir::Case::new(vec![ints(&$ea), ints(&$eb)], ir::Attrs::new())
                        .expect(vec![ints(&$eout)], $source)
                        .kinked(),
                ]
            },
            ..ir::Op::DEFAULT
        };
    };
}
use bits;

mod special;

crate::table! {
    abs,
    acos,
    acosh,
    add,
    and,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cast,
    ceil,
    copysign,
    cos,
    cosh,
    digamma,
    div,
    eq,
    erf,
    erfc,
    erfcx,
    erfinv,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    fmax,
    fmin,
    fmod,
    ge,
    gt,
    hypot,
    i0,
    i1,
    is_finite,
    is_inf,
    is_nan,
    le,
    lgamma,
    log,
    log10,
    log1p,
    log2,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    not,
    or,
    polygamma,
    pow,
    recip,
    rem,
    round,
    rsqrt,
    shl,
    shr,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    sub,
    tan,
    tanh,
    trunc,
    where_,
    xor,
}

/// The type rule of ops on bits: no floats, and bool only where that makes sense.
fn infer_bits(c: &ir::Call, has_bool: bool) -> ir::Result<ir::Types> {
    match c.types.first().map(|t| t.dtype) {
        Some(d) if d.is_float() || (d == ir::DType::Bool && !has_bool) => Err(ir::Error::dtype(format!(
            "defined for integers{}, not for {d}",
            if has_bool { " and bool" } else { "" }
        ))),
        _ => ir::Scalar::infer(c, 2, ir::Out::Same, true),
    }
}
