//! The legend of a chart: names beside their colours, in as many lines as they need.

use plotters::{
    element::Rectangle,
    style::{Color as _, text_anchor::HPos},
};

use super::{
    draw::{Area, Drawn},
    text::{self, LINE, SMALL},
};
use crate::{canvas::WIDTH, colours::Colour};

/// A legend names at most this many, because a reader cannot tell more apart; figures name their marks otherwise, too.
const MOST: usize = 24;

/// The names of a chart, each once, with the place of each.
pub(super) struct Legend {
    entries: Vec<(String, Colour, (i32, i32))>,
    left_out: usize,
    height: i32,
}

const SWATCH: i32 = 22;
const MARGIN: i32 = 20;

impl Legend {
    /// Places the names. A single name needs no legend.
    pub(super) fn of<'a>(names: impl IntoIterator<Item = (&'a str, Colour)>) -> Legend {
        let mut distinct: Vec<(&str, Colour)> = Vec::new();
        for (name, colour) in names.into_iter().filter(|(name, _)| !name.is_empty()) {
            match distinct.iter_mut().find(|(known, _)| *known == name) {
                // The colours of a name that has several stand for something else.
                Some((_, known)) if *known != colour => *known = Colour::Muted,
                Some(_) => {}
                None => distinct.push((name, colour)),
            }
        }
        if distinct.len() < 2 {
            return Legend { entries: Vec::new(), left_out: 0, height: 0 };
        }
        let (mut x, mut y) = (MARGIN, LINE / 2);
        let mut entries = Vec::new();
        for (name, colour) in distinct.iter().take(MOST) {
            let name = text::shortened(name, 48);
            let width = SWATCH + 10 + text::width(&name, SMALL) + 24;
            if x + width > WIDTH as i32 && x > MARGIN {
                (x, y) = (MARGIN, y + LINE);
            }
            entries.push((name, *colour, (x, y)));
            x += width;
        }
        Legend { entries, left_out: distinct.len().saturating_sub(MOST), height: y + LINE / 2 + 8 }
    }

    pub(super) fn height(&self) -> i32 {
        self.height + if self.left_out > 0 { LINE } else { 0 }
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        let words = text::style(SMALL, Colour::Ink, HPos::Left);
        for (name, colour, (x, y)) in &self.entries {
            let corners = [(*x, y - SWATCH / 2), (x + SWATCH, y + SWATCH / 2)];
            area.draw(&Rectangle::new(corners, colour.on_paper().filled()))?;
            area.draw_text(name, &words, (x + SWATCH + 10, *y))?;
        }
        if self.left_out > 0 {
            let more = format!("and {} more, which the table has", self.left_out);
            area.draw_text(&more, &words, (MARGIN, self.height + LINE / 2 - 8))?;
        }
        Ok(())
    }
}
