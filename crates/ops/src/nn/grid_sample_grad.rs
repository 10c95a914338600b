//! `grid_sample_grad`: gradients of `grid_sample` for the image and the coordinates.

use super::grid_sample::{ATTRS, check, combinations, index, inside, taps};
use crate::rules::{expand_wide, f64s, floats, sample};
use crate::{Error, Result, Tensor};
use ir::{Attrs, Call, Case, DType, Meaning, Op, Shape, Value};

/// The row of `grid_sample_grad`.
pub static OP: Op = Op {
    name: "grid_sample_grad",
    doc: "Gradients of `grid_sample` for x and grid, from these and the gradient g of its result.",
    attrs: &ATTRS,
    infer: |c| {
        check(c, 3)?;
        let (x, grid) = (c.shape(0), c.shape(1));
        let want: Shape = x[..2].iter().chain(&grid[1..grid.rank() - 1]).copied().collect();
        if *c.shape(2) != want {
            return Err(Error::shape(format!("the gradient of the result must have shape {want}, not {}", c.shape(2))));
        }
        Ok(c.types[..2].iter().cloned().collect())
    },
    meaning: Meaning::Composite(body),
    cases: || {
        let with = |mode: &str, padding: &str, align: bool| {
            Attrs::new().with("mode", mode).with("padding", padding).with("align_corners", align)
        };
        let all = |c: usize, seed| {
            let grid = sample(DType::F64, [2, 1, 5, 2], seed, (-1.4, 1.4));
            vec![floats([2, c, 3, 4], 1), grid, floats([2, c, 1, 5], 2)]
        };
        vec![
            Case::new(all(2, 3), with("bilinear", "zeros", false)),
            Case::new(all(1, 4), with("bilinear", "border", true)),
            Case::new(all(3, 5), with("bilinear", "reflection", false)),
            Case::new(all(2, 6), with("nearest", "border", false)),
            Case::new(all(1, 7), with("bicubic", "zeros", true)),
            Case::new(
                vec![
                    f64s([1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]),
                    f64s([1, 1, 1, 2], &[0.5, -0.5]),
                    f64s([1, 1, 1, 1], &[1.0]),
                ],
                with("bilinear", "zeros", true),
            )
            .expect(
                vec![f64s([1, 1, 2, 2], &[0.1875, 0.5625, 0.0625, 0.1875]), f64s([1, 1, 1, 2], &[0.5, 1.0])],
                "the image at (0.75, 0.25): the weights of its corners, and their slopes times half a pixel",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (shape, dims) = (c.shape(0), c.shape(0).rank() - 2);
    expand_wide(args, |v| {
        let taps = taps(c.attrs, shape, &v[1])?;
        let (flat, g) = (v[0].flatten(2, -1), v[2].flatten(2, -1));
        let q: usize = c.shape(1)[1..dims + 1].iter().product();
        let (lead, places) = ([shape[0], 1, q], c.shape(1)[..dims + 1].iter().copied().collect::<Shape>());
        let mut of_image = flat.zeros_like();
        let mut of_places: Vec<Option<Tensor>> = vec![None; dims];
        for chosen in combinations(&taps) {
            let index = index(shape, q, &chosen);
            let weights: Vec<Option<Tensor>> = chosen.iter().map(|t| t.weight.clone()).collect();
            let part = match weights.iter().flatten().cloned().reduce(|a, b| a * b) {
                Some(w) => &g * w.reshape(lead),
                None => g.clone(),
            };
            of_image = of_image.scatter_add(2, &index, &inside(&part, shape, q, &chosen));
            // How much the result changes with the product of the weights.
            let change = inside(&(&flat.gather(2, &index) * &g), shape, q, &chosen).sum(1).reshape(&places);
            for (d, sum) in of_places.iter_mut().enumerate() {
                let Some(slope) = &chosen[d].slope else { continue };
                let others = (0..dims).filter(|&e| e != d).filter_map(|e| weights[e].clone());
                let part = &change * others.fold(slope.clone(), |a, b| a * b);
                *sum = Some(sum.take().map_or(part.clone(), |s| s + part));
            }
        }
        // The last dimension's coordinate comes first.
        let zero = v[1].select(-1, 0).zeros_like();
        let each: Vec<Tensor> = of_places.into_iter().rev().map(|p| p.unwrap_or_else(|| zero.clone())).collect();
        Ok(vec![of_image.reshape(shape), Tensor::stack(&each, -1)])
    })
}
