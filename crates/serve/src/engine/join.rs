//! Inputs of requests, joined along the batch axis.

use super::Job;
use crate::answer::Answer;
use crate::failure::Answered;
use crate::served::{Run, now_us};
use ir::{Bytes, Literal};
use std::sync::Arc;

/// A request by itself, at the size of a batch that failed.
pub(super) fn alone(program: &dyn Run, job: &Job, size: usize) -> Answered<Answer> {
    let rows = job.sizes[0];
    let outputs = program.run(&join(&[job], size))?;
    Ok(Answer::new(Arc::new(outputs), Some(0..rows), size, now_us()))
}

/// The inputs of some requests, one after the other, repeated up to `size` rows: padding that is like the data cannot
/// fail where the data do not. This is the one time that the bytes of a request are copied, and a request that is the
/// whole batch need not be.
pub(super) fn join(jobs: &[impl std::ops::Deref<Target = Job>], size: usize) -> Vec<Literal> {
    let is_alone = !jobs[0].served.model.signature().is_batched || (jobs.len() == 1 && jobs[0].sizes[0] == size);
    let column = |i: usize| {
        let first = &jobs[0].inputs[i];
        if is_alone {
            return first.to_literal();
        }
        let mut shape = first.shape().clone();
        let row = first.byte_count() / shape[0].max(1);
        shape.dims_mut()[0] = size;
        // All of it is written here; a large block is one that an earlier batch has freed.
        let mut out = Bytes::any(size * row);
        let bytes = out.as_mut();
        let at = jobs.iter().fold(0, |at, job| at + job.inputs[i].copy_to(&mut bytes[at..]));
        let (data, padding) = bytes.split_at_mut(at);
        padding.chunks_exact_mut(row.max(1)).for_each(|chunk| chunk.copy_from_slice(&data[..row]));
        Literal::from_buffer(first.dtype(), shape, Arc::new(out))
    };
    (0..jobs[0].inputs.len()).map(column).collect()
}
