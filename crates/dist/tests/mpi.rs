//! Collectives by a real MPI: the test starts itself under `mpirun`, with two and three processes.
//! Where there is none, it says so and passes.
#![cfg(feature = "mpi")]

use std::process::Command;
use std::time::{Duration, Instant};
use talweg_dist::collective::{Combine, Communicator, Element, Group, Kind, Mpi, Operation, Signature};

/// Tells a process that it is one of those which mpirun started.
const INSIDE: &str = "TALWEG_TEST_INSIDE";

#[test]
fn collectives_by_mpi() {
    if std::env::var(INSIDE).is_ok() {
        return inside();
    }
    for n in ["2", "3"] {
        let out = Command::new("mpirun")
            .args(["--oversubscribe", "-n", n])
            .arg(std::env::current_exe().unwrap())
            .args(["collectives_by_mpi", "--exact", "--nocapture"])
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"), (INSIDE, "1")])
            .output();
        let Ok(out) = out else { return eprintln!("skipped: mpirun is not installed (Debian: openmpi-bin)") };
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(out.status.success(), "{said}");
        assert_eq!(said.matches("all of it").count().to_string(), n, "{said}");
    }
}

fn number(name: &str) -> usize {
    std::env::var(name).unwrap().parse().unwrap()
}
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// One of the processes.
fn inside() {
    let (rank, world) = (number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"));
    assert!(Mpi::join(rank, world + 1).is_err_and(|e| e.to_string().contains("mpirun")));
    let mut mpi = Mpi::join(rank, world).unwrap();
    let all = Group::new(&(0..world).collect::<Vec<_>>(), rank, world).unwrap();
    let signed = |kind, element, len: usize| Signature::new(kind, element, &[len]);

    for (element, size) in [(Element::F32, 4), (Element::I64, 8), (Element::Bf16, 2), (Element::U8, 1)] {
        let one: Vec<u8> = match element {
            Element::F32 => (rank as f32 + 1.0).to_le_bytes().to_vec(),
            Element::I64 => (rank as i64 + 1).to_le_bytes().to_vec(),
            Element::Bf16 => half::bf16::from_f32(rank as f32 + 1.0).to_le_bytes().to_vec(),
            _ => vec![rank as u8 + 1],
        };
        let mut data = one.repeat(1000);
        let signature = signed(Kind::AllReduce, element, 1000).by(Combine::Sum);
        mpi.all_reduce(&Operation { group: &all, signature, element, deadline: soon() }, &mut data, Combine::Sum)
            .unwrap();
        let total = world * (world + 1) / 2;
        let first = match element {
            Element::F32 => f32::from_le_bytes(data[..4].try_into().unwrap()) as usize,
            Element::I64 => i64::from_le_bytes(data[..8].try_into().unwrap()) as usize,
            Element::Bf16 => half::bf16::from_le_bytes(data[..2].try_into().unwrap()).to_f32() as usize,
            _ => data[0] as usize,
        };
        assert_eq!(first, total, "{element:?}");
        assert!(data.chunks(size).all(|x| x == &data[..size]), "{element:?}");
    }

    let operation = |kind| Operation {
        group: &all,
        signature: signed(kind, Element::U8, 6),
        element: Element::U8,
        deadline: soon(),
    };
    let mut data = vec![rank as u8; 6];
    let mine = mpi.reduce_scatter(&operation(Kind::ReduceScatter), &mut data, Combine::Max).unwrap();
    assert_eq!(data[mine], vec![world as u8 - 1; 6 / world]);
    let mut data = vec![0; 2 * world];
    data[2 * rank..][..2].fill(rank as u8 + 5);
    mpi.all_gather(&operation(Kind::AllGather), &mut data).unwrap();
    assert_eq!(data, (0..world).flat_map(|r| [r as u8 + 5; 2]).collect::<Vec<_>>());
    let mut data = [rank as u8; 3];
    mpi.broadcast(&operation(Kind::Broadcast), &mut data, 1).unwrap();
    assert_eq!(data, [1; 3]);
    let (send, mut receive) = ((0..world).map(|to| (10 * rank + to) as u8).collect::<Vec<_>>(), vec![0; world]);
    mpi.all_to_all(&operation(Kind::AllToAll), &send, &mut receive).unwrap();
    assert_eq!(receive, (0..world).map(|from| (10 * from + rank) as u8).collect::<Vec<_>>());

    // A group of two, in another order, that sends to each other.
    if rank < 2 {
        let group = Group::new(&[1, 0], rank, world).unwrap();
        let operation = Operation {
            group: &group,
            signature: signed(Kind::Send, Element::U8, 4),
            element: Element::U8,
            deadline: soon(),
        };
        if rank == 0 {
            mpi.send(&operation, &[1, 2, 3, 4], 0).unwrap();
        } else {
            let mut data = [0; 4];
            mpi.receive(&operation, &mut data, 1).unwrap();
            assert_eq!(data, [1, 2, 3, 4]);
        }
    }

    // Ranks that do not do the same all know.
    let signature = signed(Kind::AllReduce, Element::F32, 3 + rank.min(1)).by(Combine::Sum);
    let operation = Operation { group: &all, signature, element: Element::F32, deadline: soon() };
    let e = mpi.all_reduce(&operation, &mut vec![0; 4 * (3 + rank.min(1))], Combine::Sum).unwrap_err().to_string();
    assert!(e.contains("of 3 elements") && e.contains("of 4 elements"), "{e}");
    assert!(mpi.broadcast(&operation, &mut [0], 0).is_err(), "after an error there is nothing more");
    println!("all of it");
}
