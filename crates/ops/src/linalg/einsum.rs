//! `einsum`: sums of products in Einstein's notation.

use crate::rules::{f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{Attrs, Case, Shape, Site};

super::composite!(
    "einsum",
    "Sums of products by an equation such as `ij,jk->ik`: letters name axes, a letter that is not in the result is \
     summed over, `...` stands for axes that broadcast.",
    0,
    [("equation", Str)],
    |c, t| {
        let shapes: Vec<&Shape> = c.types.iter().map(|t| &t.shape).collect();
        contract(&Equation::parse(c.attrs.str("equation")?, &shapes)?, t)
    },
    || {
        let by = |e: &str| Attrs::new().with("equation", e);
        let a = || floats([2, 3], 1);
        vec![
            Case::new(vec![a(), floats([3, 2], 2)], by("ij,jk->ik")),
            Case::new(vec![a(), floats([2, 2], 2), floats([3], 3)], by("ij, ki, j")),
            Case::new(vec![floats([2, 3, 2], 1)], by("iji->j")),
            Case::new(vec![floats([1, 2, 2], 1), floats([3, 2, 1], 2)], by("...ij,...jk->...ik")),
            Case::new(vec![a(), floats([2, 1], 2)], by("ij,ij->i")),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], by("ii"))
                .expect(vec![f64s((), &[5.0])], "by hand: the trace"),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], by("ji"))
                .expect(vec![f64s([2, 2], &[1.0, 3.0, 2.0, 4.0])], "NumPy manual: np.einsum('ji', c) is the transpose"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

/// An axis: a letter, or the number (from the end) of one of those that `...` stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
enum Label {
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

/// An equation applied to shapes.
struct Equation {
    inputs: Vec<Vec<Label>>,
    output: Vec<Label>,
}

impl Equation {
    fn parse(text: &str, shapes: &[&Shape]) -> Result<Equation> {
        let fail = |e: String| Error::value(format!("{e} in equation {text:?}"));
        let clean: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match clean.split_once("->") {
            Some((l, r)) => (l.to_string(), Some(r.to_string())),
            None => (clean, None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != shapes.len() {
            return Err(fail(format!("{} terms for {} tensors", terms.len(), shapes.len())));
        }
        let inputs = terms
            .iter()
            .zip(shapes)
            .map(|(t, s)| labels(t, Some(s.rank())).map_err(fail))
            .collect::<Result<Vec<_>>>()?;
        let all: Vec<Label> = inputs.concat();
        let hidden = all.iter().filter_map(|l| if let Label::Ellipsis(k) = l { Some(k.0 + 1) } else { None }).max();
        let dots = |n: usize| (0..n).rev().map(|k| Label::Ellipsis(std::cmp::Reverse(k)));
        let output = match right {
            Some(r) => {
                let rank = r.chars().filter(|c| c.is_ascii_alphabetic()).count() + hidden.unwrap_or(0);
                labels(&r, r.contains("...").then_some(rank)).map_err(fail)?
            }
            None => {
                let mut once: Vec<Label> = all.iter().copied().filter(|l| matches!(l, Label::Letter(_))).collect();
                once.retain(|l| all.iter().filter(|m| *m == l).count() == 1);
                once.sort_unstable();
                dots(hidden.unwrap_or(0)).chain(once).collect()
            }
        };
        if let Some(l) = output.iter().find(|l| !all.contains(l)) {
            return Err(fail(format!("the result's axis {l:?} is in no tensor")));
        }
        if let Some(i) = (0..output.len()).find(|&i| output[..i].contains(&output[i])) {
            return Err(fail(format!("the result names axis {:?} twice", output[i])));
        }
        Ok(Equation { inputs, output })
    }
}

/// The axes a term names; `rank` fixes how many `...` stands for.
fn labels(term: &str, rank: Option<usize>) -> Result<Vec<Label>, String> {
    let (before, after) = match term.split_once("...") {
        Some((a, b)) => (a, Some(b)),
        None => (term, None),
    };
    let letters = |s: &str| -> Result<Vec<Label>, String> {
        s.chars()
            .map(|c| if c.is_ascii_alphabetic() { Ok(Label::Letter(c)) } else { Err(format!("{c:?} is no letter")) })
            .collect()
    };
    let (mut out, tail) = (letters(before)?, letters(after.unwrap_or(""))?);
    let named = out.len() + tail.len();
    match (rank, after) {
        (Some(r), Some(_)) if r >= named => {
            out.extend((0..r - named).rev().map(|k| Label::Ellipsis(std::cmp::Reverse(k))))
        }
        (Some(r), _) if r != named => return Err(format!("term {term:?} does not fit a tensor of rank {r}")),
        _ => {}
    }
    out.extend(tail);
    Ok(out)
}

/// A tensor with a name for each axis.
#[derive(Clone)]
struct Named {
    t: Tensor,
    labels: Vec<Label>,
}

impl Named {
    /// Diagonals where a label is repeated.
    fn new(t: &Tensor, labels: &[Label]) -> Result<Named> {
        let mut out = Named { t: t.clone(), labels: labels.to_vec() };
        while let Some((i, j)) =
            (0..out.labels.len()).find_map(|j| Some((out.labels[..j].iter().position(|l| *l == out.labels[j])?, j)))
        {
            let shape = out.t.shape()?;
            if shape[i] != shape[j] {
                let e = format!("axes {i} and {j} of {shape} have one letter but different sizes");
                return Err(Error::shape(e));
            }
            let label = out.labels.remove(j);
            out.labels.remove(i);
            out.t = out.t.diagonal(0, i as i64, j as i64);
            out.labels.push(label);
        }
        Ok(out)
    }
    fn size(&self, l: Label) -> Result<Option<usize>> {
        let shape = self.t.shape()?;
        Ok(self.labels.iter().position(|m| *m == l).map(|i| shape[i]))
    }
    /// Without the axes that are not `kept`.
    fn summed(self, kept: impl Fn(Label) -> bool) -> Result<Named> {
        let over: Vec<usize> = (0..self.labels.len()).filter(|&i| !kept(self.labels[i])).collect();
        if over.is_empty() {
            return Ok(self);
        }
        let dtype = self.t.dtype()?;
        let labels = self.labels.iter().copied().filter(|&l| kept(l)).collect();
        Ok(Named { t: self.t.sum(over).cast(dtype), labels })
    }
    /// Without axes of size 1 that the other tensor has in another size.
    fn squeezed(self, other: &Named) -> Result<Named> {
        let shape = self.t.shape()?;
        let mut drop = Vec::new();
        for (i, &l) in self.labels.iter().enumerate() {
            match other.size(l)? {
                Some(d) if d != shape[i] && shape[i] == 1 => drop.push(i),
                Some(d) if d != shape[i] && d != 1 => {
                    return Err(Error::shape(format!("axis {l:?} has sizes {} and {d}", shape[i])));
                }
                _ => {}
            }
        }
        let keep = |i: &usize| !drop.contains(i);
        let labels = (0..shape.rank()).filter(keep).map(|i| self.labels[i]).collect();
        Ok(Named { t: self.t.reshape(shape.reduce(&drop, false)), labels })
    }
    /// In another order of axes, all of which it has.
    fn ordered(&self, order: &[Label]) -> Tensor {
        let at = |l: &Label| self.labels.iter().position(|m| m == l).expect("an axis of the tensor") as i64;
        let axes: Vec<i64> = order.iter().map(at).collect();
        if axes.iter().copied().eq(0..axes.len() as i64) { self.t.clone() } else { self.t.permute(&axes) }
    }
}

/// Multiplies the tensors from left to right and sums as early as possible.
fn contract(e: &Equation, t: &[Tensor]) -> Result<Tensor> {
    let mut parts = t.iter().zip(&e.inputs).map(|(t, l)| Named::new(t, l)).collect::<Result<Vec<_>>>()?.into_iter();
    let mut now = parts.next().ok_or_else(|| Error::value("at least one tensor is needed"))?;
    while let Some(next) = parts.next() {
        let later: Vec<Label> = parts.as_slice().iter().flat_map(|p| p.labels.clone()).collect();
        now = multiply(now, next, |l| e.output.contains(&l) || later.contains(&l))?;
    }
    let out = now.summed(|l| e.output.contains(&l))?;
    Ok(out.ordered(&e.output))
}

/// The product of two tensors, summed over the axes that are not `kept`.
fn multiply(a: Named, b: Named, kept: impl Fn(Label) -> bool) -> Result<Named> {
    let (a, b) = (a.clone().squeezed(&b)?, b.squeezed(&a)?);
    let (la, lb) = (a.labels.clone(), b.labels.clone());
    let (a, b) = (a.summed(|l| kept(l) || lb.contains(&l))?, b.summed(|l| kept(l) || la.contains(&l))?);
    let shared = |l: &&Label| a.labels.contains(l) && b.labels.contains(l);
    let batch: Vec<Label> = a.labels.iter().filter(|l| shared(l) && kept(**l)).copied().collect();
    let gone: Vec<Label> = a.labels.iter().filter(|l| shared(l) && !kept(**l)).copied().collect();
    let left: Vec<Label> = a.labels.iter().filter(|l| !shared(l)).copied().collect();
    let right: Vec<Label> = b.labels.iter().filter(|l| !shared(l)).copied().collect();
    let dims = |n: &Named, list: &[Label]| -> Result<Vec<usize>> {
        list.iter().map(|&l| Ok(n.size(l)?.unwrap_or(1))).collect()
    };
    let (db, dk) = (dims(&a, &batch)?, dims(&a, &gone)?);
    let (dl, dr) = (dims(&a, &left)?, dims(&b, &right)?);
    let (ta, tb) = (a.ordered(&[&*batch, &left, &gone].concat()), b.ordered(&[&*batch, &gone, &right].concat()));
    let full = |x: &[usize]| x.iter().product::<usize>();
    let y = if gone.is_empty() {
        let one = |n: usize| vec![1; n];
        ta.reshape([&*db, &dl, &one(dr.len())].concat()) * tb.reshape([&*db, &one(dl.len()), &dr].concat())
    } else {
        let (l, k, r) = (full(&dl), full(&dk), full(&dr));
        ta.reshape([&*db, &[l, k]].concat()).matmul(tb.reshape([&*db, &[k, r]].concat()))
    };
    Ok(Named { t: y.reshape([&*db, &dl, &dr].concat()), labels: [batch, left, right].concat() })
}

impl Tensor {
    /// Sums of products by an equation in Einstein's notation: letters name axes, a letter that is
    /// not in the result is summed over, a repeated letter takes the diagonal, `...` stands for
    /// axes that broadcast. Without `->` the result has the letters that occur once, in
    /// alphabetical order.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = Tensor::einsum("ij,kj->ik", &[&a, &a]);
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [5.0, 11.0, 11.0, 25.0]);
    /// ```
    #[track_caller]
    pub fn einsum(equation: &str, tensors: &[&Tensor]) -> Tensor {
        let site = Site::here();
        site.scope(|| {
            let run = || -> Result<Tensor> {
                let first = tensors.first().ok_or_else(|| Error::value("at least one tensor is needed"))?;
                let mut dtype = first.dtype()?;
                for t in tensors {
                    dtype = dtype.promote(t.dtype()?);
                }
                let cast: Vec<Tensor> = tensors.iter().map(|t| t.cast(dtype)).collect();
                let refs: Vec<&Tensor> = cast.iter().collect();
                Ok(Tensor::apply1(&OP, &refs, Attrs::new().with("equation", equation)))
            };
            run().map_err(|e| e.in_op("einsum").at(site)).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_equations_say_what_is_wrong() {
        let x = Tensor::from([[1.0f32, 2.0]]);
        for (eq, what) in [
            ("ij,jk", "2 terms for 1 tensors"),
            ("ijk", "does not fit a tensor of rank 2"),
            ("ij->ijk", "is in no tensor"),
            ("ij->ii", "twice"),
            ("i1", "is no letter"),
            ("ii", "different sizes"),
        ] {
            let e = Tensor::einsum(eq, &[&x]).eval().unwrap_err().to_string();
            assert!(e.contains(what), "{eq}: {e}");
        }
    }
}
