//! Images as text for a terminal, and as PNG for event files.

use std::io::Write;

use flate2::{Compression, Crc, write::ZlibEncoder};

use crate::error::{Error, Result};

/// A gray image as half blocks, two rows a line, without color.
///
/// ```
/// use talweg_data::rendering::ascii;
/// assert_eq!(ascii(&[255, 0, 255, 0, 255, 0, 0, 0, 0], 3), "▀▄▀\n   \n");
/// ```
pub fn ascii(gray: &[u8], width: usize) -> String {
    let block = |top: u8, bottom: u8| match (top >= 128, bottom >= 128) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    };
    halves(gray, width, |line, top, bottom| line.push(block(top, bottom)), "\n")
}

/// A gray image as half blocks in 24 shades, for terminals with 256 colors.
pub fn shaded(gray: &[u8], width: usize) -> String {
    let shade = |gray: u8| 232 + u16::from(gray) * 23 / 255;
    let cell = |line: &mut String, top: u8, bottom: u8| {
        *line += &format!("\x1b[38;5;{};48;5;{}m▀", shade(top), shade(bottom));
    };
    halves(gray, width, cell, "\x1b[0m\n")
}

/// Walks over pairs of rows; a missing last row is black.
fn halves(gray: &[u8], width: usize, cell: impl Fn(&mut String, u8, u8), end: &str) -> String {
    let mut text = String::new();
    for rows in gray.chunks(2 * width.max(1)) {
        let (top, bottom) = rows.split_at(rows.len().min(width.max(1)));
        for (column, pixel) in top.iter().enumerate() {
            cell(&mut text, *pixel, bottom.get(column).copied().unwrap_or(0));
        }
        text += end;
    }
    text
}

/// Encodes 8-bit pixels as PNG: 1 channel gray, 2 gray and alpha, 3 RGB, 4 RGBA.
///
/// # Errors
/// If the number of channels is another, or the sizes do not fit the pixels.
pub fn png(pixels: &[u8], height: usize, width: usize, channels: usize) -> Result<Vec<u8>> {
    let color = match channels {
        1 => 0,
        2 => 4,
        3 => 2,
        4 => 6,
        _ => return Err(Error::mismatch(format!("a PNG has 1 to 4 channels, not {channels}"))),
    };
    let stride = width.checked_mul(channels);
    let fits = stride.and_then(|stride| stride.checked_mul(height)) == Some(pixels.len());
    let (Ok(wide), Ok(high), true) = (u32::try_from(width), u32::try_from(height), fits) else {
        return Err(Error::mismatch(format!("{} bytes are no image of {height} × {width} × {channels}", pixels.len())));
    };
    if pixels.is_empty() {
        return Err(Error::mismatch("a PNG has at least one pixel"));
    }
    let mut header = [wide.to_be_bytes(), high.to_be_bytes()].concat();
    header.extend([8, color, 0, 0, 0]);
    let zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    let packed = pack(zlib, pixels, width * channels);
    let packed = packed.map_err(|error| Error::io("compress", "image", error))?;
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, body) in [(b"IHDR", &header), (b"IDAT", &packed), (b"IEND", &Vec::new())] {
        png.extend((body.len() as u32).to_be_bytes());
        let mut crc = Crc::new();
        crc.update(kind);
        crc.update(body);
        png.extend(kind);
        png.extend(body);
        png.extend(crc.sum().to_be_bytes());
    }
    Ok(png)
}

/// Rows with filter byte 0 (none), compressed.
fn pack(mut zlib: ZlibEncoder<Vec<u8>>, pixels: &[u8], stride: usize) -> std::io::Result<Vec<u8>> {
    for row in pixels.chunks(stride) {
        zlib.write_all(&[0])?;
        zlib.write_all(row)?;
    }
    zlib.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shaded_images_end_every_line() {
        let text = shaded(&[0, 255, 255, 0], 2);
        assert_eq!(text, "\x1b[38;5;232;48;5;255m▀\x1b[38;5;255;48;5;232m▀\x1b[0m\n");
        assert_eq!(ascii(&[], 0), "");
    }

    #[test]
    fn impossible_pngs_are_refused() {
        let message = |r: Result<Vec<u8>>| r.unwrap_err().to_string();
        assert_eq!(message(png(&[0; 5], 2, 2, 1)), "5 bytes are no image of 2 × 2 × 1");
        assert_eq!(message(png(&[0; 20], 2, 2, 5)), "a PNG has 1 to 4 channels, not 5");
        assert!(message(png(&[], 0, 3, 1)).contains("at least one pixel"));
    }

    #[cfg(feature = "image")]
    #[test]
    fn a_decoder_reads_the_same_pixels() {
        let pixels: Vec<u8> = (0..5 * 7 * 3).map(|x| (x * 37 % 256) as u8).collect();
        let png = png(&pixels, 5, 7, 3).unwrap();
        let decoded = image::load_from_memory(&png).unwrap().to_rgb8();
        assert_eq!((decoded.dimensions(), decoded.as_raw()), ((7, 5), &pixels));
    }
}
