//! Adapters that are served side by side: requests of one batch use different ones, or none. The adapters of a layer
//! stand below each other in one matrix A and beside each other in one matrix B; each token's weights are zero for all
//! adapters but its own.

use crate::load::LanguageModel;
use crate::lora::{Placed, Saved};
use crate::models::{Chosen, Lora};
use ir::{DType, Error, Literal, Result};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use tensor::{Tensor, Variable};

/// A layer that adapters change.
struct Layer {
    place: Placed,
    /// `[slots · rank, in]`.
    a: Variable,
    /// `[out, slots · rank]`.
    b: Variable,
}

/// An adapter in its slot.
#[derive(Clone, Debug, PartialEq)]
struct Loaded {
    name: String,
    /// Adapters that were loaded before: KV is not shared with another of the same name.
    number: u64,
}

/// Places for adapters, and who has them.
pub struct Adapters {
    layers: Vec<Layer>,
    rank: usize,
    /// The weights of the columns for each choice: row 0 is no adapter, row i the one in slot i − 1.
    table: Variable,
    chosen: Chosen,
    loaded: Mutex<(Vec<Option<Loaded>>, u64)>,
}

fn zeros(name: &str, rows: usize, columns: usize) -> Result<Variable> {
    Variable::buffer(name, Literal::zeros(DType::F32, [rows, columns]))
}

impl LanguageModel {
    /// Makes room for these adapters, or for `slots` of at most this rank on the layers that these change; without
    /// adapters, on the projections of attention.
    pub fn make_room_for(&mut self, folders: &[&Path], slots: Option<usize>, rank: Option<usize>) -> Result<()> {
        let saved = folders.iter().map(|f| Saved::read(f)).collect::<Result<Vec<_>>>()?;
        let mut targets: Vec<String> = saved.iter().flat_map(|s| s.targets.clone()).collect();
        targets.sort();
        targets.dedup();
        let usual = crate::LoraOptions::default();
        let targets = if targets.is_empty() { usual.targets } else { targets };
        let highest = saved.iter().map(|s| s.rank).max().unwrap_or(usual.rank);
        self.make_room(slots.unwrap_or(folders.len().max(1)), rank.unwrap_or(highest), &targets)
    }
    /// Makes room for `slots` adapters of at most this rank on these linear layers (`q_proj`).
    pub fn make_room(&mut self, slots: usize, rank: usize, targets: &[String]) -> Result<()> {
        if slots == 0 || rank == 0 {
            return Err(Error::value("adapters need a slot and a rank of at least 1"));
        }
        let (chosen, width) = (Chosen::default(), slots * rank);
        let config = self.decoder.config.clone();
        let mut layers = Vec::new();
        for linear in self.decoder_mut()?.linears() {
            let place = Placed::of(linear, &config)?;
            if !targets.iter().any(|t| place.is_called(t)) {
                continue;
            }
            if linear.lora.is_some() {
                return Err(Error::value("the model has an adapter of its own already"));
            }
            let (a, b) = (zeros("lora_A", width, place.columns)?, zeros("lora_B", place.rows, width)?);
            linear.lora = Some(Lora { a: a.clone(), b: b.clone(), scale: 1.0, chosen: Some(chosen.clone()) });
            layers.push(Layer { place, a, b });
        }
        if layers.is_empty() {
            return Err(Error::value(format!("no linear layer is called {}", targets.join(" or "))));
        }
        let table = zeros("lora_table", slots + 1, width)?;
        let loaded = Mutex::new((vec![None; slots], 0));
        self.adapters = Some(Arc::new(Adapters { layers, rank, table, chosen, loaded }));
        Ok(())
    }
}

impl Adapters {
    /// The names of those that are loaded, in the order of their slots.
    pub fn names(&self) -> Vec<String> {
        self.loaded.lock().0.iter().flatten().map(|l| l.name.clone()).collect()
    }
    /// The choice of a name, and what its KV is not shared without.
    pub fn choice(&self, name: &str) -> Result<(i32, Vec<u8>)> {
        let loaded = self.loaded.lock();
        let found =
            loaded.0.iter().enumerate().find_map(|(i, l)| l.as_ref().filter(|l| l.name == name).map(|l| (i, l)));
        let (i, l) = found.ok_or_else(|| Error::value(format!("there is no adapter {name:?}")))?;
        Ok((i as i32 + 1, format!("lora {} {}", l.number, l.name).into_bytes()))
    }

    /// Loads an adapter in PEFT's format into a free slot. The engine must not compute meanwhile.
    pub fn load(&self, name: &str, folder: &Path) -> Result<()> {
        let saved = Saved::read(folder)?;
        if saved.rank > self.rank {
            let e = format!("{}: rank {} is above {}", folder.display(), saved.rank, self.rank);
            return Err(Error::value(e));
        }
        let slot = {
            let loaded = self.loaded.lock();
            if loaded.0.iter().flatten().any(|l| l.name == name) {
                return Err(Error::value(format!("the adapter {name:?} is loaded already")));
            }
            let free = loaded.0.iter().position(Option::is_none);
            free.ok_or_else(|| Error::value(format!("all {} slots for adapters are taken", loaded.0.len())))?
        };
        let mut tensors = saved.tensors.clone();
        let mut parts = Vec::new();
        for layer in &self.layers {
            parts.push(layer.place.take(&mut tensors, saved.rank, &saved.file)?);
        }
        saved.check_all_used(&tensors)?;
        for (layer, part) in self.layers.iter().zip(parts) {
            self.write(layer, slot, saved.rank, part)?;
        }
        self.weigh(slot, saved.scale as f32, saved.rank)?;
        let mut loaded = self.loaded.lock();
        loaded.1 += 1;
        loaded.0[slot] = Some(Loaded { name: name.to_string(), number: loaded.1 });
        Ok(())
    }
    /// Frees the slot of an adapter.
    pub fn unload(&self, name: &str) -> Result<()> {
        let slot = self.choice(name)?.0 as usize - 1;
        self.loaded.lock().0[slot] = None;
        self.weigh(slot, 0.0, self.rank)
    }

    fn width(&self) -> usize {
        self.table.shape()[1]
    }
    /// Writes A and B of a layer, or zeros where the adapter does not change it.
    fn write(&self, layer: &Layer, slot: usize, rank: usize, part: Option<[Tensor; 2]>) -> Result<()> {
        let (columns, width) = (layer.place.columns, self.width());
        let mut a = layer.a.tensor().to_vec::<f32>()?;
        let mut b = layer.b.tensor().to_vec::<f32>()?;
        let at = slot * self.rank;
        a[at * columns..(at + self.rank) * columns].fill(0.0);
        b.chunks_exact_mut(width).for_each(|row| row[at..at + self.rank].fill(0.0));
        if let Some([new_a, new_b]) = part {
            a[at * columns..(at + rank) * columns].copy_from_slice(&new_a.to_vec::<f32>()?);
            let new_b = new_b.to_vec::<f32>()?;
            b.chunks_exact_mut(width).zip(new_b.chunks_exact(rank)).for_each(|(to, from)| {
                to[at..at + rank].copy_from_slice(from);
            });
        }
        layer.a.assign(&Tensor::from(Literal::new([width, columns], &a)?))?;
        layer.b.assign(&Tensor::from(Literal::new([layer.place.rows, width], &b)?))
    }
    /// Sets the weights of a slot's columns.
    fn weigh(&self, slot: usize, scale: f32, rank: usize) -> Result<()> {
        let width = self.width();
        let mut table = self.table.tensor().to_vec::<f32>()?;
        let row = &mut table[(slot + 1) * width..(slot + 2) * width];
        row[slot * self.rank..slot * self.rank + rank].fill(scale);
        let rows = table.len() / width;
        self.table.assign(&Tensor::from(Literal::new([rows, width], &table)?))
    }

    /// Runs a forward pass whose tokens use these choices (i32 `[tokens]`).
    pub(crate) fn with<T>(&self, choices: &Tensor, f: impl FnOnce() -> T) -> T {
        self.chosen.set(Some(self.table.tensor().embedding(choices)));
        let out = f();
        self.chosen.set(None);
        out
    }
}
