//! Programs cut over a mesh of threads: the numbers of one device, and the exchanges that each plan needs.

mod models;

use cpu as _;
use ir::{AttrKind, Attrs, DType, Grad, Literal, Meaning, Op, Type};
use models::{End, HEADS, LENGTH, Mlp, WIDTH, gpt, on_mesh, train, weights};
use nn::optim::{Adam, Optimizer, Sgd};
use nn::{Layer, Linear, Module};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use talweg_parallel::{Job, mesh_in_process, read_plan};
use tensor::nn::AttentionOptions;
use tensor::{Inserted, Mesh, Plan, Result, Step, Tensor, Variable, jit, manual_seed, with_mesh};

/// Trains a perceptron; the batch has 7 rows, which no mesh divides.
fn mlp() -> Result<(End, Vec<Inserted>)> {
    manual_seed(3);
    let model = Mlp::new()?;
    let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, &model)?;
    let step = jit(|a: &[Tensor]| {
        let loss = model.forward(&a[0]).cross_entropy(&a[1]);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let x = Tensor::randn([7, 6]);
    let y = Tensor::from([0i64, 1, 2, 0, 1, 2, 1]);
    let losses = (0..20).map(|_| step.call(&[&x, &y])?[0].item::<f32>()).collect::<Result<_>>()?;
    Ok((End { losses, weights: weights(&model)? }, step.exchanges(&[&x, &y])?))
}

/// A rank of a job of processes: this test is its program, and does nothing without a rank.
#[test]
fn child() {
    if std::env::var_os(talweg_parallel::MESH).is_none() {
        return;
    }
    let job = Job::from_env().unwrap();
    let (end, file) = job.scope(|| {
        let scope = talweg_parallel::mesh_from_env().unwrap().unwrap();
        with_mesh(scope, || {
            if let Ok(victim) = std::env::var("VICTIM") {
                gpt(1, 1, 0.0, None).unwrap();
                if std::env::var("RANK").unwrap() == victim {
                    Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
                }
            }
            let layers = std::env::var("LAYERS").map_or(1, |l| l.parse().unwrap());
            let (end, _) = gpt(layers, 5, 0.1, Some(1.0)).unwrap();
            (end, std::env::var("SAVED").unwrap())
        })
    });
    let bits: Vec<String> = end.losses.iter().chain(&end.weights).map(|x| format!("{:08x}", x.to_bits())).collect();
    let rank = std::env::var("RANK").unwrap();
    std::fs::write(format!("{file}.{rank}"), bits.join(" ")).unwrap();
}

/// Starts the test `child` as so many processes; answers what each wrote and said. A victim is killed after a step.
fn processes(mesh: &str, plan: &str, victim: Option<usize>) -> (Vec<Option<String>>, Vec<String>) {
    let ranks = Mesh::parse(mesh).unwrap().ranks();
    let port = testkit::free_ports(2);
    let folder = std::env::temp_dir().join(format!("talweg-mesh-{}-{port}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("end");
    let start = |rank: usize| {
        let mut c = Command::new(std::env::current_exe().unwrap());
        c.args(["--exact", "child", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::piped());
        c.envs([("MASTER_ADDR", "127.0.0.1"), ("TALWEG_PARALLEL", "1"), ("TALWEG_THREADS", "1")]);
        c.envs([("RANK", rank), ("WORLD_SIZE", ranks), ("MASTER_PORT", port.into())].map(|(k, v)| (k, v.to_string())));
        c.env(talweg_parallel::MESH, mesh).env(talweg_parallel::PLAN, plan).env("SAVED", &file);
        c.env("TALWEG_TIMEOUT", "60").envs(victim.map(|v| ("VICTIM", v.to_string())));
        c.spawn().unwrap()
    };
    let all: Vec<_> = (0..ranks).map(start).collect();
    let said = all.into_iter().map(|c| String::from_utf8_lossy(&c.wait_with_output().unwrap().stderr).into_owned());
    let said = said.collect();
    let ends = (0..ranks).map(|r| std::fs::read_to_string(format!("{}.{r}", file.display())).ok()).collect();
    std::fs::remove_dir_all(folder).unwrap();
    (ends, said)
}

#[test]
fn processes_end_with_the_bits_of_threads() {
    for (mesh, name) in [
        ("data=2", "data"),
        ("data=2,tensor=2", "megatron"),
        ("data=2", "fsdp"),
        ("pipe=2", "data,microbatches=4,schedule=zb-h1"),
        ("data=2,pipe=2", "data,microbatches=4"),
    ] {
        let end = on_mesh(mesh, &read_plan(name).unwrap(), || gpt(1, 5, 0.1, Some(1.0))).0;
        let bits: Vec<String> = end.losses.iter().chain(&end.weights).map(|x| format!("{:08x}", x.to_bits())).collect();
        let (ends, said) = processes(mesh, name, None);
        assert!(ends.iter().all(|e| e.as_ref() == Some(&bits.join(" "))), "{name} on {mesh}: {said:?}");
    }
}

#[test]
fn a_killed_rank_ends_the_others_with_the_reason() {
    for (mesh, plan) in [("data=2,tensor=2", "megatron"), ("data=2,pipe=2", "data,microbatches=2")] {
        let start = std::time::Instant::now();
        let (ends, said) = processes(mesh, plan, Some(2));
        assert!(ends.iter().all(Option::is_none), "a rank went on alone");
        let is_told = |s: &str| ["is gone", "lost"].iter().any(|why| s.contains(why));
        let told = said.iter().enumerate().filter(|(r, s)| *r != 2 && is_told(s)).count();
        // Far below the 60 s after which a rank gives up waiting.
        assert!(told == 3 && start.elapsed().as_secs() < 40, "{mesh}: {:?}: {said:?}", start.elapsed());
    }
}

#[test]
fn files_hold_whole_variables() {
    let folder = std::env::temp_dir().join(format!("talweg-mesh-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("w.safetensors");
    let path = file.clone();
    let run = move || {
        manual_seed(3);
        let model = Mlp::new()?;
        let optimizer = Optimizer::new(Adam::default(), &model)?;
        let step = jit(|a: &[Tensor]| {
            let loss = model.forward(&a[0]).square().mean(..);
            loss.backward()?;
            optimizer.step()?;
            Ok(vec![loss])
        });
        step.call(&[&Tensor::ones([8, 6])])?;
        let all = model.named_parameters();
        let values: Vec<Tensor> = all.iter().map(|(_, v)| v.tensor()).collect();
        let named: Vec<(&str, &Tensor)> = all.iter().map(|(n, _)| n.as_str()).zip(&values).collect();
        tensor::save(&path, &named)?;
        Ok((End { losses: Vec::new(), weights: weights(&model)? }, Vec::new()))
    };
    let (end, _) = on_mesh("data=2", &plan("fsdp"), run);
    let saved = tensor::load(&file).unwrap();
    let names = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"];
    let values: Vec<f32> = names.iter().flat_map(|n| saved[*n].to_vec::<f32>().unwrap()).collect();
    assert_eq!(values, end.weights);
    std::fs::remove_dir_all(folder).unwrap();
}

fn near(got: &End, want: &End, what: &str) {
    for (i, (a, b)) in got.losses.iter().zip(&want.losses).enumerate() {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{what}: loss {a} instead of {b} at step {i}");
    }
    for (a, b) in got.weights.iter().zip(&want.weights) {
        assert!((a - b).abs() <= 2e-3, "{what}: weight {a} instead of {b}");
    }
}

fn plan(name: &str) -> Plan {
    Plan::named(name).unwrap()
}

#[test]
fn a_perceptron_learns_what_it_learns_on_one_device() {
    let (alone, exchanges) = mlp().unwrap();
    assert!(exchanges.is_empty() && alone.losses[19] < 0.9 * alone.losses[0], "{:?}", alone.losses);
    for (mesh, name) in [
        ("data=2", "data"),
        ("data=3", "data"),
        ("tensor=2", "megatron"),
        ("data=2,tensor=2", "megatron"),
        ("data=2", "fsdp"),
        ("data=4", "fsdp"),
    ] {
        near(&on_mesh(mesh, &plan(name), mlp).0, &alone, &format!("{name} on {mesh}"));
    }
}

#[test]
fn a_language_model_learns_what_it_learns_on_one_device() {
    let run = || gpt(2, 20, 0.1, Some(1.0));
    let (alone, _) = run().unwrap();
    for (mesh, name) in [("data=2", "data"), ("tensor=2", "megatron"), ("data=2,tensor=2", "megatron")] {
        // Biases of keys have no gradient but rounding, which Adam makes steps of.
        let got = End { weights: Vec::new(), ..on_mesh(mesh, &plan(name), run).0 };
        near(&got, &alone, &format!("{name} on {mesh}"));
    }
}

#[test]
fn zero_changes_no_bit() {
    let run = || gpt(1, 5, 0.1, None);
    let data = on_mesh("data=2", &plan("data"), run).0;
    for stage in [1, 2, 3] {
        assert_eq!(on_mesh("data=2", &plan("data").with_zero(stage), run).0, data, "stage {stage}");
    }
}

/// What is gathered for the forward pass is not kept: a matrix is gathered once each way, its gradient scattered once.
#[test]
fn zero_3_gathers_once_each_way_and_scatters_once() {
    for layers in [1, 2] {
        let (_, list) = on_mesh("data=2", &plan("fsdp"), move || gpt(layers, 1, 0.0, None));
        let text = tensor::report(&list, &Mesh::parse("data=2").unwrap());
        let count = |shape: &[usize], what: fn(&Step) -> bool| {
            list.iter().filter(|i| i.ty.shape[..] == *shape && what(&i.step)).count()
        };
        for shape in [[4 * WIDTH, WIDTH], [WIDTH, 4 * WIDTH]] {
            assert_eq!(count(&shape, |s| matches!(s, Step::Gather { .. })), 2 * layers, "{text}");
            assert_eq!(count(&shape, |s| matches!(s, Step::Scatter { .. })), layers, "{text}");
        }
        // A bias has no part in the backward pass.
        assert_eq!(count(&[4 * WIDTH], |s| matches!(s, Step::Gather { .. })), layers, "{text}");
        assert!(list.iter().all(|i| i.ty.shape.count() <= 1 || !matches!(i.step, Step::Reduce { .. })), "{text}");
    }
}

/// A cut that moves to another dimension is an all-to-all; where parts have different sizes, the value is gathered.
#[test]
fn a_cut_moves_to_another_dimension() {
    let run = |size: [usize; 2]| {
        move || {
            manual_seed(3);
            let both = ["a", "b"].map(|name| Variable::new(name, Tensor::randn(size)).unwrap());
            let optimizer = Optimizer::new(Sgd { lr: 0.01, ..Sgd::default() }, &both[..])?;
            let step = jit(|x: &[Tensor]| {
                let loss = (both[0].tensor() * both[1].tensor() * &x[0]).square().sum(..);
                loss.backward()?;
                optimizer.step()?;
                Ok(vec![loss])
            });
            let x = Tensor::randn(size);
            let losses = (0..4).map(|_| step.call(&[&x])?[0].item::<f32>()).collect::<Result<_>>()?;
            Ok((End { losses, weights: Vec::new() }, step.exchanges(&[&x])?))
        }
    };
    let cut = Plan::parse("a: [tensor, -]\nb: [-, tensor]").unwrap();
    for (size, step) in [([4, 6], "all_to_all"), ([5, 6], "all_gather")] {
        let (alone, _) = run(size)().unwrap();
        let (got, list) = on_mesh("tensor=2", &cut, run(size));
        near(&got, &alone, step);
        let text = tensor::report(&list, &Mesh::parse("tensor=2").unwrap());
        assert!(text.contains(step) && text.contains("all_to_all") == (step == "all_to_all"), "{text}");
    }
}

/// Counts exchanges of activations: those of values with a batch.
fn counted(list: &[Inserted], what: fn(&Step) -> bool) -> usize {
    list.iter().filter(|i| what(&i.step) && i.ty.shape.rank() == 3).count()
}

#[test]
fn a_megatron_block_reduces_twice_each_way() {
    for layers in [1, 2] {
        let (_, list) = on_mesh("tensor=2", &plan("megatron"), move || gpt(layers, 1, 0.0, None));
        let text = tensor::report(&list, &Mesh::parse("tensor=2").unwrap());
        // And once for the embedding, once for the gradient of what the last layer takes.
        assert_eq!(counted(&list, |s| matches!(s, Step::Reduce { .. })), 4 * layers + 2, "{text}");
        assert!(list.iter().all(|i| matches!(i.step, Step::Reduce { .. })), "{text}");
        assert!(text.contains("models/mod.rs:"), "{text}");
    }
}

#[test]
fn sequences_are_gathered_and_scattered_twice_each_way() {
    let sequence = Plan::parse("like: megatron\nsequence: true").unwrap();
    for layers in [1, 2] {
        let (_, list) = on_mesh("tensor=2", &sequence, move || gpt(layers, 1, 0.0, None));
        let text = tensor::report(&list, &Mesh::parse("tensor=2").unwrap());
        // Once more at the embedding and at the last layer, each way.
        assert_eq!(counted(&list, |s| matches!(s, Step::Gather { .. })), 4 * layers + 2, "{text}");
        assert_eq!(counted(&list, |s| matches!(s, Step::Scatter { .. })), 4 * layers + 2, "{text}");
        assert_eq!(counted(&list, |s| matches!(s, Step::Reduce { .. })), 0, "{text}");
    }
    let run = || gpt(2, 20, 0.1, Some(1.0));
    let (alone, _) = run().unwrap();
    for mesh in ["tensor=2", "data=2,tensor=2", "tensor=4"] {
        let got = End { weights: Vec::new(), ..on_mesh(mesh, &sequence, run).0 };
        near(&got, &alone, &format!("sequence on {mesh}"));
    }
}

/// The table of tokens is not gathered: neither for the lookup nor for the loss.
#[test]
fn a_vocabulary_stays_cut() {
    let run = || gpt(1, 20, 0.0, None);
    let (alone, _) = run().unwrap();
    // 11 tokens are 6 and 5, or 4, 4 and 3.
    for mesh in ["tensor=2", "tensor=3"] {
        let cut = Plan::parse("tokens.weight: [tensor, -]\nstrict: true").unwrap();
        let (got, list) = on_mesh(mesh, &cut, run);
        near(&End { weights: Vec::new(), ..got }, &alone, mesh);
        let text = tensor::report(&list, &Mesh::parse(mesh).unwrap());
        assert!(list.iter().all(|i| matches!(i.step, Step::Reduce { .. })), "{text}");
        assert!(list.iter().filter(|i| i.ty.shape.rank() == 3).count() == 2, "{text}");
    }
}

#[test]
fn a_mesh_of_one_changes_nothing() {
    let (alone, _) = mlp().unwrap();
    let (one, exchanges) = on_mesh("data=1,tensor=1", &plan("megatron"), mlp);
    assert!(one == alone && exchanges.is_empty());
}

#[test]
fn a_strict_plan_refuses_what_it_does_not_ask_for() {
    let strict = Plan::parse("fc1.weight: [tensor, -]\nfc1.bias: [tensor]\nstrict: true").unwrap();
    let scopes = mesh_in_process(&Mesh::parse("tensor=2").unwrap(), &strict).unwrap();
    let threads: Vec<_> = scopes
        .into_iter()
        .map(|s| {
            thread::spawn(move || Job::alone().scope(|| with_mesh(s, || mlp().map(|_| ()).unwrap_err().to_string())))
        })
        .collect();
    for t in threads {
        let e = t.join().unwrap();
        assert!(e.contains("the plan is strict") && e.contains("tensor") && e.contains("mesh.rs"), "{e}");
    }
}

/// An optimizer without state.
#[test]
fn plain_descent_scatters_nothing_it_need_not() {
    let run = || {
        manual_seed(3);
        let model = Mlp::new()?;
        let optimizer = Optimizer::new(Sgd { lr: 0.1, ..Sgd::default() }, &model)?;
        let step = jit(|a: &[Tensor]| {
            let loss = model.forward(&a[0]).square().mean(..);
            loss.backward()?;
            optimizer.step()?;
            Ok(vec![loss])
        });
        let x = Tensor::randn([8, 6]);
        let losses = (0..4).map(|_| step.call(&[&x])?[0].item::<f32>()).collect::<Result<_>>()?;
        Ok((End { losses, weights: weights(&model)? }, step.exchanges(&[&x])?))
    };
    let (_, list) = on_mesh("data=2", &plan("data"), run);
    // One for each parameter and one for the loss.
    assert_eq!(list.len(), 5, "{}", tensor::report(&list, &Mesh::parse("data=2").unwrap()));
}

/// Attention whose queries, keys and values are one product.
struct Fused {
    qkv: Linear,
    o: Linear,
}
impl Module for Fused {
    fn visit(&self, path: &str, visitor: &mut dyn nn::Visitor) {
        self.qkv.visit(&nn::join(path, "qkv"), visitor);
        self.o.visit(&nn::join(path, "o"), visitor);
    }
}
impl Fused {
    fn forward(&self, x: &Tensor, is_split: bool) -> Tensor {
        let (all, heads) = (self.qkv.forward(x), HEADS as i64);
        let [q, k, v] = if is_split {
            let parts = all.split_sizes(&[WIDTH; 3], -1);
            [0, 1, 2].map(|i| parts[i].unflatten(-1, &[heads, -1]).transpose(1, 2))
        } else {
            let parts = all.unflatten(-1, &[3, heads, -1]).permute(&[2, 0, 3, 1, 4]);
            [0, 1, 2].map(|i| parts.select(0, i))
        };
        let y = q.attention(&k, &v, AttentionOptions { causal: true, ..Default::default() });
        self.o.forward(&y.transpose(1, 2).flatten(-2, -1))
    }
}

/// Each rank has whole heads of queries, keys and values: nothing is gathered, and one sum is exchanged.
#[test]
fn fused_projections_are_cut_by_heads() {
    for is_split in [true, false] {
        let run = move || {
            manual_seed(4);
            let model = Fused { qkv: Linear::new(WIDTH, 3 * WIDTH)?, o: Linear::new(WIDTH, WIDTH)? };
            let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, &model)?;
            let step = jit(|a: &[Tensor]| {
                let loss = (model.forward(&a[0], is_split) - &a[0]).square().mean(..);
                loss.backward()?;
                optimizer.step()?;
                Ok(vec![loss])
            });
            let x = Tensor::randn([4, LENGTH, WIDTH]);
            let losses = (0..10).map(|_| step.call(&[&x])?[0].item::<f32>()).collect::<Result<_>>()?;
            Ok((End { losses, weights: weights(&model)? }, step.exchanges(&[&x])?))
        };
        let (alone, _) = run().unwrap();
        for mesh in ["tensor=2", "tensor=4", "data=2,tensor=2"] {
            let (got, list) = on_mesh(mesh, &plan("megatron").strict(), run);
            // Biases of keys have no gradient but rounding, which Adam makes steps of.
            near(&End { weights: Vec::new(), ..got }, &alone, mesh);
            let text = tensor::report(&list, &Mesh::parse(mesh).unwrap());
            let is_sum = |i: &Inserted| matches!(i.step, Step::Reduce { .. });
            assert!(list.iter().all(is_sum), "split {is_split}: {text}");
            assert_eq!(counted(&list, |s| matches!(s, Step::Reduce { .. })), 1, "split {is_split}: {text}");
        }
    }
}

/// Exchanges that go on while the rest is computed give what those give that are waited for.
#[test]
fn overlap_changes_no_bit() {
    for (mesh, name) in [
        ("data=2", "data"),
        ("data=4", "data"),
        ("data=2", "data,zero=1"),
        ("data=2", "data,zero=2"),
        ("data=3", "fsdp"),
        ("data=2,tensor=2", "megatron"),
        ("data=2,tensor=2", "megatron,zero=3"),
        ("data=2,context=2", "data"),
    ] {
        let run = |text: &'static str| {
            move || {
                train(2, 4, 0.1, Some(1.0), |s| s.explain()).map(|(end, text2)| {
                    assert_eq!(text2.contains("begin_"), !text.contains("overlap"), "{text}: {text2}");
                    (end, Vec::new())
                })
            }
        };
        let serial: &'static str = Box::leak(format!("{name},overlap=false").into_boxed_str());
        let want = on_mesh(mesh, &read_plan(serial).unwrap(), run(serial)).0;
        assert_eq!(on_mesh(mesh, &read_plan(name).unwrap(), run(name)).0, want, "{name} on {mesh}");
    }
}

/// Keys and values of long contexts are gathered again for the backward pass, and give the same.
#[test]
fn keys_are_gathered_again_where_the_plan_says_so() {
    let run = || gpt(2, 4, 0.1, Some(1.0));
    let (want, kept) = on_mesh("data=2,context=2", &plan("data"), run);
    let again = Plan::parse("like: data\ncontext: regather").unwrap();
    let (got, list) = on_mesh("data=2,context=2", &again, run);
    assert_eq!(got, want);
    let mesh = Mesh::parse("data=2,context=2").unwrap();
    let gathers = |list: &[Inserted]| list.iter().filter(|i| matches!(i.step, Step::Gather { .. })).count();
    let text = tensor::report(&list, &mesh);
    assert_eq!((gathers(&kept), gathers(&list)), (4, 8), "{text}");
    assert!(Plan::parse("context: ring").unwrap_err().to_string().contains("keep or regather"));
}

/// Sizes of what `POSITIONS` computed.
static COMPUTED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// So many numbers from the first one on.
static POSITIONS: Op = Op {
    name: "positions",
    doc: "The numbers from `first` on.",
    attrs: &[("size", AttrKind::Int)],
    infer: |c| Ok([Type::new(DType::F32, [c.attrs.size("size")?])].into_iter().collect()),
    meaning: Meaning::Kernel(|c, args| {
        let (size, first) = (c.attrs.size("size")?, args[0].to_f64()[0]);
        COMPUTED.lock().unwrap().push(size);
        Ok(vec![Literal::generate([size], |i| first as f32 + i as f32)])
    }),
    grad: Grad::Zero,
    generate: Some(|_, args, ranges| {
        let first = Tensor::from(args[0].clone()) + ranges[0].start as f32;
        Ok(vec![positions(&first, ranges[0].len()).value()?.clone()])
    }),
    ..Op::DEFAULT
};
fn positions(first: &Tensor, size: usize) -> Tensor {
    Tensor::apply(&POSITIONS, &[first], Attrs::new().with("size", size)).remove(0)
}

/// Ranks compute their shards of what depends on positions alone, and of the first values of variables.
#[test]
fn generated_values_are_computed_in_shards() {
    let run = || {
        let w = Variable::new("w", positions(&Tensor::from(1f32), 64) * 0.5)?;
        let step = jit(|a: &[Tensor]| {
            let noise = (positions(&a[1], 48) * 0.25).exp().reshape([48, 1]);
            let loss = ((&a[0] + noise).matmul(&w.tensor().reshape([1, 64])) * 1e-9).mean(..);
            w.assign(&(w.tensor() * 0.5))?;
            Ok(vec![loss])
        });
        let (x, first) = (Tensor::ones([48, 1]), Tensor::from(3f32));
        let losses = (0..3).map(|_| step.call(&[&x, &first])?[0].item::<f32>()).collect::<Result<_>>()?;
        Ok((End { losses, weights: w.tensor().to_vec::<f32>()? }, step.exchanges(&[&x, &first])?))
    };
    let alone = run().unwrap().0;
    let mut computed = std::mem::take(&mut *COMPUTED.lock().unwrap());
    computed.sort_unstable();
    assert_eq!(computed, [48, 48, 48, 64]);
    let got = on_mesh("data=2", &plan("fsdp"), run).0;
    near(&got, &alone, "fsdp");
    let mut computed = std::mem::take(&mut *COMPUTED.lock().unwrap());
    computed.sort_unstable();
    assert_eq!(computed, [24, 24, 24, 24, 24, 24, 32, 32]);
}
