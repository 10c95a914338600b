//! This worker's part of the batch that all workers share: what its gradients count, and where its
//! rows are in the whole batch.
//!
//! Both are kept in variables, so that a step that was traced reads them at each call.

use super::{job, lock};
use data::Part;
use std::sync::{Mutex, OnceLock};
use tensor::{Result, Tensor, Variable, generator};

struct Present {
    part: Option<Part>,
    /// What the mean over this worker's rows counts.
    weight: Variable,
    /// Rows before them.
    first: Variable,
}

fn present() -> Result<&'static Mutex<Present>> {
    static PRESENT: OnceLock<Result<Mutex<Present>>> = OnceLock::new();
    let made = PRESENT.get_or_init(|| {
        let weight = Variable::buffer("part.weight", Tensor::from(1.0f32))?;
        let first = Variable::buffer("part.first", Tensor::from([0i64]))?;
        Ok(Mutex::new(Present { part: None, weight, first }))
    });
    made.as_ref().map_err(Clone::clone)
}

/// This worker's part of a batch of so many rows, which the optimizer's next steps are about: their
/// gradients are those of a mean over the part's rows, and count accordingly. `Trainer` calls it, and
/// [`crate::Columns::column`] does for batches of a loader that is shared; a loop that cuts its batches itself
/// calls it before each step, or has parts of equal size.
///
/// ```
/// # use talweg_nn::parallel;
/// let part = parallel::part(15)?;
/// assert_eq!(part.given(), 0..15); // alone
/// # Ok::<(), tensor::Error>(())
/// ```
pub fn part(total: usize) -> Result<Part> {
    let (rank, world) = job()?.map_or((0, 1), |j| (j.place.rank as usize, j.place.world as usize));
    let part = Part::of(total, rank, world);
    set_part(&part)?;
    Ok(part)
}

/// As [`part`], for a batch that was cut already.
pub(crate) fn set_part(part: &Part) -> Result<()> {
    if part.world == 1 {
        return Ok(());
    }
    let mut present = lock(present()?);
    if present.part != Some(*part) {
        present.weight.assign(&Tensor::from(part.weight()))?;
        present.first.assign(&Tensor::from([part.first as i64]))?;
        present.part = Some(*part);
    }
    Ok(())
}

/// What this worker's gradients count, a scalar.
pub(super) fn weight() -> Result<Tensor> {
    Ok(lock(present()?).weight.tensor())
}

/// The key of the next draw for a tensor like `x`. Where `x` has a row for each of this worker's rows
/// of the batch, the draw is that of these rows in a draw for the whole batch: workers draw together
/// what one process draws.
#[track_caller]
pub fn next_key(x: &Tensor) -> Tensor {
    let key = generator::next_key();
    let rows = x.shape().ok().and_then(|s| s.first().copied());
    let first = job().ok().flatten().filter(|j| j.place.rank > 0).and_then(|_| {
        let present = lock(present().ok()?);
        present.part.filter(|p| rows == Some(p.given().len())).map(|_| present.first.tensor())
    });
    first.map_or(key.clone(), |first| Tensor::concat(&[key, first], 0))
}
