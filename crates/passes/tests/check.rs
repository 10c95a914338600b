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

fn fused() -> Fused {
    let g = Graph::parse(TEXT, &|name| ops::find(name)).unwrap();
    let target =
        Target { row_max: &|_| 4096, share_min: 4096, accepts: &|_, _, l| l.is_contiguous(), barriers: &|_| false };
    passes::fuse(&g, &target).unwrap()
}

/// Without the store of the sum, as if nobody read it.
fn unstored() -> Fused {
    let mut f = fused();
    let Region::Loop(l) = &mut f.regions[0] else { panic!("the first region is the loop") };
    let is_sum = |s: u32| matches!(l.steps[s as usize], Step::Reduce { after: true, .. });
    l.stores.retain(|s| !is_sum(s.step));
    assert_eq!(l.stores.len(), 1);
    f
}

fn check(f: &Fused, a: &passes::MemoryPlan) -> Result<(), String> {
    passes::check_memory_plan(f, a, &vec![0; f.regions.len()], &|_| None)
}

fn arranged(f: &Fused) -> passes::MemoryPlan {
    passes::plan_memory(f, &vec![0; f.regions.len()], 0, &|_| None)
}

#[test]
fn a_sound_plan_passes() {
    let f = fused();
    assert_eq!(check(&f, &arranged(&f)), Ok(()));
}

#[test]
fn a_reduction_that_is_written_but_not_stored_is_found() {
    let f = unstored();
    let e = check(&f, &arranged(&f)).unwrap_err();
    assert!(e.contains("without a store"), "{e}");
}

#[test]
fn a_value_without_memory_is_found() {
    let e = check(&fused(), &arranged(&unstored())).unwrap_err();
    assert!(e.contains("no memory"), "{e}");
}
