//! How good predictions are: small accumulators that are shown one batch after the other.
//!
//! They count on the host, in `f64` and integers, so that the order of batches does not matter.

use tensor::{DType, Error, Result, Tensor};

/// Accuracy: the fraction of rows whose largest score is at the target.
///
/// ```
/// # use talweg_nn::metrics::Accuracy;
/// # use tensor::Tensor;
/// let mut accuracy = Accuracy::default();
/// accuracy.update(&Tensor::from([[0.1f32, 0.9], [0.8, 0.2]]), &Tensor::from([1i64, 1])).unwrap();
/// assert_eq!(accuracy.value(), 0.5);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accuracy(TopK);
impl Accuracy {
    /// Scores `[N, classes]` and targets `[N]`.
    #[track_caller]
    pub fn update(&mut self, scores: &Tensor, targets: &Tensor) -> Result<()> {
        self.0.update(scores, targets)
    }
    /// The portion so far; NaN before the first row.
    pub fn value(&self) -> f64 {
        self.0.value()
    }
}

/// Top-k accuracy: the fraction of rows whose target is among the k largest scores.
#[derive(Clone, Debug, PartialEq)]
pub struct TopK {
    k: usize,
    hits: u64,
    rows: u64,
}
impl Default for TopK {
    fn default() -> TopK {
        TopK::new(1)
    }
}
impl TopK {
    /// Among the `k` largest.
    pub fn new(k: usize) -> TopK {
        TopK { k, hits: 0, rows: 0 }
    }
    /// Scores `[N, classes]` and targets `[N]`. Of equal scores the first class counts as larger; a
    /// target whose score is NaN is never a hit.
    #[track_caller]
    pub fn update(&mut self, scores: &Tensor, targets: &Tensor) -> Result<()> {
        let (scores, targets, classes) = labeled(scores, targets)?;
        for (row, &t) in scores.chunks(classes.max(1)).zip(&targets) {
            let own = row[t];
            let before = row.iter().enumerate().filter(|&(c, &s)| s > own || s == own && c < t || s.is_nan()).count();
            self.hits += (!own.is_nan() && before < self.k) as u64;
            self.rows += 1;
        }
        Ok(())
    }
    /// The portion so far; NaN before the first row.
    pub fn value(&self) -> f64 {
        self.hits as f64 / self.rows as f64
    }
}

/// Scores row by row, targets, and the number of classes.
#[track_caller]
fn labeled(scores: &Tensor, targets: &Tensor) -> Result<(Vec<f64>, Vec<usize>, usize)> {
    let [rows, classes] = scores.dims()?;
    Ok((floats(scores)?, classes_of(targets, rows, classes)?, classes))
}
#[track_caller]
fn floats(x: &Tensor) -> Result<Vec<f64>> {
    x.cast(DType::F64).to_vec()
}
/// Integers below `classes`, `rows` of them.
#[track_caller]
fn classes_of(x: &Tensor, rows: usize, classes: usize) -> Result<Vec<usize>> {
    let shape = x.shape()?;
    if shape.dims() != [rows] {
        return Err(
            Error::shape(format!("expected [{rows}] classes, one a row, not {:?}", shape.dims())).in_op("metrics")
        );
    }
    if x.dtype()?.is_float() {
        return Err(Error::dtype(format!("classes must be integers, not {}", x.dtype()?)).in_op("metrics"));
    }
    let list: Vec<i64> = x.cast(DType::I64).to_vec()?;
    let checked = |(row, c): (usize, i64)| {
        let e = || Error::value(format!("class {c} of row {row} is not among 0..{classes}")).in_op("metrics");
        usize::try_from(c).ok().filter(|&c| c < classes).ok_or_else(e)
    };
    list.into_iter().enumerate().map(checked).collect()
}

/// The confusion matrix: rows are the targets, columns the predictions.
///
/// ```
/// # use talweg_nn::metrics::{Average, Confusion};
/// # use tensor::Tensor;
/// let mut c = Confusion::new(2);
/// c.update(&Tensor::from([1i64, 1, 0, 1]), &Tensor::from([1i64, 0, 0, 1])).unwrap();
/// assert_eq!(c.count(0, 1), 1);
/// assert_eq!(c.accuracy(), 0.75);
/// assert_eq!(c.f1_of(1), 0.8);
/// assert_eq!(c.f1(Average::Micro), 0.75);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}
/// How figures of single classes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// Every class counts the same.
    Macro,
    /// Every row counts the same: hits and misses are summed up first.
    Micro,
    /// Classes are weighted by their number of rows.
    Weighted,
}
impl Confusion {
    /// For this many classes.
    pub fn new(classes: usize) -> Confusion {
        Confusion { classes, counts: vec![0; classes * classes] }
    }
    /// Predicted classes and targets, both `[N]`.
    #[track_caller]
    pub fn update(&mut self, predicted: &Tensor, targets: &Tensor) -> Result<()> {
        let [rows] = predicted.dims()?;
        let (predicted, targets) =
            (classes_of(predicted, rows, self.classes)?, classes_of(targets, rows, self.classes)?);
        targets.into_iter().zip(predicted).for_each(|(t, p)| self.counts[t * self.classes + p] += 1);
        Ok(())
    }
    /// Rows of class `target` that were predicted as `predicted`; 0 for classes out of range.
    pub fn count(&self, target: usize, predicted: usize) -> u64 {
        let is_inside = target < self.classes && predicted < self.classes;
        if is_inside { self.counts[target * self.classes + predicted] } else { 0 }
    }
    /// The counts as a tensor `[target, predicted]`.
    pub fn tensor(&self) -> Tensor {
        Tensor::new([self.classes, self.classes], &self.counts.iter().map(|&c| c as i64).collect::<Vec<_>>())
    }
    /// Rows of a class, and rows predicted as it.
    fn totals(&self, class: usize) -> (u64, u64) {
        (0..self.classes).fold((0, 0), |(t, p), c| (t + self.count(class, c), p + self.count(c, class)))
    }
    /// Portion of rows on the diagonal; NaN before the first row.
    pub fn accuracy(&self) -> f64 {
        let hits: u64 = (0..self.classes).map(|c| self.count(c, c)).sum();
        hits as f64 / self.counts.iter().sum::<u64>() as f64
    }
    /// Precision: the fraction of the rows predicted as a class that are of it; 0 if there are none.
    pub fn precision_of(&self, class: usize) -> f64 {
        ratio(self.count(class, class), self.totals(class).1)
    }
    /// Recall: the fraction of a class's rows that were predicted as it; 0 if there are none.
    pub fn recall_of(&self, class: usize) -> f64 {
        ratio(self.count(class, class), self.totals(class).0)
    }
    /// Harmonic mean of precision and recall of a class; 0 if it never appears.
    pub fn f1_of(&self, class: usize) -> f64 {
        let (rows, taken) = self.totals(class);
        ratio(2 * self.count(class, class), rows + taken)
    }
    /// F1 over all classes.
    pub fn f1(&self, average: Average) -> f64 {
        let all = 0..self.classes;
        match average {
            Average::Micro => self.accuracy(),
            Average::Macro => all.map(|c| self.f1_of(c)).sum::<f64>() / self.classes as f64,
            Average::Weighted => {
                let rows = self.counts.iter().sum::<u64>() as f64;
                all.map(|c| self.f1_of(c) * self.totals(c).0 as f64).sum::<f64>() / rows
            }
        }
    }
}
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// Area under the receiver operating characteristic of a yes-or-no question: how likely a row that
/// is true scores higher than one that is false, equal scores counting half. Keeps all scores.
///
/// ```
/// # use talweg_nn::metrics::Auc;
/// # use tensor::Tensor;
/// let mut auc = Auc::default();
/// auc.update(&Tensor::from([0.1f32, 0.4, 0.35, 0.8]), &Tensor::from([0i64, 0, 1, 1])).unwrap();
/// assert_eq!(auc.value(), 0.75);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auc(Vec<(f64, bool)>);
impl Auc {
    /// Scores `[N]` and targets `[N]` of 0 and 1 (or bools). A score that is NaN is an error.
    #[track_caller]
    pub fn update(&mut self, scores: &Tensor, targets: &Tensor) -> Result<()> {
        let [rows] = scores.dims()?;
        let (scores, targets) = (floats(scores)?, classes_of(targets, rows, 2)?);
        if let Some(row) = scores.iter().position(|s| s.is_nan()) {
            return Err(Error::value(format!("the score of row {row} is NaN and has no rank")).in_op("metrics"));
        }
        self.0.extend(scores.into_iter().zip(targets.into_iter().map(|t| t == 1)));
        Ok(())
    }
    /// The area so far; NaN unless both answers have appeared.
    pub fn value(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut below, mut pairs) = (0.0, 0.0);
        // -0 and 0 are equal scores, though sorted apart.
        for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
            let yes = equal.iter().filter(|s| s.1).count() as f64;
            let no = equal.len() as f64 - yes;
            pairs += yes * (below + no / 2.0);
            below += no;
        }
        pairs / (below * (self.0.len() as f64 - below))
    }
}

/// e to the mean loss a token, for losses that are means over batches of unequal size.
///
/// ```
/// # use talweg_nn::metrics::Perplexity;
/// let mut p = Perplexity::default();
/// p.update(8f64.ln(), 1);
/// p.update(2f64.ln(), 2);
/// assert!((p.value() - 32f64.cbrt()).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Perplexity {
    nats: f64,
    tokens: u64,
}
impl Perplexity {
    /// A mean cross-entropy in nats over this many tokens.
    pub fn update(&mut self, loss: f64, tokens: u64) {
        self.nats += loss * tokens as f64;
        self.tokens += tokens;
    }
    /// The perplexity so far; NaN before the first token.
    pub fn value(&self) -> f64 {
        (self.nats / self.tokens as f64).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_k_grows_with_k_and_prefers_the_first_of_equals() {
        // scikit-learn's example of top_k_accuracy_score: 0.75 for k = 2.
        let scores = Tensor::from([[0.5f32, 0.2, 0.2], [0.3, 0.4, 0.2], [0.2, 0.4, 0.3], [0.7, 0.2, 0.1]]);
        let targets = Tensor::from([0i64, 1, 2, 2]);
        let at = |k| {
            let mut t = TopK::new(k);
            t.update(&scores, &targets).unwrap();
            t.value()
        };
        assert_eq!([at(1), at(2), at(3)], [0.5, 0.75, 1.0]);
        let mut t = TopK::new(1);
        t.update(&Tensor::from([[1.0f32, 1.0], [1.0, 1.0]]), &Tensor::from([0i64, 1])).unwrap();
        assert_eq!(t.value(), 0.5);
        let mut t = TopK::new(1);
        t.update(&Tensor::from([[f32::NAN, 1.0], [f32::NAN, 1.0]]), &Tensor::from([0i64, 1])).unwrap();
        assert_eq!(t.value(), 0.0);
    }

    #[test]
    fn f1_of_many_classes() {
        // scikit-learn's example of f1_score: macro 0.26666, micro 0.33333, weighted 0.26666.
        let mut c = Confusion::new(3);
        let (truth, taken) = (Tensor::from([0i64, 1, 2, 0, 1, 2]), Tensor::from([0i64, 2, 1, 0, 0, 1]));
        c.update(&taken, &truth).unwrap();
        assert!((c.f1(Average::Macro) - 4.0 / 15.0).abs() < 1e-12);
        assert!((c.f1(Average::Micro) - 1.0 / 3.0).abs() < 1e-12);
        assert!((c.f1(Average::Weighted) - 4.0 / 15.0).abs() < 1e-12);
        assert_eq!((c.precision_of(0), c.recall_of(0)), (2.0 / 3.0, 1.0));
        assert_eq!(c.tensor().to_vec::<i64>().unwrap(), [2, 0, 0, 1, 0, 1, 0, 2, 0]);
    }

    #[test]
    fn equal_scores_count_half_across_batches() {
        let mut auc = Auc::default();
        assert!(auc.value().is_nan());
        auc.update(&Tensor::from([0.5f64, 0.5]), &Tensor::from([true, false])).unwrap();
        assert_eq!(auc.value(), 0.5);
        auc.update(&Tensor::from([0.9f64]), &Tensor::from([true])).unwrap();
        assert_eq!(auc.value(), 0.75);
    }

    #[test]
    fn bad_input_is_named_and_changes_nothing() {
        let mut a = Accuracy::default();
        let e = a.update(&Tensor::from([[1.0f32, 2.0]]), &Tensor::from([2i64])).unwrap_err().to_string();
        assert!(e.contains("class 2 of row 0 is not among 0..2"), "{e}");
        let e = a.update(&Tensor::from([[1.0f32, 2.0]]), &Tensor::from([1i64, 0])).unwrap_err().to_string();
        assert!(e.contains("expected [1] classes") && e.contains("[2]"), "{e}");
        let e = a.update(&Tensor::from([[1.0f32, 2.0]]), &Tensor::from([1.0f32])).unwrap_err().to_string();
        assert!(e.contains("integers"), "{e}");
        assert_eq!(a, Accuracy::default());
        let e = Auc::default().update(&Tensor::from([f32::NAN]), &Tensor::from([1i64])).unwrap_err().to_string();
        assert!(e.contains("row 0 is NaN"), "{e}");
    }
}
