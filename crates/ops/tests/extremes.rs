//! Type rules under absurd arguments: they may refuse, but must not panic, as they
//! are the first to see a graph that comes from a file or from the network.

use cpu as _;
use ir::{Attr, Attrs, Call, Case, DType, Op, Type};
use std::panic::{AssertUnwindSafe, catch_unwind};
use talweg_ops::table;

const NUMBERS: [i64; 8] = [i64::MIN, -(1 << 40), -1, 0, 1, 5, 1 << 40, i64::MAX];
const SIZES: [usize; 5] = [0, 1, 7, 1 << 40, isize::MAX as usize];

/// A list with one entry changed in every way, one more entry, one less, and none.
fn varied<T: Copy>(list: &[T], values: &[T]) -> Vec<Vec<T>> {
    let mut out = vec![Vec::new(), list[..list.len().saturating_sub(1)].to_vec()];
    for &v in values {
        out.push([list, &[v]].concat());
        for i in 0..list.len() {
            let mut changed = list.to_vec();
            changed[i] = v;
            out.push(changed);
        }
    }
    out
}

fn varied_attr(a: &Attr) -> Vec<Attr> {
    match a {
        Attr::Int(_) => NUMBERS.map(Attr::Int).to_vec(),
        Attr::Ints(list) => varied(list, &NUMBERS).iter().map(Attr::from).collect(),
        Attr::Float(_) => [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300].map(Attr::Float).to_vec(),
        Attr::Str(_) => vec![Attr::from("nonsense")],
        Attr::DType(_) => DType::ALL.map(Attr::DType).to_vec(),
        _ => vec![],
    }
}

/// The attribute with every number in it replaced.
fn all_numbers(a: &Attr, x: i64) -> Attr {
    match a {
        Attr::Int(_) => Attr::Int(x),
        Attr::Ints(list) => Attr::from(&vec![x; list.len()]),
        other => other.clone(),
    }
}

/// The case's call with all numbers of the attributes and all sizes of the inputs replaced.
fn uniform_calls(types: &[Type], attrs: &Attrs) -> Vec<(Vec<Type>, Attrs)> {
    let all_attrs = |x: i64| attrs.iter().fold(attrs.clone(), |out, (n, a)| out.set(n, all_numbers(a, x)));
    let all_sizes = |d: usize| types.iter().map(|t| Type::new(t.dtype, vec![d; t.shape.rank()])).collect::<Vec<_>>();
    let mut out: Vec<_> = NUMBERS.iter().map(|&x| (types.to_vec(), all_attrs(x))).collect();
    for d in SIZES {
        out.push((all_sizes(d), attrs.clone()));
        out.extend(NUMBERS.iter().map(|&x| (all_sizes(d), all_attrs(x))));
    }
    out
}

/// The case's call with one thing changed at a time, then with everything changed.
fn calls(case: &Case) -> Vec<(Vec<Type>, Attrs)> {
    let types: Vec<Type> = case.inputs.iter().map(|l| Type::new(l.dtype(), l.shape().clone())).collect();
    let mut out =
        vec![(vec![], case.attrs.clone()), (types[..types.len().saturating_sub(1)].to_vec(), case.attrs.clone())];
    out.push(([&types[..], &types[..types.len().min(1)]].concat(), case.attrs.clone()));
    for (name, a) in case.attrs.iter() {
        out.extend(varied_attr(a).into_iter().map(|a| (types.clone(), case.attrs.clone().set(name, a))));
    }
    for (i, t) in types.iter().enumerate() {
        let shapes = varied(t.shape.dims(), &SIZES).into_iter().map(|s| Type::new(t.dtype, s));
        let dtypes = [DType::Bool, DType::I64, DType::F16].map(|d| Type::new(d, t.shape.clone()));
        for changed in shapes.chain(dtypes) {
            let mut types = types.clone();
            types[i] = changed;
            out.push((types, case.attrs.clone()));
        }
    }
    // Inputs that agree with each other without being what the op takes.
    for shape in [&[][..], &[0], &[1 << 40]] {
        for (i, j) in (0..types.len()).flat_map(|j| (0..j).map(move |i| (i, j))) {
            let mut types = types.clone();
            [i, j].iter().for_each(|&k| types[k].shape = shape.into());
            out.push((types, case.attrs.clone()));
        }
    }
    out.extend(uniform_calls(&types, &case.attrs));
    out
}

/// Rows that take any number of inputs, or have optional ones.
const VARIADIC: [&str; 18] = [
    "concat",
    "hstack",
    "stack",
    "vstack",
    "attention",
    "attention_grad",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "barrier",
    "function",
    "begin_all_reduce",
    "begin_reduce_scatter",
    "begin_all_gather",
    "end_exchange",
    "mean_over_workers",
    "begin_mean_over_workers",
    "end_mean_over_workers",
];

#[test]
fn rows_refuse_an_input_too_many() {
    let accepts = |op: &'static Op, case: &Case| {
        let mut types: Vec<Type> = case.inputs.iter().map(|l| Type::new(l.dtype(), l.shape().clone())).collect();
        let call = |types: &[Type]| op.check(&Call { types, attrs: &case.attrs }).is_ok();
        assert!(call(&types), "{} refuses its own sample", op.name);
        types.extend(types.first().cloned().or(Some(Type::new(DType::F32, []))));
        call(&types)
    };
    let rows: Vec<&str> = table().filter(|op| (op.cases)().iter().any(|c| accepts(op, c))).map(|op| op.name).collect();
    assert_eq!(rows, VARIADIC);
}

fn panics(op: &'static Op, types: &[Type], attrs: &Attrs) -> bool {
    catch_unwind(AssertUnwindSafe(|| op.check(&Call { types, attrs }).is_ok())).is_err()
}

#[test]
fn type_rules_refuse_without_panic() {
    let only = std::env::var("TALWEG_OP").ok();
    let mut failures = Vec::new();
    for op in table().filter(|op| only.as_deref().is_none_or(|n| n == op.name)) {
        let all = (op.cases)().into_iter().flat_map(|c| calls(&c));
        if let Some((types, attrs)) = all.into_iter().find(|(t, a)| panics(op, t, a)) {
            failures.push(format!("{} {types:?} {attrs:?}", op.name));
        }
    }
    assert!(failures.is_empty(), "{} type rules panic:\n{}", failures.len(), failures.join("\n"));
}
