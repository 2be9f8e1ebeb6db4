//! The training transform of torchvision's references for ImageNet: a random part of an image, resized and
//! mirrored at random (Szegedy et al., CVPR 2015).

use fast_image_resize::{
    FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer,
    images::{CroppedImage, Image, ImageRef},
};
use fastrand::Rng;

use super::{decode::RgbImage, pixels::COLOURS};

/// A part of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Crop {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

/// Appends `[side, side, 3]` of a random part of `image` to `pixels`, mirrored in half of the cases.
///
/// The part covers 8 % to 100 % of the image, and its ratio of width to height is 3/4 to 4/3. Interpolation is bilinear with
/// the wider filter of Pillow for shrinking; values differ from Pillow's by one level of 255 at most.
pub(super) fn random_resized(image: &RgbImage, side: u32, rng: &mut Rng, pixels: &mut Vec<u8>) {
    let RgbImage { width, height, pixels: ref whole } = *image;
    let Crop { left, top, width: crop_width, height: crop_height } = random_crop(width, height, rng);
    let whole = ImageRef::new(width, height, whole, PixelType::U8x3)
        .expect("an image holds three bytes for each of its pixels");
    let part = CroppedImage::new(&whole, left, top, crop_width, crop_height)
        .expect("a random crop lies within its image");
    let mut resized = Image::new(side, side, PixelType::U8x3);
    let bilinear = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    Resizer::new()
        .resize(&part, &mut resized, &bilinear)
        .expect("both images have the same, supported type of pixels");

    if rng.bool() {
        let row_bytes = (side * COLOURS) as usize;
        for row in resized.buffer().chunks_exact(row_bytes) {
            pixels.extend(row.rchunks_exact(COLOURS as usize).flatten());
        }
    } else {
        pixels.extend_from_slice(resized.buffer());
    }
}

fn random_crop(width: u32, height: u32, rng: &mut Rng) -> Crop {
    const AREA: [f64; 2] = [0.08, 1.0];
    const RATIO: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0];
    /// In a long image, few random parts lie inside.
    const TRIES: u32 = 10;
    let mut between = |[low, high]: [f64; 2]| low + (high - low) * rng.f64();
    let (whole_width, whole_height) = (f64::from(width), f64::from(height));
    for _ in 0..TRIES {
        let area = whole_width * whole_height * between(AREA);
        let ratio = between(RATIO.map(f64::ln)).exp();
        let [crop_width, crop_height] =
            [area * ratio, area / ratio].map(|square| square.sqrt().round() as u32);
        if (1..=width).contains(&crop_width) && (1..=height).contains(&crop_height) {
            let [left, top] = [width - crop_width, height - crop_height].map(|room| rng.u32(..=room));
            return Crop { left, top, width: crop_width, height: crop_height };
        }
    }
    // The largest part in the middle that has one of the ratios.
    let crop_width = whole_width.min((whole_height * RATIO[1]).round()) as u32;
    let crop_height = whole_height.min((whole_width / RATIO[0]).round()) as u32;
    let [left, top] = [(width - crop_width) / 2, (height - crop_height) / 2];
    Crop { left, top, width: crop_width, height: crop_height }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crops_have_the_areas_and_ratios_that_are_asked_for() {
        let mut rng = Rng::with_seed(1);
        let (mut areas, mut widest, mut tallest) = (Vec::new(), 0.0_f64, f64::MAX);
        for _ in 0..10_000 {
            let Crop { left, top, width, height } = random_crop(500, 375, &mut rng);
            assert!(left + width <= 500 && top + height <= 375);
            areas.push(f64::from(width * height) / (500.0 * 375.0));
            let ratio = f64::from(width) / f64::from(height);
            (widest, tallest) = (widest.max(ratio), tallest.min(ratio));
        }
        let (smallest, largest) =
            (areas.iter().copied().fold(1.0, f64::min), areas.iter().copied().fold(0.0, f64::max));
        assert!((0.077..0.09).contains(&smallest) && (0.95..=1.0).contains(&largest), "{smallest} {largest}");
        assert!((1.31..1.35).contains(&widest) && (0.74..0.76).contains(&tallest), "{widest} {tallest}");
        // Large parts are more often outside of the image and drawn again, so the mean is below that of the
        // areas.
        let mean = areas.iter().sum::<f64>() / areas.len() as f64;
        assert!((0.42..0.54).contains(&mean), "{mean}");
    }

    #[test]
    fn of_a_long_image_it_is_the_middle() {
        let mut rng = Rng::with_seed(1);
        for (size, expected) in [
            ((1000, 3), Crop { left: 498, top: 0, width: 4, height: 3 }),
            ((3, 1000), Crop { left: 0, top: 498, width: 3, height: 4 }),
            ((1, 1), Crop { left: 0, top: 0, width: 1, height: 1 }),
        ] {
            assert_eq!(random_crop(size.0, size.1, &mut rng), expected, "{size:?}");
        }
    }

    #[test]
    fn the_part_is_resized_and_mirrored_in_half_of_the_cases() {
        // Red grows to the right, green to the bottom, blue is the same all over.
        let image = RgbImage::from_fn(200, 200, |x, y| [x as u8, y as u8, 77]);
        let mut rng = Rng::with_seed(1);
        let mut mirrored = 0;
        for _ in 0..400 {
            let mut pixels = vec![9];
            random_resized(&image, 16, &mut rng, &mut pixels);
            let pixels = &pixels[1..];
            assert_eq!(pixels.len(), 16 * 16 * 3);
            assert!(pixels.chunks(3).all(|pixel| pixel[2] == 77));
            let (first, right, below) = (&pixels[..3], &pixels[15 * 3..16 * 3], &pixels[15 * 16 * 3..]);
            assert!(below[1] > first[1] && right[1] == first[1], "top stays on top");
            mirrored += u32::from(right[0] < first[0]);
        }
        assert!((160..240).contains(&mirrored), "{mirrored} of 400");
    }

    #[test]
    fn what_shrinks_is_averaged_and_not_picked() {
        // Stripes of one pixel average to grey.
        let image = RgbImage::from_fn(256, 256, |x, _| [if x % 2 == 0 { 0 } else { 200 }; 3]);
        let mut pixels = Vec::new();
        random_resized(&image, 8, &mut Rng::with_seed(2), &mut pixels);
        assert!(pixels.iter().all(|value| (85..115).contains(value)), "{pixels:?}");
    }
}
