//! `talweg quickstart` as a user meets it: what it says, Ctrl-C, `kill -9`, and going on.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use talweg::INTERRUPTED;
use talweg::nn::train::{Checkpoint, Checkpoints};

fn quickstart(dir: &Path, more: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
    c.args(["quickstart", "--epochs", "24", "--images", "1000", "--batch", "20", "--dir"]).arg(dir).args(more);
    c.stdout(Stdio::piped()).stderr(Stdio::piped());
    c
}

fn text(o: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr))
}

fn last(dir: &Path) -> Checkpoint {
    let found = Checkpoints::open(dir).unwrap().latest().unwrap().unwrap();
    assert!(found.refused.is_empty(), "{:?}", found.refused);
    found.checkpoint
}

/// Starts a run and sends it a signal as soon as it has saved a checkpoint.
#[cfg(unix)]
fn disturbed(dir: &Path, signal: &str) -> Output {
    let mut child = quickstart(dir, &[]).spawn().unwrap();
    // Whichever is seen: the first does not stay long. The file comes after its checksum.
    let has_saved = || {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        files.into_iter().any(|f| f.path().extension().is_some_and(|e| e == "safetensors"))
    };
    while !has_saved() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
    assert!(sent.success(), "the run was over before a checkpoint was seen");
    child.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_run_that_was_interrupted_or_killed_ends_as_one_that_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = quickstart(&at("whole"), &[]).output().unwrap();
    let said = text(&whole);
    assert!(whole.status.success(), "{said}");
    assert!(said.contains("Accuracy on 2000 digits it has never seen: ") && said.contains("read as "), "{said}");
    assert!(said.contains("talweg inspect") && said.contains("--epochs 36 --resume"), "{said}");
    let expected = last(&at("whole"));
    assert_eq!(expected.step, 1200);

    let stopped = disturbed(&at("stopped"), "INT");
    let said = text(&stopped);
    assert_eq!(stopped.status.code(), Some(INTERRUPTED), "{said}");
    assert!(said.contains("interrupted after step ") && said.contains("saved as "), "{said}");
    assert!(said.contains("Continue with: talweg quickstart --epochs 24") && said.contains(" --resume"), "{said}");
    assert!((50..1200).contains(&last(&at("stopped")).step));

    let killed = disturbed(&at("killed"), "KILL");
    assert_eq!(killed.status.code(), None, "{}", text(&killed));

    for name in ["stopped", "killed"] {
        let again = quickstart(&at(name), &[]).output().unwrap();
        assert!(!again.status.success() && text(&again).contains("continue it with --resume"), "{}", text(&again));
        let resumed = quickstart(&at(name), &["--resume"]).output().unwrap();
        assert!(resumed.status.success() && text(&resumed).contains("going on after step "), "{}", text(&resumed));
        let found = last(&at(name));
        assert_eq!((found.step, found.generator, found.position), (1200, expected.generator, expected.position));
        assert!(found.tensors == expected.tensors, "{name}: other weights");
    }
}

#[test]
fn bad_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let said = |o: &Output| {
        assert!(!o.status.success());
        text(o)
    };
    let e = said(&quickstart(&file, &[]).output().unwrap());
    assert!(e.contains("file") && e.contains("cannot create"), "{e}");
    let e = said(&quickstart(folder.path(), &["--batch", "2000"]).output().unwrap());
    assert!(e.contains("--batch must be between 1 and 1000, not 2000"), "{e}");
}
