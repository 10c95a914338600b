//! Adapters: shapes, indexing, reductions, sorting.

use super::{Arg, GoldenCase};
use ops::{Axes, Combine, Index, Pad, Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    several(c).or_else(|| arranged(c)).or_else(|| indexed(c)).or_else(|| reductions(c).map(GoldenCase::one))
}

/// Operators with several results.
fn several(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let x = || c.tensor(0);
    let dim = |at: usize, default: i64| c.int((at, "dim"), default);
    Some(Ok(match c.operator.as_str() {
        "chunk" => x().chunk(c.int((1, "chunks"), 1) as usize, dim(2, 0)),
        "split" => match c.ints((1, "split_size_or_sections")).unwrap_or_default().as_slice() {
            [size] => x().split(*size as usize, dim(2, 0)),
            sizes => x().split_sizes(&sizes.iter().map(|&s| s as usize).collect::<Vec<_>>(), dim(2, 0)),
        },
        "unbind" => x().unbind(dim(1, 0)),
        "sort" if c.bool((2, "descending"), false) => x().sort_descending(dim(1, -1)).to_vec(),
        "sort" => x().sort(dim(1, -1)).to_vec(),
        "topk" if c.bool((3, "largest"), true) => x().top_k(c.int((1, "k"), 1) as usize, dim(2, -1)).to_vec(),
        "topk" => x().bottom_k(c.int((1, "k"), 1) as usize, dim(2, -1)).to_vec(),
        "cummax" => x().cummax(dim(1, 0)).to_vec(),
        "cummin" => x().cummin(dim(1, 0)).to_vec(),
        "kthvalue" => kept(c, x().kthvalue(c.int((1, "k"), 1) as usize, dim(2, -1)), dim(2, -1), 3),
        "median" if c.has((1, "dim")) => kept(c, x().median_index(dim(1, 0)), dim(1, 0), 2),
        "max:reduction_with_dim" => kept(c, x().max_index(dim(1, 0)), dim(1, 0), 2),
        "min:reduction_with_dim" => kept(c, x().min_index(dim(1, 0)), dim(1, 0), 2),
        _ => return None,
    }))
}

/// Results without an axis, with it again as size 1 if `keepdim` says so.
fn kept(c: &GoldenCase, outs: [Tensor; 2], dim: i64, at: usize) -> Vec<Tensor> {
    let keep = c.bool((at, "keepdim"), false) && c.tensor(0).rank() != Ok(0);
    outs.into_iter().map(|t| if keep { t.unsqueeze(dim) } else { t }).collect()
}

/// Operators that rearrange.
fn arranged(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let x = || c.tensor(0);
    let ints = |at: usize, name: &'static str| c.ints((at, name)).unwrap_or_default();
    let sizes = |at: usize, name| ints(at, name).iter().map(|&s| s as usize).collect::<Vec<_>>();
    let scalar = || x().rank() == Ok(0);
    Some(GoldenCase::one(match c.operator.as_str() {
        "reshape" => x().view(&ints(1, "shape")),
        "flip" => x().flip(ints(1, "dims")),
        "permute" => x().permute(&ints(1, "dims")),
        "cat" => Tensor::concat(&c.tensors(0), c.int((1, "dim"), 0)),
        "stack" => Tensor::stack(&c.tensors(0), c.int((1, "dim"), 0)),
        "hstack" => Tensor::hstack(&c.tensors(0)),
        "vstack" => Tensor::vstack(&c.tensors(0)),
        "broadcast_to" => x().broadcast_to(sizes(1, "size")),
        "expand" => x().expand(&ints(1, "size")),
        "flatten" => x().flatten(c.int((1, "start_dim"), 0), c.int((2, "end_dim"), -1)),
        "unflatten" => x().unflatten(c.int((1, "dim"), 0), &ints(2, "sizes")),
        "ravel" => x().ravel(),
        "squeeze" if !c.has((1, "dim")) => x().squeeze(..),
        "squeeze" => x().squeeze(ints(1, "dim")),
        "unsqueeze" => x().unsqueeze(c.int((1, "dim"), 0)),
        "transpose" if scalar() => x(),
        "transpose" => x().transpose(c.int((1, "dim0"), 0), c.int((2, "dim1"), 0)),
        "t" => x().t(),
        "movedim" => x().moveaxis(&ints(1, "source"), &ints(2, "destination")),
        "narrow" => narrow(c),
        "select" => x().select(c.int((1, "dim"), 0), c.int((2, "index"), 0)),
        "repeat" => x().repeat(&sizes(1, "repeats")),
        "tile" => x().tile(&sizes(1, "dims")),
        "repeat_interleave" => repeat_interleave(c),
        "roll" if c.has((2, "dims")) => x().roll(&ints(1, "shifts"), ints(2, "dims")),
        "roll" => x().roll(&ints(1, "shifts"), ..),
        "rot90" => {
            let axes = c.ints((2, "dims")).unwrap_or_else(|| vec![0, 1]);
            x().rot90(c.int((1, "k"), 1), [axes[0], axes[1]])
        }
        "tril" => x().tril(c.int((1, "diagonal"), 0)),
        "triu" => x().triu(c.int((1, "diagonal"), 0)),
        "diag" => x().diag(c.int((1, "diagonal"), 0)),
        "diagonal" => x().diagonal(c.int((1, "offset"), 0), c.int((2, "dim1"), 0), c.int((3, "dim2"), 1)),
        "diag_embed" => x().diag_embed(c.int((1, "offset"), 0), c.int((2, "dim1"), -2), c.int((3, "dim2"), -1)),
        "trace" => x().trace(),
        // PyTorch takes the windows of a scalar as those of a vector of one, without the window axis.
        "unfold" if scalar() => x().reshape([1]),
        "unfold" => x().unfold(c.int(1, 0), c.int(2, 1) as usize, c.int(3, 1) as usize),
        "diff" => diff(c),
        "cross" => cross(c),
        "constant_pad_nd" => x().pad(&ints(1, "pad"), Pad::Constant(c.float((2, "value"), 0.0))),
        "nn.functional.pad:constant" => x().pad(&ints(1, "pad"), Pad::Constant(c.float((3, "value"), 0.0))),
        "nn.functional.pad:reflect" => x().pad(&ints(1, "pad"), Pad::Reflect),
        "nn.functional.pad:replicate" => x().pad(&ints(1, "pad"), Pad::Replicate),
        "nn.functional.pad:circular" => x().pad(&ints(1, "pad"), Pad::Circular),
        "nn.functional.pixel_shuffle" => x().pixel_shuffle(c.int((1, "upscale_factor"), 1) as usize),
        "nn.functional.pixel_unshuffle" => x().pixel_unshuffle(c.int((1, "downscale_factor"), 1) as usize),
        _ => return None,
    }))
}

/// `narrow`, whose start may be a tensor or negative.
fn narrow(c: &GoldenCase) -> Tensor {
    let (x, dim) = (c.tensor(0), c.int((1, "dim"), 0));
    x.then(|t| {
        let start = c.operand((2, "start")).item::<i64>()?;
        let size = t.shape[dim.rem_euclid(t.shape.rank() as i64) as usize] as i64;
        let start = if start < 0 { start + size } else { start };
        Ok(x.narrow(dim, start as usize, c.int((3, "length"), 0) as usize))
    })
}

fn repeat_interleave(c: &GoldenCase) -> Tensor {
    let axes = c.opt_int((2, "dim")).map_or(Axes::All, Axes::from);
    match c.get((1, "repeats")) {
        Some(Arg::Tensor(_)) => c.tensor(0).repeat_interleave_by(&c.tensor((1, "repeats")), axes),
        _ => c.tensor(0).repeat_interleave(c.int((1, "repeats"), 1) as usize, axes),
    }
}

/// `diff` of the tensor with others put before and after it, which PyTorch leaves out for n = 0.
fn diff(c: &GoldenCase) -> Tensor {
    let along = c.int((2, "dim"), -1);
    if c.int((1, "n"), 1) == 0 {
        return c.tensor(0);
    }
    let parts: Vec<Tensor> =
        [c.opt_tensor((3, "prepend")), c.opt_tensor(0), c.opt_tensor((4, "append"))].into_iter().flatten().collect();
    let x = if parts.len() == 1 { parts[0].clone() } else { Tensor::concat(&parts, along) };
    x.diff(c.int((1, "n"), 1) as usize, along)
}

/// `cross`, by default along the first axis of size 3.
fn cross(c: &GoldenCase) -> Tensor {
    let (x, other) = (c.tensor(0), c.tensor((1, "other")));
    let first = x.shape().ok().and_then(|s| s.iter().position(|&d| d == 3)).unwrap_or(0);
    x.cross(&other, c.int((2, "dim"), first as i64))
}

/// Operators that choose by position.
fn indexed(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let x = || c.tensor(0);
    let (dim, index) = (|| c.int((1, "dim"), 0), || c.tensor((2, "index")));
    Some(GoldenCase::one(match c.operator.as_str() {
        "__getitem__" => x().index(&parts(c, c.get(1)?)),
        "index_put" if c.bool((3, "accumulate"), false) => x().index_put_add(parts(c, c.get(1)?), c.tensor(2)),
        "index_put" => x().index_put(parts(c, c.get(1)?), c.tensor(2)),
        "slice" => x().index(&[Index::slice(c.opt_int((2, "start")), c.opt_int((3, "end")), c.int((4, "step"), 1))]),
        "gather" => x().gather(dim(), &index()),
        "scatter" => x().scatter(dim(), &index(), &scatter_source(c)),
        "scatter_add" => x().scatter_add(dim(), &index(), &c.tensor((3, "src"))),
        "scatter_reduce:sum" => scatter_reduce(c, Combine::Sum),
        "scatter_reduce:mean" => scatter_reduce(c, Combine::Mean),
        "scatter_reduce:prod" => scatter_reduce(c, Combine::Prod),
        "scatter_reduce:amax" => scatter_reduce(c, Combine::Max),
        "scatter_reduce:amin" => scatter_reduce(c, Combine::Min),
        "index_select" => x().index_select(dim(), &index()),
        "index_add" => x().index_add(dim(), &index(), &(c.tensor((3, "source")) * c.float("alpha", 1.0))),
        "index_copy" => x().index_copy(dim(), &index(), &c.tensor((3, "source"))),
        "index_fill" => x().index_fill(dim(), &index(), c.operand((3, "value"))),
        "put" if c.bool((3, "accumulate"), false) => x().put_add(&c.tensor(1), &c.tensor(2)),
        "put" => x().put(&c.tensor(1), &c.tensor(2)),
        "take" => x().ravel().i(c.tensor(1)),
        "take_along_dim" if c.has((2, "dim")) => x().take_along_axis(&c.tensor(1), c.int((2, "dim"), 0)),
        "take_along_dim" => x().ravel().take_along_axis(&c.tensor(1).ravel(), 0),
        "masked_fill" => x().masked_fill(&c.tensor(1), c.operand(2)),
        "masked_select" => x().masked_select(&c.tensor(1)),
        "cumsum" => x().cumsum(dim()),
        "cumprod" => x().cumprod(dim()),
        "logcumsumexp" => x().logcumsumexp(dim()),
        _ => return None,
    }))
}

/// The parts of a Python index.
fn parts(c: &GoldenCase, arg: &Arg) -> Vec<Index> {
    let one = |a: &Arg| match a {
        Arg::Int(i) => Index::At(*i),
        Arg::Slice([start, stop, step]) => Index::slice(*start, *stop, step.unwrap_or(1)),
        Arg::None => Index::NewAxis,
        Arg::Ellipsis => Index::Ellipsis,
        Arg::Tensor(key) => Index::Tensor(c.by_key(key)),
        other => Index::from(other.ints().unwrap_or_else(|| panic!("index {other:?}"))),
    };
    match arg {
        Arg::Tuple(list) => list.iter().map(one).collect(),
        single => vec![one(single)],
    }
}

/// The values of `scatter`: a tensor, or one number for every place.
fn scatter_source(c: &GoldenCase) -> Tensor {
    let (src, index) = (c.operand((3, "src")), c.tensor((2, "index")));
    match c.get((3, "src")) {
        Some(Arg::Tensor(_)) => src,
        _ => index.then(|t| Ok(src.broadcast_to(&t.shape))),
    }
}

fn scatter_reduce(c: &GoldenCase, by: Combine) -> Tensor {
    let (index, src) = (c.tensor((2, "index")), c.tensor((3, "src")));
    c.tensor(0).scatter_reduce(c.int((1, "dim"), 0), &index, &src, by, c.bool("include_self", true))
}

/// Operators that combine along axes.
fn reductions(c: &GoldenCase) -> Option<Tensor> {
    // The sample's variance is PyTorch's default; `unbiased=False` is its older spelling of 0.
    let k = c.float("correction", if c.bool("unbiased", true) { 1.0 } else { 0.0 });
    Some(match c.operator.as_str() {
        "sum" => reduced(c, |t, a| t.sum(a), |t, a| t.sum_keep(a)),
        "mean" => reduced(c, |t, a| t.mean(a), |t, a| t.mean_keep(a)),
        "prod" => reduced(c, |t, a| t.prod(a), |t, a| t.prod_keep(a)),
        "nansum" => reduced(c, |t, a| t.nansum(a), |t, a| t.nansum_keep(a)),
        "amax" => reduced(c, |t, a| t.max(a), |t, a| t.max_keep(a)),
        "amin" => reduced(c, |t, a| t.min(a), |t, a| t.min_keep(a)),
        "var" => reduced(c, |t, a| t.var(a, k), |t, a| t.var_keep(a, k)),
        "std" => reduced(c, |t, a| t.std(a, k), |t, a| t.std_keep(a, k)),
        "max:reduction_no_dim" => c.tensor(0).max(..),
        "min:reduction_no_dim" => c.tensor(0).min(..),
        "median" => c.tensor(0).median(..),
        _ => return None,
    })
}

/// The axes in `dim`: all of them if none are named, as PyTorch has it.
fn axes(c: &GoldenCase) -> Axes {
    match c.ints((1, "dim")) {
        Some(list) if !list.is_empty() => Axes::from(list),
        _ => Axes::All,
    }
}

/// A reduction in one of its two forms; PyTorch lets a scalar be reduced along axis 0 or -1.
pub(super) fn reduced(
    c: &GoldenCase,
    drop: impl Fn(&Tensor, Axes) -> Tensor,
    keep: impl Fn(&Tensor, Axes) -> Tensor,
) -> Tensor {
    let x = c.tensor(0);
    let axes = if x.rank() == Ok(0) { Axes::All } else { axes(c) };
    if c.bool((2, "keepdim"), false) { keep(&x, axes) } else { drop(&x, axes) }
}
