//! Words in pictures: their font, their width, and names that are too long.

use std::sync::Once;

use plotters::{
    prelude::{FontStyle, IntoFont as _},
    style::{
        Color as _, TextStyle, register_font,
        text_anchor::{HPos, Pos, VPos},
    },
};
use plotters_backend::BackendTextStyle as _;

use crate::colours::Colour;

/// The size of most words, in units.
pub(super) const SIZE: i32 = 25;
/// The size of words that are less important.
pub(super) const SMALL: i32 = 22;
/// The height of a line of words.
pub(super) const LINE: i32 = 36;

/// A style of this size and colour. The words begin at their point, are in the middle of it, or end there, and are centred vertically.
pub(super) fn style(size: i32, colour: Colour, across: HPos) -> TextStyle<'static> {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        // The font is part of the program and can be parsed; a test draws with it.
        let _ = register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
    });
    let font = ("sans-serif", f64::from(size)).into_font();
    let colour = colour.on_paper().to_backend_color();
    TextStyle { font, color: colour, pos: Pos::new(across, VPos::Center) }
}

/// The width of words in units. The fonts of a browser are wider than the one of the PNG, so that there is a margin.
pub(super) fn width(words: &str, size: i32) -> i32 {
    let measured = style(size, Colour::Ink, HPos::Left).layout_box(words).map_or(0, |(_, (right, _))| right);
    measured * 4 / 3
}

/// A name of at most about `most` letters. The middle of a longer one is left out, because names of jobs differ at both ends.
pub(super) fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> =
        name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if letters.len() <= most {
        return letters.into_iter().collect();
    }
    let (head, tail) = (most * 3 / 5, most - most * 3 / 5 - 1);
    letters[..head].iter().chain(&['\u{2026}']).chain(&letters[letters.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_both_ends() {
        assert_eq!(shortened("lstm@b20@dp1", 12), "lstm@b20@dp1");
        assert_eq!(shortened("resnet18-mini@b16@dp2-ga4-gc-offload", 16), "resnet18-\u{2026}ffload");
        assert!(width("resnet18", SIZE) > width("lstm", SIZE), "the font is there");
    }
}
