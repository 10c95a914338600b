//! Training on bad input: a clear message, nothing half-written, and the checkpoint before it stays
//! and can be gone on from.

use cpu as _;
use data::{Augment, Csv, Dataset, Images, Loader, rendering};
use std::path::Path;
use talweg_nn::optim::{Optimizer, Sgd};
use talweg_nn::train::{Checkpoints, Outcome, Trainer};
use talweg_nn::{Columns, Layer, Linear};
use tensor::{DType, Error, ErrorKind, Result};

/// Two classes of eight small images.
fn images(folder: &Path) {
    for class in ["dark", "light"] {
        std::fs::create_dir_all(folder.join(class)).unwrap();
        for i in 0..8u8 {
            let gray = if class == "dark" { i } else { 200 + i };
            let bytes = rendering::png(&[gray; 16], 4, 4, 1).unwrap();
            std::fs::write(folder.join(class).join(format!("{i}.png")), bytes).unwrap();
        }
    }
}

/// Trains over the images of a folder, two a step, with a checkpoint after each step.
fn train(images: &Path, run: &Path, classes: usize, is_resumed: bool) -> Result<Outcome> {
    let model = Linear::new(16, classes)?;
    let optimizer = Optimizer::new(Sgd::default(), &model)?;
    let set = Images::open(images)?.gray();
    let mut batches = Loader::builder(set).batch(2).workers(1).build()?;
    let mut trainer = Trainer::new(&model, &optimizer, &mut batches)
        .checkpoints(Checkpoints::open(run)?, 1)
        .journal(run.join("log.jsonl"));
    if is_resumed {
        trainer.resume()?;
    }
    trainer.fit(|b| {
        let x = b.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
        Ok(model.forward(&x).cross_entropy(&b.column("label")?))
    })
}

/// What is in the folder of a run, other than whole checkpoints with their sidecars and the log.
fn leftovers(run: &Path) -> Vec<String> {
    let names = std::fs::read_dir(run).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let is_known = |n: &String| n.starts_with("step-") && (n.ends_with(".safetensors") || n.ends_with(".xxh3"));
    names.filter(|n| !is_known(n) && n != "log.jsonl").collect()
}

#[test]
fn a_broken_image_ends_the_run_by_name_and_mending_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (set, run) = (folder.path().join("set"), folder.path().join("run"));
    images(&set);
    let (whole, broken) = (std::fs::read(set.join("dark/6.png")).unwrap(), set.join("dark/6.png"));
    std::fs::write(&broken, &whole[..whole.len() - 9]).unwrap();
    let e = train(&set, &run, 2, false).unwrap_err().to_string();
    assert!(e.contains("epoch 0, batch 3, sample 6") && e.contains("dark/6.png: expected an image"), "{e}");
    let mut kept = Checkpoints::open(&run).unwrap();
    assert_eq!(kept.latest().unwrap().unwrap().checkpoint.step, 3);
    assert!(leftovers(&run).is_empty(), "{:?}", leftovers(&run));

    std::fs::write(&broken, whole).unwrap();
    assert_eq!(train(&set, &run, 2, true).unwrap().step, 8);
    let e = train(&folder.path().join("nowhere"), &run, 2, false).unwrap_err();
    assert_eq!(e.kind, ErrorKind::Io);
    assert!(e.to_string().contains("cannot list ") && e.to_string().contains("nowhere"), "{e}");
}

#[test]
fn a_label_out_of_range_ends_the_run_and_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let (set, run) = (folder.path().join("set"), folder.path().join("run"));
    images(&set);
    let e = train(&set, &run, 1, false).unwrap_err();
    assert_eq!(e.kind, ErrorKind::Index);
    let e = e.to_string();
    assert!(e.contains("step 5: class 1 is not among 0..1") && e.contains("bad_input.rs:"), "{e}");
    assert_eq!(Checkpoints::open(&run).unwrap().latest().unwrap().unwrap().checkpoint.step, 4);
    assert!(leftovers(&run).is_empty(), "{:?}", leftovers(&run));
    // Asked beforehand, the data set names the sample.
    let e = Images::open(&set).unwrap().check_labels("label", 1).unwrap_err().to_string();
    assert!(e.contains("label 1 of sample 8 is out of range"), "{e}");
}

#[test]
fn a_bad_row_is_found_before_training_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, "a,b,class\n1,2,0\n3,four,1\n").unwrap();
    let table = || Csv::new().numbers("x", DType::F32, ["a", "b"]).label("y", "class", 2);
    let e = Error::from(table().read(&path).unwrap_err()).to_string();
    assert!(e.contains("table.csv: line 3, column b: expected a number (f32), found \"four\""), "{e}");
    std::fs::write(&path, "a,b,class\n1,2,0\n3,4,2\n").unwrap();
    let e = table().read(&path).unwrap_err().to_string();
    assert!(e.contains("line 3, column class: expected a label from 0 to 1, found \"2\""), "{e}");
}

#[test]
fn images_of_unequal_size_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    images(&set);
    std::fs::write(set.join("dark/3.png"), rendering::png(&[9; 25], 5, 5, 1).unwrap()).unwrap();
    let e = train(&set, &folder.path().join("run"), 2, false).unwrap_err().to_string();
    assert!(e.contains("epoch 0, batch 1") && e.contains("[4, 4]") && e.contains("[5, 5]"), "{e}");
    // Resized, they fit.
    let even = Images::open(&set).unwrap().gray().vary(1, Augment::new().resize(4, 4).on("image"));
    assert_eq!(Loader::builder(even).batch(16).build().unwrap().count(), 1);
}
