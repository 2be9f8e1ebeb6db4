//! What a figure shows, as data. `draw` turns it into a picture and `tabulate` into a table, so that both have the same numbers.

mod axis;
mod draw;
mod heat;
mod lanes;
mod legend;
mod mark;
mod planes;
mod rows;
mod tabulate;
mod text;

use crate::{
    colours::Colour,
    table::{Table, Unit},
};

/// The content of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// One plane of points and lines, or several beside each other.
    Planes(Vec<Plane>),
    /// Quantities of named rows, along one horizontal axis.
    Rows(Rows),
    /// A matrix of numbers.
    Heat(Heat),
    /// Spans of time on lanes: a Gantt chart.
    Lanes(Lanes),
    /// Numbers alone.
    Table(Table),
}

/// A plane with a horizontal and a vertical axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// The title among several planes; empty for a single one.
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Straight lines that help to read the others.
    pub rules: Vec<Rule>,
    /// Ranges of the horizontal axis with a background, such as a warm-up.
    pub shades: Vec<Shade>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity for people: `time of a step`.
    pub label: String,
    /// Its column in CSV, with the unit: `step_ns`.
    pub column: String,
    pub unit: Unit,
    pub scale: Scale,
    /// Whether the axis begins at zero. A logarithmic axis never does.
    pub from_zero: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend. Series of one name share its entry.
    pub name: String,
    pub colour: Colour,
    pub form: Form,
    pub points: Vec<Point>,
    /// The number of points before decimation, if some were left out.
    pub decimated_from: Option<usize>,
}

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Line,
    DashedLine,
    /// A line that keeps its value until the next point: a CDF, a utilisation.
    Steps,
    /// The area between such a line and the axis: a histogram.
    Area,
    Dots,
    /// Dots that are joined.
    LineAndDots,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The 95 % interval of `y`.
    pub ci: Option<(f64, f64)>,
    /// What the point is, for a reader who points at it.
    pub label: String,
    /// Why the point is doubtful: the warnings of its row. Such a point is drawn hollow.
    pub doubt: String,
    /// Whether the point is ringed, such as a member of a Pareto front.
    pub is_marked: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// A horizontal line, with its name.
    At { y: f64, name: String },
    /// A vertical line, with its name.
    Upright { x: f64, name: String },
    /// The line through the origin on which `y` equals `x`.
    Equal,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Shade {
    pub from: f64,
    pub to: f64,
    pub name: String,
}

/// Rows of bars, dots or boxes. The text of a row is to its left.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The horizontal axis.
    pub value: Axis,
    /// What the rows are, as the column of CSV: `job`.
    pub column: String,
    pub rows: Vec<RowOf>,
    /// A vertical line to compare with, and its name.
    pub rule: Option<(f64, String)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowOf {
    pub name: String,
    /// In the order in which they are drawn. Bars of one row are stacked.
    pub marks: Vec<RowMark>,
    /// Why there is no mark, or what else is to be said of the row: `unsupported: needs 2 devices`.
    pub note: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RowMark {
    /// The name in the legend, as a phase or a sharing mode; empty if there is one kind of mark only.
    pub part: String,
    pub colour: Colour,
    pub quantity: MarkValue,
    /// Why it is doubtful: the warnings of its row of the table.
    pub doubt: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MarkValue {
    Bar(f64),
    /// A value with its 95 % interval, if it has one.
    Dot {
        value: f64,
        ci: Option<(f64, f64)>,
    },
    /// The five numbers of a box: least, quartile, median, quartile, largest. The whiskers reach the extremes.
    Box([f64; 5]),
}

/// A matrix: rows from top to bottom, columns from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// What rows and columns are, as columns of CSV: `victim` and `aggressor`.
    pub row_column: String,
    pub column_column: String,
    pub value: Axis,
    /// The value whose colour is neutral.
    pub neutral: f64,
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// `cells[row][column]`.
    pub cells: Vec<Vec<HeatCell>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatCell {
    /// Absent if it was not measured. Such a cell is hollow.
    pub value: Option<f64>,
    /// The number is grey if its interval includes the neutral value.
    pub ci: Option<(f64, f64)>,
    /// Why the value is doubtful or absent. A cell with a doubtful value is hatched.
    pub doubt: String,
}

/// Spans on lanes along a horizontal axis of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Lanes {
    pub time: Axis,
    /// What the lanes are, as the column of CSV: `device`.
    pub column: String,
    pub lanes: Vec<String>,
    /// In order of their begin within each lane.
    pub spans: Vec<Span>,
    /// The number of spans before those too narrow to see were joined, if some were.
    pub decimated_from: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub lane: usize,
    pub from: f64,
    pub to: f64,
    /// Where in the height of the lane it lies: the part from the top, and the number of parts. Jobs that share a device lie below
    /// each other.
    pub part: (u16, u16),
    /// The job, or what else it is.
    pub name: String,
    /// What is written into it, if there is room.
    pub label: String,
    /// What the colour stands for, which the legend names: the workload of the job.
    pub group: String,
    pub kind: SpanKind,
    pub colour: Colour,
    /// What happened, for a reader who points at it: the plan, the steps, the failure.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpanKind {
    Running,
    /// It starts, pauses, resumes or stops.
    Switching,
    /// It keeps its device and does not run.
    Paused,
    /// Nothing can run: the device is lost.
    Lost,
    /// Several spans that are too narrow to be told apart.
    Several,
    /// An instant: a launch failed.
    Failed,
}

impl Axis {
    /// A linear axis that begins at zero.
    pub fn new(label: &str, column: &str, unit: Unit) -> Axis {
        Axis { label: label.into(), column: column.into(), unit, scale: Scale::Linear, from_zero: true }
    }

    pub fn log(self) -> Axis {
        Axis { scale: Scale::Log, from_zero: false, ..self }
    }

    /// An axis that shows the range of its values and not zero.
    pub fn tight(self) -> Axis {
        Axis { from_zero: false, ..self }
    }
}

impl Plane {
    pub fn new(x: Axis, y: Axis) -> Plane {
        Plane { title: String::new(), x, y, series: Vec::new(), rules: Vec::new(), shades: Vec::new() }
    }
}

impl Series {
    pub fn new(name: impl Into<String>, colour: Colour, form: Form, points: Vec<Point>) -> Series {
        Series { name: name.into(), colour, form, points, decimated_from: None }
    }
}

impl Point {
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, y, ..Point::default() }
    }
}

#[cfg(test)]
mod tests;
