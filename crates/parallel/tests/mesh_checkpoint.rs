//! Checkpoints by global index: saved on six meshes and alone, loaded on every other and alone, to the bit.

use cpu as _;
use nn::optim::{Adam, Optimizer};
use nn::train::{Checkpoint, Checkpoints};
use nn::{Layer, Linear, Module};
use std::path::{Path, PathBuf};
use std::thread;
use talweg_parallel::{Job, mesh_in_process};
use tensor::{Mesh, Plan, Result, Tensor, Variable, jit, manual_seed, with_mesh};

struct Mlp {
    fc1: Linear,
    fc2: Linear,
}
impl Module for Mlp {
    fn visit(&self, path: &str, visitor: &mut dyn nn::Visitor) {
        self.fc1.visit(&nn::join(path, "fc1"), visitor);
        self.fc2.visit(&nn::join(path, "fc2"), visitor);
    }
}

/// Meshes, with the stage of ZeRO that `megatron` or `data` has there; the last is a process alone.
const MESHES: [(&str, &str, u8); 8] = [
    ("data=2", "data", 0),
    ("data=3", "data", 1),
    ("data=4", "data", 3),
    ("tensor=2", "megatron", 0),
    ("data=2,tensor=2", "megatron", 0),
    ("data=2,tensor=2", "megatron", 3),
    ("pipe=2", "data", 0),
    ("data=1", "data", 0),
];

type Bits = Vec<(String, Vec<u32>)>;

struct Run {
    model: Mlp,
    optimizer: Optimizer,
}

impl Run {
    fn new(seed: u64) -> Result<Run> {
        manual_seed(seed);
        let model = Mlp { fc1: Linear::new(6, 16)?, fc2: Linear::new(16, 4)? };
        let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, &model)?;
        Ok(Run { model, optimizer })
    }
    fn train(&self, steps: usize) -> Result<Vec<f32>> {
        let step = jit(|a: &[Tensor]| {
            let loss = self.model.fc2.forward(&self.model.fc1.forward(&a[0]).relu()).cross_entropy(&a[1]);
            loss.backward()?;
            self.optimizer.step()?;
            Ok(vec![loss])
        });
        let x = Tensor::new([12, 6], &(0..72).map(|i| (i as f32 * 0.37).sin()).collect::<Vec<_>>());
        let y = Tensor::new([12], &(0..12).map(|i| i % 4).collect::<Vec<i64>>());
        (0..steps).map(|_| step.call(&[&x, &y])?[0].item::<f32>()).collect()
    }
    fn state(&self) -> Vec<(String, Variable)> {
        let model = self.model.state().into_iter().map(|(n, v)| (format!("model.{n}"), v));
        model.chain(self.optimizer.state().into_iter().map(|(n, v)| (format!("optimizer.{n}"), v))).collect()
    }
    fn bits(&self) -> Result<Bits> {
        let one =
            |(n, v): (String, Variable)| Ok((n, v.tensor().to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect()));
        self.state().into_iter().map(one).collect()
    }
}

/// What every rank of a mesh answers.
fn on_mesh<T: Send + 'static>(
    (mesh, plan, zero): (&str, &str, u8),
    f: impl Fn(usize) -> Result<T> + Clone + Send + 'static,
) -> Vec<T> {
    let plan = Plan::named(plan).unwrap().with_zero(zero);
    let scopes = mesh_in_process(&Mesh::parse(mesh).unwrap(), &plan).unwrap();
    let run = |scope: std::sync::Arc<tensor::MeshScope>| {
        let f = f.clone();
        let rank = scope.rank;
        thread::spawn(move || Job::alone().scope(|| with_mesh(scope, || f(rank).unwrap_or_else(|e| panic!("{e}")))))
    };
    let threads: Vec<_> = scopes.into_iter().map(run).collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

fn saved(on: (&str, &str, u8), file: &Path) -> Bits {
    let file = file.to_path_buf();
    let all = on_mesh(on, move |_| {
        let run = Run::new(3)?;
        run.train(3)?;
        Checkpoint::new(3).with("", &run.state())?.save(&file)?;
        run.bits()
    });
    assert!(all.iter().all(|b| *b == all[0]), "{on:?}: ranks differ");
    all.into_iter().next().unwrap()
}

#[test]
fn saved_on_any_mesh_and_loaded_on_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let alone = Run::new(3).unwrap().train(6).unwrap();
    for (i, &from) in MESHES.iter().enumerate() {
        let file: PathBuf = folder.path().join(format!("{i}.safetensors"));
        let bits = saved(from, &file);
        for to in MESHES {
            let path = file.clone();
            let ends = on_mesh(to, move |_| {
                let run = Run::new(9)?;
                Checkpoint::load(&path)?.restore("", &run.state())?;
                // Reading what lies in a file needs no other rank.
                let read = run.bits()?;
                Checkpoint::load(&path)?.restore("", &run.state())?;
                Ok((read, run.train(3)?))
            });
            for (read, losses) in ends {
                assert_eq!(read, bits, "{from:?} to {to:?}");
                for (a, b) in losses.iter().zip(&alone[3..]) {
                    assert!((a - b).abs() <= 1e-5 * b.abs(), "{from:?} to {to:?}: {losses:?} instead of {alone:?}");
                }
            }
        }
    }
}

#[test]
fn ranks_write_what_they_hold_and_keep_the_old_until_the_new_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("c.safetensors");
    let names = || {
        let all = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<String> = all.filter(|n| !n.ends_with(".xxh3")).collect();
        all.sort();
        all
    };
    let zero = ("data=2", "data", 3);
    let first = saved(zero, &file);
    assert_eq!(names(), ["c.a.part-0.safetensors", "c.a.part-1.safetensors", "c.safetensors"]);
    let sizes: Vec<u64> = (0..2)
        .map(|r| std::fs::metadata(folder.path().join(format!("c.a.part-{r}.safetensors"))).unwrap().len())
        .collect();
    assert_eq!(sizes[0], sizes[1], "both hold half");
    saved(zero, &file);
    assert_eq!(names(), ["c.b.part-0.safetensors", "c.b.part-1.safetensors", "c.safetensors"]);
    // A rank that cannot write: all fail, and the checkpoint of before is whole.
    let (path, blocked) = (file.clone(), folder.path().join("c.a.part-1.safetensors"));
    std::fs::create_dir_all(blocked.join("in the way")).unwrap();
    let errors = on_mesh(zero, move |_| {
        let run = Run::new(4)?;
        run.train(1)?;
        Ok(Checkpoint::new(1).with("", &run.state())?.save(&path).unwrap_err().to_string())
    });
    assert!(errors[0].contains("another rank could not write its blocks"), "{errors:?}");
    assert!(errors[1].contains("c.a.part-1"), "{errors:?}");
    let run = Run::new(9).unwrap();
    Checkpoint::load(&file).unwrap().restore("", &run.state()).unwrap();
    assert_eq!(run.bits().unwrap(), first);
    // A block that was changed, and one that is gone.
    let block = folder.path().join("c.b.part-0.safetensors");
    let mut bytes = std::fs::read(&block).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&block, bytes).unwrap();
    let e = Checkpoint::load(&file).unwrap_err().to_string();
    assert!(e.contains("c.b.part-0") && e.contains("damaged"), "{e}");
    std::fs::remove_file(&block).unwrap();
    assert!(Checkpoint::load(&file).unwrap_err().to_string().contains("c.b.part-0"));
}

#[test]
fn folders_of_checkpoints_keep_the_newest_on_a_mesh() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_path_buf();
    let found = on_mesh(("data=2", "data", 3), move |_| {
        let run = Run::new(3)?;
        let mut kept = Checkpoints::open(at.clone())?.keep_last(1);
        for step in 1..4 {
            run.train(1)?;
            kept.save_later(Checkpoint::new(step).with("", &run.state())?)?;
        }
        let loaded = kept.latest()?.unwrap();
        let other = Run::new(9)?;
        loaded.checkpoint.restore("", &other.state())?;
        Ok((kept.steps()?, other.bits()? == run.bits()?))
    });
    assert_eq!(found, [(vec![3], true), (vec![3], true)]);
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 6, "a file and two of blocks, with their sums");
}
