//! Augmentation of images: crop, flip, resize, color, normalize.
//!
//! An image is `u8` of shape `[height, width]` (gray) or
//! `[height, width, channels]`. What is random is drawn from the stream that
//! [`Dataset::vary`](crate::Dataset::vary) hands in, so an image looks the same
//! whenever the same seed, epoch and index come together.

use crate::array::Array;
use crate::error::{Error, Result};
use crate::random::Random;
use crate::sample::{Name, Sample, Value};

/// A list of steps that are applied in order.
///
/// ```
/// use talweg_data::{Augment, Dataset, Digits};
/// let train = Digits::new(1, 100).vary(
///     7,
///     Augment::new().crop(28, 28, 2).flip(0.5).normalize(&[0.5], &[0.25]).on("image"),
/// );
/// assert_eq!(train.get(0)?.array("image")?.shape(), [1, 28, 28]);
/// assert_ne!(train.get_at(0, 0)?, train.get_at(0, 1)?);
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Augment {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Crop { height: usize, width: usize, padding: usize },
    Center { height: usize, width: usize },
    Flip(f32),
    Resize { height: usize, width: usize },
    Jitter { brightness: f32, contrast: f32, saturation: f32 },
    Normalize { mean: Vec<f32>, deviation: Vec<f32> },
}

impl Augment {
    /// No steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts out `height × width` at a random place, after adding a black border
    /// of `padding` pixels.
    pub fn crop(self, height: usize, width: usize, padding: usize) -> Self {
        self.then(Step::Crop { height, width, padding })
    }

    /// Cuts out the middle; for evaluation.
    pub fn center(self, height: usize, width: usize) -> Self {
        self.then(Step::Center { height, width })
    }

    /// Mirrors left and right with the given chance.
    pub fn flip(self, chance: f32) -> Self {
        self.then(Step::Flip(chance))
    }

    /// Scales to a size (triangle filter, smooth in both directions).
    pub fn resize(self, height: usize, width: usize) -> Self {
        self.then(Step::Resize { height, width })
    }

    /// Changes brightness, contrast and saturation by random factors between
    /// `1 - x` and `1 + x`.
    pub fn jitter(self, brightness: f32, contrast: f32, saturation: f32) -> Self {
        self.then(Step::Jitter { brightness, contrast, saturation })
    }

    /// Turns the image into `f32` of shape `[channels, height, width]`: values
    /// from 0 to 1, less the mean, divided by the deviation of their channel.
    /// The last step.
    pub fn normalize(self, mean: &[f32], deviation: &[f32]) -> Self {
        self.then(Step::Normalize { mean: mean.to_vec(), deviation: deviation.to_vec() })
    }

    /// As a function of samples that changes the field called `field`.
    pub fn on(self, field: impl Into<Name>) -> impl Fn(Sample, &mut Random) -> Result<Sample> + Send + Sync {
        let field = field.into();
        move |mut sample, random| match sample.get(&field) {
            Some(Value::Array(image)) => {
                let changed = self.apply(image, random)?;
                sample.set(Name::clone(&field), changed);
                Ok(sample)
            }
            _ => Err(Error::mismatch(format!("there is no image {field:?} to augment"))),
        }
    }

    /// Applies the steps to an image.
    ///
    /// # Errors
    /// If it is no image, or too small for a crop, or has other channels than
    /// the normalization.
    pub fn apply(&self, image: &Array, random: &mut Random) -> Result<Array> {
        let mut pixels = Pixels::of(image)?;
        for (place, step) in self.steps.iter().enumerate() {
            match step {
                Step::Crop { height, width, padding } => {
                    let room = |size: usize, part: usize| (size + 2 * padding).checked_sub(part);
                    let rooms = (room(pixels.height, *height), room(pixels.width, *width));
                    let (Some(down), Some(right)) = rooms else {
                        return Err(pixels.too_small(*height, *width, *padding));
                    };
                    let top = random.below(down as u64 + 1) as isize - *padding as isize;
                    let left = random.below(right as u64 + 1) as isize - *padding as isize;
                    pixels = pixels.window(top, left, *height, *width);
                }
                Step::Center { height, width } => {
                    if pixels.height < *height || pixels.width < *width {
                        return Err(pixels.too_small(*height, *width, 0));
                    }
                    let (top, left) = ((pixels.height - height) / 2, (pixels.width - width) / 2);
                    pixels = pixels.window(top as isize, left as isize, *height, *width);
                }
                Step::Flip(chance) => {
                    if random.coin(*chance) {
                        pixels.mirror();
                    }
                }
                Step::Resize { height, width } => pixels = pixels.resize(*height, *width)?,
                Step::Jitter { brightness, contrast, saturation } => {
                    let factors = [brightness, contrast, saturation].map(|x| random.range(1.0 - x, 1.0 + x).max(0.0));
                    pixels.jitter(factors);
                }
                Step::Normalize { mean, deviation } => {
                    if place + 1 != self.steps.len() {
                        return Err(Error::mismatch("normalize must be the last step of an augmentation"));
                    }
                    return pixels.normalize(mean, deviation);
                }
            }
        }
        let shape = [pixels.height, pixels.width, pixels.channels];
        Array::new(pixels.values, &shape[..image.shape().len()])
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

/// An image under work; rows of pixels of channels.
struct Pixels {
    values: Vec<u8>,
    height: usize,
    width: usize,
    channels: usize,
}

impl Pixels {
    fn of(image: &Array) -> Result<Pixels> {
        let (height, width, channels) = match (image.values::<u8>(), image.shape()) {
            (Ok(_), [height, width]) => (*height, *width, 1),
            (Ok(_), [height, width, channels]) => (*height, *width, *channels),
            _ => {
                return Err(Error::mismatch(format!(
                    "expected an image (u8, [height, width] or [height, width, channels]), found {} of shape {:?}",
                    image.dtype(),
                    image.shape()
                )));
            }
        };
        Ok(Pixels { values: image.values::<u8>()?.to_vec(), height, width, channels })
    }

    fn too_small(&self, height: usize, width: usize, padding: usize) -> Error {
        Error::mismatch(format!(
            "cannot crop {height} × {width} out of an image of {} × {} with a border of {padding}",
            self.height, self.width
        ))
    }

    /// A part; what lies outside is black.
    fn window(&self, top: isize, left: isize, height: usize, width: usize) -> Pixels {
        let channels = self.channels;
        let mut values = vec![0; height * width * channels];
        let from = left.max(0) as usize;
        let to = (left + width as isize).clamp(0, self.width as isize) as usize;
        for row in 0..height {
            let source = top + row as isize;
            if source < 0 || source >= self.height as isize || from >= to {
                continue;
            }
            let line = &self.values[source as usize * self.width * channels..][from * channels..to * channels];
            let start = (row * width + (from as isize - left) as usize) * channels;
            values[start..start + line.len()].copy_from_slice(line);
        }
        Pixels { values, height, width, channels }
    }

    fn mirror(&mut self) {
        for row in self.values.chunks_exact_mut((self.width * self.channels).max(1)) {
            row.reverse();
            row.chunks_exact_mut(self.channels).for_each(<[u8]>::reverse);
        }
    }

    fn resize(&self, height: usize, width: usize) -> Result<Pixels> {
        if height == 0 || width == 0 || self.values.is_empty() {
            return Err(Error::mismatch(format!(
                "cannot resize an image of {} × {} to {height} × {width}",
                self.height, self.width
            )));
        }
        let channels = self.channels;
        // First along the rows, then across; floats between the two.
        let mut wide = vec![0.0; self.height * width * channels];
        for (column, (first, weights)) in filter(self.width, width).into_iter().enumerate() {
            for row in 0..self.height {
                for channel in 0..channels {
                    let pixel = |i: usize| f32::from(self.values[(row * self.width + first + i) * channels + channel]);
                    let sum: f32 = weights.iter().enumerate().map(|(i, weight)| weight * pixel(i)).sum();
                    wide[(row * width + column) * channels + channel] = sum;
                }
            }
        }
        let stride = width * channels;
        let mut values = vec![0; height * stride];
        for (row, (first, weights)) in filter(self.height, height).into_iter().enumerate() {
            for place in 0..stride {
                let pixel = |i: usize| wide[(first + i) * stride + place];
                let sum: f32 = weights.iter().enumerate().map(|(i, weight)| weight * pixel(i)).sum();
                values[row * stride + place] = (sum + 0.5) as u8;
            }
        }
        Ok(Pixels { values, height, width, channels })
    }

    /// Factors for brightness, contrast (around the mean gray) and saturation
    /// (around each pixel's gray; images with three channels or more).
    fn jitter(&mut self, [brightness, contrast, saturation]: [f32; 3]) {
        let gray = |pixel: &[u8]| match pixel {
            [r, g, b, ..] => 0.299 * f32::from(*r) + 0.587 * f32::from(*g) + 0.114 * f32::from(*b),
            [value, ..] => f32::from(*value),
            [] => 0.0,
        };
        let count = (self.height * self.width).max(1) as f32;
        let mean = self.values.chunks_exact(self.channels.max(1)).map(gray).sum::<f32>() / count * brightness;
        for pixel in self.values.chunks_exact_mut(self.channels.max(1)) {
            let own = gray(pixel) * brightness;
            let own = mean + (own - mean) * contrast;
            // Alpha, the second or fourth channel, is no color.
            let colors = pixel.len() - usize::from(pixel.len().is_multiple_of(2));
            for value in &mut pixel[..colors] {
                let bright = f32::from(*value) * brightness;
                let sharp = mean + (bright - mean) * contrast;
                *value = (own + (sharp - own) * saturation + 0.5).clamp(0.0, 255.0) as u8;
            }
        }
    }

    fn normalize(&self, mean: &[f32], deviation: &[f32]) -> Result<Array> {
        let channels = self.channels;
        if mean.len() != channels || deviation.len() != channels {
            return Err(Error::mismatch(format!(
                "normalize has {} means and {} deviations for an image of {channels} channels",
                mean.len(),
                deviation.len()
            )));
        }
        if let Some(bad) = deviation.iter().find(|x| **x <= 0.0 || !x.is_finite()) {
            return Err(Error::mismatch(format!("a deviation is above 0, found {bad}")));
        }
        let mut values = Vec::with_capacity(self.values.len());
        for channel in 0..channels {
            let pixels = self.values.iter().skip(channel).step_by(channels);
            values.extend(pixels.map(|x| (f32::from(*x) / 255.0 - mean[channel]) / deviation[channel]));
        }
        Array::new(values, &[channels, self.height, self.width])
    }
}

/// For each of `to` places: the first of `from` places it takes from, and with
/// which weights (triangle filter, widened when it shrinks).
fn filter(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f32 / to as f32;
    let reach = scale.max(1.0);
    let place = |i: usize| {
        let center = (i as f32 + 0.5) * scale;
        let first = (center - reach).max(0.0) as usize;
        let last = ((center + reach).ceil() as usize).min(from);
        let weight = |j: usize| (1.0 - ((j as f32 + 0.5 - center) / reach).abs()).max(0.0);
        let weights: Vec<f32> = (first..last).map(weight).collect();
        let sum: f32 = weights.iter().sum();
        (first, weights.into_iter().map(|weight| weight / sum).collect())
    };
    (0..to).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(height: usize, width: usize, channels: usize) -> Array {
        let values = (0..height * width * channels).map(|x| (x * 7 % 251) as u8).collect();
        Array::new(values, &[height, width, channels]).unwrap()
    }

    fn apply(augment: &Augment, image: &Array, index: u64) -> Result<Array> {
        augment.apply(image, &mut Random::new(1, 0, index))
    }

    #[test]
    fn flip_mirrors_columns_and_keeps_channels() {
        let source = Array::new(vec![1u8, 2, 3, 4, 5, 6], &[1, 2, 3]).unwrap();
        let flipped = apply(&Augment::new().flip(1.0), &source, 0).unwrap();
        assert_eq!(flipped.values::<u8>().unwrap(), [4, 5, 6, 1, 2, 3]);
        assert_eq!(apply(&Augment::new().flip(0.0), &source, 0).unwrap(), source);
    }

    #[test]
    fn crops_are_parts_of_the_padded_image() {
        let source = Array::new((1..=9).collect::<Vec<u8>>(), &[3, 3]).unwrap();
        let center = apply(&Augment::new().center(1, 1), &source, 0).unwrap();
        assert_eq!(center, Array::new(vec![5u8], &[1, 1]).unwrap());
        let crop = Augment::new().crop(3, 3, 1);
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..200 {
            let cut = apply(&crop, &source, index).unwrap().values::<u8>().unwrap().to_vec();
            // The middle pixel tells the shift; the whole must agree with it.
            let middle = i32::from(cut[4]) - 1;
            let (top, left) = (middle / 3 - 1, middle % 3 - 1);
            for (place, value) in cut.iter().enumerate() {
                let (row, column) = (place as i32 / 3 + top, place as i32 % 3 + left);
                let inside = (0..3).contains(&row) && (0..3).contains(&column);
                assert_eq!(i32::from(*value), if inside { row * 3 + column + 1 } else { 0 });
            }
            seen.insert(middle);
        }
        assert_eq!(seen.len(), 9, "every shift occurs");
    }

    #[test]
    fn resize_keeps_means_and_flat_images() {
        let flat = Array::new(vec![77u8; 5 * 8 * 3], &[5, 8, 3]).unwrap();
        let big = apply(&Augment::new().resize(11, 13), &flat, 0).unwrap();
        assert!(big.shape() == [11, 13, 3] && big.values::<u8>().unwrap().iter().all(|x| *x == 77));
        let source = Array::new(vec![0u8, 100, 0, 100, 0, 100, 0, 100], &[2, 4]).unwrap();
        let small = apply(&Augment::new().resize(1, 2), &source, 0).unwrap();
        let values = small.values::<u8>().unwrap();
        assert!(values.iter().all(|x| (40..=60).contains(x)), "{values:?}");
        let same = image(6, 5, 3);
        assert_eq!(apply(&Augment::new().resize(6, 5), &same, 0).unwrap(), same);
    }

    #[test]
    fn jitter_with_nothing_to_change_changes_nothing() {
        let source = image(4, 4, 3);
        assert_eq!(apply(&Augment::new().jitter(0.0, 0.0, 0.0), &source, 0).unwrap(), source);
        let alpha = Array::new(vec![10u8, 20, 30, 200, 40, 50, 60, 100], &[1, 2, 4]).unwrap();
        let changed = apply(&Augment::new().jitter(0.5, 0.5, 0.5), &alpha, 3).unwrap();
        let values = changed.values::<u8>().unwrap();
        assert_eq!((values[3], values[7]), (200, 100));
        assert_ne!(changed, alpha);
    }

    #[test]
    fn normalize_puts_channels_first() {
        let source = Array::new(vec![0u8, 255, 255, 0], &[1, 2, 2]).unwrap();
        let array = apply(&Augment::new().normalize(&[0.0, 0.5], &[1.0, 0.5]), &source, 0).unwrap();
        assert_eq!(array, Array::new(vec![0.0f32, 1.0, 1.0, -1.0], &[2, 1, 2]).unwrap());
    }

    #[test]
    fn impossible_steps_are_named() {
        let message = |augment: Augment| apply(&augment, &image(4, 4, 3), 0).unwrap_err().to_string();
        assert_eq!(
            message(Augment::new().crop(8, 4, 1)),
            "cannot crop 8 × 4 out of an image of 4 × 4 with a border of 1"
        );
        assert!(message(Augment::new().center(5, 1)).contains("cannot crop 5 × 1"));
        assert!(message(Augment::new().resize(0, 3)).contains("cannot resize"));
        assert!(message(Augment::new().normalize(&[0.0], &[1.0])).contains("image of 3 channels"));
        assert!(message(Augment::new().normalize(&[0.0; 3], &[0.0; 3])).contains("above 0, found 0"));
        assert!(message(Augment::new().normalize(&[0.0; 3], &[1.0; 3]).flip(0.5)).contains("last step"));
        let floats = apply(&Augment::new(), &Array::vector(vec![1.0f32]), 0).unwrap_err().to_string();
        assert!(floats.ends_with("found f32 of shape [1]"), "{floats}");
        let missing = Augment::new().on("image")(Sample::new(), &mut Random::new(0, 0, 0)).unwrap_err();
        assert!(missing.to_string().contains("no image \"image\""));
    }

    /// `python/tests/test_readers.py` has the same number.
    #[test]
    fn python_draws_the_same() {
        use crate::Dataset;
        let steps = Augment::new().crop(28, 28, 2).flip(0.5).normalize(&[0.5], &[0.25]);
        let sample = crate::Digits::new(1, 100).vary(7, steps.on("image")).get(0).unwrap();
        let sum: f32 = sample.array("image").unwrap().values::<f32>().unwrap().iter().sum();
        assert!((sum + 1433.553).abs() < 0.01, "{sum}");
    }
}
