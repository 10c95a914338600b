//! Elementwise ops: a value on numbers, text for code generators, a gradient.

crate::table! {
    add,
    cast,
    cos,
    div,
    eq,
    exp,
    floor,
    gt,
    log,
    maximum,
    mul,
    neg,
    pow,
    rem,
    sin,
    sub,
    where_,
}
