//! Plans in which a bad index may be found: what writes over an input looks at the status word first.

use ir::Slot;
use talweg_cuda::emit::{Arg, Kernel};
use talweg_cuda::plan::{Chip, Plan};

fn planned(text: &str) -> Plan {
    let graph = ir::Graph::parse(&format!("talweg graph 1\n{text}"), &ops::find).unwrap();
    Plan::new(&graph, Chip { major: 9, has: &|_| false, wins: &|_| false }).unwrap()
}
/// Kernels that write over an input.
fn writers(plan: &Plan) -> Vec<&Kernel> {
    let buffers = plan.arrangement.buffers.iter().filter(|b| b.donor.is_some());
    let slots: Vec<Slot> = buffers.map(|b| b.slot).collect();
    let writes = |k: &&Kernel| k.args.iter().any(|a| matches!(a, Arg::Value(s) if slots.contains(s)));
    plan.kernels().map(|(_, k)| k).filter(|k| !k.is_move).filter(writes).collect()
}
/// Whether each result may take over the memory of an input.
fn in_place(plan: &Plan) -> Vec<bool> {
    let donor = |s: &Slot| plan.arrangement.buffers.iter().find(|b| b.slot == *s).and_then(|b| b.donor);
    plan.fused.graph.outputs.iter().map(|s| donor(s).is_some()).collect()
}

const STEP: &str = "%0 = input \"table\" : f32[10, 4]
%1 = input \"i\" : i64[3]
%2 = input \"w\" : f32[3, 4]
%3 = input \"v\" : f32[7, 5]
%4 = take %0, %1 {axis: 0} : f32[3, 4]
%5 = sum %4 {axes: [0, 1]} : f32[1, 1]
%6 = mul %2, %5 : f32[3, 4]
%7 = sub %3, %5 : f32[7, 5]
return %6, %7
";

#[test]
fn what_writes_over_an_input_looks_at_the_status_first() {
    let plan = planned(STEP);
    assert_eq!(in_place(&plan), [true, true]);
    let writers = writers(&plan);
    assert!(!writers.is_empty());
    for k in writers {
        assert!(k.args.last() == Some(&Arg::Status), "{}", k.source);
        let body = &k.source[k.source.find(" run(").unwrap()..];
        let first = body.split_once(") {\n").unwrap().1.lines().next().unwrap();
        assert!(first.starts_with("if (*") && first.ends_with(") return;"), "{}", k.source);
        if k.is_table {
            assert!(k.source.contains(&format!("void* at[{}];", k.args.len())), "{}", k.source);
            assert!(first.contains(&format!("t.at[{}]", k.args.len() - 1)), "{}", k.source);
        } else {
            assert!(k.source.contains(", const volatile long long* status) {\n"), "{}", k.source);
        }
    }
}

#[test]
fn old_values_come_back_where_memory_was_not_lent() {
    let plan = planned(STEP);
    assert_eq!(plan.after.len(), 2);
    for k in &plan.after {
        assert!(k.is_move && k.args.len() == 3 && k.source.contains("if (!*status) return;"), "{}", k.source);
    }
    assert_eq!(plan.kernels().last().map(|(r, _)| r), Some(plan.work.len()), "after all regions");
}

#[test]
fn nothing_is_overwritten_before_the_last_check() {
    // A running average is known before the index that may be bad is looked at.
    let plan = planned(
        "%0 = input \"mean\" : f32[512]
%1 = input \"i\" : i64[3]
%2 = input \"w\" : f32[512]
%3 = exp %0 : f32[512]
%4 = cumsum %3 {axis: 0, reverse: false} : f32[512]
%5 = take %4, %1 {axis: 0} : f32[3]
%6 = sum %5 {axes: [0]} : f32[1]
%7 = mul %2, %6 : f32[512]
return %3, %7
",
    );
    assert_eq!(in_place(&plan), [false, true]);
}

#[test]
fn an_index_that_was_checked_is_not_bad_the_second_time() {
    // The gradient of a lookup adds at the same index, after what it adds is known.
    let plan = planned(
        "%0 = input \"table\" : f32[10, 4]
%1 = input \"i\" : i64[3]
%2 = input \"w\" : f32[3, 4]
%3 = input \"sums\" : f32[10, 4]
%4 = take %0, %1 {axis: 0} : f32[3, 4]
%5 = mul %2, %4 : f32[3, 4]
%6 = index_add %3, %1, %5 {axis: 0} : f32[10, 4]
return %5, %6
",
    );
    assert!(in_place(&plan)[0]);
}

#[test]
fn plans_that_cannot_fail_are_as_they_were() {
    let plan = planned("%0 = input \"w\" : f32[3, 4]\n%1 = exp %0 : f32[3, 4]\nreturn %1\n");
    assert_eq!(in_place(&plan), [true]);
    assert!(plan.after.is_empty());
    assert!(plan.kernels().all(|(_, k)| !k.args.contains(&Arg::Status)));
}
