//! Draws planes: points, lines and areas between a horizontal and a vertical axis.

use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, cartesian::Cartesian2d},
    drawing::DrawingArea,
    element::Rectangle,
    style::{Color as _, text_anchor::HPos},
};

use super::{
    Form, Plane, Point, Rule, Series, Shade,
    axis::AxisRange,
    draw::{Area, Drawn},
    legend::Legend,
    mark::{Mark, Shape},
    text::{self, LINE, SIZE, SMALL},
};
use crate::{
    canvas::{Canvas, WIDTH, grid},
    colours::Colour,
};

/// Several planes stand in this many columns.
const COLUMNS: usize = 2;
/// The room for the words at an axis.
const LEFT: u32 = 130;
const BELOW: u32 = 72;
const MARGIN: u32 = 10;
const RIGHT: i32 = 48;

type Context<'c, 'a> = ChartContext<'c, Canvas<'a>, Cartesian2d<AxisRange, AxisRange>>;

pub(super) fn height(planes: &[Plane]) -> u32 {
    let rows = planes.len().div_ceil(columns(planes)).max(1) as u32;
    legend(planes).height() as u32 + rows * plane_height(planes)
}

fn columns(planes: &[Plane]) -> usize {
    planes.len().clamp(1, COLUMNS)
}

fn plane_height(planes: &[Plane]) -> u32 {
    match planes {
        [only] if is_of_equality(only) => 1_100,
        [_] | [] => 760,
        _ => 520,
    }
}

/// Whether both axes show the same quantity, so that equality is the point. Such a plane is square, and its axes have one range.
fn is_of_equality(plane: &Plane) -> bool {
    plane.rules.contains(&Rule::Equal)
}

fn legend(planes: &[Plane]) -> Legend {
    Legend::of(planes.iter().flat_map(|plane| &plane.series).map(|series| (&*series.name, series.colour)))
}

pub(super) fn draw(planes: &[Plane], area: &Area<'_>) -> Drawn {
    let legend = legend(planes);
    let (above, below) = area.split_vertically(legend.height());
    legend.draw(&above)?;
    let columns = columns(planes);
    let cells = below.split_evenly((planes.len().div_ceil(columns).max(1), columns));
    planes.iter().zip(&cells).try_for_each(|(plane, cell)| draw_plane(plane, cell, WIDTH as usize / columns))
}

fn draw_plane(plane: &Plane, area: &DrawingArea<Canvas<'_>, Shift>, width: usize) -> Drawn {
    let points = || plane.series.iter().flat_map(|series| &series.points);
    let rules = plane.rules.iter();
    let upright = rules.clone().filter_map(|rule| match rule {
        Rule::Upright { x, .. } => Some((*x, None)),
        Rule::At { .. } | Rule::Equal => None,
    });
    let level = rules.filter_map(|rule| match rule {
        Rule::At { y, .. } => Some((*y, None)),
        Rule::Upright { .. } | Rule::Equal => None,
    });
    let mut x = AxisRange::of(&plane.x, points().map(|point| (point.x, None)).chain(upright));
    let mut y = AxisRange::of(&plane.y, points().map(|point| (point.y, point.ci)).chain(level));
    if is_of_equality(plane) {
        x = AxisRange::of(&plane.x, points().flat_map(|point| [(point.x, None), (point.y, point.ci)]));
        y = x.clone();
    }
    let title = if plane.title.is_empty() { 0 } else { LINE };
    let words = width / 13;
    area.draw_text(
        &text::shortened(&plane.title, words),
        &text::style(SIZE, Colour::Ink, HPos::Left),
        (20, LINE / 2),
    )?;
    let label = text::shortened(&y.label(&plane.y), words);
    area.draw_text(&label, &text::style(SMALL, Colour::Muted, HPos::Left), (20, title + LINE / 2))?;
    let top = title + LINE + 8;
    let (plot_width, plot_height) =
        (width as i32 - LEFT as i32 - RIGHT, area.dim_in_pixel().1 as i32 - top - (BELOW + MARGIN) as i32);
    let unused = if is_of_equality(plane) { (plot_width - plot_height).max(0) } else { 0 };
    let mut chart = ChartBuilder::on(area)
        .margin_top(top)
        .margin_bottom(MARGIN)
        .margin_right(RIGHT + unused)
        .set_label_area_size(plotters::chart::LabelAreaPosition::Left, LEFT)
        .set_label_area_size(plotters::chart::LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(x.clone(), y.clone())?;
    plane.shades.iter().try_for_each(|shade| draw_shade(shade, &mut chart, y.ends()))?;
    chart
        .configure_mesh()
        .x_labels(if width > 1000 && unused == 0 { 9 } else { 5 })
        .y_labels(6)
        .max_light_lines(0)
        .bold_line_style(grid())
        .axis_style(Colour::Muted.on_paper())
        .label_style(text::style(SMALL, Colour::Muted, HPos::Center))
        .axis_desc_style(text::style(SMALL, Colour::Muted, HPos::Center))
        .x_desc(x.label(&plane.x))
        .draw()?;
    for rule in &plane.rules {
        draw_rule(rule, &mut chart, (&x, &y))?;
    }
    plane.series.iter().try_for_each(|series| draw_series(series, plane, &mut chart, y.ends().0))
}

fn draw_shade(shade: &Shade, chart: &mut Context<'_, '_>, (lo, hi): (f64, f64)) -> Drawn {
    let style = Colour::Muted.on_paper().mix(0.14).filled();
    chart.plotting_area().draw(&Rectangle::new([(shade.from, hi), (shade.to, lo)], style))?;
    let area = chart.plotting_area();
    let (from, to) = (area.map_coordinate(&(shade.from, hi)), area.map_coordinate(&(shade.to, hi)));
    let (left, top) = area.get_base_pixel();
    if text::width(&shade.name, SMALL) < to.0 - from.0 {
        let words = text::style(SMALL, Colour::Muted, HPos::Left);
        let at = (from.0 - left + 6, from.1 - top + LINE / 2);
        area.strip_coord_spec().draw_text(&shade.name, &words, at)?;
    }
    Ok(())
}

fn draw_rule(rule: &Rule, chart: &mut Context<'_, '_>, (x, y): (&AxisRange, &AxisRange)) -> Drawn {
    let ((left, right), (low, high)) = (x.ends(), y.ends());
    let (points, name) = match rule {
        Rule::At { y, name } => (vec![(left, *y), (right, *y)], name.as_str()),
        Rule::Upright { x, name } => (vec![(*x, low), (*x, high)], name.as_str()),
        // Outside of both ranges the line would be bent by the edge of the plane.
        Rule::Equal => match (left.max(low), right.min(high)) {
            (from, to) if from < to => (vec![(from, from), (to, to)], "equal"),
            _ => return Ok(()),
        },
    };
    let end = points.last().copied().unwrap_or_default();
    let mark =
        Mark { shape: Shape::Dashed, colour: Colour::Muted, points, data: Vec::new(), title: name.into() };
    let area = chart.plotting_area();
    area.draw(&mark)?;
    let ((end_x, end_y), (base_x, base_y)) = (area.map_coordinate(&end), area.get_base_pixel());
    let (across, at) = match rule {
        Rule::Upright { .. } => (HPos::Left, (end_x - base_x + 8, LINE / 2)),
        // The name ends where the line is already below it.
        Rule::Equal => (HPos::Right, (end_x - base_x - 64, (end_y - base_y).max(LINE / 2))),
        Rule::At { .. } => (HPos::Right, (end_x - base_x - 8, (end_y - base_y - LINE / 2).max(LINE / 2))),
    };
    area.strip_coord_spec().draw_text(name, &text::style(SMALL, Colour::Muted, across), at)
}

fn draw_series(series: &Series, plane: &Plane, chart: &mut Context<'_, '_>, base: f64) -> Drawn {
    let line = |shape, points: Vec<(f64, f64)>| Mark {
        shape,
        colour: series.colour,
        points,
        data: data_of(series, plane),
        title: series.name.clone(),
    };
    let points = || series.points.iter().map(|point| (point.x, point.y));
    let area = chart.plotting_area();
    match series.form {
        Form::Line | Form::LineAndDots => area.draw(&line(Shape::Line, points().collect()))?,
        Form::DashedLine => area.draw(&line(Shape::Dashed, points().collect()))?,
        Form::Steps => area.draw(&line(Shape::Line, steps(points())))?,
        Form::Area => area.draw(&line(Shape::Area, closed(steps(points()), base)))?,
        Form::Dots => {}
    }
    let is_of_dots = matches!(series.form, Form::Dots | Form::LineAndDots);
    let is_dot =
        |point: &&Point| is_of_dots || point.ci.is_some() || point.is_marked || !point.doubt.is_empty();
    for point in series.points.iter().filter(is_dot) {
        area.draw(&dot(point, series, plane))?;
    }
    Ok(())
}

fn dot(point: &Point, series: &Series, plane: &Plane) -> Mark {
    let mut points = vec![(point.x, point.y)];
    points.extend(point.ci.into_iter().flat_map(|(lo, hi)| [(point.x, lo), (point.x, hi)]));
    let mut data =
        vec![("series", series.name.clone()), ("x", point.x.to_string()), ("y", point.y.to_string())];
    data.extend(point.ci.map(|(lo, _)| ("lo", lo.to_string())));
    data.extend(point.ci.map(|(_, hi)| ("hi", hi.to_string())));
    let name = if point.label.is_empty() { &series.name } else { &point.label };
    let interval = point.ci.map_or(String::new(), |(lo, hi)| {
        format!(", 95 % interval {} to {}", plane.y.unit.show(lo), plane.y.unit.show(hi))
    });
    let doubt = if point.doubt.is_empty() { String::new() } else { format!("; doubtful: {}", point.doubt) };
    let title = format!(
        "{name}: {} {}, {} {}{interval}{doubt}",
        plane.x.label,
        plane.x.unit.show(point.x),
        plane.y.label,
        plane.y.unit.show(point.y)
    );
    let shape = Shape::Dot { is_hollow: !point.doubt.is_empty(), is_ringed: point.is_marked };
    Mark { shape, colour: series.colour, points, data, title }
}

/// The numbers of a line, as lists.
fn data_of(series: &Series, plane: &Plane) -> Vec<(&'static str, String)> {
    let list = |value: fn(&Point) -> f64| {
        series.points.iter().map(|point| value(point).to_string()).collect::<Vec<_>>().join(" ")
    };
    vec![
        ("series", series.name.clone()),
        ("xs", list(|point| point.x)),
        ("ys", list(|point| point.y)),
        ("x-scale", format!("{:?}", plane.x.scale).to_lowercase()),
        ("x-unit", format!("{:?}", plane.x.unit)),
        ("y-unit", format!("{:?}", plane.y.unit)),
    ]
}

/// The corners of a line that keeps its value until the next point.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        if let Some(&(_, before)) = corners.last() {
            corners.push((x, before));
        }
        corners.push((x, y));
    }
    corners
}

/// The corners of the area between a line and the axis.
fn closed(mut corners: Vec<(f64, f64)>, base: f64) -> Vec<(f64, f64)> {
    if let (Some(&(first, _)), Some(&(last, _))) = (corners.first(), corners.last()) {
        corners.insert(0, (first, base));
        corners.push((last, base));
    }
    corners
}
