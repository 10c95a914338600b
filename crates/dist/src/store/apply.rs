//! How tables change: what the caller brings, and the plainest of it.

use crate::store::message::Update;
use crate::{merge, pool};
use smallvec::SmallVec;
use std::sync::Arc;

/// How a table changes when an update comes. It must be deterministic: a backup repeats it.
pub trait Apply: Send {
    /// First values of the arrays kept for a block beside its value; all have the value's length.
    fn state(&mut self, table: u32, len: usize) -> Result<Vec<Vec<f32>>, String>;
    /// Changes a block.
    fn apply(&mut self, to: Target<'_>, update: &Update) -> Result<(), String>;
}

/// A block while it is changed.
pub struct Target<'a> {
    pub(crate) value: &'a mut Arc<Vec<f32>>,
    pub(crate) state: &'a mut [Arc<Vec<f32>>],
    /// Number of this update, from 1.
    pub version: u64,
    /// Elements of a row.
    pub width: usize,
}

impl Target<'_> {
    /// Elements of its value.
    #[allow(clippy::len_without_is_empty, reason = "a block of no elements is one as well")]
    pub fn len(&self) -> usize {
        self.value.len()
    }
    /// Its value, to be changed in place; of one with another holder, a copy.
    pub fn value(&mut self) -> &mut [f32] {
        pool::make_mut(self.value)
    }
    /// Replaces rows by what was pushed.
    pub(crate) fn set_rows(mut self, u: &Update) -> Result<(), String> {
        let width = self.width;
        for (row, from) in u.rows.iter().zip(u.data.chunks_exact(width)) {
            self.value()[*row as usize * width..][..width].copy_from_slice(from);
        }
        Ok(())
    }
    /// The value and then each array of the state, to be changed in place; of those that another
    /// holds, copies.
    pub fn arrays(&mut self) -> SmallVec<[&mut [f32]; 4]> {
        let arrays = std::iter::once(&mut *self.value).chain(&mut *self.state);
        arrays.map(|a| pool::make_mut(a).as_mut_slice()).collect()
    }
    /// Writes the value and then each array of the state: `next` is given all of them and where
    /// to write what follows. If it fails, all of them stay as they are.
    pub fn replace<E>(&mut self, next: impl FnOnce(&[&[f32]], &mut [&mut [f32]]) -> Result<(), E>) -> Result<(), E> {
        let arrays = || std::iter::once(&*self.value).chain(&*self.state);
        let mut fresh: SmallVec<[Arc<Vec<f32>>; 4]> = arrays().map(|a| pool::take(a.len())).collect();
        let done = {
            let old: SmallVec<[&[f32]; 4]> = arrays().map(|a| a.as_slice()).collect();
            let room = fresh.iter_mut().map(|a| pool::make_mut(a).as_mut_slice());
            next(&old, &mut room.collect::<SmallVec<[&mut [f32]; 4]>>())
        };
        if done.is_ok() {
            let arrays = std::iter::once(&mut *self.value).chain(&mut *self.state);
            arrays.zip(&mut fresh).for_each(|(a, f)| std::mem::swap(a, f));
        }
        fresh.into_iter().for_each(pool::give);
        done
    }
}

/// Adds updates to values: counts, sums, and gradients already multiplied by the step size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Add;

impl Apply for Add {
    fn state(&mut self, _: u32, _: usize) -> Result<Vec<Vec<f32>>, String> {
        Ok(Vec::new())
    }
    fn apply(&mut self, mut to: Target<'_>, u: &Update) -> Result<(), String> {
        let width = to.width;
        merge::add_rows(to.value(), width, &u.rows, &u.data);
        Ok(())
    }
}
