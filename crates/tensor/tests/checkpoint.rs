//! What `checkpoint` saves: the bytes that are planned for a training step.

use cpu as _;
use ops::control::checkpoint;
use std::slice::from_ref;
use talweg_tensor::{DType, Result, Tensor, Variable, jit};

type Block = Vec<Variable>;

fn blocks(count: usize, sizes: &[usize]) -> Vec<Block> {
    let weight = |w: &[usize]| Variable::new("w", Tensor::zeros([w[0], w[1]])).unwrap();
    (0..count).map(|_| sizes.windows(2).map(weight).collect()).collect()
}

fn forward(block: &Block, x: &Tensor, activation: fn(&Tensor) -> Tensor) -> Tensor {
    block.iter().fold(x.clone(), |x, w| activation(&x.matmul(&w.tensor())))
}

/// Bytes of the arena of a training step.
fn planned(blocks: &[Block], batch: usize, activation: fn(&Tensor) -> Tensor, is_checkpointed: bool) -> usize {
    let width = blocks[0][0].shape()[0];
    planned_for(blocks, &[], &Tensor::zeros([batch, width]), Tensor::clone, activation, is_checkpointed)
}

fn planned_for(
    blocks: &[Block],
    more: &[Variable],
    given: &Tensor,
    first: impl Fn(&Tensor) -> Tensor,
    activation: fn(&Tensor) -> Tensor,
    is_checkpointed: bool,
) -> usize {
    let step = jit(|a: &[Tensor]| {
        let mut x = first(&a[0]);
        for block in blocks {
            x = match is_checkpointed {
                true => checkpoint(|x| Ok(vec![forward(block, &x[0], activation)]), &[x])?.swap_remove(0),
                false => forward(block, &x, activation),
            };
        }
        let loss = x.square().mean(..);
        loss.backward()?;
        for w in blocks.iter().flatten().chain(more) {
            w.assign(&(w.tensor() - w.grad().unwrap() * 0.1))?;
        }
        Ok(vec![loss])
    });
    let text = step.explain(&[given]).unwrap();
    let number = |after: &str| -> Option<usize> { text.split(after).nth(1)?.split(' ').next()?.parse().ok() };
    number("arena ").unwrap_or_else(|| panic!("no arena in {text}"))
}

#[test]
fn only_one_block_is_kept() {
    let blocks = blocks(12, &[256, 1024, 256]);
    let (kept, plain) = (planned(&blocks, 2048, Tensor::tanh, true), planned(&blocks, 2048, Tensor::tanh, false));
    // Twelve inputs of 2 MB, and the inside of one block.
    assert!(kept <= 48_000_000, "{kept} bytes with, {plain} without");
    assert!(plain > 120_000_000, "{plain} bytes");
}

#[test]
fn only_one_block_is_kept_behind_an_embedding() {
    // The gradient of the embedding comes last and can fail, and updates in place wait for it.
    let blocks = blocks(12, &[256, 1024, 256]);
    let table = Variable::new("table", Tensor::zeros([100, 256])).unwrap();
    let look_up = |ids: &Tensor| table.tensor().take(ids, 0);
    let ids = Tensor::zeros([2048]).cast(DType::I64);
    let kept = planned_for(&blocks, from_ref(&table), &ids, look_up, Tensor::tanh, true);
    let plain = planned_for(&blocks, from_ref(&table), &ids, look_up, Tensor::tanh, false);
    assert!(kept <= 72_000_000, "{kept} bytes with, {plain} without");
}

#[test]
fn a_step_needs_no_more_than_without() {
    let silu: fn(&Tensor) -> Tensor = Tensor::silu;
    for activation in [Tensor::tanh, Tensor::relu, silu] {
        for (count, layers, batch) in [(4, 5, 1024), (1, 5, 512), (2, 1, 256), (3, 2, 64), (6, 3, 2048)] {
            let blocks = blocks(count, &vec![256; layers + 1]);
            let (kept, plain) = (planned(&blocks, batch, activation, true), planned(&blocks, batch, activation, false));
            assert!(kept <= plain, "{count} blocks of {layers} layers, batch {batch}: {kept} bytes, {plain} without");
        }
    }
}

#[test]
fn gradients_are_those_without() -> Result<()> {
    let x = Tensor::linspace(-1.0, 1.0, 64).reshape([4, 16]);
    let w = Variable::new("w", Tensor::linspace(-0.5, 0.5, 256).reshape([16, 16]))?;
    let gradient = |is_checkpointed: bool| -> Result<Vec<f32>> {
        let f = |x: &Tensor| x.matmul(&w.tensor()).tanh().matmul(&w.tensor()).silu();
        let y = if is_checkpointed { checkpoint(|x| Ok(vec![f(&x[0])]), from_ref(&x))?.swap_remove(0) } else { f(&x) };
        y.square().sum(..).backward()?;
        let g = w.grad().unwrap().to_vec::<f32>();
        w.zero_grad();
        g
    };
    assert_eq!(gradient(true)?, gradient(false)?);
    Ok(())
}
