//! This worker's part of the batch that all workers share: what its gradients count, and where its
//! rows are in the whole batch.
//!
//! Both are kept in variables, so that a step that was traced reads them at each call.

use data::Part;
use tensor::{Result, Tensor, Variable};

pub(crate) struct BatchPart {
    part: Option<Part>,
    /// What the mean over this worker's rows counts.
    weight: Variable,
    /// Rows before them.
    first: Variable,
}

impl BatchPart {
    /// The part that a place holds; that of a whole batch at first.
    pub fn of(place: &mut Option<BatchPart>) -> Result<&mut BatchPart> {
        if place.is_none() {
            let weight = Variable::buffer("part.weight", Tensor::from(1.0f32))?;
            let first = Variable::buffer("part.first", Tensor::from([0i64]))?;
            *place = Some(BatchPart { part: None, weight, first });
        }
        place.as_mut().ok_or_else(|| tensor::Error::bug("made above"))
    }
    pub fn set(&mut self, part: &Part) -> Result<()> {
        if self.part != Some(*part) {
            self.weight.assign(&Tensor::from(part.weight()))?;
            self.first.assign(&Tensor::from([part.first as i64]))?;
            self.part = Some(*part);
        }
        Ok(())
    }
    /// What this worker's gradients count, a scalar.
    pub fn weight(&self) -> Tensor {
        self.weight.tensor()
    }
    /// The row of the whole batch at which this worker's rows begin, if they are so many.
    pub fn first_row(&self, rows: usize) -> Option<Tensor> {
        self.part.filter(|p| p.given().len() == rows).map(|_| self.first.tensor())
    }
}
