//! Images in folders, one folder a class: `root/cat/1.png`, `root/dog/2.jpg`.
//!
//! The folders are listed at once; images are decoded when they are asked
//! for, by the loader's threads.

use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType, Transformations};
use zune_jpeg::zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};

use crate::array::Array;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::sample::Sample;

/// Endings of files that are taken; others are passed over.
const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];

/// `image` (`u8`, `[height, width, 3]`) and `label` (`i64`): the place of the
/// folder's name in alphabetical order.
///
/// Images of different sizes need [`Augment::resize`](crate::Augment::resize)
/// or a crop before they can be stacked.
#[derive(Clone, Debug)]
pub struct Images {
    classes: Vec<String>,
    files: Vec<(PathBuf, usize)>,
    gray: bool,
}

impl Images {
    /// Lists the images below a folder.
    ///
    /// # Errors
    /// If the folder is missing, has no folders in it, or one without images.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        let mut folders = list(root)?;
        folders.retain(|path| path.is_dir());
        if folders.is_empty() {
            return Err(Error::format(root, "expected a folder for each class, found none"));
        }
        let (mut classes, mut files) = (Vec::new(), Vec::new());
        for (label, folder) in folders.iter().enumerate() {
            let mut images = list(folder)?;
            images.retain(|path| is_image(path));
            if images.is_empty() {
                return Err(Error::format(folder, format!("expected images ({}), found none", ENDINGS.join(", "))));
            }
            files.extend(images.into_iter().map(|path| (path, label)));
            classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        Ok(Images { classes, files, gray: false })
    }

    /// Decodes to gray: `image` is `[height, width]`.
    #[must_use]
    pub fn gray(mut self) -> Self {
        self.gray = true;
        self
    }

    /// The names of the classes by label.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The file of a sample.
    pub fn path(&self, index: usize) -> Option<&Path> {
        self.files.get(index).map(|(path, _)| path.as_path())
    }
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize) -> Result<Sample> {
        let len = self.len();
        let (path, label) = self.files.get(index).ok_or(Error::OutOfRange { index, len })?;
        let image = decode(path, self.gray)?;
        Ok(Sample::new().with("image", image).with("label", Array::scalar(*label as i64)))
    }

    fn check_labels(&self, field: &str, classes: usize) -> Result<()> {
        if field != "label" {
            return Err(Error::mismatch(format!("there is no field {field:?} with labels, only \"label\"")));
        }
        // No image needs decoding for this.
        (0..self.len()).try_for_each(|i| crate::dataset::check_label(i, self.files[i].1 as i64, classes))
    }
}

fn decode(path: &Path, gray: bool) -> Result<Array> {
    let content = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
    decode_image(path, &content, gray)
}

/// Decodes an image file's content: PNG or JPEG, as the content says and not the file's extension. `path` is for
/// messages.
///
/// # Errors
/// If it is neither PNG nor JPEG, or corrupt.
pub fn decode_image(path: impl AsRef<Path>, content: &[u8], gray: bool) -> Result<Array> {
    let pixels = match content {
        [0x89, b'P', b'N', b'G', ..] => png_pixels(content),
        [0xff, 0xd8, 0xff, ..] => jpeg_pixels(content),
        _ => Err("neither signature is at the start".to_string()),
    };
    let pixels = pixels.map_err(|e| Error::format(path.as_ref(), format!("expected an image (png or jpeg): {e}")))?;
    let (height, width) = (pixels.height, pixels.width);
    if gray { Array::new(pixels.gray(), &[height, width]) } else { Array::new(pixels.rgb(), &[height, width, 3]) }
}

/// Bytes that one image may take.
const BYTES_MAX: usize = 512 << 20;

/// A decoded image: interleaved channels of 8 or 16 bits (big endian); 1 or 2 channels are gray, an even count ends
/// with alpha.
struct Pixels {
    samples: Vec<u8>,
    is_wide: bool,
    channels: usize,
    height: usize,
    width: usize,
}

impl Pixels {
    /// A sample of 8 bits, or of 16.
    fn sample(&self, i: usize) -> (u8, Option<u16>) {
        if !self.is_wide {
            return (self.samples[i], None);
        }
        let wide = u16::from_be_bytes([self.samples[2 * i], self.samples[2 * i + 1]]);
        (((u32::from(wide) + 128) / 257) as u8, Some(wide))
    }

    /// From 0 to 1.
    fn unit(&self, i: usize) -> f32 {
        match self.sample(i) {
            (_, Some(wide)) => f32::from(wide) * (1.0 / f32::from(u16::MAX)),
            (narrow, None) => f32::from(narrow) * (1.0 / f32::from(u8::MAX)),
        }
    }

    fn rgb(self) -> Vec<u8> {
        if self.channels == 3 && !self.is_wide {
            return self.samples;
        }
        let color = |pixel| [0, 1, 2].map(|c| self.sample(pixel + if self.channels < 3 { 0 } else { c }).0);
        (0..self.height * self.width).flat_map(|i| color(i * self.channels)).collect()
    }

    fn gray(self) -> Vec<u8> {
        if self.channels == 1 && !self.is_wide {
            return self.samples;
        }
        // The luminance of BT.709's primaries with the white point D65.
        let luma = |i| 0.212_647_81 * self.unit(i) + 0.715_179_15 * self.unit(i + 1) + 0.072_173_04 * self.unit(i + 2);
        let gray = |i| if self.channels < 3 { self.sample(i).0 } else { (luma(i) * 255.0).round() as u8 };
        (0..self.height * self.width).map(|i| gray(i * self.channels)).collect()
    }
}

fn png_pixels(content: &[u8]) -> Result<Pixels, String> {
    let limits = png::Limits { bytes: BYTES_MAX };
    let mut decoder = png::Decoder::new_with_limits(std::io::Cursor::new(content), limits);
    // Palettes and fewer bits than 8 become 8 bits; 16 stay.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
    let bytes = reader.output_buffer_size().filter(|bytes| *bytes <= BYTES_MAX).ok_or("it is too large")?;
    let mut samples = vec![0; bytes];
    reader.next_frame(&mut samples).map_err(|e| e.to_string())?;
    let (color, depth) = reader.output_color_type();
    let channels = match color {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb | ColorType::Indexed => 3,
        ColorType::Rgba => 4,
    };
    let (height, width) = (reader.info().height as usize, reader.info().width as usize);
    Ok(Pixels { samples, is_wide: depth == BitDepth::Sixteen, channels, height, width })
}

fn jpeg_pixels(content: &[u8]) -> Result<Pixels, String> {
    let options = DecoderOptions::default().set_strict_mode(false).set_max_width(usize::MAX).set_max_height(usize::MAX);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(content), options);
    decoder.decode_headers().map_err(|e| e.to_string())?;
    let is_gray = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (space, channels) = if is_gray { (ColorSpace::Luma, 1) } else { (ColorSpace::RGB, 3) };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let (width, height) = decoder.dimensions().ok_or("it has no size")?;
    if height * width * channels > BYTES_MAX {
        return Err("it is too large".to_string());
    }
    let samples = decoder.decode().map_err(|e| e.to_string())?;
    Ok(Pixels { samples, is_wide: false, channels, height, width })
}

/// What lies in a folder, sorted by name: the order of the operating system
/// differs from machine to machine. Hidden files are passed over.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("list", folder, error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.retain(|path| !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.'));
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    ENDINGS.contains(&ending.as_str()) && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Augment, Loader, rendering};

    /// Two classes, three images.
    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, height, value) in [("dog/a.png", 3, 10), ("cat/b.PNG", 4, 20), ("cat/a.png", 5, 30)] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, rendering::png(&vec![value; height * 2 * 3], height, 2, 3).unwrap()).unwrap();
        }
        std::fs::write(root.path().join("cat/notes.txt"), "no image").unwrap();
        std::fs::write(root.path().join("README"), "no class").unwrap();
        root
    }

    #[test]
    fn classes_and_images_are_sorted() {
        let root = folder();
        let set = Images::open(root.path()).unwrap();
        assert_eq!((set.classes(), set.len()), (&["cat".to_owned(), "dog".to_owned()][..], 3));
        let sample = set.get(0).unwrap();
        assert_eq!(sample.array("image").unwrap(), &Array::new(vec![30u8; 30], &[5, 2, 3]).unwrap());
        assert_eq!(set.get(2).unwrap().array("label").unwrap().integer().unwrap(), 1);
        assert!(set.path(2).unwrap().ends_with("dog/a.png"));
        assert_eq!(set.clone().gray().get(1).unwrap().array("image").unwrap().shape(), [4, 2]);
        assert!(set.check_labels("label", 2).is_ok() && set.check_labels("label", 1).is_err());

        let same = set.vary(1, Augment::new().resize(4, 4).jitter(0.2, 0.2, 0.2).on("image"));
        let batch = Loader::builder(same).batch(3).build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.array("image").unwrap().shape(), [3, 4, 4, 3]);
    }

    #[test]
    fn jpeg() {
        let root = folder();
        let path = root.path().join("dog/z.jpeg");
        image::RgbImage::from_pixel(16, 8, image::Rgb([200, 100, 50])).save(&path).unwrap();
        let image = Images::open(root.path()).unwrap().get(3).unwrap().array("image").unwrap().clone();
        assert_eq!(image.shape(), [8, 16, 3]);
        let first = &image.values::<u8>().unwrap()[..3];
        assert!(first.iter().zip([200u8, 100, 50]).all(|(a, b)| a.abs_diff(b) < 6), "{first:?}");
    }

    /// Random pixels in every layout of PNG and both of JPEG.
    #[test]
    fn pixels_are_those_of_the_image_crate() {
        use image::{DynamicImage, ImageFormat};
        let (height, width) = (33, 50);
        let mut random = crate::random::Random::new(7, 0, 0);
        let mut bytes = |n: usize| (0..n * height * width).map(|_| random.bits() as u8).collect::<Vec<_>>();
        let mut images: Vec<(DynamicImage, ImageFormat)> = Vec::new();
        let (w, h) = (width as u32, height as u32);
        let wide = |b: Vec<u8>| b.chunks(2).map(|p| u16::from_ne_bytes([p[0], p[1]])).collect::<Vec<_>>();
        images.push((image::GrayImage::from_raw(w, h, bytes(1)).unwrap().into(), ImageFormat::Png));
        images.push((image::GrayAlphaImage::from_raw(w, h, bytes(2)).unwrap().into(), ImageFormat::Png));
        images.push((image::RgbImage::from_raw(w, h, bytes(3)).unwrap().into(), ImageFormat::Png));
        images.push((image::RgbaImage::from_raw(w, h, bytes(4)).unwrap().into(), ImageFormat::Png));
        let deep = image::ImageBuffer::<image::Luma<u16>, _>::from_raw(w, h, wide(bytes(2))).unwrap();
        images.push((deep.into(), ImageFormat::Png));
        let deep = image::ImageBuffer::<image::Rgb<u16>, _>::from_raw(w, h, wide(bytes(6))).unwrap();
        images.push((deep.into(), ImageFormat::Png));
        images.push((image::GrayImage::from_raw(w, h, bytes(1)).unwrap().into(), ImageFormat::Jpeg));
        images.push((image::RgbImage::from_raw(w, h, bytes(3)).unwrap().into(), ImageFormat::Jpeg));
        for (image, format) in images {
            let mut file = std::io::Cursor::new(Vec::new());
            image.write_to(&mut file, format).unwrap();
            let same = image::load_from_memory(file.get_ref()).unwrap();
            let ours = |gray| decode_image("x", file.get_ref(), gray).unwrap().values::<u8>().unwrap().to_vec();
            assert_eq!(ours(false), same.to_rgb8().into_raw(), "{:?}", image.color());
            assert_eq!(ours(true), same.to_luma8().into_raw(), "{:?}", image.color());
        }
    }

    #[test]
    fn missing_and_empty_folders() {
        let root = folder();
        let message = |path: &str| Images::open(root.path().join(path)).unwrap_err().to_string();
        assert!(message("nowhere").starts_with("cannot list ") && message("nowhere").contains("nowhere: "));
        assert!(message("cat").ends_with("cat: expected a folder for each class, found none"));
        std::fs::create_dir(root.path().join("empty")).unwrap();
        assert!(message("").ends_with("empty: expected images (png, jpg, jpeg), found none"));
    }

    #[test]
    fn broken_images_are_named_at_their_batch() {
        let root = folder();
        let path = root.path().join("cat/b.PNG");
        let whole = std::fs::read(&path).unwrap();
        for broken in [&b"not an image"[..], &whole[..whole.len() / 2], b""] {
            std::fs::write(&path, broken).unwrap();
            let set = Images::open(root.path()).unwrap();
            let mut loader = Loader::builder(set).batch(1).workers(2).build().unwrap();
            assert!(loader.next().unwrap().is_ok());
            let error = loader.next().unwrap().unwrap_err().to_string();
            assert!(error.starts_with("epoch 0, batch 1, sample 1: "), "{error}");
            assert!(error.contains("b.PNG: expected an image (png or jpeg): "), "{error}");
            assert!(loader.next().unwrap().is_ok());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
