//! Draws a matrix: a cell for each row and column, whose colour and words are its number.

use plotters::style::{FontTransform, text_anchor::HPos};

use super::{
    Heat, HeatCell, Scale,
    draw::{Area, Drawn},
    mark::{Mark, Shape},
    text::{self, LINE, SIZE, SMALL},
};
use crate::{canvas::WIDTH, colours::Colour};

const CELL: i32 = 92;
/// The longest name, in letters.
const LETTERS: usize = 30;
const BELOW: i32 = 50;
/// The colour of a cell is as strong as this at the most, so that words on it can be read.
const STRONGEST: f64 = 0.75;
/// A narrower cell has no room for its interval, which a reader sees on pointing at it.
const ROOM_FOR_INTERVAL: i32 = 96;

/// Where the parts of the picture are.
struct Layout {
    left: i32,
    top: i32,
    cell_width: i32,
    /// Whether the names of columns are wider than these.
    is_upright: bool,
    names: [Vec<String>; 2],
}

impl Layout {
    fn of(heat: &Heat) -> Layout {
        let names = [&heat.rows, &heat.columns]
            .map(|names| names.iter().map(|name| text::shortened(name, LETTERS)).collect::<Vec<_>>());
        let longest = |names: &[String]| names.iter().map(|name| text::width(name, SIZE)).max().unwrap_or(0);
        let left = longest(&names[0]) + 48;
        let cell_width = ((WIDTH as i32 - left - 20) / heat.columns.len().max(1) as i32).clamp(24, 320);
        let is_upright = longest(&names[1]) + 16 > cell_width;
        let top = 2 * LINE + if is_upright { longest(&names[1]) } else { LINE };
        Layout { left, top, cell_width, is_upright, names }
    }

    fn corner(&self, row: usize, column: usize) -> (i32, i32) {
        (self.left + column as i32 * self.cell_width, self.top + row as i32 * CELL)
    }
}

pub(super) fn height(heat: &Heat) -> u32 {
    (Layout::of(heat).top + CELL * heat.rows.len().max(1) as i32 + BELOW) as u32
}

pub(super) fn draw(heat: &Heat, area: &Area<'_>) -> Drawn {
    let layout = Layout::of(heat);
    let muted = text::style(SMALL, Colour::Muted, HPos::Left);
    area.draw_text(
        &format!("{} (row), {} (column)", heat.row_column, heat.column_column),
        &muted,
        (20, LINE / 2),
    )?;
    for (row, name) in layout.names[0].iter().enumerate() {
        let at = (layout.left - 16, layout.corner(row, 0).1 + CELL / 2);
        area.draw_text(name, &text::style(SIZE, Colour::Ink, HPos::Right), at)?;
    }
    let (of_columns, above) = if layout.is_upright {
        (text::style(SIZE, Colour::Ink, HPos::Left).transform(FontTransform::Rotate270), 14)
    } else {
        (text::style(SIZE, Colour::Ink, HPos::Center), LINE / 2)
    };
    for (column, name) in layout.names[1].iter().enumerate() {
        let at = (layout.corner(0, column).0 + layout.cell_width / 2, layout.top - above);
        area.draw_text(name, &of_columns, at)?;
    }
    let values = heat.cells.iter().flatten().filter_map(|cell| cell.value);
    let farthest = values.map(|value| distance(heat, value).abs()).fold(0.0, f64::max);
    for (row, cells) in heat.cells.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            draw_cell(heat, &layout, (row, column), cell, farthest, area)?;
        }
    }
    let neutral = heat.value.unit.show(heat.neutral);
    let has_intervals = heat.cells.iter().flatten().any(|cell| cell.ci.is_some());
    let words = format!(
        "{}; {}hatched cells are doubtful, empty ones not measured",
        heat.value.label,
        if has_intervals {
            format!("intervals of grey numbers include {neutral}; ")
        } else {
            format!("{neutral} is neutral; ")
        },
    );
    area.draw_text(&words, &muted, (layout.left, layout.corner(heat.rows.len(), 0).1 + BELOW / 2))
}

/// How far a value is from the neutral one: their difference, or that of their logarithms.
fn distance(heat: &Heat, value: f64) -> f64 {
    match heat.value.scale {
        Scale::Linear => value - heat.neutral,
        Scale::Log => (value / heat.neutral).ln(),
    }
}

fn draw_cell(
    heat: &Heat,
    layout: &Layout,
    (row, column): (usize, usize),
    cell: &HeatCell,
    farthest: f64,
    area: &Area<'_>,
) -> Drawn {
    let (x, y) = layout.corner(row, column);
    let (from, to) = ((x + 2, y + 2), (x + layout.cell_width - 2, y + CELL - 2));
    let distance = cell.value.map_or(0.0, |value| distance(heat, value));
    let strength = if farthest > 0.0 { distance.abs() / farthest * STRONGEST } else { 0.0 };
    let colour = match cell.value {
        None => Colour::Muted,
        Some(_) if distance < 0.0 => Colour::Data(0),
        Some(_) => Colour::Data(1),
    };
    let is_hatched = cell.value.is_some() && !cell.doubt.is_empty();
    let mark = Mark {
        shape: Shape::Rect { is_hollow: cell.value.is_none(), is_hatched, alpha: strength },
        colour,
        points: Vec::new(),
        data: data_of(heat, (row, column), cell),
        title: title_of(heat, (row, column), cell),
    };
    area.draw(&mark.at_pixels(vec![from, to]))?;
    let middle = (x + layout.cell_width / 2, y + CELL / 2);
    let Some(value) = cell.value else { return draw_reason(cell, layout.cell_width, middle, area) };
    let interval = cell.ci.filter(|_| layout.cell_width >= ROOM_FOR_INTERVAL);
    let is_told = cell.ci.is_none_or(|(lo, hi)| !(lo..=hi).contains(&heat.neutral));
    let words = text::style(SIZE, if is_told { Colour::Ink } else { Colour::Muted }, HPos::Center);
    let Some((lo, hi)) = interval else {
        return area.draw_text(&format!("{value:.2}"), &words, middle);
    };
    area.draw_text(&format!("{value:.2}"), &words, (middle.0, middle.1 - 14))?;
    let small = text::style(SMALL - 4, Colour::Ink, HPos::Center);
    area.draw_text(&format!("{lo:.2}\u{2013}{hi:.2}"), &small, (middle.0, middle.1 + 18))
}

/// The status of a cell that was to have a number, if there is room: `failed`.
fn draw_reason(cell: &HeatCell, cell_width: i32, middle: (i32, i32), area: &Area<'_>) -> Drawn {
    let status = cell.doubt.split_once(':').map(|(status, _)| status);
    let Some(word) = status.filter(|word| text::width(word, SMALL) + 8 <= cell_width) else { return Ok(()) };
    area.draw_text(word, &text::style(SMALL, Colour::Muted, HPos::Center), middle)
}

fn data_of(heat: &Heat, (row, column): (usize, usize), cell: &HeatCell) -> Vec<(&'static str, String)> {
    let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
    let mut data = vec![("row", name(&heat.rows, row)), ("column", name(&heat.columns, column))];
    data.extend(cell.value.map(|value| ("value", value.to_string())));
    data.extend(cell.ci.map(|(lo, _)| ("lo", lo.to_string())));
    data.extend(cell.ci.map(|(_, hi)| ("hi", hi.to_string())));
    data
}

fn title_of(heat: &Heat, (row, column): (usize, usize), cell: &HeatCell) -> String {
    let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
    let show = |value: f64| heat.value.unit.show(value);
    let value = match (cell.value, cell.ci) {
        (None, _) => "not measured".into(),
        (Some(value), None) => show(value),
        (Some(value), Some((lo, hi))) => {
            format!("{}, 95 % interval {} to {}", show(value), show(lo), show(hi))
        }
    };
    let doubt = if cell.doubt.is_empty() { String::new() } else { format!("; {}", cell.doubt) };
    let (row, column) = (name(&heat.rows, row), name(&heat.columns, column));
    format!("{} {row}, {} {column}: {value}{doubt}", heat.row_column, heat.column_column)
}
