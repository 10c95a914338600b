//! Only tensors and `backward`: no layers, optimizer or loss from the library. A perceptron with its own
//! initialization, loss, Adam and accuracy, one function each.
//!
//! `cargo run --release -p talweg --example only_tensors` learns the built-in digits: 95.0 % of the
//! held-out ones after 1000 steps, in six seconds.

use talweg::data::Digits;
use talweg::prelude::*;

const HIDDEN: usize = 128;

/// A weight matrix whose signals keep their size (He and others 2015).
fn matrix(inputs: usize, outputs: usize) -> Result<Variable> {
    Variable::new("w", Tensor::randn([inputs, outputs]) * (2.0 / inputs as f64).sqrt())
}

struct Net {
    params: [Variable; 4],
}
impl Net {
    fn new() -> Result<Net> {
        let zeros = |n: usize| Variable::new("b", Tensor::zeros([n]));
        Ok(Net { params: [matrix(784, HIDDEN)?, zeros(HIDDEN)?, matrix(HIDDEN, 10)?, zeros(10)?] })
    }
    fn scores(&self, x: &Tensor) -> Tensor {
        let [w1, b1, w2, b2] = &self.params;
        let hidden = (x.matmul(w1) + b1).maximum(0.0);
        hidden.matmul(w2) + b2
    }
}

/// Mean of -log p(class): the largest score is taken out first, so that nothing overflows.
fn loss(scores: &Tensor, classes: &Tensor) -> Tensor {
    let shifted = scores - scores.max_keep(-1);
    let logs = &shifted - shifted.exp().sum_keep(-1).log();
    -(logs * classes.one_hot(10, DType::F32)).sum(-1).mean(..)
}

/// Adam (Kingma and Ba 2015): its state is two more tensors for each parameter.
struct Moments {
    first: Tensor,
    second: Tensor,
}
fn adam(p: &Variable, m: &mut Moments, t: i32, lr: f64) -> Result<()> {
    let g = p.grad().expect("backward was called");
    m.first = &m.first * 0.9 + &g * 0.1;
    m.second = &m.second * 0.999 + g.square() * 0.001;
    let (full1, full2) = (1.0 - 0.9f64.powi(t), 1.0 - 0.999f64.powi(t));
    let step = (&m.first / full1) / ((&m.second / full2).sqrt() + 1e-8);
    p.assign(&(p.tensor() - step * lr))?;
    p.zero_grad();
    Tensor::eval_all(&[&m.first, &m.second])
}

fn main() -> Result<()> {
    let steps = if std::env::var("TALWEG_QUICK").is_ok() { 20 } else { 1000 };
    manual_seed(0);
    let net = Net::new()?;
    let zeros = |p: &Variable| Moments { first: Tensor::zeros(p.shape()), second: Tensor::zeros(p.shape()) };
    let mut moments: Vec<Moments> = net.params.iter().map(zeros).collect();

    let mut batches = Loader::builder(Digits::new(0, steps * 100)).batch(100).workers(1).build()?;
    for (step, batch) in (&mut batches).enumerate() {
        let batch = batch?;
        let x = batch.column("image")?.cast(DType::F32).view(&[-1, 784]) / 256.0;
        let loss = loss(&net.scores(&x), &batch.column("label")?);
        loss.backward()?;
        for (p, m) in net.params.iter().zip(&mut moments) {
            adam(p, m, step as i32 + 1, 1e-3)?;
        }
        if step % 100 == 0 || step + 1 == steps {
            println!("step {step:4}  loss {:.4}", loss.item::<f32>()?);
        }
    }

    let mut test = Loader::builder(Digits::new(1, 2000)).batch(2000).build()?;
    let batch = test.next().expect("there are test images")?;
    let x = batch.column("image")?.cast(DType::F32).view(&[-1, 784]) / 256.0;
    let right = net.scores(&x).argmax(1).eq(&batch.column("label")?).cast(DType::F32).mean(..);
    println!("{:.1} % of 2000 digits it has never seen", right.item::<f64>()? * 100.0);
    Ok(())
}
