//! The shapes that show data. Each holds its numbers in the SVG, where a page and a test read them.

use std::convert::Infallible;

use plotters::{
    element::{Drawable, PointCollection},
    style::{Color as _, ShapeStyle},
};
use plotters_backend::{BackendCoord, DrawingBackend as _, DrawingErrorKind};

use crate::{
    canvas::{Canvas, paper},
    colours::Colour,
};

/// One shape at points of the chart.
pub(super) struct Mark {
    pub(super) shape: Shape,
    pub(super) colour: Colour,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) data: Vec<(&'static str, String)>,
    pub(super) title: String,
}

#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A line through all points.
    Line,
    Dashed,
    /// The area within all points.
    Area,
    /// A dot at the first point. Its interval is between the second and the third, if there are any.
    Dot {
        is_hollow: bool,
        is_ringed: bool,
    },
    /// A rectangle between two corners.
    Rect {
        is_hollow: bool,
        is_hatched: bool,
        alpha: f64,
    },
    /// A box: the five numbers at five points on a horizontal line, in a height of two times this number of units.
    Box {
        half: i32,
    },
    /// A cross.
    Cross,
}

const DOT: i32 = 8;
/// Half of the length of the caps of an interval.
const CAP: i32 = 8;
/// The distance between the lines of a hatched area.
const HATCH: i32 = 14;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl<'a> PointCollection<'a, (f64, f64)> for &'a Mark {
    type Point = &'a (f64, f64);
    type IntoIter = std::slice::Iter<'a, (f64, f64)>;

    fn point_iter(self) -> Self::IntoIter {
        self.points.iter()
    }
}

impl Drawable<Canvas<'_>> for Mark {
    fn draw<I: Iterator<Item = BackendCoord>>(&self, at: I, canvas: &mut Canvas<'_>, _: (u32, u32)) -> Drawn {
        let at: Vec<BackendCoord> = at.collect();
        canvas.open(&self.data, &self.title);
        let outcome = self.draw_shape(&at, canvas);
        canvas.close();
        outcome
    }
}

/// A mark at pixels instead of points of a plane.
pub(super) struct PixelMark {
    mark: Mark,
    at: Vec<BackendCoord>,
}

impl<'a> PointCollection<'a, BackendCoord> for &'a PixelMark {
    type Point = &'a BackendCoord;
    type IntoIter = std::slice::Iter<'a, BackendCoord>;

    fn point_iter(self) -> Self::IntoIter {
        self.at.iter()
    }
}

impl Drawable<Canvas<'_>> for PixelMark {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        at: I,
        canvas: &mut Canvas<'_>,
        size: (u32, u32),
    ) -> Drawn {
        self.mark.draw(at, canvas, size)
    }
}

impl Mark {
    /// The mark at these pixels.
    pub(super) fn at_pixels(self, at: Vec<BackendCoord>) -> PixelMark {
        PixelMark { mark: self, at }
    }

    fn draw_shape(&self, at: &[BackendCoord], canvas: &mut Canvas<'_>) -> Drawn {
        let line = self.colour.on_paper().stroke_width(3);
        match self.shape {
            Shape::Line => canvas.draw_path(at.iter().copied(), &line),
            Shape::Dashed => {
                dashes(at).into_iter().try_for_each(|(from, to)| canvas.draw_line(from, to, &line))
            }
            Shape::Area => {
                canvas.fill_polygon(at.iter().copied(), &self.colour.on_paper().mix(0.3))?;
                canvas.draw_path(at.iter().copied(), &line)
            }
            Shape::Dot { is_hollow, is_ringed } => self.draw_dot(at, is_hollow, is_ringed, canvas),
            Shape::Rect { is_hollow, is_hatched, alpha } => {
                let &[a, b, ..] = at else { return Ok(()) };
                let (from, to) = ((a.0.min(b.0), a.1.min(b.1)), (a.0.max(b.0), a.1.max(b.1)));
                if !is_hollow {
                    canvas.draw_rect(from, to, &self.colour.on_paper().mix(alpha), true)?;
                }
                if is_hatched {
                    hatches(from, to).into_iter().try_for_each(|(from, to)| {
                        canvas.draw_line(from, to, &Colour::Muted.on_paper().mix(0.55).stroke_width(2))
                    })?;
                }
                if is_hollow || is_hatched {
                    canvas.draw_rect(from, to, &self.colour.on_paper().stroke_width(2), false)?;
                }
                Ok(())
            }
            Shape::Box { half } => self.draw_box(at, half, canvas),
            Shape::Cross => {
                let Some(&(x, y)) = at.first() else { return Ok(()) };
                canvas.draw_line((x - DOT, y - DOT), (x + DOT, y + DOT), &line)?;
                canvas.draw_line((x - DOT, y + DOT), (x + DOT, y - DOT), &line)
            }
        }
    }

    fn draw_dot(
        &self,
        at: &[BackendCoord],
        is_hollow: bool,
        is_ringed: bool,
        canvas: &mut Canvas<'_>,
    ) -> Drawn {
        let line: ShapeStyle = self.colour.on_paper().stroke_width(3);
        let Some(&center) = at.first() else { return Ok(()) };
        if let &[_, from, to, ..] = at {
            // The caps lie across the interval.
            let (x, y) = if from.0 == to.0 { (CAP, 0) } else { (0, CAP) };
            canvas.draw_line(from, to, &line)?;
            for end in [from, to] {
                canvas.draw_line((end.0 - x, end.1 - y), (end.0 + x, end.1 + y), &line)?;
            }
        }
        if is_ringed {
            canvas.draw_circle(center, (DOT + 7) as u32, &Colour::Ink.on_paper().stroke_width(3), false)?;
        }
        let inside = if is_hollow { paper().filled() } else { self.colour.on_paper().filled() };
        canvas.draw_circle(center, DOT as u32, &inside, true)?;
        canvas.draw_circle(center, DOT as u32, &line, false)
    }

    fn draw_box(&self, at: &[BackendCoord], half: i32, canvas: &mut Canvas<'_>) -> Drawn {
        let &[least, lower, middle, upper, largest] = at else { return Ok(()) };
        let line = self.colour.on_paper().stroke_width(3);
        canvas.draw_line(least, lower, &line)?;
        canvas.draw_line(upper, largest, &line)?;
        for end in [least, largest] {
            canvas.draw_line((end.0, end.1 - CAP), (end.0, end.1 + CAP), &line)?;
        }
        let (from, to) = ((lower.0, lower.1 - half), (upper.0, upper.1 + half));
        canvas.draw_rect(from, to, &self.colour.on_paper().mix(0.25), true)?;
        canvas.draw_rect(from, to, &line, false)?;
        let heavy = self.colour.on_paper().stroke_width(6);
        canvas.draw_line((middle.0, middle.1 - half), (middle.0, middle.1 + half), &heavy)
    }
}

/// The dashes of a line.
fn dashes(at: &[BackendCoord]) -> Vec<(BackendCoord, BackendCoord)> {
    const DASH: f64 = 14.0;
    const GAP: f64 = 10.0;
    let mut found = Vec::new();
    // How far along the present dash or gap the line is.
    let mut along = 0.0;
    for pair in at.windows(2) {
        let &[(x0, y0), (x1, y1)] = pair else { continue };
        let length = f64::from(x1 - x0).hypot(f64::from(y1 - y0));
        let point = |distance: f64| {
            let share = if length > 0.0 { distance / length } else { 0.0 };
            (
                (f64::from(x0) + share * f64::from(x1 - x0)).round() as i32,
                (f64::from(y0) + share * f64::from(y1 - y0)).round() as i32,
            )
        };
        let mut done = 0.0;
        while done < length {
            let (limit, is_dash) =
                if along < DASH { (DASH - along, true) } else { (DASH + GAP - along, false) };
            let next = (done + limit).min(length);
            if is_dash {
                found.push((point(done), point(next)));
            }
            along = (along + next - done) % (DASH + GAP);
            // A rest that rounding leaves of a dash has no length to draw.
            done = if next > done { next } else { length };
        }
    }
    found
}

/// The lines that hatch a rectangle, from its lower left to its upper right.
fn hatches((x0, y0): BackendCoord, (x1, y1): BackendCoord) -> Vec<(BackendCoord, BackendCoord)> {
    let (width, height) = (x1 - x0, y1 - y0);
    let offsets = (HATCH..width + height).step_by(HATCH as usize);
    let line = |offset: i32| {
        let from = if offset <= height { (x0, y0 + offset) } else { (x0 + offset - height, y1) };
        let to = if offset <= width { (x0 + offset, y0) } else { (x1, y0 + offset - width) };
        (from, to)
    };
    offsets.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_cover_the_line_from_its_begin_and_leave_gaps() {
        let found = dashes(&[(0, 0), (100, 0)]);
        assert_eq!(found[..2], [((0, 0), (14, 0)), ((24, 0), (38, 0))]);
        assert_eq!(found.last(), Some(&((96, 0), (100, 0))));
        assert_eq!(dashes(&[(3, 3), (3, 3)]), []);
    }

    #[test]
    fn hatches_end_at_the_edges() {
        for ((ax, ay), (bx, by)) in hatches((10, 20), (60, 50)) {
            assert!((10..=60).contains(&ax) && (20..=50).contains(&ay), "{ax} {ay}");
            assert!((10..=60).contains(&bx) && (20..=50).contains(&by), "{bx} {by}");
            assert_eq!(ax - bx, by - ay, "a line of 45 degrees");
        }
    }
}
