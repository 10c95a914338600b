//! Plans in which a bad index may be found: what writes over an input looks at the status word first.

use ir::Slot;
use passes::Watch;
use talweg_cuda::emit::{Arg, Kernel};
use talweg_cuda::lower::Lowered;
use talweg_cuda::target::Gpu;

fn planned(text: &str, updates: &[(u32, u32)]) -> Lowered {
    let mut graph = ir::Graph::parse(&format!("talweg graph 1\n{text}"), &ops::find).unwrap();
    graph.updates = updates.to_vec();
    Lowered::new(
        graph,
        Gpu { capability: (9, 0), supports: &|_| false, is_faster: &|_| false, has_fft: true },
        &mut Watch::none(),
    )
    .unwrap()
}
/// Kernels that write over an input.
fn writers(plan: &Lowered) -> Vec<&Kernel> {
    let buffers = plan.plan.memory.buffers.iter().filter(|b| b.donor.is_some());
    let slots: Vec<Slot> = buffers.map(|b| b.slot).collect();
    let writes = |k: &&Kernel| k.args.iter().any(|a| matches!(a, Arg::Value(s) if slots.contains(s)));
    plan.kernels().map(|(_, k)| k).filter(|k| !k.is_move).filter(writes).collect()
}
/// The input whose memory each result may take over.
fn donors(plan: &Lowered) -> Vec<Option<usize>> {
    let donor = |s: &Slot| plan.plan.memory.buffers.iter().find(|b| b.slot == *s).and_then(|b| b.donor);
    plan.plan.fused.graph.outputs.iter().map(donor).collect()
}
/// What is copied to where after a failure: the numbers of inputs and outputs.
fn restored(plan: &Lowered) -> Vec<(usize, usize)> {
    let graph = &plan.plan.fused.graph;
    let number = |pair: &[Arg]| match pair {
        [Arg::Value(from), Arg::Value(to)] => {
            let input = graph.inputs.iter().position(|&i| i == from.node)?;
            Some((input, graph.outputs.iter().position(|o| o == to)?))
        }
        _ => None,
    };
    plan.after.iter().flat_map(|k| k.args.chunks_exact(2)).map(|pair| number(pair).unwrap()).collect()
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
const STEPPED: [(u32, u32); 2] = [(2, 0), (3, 1)];

#[test]
fn what_writes_over_an_input_looks_at_the_status_first() {
    let plan = planned(STEP, &STEPPED);
    assert_eq!(donors(&plan), [Some(2), Some(3)]);
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
    let plan = planned(STEP, &STEPPED);
    assert_eq!(restored(&plan), [(2, 0), (3, 1)]);
    let [k] = &plan.after[..] else { panic!("one launch") };
    assert!(k.is_move && k.is_table && k.args.last() == Some(&Arg::Status), "{}", k.source);
    assert_eq!(plan.kernels().last().map(|(r, _)| r), Some(plan.code.len()), "after all regions");
}

#[test]
fn a_variable_takes_over_its_own_memory_only() {
    // Momentum: parameter and velocity have one type, and one loop computes both.
    let text = "%0 = input \"i\" : i64[3]
%1 = input \"p\" : f32[6, 4]
%2 = input \"v\" : f32[6, 4]
%3 = take %1, %0 {axis: 0} : f32[3, 4]
%4 = sum %3 {axes: [0, 1]} : f32[1, 1]
%5 = add %2, %4 : f32[6, 4]
%6 = sub %1, %5 : f32[6, 4]
return %6, %5
";
    let plan = planned(text, &[(1, 0), (2, 1)]);
    assert_eq!(donors(&plan), [Some(1), Some(2)]);
    // Which output a variable becomes decides, not the order of either.
    let plan = planned(text, &[(1, 1), (2, 0)]);
    assert_eq!(donors(&plan), [Some(2), Some(1)]);
    assert_eq!(restored(&plan), [(1, 1), (2, 0)]);
}

#[test]
fn a_counter_that_is_known_before_the_last_check_is_restored() {
    let plan = planned(
        "%0 = input \"t\" : f32[512]
%1 = input \"i\" : i64[3]
%2 = input \"w\" : f32[512]
%3 = exp %0 : f32[512]
%4 = cumsum %3 {axis: 0, reverse: false} : f32[512]
%5 = take %4, %1 {axis: 0} : f32[3]
%6 = sum %5 {axes: [0]} : f32[1]
%7 = mul %2, %6 : f32[512]
return %3, %7
",
        &[(0, 0), (2, 1)],
    );
    assert_eq!(donors(&plan), [None, Some(2)]);
    assert_eq!(restored(&plan), [(0, 0), (2, 1)]);
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
        &[],
    );
    assert_eq!(donors(&plan), [None, Some(2)]);
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
        &[],
    );
    assert!(donors(&plan)[0].is_some());
}

#[test]
fn plans_that_cannot_fail_are_as_they_were() {
    let plan = planned("%0 = input \"w\" : f32[3, 4]\n%1 = exp %0 : f32[3, 4]\nreturn %1\n", &[(0, 0)]);
    assert_eq!(donors(&plan), [Some(0)]);
    assert!(plan.after.is_empty());
    assert!(plan.kernels().all(|(_, k)| !k.args.contains(&Arg::Status)));
}
