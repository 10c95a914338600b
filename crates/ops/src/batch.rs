//! `vmap`: a function of one example becomes a function of a batch.

use crate::{Tensor, effects, generator};
use ir::{Batch, BatchCall, Call, Collect, DType, FlatNode, INPUT, Meaning, Result, Site, Type, Value, collect};
use smallvec::SmallVec;

/// Applies `f` to each slice along axis 0 of the arguments, all at once, and stacks the results.
///
/// ```
/// # use talweg_ops::{Tensor, vmap};
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = vmap(|a| Ok(vec![a[0].sum(..)]), &[x]).unwrap();
/// assert_eq!(y[0].to_vec::<f32>().unwrap(), [3.0, 7.0]);
/// ```
///
/// What `f` draws at random is drawn for each example: its numbers are a function of the seed, the
/// number of the draw and the index in the batch.
#[track_caller]
pub fn vmap(f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>, args: &[Tensor]) -> Result<Vec<Tensor>> {
    vmap_drawing(Draws::Each, f, args)
}

/// What a function under [`vmap`] draws at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// Other numbers for each example.
    Each,
    /// The same numbers for all.
    Same,
    /// None: drawing is an error.
    Refused,
}

/// [`vmap`], with a choice of what the function draws.
#[track_caller]
pub fn vmap_drawing(
    draws: Draws,
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    args: &[Tensor],
) -> Result<Vec<Tensor>> {
    if draws == Draws::Same {
        return over_batch(f, args, None);
    }
    let site = Site::here();
    let index = Value::placeholder("vmap", Type::new(DType::I64, ()), site);
    let one = |args: &[Tensor]| {
        let (out, is_drawn) = generator::indexed(&index.clone().into(), || f(args));
        if is_drawn && draws == Draws::Refused {
            let e = "the function draws random numbers: pass randomness=\"different\" for other numbers for each example, \
                     or randomness=\"same\"";
            return Err(ir::Error::value(e).in_op("vmap").at(site));
        }
        out
    };
    over_batch(one, args, Some(&index))
}

/// [`vmap`] of a function that draws nothing; `index`, if given, stands for the index in the batch.
#[track_caller]
pub(crate) fn over_batch(
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    args: &[Tensor],
    index: Option<&Value>,
) -> Result<Vec<Tensor>> {
    let site = Site::here();
    let fail = |e: String| ir::Error::shape(e).in_op("vmap").at(site);
    // What was made before is the same for all: gradients with respect to it must find it again.
    let since = ir::mark();
    let mut size = None;
    let mut stand_ins = Vec::new();
    for a in args {
        let ty = a.value()?.ty();
        let mut shape = ty.shape.clone();
        if shape.rank() == 0 {
            return Err(fail("an argument without dimensions has no batch axis".into()));
        }
        let n = shape.remove(0);
        if *size.get_or_insert(n) != n {
            return Err(fail(format!("batch sizes differ: {} and {n}", size.unwrap_or(0))));
        }
        stand_ins.push(Value::placeholder("vmap", Type::new(ty.dtype, shape), site));
    }
    let size = size.ok_or_else(|| fail("no arguments".into()))?;
    let tensors: Vec<Tensor> = stand_ins.iter().cloned().map(Tensor::from).collect();
    let mut effects = 0;
    let outs = effects::appended(f, &mut effects)(&tensors)?;
    let outs = outs.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()?;

    let c = collect(&outs, Collect::Trace { since })?;
    let mut leaves = c.leaves.iter();
    let mut live: Vec<(SmallVec<[Value; 1]>, bool)> = Vec::with_capacity(c.graph.nodes.len());
    for n in &c.graph.nodes {
        if n.op == &INPUT {
            let leaf = leaves.next().expect("a leaf for each input");
            let v = match stand_ins.iter().position(|s| s.is_same(leaf)) {
                Some(i) => Some(args[i].value()?.clone()),
                None if index.is_some_and(|i| i.is_same(leaf)) => Some(Tensor::iota(size, DType::I64).value()?.clone()),
                None => None,
            };
            let is_batched = v.is_some();
            live.push((SmallVec::from_iter([v.unwrap_or_else(|| leaf.clone())]), is_batched));
            continue;
        }
        let inputs: Vec<Value> = n.inputs.iter().map(|s| live[s.node as usize].0[s.out as usize].clone()).collect();
        let batched: Vec<bool> = n.inputs.iter().map(|s| live[s.node as usize].1).collect();
        let any = batched.iter().any(|&b| b);
        let outs = n.site.scope(|| {
            if any {
                batch_node(n, &inputs, &batched, size)
            } else if let Some(k) = c.nodes[live.len()].as_ref().filter(|k| k.op() == Some(&ir::CONST)) {
                Ok(vec![Value::from_node(k.clone())])
            } else {
                Ok(Value::apply(n.op, inputs.iter().cloned().collect(), n.attrs.clone(), n.site)?.to_vec())
            }
        });
        live.push((outs.map_err(|e| e.in_op(n.op.name).at(n.site))?.into(), any));
    }
    let done = c.graph.outputs.iter().map(|s| {
        let (outs, batched) = &live[s.node as usize];
        let t = Tensor::from(outs[s.out as usize].clone());
        Ok(if *batched { t } else { repeat(&t, size)? })
    });
    effects::noted(done.collect::<Result<Vec<_>>>()?, effects)
}

/// The same value for each member of the batch.
pub(crate) fn repeat(t: &Tensor, size: usize) -> Result<Tensor> {
    let mut shape = t.shape()?;
    shape.insert(0, size);
    Ok(t.broadcast_to(shape))
}

/// One node over a batch; every result carries the batch dimension.
fn batch_node(n: &FlatNode, inputs: &[Value], batched: &[bool], size: usize) -> Result<Vec<Value>> {
    if let Batch::Rule(rule) = n.op.batch {
        return rule(&BatchCall { op: n.op, attrs: &n.attrs, inputs, batched, size });
    }
    match n.op.meaning {
        Meaning::Scalar(_) => {
            // Ranks are aligned behind the batch dimension, then the node broadcasts as before.
            let rank = inputs.iter().zip(batched).map(|(v, &b)| v.ty().shape.rank() - b as usize).max().unwrap_or(0);
            let aligned = inputs.iter().zip(batched).map(|(v, &b)| {
                let t = Tensor::from(v.clone());
                if !b {
                    return t.value().cloned();
                }
                let mut shape = v.ty().shape.clone();
                while shape.rank() < rank + 1 {
                    shape.insert(1, 1);
                }
                t.reshape(shape).value().cloned()
            });
            let aligned = aligned.collect::<Result<SmallVec<[Value; 2]>>>()?;
            Ok(Value::apply(n.op, aligned, n.attrs.clone(), n.site)?.to_vec())
        }
        Meaning::Composite(expand) => {
            // Expand over single examples, then batch what it consists of.
            let args: Vec<Tensor> = inputs
                .iter()
                .zip(batched)
                .map(|(v, &b)| if b { Ok(Tensor::from(v.clone())) } else { repeat(&Tensor::from(v.clone()), size) })
                .collect::<Result<_>>()?;
            let outs = over_batch(
                |a| {
                    let values = a.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()?;
                    let types: Vec<Type> = values.iter().map(|v| v.ty().clone()).collect();
                    let outs = expand(&Call { types: &types, attrs: &n.attrs }, &values)?;
                    Ok(outs.into_iter().map(Tensor::from).collect())
                },
                &args,
                None,
            )?;
            outs.iter().map(|t| t.value().cloned()).collect()
        }
        _ => looped(n, inputs, batched, size),
    }
}

/// One example after the other: always right, used where no rule says better.
fn looped(n: &FlatNode, inputs: &[Value], batched: &[bool], size: usize) -> Result<Vec<Value>> {
    if size == 0 {
        return Err(ir::Error::shape("cannot be batched over an empty batch"));
    }
    let mut rows: Vec<Vec<Tensor>> = Vec::new();
    for i in 0..size {
        let args = inputs.iter().zip(batched).map(|(v, &b)| {
            let t = Tensor::from(v.clone());
            (if b { t.select(0, i as i64) } else { t }).value().cloned()
        });
        let args = args.collect::<Result<SmallVec<[Value; 2]>>>()?;
        rows.push(Value::apply(n.op, args, n.attrs.clone(), n.site)?.into_iter().map(Tensor::from).collect());
    }
    (0..n.outs.len())
        .map(|o| {
            let column: Vec<Tensor> = rows.iter().map(|r| r[o].clone()).collect();
            Tensor::stack(&column, 0).value().cloned()
        })
        .collect()
}
