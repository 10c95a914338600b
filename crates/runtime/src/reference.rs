//! The slow truth: runs a graph op by op with the meanings in the op table.
//!
//! Everything that is fast is tested against this.

use ir::{
    Buffer, Call, Case, DType, FlatNode, Graph, Layout, Literal, Meaning, Monoid, Op, Out, Result, Scalar, Site, Slot,
    Type,
};
use passes::decompose;
use std::sync::Arc;

/// A graph of one node, with an input for each of a case's; an error where the op refuses them.
pub fn graph_of(op: &'static Op, case: &Case) -> Result<Graph> {
    let mut g = Graph::new();
    let types = case.inputs.iter().map(|l| Type::new(l.dtype(), l.shape().clone()));
    let slots: Vec<Slot> = types.map(|t| g.input("", &t, Site::UNKNOWN)).collect();
    let at = g.push(op, &slots, case.attrs.clone(), Site::UNKNOWN)?;
    let outs = g.nodes[at.node as usize].outs.len();
    g.outputs = (0..outs).map(|o| Slot::new(at.node as usize, o)).collect();
    Ok(g)
}

/// How far a result is from what it should be: the largest difference, relative to the larger of 1 and
/// the expected value; NaN equals NaN.
pub fn distance(got: &Literal, want: &Literal) -> f64 {
    let one = |(x, y): (f64, f64)| {
        let off = (x - y).abs() / y.abs().max(1.0);
        if x == y || (x.is_nan() && y.is_nan()) {
            0.0
        } else if off.is_nan() {
            f64::INFINITY
        } else {
            off
        }
    };
    got.to_f64().into_iter().zip(want.to_f64()).map(one).fold(0.0, f64::max)
}

/// Runs a graph on host values.
pub fn run(graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>> {
    let graph = decompose(graph, &|_, _| false)?;
    let mut values: Vec<Vec<Literal>> = Vec::with_capacity(graph.nodes.len());
    let mut next = inputs.iter();
    for n in &graph.nodes {
        let outs = if matches!(n.op.meaning, Meaning::Input) {
            let v = next.next().ok_or_else(|| ir::Error::value("too few inputs were given to the graph"))?;
            vec![v.clone()]
        } else {
            let args: Vec<Literal> = n.inputs.iter().map(|s| values[s.node as usize][s.out as usize].clone()).collect();
            run_node(n, &args).map_err(|e| e.in_op(n.op.name).at(n.site))?
        };
        debug_assert!(outs.iter().zip(&n.outs).all(|(v, t)| v.dtype() == t.dtype && *v.shape() == t.shape), "{n:?}");
        values.push(outs);
    }
    Ok(graph.outputs.iter().map(|s| values[s.node as usize][s.out as usize].clone()).collect())
}

/// Runs one node that is not a composite.
pub fn run_node(n: &FlatNode, args: &[Literal]) -> Result<Vec<Literal>> {
    let types: Vec<Type> = args.iter().map(|a| Type::new(a.dtype(), a.shape().clone())).collect();
    let call = Call { types: &types, attrs: &n.attrs };
    Ok(match n.op.meaning {
        Meaning::Input | Meaning::Composite(_) => return Err(ir::Error::bug("not a primitive op")),
        Meaning::Const => vec![n.attrs.literal("value")?.clone()],
        Meaning::Scalar(s) => vec![scalar(&s, &n.outs[0], args)],
        Meaning::View(f) => {
            let layout = f(&call, &Layout::contiguous(args[0].shape()))?
                .ok_or_else(|| ir::Error::bug("a view of a contiguous tensor must exist"))?;
            vec![args[0].gather(&layout)]
        }
        Meaning::Recast => vec![args[0].retyped(n.outs[0].dtype, n.outs[0].shape.clone())],
        Meaning::Reduce(m) => vec![reduce(m, &n.outs[0], &n.attrs.sizes("axes")?, &args[0])],
        Meaning::Kernel(f) => f(&call, args)?,
        Meaning::Control(f) => {
            let read = |list: &[Buffer]| list.iter().map(Buffer::read).collect::<Result<Vec<Literal>>>();
            let host = |list: Vec<Literal>| list.into_iter().map(Buffer::Host).collect::<Vec<Buffer>>();
            let mut run = |g: &Arc<Graph>, a: &[Buffer]| run(g, &read(a)?).map(host);
            read(&f(&call, &host(args.to_vec()), &mut run)?)?
        }
    })
}

/// Applies an elementwise op: in f64 for floats, in i128 for integers, rounded to the result type.
fn scalar(s: &Scalar, out: &Type, args: &[Literal]) -> Literal {
    let args: Vec<Literal> =
        args.iter().map(|a| a.gather(&Layout::contiguous(a.shape()).broadcast_to(&out.shape))).collect();
    let of = args.last().map_or(DType::F32, Literal::dtype);
    let int = s.int.filter(|_| !of.is_float() && s.out != Out::Float);
    if let Some(f) = int {
        let cols: Vec<Vec<i128>> = args.iter().map(Literal::to_ints).collect();
        let mut row = vec![0; args.len()];
        let data: Vec<i128> = (0..out.shape.count())
            .map(|i| {
                row.iter_mut().zip(&cols).for_each(|(r, c)| *r = c[i]);
                f(&row)
            })
            .collect();
        return Literal::from_ints(out.dtype, out.shape.clone(), &data);
    }
    let cols: Vec<Vec<f64>> = args.iter().map(Literal::to_f64).collect();
    let mut row = vec![0.0; args.len()];
    let data: Vec<f64> = (0..out.shape.count())
        .map(|i| {
            row.iter_mut().zip(&cols).for_each(|(r, c)| *r = c[i]);
            (s.float)(&row)
        })
        .collect();
    Literal::from_f64(out.dtype, out.shape.clone(), &data)
}

/// Combines along axes, which stay as size 1; floats accumulate in f64, integers in i128.
fn reduce(m: Monoid, out: &Type, axes: &[usize], x: &Literal) -> Literal {
    let strides = out.shape.strides();
    let target = |flat: usize| -> usize {
        let mut rest = flat;
        let mut at = 0;
        for d in (0..x.shape().rank()).rev() {
            let i = rest % x.shape()[d];
            rest /= x.shape()[d];
            if !axes.contains(&d) {
                at += i * strides[d] as usize;
            }
        }
        at
    };
    if x.dtype().is_float() {
        let start = match m {
            Monoid::Sum => 0.0,
            Monoid::Prod => 1.0,
            Monoid::Max => f64::NEG_INFINITY,
            Monoid::Min => f64::INFINITY,
        };
        let mut acc = vec![start; out.shape.count()];
        for (i, v) in x.to_f64().into_iter().enumerate() {
            let a = &mut acc[target(i)];
            *a = match m {
                Monoid::Sum => *a + v,
                Monoid::Prod => *a * v,
                _ if a.is_nan() || v.is_nan() => f64::NAN,
                Monoid::Max => a.max(v),
                Monoid::Min => a.min(v),
            };
        }
        Literal::from_f64(out.dtype, out.shape.clone(), &acc)
    } else {
        let start = match m {
            Monoid::Sum => 0,
            Monoid::Prod => 1,
            Monoid::Max => i128::MIN,
            Monoid::Min => i128::MAX,
        };
        let mut acc = vec![start; out.shape.count()];
        for (i, v) in x.to_ints().into_iter().enumerate() {
            let a = &mut acc[target(i)];
            *a = match m {
                Monoid::Sum => a.wrapping_add(v),
                Monoid::Prod => a.wrapping_mul(v),
                Monoid::Max => (*a).max(v),
                Monoid::Min => (*a).min(v),
            };
        }
        Literal::from_ints(out.dtype, out.shape.clone(), &acc)
    }
}
