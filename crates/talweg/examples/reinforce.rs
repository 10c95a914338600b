//! REINFORCE (Williams 1992) balances a pole on a cart. The physics are those of CartPole (Barto, Sutton
//! and Anderson 1983; constants and limits of Gym's CartPole-v1). The policy has two layers; the baseline
//! of the policy gradient is the batch mean.
//!
//! `cargo run --release -p talweg --example reinforce` reaches a mean return above 490 over 100 episodes
//! after 2400 episodes, in two seconds; 500 is the maximum, and 475 counts as solved.

use talweg::data::random::Random;
use talweg::prelude::*;

/// Episodes in a batch, steps in an episode at most.
const CARTS: usize = 16;
const STEPS: usize = 500;
const DISCOUNT: f32 = 0.99;

/// Position and speed of the cart, angle and speed of the pole.
#[derive(Clone, Copy)]
struct Cart([f32; 4]);
impl Cart {
    fn new(random: &mut Random) -> Cart {
        Cart(std::array::from_fn(|_| random.range(-0.05, 0.05)))
    }
    /// A push to the left or right for 0.02 s.
    fn push(&mut self, is_right: bool) {
        let (gravity, cart, pole, half, dt) = (9.8, 1.0, 0.1, 0.5, 0.02);
        let [x, v, angle, turn] = self.0;
        let (sin, cos) = angle.sin_cos();
        let force = if is_right { 10.0 } else { -10.0 };
        let mass = cart + pole;
        let pressed = (force + pole * half * turn * turn * sin) / mass;
        let spin = (gravity * sin - cos * pressed) / (half * (4.0 / 3.0 - pole * cos * cos / mass));
        let speed_up = pressed - pole * half * spin * cos / mass;
        self.0 = [x + dt * v, v + dt * speed_up, angle + dt * turn, turn + dt * spin];
    }
    fn is_down(&self) -> bool {
        self.0[0].abs() > 2.4 || self.0[2].abs() > 12f32.to_radians()
    }
}

/// What happened in a batch of episodes; rows behind an episode's end have weight 0.
struct Batch {
    states: Vec<f32>,
    actions: Vec<i64>,
    weights: Vec<f32>,
    returns: Vec<usize>,
}

/// Plays a batch of episodes side by side with a policy that gives logits `[CARTS, 2]`.
fn play(policy: impl Fn(&Tensor) -> Result<Tensor>, random: &mut Random) -> Result<Batch> {
    let mut carts: Vec<Cart> = (0..CARTS).map(|_| Cart::new(random)).collect();
    let (mut returns, mut states, mut actions) = (vec![0; CARTS], Vec::new(), Vec::new());
    let mut is_up = [true; CARTS];
    for _ in 0..STEPS {
        let state: Vec<f32> = carts.iter().flat_map(|c| c.0).collect();
        let logits = policy(&Tensor::new([CARTS, 4], &state))?.to_vec::<f32>()?;
        states.extend(&state);
        for (i, cart) in carts.iter_mut().enumerate() {
            let p_right = 1.0 / (1.0 + (logits[2 * i] - logits[2 * i + 1]).exp());
            let is_right = random.unit() < p_right;
            actions.push(is_right as i64);
            if is_up[i] {
                returns[i] += 1;
                cart.push(is_right);
                is_up[i] = !cart.is_down();
            }
        }
    }
    let weights = weights(&returns);
    Ok(Batch { states, actions, weights, returns })
}

/// Discounted rewards still to come at each step, with mean 0 and spread 1 over the batch.
fn weights(returns: &[usize]) -> Vec<f32> {
    let to_come = |left: usize| (1.0 - DISCOUNT.powi(left as i32)) / (1.0 - DISCOUNT);
    let each = |t: usize, i: usize| returns[i].checked_sub(t).filter(|left| *left > 0).map(to_come);
    let all: Vec<Option<f32>> = (0..STEPS).flat_map(|t| (0..returns.len()).map(move |i| each(t, i))).collect();
    let n = all.iter().flatten().count() as f32;
    let mean = all.iter().flatten().sum::<f32>() / n;
    let spread = (all.iter().flatten().map(|r| (r - mean).powi(2)).sum::<f32>() / n).sqrt();
    all.into_iter().map(|r| r.map_or(0.0, |r| (r - mean) / (spread + 1e-6) / n)).collect()
}

fn main() -> Result<()> {
    let rounds = if std::env::var("TALWEG_QUICK").is_ok() { 2 } else { 150 };
    manual_seed(0);
    let mut random = Random::new(0, 0, 0);
    let policy = Sequential::new().with(Linear::new(4, 64)?).with(talweg::nn::Tanh).with(Linear::new(64, 2)?);
    let optimizer = Optimizer::new(Adam { lr: 1e-2, ..Adam::default() }, &policy)?;
    let look = jit(|a: &[Tensor]| Ok(vec![no_grad(|| policy.forward(&a[0]))]));
    let act = |state: &Tensor| Ok(look.call(&[state])?.remove(0));
    // The gradient of Σ weight · log p(action): what went better than usual becomes more likely.
    let learn = jit(|a: &[Tensor]| {
        let logs = policy.forward(&a[0]).log_softmax(-1);
        let chosen = (logs * a[1].one_hot(2, DType::F32)).sum(-1);
        let loss = -(chosen * &a[2]).sum(..);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });

    for round in 0..rounds {
        let batch = play(act, &mut random)?;
        if round % 10 == 0 || round + 1 == rounds {
            let mean = batch.returns.iter().sum::<usize>() as f64 / CARTS as f64;
            println!("{:4} episodes  mean return {mean:.1}", (round + 1) * CARTS);
        }
        let rows = batch.actions.len();
        let actions = Tensor::new([rows], &batch.actions);
        learn.call(&[&Tensor::new([rows, 4], &batch.states), &actions, &Tensor::new([rows], &batch.weights)])?;
    }
    let mut returns = Vec::new();
    while returns.len() < 100 {
        returns.extend(play(act, &mut random)?.returns);
    }
    println!("mean return of 100 episodes: {:.1}", returns[..100].iter().sum::<usize>() as f64 / 100.0);
    Ok(())
}
