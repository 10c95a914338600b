//! Models × strategies on 4 and 8 ranks, as threads: 20 steps with the losses of one device.

mod models;

use cpu as _;
use models::{BATCH, Block, End, LENGTH, Mlp, WIDTH, WORDS, gpt, on_mesh};
use nn::optim::{Adam, Optimizer};
use nn::{Conv2d, Embedding, Layer, LayerNorm, Linear, Module};
use tensor::{Inserted, Mesh, Plan, Result, Tensor, Variable, jit, manual_seed};

const STEPS: usize = 20;

/// Trains a model on one batch.
fn train(
    parameters: &[Variable],
    loss: impl Fn(&Tensor, &Tensor) -> Tensor,
    x: &Tensor,
    y: &Tensor,
) -> Result<Vec<f32>> {
    let optimizer = Optimizer::new(Adam { lr: 0.003, ..Adam::default() }, parameters)?;
    let step = jit(|a: &[Tensor]| {
        let loss = loss(&a[0], &a[1]);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    (0..STEPS).map(|_| step.call(&[x, y])?[0].item::<f32>()).collect()
}

fn end(losses: Vec<f32>) -> Result<(End, Vec<Inserted>)> {
    Ok((End { losses, weights: Vec::new() }, Vec::new()))
}

fn mlp() -> Result<(End, Vec<Inserted>)> {
    manual_seed(3);
    let model = Mlp::new()?;
    let (x, y) = (Tensor::randn([8, 6]), Tensor::from([0i64, 1, 2, 0, 1, 2, 1, 0]));
    end(train(&model.parameters(), |x, y| model.forward(x).cross_entropy(y), &x, &y)?)
}

/// Two convolutions and a linear layer.
struct Cnn {
    first: Conv2d,
    second: Conv2d,
    last: Linear,
}
impl Module for Cnn {
    fn visit(&self, path: &str, visitor: &mut dyn nn::Visitor) {
        self.first.visit(&nn::join(path, "first"), visitor);
        self.second.visit(&nn::join(path, "second"), visitor);
        self.last.visit(&nn::join(path, "last"), visitor);
    }
}

fn cnn() -> Result<(End, Vec<Inserted>)> {
    manual_seed(4);
    let model =
        Cnn { first: Conv2d::new(2, 8, [3, 3])?, second: Conv2d::new(8, 8, [3, 3])?, last: Linear::new(32, 3)? };
    let (x, y) = (Tensor::randn([8, 2, 6, 6]), Tensor::from([0i64, 1, 2, 0, 1, 2, 1, 0]));
    let scores = |x: &Tensor| {
        let h = model.second.forward(&model.first.forward(x).relu()).relu();
        model.last.forward(&h.flatten(1, -1))
    };
    end(train(&model.parameters(), |x, y| scores(x).cross_entropy(y), &x, &y)?)
}

const EXPERTS: usize = 4;

/// A block whose second layer is a mixture of experts: each token goes to two of them, and none is dropped.
struct Moe {
    tokens: Embedding,
    block: Block,
    norm: LayerNorm,
    gate: Linear,
    widen: Variable,
    narrow: Variable,
}
impl Module for Moe {
    fn visit(&self, path: &str, visitor: &mut dyn nn::Visitor) {
        self.tokens.visit(&nn::join(path, "tokens"), visitor);
        self.block.visit(&nn::join(path, "block"), visitor);
        self.norm.visit(&nn::join(path, "norm"), visitor);
        self.gate.visit(&nn::join(path, "router"), visitor);
        self.widen.visit(&nn::join(path, "experts.widen"), visitor);
        self.narrow.visit(&nn::join(path, "experts.narrow"), visitor);
    }
}
impl Moe {
    fn new() -> Result<Moe> {
        let experts = |name: &str, from: usize, to: usize| {
            let start = Tensor::randn([EXPERTS, from, to]) * (1.0 / (from as f64).sqrt());
            Variable::new(name, start)
        };
        Ok(Moe {
            tokens: Embedding::new(WORDS, WIDTH)?,
            block: Block::new()?,
            norm: LayerNorm::new(&[WIDTH])?,
            gate: Linear::new(WIDTH, EXPERTS)?,
            widen: experts("experts.widen", WIDTH, 2 * WIDTH)?,
            narrow: experts("experts.narrow", 2 * WIDTH, WIDTH)?,
        })
    }
    fn mixture(&self, x: &Tensor) -> Tensor {
        let scores = self.gate.forward(x);
        let [best, _] = scores.top_k(2, -1);
        let chosen = scores.ge(best.narrow(-1, 1, 1)).cast(tensor::DType::F32);
        let share = scores.softmax(-1) * chosen;
        let share = &share / share.sum_keep(-1);
        // Every expert computes all tokens; shares of those that are not its own are zero.
        let out = x.unsqueeze(0).matmul(&self.widen.tensor()).gelu().matmul(&self.narrow.tensor());
        (out * share.transpose(0, 1).unsqueeze(-1)).sum(0)
    }
    fn loss(&self, input: &Tensor, target: &Tensor) -> Tensor {
        let x = self.block.forward(&self.tokens.forward(input), 0.0).flatten(0, 1);
        let x = &x + self.mixture(&self.norm.forward(&x));
        x.linear(&self.tokens.weight.tensor(), None).cross_entropy(&target.flatten(0, 1))
    }
}

fn moe() -> Result<(End, Vec<Inserted>)> {
    manual_seed(6);
    let model = Moe::new()?;
    let word = |i: usize| ((i * i * 7 + i * 3) % WORDS) as i64;
    let text = |from: usize| -> Vec<i64> { (from..from + BATCH * LENGTH).map(word).collect() };
    let batch = |from: usize| Tensor::new([BATCH, LENGTH], &text(from));
    end(train(&model.parameters(), |x, y| model.loss(x, y), &batch(0), &batch(1))?)
}

type Run = fn() -> Result<(End, Vec<Inserted>)>;

/// Runs a model under every strategy and compares its losses with those of one device.
fn check(model: Run, strategies: &[(&str, &str)]) {
    let (alone, _) = model().unwrap();
    assert!(alone.losses[STEPS - 1] < 0.95 * alone.losses[0], "it learns nothing: {:?}", alone.losses);
    for (mesh, text) in strategies {
        let plan = Plan::parse(&text.replace("; ", "\n")).unwrap();
        let (got, _) = on_mesh(mesh, &plan, model);
        for (i, (a, b)) in got.losses.iter().zip(&alone.losses).enumerate() {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{text} on {mesh}: {a} instead of {b} at step {i}");
        }
    }
}

#[test]
fn a_perceptron() {
    check(
        mlp,
        &[
            ("data=4", "like: data"),
            ("data=4", "like: data; zero: 2"),
            ("data=2,tensor=2", "like: megatron"),
            ("pipe=2,data=2", "like: data; microbatches: 2"),
            ("data=8", "like: fsdp"),
            ("data=2,tensor=2,pipe=2", "like: megatron; microbatches: 2"),
        ],
    );
}

#[test]
fn a_convolutional_network() {
    check(
        cnn,
        &[
            ("data=4", "like: data"),
            ("data=4", "like: fsdp"),
            ("data=2,pipe=2", "like: data; microbatches: 2; schedule: gpipe"),
            ("data=8", "like: data; zero: 2"),
            // Channels of the first convolution are cut, the second adds them.
            ("data=2,tensor=2", "like: data; first.weight: [tensor, -, -, -]; second.weight: [-, tensor, -, -]"),
        ],
    );
}

#[test]
fn a_language_model() {
    check(
        || gpt(2, STEPS, 0.0, None),
        &[
            ("data=4", "like: data"),
            ("data=4", "like: data; zero: 1"),
            ("data=4", "like: fsdp"),
            ("tensor=4", "like: megatron"),
            ("data=2,tensor=2", "like: megatron; sequence: true"),
            ("pipe=4", "like: data; microbatches: 4"),
            ("tensor=2,pipe=2", "like: megatron; sequence: true; microbatches: 4; recompute: true"),
            ("data=2,pipe=2", "like: data; zero: 1; microbatches: 4; schedule: zb-h1"),
            ("data=8", "like: fsdp"),
            ("data=2,tensor=2,pipe=2", "like: megatron; zero: 1; microbatches: 2"),
            ("data=2,tensor=4", "like: megatron; zero: 3"),
            ("context=4", "like: data"),
            ("context=2,data=2", "like: data; zero: 1"),
            ("data=2,context=2", "like: fsdp"),
            ("context=2,tensor=2", "like: megatron"),
            ("data=2,context=2,tensor=2", "like: megatron; zero: 2"),
            ("context=2,pipe=2", "like: data; microbatches: 4"),
        ],
    );
}

#[test]
fn a_mixture_of_experts() {
    check(
        moe,
        &[
            ("data=4", "like: data"),
            ("data=4", "like: fsdp"),
            ("expert=4", "like: data"),
            ("expert=4", "experts.*: [expert, ...]"),
            ("data=2,expert=2", "like: data; zero: 1"),
            ("data=2,expert=2", "like: fsdp"),
            ("data=2,expert=2,tensor=2", "like: megatron"),
            ("data=2,expert=2,pipe=2", "like: data; microbatches: 2"),
        ],
    );
}

/// Sequences stay cut: a block gathers its keys and values, and scatters their gradients; a step adds gradients.
#[test]
fn contexts_exchange_keys_and_values() {
    let (_, list) = on_mesh("context=2", &Plan::parse("like: data\nstrict: true").unwrap(), || gpt(2, 1, 0.0, None));
    let text = tensor::report(&list, &Mesh::parse("context=2").unwrap());
    let count = |step: &str| list.iter().filter(|i| i.step.to_string() == step).count();
    assert_eq!((count("all_gather"), count("reduce_scatter")), (4, 4), "{text}");
    let keys = [BATCH, models::HEADS, LENGTH, WIDTH / models::HEADS];
    let is_of_keys = |i: &&Inserted| i.step.to_string() != "all_reduce";
    assert!(list.iter().filter(is_of_keys).all(|i| i.ty.shape[..] == keys), "{text}");
}

/// Attention with a mask and keys that heads share, longer than what is computed at once, beside one device.
#[test]
fn attention_over_contexts() {
    use tensor::nn::AttentionOptions;
    let run = |causal: bool, length: usize, masked: bool| {
        move || {
            manual_seed(9);
            let w = Variable::new("w", Tensor::randn([8, 8]) * 0.3)?;
            let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, &w)?;
            let step = jit(|a: &[Tensor]| {
                let h = a[0].linear(&w.tensor(), None).unflatten(-1, &[4, 2]).transpose(1, 2);
                let mask = masked.then(|| {
                    let at = Tensor::iota(length, tensor::DType::I64);
                    (at.reshape([length, 1]) - &at).abs().lt(length as i64 / 3)
                });
                let options = AttentionOptions { causal, grouped: true, mask, ..Default::default() };
                let y = h.attention(&h.narrow(1, 0, 2), &h.narrow(1, 1, 2), options);
                let loss = y.square().mean(..);
                loss.backward()?;
                optimizer.step()?;
                Ok(vec![loss])
            });
            let x = Tensor::randn([2, length, 8]);
            end((0..3).map(|_| step.call(&[&x])?[0].item::<f32>()).collect::<Result<_>>()?)
        }
    };
    for (causal, length, masked) in [(true, 16, false), (false, 16, false), (true, 24, true), (true, 520, false)] {
        let (alone, _) = run(causal, length, masked)().unwrap();
        for mesh in ["context=2", "context=4", "data=2,context=2", "context=2,tensor=2"] {
            let (got, _) =
                on_mesh(mesh, &Plan::parse("like: megatron\nw: [tensor, -]").unwrap(), run(causal, length, masked));
            for (a, b) in got.losses.iter().zip(&alone.losses) {
                assert!((a - b).abs() <= 1e-5 * b.abs(), "{mesh}, {length}: {a} instead of {b}");
            }
        }
    }
}

/// Tokens are gathered for the experts, and what they answer is scattered; weights of experts stay where they are.
#[test]
fn experts_exchange_tokens() {
    let run = || {
        manual_seed(6);
        let model = Moe::new()?;
        let optimizer = Optimizer::new(Adam::default(), &model)?;
        let step = jit(|a: &[Tensor]| {
            let loss = (&a[0] + model.mixture(&a[0])).square().mean(..);
            loss.backward()?;
            optimizer.step()?;
            Ok(vec![loss])
        });
        let x = Tensor::randn([8, WIDTH]);
        let loss = step.call(&[&x])?[0].item::<f32>()?;
        Ok((End { losses: vec![loss], weights: Vec::new() }, step.exchanges(&[&x])?))
    };
    let (_, list) = on_mesh("expert=2", &Plan::parse("like: data").unwrap(), run);
    let text = tensor::report(&list, &Mesh::parse("expert=2").unwrap());
    let has = |step: &str, shape: &[usize]| list.iter().any(|i| i.step.to_string() == step && i.ty.shape[..] == *shape);
    assert!(has("all_gather", &[1, 8, WIDTH]) && has("reduce_scatter", &[8, WIDTH]), "{text}");
    let weights = [[EXPERTS, WIDTH, 2 * WIDTH], [EXPERTS, 2 * WIDTH, WIDTH]];
    assert!(list.iter().all(|i| !weights.iter().any(|w| i.ty.shape[..] == *w)), "{text}");
}
