//! Every row of the op table, cut: parts of its samples along each factor give parts, or terms, of the whole result.
//!
//! `TALWEG_OP=name cargo test -p talweg-ops --test shard` checks one op.

use cpu as _;
use ir::shard::part;
use ir::{
    Attrs, Call, Case, Factors, FlatNode, Kind, Layout, Literal, Meaning, Monoid, Op, Portion, Shape, Site, Type,
};
use passes::partition::factors;
use std::ops::Range;
use talweg_ops::{Tensor, table};

type Done<T> = std::result::Result<T, String>;

fn type_of(l: &Literal) -> Type {
    Type::new(l.dtype(), l.shape().clone())
}

/// A node of the case, or `None` where it has no results to compare.
fn node(op: &'static Op, case: &Case) -> Done<FlatNode> {
    let types: Vec<Type> = case.inputs.iter().map(type_of).collect();
    let outs = op.check(&Call { types: &types, attrs: &case.attrs }).map_err(|e| e.to_string())?;
    Ok(FlatNode { op, inputs: Default::default(), attrs: case.attrs.clone(), outs, site: Site::UNKNOWN })
}

fn run(op: &'static Op, inputs: &[Literal], attrs: &Attrs) -> Done<Vec<Literal>> {
    let tensors: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
    let outs = Tensor::apply(op, &tensors.iter().collect::<Vec<_>>(), attrs.clone());
    outs.iter().map(|t| t.literal().map_err(|e| e.to_string())).collect()
}

/// The same on a part of the dimension along which positions count.
fn run_on_part(op: &'static Op, inputs: &[Literal], attrs: &Attrs, part: &Portion) -> Done<Vec<Literal>> {
    let types: Vec<Type> = inputs.iter().map(type_of).collect();
    let values: Vec<_> =
        inputs.iter().map(|l| Tensor::from(l.clone()).value().cloned()).collect::<Result<_, _>>().unwrap();
    let on_part = op.on_part.ok_or("a factor of positions, but no rule for parts")?;
    let outs = on_part(&Call { types: &types, attrs }, &values, part).map_err(|e| e.to_string())?;
    outs.into_iter().map(|v| Tensor::from(v).literal().map_err(|e| e.to_string())).collect()
}

/// The part of a value whose dimensions with this factor are cut into `n`.
fn ranges(shape: &Shape, dims: &[Option<u8>], k: u8, n: usize, i: usize) -> Vec<Range<usize>> {
    shape.iter().zip(dims).map(|(&d, f)| if *f == Some(k) { part(d, n, i) } else { 0..d }).collect()
}
fn lengths(ranges: &[Range<usize>]) -> Shape {
    ranges.iter().map(Range::len).collect()
}
fn cut(l: &Literal, ranges: &[Range<usize>]) -> Literal {
    let strides = l.shape().strides();
    let offset = ranges.iter().zip(&strides).map(|(r, &s)| r.start * s as usize).sum();
    l.gather(&Layout { shape: lengths(ranges), strides, offset })
}

fn close(got: &Literal, want: &Literal) -> Done<()> {
    if type_of(got) != type_of(want) {
        return Err(format!("{} instead of {}", type_of(got), type_of(want)));
    }
    let is_near =
        |(x, y): (&f64, &f64)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-9 * y.abs().max(1.0);
    let (a, b) = (got.paired().to_f64(), want.paired().to_f64());
    if a.iter().zip(&b).all(is_near) { Ok(()) } else { Err(format!("{got:?} instead of {want:?}")) }
}

fn combine(how: Monoid, a: f64, b: f64) -> f64 {
    match how {
        Monoid::Sum => a + b,
        Monoid::Prod => a * b,
        Monoid::Max => {
            if a.is_nan() || a > b {
                a
            } else {
                b
            }
        }
        Monoid::Min => {
            if a.is_nan() || a < b {
                a
            } else {
                b
            }
        }
    }
}

/// Cuts one factor of a case into `n` parts. False where the row's attributes do not fit parts.
fn check(op: &'static Op, case: &Case, f: &Factors, k: u8, n: usize) -> Done<bool> {
    let whole = node(op, case)?;
    let types: Vec<Type> = case.inputs.iter().map(type_of).collect();
    let want = run(op, &case.inputs, &case.attrs)?;
    let mut sum: Vec<Option<Vec<f64>>> = vec![None; want.len()];
    for i in 0..n {
        let mut parts = Vec::new();
        for (j, (l, dims)) in case.inputs.iter().zip(&f.inputs).enumerate() {
            let part = cut(l, &ranges(l.shape(), dims, k, n, i));
            let is_skipped = i > 0 && f.once.contains(&j) && matches!(f.kinds[k as usize], Kind::Reduce(_));
            parts.push(if is_skipped { Literal::zeros(part.dtype(), part.shape().clone()) } else { part });
        }
        let own: Vec<Vec<Range<usize>>> =
            whole.outs.iter().zip(&f.outputs).map(|(t, dims)| ranges(&t.shape, dims, k, n, i)).collect();
        let (part_types, shapes): (Vec<Type>, Vec<Shape>) =
            (parts.iter().map(type_of).collect(), own.iter().map(|r| lengths(r)).collect());
        let attrs = match op.resize {
            Some(resize) => {
                resize(&Call { types: &types, attrs: &case.attrs }, &part_types, &shapes).map_err(|e| e.to_string())?
            }
            None => case.attrs.clone(),
        };
        let expected: Vec<Type> = whole.outs.iter().zip(&shapes).map(|(t, s)| Type::new(t.dtype, s.clone())).collect();
        match op.check(&Call { types: &part_types, attrs: &attrs }) {
            Ok(outs) if outs[..] == expected[..] => {}
            _ => return Ok(false),
        }
        let got = match f.positions == Some(k) {
            true => {
                let dim = f.inputs[0].iter().position(|d| *d == Some(k)).ok_or("positions along no dimension")?;
                let size = types[0].shape[dim];
                run_on_part(op, &parts, &attrs, &Portion { runs: [part(size, n, i)].into_iter().collect(), size })?
            }
            false => run(op, &parts, &attrs)?,
        };
        for (o, got) in got.iter().enumerate() {
            let is_cut = f.outputs[o].contains(&Some(k));
            match f.kinds[k as usize] {
                kind if is_cut || kind == Kind::Pass => {
                    close(got, &cut(&want[o], &own[o])).map_err(|e| format!("part {i} of {n}: {e}"))?
                }
                Kind::Pass => {}
                Kind::Reduce(how) => {
                    let terms = got.to_f64();
                    sum[o] = Some(match sum[o].take() {
                        None => terms,
                        Some(s) => s.iter().zip(&terms).map(|(&a, &b)| combine(how, a, b)).collect(),
                    });
                }
            }
        }
    }
    for (s, w) in sum.iter().zip(&want) {
        if let Some(s) = s {
            close(&Literal::from_f64(w.dtype(), w.shape().clone(), s), w).map_err(|e| format!("{n} terms: {e}"))?;
        }
    }
    Ok(true)
}

#[test]
fn parts_of_every_row_make_the_whole() {
    let only = std::env::var("TALWEG_OP").ok();
    let (mut failures, mut rows, mut passing, mut checked) = (Vec::new(), 0, 0, 0);
    for op in table().filter(|op| only.as_deref().is_none_or(|n| n == op.name)) {
        let (mut has_dims, mut passes) = (false, false);
        for (i, case) in (op.cases)().iter().enumerate() {
            let is_complex = case.inputs.iter().any(|l| l.dtype().is_complex());
            let Ok(n) = node(op, case) else { continue };
            if is_complex || n.outs.iter().any(|t| t.dtype.is_complex()) || n.is_ordered() {
                continue;
            }
            has_dims |= case.inputs.iter().any(|l| l.shape().iter().any(|d| *d > 1));
            let types: Vec<Type> = case.inputs.iter().map(type_of).collect();
            let f = match factors(&n, &types) {
                Ok(f) => f,
                Err(e) => {
                    failures.push(format!("{} case {i}: {e}", op.name));
                    continue;
                }
            };
            for k in 0..f.kinds.len() as u8 {
                let (least, is_equal) = f.size(k, &types, &n.outs);
                for parts in [2, 3] {
                    let is_used = f.inputs.iter().flatten().any(|d| *d == Some(k));
                    if !is_used || least < parts || (!is_equal && !least.is_multiple_of(parts)) {
                        continue;
                    }
                    match check(op, case, &f, k, parts) {
                        Ok(fits) => {
                            let may_not = matches!(op.meaning, Meaning::Composite(_));
                            if !fits && !may_not {
                                failures.push(format!("{} case {i} factor {k}: attributes do not fit parts", op.name));
                            }
                            passes |= fits;
                            checked += usize::from(fits);
                        }
                        Err(e) => failures.push(format!("{} case {i} ({:?}) factor {k}: {e}", op.name, case.attrs)),
                    }
                }
            }
        }
        rows += usize::from(has_dims);
        passing += usize::from(has_dims && passes);
        if has_dims && !passes && std::env::var("TALWEG_SHOW").is_ok() {
            println!("whole: {}", op.name);
        }
    }
    println!("{passing} of {rows} rows can be cut; {checked} cuts checked");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(only.is_some() || passing * 10 >= rows * 7, "only {passing} of {rows} rows can be cut");
}

/// All ranges of a shape whose dimensions are cut into thirds, or not at all.
fn choices(shape: &Shape) -> Vec<Vec<Range<usize>>> {
    let one = |d: usize| std::iter::once(0..d).chain((0..3).map(move |i| part(d, 3, i)));
    shape.iter().fold(vec![Vec::new()], |all, &d| {
        let with = |r: Range<usize>| all.iter().map(move |a: &Vec<Range<usize>>| [a.clone(), vec![r.clone()]].concat());
        one(d).flat_map(with).collect()
    })
}

#[test]
fn generated_shards_are_those_of_the_whole() {
    let mut checked = 0;
    for op in table().filter(|op| op.generate.is_some()) {
        let mut cases = (op.cases)();
        if op.name == "random_bits" {
            // Two keys of three numbers, and elements of three dimensions.
            let keys = Literal::from_i64(ir::DType::I64, [2, 3], &[7, 9, 5, 8, 9, 0]);
            cases.push(Case::new(vec![keys], Attrs::new().with("shape", &Shape::new(&[3, 5, 4]))));
        }
        for case in cases {
            let whole = &run(op, &case.inputs, &case.attrs).unwrap()[0];
            let types: Vec<Type> = case.inputs.iter().map(type_of).collect();
            let values: Vec<_> = case.inputs.iter().map(|l| Tensor::from(l.clone()).value().unwrap().clone()).collect();
            for ranges in choices(whole.shape()) {
                let call = Call { types: &types, attrs: &case.attrs };
                let made = (op.generate.unwrap())(&call, &values, &ranges).unwrap();
                let got = Tensor::from(made[0].clone()).literal().unwrap();
                close(&got, &cut(whole, &ranges)).unwrap_or_else(|e| panic!("{} {ranges:?}: {e}", op.name));
                checked += 1;
            }
        }
    }
    assert!(checked > 400, "{checked}");
}
