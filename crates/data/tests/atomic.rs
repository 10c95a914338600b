//! Atomic files under failure: a failing writer, a full disk, damaged content,
//! a crash between two steps.

use std::io::Write;
use std::path::Path;

use talweg_data::{Result, atomic};

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn replaces_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    atomic::write(&path, b"one").unwrap();
    atomic::write(&path, b"two").unwrap();
    assert_eq!((std::fs::read(&path).unwrap(), names(folder.path())), (b"two".to_vec(), vec!["a".to_owned()]));
}

#[test]
fn a_failing_writer_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    atomic::write(&path, b"old").unwrap();
    let failing = |writer: &mut dyn Write| {
        writer.write_all(&[1; 4 << 20])?;
        Err(std::io::Error::other("the model is gone"))
    };
    let error = message(atomic::write_with(&path, failing));
    assert_eq!(error, format!("cannot write {}: the model is gone", path.display()));
    assert_eq!((std::fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["a".to_owned()]));
}

#[test]
fn impossible_places_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("a");
    assert!(message(atomic::write(&path, b"x")).contains("missing/a: "));
    assert!(message(atomic::write("/", b"x")).contains("no name of a file"));
    // A folder stands where the file should be: the rename fails.
    let path = folder.path().join("taken");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("inside"), b"").unwrap();
    assert!(message(atomic::write(&path, b"x")).contains("taken: "));
    assert_eq!(names(folder.path()), ["taken"]);
}

/// Like `std::fs::write`, but without truncating to nothing first, which some
/// file systems answer with a slow flush.
fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

#[test]
fn any_truncation_and_any_flipped_bit_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (checked, sealed) = (folder.path().join("checked"), folder.path().join("sealed"));
    let content: Vec<u8> = (0..100).collect();
    atomic::write_checked(&checked, |writer| writer.write_all(&content)).unwrap();
    atomic::write_sealed(&sealed, &content).unwrap();
    atomic::verify(&checked).unwrap();
    assert_eq!(atomic::read_checked(&checked).unwrap(), content);
    assert_eq!(atomic::read_sealed(&sealed).unwrap(), content);

    for path in [&checked, &sealed] {
        let whole = std::fs::read(path).unwrap();
        let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            damaged.push(bytes);
        }
        for bytes in damaged {
            overwrite(path, &bytes);
            let error = message(if path == &checked { atomic::read_checked(path) } else { atomic::read_sealed(path) });
            assert!(error.starts_with(&*path.to_string_lossy()) && error.contains("damaged"), "{error}");
            if path == &checked {
                assert!(atomic::verify(path).is_err());
            }
        }
    }
}

#[test]
fn a_crash_between_sidecar_and_file_harms_neither() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let write = |text: &[u8]| atomic::write_checked(&path, |writer| writer.write_all(text)).unwrap();
    write(b"one");
    write(b"two");
    // What a crash after the sidecar's and before the file's rename leaves:
    // the new sidecar with the old file.
    std::fs::write(&path, b"one").unwrap();
    assert_eq!(atomic::read_checked(&path).unwrap(), b"one");
    write(b"three");
    std::fs::write(&path, b"two").unwrap();
    assert!(message(atomic::read_checked(&path)).contains("damaged: 3 bytes"));

    std::fs::remove_file(atomic::sidecar(&path)).unwrap();
    assert!(message(atomic::read_checked(&path)).contains("a.xxh3"));
    atomic::remove_checked(&path).unwrap();
    atomic::remove_checked(&path).unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn leftovers_of_a_killed_process_are_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".a.1-0.partial"), b"half").unwrap();
    std::fs::write(folder.path().join("b.partial"), b"the user's own").unwrap();
    assert_eq!(atomic::clean(folder.path()).unwrap(), 1);
    assert_eq!(names(folder.path()), ["b.partial"]);
    assert!(message(atomic::clean(folder.path().join("missing"))).contains("cannot list"));
}

#[test]
fn what_a_living_writer_has_begun_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    atomic::write_checked(&path, |to| {
        to.write_all(b"half")?;
        // Another process opens the folder meanwhile, as a replaced worker or an evaluation does.
        assert_eq!(atomic::clean(folder.path()).unwrap(), 0);
        to.write_all(b" and half")
    })
    .unwrap();
    assert_eq!(atomic::read_checked(&path).unwrap(), b"half and half");
    assert_eq!(names(folder.path()), ["checkpoint", "checkpoint.xxh3"]);
}

#[test]
fn the_name_of_another_processs_temporary_file_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let taken = |n: u64| folder.path().join(format!(".a.{}-{n}.partial", std::process::id()));
    // More than this process has used so far.
    (0..2000).for_each(|n| std::fs::write(taken(n), b"another's").unwrap());
    atomic::write(&path, b"own").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"own");
    assert!((0..2000).all(|n| std::fs::read(taken(n)).unwrap() == b"another's"));
}

/// The part of the next test that runs in a process whose files cannot grow
/// beyond 64 KiB: the nearest to a full disk without being root.
#[test]
#[ignore = "started by the test below"]
fn child_with_a_full_disk() {
    let folder = std::env::var_os("TALWEG_TEST_FULL_DISK").unwrap();
    let path = Path::new(&folder).join("checkpoint");
    let big = vec![7; 3 << 20];
    for result in [
        atomic::write(&path, &big),
        atomic::write_checked(&path, |writer| writer.write_all(&big)),
        atomic::write_sealed(&path, &big),
    ] {
        let error = message(result);
        assert!(error.starts_with(&format!("cannot write {}: ", path.display())), "{error}");
    }
    println!("refused");
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    atomic::write_checked(&path, |writer| writer.write_all(b"old")).unwrap();
    // The signal is ignored so that the write itself fails, as it would on a
    // full disk. Blocks are of 512 or 1024 bytes depending on the shell.
    let output = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact child_with_a_full_disk --ignored --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env("TALWEG_TEST_FULL_DISK", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("refused"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(folder.path()), ["checkpoint", "checkpoint.xxh3"]);
    assert_eq!(atomic::read_checked(&path).unwrap(), b"old");
}
