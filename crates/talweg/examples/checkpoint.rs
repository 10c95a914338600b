//! How long a checkpoint pauses training, in one process and in the parameter store.
//!
//! A checkpoint holds the values, and a thread writes them. Values are never overwritten while they are
//! held; updates in the meantime go to new memory instead of being made in place.
//!
//! `cargo run --release -p talweg --example checkpoint` trains half a gigabyte of parameters, then
//! reads and updates rows of a gigabyte in a store of two servers. It prints the median step, the time
//! to take a checkpoint, and the extra time of the steps while it was written. The argument `alone` or
//! `store` selects one of them.

use dist::{Add, Controller, EmbeddedCoordinator, Hello, Member, Rule, Saver, ServerOptions, Snapshot, StoreServer};
use dist::{Store, Table};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use talweg::nn::train::{Checkpoint, write_part};
use talweg::prelude::*;

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// What one checkpoint has cost, in seconds.
struct Cost {
    /// A step when nothing is written.
    usual: f64,
    /// Taking the checkpoint.
    taking: f64,
    /// The first step after it, beyond the usual.
    next: f64,
    /// The longest step while it was written.
    longest: f64,
    /// Until it was written.
    writing: f64,
}

fn report(what: &str, gigabytes: f64, all: &[Cost]) {
    let of = |f: fn(&Cost) -> f64| median(all.iter().map(f).collect()) * 1e3;
    let (taking, next) = (of(|c| c.taking), of(|c| c.next));
    println!("{what}: {gigabytes:.2} GB, a step takes {:.2} ms", of(|c| c.usual));
    println!("  taking a checkpoint {taking:.2} ms, the next step longer by {next:.2} ms");
    println!(
        "  longest step while it is written {:.2} ms; written after {:.0} ms",
        of(|c| c.longest),
        of(|c| c.writing)
    );
    println!("  pause: {:.1} ms per GB", (taking + next) / gigabytes);
}

fn main() -> Result<()> {
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    // In the folder for temporary files, or where TMPDIR says.
    let folder = std::env::temp_dir().join(format!("talweg-checkpoint-{}", std::process::id()));
    let only = std::env::args().nth(1);
    if only.as_deref() != Some("store") {
        alone(&folder, is_quick)?;
    }
    if only.as_deref() != Some("alone") {
        in_store(&folder, is_quick)?;
    }
    std::fs::remove_dir_all(&folder).map_err(|e| Error::value(format!("{}: {e}", folder.display())))
}

/// A process that trains alone.
fn alone(folder: &Path, is_quick: bool) -> Result<()> {
    let (width, rounds) = if is_quick { (256, 2) } else { (8192, 6) };
    manual_seed(0);
    let model = Sequential::new().with(Linear::new(width, width)?).with(Linear::new(width, width)?);
    model.name_variables();
    let optimizer = Optimizer::new(Sgd::default(), &model)?;
    let x = Tensor::ones([1, width]);
    let train = jit(|inputs: &[Tensor]| {
        let loss = model.forward(&inputs[0]).square().mean(..);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let step = || -> Result<f64> {
        let start = Instant::now();
        train.call(&[&x])?[0].item::<f32>()?;
        Ok(start.elapsed().as_secs_f64())
    };
    let mut kept = Checkpoints::open(folder)?.keep_last(1);
    // As a `Trainer` does before its first step.
    step()?;
    kept.prepare(&Checkpoint::new(0).with("model", &model.state())?)?;
    let (mut costs, mut first) = (Vec::new(), 0.0);
    for round in 0..=rounds {
        // The first checkpoint of a run comes after some time.
        let count = if round == 0 { 40 } else { 9 };
        let usual = median((0..count).map(|_| step()).collect::<Result<_>>()?);
        let start = Instant::now();
        kept.save_later(Checkpoint::new(round).with("model", &model.state())?)?;
        let taking = start.elapsed().as_secs_f64();
        let next = step()?;
        let mut longest = next;
        while kept.is_writing() {
            longest = step()?.max(longest);
        }
        let writing = start.elapsed().as_secs_f64();
        kept.wait()?;
        if round == 0 {
            first = next - usual;
            continue;
        }
        costs.push(Cost { usual, taking, next: (next - usual).max(0.0), longest, writing });
    }
    let gigabytes = (2 * width * width * 4) as f64 / 1e9;
    report("a process alone", gigabytes, &costs);
    println!("  the first checkpoint: {:.1} ms per GB", first * 1e3 / gigabytes);
    Ok(())
}

/// Writes parts of checkpoints, as `talweg store-server` does.
struct Parts;
impl Saver for Parts {
    fn save(&self, s: Snapshot) -> std::result::Result<(), String> {
        let blocks = s.blocks.iter().map(|b| {
            let arrays = b.arrays.iter().map(|a| a.as_slice()).collect();
            (b.table, b.block, b.version, arrays)
        });
        write_part(&s.to, blocks).map_err(|e| e.message)
    }
}

fn failed(e: dist::Error) -> Error {
    Error::value(e.to_string())
}

/// A worker and two servers with two copies of everything, as threads.
fn store() -> Result<(EmbeddedCoordinator, Store)> {
    let at: dist::Address = "127.0.0.1:0".parse().map_err(|e| failed(dist::Error::Net(e)))?;
    let coordinator = EmbeddedCoordinator::start(&at, None, Controller::new(1, 2, 2), |_| {}).map_err(failed)?;
    let member = |role: &str, id| {
        let soon = Instant::now() + Duration::from_secs(30);
        Member::connect(coordinator.address(), &Hello::new(role, id), None, soon).map_err(failed)
    };
    for server in 0..2 {
        let (listen, rule, saver) = (at.clone(), Arc::new(Rule::BSP), Some(Arc::new(Parts) as Arc<dyn Saver>));
        let options = ServerOptions { saver, ..ServerOptions::new(server, 1, listen, rule) };
        let member = member("server", server)?;
        std::thread::spawn(move || StoreServer::run(options, member, || Ok(Box::new(Add)), |text| eprintln!("{text}")));
    }
    let store = Store::join(0, false, member("worker", 0)?, None, Duration::from_secs(300)).map_err(failed)?;
    Ok((coordinator, store))
}

/// A table in the parameter store of which each step reads and updates some rows.
fn in_store(folder: &Path, is_quick: bool) -> Result<()> {
    let (rows, rounds) = if is_quick { (10_000, 2) } else { (1_000_000, 4) };
    let (width, touched) = (256, 32);
    std::fs::create_dir_all(folder).map_err(|e| Error::value(format!("{}: {e}", folder.display())))?;
    let (_center, mut store) = store()?;
    let table = Table::new(0, rows, width, 1 << 20).map_err(failed)?;
    store.create(&table, &vec![0.5; rows * width]).map_err(failed)?;
    let updates = vec![1.0; touched * width];
    let mut number = 0usize;
    let mut step = |store: &mut Store| -> Result<f64> {
        let start = Instant::now();
        // Other rows each time, spread over the table.
        let list: Vec<usize> = (0..touched).map(|i| (number * touched + i).wrapping_mul(7_919) % rows).collect();
        number += 1;
        store.pull_rows(&table, &list).map_err(failed)?;
        store.push_rows(&table, &list, &updates, 0.0).map_err(failed)?;
        store.clock().map_err(failed)?;
        Ok(start.elapsed().as_secs_f64())
    };
    let mut costs = Vec::new();
    for round in 0..=rounds {
        let usual = median((0..400).map(|_| step(&mut store)).collect::<Result<_>>()?);
        let start = Instant::now();
        let to =
            |partition: u32| folder.join(format!("round-{round}.part-{partition}.safetensors")).display().to_string();
        let saving = store.save(to).map_err(failed)?;
        let taking = start.elapsed().as_secs_f64();
        let writer = std::thread::spawn(move || saving.wait(Instant::now() + Duration::from_secs(300)));
        let next = step(&mut store)?;
        let mut longest = next;
        while !writer.is_finished() {
            longest = step(&mut store)?.max(longest);
        }
        let writing = start.elapsed().as_secs_f64();
        let written = writer.join().map_err(|_| Error::bug("a thread panicked"))?.map_err(failed)?;
        for file in written {
            std::fs::remove_file(&file).map_err(|e| Error::value(format!("{file}: {e}")))?;
        }
        if round > 0 {
            costs.push(Cost { usual, taking, next: (next - usual).max(0.0), longest, writing });
        }
    }
    report("a store of two servers, 32 rows of 1 KiB a step", (rows * width * 4) as f64 / 1e9, &costs);
    Ok(())
}
