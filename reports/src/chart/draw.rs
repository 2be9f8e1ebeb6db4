//! Draws a chart as SVG or PNG.

use std::{collections::HashMap, convert::Infallible};

use plotters::{
    coord::Shift,
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _},
};

use super::{Chart, heat, lanes, planes, rows, text};
use crate::canvas::{Canvas, WIDTH, classes, escaped, paper, without_variables};

/// The room for the title of a file, and the letters that it has room for.
const TITLE_HEIGHT: u32 = 60;
const TITLE_LETTERS: usize = 100;

pub(super) type Area<'a> = DrawingArea<Canvas<'a>, Shift>;
/// Fonts are part of the program and bitmaps are in memory, so that drawing does not fail.
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<Infallible>>;

impl Chart {
    /// Whether there is a picture, and not a table alone.
    pub fn has_picture(&self) -> bool {
        !matches!(self, Chart::Table(_))
    }

    /// The SVG element for a page, whose style sheet has the colours; empty if there is no picture.
    pub fn svg(&self, title: &str) -> String {
        let Some(height) = self.height() else { return String::new() };
        let mut inside = String::new();
        let outcome = self.draw(&Canvas::svg(&mut inside, (WIDTH, height)).into_drawing_area());
        debug_assert!(outcome.is_ok(), "{outcome:?}");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{}\" font-family=\"system-ui, sans-serif\">\n{inside}</svg>",
            escaped(title)
        )
    }

    /// The SVG file, which is fit for print by itself: it has its title and its size, white paper and plain colours, and names its fonts.
    pub fn svg_file(&self, title: &str) -> String {
        let Some(height) = self.height() else { return String::new() };
        let svg = self.svg(title);
        let Some((_, inside)) = svg.split_once(">\n") else { return String::new() };
        let heading = text::shortened(title, TITLE_LETTERS);
        let height = height + TITLE_HEIGHT;
        let file = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n<title>{}</title>\n<style>{}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"20\" y=\"40\" font-size=\"30\" font-weight=\"bold\" class=\"fill-ink\">{}</text>\n\
             <g transform=\"translate(0 {TITLE_HEIGHT})\">\n{}</g></svg>",
            WIDTH / 2,
            height / 2,
            escaped(title),
            classes(),
            escaped(&heading),
            inside.trim_end_matches("</svg>"),
        );
        without_variables(&file)
    }

    /// The PNG file, on white; empty if there is no picture.
    pub fn png(&self) -> Vec<u8> {
        let Some(height) = self.height() else { return Vec::new() };
        let mut pixels = vec![255; WIDTH as usize * height as usize * 3];
        let area = Canvas::png(&mut pixels, (WIDTH, height)).into_drawing_area();
        let outcome = area.fill(&paper()).and_then(|()| self.draw(&area));
        debug_assert!(outcome.is_ok(), "{outcome:?}");
        drop(area);
        encoded(&pixels, height)
    }

    /// The height in units; absent if there is no picture.
    fn height(&self) -> Option<u32> {
        match self {
            Chart::Planes(planes) => Some(planes::height(planes)),
            Chart::Rows(rows) => Some(rows::height(rows)),
            Chart::Heat(heat) => Some(heat::height(heat)),
            Chart::Lanes(lanes) => Some(lanes::height(lanes)),
            Chart::Table(_) => None,
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        match self {
            Chart::Planes(planes) => planes::draw(planes, area),
            Chart::Rows(rows) => rows::draw(rows, area),
            Chart::Heat(heat) => heat::draw(heat, area),
            Chart::Lanes(lanes) => lanes::draw(lanes, area),
            Chart::Table(_) => Ok(()),
        }
    }
}

/// The PNG file of the pixels. With 32 tones of each primary colour, most pictures have at most 256 colours, so that a pixel takes a byte
/// instead of three.
fn encoded(pixels: &[u8], height: u32) -> Vec<u8> {
    let tone = |value: u8| ((u32::from(value) * 31 + 127) / 255 * 255 / 31) as u8;
    let colour = |pixel: &[u8]| [tone(pixel[0]), tone(pixel[1]), tone(pixel[2])];
    let mut palette: Vec<[u8; 3]> = Vec::new();
    let mut of_colour: HashMap<[u8; 3], u8> = HashMap::new();
    let mut indexed = Vec::with_capacity(pixels.len() / 3);
    for pixel in pixels.chunks_exact(3) {
        let colour = colour(pixel);
        let index = match of_colour.get(&colour) {
            Some(index) => *index,
            None => {
                let Ok(index) = u8::try_from(palette.len()) else { break };
                palette.push(colour);
                of_colour.insert(colour, index);
                index
            }
        };
        indexed.push(index);
    }
    let is_indexed = indexed.len() == pixels.len() / 3;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, WIDTH, height);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.set_color(if is_indexed { png::ColorType::Indexed } else { png::ColorType::Rgb });
    if is_indexed {
        encoder.set_palette(palette.concat());
        encoder.set_filter(png::Filter::NoFilter);
    }
    let data = if is_indexed { &indexed } else { pixels };
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(data));
    debug_assert!(written.is_ok(), "a buffer in memory of the size of the picture: {written:?}");
    file
}
