//! Draws rows: bars, dots and boxes of named rows along one horizontal axis.

use plotters::{
    chart::{ChartBuilder, LabelAreaPosition},
    element::PathElement,
    style::{Color as _, text_anchor::HPos},
};

use super::{
    MarkValue, RowMark, RowOf, Rows,
    axis::AxisRange,
    draw::{Area, Drawn},
    legend::Legend,
    mark::{Mark, Shape},
    text::{self, SIZE, SMALL},
};
use crate::{
    canvas::{WIDTH, grid},
    colours::Colour,
};

/// The least height of a row, and what each of several marks below each other takes.
const ROW: i32 = 46;
const MARK: i32 = 26;
/// The room for the words at the axis, and below them.
const BELOW: i32 = 72;
const MARGIN: i32 = 10;
/// The room above the rows, and with the name of a rule in it.
const TOP: i32 = 10;
const TOP_WITH_RULE: i32 = 34;
/// The longest name, in letters.
const LETTERS: usize = 40;
/// Half of the height of a bar.
const HALF: f64 = 0.34;

pub(super) fn height(rows: &Rows) -> u32 {
    (legend(rows).height() + top(rows) + row_height(rows) * rows.rows.len().max(1) as i32 + BELOW + MARGIN)
        as u32
}

/// Rows have one height, so that each of them has room for what is in the fullest.
fn row_height(rows: &Rows) -> i32 {
    rows.rows.iter().map(|row| MARK * separate(row) as i32 + 8).max().unwrap_or(ROW).max(ROW)
}

/// The number of dots and boxes, which stand below each other. Bars are beside each other.
fn separate(row: &RowOf) -> usize {
    row.marks.iter().filter(|mark| !matches!(mark.quantity, MarkValue::Bar(_))).count()
}

fn top(rows: &Rows) -> i32 {
    if rows.rule.is_some() { TOP_WITH_RULE } else { TOP }
}

fn legend(rows: &Rows) -> Legend {
    Legend::of(rows.rows.iter().flat_map(|row| &row.marks).map(|mark| (&*mark.part, mark.colour)))
}

pub(super) fn draw(rows: &Rows, area: &Area<'_>) -> Drawn {
    let legend = legend(rows);
    let (above, below) = area.split_vertically(legend.height());
    legend.draw(&above)?;
    let names: Vec<String> = rows.rows.iter().map(|row| text::shortened(&row.name, LETTERS)).collect();
    let left = names.iter().map(|name| text::width(name, SIZE)).max().unwrap_or(0) + 40;
    let count = rows.rows.len().max(1) as f64;
    let values = AxisRange::of(
        &rows.value,
        rows.rows.iter().flat_map(values_of).chain(rows.rule.iter().map(|rule| (rule.0, None))),
    );
    // The first row is the uppermost.
    let mut chart = ChartBuilder::on(&below)
        .margin_top(top(rows))
        .margin_bottom(MARGIN)
        .margin_right(60)
        .set_label_area_size(LabelAreaPosition::Left, left)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(values.clone(), AxisRange::between(count, 0.0))?;
    chart
        .configure_mesh()
        .x_labels(8)
        .disable_y_mesh()
        .disable_y_axis()
        .max_light_lines(0)
        .bold_line_style(grid())
        .axis_style(Colour::Muted.on_paper())
        .label_style(text::style(SMALL, Colour::Muted, HPos::Center))
        .axis_desc_style(text::style(SMALL, Colour::Muted, HPos::Center))
        .x_desc(values.label(&rows.value))
        .draw()?;
    let plot = chart.plotting_area();
    if let Some((value, name)) = &rows.rule {
        let line = vec![(*value, 0.0), (*value, count)];
        plot.draw(&PathElement::new(line, Colour::Muted.on_paper().stroke_width(3)))?;
        let x = plot.map_coordinate(&(*value, 0.0)).0;
        let has_room = x + 8 + text::width(name, SMALL) < WIDTH as i32;
        let (across, x) = if has_room { (HPos::Left, x + 8) } else { (HPos::Right, x - 8) };
        area.draw_text(
            name,
            &text::style(SMALL, Colour::Muted, across),
            (x, legend.height() + TOP_WITH_RULE / 2),
        )?;
    }
    let words = text::style(SIZE, Colour::Ink, HPos::Right);
    let height = row_height(rows);
    for ((number, row), name) in rows.rows.iter().enumerate().zip(&names) {
        let middle = number as f64 + 0.5;
        let (_, y) = plot.map_coordinate(&(values.ends().0, middle));
        area.draw_text(name, &words, (left - 16, y))?;
        if separate(row) > 0 {
            // It leads the eye from a name to its marks.
            let (from, to) = values.ends();
            plot.draw(&PathElement::new(vec![(from, middle), (to, middle)], grid()))?;
        }
        for mark in marks(row, rows, middle, height) {
            plot.draw(&mark)?;
        }
        if !row.note.is_empty() && row.marks.is_empty() {
            let room = (plot.dim_in_pixel().0 / 13) as usize;
            let note = text::shortened(&row.note, room);
            area.draw_text(&note, &text::style(SMALL, Colour::Muted, HPos::Left), (left + 16, y))?;
        }
    }
    Ok(())
}

fn values_of(row: &RowOf) -> Vec<(f64, Option<(f64, f64)>)> {
    let mut stacked = 0.0;
    let of = |mark: &RowMark| match mark.quantity {
        MarkValue::Bar(value) => {
            stacked += value;
            vec![(stacked, None)]
        }
        MarkValue::Dot { value, ci } => vec![(value, ci)],
        MarkValue::Box(five) => five.map(|value| (value, None)).to_vec(),
    };
    row.marks.iter().flat_map(of).collect()
}

/// The shapes of a row of this height. Its dots and boxes stand below each other if there are several.
fn marks(row: &RowOf, rows: &Rows, middle: f64, height: i32) -> Vec<Mark> {
    let separate = separate(row);
    let (mut stacked, mut nth) = (0.0, 0);
    let mut found = Vec::new();
    for mark in &row.marks {
        let spread = if separate > 1 { (nth as f64 + 0.5) / separate as f64 - 0.5 } else { 0.0 };
        let y = middle + spread * 0.8;
        nth += usize::from(!matches!(mark.quantity, MarkValue::Bar(_)));
        let (shape, points) = match mark.quantity {
            MarkValue::Bar(value) => {
                let from = stacked;
                stacked += value;
                let corners = vec![(from, middle - HALF), (stacked, middle + HALF)];
                (Shape::Rect { is_hollow: false, is_hatched: !mark.doubt.is_empty(), alpha: 0.85 }, corners)
            }
            MarkValue::Dot { value, ci } => {
                let mut points = vec![(value, y)];
                points.extend(ci.into_iter().flat_map(|(lo, hi)| [(lo, y), (hi, y)]));
                (Shape::Dot { is_hollow: !mark.doubt.is_empty(), is_ringed: false }, points)
            }
            MarkValue::Box(five) => {
                let half = (f64::from(height) * HALF / separate.max(1) as f64) as i32;
                (Shape::Box { half: half.max(3) }, five.map(|value| (value, y)).to_vec())
            }
        };
        found.push(Mark {
            shape,
            colour: mark.colour,
            points,
            data: data_of(row, mark),
            title: title_of(row, mark, rows),
        });
    }
    found
}

fn data_of(row: &RowOf, mark: &RowMark) -> Vec<(&'static str, String)> {
    let mut data = vec![("row", row.name.clone()), ("part", mark.part.clone())];
    match mark.quantity {
        MarkValue::Bar(value) => data.push(("value", value.to_string())),
        MarkValue::Dot { value, ci } => {
            data.push(("value", value.to_string()));
            data.extend(ci.map(|(lo, _)| ("lo", lo.to_string())));
            data.extend(ci.map(|(_, hi)| ("hi", hi.to_string())));
        }
        MarkValue::Box(five) => {
            let names = ["min", "q1", "median", "q3", "max"];
            data.extend(names.into_iter().zip(five).map(|(name, value)| (name, value.to_string())));
        }
    }
    data
}

fn title_of(row: &RowOf, mark: &RowMark, rows: &Rows) -> String {
    let show = |value: f64| rows.value.unit.show(value);
    let numbers = match mark.quantity {
        MarkValue::Bar(value) | MarkValue::Dot { value, ci: None } => show(value),
        MarkValue::Dot { value, ci: Some((lo, hi)) } => {
            format!("{}, 95 % interval {} to {}", show(value), show(lo), show(hi))
        }
        MarkValue::Box([min, q1, median, q3, max]) => format!(
            "median {}, quartiles {} and {}, from {} to {}",
            show(median),
            show(q1),
            show(q3),
            show(min),
            show(max)
        ),
    };
    let part = if mark.part.is_empty() { String::new() } else { format!(", {}", mark.part) };
    let doubt = if mark.doubt.is_empty() { String::new() } else { format!("; doubtful: {}", mark.doubt) };
    let note = if row.note.is_empty() { String::new() } else { format!("; {}", row.note) };
    format!("{}{part}: {numbers}{doubt}{note}", row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_a_row_are_stacked_on_the_axis() {
        let bar = |value| RowMark {
            part: String::new(),
            colour: Colour::Ink,
            quantity: MarkValue::Bar(value),
            doubt: String::new(),
        };
        let row = RowOf { name: "a".into(), marks: vec![bar(2.0), bar(3.0)], note: String::new() };
        assert_eq!(values_of(&row), [(2.0, None), (5.0, None)]);
    }
}
