//! Products of bytes by every way of this machine.

use super::super::super::testing::Noise;
use super::*;

fn ways() -> Vec<Way> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let all = [
            (Way::Amx, amx::is_available(amx::Kind::Int8)),
            (Way::Vnni512, has!("avx512vnni") && has!("avx512bw")),
            (Way::Vnni256, has!("avxvnni")),
            (Way::Avx2, has!("avx2") && has!("fma")),
            (Way::Portable, true),
        ];
        all.into_iter().filter(|(_, has)| *has).map(|(way, _)| way).collect()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let dotprod = std::arch::is_aarch64_feature_detected!("dotprod").then_some(Way::Dotprod);
        dotprod.into_iter().chain([Way::Neon, Way::Portable]).collect()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    vec![Way::Portable]
}

/// Every way, every pair of signs, both orders of each side, ragged sizes, the extremes.
#[test]
fn exact_products() {
    let mut noise = Noise::new(31);
    for (m, k, n) in [(1, 1, 1), (3, 5, 7), (8, 64, 48), (9, 33, 50), (17, 130, 17), (150, 40, 64)] {
        let mut bytes = |n: usize| -> Vec<u8> {
            (0..n).map(|_| [0, 127, 128, 255, noise.range(0, 255) as u8][noise.range(0, 4)]).collect()
        };
        let (a, b) = (bytes(m * k), bytes(k * n));
        for (way, case) in ways().into_iter().flat_map(|way| (0..16).map(move |case| (way, case))) {
            let [sa, sb, ta, tb] = [case & 1, case & 2, case & 4, case & 8].map(|x| x != 0);
            let lie = |p: &[u8], rows: usize, cols: usize, transposed: bool| {
                if transposed { Mat::row_major(p.as_ptr(), rows).t() } else { Mat::row_major(p.as_ptr(), cols) }
            };
            let (ma, mb) = (lie(&a, m, k, ta), lie(&b, k, n, tb));
            let value = |p: *const u8, signed: bool| {
                // SAFETY: the slices hold the matrices.
                let x = unsafe { *p };
                if signed { x as i8 as i32 } else { x as i32 }
            };
            let mut c = vec![7i32; m * n];
            // SAFETY: as above.
            unsafe {
                let right = Right::packed(k, n, Side { mat: mb, is_signed: sb }, way);
                right.multiply(m, Side { mat: ma, is_signed: sa }, c.as_mut_ptr(), n as isize);
            }
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let want: i32 = (0..k).map(|p| value(ma.at(i, p), sa) * value(mb.at(p, j), sb)).sum();
                assert_eq!(c[i * n + j], want, "{way:?} case {case} {m}x{k}x{n} at {i}, {j}");
            }
        }
    }
}
