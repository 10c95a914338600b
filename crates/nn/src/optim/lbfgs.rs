//! `Lbfgs`: steps along a direction that the last few gradients have bent, for losses without noise.
//!
//! It is no [`super::Rule`]: it looks at all parameters together, and at the loss several times a
//! step, so it is given a function that recomputes the loss.

use super::settings::settings;
use super::wolfe::{Point, search};
use crate::{Parameters, parallel};
use tensor::control::{ScanOptions, scan_with};
use tensor::{DType, Error, Result, Tensor, Variable, grad, no_grad};

settings! {
    /// Settings of [`Lbfgs`], with PyTorch's names and defaults.
    LbfgsOptions {
        /// Length of a step, relative to the one the method finds.
        lr: f64 = 1.0;
        /// Directions tried in a step.
        max_iter: usize = 20;
        /// Losses computed in a step; 5/4 of the iterations if `None`.
        max_eval: Option<usize> = None;
        /// A step is over when no gradient is larger.
        tolerance_grad: f64 = 1e-7;
        /// A step is over when parameters or loss change less.
        tolerance_change: f64 = 1e-9;
        /// History size; each entry takes twice the parameters' memory.
        history_size: usize = 100;
        /// Searches along the direction for a point that satisfies the strong Wolfe conditions.
        strong_wolfe: bool = false;
    }
}

/// Limited-memory BFGS (Liu and Nocedal 1989).
///
/// ```
/// # use talweg_nn::optim::{Lbfgs, LbfgsOptions};
/// # use tensor::{Tensor, Variable};
/// // Rosenbrock's valley, whose lowest point is (1, 1).
/// let p = Variable::new("p", Tensor::from([-1.2f64, 1.0])).unwrap();
/// let options = LbfgsOptions { strong_wolfe: true, ..LbfgsOptions::default() };
/// let optimizer = Lbfgs::new(options, [p.clone()].as_slice()).unwrap();
/// for _ in 0..5 {
///     let loss = || {
///         let (x, y) = (p.tensor().select(0, 0), p.tensor().select(0, 1));
///         Ok((1.0 - &x).square() + (y - x.square()).square() * 100.0)
///     };
///     optimizer.step(loss).unwrap();
/// }
/// let found = p.tensor().to_vec::<f64>().unwrap();
/// assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-4), "{found:?}");
/// ```
pub struct Lbfgs {
    options: LbfgsOptions,
    params: Vec<Variable>,
    /// Changes of the gradient `[history, n]`, those of the parameters, and one over their product
    /// `[history]`; the newest last, zeros where there is none yet.
    changes: Variable,
    steps: Variable,
    inverses: Variable,
    /// The last direction and the gradient it started from.
    direction: Variable,
    gradient: Variable,
    /// Length of the last step, scale of the first guess, iterations so far.
    numbers: Variable,
}

/// The state carried from iteration to iteration.
struct Run {
    direction: Tensor,
    gradient: Tensor,
    length: f64,
    scale: f64,
    iterations: u64,
}

impl Lbfgs {
    /// For the parameters of a module, or a list of variables, all of one type.
    pub fn new(options: LbfgsOptions, params: &(impl Parameters + ?Sized)) -> Result<Lbfgs> {
        if parallel::averages()? {
            let e = "it looks at the loss of all examples several times a step, which workers do not share: run it in one process";
            return Err(Error::value(e).in_op("Lbfgs"));
        }
        let params = params.variables();
        let dtype = params.first().map_or(DType::F32, Variable::dtype);
        if let Some(p) = params.iter().find(|p| p.dtype() != dtype) {
            let e = format!("parameters must be of one type, but {} is {}, not {dtype}", p.name(), p.dtype());
            return Err(Error::dtype(e).in_op("lbfgs"));
        }
        if params.is_empty() || options.history_size == 0 || options.max_iter == 0 {
            let e = "at least one parameter, a history of 1 and 1 iteration are needed";
            return Err(Error::value(e).in_op("lbfgs"));
        }
        let (n, h) = (params.iter().map(numbers).sum::<usize>(), options.history_size);
        let zeros = |name: &str, shape: &[usize]| Variable::buffer(name, Tensor::full_of(shape, 0.0, dtype.part()));
        Ok(Lbfgs {
            changes: zeros("old_dirs", &[h, n])?,
            steps: zeros("old_stps", &[h, n])?,
            inverses: zeros("ro", &[h])?,
            direction: zeros("d", &[n])?,
            gradient: zeros("prev_flat_grad", &[n])?,
            numbers: Variable::buffer("numbers", Tensor::from([0.0f64, 1.0, 0.0]))?,
            options,
            params,
        })
    }
    /// Everything a checkpoint needs.
    pub fn state(&self) -> Vec<(String, Variable)> {
        let all = [&self.changes, &self.steps, &self.inverses, &self.direction, &self.gradient, &self.numbers];
        all.into_iter().map(|v| (v.name().to_string(), v.clone())).collect()
    }

    /// One step: several iterations, each with at least one call of `loss`, which computes the loss
    /// from the parameters' present values. Returns the loss before the step.
    #[track_caller]
    pub fn step(&self, mut loss: impl FnMut() -> Result<Tensor>) -> Result<f64> {
        let o = &self.options;
        let evaluations_max = o.max_eval.unwrap_or(o.max_iter * 5 / 4);
        let (first, mut g) = self.evaluate(&mut loss)?;
        let (mut now, mut evaluations) = (first, 1usize);
        if largest(&g)? <= o.tolerance_grad {
            return Ok(first);
        }
        let [length, scale, iterations] = self.numbers.tensor().to_vec::<f64>()?[..] else {
            return Err(Error::value("numbers must hold three values").in_op("lbfgs"));
        };
        let mut run = Run {
            direction: self.direction.tensor(),
            gradient: self.gradient.tensor(),
            length,
            scale,
            iterations: iterations as u64,
        };
        for i in 1..=o.max_iter {
            self.bend(&g, &mut run)?;
            let before = now;
            run.length = if run.iterations == 1 { (1.0 / total(&g)?).min(1.0) * o.lr } else { o.lr };
            let slope = dot(&g, &run.direction)?;
            if slope > -o.tolerance_change {
                break;
            }
            let x = self.flat();
            if o.strong_wolfe {
                let at = |t: f64| {
                    self.move_to(&x, &run.direction, t)?;
                    let (f, grad) = self.evaluate(&mut loss)?;
                    Ok(Point { t, f, slope: dot(&grad, &run.direction)?, grad })
                };
                let start = Point { t: 0.0, f: now, slope, grad: g };
                let least = o.tolerance_change / largest(&run.direction)?;
                let (found, calls) = search(start, run.length, least, evaluations_max.saturating_sub(evaluations), at)?;
                (now, g, run.length) = (found.f, found.grad, found.t);
                evaluations += calls;
            }
            self.move_to(&x, &run.direction, run.length)?;
            if i == o.max_iter {
                break;
            }
            if !o.strong_wolfe {
                (now, g) = self.evaluate(&mut loss)?;
                evaluations += 1;
            }
            if evaluations >= evaluations_max
                || largest(&g)? <= o.tolerance_grad
                || largest(&run.direction)? * run.length <= o.tolerance_change
                || (now - before).abs() < o.tolerance_change
            {
                break;
            }
        }
        self.keep(run)?;
        Ok(first)
    }

    /// The next direction; the gradient's change since the last one joins the memory.
    fn bend(&self, g: &Tensor, run: &mut Run) -> Result<()> {
        run.iterations += 1;
        if run.iterations == 1 {
            run.direction = -g;
        } else {
            let (y, s) = (g - &run.gradient, &run.direction * run.length);
            let ys = dot(&y, &s)?;
            // Else the curvature is not positive, and the memory would point uphill.
            if ys > 1e-10 {
                let kept = self.options.history_size - 1;
                let pushed = |v: &Variable, x: &Tensor| {
                    v.assign(&Tensor::concat(&[v.tensor().narrow(0, 1, kept), x.unsqueeze(0)], 0))
                };
                pushed(&self.changes, &y)?;
                pushed(&self.steps, &s)?;
                pushed(&self.inverses, &Tensor::from(1.0 / ys).cast(y.dtype()?))?;
                run.scale = ys / dot(&y, &y)?;
            }
            run.direction = self.direction_from(g, run.scale)?;
        }
        run.gradient = g.clone();
        Tensor::eval_all(&[&run.direction])
    }

    /// The two loops over the memory: newest first, then oldest first.
    fn direction_from(&self, g: &Tensor, scale: f64) -> Result<Tensor> {
        let rows = [self.steps.tensor(), self.changes.tensor(), self.inverses.tensor()];
        let newest_first = ScanOptions { reverse: true, ..ScanOptions::default() };
        let back = |q: &[Tensor], row: &[Tensor]| {
            let a = (&row[0] * &q[0]).sum(..) * &row[2];
            Ok((vec![&q[0] - &row[1] * &a], vec![a]))
        };
        let (q, shares) = scan_with(newest_first, back, &[-g], &rows)?;
        let rows = [rows.as_slice(), &shares].concat();
        let forth = |r: &[Tensor], row: &[Tensor]| {
            let b = (&row[1] * &r[0]).sum(..) * &row[2];
            Ok((vec![&r[0] + &row[0] * (&row[3] - b)], vec![]))
        };
        let (mut r, _) = scan_with(ScanOptions::default(), forth, &[&q[0] * scale], &rows)?;
        Ok(r.swap_remove(0))
    }

    /// The loss and all its gradients as one vector.
    fn evaluate(&self, loss: &mut impl FnMut() -> Result<Tensor>) -> Result<(f64, Tensor)> {
        let loss = loss()?;
        let reads: Vec<Tensor> = self.params.iter().map(Variable::tensor).collect();
        let grads = no_grad(|| grad(&loss, &reads))?;
        let g = joined(&grads);
        Tensor::eval_all(&[&loss, &g])?;
        Ok((loss.item()?, g))
    }
    /// All parameters as one vector.
    fn flat(&self) -> Tensor {
        joined(&self.params.iter().map(Variable::tensor).collect::<Vec<_>>())
    }
    /// Sets the parameters to x + t d.
    fn move_to(&self, x: &Tensor, d: &Tensor, t: f64) -> Result<()> {
        let (there, mut at) = (x + d * t, 0);
        for p in &self.params {
            let (n, part) = (numbers(p), there.narrow(0, at, numbers(p)));
            p.assign(&if p.dtype().is_complex() {
                part.reshape([n / 2, 2]).view_as_complex().reshape(p.shape())
            } else {
                part.reshape(p.shape())
            })?;
            at += n;
        }
        Ok(())
    }
    fn keep(&self, run: Run) -> Result<()> {
        self.direction.assign(&run.direction)?;
        self.gradient.assign(&run.gradient)?;
        self.numbers.assign(&Tensor::from([run.length, run.scale, run.iterations as f64]))
    }
}

/// The number of real elements of a parameter.
fn numbers(p: &Variable) -> usize {
    p.shape().count() * if p.dtype().is_complex() { 2 } else { 1 }
}
/// The real numbers of all tensors, one after the other.
fn joined(tensors: &[Tensor]) -> Tensor {
    let flat = |t: &Tensor| match t.dtype() {
        Ok(d) if d.is_complex() => t.view_as_real().flatten(0, -1),
        _ => t.flatten(0, -1),
    };
    Tensor::concat(&tensors.iter().map(flat).collect::<Vec<_>>(), 0)
}
fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    (a * b).sum(..).item()
}
fn largest(x: &Tensor) -> Result<f64> {
    x.abs().max(..).item()
}
fn total(x: &Tensor) -> Result<f64> {
    x.abs().sum(..).item()
}
