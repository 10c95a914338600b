//! Schedules: times and peaks as the papers state them, and lists that cannot run.

use talweg_sim::{Action, Kind, Part, Timeline, generate, run, verify};

const F: f64 = 1.0;

/// With a forward pass of 1, and a backward pass of 1 for inputs and 1 for weights.
fn timed(kind: Kind, ranks: usize, micros: usize) -> Timeline {
    let s = generate(kind, ranks, micros).unwrap();
    let v = kind.chunks() as f64;
    let cost = |_, a: Action| match a.part {
        Part::Backward if !s.is_split() => 2.0 * F / v,
        _ => F / v,
    };
    run(&s, cost, |_, _| 0.0).unwrap()
}

#[test]
fn bubbles_are_those_of_the_papers() {
    for (p, m) in [(1, 3), (2, 4), (4, 8), (8, 64)] {
        let busy = 3.0 * m as f64;
        let waits = |kind| timed(kind, p, m).end() - busy;
        let bubble = 3.0 * (p - 1) as f64;
        assert_eq!(waits(Kind::GPipe), bubble);
        assert_eq!(waits(Kind::OneForwardOneBackward), bubble);
        assert!((waits(Kind::Interleaved(2)) - bubble / 2.0).abs() < 1e-9, "{p} {m}");
        // F + B − W.
        assert_eq!(waits(Kind::ZeroBubble), (p - 1) as f64);
    }
}

#[test]
fn ranks_hold_what_the_papers_say() {
    let most = |kind| verify(&generate(kind, 4, 16).unwrap(), None).unwrap();
    assert_eq!(most(Kind::GPipe), [16; 4]);
    assert_eq!(most(Kind::OneForwardOneBackward), [4, 3, 2, 1]);
    assert!(most(Kind::ZeroBubble).iter().all(|n| *n <= 4));
    // p (1 + (p − 1) / (p v)) microbatches in chunks of 1 / v.
    assert_eq!(most(Kind::Interleaved(2))[0], 2 * 4 + 3);
}

#[test]
fn lists_that_cannot_run_are_refused() {
    let mut s = generate(Kind::OneForwardOneBackward, 2, 2).unwrap();
    s.ranks[1].swap(0, 1);
    assert!(verify(&s, None).unwrap_err().to_string().contains("before its forward"));
    let e = verify(&generate(Kind::GPipe, 2, 8).unwrap(), Some(4)).unwrap_err();
    assert!(e.to_string().contains("holds 8"));
    assert!(generate(Kind::Interleaved(2), 4, 6).is_err());
}

#[test]
fn a_wait_in_a_circle_is_a_deadlock() {
    // The first stage waits for a backward pass that the second begins after the forward pass of the first's next.
    let mut s = generate(Kind::GPipe, 2, 2).unwrap();
    s.ranks[0].swap(1, 2);
    let e = verify(&s, None).unwrap_err().to_string();
    assert!(e.contains("deadlock: rank 0"), "{e}");
}

#[test]
fn timelines_are_traces() {
    let trace = timed(Kind::OneForwardOneBackward, 4, 8).trace();
    assert!(trace.starts_with("{\"traceEvents\":[{") && trace.ends_with("]}"));
}
