//! The device as a whole: donation, threads, errors, what it says about itself.

use ir::{Attr, Attrs, Buffer, DType, Graph, Literal, Site, Slot, Type};
use runtime::{Device, Program, reference, trace};
use std::sync::Arc;
use talweg_cpu::{Cpu, pool};

const SITE: Site = Site::new("user.rs", 7, 1);

#[derive(Default)]
struct Net(Graph);
impl Net {
    fn input(&mut self, shape: &[usize]) -> Slot {
        self.0.input("", &Type::new(DType::F32, shape), SITE)
    }
    fn op(&mut self, name: &str, inputs: &[Slot], attrs: Attrs) -> Slot {
        self.0.push(ops::find(name).unwrap(), inputs, attrs, SITE).unwrap()
    }
    fn f(&mut self, name: &str, inputs: &[Slot]) -> Slot {
        self.op(name, inputs, Attrs::new())
    }
    fn number(&mut self, x: f32) -> Slot {
        let attrs = Attrs::new().with("value", Attr::Literal(Literal::scalar(x)));
        self.0.push(&ir::CONST, &[], attrs, SITE).unwrap()
    }
    fn compile(&mut self, outputs: &[Slot]) -> Arc<dyn Program> {
        self.0.outputs = outputs.to_vec();
        Cpu::new().compile(self.0.clone()).unwrap()
    }
}

fn ramp(shape: &[usize]) -> Literal {
    Literal::generate(shape, |i| (i % 97) as f32 * 0.25 - 3.0)
}

fn run(p: &dyn Program, inputs: Vec<Literal>) -> Vec<Literal> {
    let mut inputs: Vec<Buffer> = inputs.into_iter().map(Buffer::Host).collect();
    p.run(&mut inputs).unwrap().iter().map(|b| b.read().unwrap()).collect()
}

/// `p - lr * m`, with momentum `m * 0.9 + g` first: an optimizer's step.
fn update() -> (Net, Vec<Slot>) {
    let mut net = Net::default();
    let (p, m, g) = (net.input(&[300, 7]), net.input(&[300, 7]), net.input(&[300, 7]));
    let (decay, rate) = (net.number(0.9), net.number(0.1));
    let kept = net.f("mul", &[m, decay]);
    let m = net.f("add", &[kept, g]);
    let step = net.f("mul", &[m, rate]);
    let p = net.f("sub", &[p, step]);
    (net, vec![p, m])
}

#[test]
fn an_input_that_nobody_else_holds_is_overwritten() {
    let (mut net, outs) = update();
    let program = net.compile(&outs);
    let inputs = || vec![ramp(&[300, 7]), ramp(&[300, 7]), ramp(&[300, 7])];
    let want = reference::run(&net.0, &inputs()).unwrap();
    let given: Vec<Literal> =
        inputs().iter().map(|l| Literal::from_bytes(l.dtype(), l.shape(), l.bytes()).unwrap()).collect();
    let addresses: Vec<_> = given.iter().map(|l| l.bytes().as_ptr()).collect();
    let got = run(program.as_ref(), given);
    assert_eq!(got, want);
    for (k, l) in got.iter().enumerate() {
        assert!(addresses.contains(&l.bytes().as_ptr()), "result {k} has memory of its own");
    }
    assert_ne!(got[0].bytes().as_ptr(), got[1].bytes().as_ptr());
}

/// A layer of a decode step: rows are written into a KV cache, over which the token then looks.
#[test]
fn a_paged_cache_is_written_in_place() {
    let mut net = Net::default();
    let (cache, x) = (net.input(&[6, 4, 2, 8]), net.input(&[1, 2, 8]));
    let ints = |net: &mut Net, shape: &[usize]| net.0.input("", &Type::new(DType::I32, shape), SITE);
    let (at, tables) = (ints(&mut net, &[1]), ints(&mut net, &[6, 3]));
    let new = net.f("paged_write", &[cache, x, at]);
    let attrs = Attrs::new().with("scale", 0.5).with("window", 0i64).with("softcap", 0.0);
    let y = net.op("paged_attention", &[x, new, new, tables, at, at], attrs);
    let program = net.compile(&[new, y]);
    let inputs = || {
        let tables = Literal::generate([6, 3], |i| i as i32 % 6);
        vec![ramp(&[6, 4, 2, 8]), ramp(&[1, 2, 8]), Literal::generate([1], |_| 5i32), tables]
    };
    let want = reference::run(&net.0, &inputs()).unwrap();
    let given = inputs();
    let address = given[0].bytes().as_ptr();
    let got = run(program.as_ref(), given);
    assert_eq!(got[0], want[0]);
    assert_eq!(got[0].bytes().as_ptr(), address, "the cache was copied");
    for (a, b) in got[1].to_f64().iter().zip(want[1].to_f64()) {
        assert!((a - b).abs() < 1e-5, "{a} instead of {b}");
    }
}

#[test]
fn an_input_that_somebody_holds_is_left_alone() {
    let (mut net, outs) = update();
    let program = net.compile(&outs);
    let held = [ramp(&[300, 7]), ramp(&[300, 7]), ramp(&[300, 7])];
    let want = reference::run(&net.0, &held).unwrap();
    assert_eq!(run(program.as_ref(), held.to_vec()), want);
    assert_eq!(run(program.as_ref(), held.to_vec()), want, "a second run sees the same inputs");
    assert_eq!(held[0], ramp(&[300, 7]));
}

#[test]
fn values_swapped_in_place_keep_their_meaning() {
    // Each result may take the memory of an input that the other result still needs.
    let mut net = Net::default();
    let (a, b) = (net.input(&[64, 64]), net.input(&[64, 64]));
    let (x, y) = (net.f("add", &[a, b]), net.f("sub", &[a, b]));
    let z = net.f("mul", &[x, y]);
    let program = net.compile(&[y, z, x]);
    let inputs = || vec![Literal::generate([64, 64], |i| i as f32), Literal::generate([64, 64], |i| 2.0 - i as f32)];
    assert_eq!(run(program.as_ref(), inputs()), reference::run(&net.0, &inputs()).unwrap());
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let mut net = Net::default();
    let x = net.input(&[300, 257]);
    let e = net.f("exp", &[x]);
    let over = |axes: &[usize]| Attrs::new().with("axes", axes);
    let rows = net.op("sum", &[e], over(&[1]));
    let columns = net.op("sum", &[e], over(&[0]));
    let all = net.op("sum", &[e], over(&[0, 1]));
    let soft = net.f("div", &[e, rows]);
    let transposed = net.op("permute", &[soft], Attrs::new().with("axes", [1usize, 0]));
    let product = net.f("matmul", &[transposed, e]);
    let program = net.compile(&[soft, columns, all, product]);
    let mut seen: Option<Vec<Literal>> = None;
    for threads in [1, 2, 3] {
        pool::set_threads(threads);
        let got = run(program.as_ref(), vec![ramp(&[300, 257])]);
        match &seen {
            None => seen = Some(got),
            Some(want) => assert_eq!(&got, want, "{threads} threads"),
        }
    }
    pool::set_threads(0);
    // And the sums are as good as pairwise ones.
    let want = reference::run(&net.0, &[ramp(&[300, 257])]).unwrap();
    let total = |l: &[Literal]| l[2].to_f64()[0];
    let got = seen.unwrap();
    assert!((total(&got) - total(&want)).abs() <= 1e-6 * total(&want).abs());
}

#[test]
fn runs_at_the_same_time_do_not_disturb_each_other() {
    let mut net = Net::default();
    let x = net.input(&[50, 40]);
    let t = net.op("permute", &[x], Attrs::new().with("axes", [1usize, 0]));
    let y = net.f("matmul", &[x, t]);
    let z = net.f("exp", &[y]);
    let s = net.op("sum", &[z], Attrs::new().with("axes", [0usize]));
    let program = net.compile(&[s]);
    let of = |k: usize| Literal::generate([50, 40], move |i| ((i * k) % 13) as f32 * 0.01);
    let want: Vec<Vec<Literal>> = (0..4).map(|k| run(program.as_ref(), vec![of(k)])).collect();
    std::thread::scope(|scope| {
        for k in 0..4 {
            let (program, want) = (&program, &want[k]);
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(&run(program.as_ref(), vec![of(k)]), want);
                }
            });
        }
    });
}

#[test]
fn softmax_and_norm_are_one_loop() {
    let mut net = Net::default();
    let x = net.input(&[32, 100]);
    let over = || Attrs::new().with("axes", [1usize]);
    let m = net.op("max", &[x], over());
    let d = net.f("sub", &[x, m]);
    let e = net.f("exp", &[d]);
    let s = net.op("sum", &[e], over());
    let y = net.f("div", &[e, s]);
    let program = net.compile(&[y]);
    let text = program.explain();
    assert_eq!(text.lines().filter(|l| l.contains("loop")).count(), 1, "{text}");
    assert!(text.contains("max sub exp sum div"), "{text}");
    assert!(text.contains("user.rs:7"), "{text}");
    assert!(text.contains("arena 0 B"), "{text}");
}

#[test]
fn products_that_do_not_need_each_other_run_side_by_side() {
    let mut net = Net::default();
    let (x, y) = (net.input(&[96, 96]), net.input(&[96, 96]));
    let b = net.f("matmul", &[x, x]);
    let c = net.f("matmul", &[x, y]);
    let d = net.f("matmul", &[b, c]);
    let program = net.compile(&[d]);
    let text = program.explain();
    let kinds: Vec<&str> = text.lines().filter_map(|l| Some(l.trim_start().split_once(' ')?.1)).collect();
    assert!(kinds[0].starts_with("{call: matmul") && kinds[1].starts_with("|call: matmul"), "{text}");
    assert!(kinds[2].starts_with(" call: matmul"), "{text}");
    let inputs = || vec![ramp(&[96, 96]), ramp(&[96, 96])];
    pool::set_threads(1);
    let alone = run(program.as_ref(), inputs());
    pool::set_threads(2);
    for _ in 0..20 {
        assert_eq!(run(program.as_ref(), inputs()), alone);
    }
    pool::set_threads(0);
}

#[test]
fn wrong_inputs_are_refused() {
    let (mut net, outs) = update();
    let program = net.compile(&outs);
    let e = program.run(&mut []).err().unwrap();
    assert!(e.to_string().contains("takes 3 inputs, but 0 were given"), "{e}");
    let bad = vec![ramp(&[7, 300]), ramp(&[300, 7]), ramp(&[300, 7])];
    let e = program.run(&mut bad.into_iter().map(Buffer::Host).collect::<Vec<_>>()).err().unwrap();
    assert!(e.to_string().contains("input 0 of the graph is f32[300, 7], but f32[7, 300] was given"), "{e}");
}

#[test]
fn an_index_out_of_range_names_op_and_line() {
    for (name, shapes) in
        [("take", vec![vec![3]]), ("gather", vec![vec![1, 4]]), ("index_add", vec![vec![3], vec![3, 4]])]
    {
        let mut net = Net::default();
        let x = net.input(&[5, 4]);
        let index = net.0.input("", &Type::new(DType::I64, shapes[0].as_slice()), SITE);
        let mut slots = vec![x, index];
        let mut inputs = vec![ramp(&[5, 4]), Literal::generate(shapes[0].as_slice(), |i| i as i64 * 3)];
        if let Some(s) = shapes.get(1) {
            slots.push(net.input(s));
            inputs.push(ramp(s));
        }
        let y = net.op(name, &slots, Attrs::new().with("axis", 0i64));
        let program = net.compile(&[y]);
        let e = program.run(&mut inputs.into_iter().map(Buffer::Host).collect::<Vec<_>>()).err().unwrap();
        let want = format!("{name}: index 6 is out of range for axis 0 of size 5 (at user.rs:7:1)");
        assert_eq!(e.to_string(), want);
    }
}

#[test]
fn a_trace_names_ops_and_lines() {
    let mut net = Net::default();
    let x = net.input(&[8, 8]);
    let t = net.f("matmul", &[x, x]);
    let y = net.f("exp", &[t]);
    let program = net.compile(&[y]);
    let (_, trace::Recording { events, memory }) = trace::record(|| run(program.as_ref(), vec![ramp(&[8, 8])]));
    // Other tests may run meanwhile; this one takes a matrix and gives one.
    assert!(memory.given >= 256 && memory.results >= 256 && memory.peak() >= 512, "{memory:?}");
    // Other tests may run at the same time; these two are ours, in order.
    let ours: Vec<_> = events.iter().map(|e| &e.region).filter(|r| r.bytes == 2 * 256).collect();
    assert!(ours.iter().any(|r| r.name == "matmul" && r.lines == [(SITE, 1.0)] && r.flops == 1024), "{events:?}");
    assert!(ours.iter().any(|r| r.name == "exp"), "{events:?}");
    let json = trace::to_json(&events);
    assert!(json.starts_with("[\n{\"name\":") && json.ends_with("]\n"), "{json}");
}

/// Sizes that need many tiles and tasks, down and across, with every set of axes.
#[test]
fn reductions_of_every_shape() {
    for shape in [vec![3, 70_000], vec![3000, 70], vec![2, 1500, 50], vec![40, 9, 600], vec![150_000]] {
        let count: usize = shape.iter().product();
        // Small integers: sums are exact in any order.
        let x = Literal::generate(shape.as_slice(), |i| ((i * 7 + i / 13) % 5) as f32 - 1.0);
        for set in 1..1usize << shape.len() {
            let axes: Vec<usize> = (0..shape.len()).filter(|a| set >> a & 1 == 1).collect();
            let mut net = Net::default();
            let a = net.input(&shape);
            let two = net.number(2.0);
            let b = net.f("mul", &[a, two]);
            let over = || Attrs::new().with("axes", &axes);
            let sum = net.op("sum", &[b], over());
            let max = net.op("max", &[b], over());
            let centered = net.f("sub", &[b, sum]);
            let program = net.compile(&[sum, max, centered, b]);
            let got = run(program.as_ref(), vec![x.clone()]);
            let want = reference::run(&net.0, std::slice::from_ref(&x)).unwrap();
            for (k, (g, w)) in got.iter().zip(&want).enumerate() {
                assert!(g == w, "output {k} of {shape:?} ({count} elements) over {axes:?}");
            }
        }
    }
}

#[test]
fn a_result_does_not_take_an_input_that_is_read_later() {
    let mut net = Net::default();
    let x = net.input(&[40, 40]);
    let one = net.number(1.0);
    let y = net.f("add", &[x, one]);
    // A kernel between them keeps the two readers of x apart.
    let z = net.f("matmul", &[y, y]);
    let w = net.f("add", &[z, x]);
    let program = net.compile(&[y, w]);
    let own = || Literal::from_bytes(DType::F32, [40, 40], ramp(&[40, 40]).bytes()).unwrap();
    let held = own();
    let want = run(program.as_ref(), vec![held.clone()]);
    assert_eq!(run(program.as_ref(), vec![own()]), want);
    assert_eq!(held, own());
}

/// Small integers: their sums and products are exact in any order.
fn whole(shape: &[usize]) -> Literal {
    Literal::generate(shape, |i| ((i * 7 + i / 5) % 5) as f32 - 2.0)
}

#[test]
fn a_product_feeds_the_loop_behind_it() {
    // Cut by rows, not at all, and by columns, where it does not.
    for (m, k, n, transposed, is_fed) in [
        (600, 20, 90, false, true),
        (600, 64, 90, true, true),
        (40, 30, 50, false, true),
        (130, 70, 300, false, false),
        (90, 64, 600, true, false),
    ] {
        let mut net = Net::default();
        let sizes = if transposed { [n, k] } else { [k, n] };
        let (x, w) = (net.input(&[m, k]), net.input(&sizes));
        let (bias, rest) = (net.input(&[n]), net.input(&[m, n]));
        let right = if transposed { net.op("permute", &[w], Attrs::new().with("axes", [1usize, 0])) } else { w };
        let y = net.f("matmul", &[x, right]);
        let y = net.f("add", &[y, bias]);
        let zero = net.number(0.0);
        let y = net.f("maximum", &[y, zero]);
        let y = net.f("add", &[y, rest]);
        let program = net.compile(&[y]);
        assert_eq!(program.explain().contains("call into loop"), is_fed, "{}", program.explain());
        let inputs = || vec![whole(&[m, k]), whole(&sizes), whole(&[n]), whole(&[m, n])];
        let want = reference::run(&net.0, &inputs()).unwrap();
        for threads in [1, 3] {
            pool::set_threads(threads);
            assert_eq!(run(program.as_ref(), inputs()), want, "{m}x{k}x{n} {transposed}");
        }
        pool::set_threads(0);
    }
}

#[test]
fn a_loop_does_not_overwrite_what_the_product_that_feeds_it_reads() {
    let mut net = Net::default();
    let (p, x) = (net.input(&[264, 264]), net.input(&[264, 264]));
    let rate = net.number(0.5);
    // An intermediate value that dies in the loop its product feeds.
    let a = net.f("add", &[p, x]);
    let y = net.f("matmul", &[a, x]);
    let z = net.f("sub", &[y, a]);
    // An input that could be updated in place, if its product did not read it.
    let g = net.f("matmul", &[p, z]);
    let step = net.f("mul", &[g, rate]);
    let p = net.f("sub", &[p, step]);
    let program = net.compile(&[p]);
    assert_eq!(program.explain().matches("call into loop").count(), 2, "{}", program.explain());
    let inputs = || vec![whole(&[264, 264]), whole(&[264, 264])];
    assert_eq!(run(program.as_ref(), inputs()), reference::run(&net.0, &inputs()).unwrap());
}

#[test]
fn every_stage_has_a_name() {
    let mut net = Net::default();
    let x = net.input(&[96, 96]);
    let y = net.f("matmul", &[x, x]);
    net.0.outputs = vec![y];
    let mut names = Vec::new();
    let mut see = |r: &passes::Report| names.push(r.stage);
    let engine = runtime::Engine::new(Arc::new(Cpu::new()));
    let program = engine.compile_watched(&net.0, &mut passes::Watch::new(&mut see)).unwrap();
    let own = "materialize prune fuse rematerialize_narrow elide_copies fuse_epilogues schedule select plan_memory lower \
               pack_arena";
    assert!(names.join(" ").ends_with(own), "{names:?}");
    assert!(program.explain().contains("1769472 flops"), "{}", program.explain());
}
