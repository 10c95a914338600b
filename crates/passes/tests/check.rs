//! The checker of memory plans finds what a plan must not do.

use ir::Graph;
use passes::{Fused, Region, Step, Target};
use talweg_passes as passes;

/// A loop that stores what it computes, and a sum over all of it.
const TEXT: &str = "talweg graph 1
%0 = input \"x\" : f32[3, 4]
%1 = tanh %0 : f32[3, 4]
%2 = sum %1 {axes: [0]} : f32[1, 4]
%3 = cumsum %2 {axis: 1, reverse: false} : f32[1, 4]
return %1, %3
";

/// The defaults.
struct Plain;
impl Target for Plain {}

fn fused() -> Fused {
    let g = Graph::parse(TEXT, &|name| ops::find(name)).unwrap();
    passes::fuse(g, &Plain).unwrap()
}

/// Without the store of the sum, as if it were unread.
fn unstored() -> Fused {
    let mut f = fused();
    let Region::Loop(l) = &mut f.regions[0] else { panic!("the first region is the loop") };
    let is_sum = |s: u32| matches!(l.steps[s as usize], Step::Reduce { after: true, .. });
    l.stores.retain(|s| !is_sum(s.step));
    assert_eq!(l.stores.len(), 1);
    f
}

fn check(f: &Fused, a: &passes::MemoryPlan) -> Result<(), String> {
    passes::check_memory_plan(f, a, &vec![0; f.regions.len()], &Plain)
}

fn planned(f: &Fused) -> passes::MemoryPlan {
    let mut memory = passes::plan_memory(f, 0, &Plain);
    memory.pack(&vec![0; f.regions.len()]);
    memory
}

#[test]
fn a_sound_plan_passes() {
    let f = fused();
    assert_eq!(check(&f, &planned(&f)), Ok(()));
}

#[test]
fn a_reduction_that_is_written_but_not_stored_is_found() {
    let f = unstored();
    let e = check(&f, &planned(&f)).unwrap_err();
    assert!(e.contains("without a store"), "{e}");
}

#[test]
fn a_value_without_memory_is_found() {
    let e = check(&fused(), &planned(&unstored())).unwrap_err();
    assert!(e.contains("no memory"), "{e}");
}
