//! A data set of handwritten-looking digits that needs no download.
//!
//! Sample `i` is a pure function of the seed and `i`: the digit, the hand it is
//! written in, its size, slant and place, the pen, the noise and a possible
//! blot. So the set is reproducible on every machine, can be cut among
//! processes, and is as long as one likes. Different seeds give independent
//! sets: train with one, test with another.

use crate::array::Array;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::glyphs::{self, Piece, Point};
use crate::random::{PURPOSE_DIGITS, Random};
use crate::sample::Sample;

/// Width and height of the images.
pub const SIDE: usize = 28;

/// One image: rows of gray values, 0 is paper and 255 ink.
pub type Image = [u8; SIDE * SIDE];

/// Procedural digits: `image` (`u8`, 28 × 28) and `label` (`i64`, 0 to 9).
///
/// ```
/// use talweg_data::{Dataset, Digits, rendering};
/// let digits = Digits::new(1, 1000);
/// let sample = digits.get(3)?;
/// assert_eq!(sample.array("image")?.shape(), [28, 28]);
/// println!("{}", rendering::ascii(&digits.image(3).0, 28));
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    seed: u64,
    count: usize,
}

impl Digits {
    /// `count` digits of the given seed.
    pub fn new(seed: u64, count: usize) -> Self {
        Digits { seed, count }
    }

    /// Image and label of sample `index`, which may lie beyond the count.
    pub fn image(&self, index: usize) -> (Image, u8) {
        let mut random = Random::new(self.seed, PURPOSE_DIGITS, index as u64);
        let digit = random.below(10) as usize;
        let hand = random.below(glyphs::hands(digit) as u64) as usize;
        let pieces = write(digit, hand, &mut random);
        let mut ink = [0.0; SIDE * SIDE];
        stroke(&pieces, random.range(0.65, 1.75), &mut ink);
        (expose(&ink, &mut random), digit as u8)
    }
}

impl Dataset for Digits {
    fn len(&self) -> usize {
        self.count
    }

    fn get(&self, index: usize) -> Result<Sample> {
        if index >= self.count {
            return Err(Error::OutOfRange { index, len: self.count });
        }
        let (image, label) = self.image(index);
        let image = Array::new(image.to_vec(), &[SIDE, SIDE])?;
        Ok(Sample::new().with("image", image).with("label", Array::scalar(i64::from(label))))
    }
}

/// The pieces of a digit in image coordinates: shaky, scaled, slanted,
/// turned, moved.
fn write(digit: usize, hand: usize, random: &mut Random) -> Vec<Piece> {
    let middle = SIDE as f32 / 2.0;
    let (width, height) = (random.range(10.0, 18.0), random.range(14.0, 21.0));
    let slant = random.range(-0.3, 0.3);
    let angle = random.range(-0.22, 0.22);
    let (sin, cos) = (libm::sinf(angle), libm::cosf(angle));
    let shift = [middle + random.range(-2.2, 2.2), middle + random.range(-2.2, 2.2)];
    let shake = random.range(0.01, 0.05);
    glyphs::pieces(digit, hand, |point| {
        let x = (point[0] - 0.5 + shake * random.normal()) * width;
        let y = (point[1] - 0.5 + shake * random.normal()) * height;
        let x = x - slant * y;
        [cos * x - sin * y + shift[0], sin * x + cos * y + shift[1]]
    })
}

/// Draws the pieces with a round pen; `ink` is 1 where the pen was.
fn stroke(pieces: &[Piece], radius: f32, ink: &mut [f32; SIDE * SIDE]) {
    const STEPS: usize = 10;
    for piece in pieces {
        let steps = if piece.count == 2 { 1 } else { STEPS };
        let mut from = piece.at(0.0);
        for step in 1..=steps {
            let to = piece.at(step as f32 / steps as f32);
            segment(from, to, radius, ink);
            from = to;
        }
    }
}

/// Draws a straight line: ink falls off over one pixel at the pen's rim.
fn segment(from: Point, to: Point, radius: f32, ink: &mut [f32; SIDE * SIDE]) {
    let reach = radius + 0.5;
    let low = |axis: usize| pixel(from[axis].min(to[axis]) - reach);
    let high = |axis: usize| pixel(from[axis].max(to[axis]) + reach + 1.0);
    let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
    let length = (dx * dx + dy * dy).max(1e-12);
    for row in low(1)..high(1) {
        for column in low(0)..high(0) {
            let x = column as f32 + 0.5 - from[0];
            let y = row as f32 + 0.5 - from[1];
            let t = ((x * dx + y * dy) / length).clamp(0.0, 1.0);
            let (ex, ey) = (x - t * dx, y - t * dy);
            let cover = (reach - (ex * ex + ey * ey).sqrt()).clamp(0.0, 1.0);
            let at = &mut ink[row * SIDE + column];
            *at = at.max(cover);
        }
    }
}

/// The pixel at a coordinate, kept within the image.
fn pixel(x: f32) -> usize {
    x.clamp(0.0, SIDE as f32) as usize
}

/// Gray values: strength of the ink, a blot in some images, noise in all.
fn expose(ink: &[f32; SIDE * SIDE], random: &mut Random) -> Image {
    let strength = random.range(140.0, 255.0);
    let noise = random.range(4.0, 34.0);
    let mut gray = ink.map(|cover| cover * strength);
    if random.coin(0.25) {
        let (width, height) = (3 + random.below(5) as usize, 3 + random.below(5) as usize);
        let left = 2 + random.below((SIDE - 4 - width) as u64) as usize;
        let top = 2 + random.below((SIDE - 4 - height) as u64) as usize;
        let shade = if random.coin(0.5) { 0.0 } else { random.range(60.0, 220.0) };
        for row in top..top + height {
            gray[row * SIDE + left..][..width].fill(shade);
        }
    }
    gray.map(|value| (value + noise * grain(random)).clamp(0.0, 255.0) as u8)
}

/// Nearly normal noise from one draw: the sum of four bytes, standardized.
fn grain(random: &mut Random) -> f32 {
    let sum: u32 = random.bits().to_le_bytes().iter().map(|byte| u32::from(*byte)).sum();
    (sum as f32 - 510.0) * (1.0 / 147.8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_function_of_seed_and_index() {
        let (short, long) = (Digits::new(5, 10), Digits::new(5, 1000));
        assert_eq!(short.get(9).unwrap(), long.get(9).unwrap());
        assert_ne!(short.image(9).0, Digits::new(6, 10).image(9).0);
        assert_ne!(short.image(9).0, short.image(8).0);
        assert!(short.get(10).is_err());
    }

    /// Images must not change from release to release or between machines:
    /// saved positions and published accuracies refer to them.
    #[test]
    fn images_are_pinned() {
        let hash = |index| {
            let (image, label) = Digits::new(1, 1).image(index);
            (xxhash_rust::xxh3::xxh3_64(&image), label)
        };
        assert_eq!(
            [hash(0), hash(1), hash(1_000_000)],
            [(192803545361732778, 6), (2082152832146389945, 7), (5573747666794010709, 1)]
        );
    }

    #[test]
    fn labels_are_even_and_every_image_has_ink() {
        let digits = Digits::new(2, 2000);
        let mut counts = [0; 10];
        for index in 0..digits.len() {
            let (image, label) = digits.image(index);
            counts[label as usize] += 1;
            assert!(image.iter().filter(|x| **x > 100).count() > 12, "sample {index}");
        }
        assert!(counts.iter().all(|count| (150..250).contains(count)), "{counts:?}");
    }
}
