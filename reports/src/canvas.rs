//! Where a chart is drawn: an SVG whose colours are classes of a style sheet and whose marks hold their numbers, or the pixels of a
//! PNG. The SVG of plotters itself has fixed colours and no data.

use std::{convert::Infallible, fmt::Write as _};

use plotters::prelude::{BitMapBackend, RGBColor};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontTransform,
    text_anchor::{HPos, VPos},
};

use crate::colours::{Colour, HUES, TONES};

/// The width of all pictures, in units of which a page shows two in a pixel.
pub const WIDTH: u32 = 1720;

/// A backend of plotters with both kinds of picture.
pub struct Canvas<'a> {
    target: Target<'a>,
    size: (u32, u32),
}

enum Target<'a> {
    Svg(&'a mut String),
    Png(Box<BitMapBackend<'a>>),
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl<'a> Canvas<'a> {
    /// Draws into the text of an SVG element, without the element itself.
    pub fn svg(text: &'a mut String, size: (u32, u32)) -> Canvas<'a> {
        Canvas { target: Target::Svg(text), size }
    }

    /// Draws into pixels of three bytes.
    pub fn png(pixels: &'a mut [u8], size: (u32, u32)) -> Canvas<'a> {
        Canvas { target: Target::Png(Box::new(BitMapBackend::with_buffer(pixels, size))), size }
    }

    /// Begins a mark: what is drawn until [`Canvas::close`] shows these data.
    pub fn open(&mut self, data: &[(&str, String)], title: &str) {
        let Target::Svg(text) = &mut self.target else { return };
        text.push_str("<g class=\"mark\"");
        for (name, value) in data {
            let _ = write!(text, " data-{name}=\"{}\"", escaped(value));
        }
        text.push('>');
        if !title.is_empty() {
            let _ = write!(text, "<title>{}</title>", escaped(title));
        }
    }

    /// Ends a mark.
    pub fn close(&mut self) {
        if let Target::Svg(text) = &mut self.target {
            text.push_str("</g>\n");
        }
    }
}

impl DrawingBackend for Canvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Drawn {
        match &mut self.target {
            Target::Png(png) => drawn(png.draw_pixel(point, colour)),
            Target::Svg(_) => self.draw_rect(point, (point.0 + 1, point.1 + 1), &colour, true),
        }
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        match &mut self.target {
            Target::Png(png) => drawn(png.draw_line(from, to, style)),
            Target::Svg(_) => self.draw_path([from, to], style),
        }
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        match &mut self.target {
            Target::Png(png) => drawn(png.draw_rect(from, to, style, fill)),
            Target::Svg(text) => {
                let (x, y, width, height) = (from.0, from.1, to.0 - from.0, to.1 - from.1);
                let _ = writeln!(
                    text,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\"{}/>",
                    width.max(1),
                    height.max(1),
                    painted(style, fill)
                );
                Ok(())
            }
        }
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        match &mut self.target {
            // Segment by segment: plotters draws a path of wide lines with spikes at its sharp corners.
            Target::Png(png) => {
                let path: Vec<BackendCoord> = path.into_iter().collect();
                path.windows(2).try_for_each(|pair| drawn(png.draw_line(pair[0], pair[1], style)))
            }
            Target::Svg(text) => {
                let _ = writeln!(text, "<path d=\"{}\"{}/>", outline(path), painted(style, false));
                Ok(())
            }
        }
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        match &mut self.target {
            Target::Png(png) => drawn(png.draw_circle(center, radius, style, fill)),
            Target::Svg(text) => {
                let (x, y) = center;
                let _ =
                    writeln!(text, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"{}/>", painted(style, fill));
                Ok(())
            }
        }
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        match &mut self.target {
            Target::Png(png) => drawn(png.fill_polygon(corners, style)),
            Target::Svg(text) => {
                let _ = writeln!(text, "<path d=\"{}Z\"{}/>", outline(corners), painted(style, true));
                Ok(())
            }
        }
    }

    fn draw_text<T: BackendTextStyle>(&mut self, words: &str, style: &T, at: BackendCoord) -> Drawn {
        match &mut self.target {
            // The middle of its letters is below the middle of the box that plotters has for a text.
            Target::Png(png) => {
                let down = (style.size() * 0.15).round() as i32;
                drawn(png.draw_text(words, style, (at.0, at.1 + down)))
            }
            Target::Svg(text) => {
                let anchor = match style.anchor().h_pos {
                    HPos::Left => "start",
                    HPos::Center => "middle",
                    HPos::Right => "end",
                };
                // Text has no box in SVG: these are the distances of its base line in units of its size.
                let down = match style.anchor().v_pos {
                    VPos::Top => 0.8,
                    VPos::Center => 0.35,
                    VPos::Bottom => -0.2,
                };
                let y = f64::from(at.1) + down * style.size();
                let turned = match style.transform() {
                    FontTransform::None => String::new(),
                    FontTransform::Rotate90 => format!(" transform=\"rotate(90 {} {})\"", at.0, at.1),
                    FontTransform::Rotate180 => format!(" transform=\"rotate(180 {} {})\"", at.0, at.1),
                    FontTransform::Rotate270 => format!(" transform=\"rotate(-90 {} {})\"", at.0, at.1),
                };
                let _ = writeln!(
                    text,
                    "<text x=\"{}\" y=\"{y:.0}\" font-size=\"{:.0}\" text-anchor=\"{anchor}\"{turned}{}>{}</text>",
                    at.0,
                    style.size(),
                    painted(&style.color(), true),
                    escaped(words)
                );
                Ok(())
            }
        }
    }
}

/// A bitmap in memory has no error to report.
fn drawn<E: std::error::Error + Send + Sync>(result: Result<(), DrawingErrorKind<E>>) -> Drawn {
    match result {
        Err(DrawingErrorKind::FontError(error)) => Err(DrawingErrorKind::FontError(error)),
        Ok(()) | Err(DrawingErrorKind::DrawingError(_)) => Ok(()),
    }
}

fn outline(path: impl IntoIterator<Item = BackendCoord>) -> String {
    let mut text = String::new();
    for (number, (x, y)) in path.into_iter().enumerate() {
        let _ = write!(text, "{}{x} {y}", if number == 0 { 'M' } else { 'L' });
    }
    text
}

/// The attributes of a shape: the class of its colour, and a width or an opacity other than that of the style sheet.
fn painted(style: &impl BackendStyle, fill: bool) -> String {
    let BackendColor { alpha, rgb } = style.color();
    let class = class_of(rgb);
    let mut text =
        if fill { format!(" class=\"fill-{class}\"") } else { format!(" class=\"stroke-{class}\"") };
    if !fill && style.stroke_width() != 1 {
        let _ = write!(text, " stroke-width=\"{}\"", style.stroke_width());
    }
    if alpha < 1.0 {
        let _ = write!(text, " {}-opacity=\"{alpha:.2}\"", if fill { "fill" } else { "stroke" });
    }
    text
}

/// Text that XML and HTML show as it is, in content and in quotes. Characters that XML does not have are replaced.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\r' | '\t' => safe.push(' '),
            letter if letter.is_control() => safe.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

/// The hues of Okabe and Ito in their order of use: blue, vermilion, green, orange, sky blue, purple, and a yellow that is dark enough
/// for white paper.
const HUE: [(u8, u8, u8); HUES as usize] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 137, 0),
    (86, 180, 233),
    (176, 96, 143),
    (148, 138, 24),
];

/// Values on paper, for colours without a hue.
const INK: (u8, u8, u8) = (31, 35, 40);
const MUTED: (u8, u8, u8) = (110, 119, 129);
const GRID: (u8, u8, u8) = (221, 225, 230);
const PAPER: (u8, u8, u8) = (255, 255, 255);
const BAD: (u8, u8, u8) = (180, 20, 40);

/// Paper, which hollow dots are filled with.
pub fn paper() -> RGBColor {
    rgb(PAPER)
}

/// Lines behind the data.
pub fn grid() -> RGBColor {
    rgb(GRID)
}

impl Colour {
    /// The value on paper, which is also what the canvas knows the colour by.
    pub fn on_paper(self) -> RGBColor {
        rgb(match self {
            Colour::Data(number) => data(number),
            Colour::Ink => INK,
            Colour::Muted => MUTED,
            Colour::Bad => BAD,
        })
    }
}

fn rgb((r, g, b): (u8, u8, u8)) -> RGBColor {
    RGBColor(r, g, b)
}

/// The first seven colours are the hues; the next are darker, then lighter.
fn data(number: u8) -> (u8, u8, u8) {
    let hue = HUE[usize::from(number % HUES)];
    match number / HUES % TONES {
        1 => darker(hue),
        2 => lighter(hue),
        _ => hue,
    }
}

fn darker((r, g, b): (u8, u8, u8)) -> (u8, u8, u8) {
    let of = |value: u8| value / 5 * 3;
    (of(r), of(g), of(b))
}

fn lighter((r, g, b): (u8, u8, u8)) -> (u8, u8, u8) {
    let of = |value: u8| value + (255 - value) / 5 * 2;
    (of(r), of(g), of(b))
}

/// The class of a colour that the functions above have made.
fn class_of(colour: (u8, u8, u8)) -> String {
    match colour {
        INK => "ink".into(),
        MUTED => "muted".into(),
        GRID => "grid".into(),
        PAPER => "paper".into(),
        BAD => "bad".into(),
        _ => {
            (0..HUES * TONES).find(|&number| data(number) == colour).map_or("ink".into(), |n| format!("c{n}"))
        }
    }
}

/// The variables of the style sheet: a value for each class.
pub fn variables() -> String {
    spelled(colours())
}

/// The text with each variable replaced by its colour on white, for programs that know no variables.
pub fn without_variables(text: &str) -> String {
    let mut literal = text.to_owned();
    for (name, colour) in colours() {
        literal = literal.replace(&format!("var(--{name})"), &hexadecimal(colour));
    }
    literal
}

fn colours() -> impl Iterator<Item = (String, (u8, u8, u8))> {
    let names = [("ink", INK), ("muted", MUTED), ("grid", GRID), ("paper", PAPER), ("bad", BAD)];
    let data = (0..HUES * TONES).map(|number| (format!("c{number}"), data(number)));
    names.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(data)
}

/// The variables that differ in the dark, where the darker tones would not be seen.
pub fn dark_variables() -> String {
    let names = [
        ("ink", (230, 232, 235)),
        ("muted", (154, 164, 174)),
        ("grid", (52, 58, 65)),
        ("paper", (21, 24, 28)),
        ("bad", (255, 123, 134)),
        ("c0", (31, 127, 196)),
    ];
    let tones = (HUES..2 * HUES).map(|number| (format!("c{number}"), lighter(data(number - HUES))));
    let last =
        (2 * HUES..3 * HUES).map(|number| (format!("c{number}"), lighter(lighter(data(number % HUES)))));
    spelled(names.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(tones).chain(last))
}

fn spelled(variables: impl Iterator<Item = (String, (u8, u8, u8))>) -> String {
    variables.fold(String::new(), |mut text, (name, colour)| {
        let _ = write!(text, "--{name}:{};", hexadecimal(colour));
        text
    })
}

fn hexadecimal((r, g, b): (u8, u8, u8)) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The rules that give the classes their variables.
pub fn classes() -> String {
    let names = ["ink", "muted", "grid", "paper", "bad"].map(String::from).into_iter();
    let names = names.chain((0..HUES * TONES).map(|number| format!("c{number}")));
    names
        .map(|name| {
            format!(".fill-{name}{{fill:var(--{name})}}.stroke-{name}{{fill:none;stroke:var(--{name})}}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_colour_has_a_class_of_its_own() {
        let mut classes: Vec<String> = (0..HUES * TONES).map(|n| class_of(data(n))).collect();
        classes.extend([INK, MUTED, GRID, PAPER, BAD].map(class_of));
        let count = classes.len();
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), count);
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escaped("<a b=\"c\">'&\u{0}\n"), "&lt;a b=&quot;c&quot;&gt;&#39;&amp;\u{fffd} ");
    }
}
