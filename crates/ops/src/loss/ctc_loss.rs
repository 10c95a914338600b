//! `ctc_loss`: how unlikely a sequence is, whichever way it is stretched over time.

use super::{REDUCTION, Reduction, reduction};
use crate::rules::{by_expansion, expand as body, f64s, float, i64s, integer, sample};
use crate::{DType, Error, Result, Tensor, control};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The logarithm of what cannot be. Finite, so that differences of such numbers are.
const NEVER: f64 = -1e30;

/// The row of `ctc_loss`.
pub static OP: Op = Op {
    name: "ctc_loss",
    doc: "Connectionist temporal classification (Graves and others 2006): from log-probabilities [T, N, C] the \
          negative logarithm of the probability of the targets [N, S], whose classes may be repeated in time and \
          have `blank`s between them. The last two inputs, [N], say how many times and targets count. Sequences \
          that cannot be are infinitely bad, or 0 if `zero_infinity`. The mean is that of losses divided by their \
          targets' lengths.",
    attrs: &[("blank", AttrKind::Int), ("zero_infinity", AttrKind::Bool), REDUCTION],
    infer: |c| check(c).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let by = |r: Reduction| Attrs::new().with("blank", 0i64).with("zero_infinity", false).with("reduction", r);
        let draw = |seed| sample(DType::F64, [4, 2, 3], seed, (-2.0, -0.2));
        let sequences = || [i64s([2, 2], &[1, 1, 2, 1]), i64s([2], &[4, 3]), i64s([2], &[2, 1])];
        let case = |seed, r| Case::new([vec![draw(seed)], sequences().to_vec()].concat(), by(r));
        // Two times, each class half likely: of four ways, blank-1, 1-blank and 1-1 give the 1.
        let even = f64s([2, 1, 2], &[0.5f64.ln(); 4]);
        let one = vec![even, i64s([1, 1], &[1]), i64s([1], &[2]), i64s([1], &[1])];
        vec![
            case(1, Reduction::Mean),
            case(2, Reduction::Sum),
            case(3, Reduction::None),
            Case::new(one, by(Reduction::None))
                .expect(vec![f64s([1], &[-(0.75f64.ln())])], "by hand: three of four ways"),
        ]
    },
    ..Op::DEFAULT
};

fn check(c: &Call) -> Result<()> {
    c.arity(4)?;
    float(c, 0)?;
    (1..4).try_for_each(|i| integer(c, i))?;
    let blank = c.attrs.int("blank")?;
    match (c.shape(0).dims(), c.shape(1).dims(), c.shape(2).dims(), c.shape(3).dims()) {
        (&[t, n, classes], &[m, _], &[a], &[b]) if n == m && n == a && n == b => {
            if t == 0 {
                return Err(Error::shape("there must be at least one time"));
            }
            if !(0..classes as i64).contains(&blank) {
                return Err(Error::value(format!("blank must be one of {classes} classes, not {blank}")));
            }
            Ok(())
        }
        _ => {
            let shapes: Vec<String> = c.types.iter().map(|t| t.shape.to_string()).collect();
            let e = format!("[T, N, C], [N, S], [N] and [N] are needed, but the shapes are {}", shapes.join(", "));
            Err(Error::shape(e))
        }
    }
}

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    check(c)?;
    let reduction = reduction(c)?;
    body(args, |v| {
        let lengths = v[3].cast(DType::I64);
        let mut each = -likelihood(&v[0], &v[1], &v[2].cast(DType::I64), &lengths, c.attrs.int("blank")?)?;
        let instead = if c.attrs.bool("zero_infinity")? { 0.0 } else { f64::INFINITY };
        each = Tensor::where_(&each.lt(-NEVER / 2.0), &each, instead);
        if reduction == Reduction::Mean {
            each = each / lengths.maximum(1i64).cast(c.dtype(0));
        }
        Ok(vec![reduction.apply(&each)])
    })
}

/// The logarithm of the probability of each sequence: the sum over all paths through the targets
/// with blanks between them, time after time.
fn likelihood(scores: &Tensor, targets: &Tensor, times: &Tensor, lengths: &Tensor, blank: i64) -> Result<Tensor> {
    let (shape, s) = (scores.shape()?, targets.shape()?[1]);
    let (t, n, states) = (shape[0], shape[1], 2 * s + 1);
    // What is beyond the end may be anything; blanks are harmless.
    let counts = Tensor::iota(s, DType::I64).lt(lengths.unsqueeze(-1));
    let blanks = Tensor::full_of([n, s + 1], blank as f64, DType::I64);
    let targets = Tensor::where_(&counts, &targets.cast(DType::I64), blanks.narrow(1, 0, s));
    let pairs = Tensor::stack(&[blanks.narrow(1, 0, s), targets], -1).reshape([n, 2 * s]);
    let path = Tensor::concat(&[pairs, blanks.narrow(1, s, 1)], -1);
    // Two classes that differ need no blank between them.
    let may_skip = path.ne(blank).and(path.ne(moved(&path, 2, blank as f64)));
    let scores = scores.gather(-1, &path.unsqueeze(0).broadcast_to([t, n, states])).maximum(NEVER);
    let begin = Tensor::where_(&Tensor::iota(states, DType::I64).lt(2i64), &scores.select(0, 0), NEVER);
    let step = |a: &[Tensor], row: &[Tensor]| -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let stay = &a[0];
        let skip = Tensor::where_(&may_skip, &moved(stay, 2, NEVER), NEVER);
        let ways = Tensor::stack(&[stay.clone(), moved(stay, 1, NEVER), skip], 0).logsumexp(0);
        let next = Tensor::where_(&row[1].lt(times).unsqueeze(-1), &(ways + &row[0]), stay);
        Ok((vec![next], vec![]))
    };
    let rest = [scores.narrow(0, 1, t - 1), Tensor::iota(t - 1, DType::I64) + 1i64];
    let (end, _) = control::scan(step, &[begin], &rest)?;
    // On the last class, or on the blank after it.
    let last = (lengths * 2i64).unsqueeze(-1);
    let on_blank = end[0].gather(-1, &last).squeeze(-1);
    let on_class = end[0].gather(-1, &(last - 1i64).maximum(0i64)).squeeze(-1);
    let on_class = Tensor::where_(&lengths.gt(0i64), &on_class, NEVER);
    Ok(Tensor::stack(&[on_blank, on_class], 0).logsumexp(0))
}
/// Shifted to the right along the last dimension, with a number in the remaining positions.
fn moved(x: &Tensor, by: usize, fill: f64) -> Tensor {
    x.then(|t| {
        let (n, size) = (t.shape[0], t.shape[1]);
        let by = by.min(size);
        Ok(Tensor::concat(&[Tensor::full_of([n, by], fill, t.dtype), x.narrow(1, 0, size - by)], 1))
    })
}

/// What [`Tensor::ctc_loss`] takes beside its operands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CtcOptions {
    /// The class that stands for none.
    pub blank: i64,
    /// Sequences that cannot be count as 0 instead of infinity.
    pub zero_infinity: bool,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl Tensor {
    /// Connectionist temporal classification: how unlikely the targets `[N, S]` are under these
    /// log-probabilities `[T, N, C]`, of which `times` and `lengths` (`[N]`) count.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, loss::CtcOptions};
    /// let scores = Tensor::zeros([3, 1, 2]).log_softmax(-1);
    /// let one = |x: i64| Tensor::from([x]);
    /// let loss = scores.ctc_loss(&Tensor::from([[1i64, 1]]), &one(3), &one(2), CtcOptions::default());
    /// // 1, blank, 1 is the only way.
    /// assert!((loss.item::<f32>().unwrap() - 8f32.ln() / 2.0).abs() < 1e-6);
    /// ```
    #[track_caller]
    pub fn ctc_loss(&self, targets: &Tensor, times: &Tensor, lengths: &Tensor, options: CtcOptions) -> Tensor {
        let CtcOptions { blank, zero_infinity, reduction } = options;
        let attrs = Attrs::new().with("blank", blank).with("zero_infinity", zero_infinity);
        Tensor::apply1(&OP, &[self, targets, times, lengths], attrs.with("reduction", reduction))
    }
}
