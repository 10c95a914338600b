//! Every format, on every instruction set, against plain arithmetic; and results that do not depend on the batch.

use super::*;
use crate::kernels::testing::Noise;
use ir::blocks::{dequantize, interleave, quantize_activations};
use std::sync::Mutex;

fn ways() -> Vec<Way> {
    let mut all = vec![Way::Portable, Way::best()];
    #[cfg(target_arch = "x86_64")]
    if crate::vmath::machine_level() >= crate::vmath::Level::Avx2 {
        all.push(Way::Avx2);
    }
    #[cfg(target_arch = "aarch64")]
    all.push(Way::Neon);
    all.dedup();
    all
}

/// Random blocks, with scales of moderate size and either sign.
pub(super) fn weights(format: Format, n: usize, k: usize, noise: &mut Noise) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..n * format.bytes(k).unwrap()).map(|_| noise.range(0, 255) as u8).collect();
    let halves: &[usize] = match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K | Format::INT4 => &[1, 3],
        Format::Q6_K => &[209],
        _ => &[1],
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        halves.iter().for_each(|&at| block[at] = (block[at] & 0x87) | 0x20);
    }
    bytes
}

fn product(g: &QuantizedGemm, w: &[u8], x: &[f32], way: Way) -> Vec<f32> {
    let out = Mutex::new(vec![f32::NAN; g.m * g.n]);
    let ends = Ends {
        read: &|i, row| row.copy_from_slice(&x[i * g.k..][..g.k]),
        write: &|i, j, sums| out.lock().unwrap()[i * g.n + j..][..sums.len()].copy_from_slice(sums),
    };
    // SAFETY: the weights are whole rows, and the way is one of this machine.
    unsafe { if g.int8 { g.run_int8(w.as_ptr(), &ends, way) } else { exact::run(g, w.as_ptr(), &ends, way) } };
    out.into_inner().unwrap()
}

/// The same in f64, of activations as they are or after quantization.
fn plain(g: &QuantizedGemm, w: &[u8], x: &[f32]) -> Vec<f64> {
    let mut weights = vec![0.0f32; g.n * g.k];
    dequantize(g.format, w, &mut weights).unwrap();
    let mut x: Vec<f64> = x.iter().map(|&x| x as f64).collect();
    if g.int8 {
        for block in x.chunks_exact_mut(g.format.activation_block()) {
            let from: Vec<f32> = block.iter().map(|&x| x as f32).collect();
            let mut q = vec![0i8; block.len()];
            let scale = quantize_activations(g.format, &from, &mut q);
            block.iter_mut().zip(q).for_each(|(x, q)| *x = q as f64 * scale as f64);
        }
    }
    let dot = |i: usize| (0..g.k).map(|j| x[i / g.n * g.k + j] * weights[i % g.n * g.k + j] as f64).sum();
    (0..g.m * g.n).map(dot).collect()
}

#[test]
fn every_format_on_every_instruction_set() {
    let mut noise = Noise::new(1);
    for format in Format::BLOCKS {
        for (m, n, blocks) in [(1, 16, 1), (1, 5, 2), (3, 33, 1), (8, 40, 3), (13, 17, 9), (2, 16, 40)] {
            let k = blocks * format.block();
            let (w, x) = (weights(format, n, k, &mut noise), noise.f32s(m * k));
            for int8 in [true, false] {
                let g = QuantizedGemm { format, m, n, k, int8, interleaved: false };
                let want = plain(&g, &w, &x);
                let scale = want.iter().fold(1e-3f64, |a, b| a.max(b.abs()));
                for way in ways() {
                    for (i, (got, want)) in product(&g, &w, &x, way).into_iter().zip(&want).enumerate() {
                        let off = (got as f64 - want).abs() / scale;
                        assert!(off < 1e-5, "{format:?} {way:?} int8 {int8} {m}x{n}x{k} at {i}: {got}, want {want}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    let mut noise = Noise::new(2);
    for format in Format::BLOCKS {
        let (n, k) = (50, 1536);
        let (w, x) = (weights(format, n, k, &mut noise), noise.f32s(37 * k));
        for (way, int8) in ways().into_iter().flat_map(|w| [(w, true), (w, false)]) {
            let run = |first: usize, m: usize| {
                let g = QuantizedGemm { format, m, n, k, int8, interleaved: false };
                product(&g, &w, &x[first * k..][..m * k], way)
            };
            let all = run(0, 37);
            for (first, m) in [(0, 1), (36, 1), (5, 2), (7, 3), (20, 4), (30, 7), (9, 8), (1, 20)] {
                let part = run(first, m);
                let same = part.iter().zip(&all[first * n..]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{format:?} {way:?} int8 {int8}: rows {first}..{}", first + m);
            }
        }
    }
}

#[test]
fn interleaved_weights_give_the_same_bits() {
    let mut noise = Noise::new(3);
    for format in Format::BLOCKS {
        let (m, n, k) = (3, 48, 1280);
        let (w, x) = (weights(format, n, k, &mut noise), noise.f32s(m * k));
        let packed = interleave(format, &w, n).unwrap();
        for (way, int8) in ways().into_iter().flat_map(|w| [(w, true), (w, false)]) {
            let rows = QuantizedGemm { format, m, n, k, int8, interleaved: false };
            let groups = QuantizedGemm { interleaved: true, ..rows };
            assert_eq!(product(&rows, &w, &x, way), product(&groups, &packed, &x, way), "{format:?} {way:?} {int8}");
        }
    }
}

#[test]
fn floats_give_the_sums_of_their_order_in_any_batch() {
    let mut noise = Noise::new(4);
    for format in Format::FLOATS {
        let (n, k) = (32, 600);
        let (w, x) = (noise.f32s(n * k), noise.f32s(19 * k));
        let bytes: Vec<u8> = match format {
            Format::F16 => w.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
            Format::BF16 => w.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
            _ => w.iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        let packed = interleave(format, &bytes, n).unwrap();
        let run = |first: usize, m: usize| {
            let g = QuantizedGemm { format, m, n, k, int8: false, interleaved: true };
            product(&g, &packed, &x[first * k..][..m * k], Way::best())
        };
        let all = run(0, 19);
        let g = QuantizedGemm { format, m: 19, n, k, int8: false, interleaved: false };
        for (got, want) in all.iter().zip(plain(&g, &bytes, &x)) {
            assert!((*got as f64 - want).abs() < 1e-4, "{format:?}: {got}, want {want}");
        }
        for (first, m) in [(0, 1), (18, 1), (3, 2), (5, 3), (7, 8), (2, 12)] {
            let same = run(first, m).iter().zip(&all[first * n..]).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{format:?}: rows {first}..{}", first + m);
        }
    }
}
