//! JPEG and PNG files as RGB of 8 bits. The content decides the format, because extensions may be wrong, even in ImageNet.

use std::io::Cursor;

use png::{BitDepth, ColorType, Transformations};
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, options::DecoderOptions},
};

use super::pixels::COLOURS;

/// An image in memory: `[height, width, 3]`, row by row.
pub(super) struct RgbImage {
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<u8>,
}

#[cfg(test)]
impl RgbImage {
    pub(super) fn from_fn(width: u32, height: u32, colour: impl Fn(u32, u32) -> [u8; 3]) -> RgbImage {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        RgbImage { width, height, pixels: places.flat_map(|(x, y)| colour(x, y)).collect() }
    }
}

/// The reason why bytes are no image.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("it is neither a JPEG nor a PNG file")]
    UnknownFormat,
    #[error("{0}")]
    Jpeg(String),
    #[error("{0}")]
    Png(#[from] png::DecodingError),
}

/// Decodes a whole file. Alpha is dropped, grey becomes colour, and of 16 bits the nearest value of 8 is taken.
pub(super) fn decode(file: &[u8]) -> Result<RgbImage, DecodeError> {
    const JPEG: &[u8] = &[0xff, 0xd8, 0xff];
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
    if file.starts_with(JPEG) {
        decode_jpeg(file)
    } else if file.starts_with(PNG) {
        decode_png(file)
    } else {
        Err(DecodeError::UnknownFormat)
    }
}

fn decode_jpeg(file: &[u8]) -> Result<RgbImage, DecodeError> {
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX));
    // It gives RGB, whatever the colours of the file are.
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    let pixels = decoder.decode().map_err(|error| DecodeError::Jpeg(error.to_string()))?;
    let info = decoder.info().expect("its headers were decoded");
    Ok(RgbImage { width: u32::from(info.width), height: u32::from(info.height), pixels })
}

fn decode_png(file: &[u8]) -> Result<RgbImage, DecodeError> {
    let mut decoder = png::Decoder::new(Cursor::new(file));
    // A palette becomes colours, and fewer than 8 bits become 8.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or(png::DecodingError::LimitsExceeded)?];
    let frame = reader.next_frame(&mut bytes)?;
    bytes.truncate(frame.buffer_size());
    if frame.bit_depth == BitDepth::Sixteen {
        // 65535 is 255 times 257.
        let nearest = |pair: &[u8]| ((u32::from(pair[0]) * 256 + u32::from(pair[1]) + 128) / 257) as u8;
        bytes = bytes.chunks_exact(2).map(nearest).collect();
    }
    let pixels = match frame.color_type {
        ColorType::Rgb => bytes,
        ColorType::Rgba => bytes.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        ColorType::Grayscale => bytes.iter().flat_map(|grey| [*grey; COLOURS as usize]).collect(),
        ColorType::GrayscaleAlpha => bytes.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        ColorType::Indexed => unreachable!("the palette was expanded"),
    };
    Ok(RgbImage { width: frame.width, height: frame.height, pixels })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG file of two pixels.
    fn png(colour: ColorType, depth: BitDepth, data: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 1);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if colour == ColorType::Indexed {
            encoder.set_palette(vec![1, 2, 3, 250, 251, 252]);
        }
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        file
    }

    #[test]
    fn every_kind_of_png_becomes_rgb() {
        use BitDepth::{Eight, One, Sixteen};
        for (colour, depth, data, expected) in [
            (ColorType::Rgb, Eight, &[1, 2, 3, 4, 5, 6][..], [1, 2, 3, 4, 5, 6]),
            (ColorType::Rgba, Eight, &[1, 2, 3, 0, 4, 5, 6, 9], [1, 2, 3, 4, 5, 6]),
            (ColorType::Grayscale, Eight, &[7, 8], [7, 7, 7, 8, 8, 8]),
            (ColorType::Grayscale, One, &[0b0100_0000], [0, 0, 0, 255, 255, 255]),
            (ColorType::GrayscaleAlpha, Eight, &[7, 0, 8, 255], [7, 7, 7, 8, 8, 8]),
            (ColorType::Indexed, One, &[0b1000_0000], [250, 251, 252, 1, 2, 3]),
            // 0x0180 / 257 is 1.49, and 0x0182 / 257 is 1.502.
            (ColorType::Grayscale, Sixteen, &[0x01, 0x80, 0x01, 0x82], [1, 1, 1, 2, 2, 2]),
        ] {
            let image = decode(&png(colour, depth, data)).unwrap();
            assert_eq!((image.width, image.height), (2, 1));
            assert_eq!(image.pixels, expected, "{colour:?} of {depth:?}");
        }
    }

    #[test]
    fn every_kind_of_jpeg_becomes_rgb() {
        use jpeg_encoder::ColorType::{Cmyk, Luma, Rgb};
        for (colour, pixel, expected) in [
            (Rgb, &[200, 30, 90][..], [200, 30, 90]),
            (Luma, &[120], [120; 3]),
            // Of Adobe's inverted kind, as is usual: no ink but black, of which a half.
            (Cmyk, &[0, 0, 0, 128], [127; 3]),
        ] {
            let mut file = Vec::new();
            jpeg_encoder::Encoder::new(&mut file, 100)
                .encode(&pixel.repeat(16 * 24), 16, 24, colour)
                .unwrap();
            let image = decode(&file).unwrap();
            assert_eq!((image.width, image.height, image.pixels.len()), (16, 24, 16 * 24 * 3));
            let close = |(value, wanted): (&u8, &u8)| value.abs_diff(*wanted) <= 3;
            assert!(
                image.pixels.chunks(3).all(|pixel| pixel.iter().zip(&expected).all(close)),
                "{colour:?}: {:?}",
                &image.pixels[..3]
            );
        }
    }

    #[test]
    fn what_is_no_image_is_an_error() {
        let whole = png(ColorType::Rgb, BitDepth::Eight, &[0; 6]);
        for file in [&b"no image"[..], &[0xff, 0xd8, 0xff, 0xe0, 0, 1], &whole[..whole.len() - 20], b""] {
            assert!(decode(file).is_err(), "{file:?}");
        }
    }
}
