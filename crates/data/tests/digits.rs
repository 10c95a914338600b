//! The built-in digits can be learned, and not by too simple a model: a linear
//! classifier falls short of a small network.

use talweg_data::Digits;
use talweg_data::random::{Random, permutation};

const PIXELS: usize = 784;

/// One hidden layer with ReLU, or none, trained by plain gradient descent.
struct Model {
    hidden: usize,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl Model {
    fn new(hidden: usize) -> Self {
        let mut random = Random::new(3, 0, 0);
        let mut weights = |count: usize, scale: f32| (0..count).map(|_| random.normal() * scale).collect();
        let width = if hidden == 0 { PIXELS } else { hidden };
        Model { hidden, first: weights(PIXELS * hidden, 0.05), second: weights(width * 10, 0.05) }
    }

    /// The hidden layer and the class scores.
    fn forward(&self, image: &[f32]) -> (Vec<f32>, [f32; 10]) {
        let mut layer = image.to_vec();
        if self.hidden > 0 {
            layer = vec![0.0; self.hidden];
            for (x, row) in image.iter().zip(self.first.chunks(self.hidden)) {
                layer.iter_mut().zip(row).for_each(|(sum, weight)| *sum += x * weight);
            }
            layer.iter_mut().for_each(|x| *x = x.max(0.0));
        }
        let mut scores = [0.0; 10];
        for (x, row) in layer.iter().zip(self.second.chunks(10)) {
            scores.iter_mut().zip(row).for_each(|(sum, weight)| *sum += x * weight);
        }
        (layer, scores)
    }

    fn learn(&mut self, image: &[f32], label: usize, rate: f32) {
        let (layer, scores) = self.forward(image);
        let top = scores.iter().copied().fold(f32::MIN, f32::max);
        let powers = scores.map(|score| (score - top).exp());
        let mut error = powers.map(|power| power / powers.iter().sum::<f32>());
        error[label] -= 1.0;
        let mut back = vec![0.0; self.hidden];
        for (place, (x, row)) in layer.iter().zip(self.second.chunks_mut(10)).enumerate() {
            if self.hidden > 0 && *x > 0.0 {
                back[place] = row.iter().zip(error).map(|(weight, error)| weight * error).sum();
            }
            row.iter_mut().zip(error).for_each(|(weight, error)| *weight -= rate * error * x);
        }
        if self.hidden > 0 {
            for (x, row) in image.iter().zip(self.first.chunks_mut(self.hidden)) {
                row.iter_mut().zip(&back).for_each(|(weight, error)| *weight -= rate * error * x);
            }
        }
    }
}

fn images(seed: u64, count: usize) -> Vec<(Vec<f32>, usize)> {
    let digits = Digits::new(seed, count);
    let scaled = |index| {
        let (image, label) = digits.image(index);
        (image.iter().map(|x| f32::from(*x) / 255.0).collect(), usize::from(label))
    };
    (0..count).map(scaled).collect()
}

fn accuracy(hidden: usize, train: &[(Vec<f32>, usize)], test: &[(Vec<f32>, usize)]) -> f64 {
    const EPOCHS: u64 = 4;
    let mut model = Model::new(hidden);
    for epoch in 0..EPOCHS {
        let rate = 0.03 * (1.0 - epoch as f32 / EPOCHS as f32);
        for index in permutation(1, 0, epoch, train.len()) {
            model.learn(&train[index].0, train[index].1, rate);
        }
    }
    let right = |(image, label): &&(Vec<f32>, usize)| {
        let scores = model.forward(image).1;
        (0..10).max_by(|a, b| scores[*a].total_cmp(&scores[*b])) == Some(*label)
    };
    test.iter().filter(right).count() as f64 / test.len() as f64
}

#[test]
fn a_small_network_learns_what_a_linear_model_cannot() {
    let (train, test) = (images(1, 6000), images(2, 1000));
    let (linear, network) = (accuracy(0, &train, &test), accuracy(48, &train, &test));
    println!("linear {linear:.3}, network {network:.3}");
    assert!((0.6..0.9).contains(&linear), "linear model: {linear}");
    assert!((0.9..0.995).contains(&network), "network: {network}");
}
