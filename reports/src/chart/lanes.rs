//! Draws lanes: spans of time below each other, as in a Gantt chart. A page can stretch the time, as each span holds its own.

use plotters::{
    coord::ranged1d::{Ranged as _, ValueFormatter as _},
    element::PathElement,
    style::text_anchor::HPos,
};

use super::{
    Lanes, Span, SpanKind,
    axis::AxisRange,
    draw::{Area, Drawn},
    legend::Legend,
    mark::{Mark, Shape},
    text::{self, LINE, SIZE, SMALL},
};
use crate::{
    canvas::{WIDTH, grid},
    colours::Colour,
};

const TOP: i32 = 12;
const BELOW: i32 = 84;
/// The height of all lanes, unless this makes each of them higher than [`HIGHEST`] or lower than [`LOWEST`].
const HEIGHT: i32 = 1_200;
const HIGHEST: i32 = 56;
const LOWEST: i32 = 8;
/// The longest name of a lane, in letters.
const LETTERS: usize = 24;

/// A narrower span has no room for any name.
const ROOM_FOR_NAME: i32 = 30;

struct Layout {
    legend: Legend,
    lane: i32,
    /// The horizontal range of the time.
    from: i32,
    to: i32,
    top: i32,
}

impl Layout {
    fn of(lanes: &Lanes) -> Layout {
        let legend = Legend::of(lanes.spans.iter().map(|span| (&*span.group, span.colour)));
        let count = lanes.lanes.len().max(1) as i32;
        let names = lanes.lanes.iter().map(|name| text::width(&text::shortened(name, LETTERS), SMALL));
        Layout {
            lane: (HEIGHT / count).clamp(LOWEST, HIGHEST),
            from: names.max().unwrap_or(0) + 40,
            to: WIDTH as i32 - 48,
            top: legend.height() + TOP,
            legend,
        }
    }

    fn bottom(&self, lanes: &Lanes) -> i32 {
        self.top + self.lane * lanes.lanes.len().max(1) as i32
    }
}

pub(super) fn height(lanes: &Lanes) -> u32 {
    (Layout::of(lanes).bottom(lanes) + BELOW) as u32
}

pub(super) fn draw(lanes: &Lanes, area: &Area<'_>) -> Drawn {
    let layout = Layout::of(lanes);
    layout.legend.draw(area)?;
    let ends = lanes.spans.iter().flat_map(|span| [(span.from, None), (span.to, None)]);
    let time = AxisRange::of(&lanes.time, ends);
    draw_axis(lanes, &layout, &time, area)?;
    draw_names(lanes, &layout, area)?;
    for span in &lanes.spans {
        let x = |at: f64| time.map(&at, (layout.from, layout.to));
        let (part, parts) = (i32::from(span.part.0), i32::from(span.part.1.max(1)));
        let room = layout.lane - if layout.lane > 16 { 6 } else { 1 };
        let y = layout.top + span.lane as i32 * layout.lane + (layout.lane - room) / 2;
        let (upper, lower) = (y + room * part / parts, y + room * (part + 1) / parts);
        // A gap tells neighbours of one colour apart.
        let gap = if x(span.to) - x(span.from) > 8 { 2 } else { 0 };
        let corners = vec![(x(span.from), upper), (x(span.to) - gap, lower)];
        area.draw(&mark_of(span, lanes).at_pixels(corners))?;
        draw_name(span, (x(span.from), x(span.to)), (upper, lower), area)?;
    }
    Ok(())
}

/// Writes the name of a span into it, if there is room.
fn draw_name(span: &Span, (from, to): (i32, i32), (upper, lower): (i32, i32), area: &Area<'_>) -> Drawn {
    let has_room = to - from > ROOM_FOR_NAME && lower - upper >= SMALL;
    if span.kind != SpanKind::Running || !has_room {
        return Ok(());
    }
    let name = text::shortened(&span.label, LETTERS);
    if text::width(&name, SMALL) + 12 > to - from {
        return Ok(());
    }
    let at = (i32::midpoint(from, to), i32::midpoint(upper, lower));
    area.draw_text(&name, &text::style(SMALL, Colour::Ink, HPos::Center), at)
}

/// Draws the time below the lanes, in a mark from which a page knows what to replace when the time is stretched.
fn draw_axis(lanes: &Lanes, layout: &Layout, time: &AxisRange, area: &Area<'_>) -> Drawn {
    let bottom = layout.bottom(lanes);
    let (from, to) = time.ends();
    let data = [
        ("plot", "time".to_owned()),
        ("left", layout.from.to_string()),
        ("right", layout.to.to_string()),
        ("top", layout.top.to_string()),
        ("bottom", bottom.to_string()),
        ("begin", from.to_string()),
        ("end", to.to_string()),
        ("divisor", time.divisor().to_string()),
    ];
    let frame = Mark {
        shape: Shape::Rect { is_hollow: true, is_hatched: false, alpha: 0.0 },
        colour: Colour::Muted,
        points: Vec::new(),
        data: data.to_vec(),
        title: String::new(),
    };
    area.draw(&frame.at_pixels(vec![(layout.from, layout.top), (layout.to, bottom)]))?;
    for tick in time.key_points(9usize) {
        let x = time.map(&tick, (layout.from, layout.to));
        area.draw(&PathElement::new(vec![(x, layout.top), (x, bottom)], grid()))?;
        let words = text::style(SMALL, Colour::Muted, HPos::Center);
        area.draw_text(&time.format_ext(&tick), &words, (x, bottom + LINE / 2))?;
    }
    let middle = i32::midpoint(layout.from, layout.to);
    let words = text::style(SMALL, Colour::Muted, HPos::Center);
    area.draw_text(&time.label(&lanes.time), &words, (middle, bottom + LINE + LINE / 2))
}

fn draw_names(lanes: &Lanes, layout: &Layout, area: &Area<'_>) -> Drawn {
    // Names of low lanes would cover each other.
    let every = (LINE / layout.lane).max(1) as usize;
    for (number, name) in lanes.lanes.iter().enumerate().step_by(every) {
        let at = (layout.from - 14, layout.top + number as i32 * layout.lane + layout.lane / 2);
        let size = if layout.lane >= LINE { SIZE } else { SMALL };
        area.draw_text(
            &text::shortened(name, LETTERS),
            &text::style(size.min(SMALL), Colour::Ink, HPos::Right),
            at,
        )?;
    }
    Ok(())
}

fn mark_of(span: &Span, lanes: &Lanes) -> Mark {
    let (is_hollow, is_hatched, alpha) = match span.kind {
        SpanKind::Running => (false, false, 0.6),
        SpanKind::Switching => (true, true, 0.0),
        SpanKind::Paused => (true, false, 0.0),
        SpanKind::Lost => (false, true, 0.25),
        SpanKind::Several => (false, false, 0.5),
        SpanKind::Failed => (false, false, 1.0),
    };
    let shape = match span.kind {
        SpanKind::Failed => Shape::Cross,
        _ => Shape::Rect { is_hollow, is_hatched, alpha },
    };
    let kind = format!("{:?}", span.kind).to_lowercase();
    Mark {
        shape,
        colour: if matches!(span.kind, SpanKind::Failed | SpanKind::Lost) {
            Colour::Bad
        } else {
            span.colour
        },
        points: Vec::new(),
        // There may be thousands of spans: the page makes their titles of the data.
        title: String::new(),
        data: vec![
            ("lane", lanes.lanes.get(span.lane).cloned().unwrap_or_default()),
            ("name", span.name.clone()),
            ("kind", kind),
            ("from", span.from.to_string()),
            ("to", span.to.to_string()),
            ("detail", span.detail.clone()),
        ],
    }
}
