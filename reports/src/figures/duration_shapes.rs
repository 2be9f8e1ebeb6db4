//! The shapes of a duration model: what each level of a feature multiplies the duration of a job by, and each pair of levels.

mod levels;

use formats::rows::DurationShape;

use self::levels::{chosen, days, hour, order, seconds, words};
use super::together::distinct;
use crate::{
    chart::{Axis, Chart, Form, Heat, HeatCell, MarkValue, Plane, Point, RowMark, RowOf, Rows, Rule, Series},
    colours::Colours,
    figure::Figure,
    shapes::ShapeTable,
    table::Unit,
};

/// The most levels of a feature that are drawn, and of each feature of a pair.
const MOST_LEVELS: usize = 24;
const MOST_OF_PAIR: usize = 12;

pub(super) fn make(table: &ShapeTable, _: &Colours) -> Vec<Figure> {
    let terms = distinct(table.rows.iter().map(|row| (row.feature.as_str(), row.other_feature.as_deref())));
    let figure = |(feature, other): (&str, Option<&str>)| {
        let rows = table.rows.iter();
        let rows = rows.filter(|row| row.feature == feature && row.other_feature.as_deref() == other);
        let rows: Vec<&DurationShape> = rows.collect();
        match other {
            None => single(table, feature, &rows),
            Some(other) => pair(table, (feature, other), &rows),
        }
    };
    terms.into_iter().map(figure).collect()
}

fn single(table: &ShapeTable, feature: &str, rows: &[&DurationShape]) -> Figure {
    // A line has a point for each level that is a quantity.
    let quantity = order(feature).filter(|_| matches!(feature, "hour" | "last_duration"));
    let is_known = |row: &&DurationShape| quantity.is_none_or(|of| of(&row.level).is_some());
    let (known, unknown): (Vec<&DurationShape>, Vec<&DurationShape>) =
        rows.iter().copied().partition(is_known);
    let drawn = chosen(feature, known.iter().map(|row| (row.level.as_str(), row.jobs)), MOST_LEVELS);
    let of_level = |level: &&str| known.iter().find(|row| row.level == *level).copied();
    let mut shown: Vec<&DurationShape> = drawn.iter().filter_map(of_level).collect();
    if order(feature).is_none() {
        shown.sort_by(|a, b| b.factor.total_cmp(&a.factor).then_with(|| a.level.cmp(&b.level)));
    }
    let factor = Axis::new("factor of the duration", "factor", Unit::Ratio).log();
    let chart = match feature {
        "hour" => curve(Axis::new("hour of the day, UTC", "hour", Unit::Count), factor, &shown, hour),
        "last_duration" => curve(
            Axis::new("duration of the last job", "last_duration_ns", Unit::Ns).log(),
            factor,
            &shown,
            seconds,
        ),
        _ => Chart::Rows(Rows {
            value: factor,
            column: feature.into(),
            rows: shown.iter().map(|row| dot(feature, row)).collect(),
            rule: Some((1.0, "as without it".into())),
        }),
    };
    let caption = format!(
        "What the additive model multiplies the duration of a job by for its {}, by {}. The factors of a feature are those that \
         remain when all others are considered, and a level with few jobs has a factor near 1.",
        words(feature),
        table.name
    );
    let mut figure = Figure::new(format!("Durations by {feature}"), caption, chart);
    figure.part = feature.into();
    figure.finding = finding(feature, &shown);
    figure.missing = left_out(words(feature), known.len(), shown.len());
    let jobs: u32 = unknown.iter().map(|row| row.jobs).sum();
    figure.missing.extend((jobs > 0).then(|| format!("{jobs} jobs without a known {}", words(feature))));
    figure
}

/// A dot for a level.
fn dot(feature: &str, row: &DurationShape) -> RowOf {
    let name = if feature == "day" { days(&row.level) } else { named(&row.level) };
    let mark = RowMark {
        part: String::new(),
        colour: Colours::nth(0),
        quantity: MarkValue::Dot { value: row.factor, ci: None },
        doubt: String::new(),
    };
    RowOf { name, marks: vec![mark], note: format!("{} jobs", row.jobs) }
}

/// A line over a feature that is a quantity.
fn curve(x: Axis, y: Axis, rows: &[&DurationShape], quantity: fn(&str) -> Option<f64>) -> Chart {
    let point = |row: &&DurationShape| {
        let label = format!("{}: {} jobs", row.level, row.jobs);
        Some(Point { label, ..Point::at(quantity(&row.level)?, row.factor) })
    };
    let points = rows.iter().filter_map(point).collect();
    let mut plane = Plane::new(x.tight(), y);
    plane.series.push(Series::new("factor", Colours::nth(0), Form::LineAndDots, points));
    plane.rules.push(Rule::At { y: 1.0, name: "as without it".into() });
    Chart::Planes(vec![plane])
}

fn pair(table: &ShapeTable, (feature, other): (&str, &str), rows: &[&DurationShape]) -> Figure {
    let of_first = chosen(feature, rows.iter().map(|row| (row.level.as_str(), row.jobs)), MOST_OF_PAIR);
    let second = |row: &&DurationShape| row.other_level.clone().unwrap_or_default();
    let others: Vec<(String, u32)> = rows.iter().map(|row| (second(row), row.jobs)).collect();
    let of_second = chosen(other, others.iter().map(|(level, jobs)| (level.as_str(), *jobs)), MOST_OF_PAIR);
    let cell = |level: &str, other_level: &str| {
        let row = rows.iter().find(|row| row.level == level && second(row) == other_level);
        let unknown = || HeatCell { doubt: "fewer than two jobs".into(), ..HeatCell::default() };
        row.map_or_else(unknown, |row| HeatCell { value: Some(row.factor), ..HeatCell::default() })
    };
    let cells: Vec<Vec<HeatCell>> =
        of_first.iter().map(|level| of_second.iter().map(|other| cell(level, other)).collect()).collect();
    let names = |feature: &str, levels: &[&str]| {
        let name = |level: &&str| if feature == "day" { days(level) } else { named(level) };
        levels.iter().map(name).collect::<Vec<String>>()
    };
    let chart = Chart::Heat(Heat {
        row_column: feature.into(),
        column_column: other.into(),
        value: Axis::new("factor of the duration", "factor", Unit::Ratio).log(),
        neutral: 1.0,
        rows: names(feature, &of_first),
        columns: names(other, &of_second),
        cells,
    });
    let caption = format!(
        "What the additive model multiplies the duration of a job by for its {} together with its {}, beside the factors of both \
         alone, by {}. The levels of at most {MOST_OF_PAIR} with the most jobs are drawn. A cell without a number has fewer than two jobs.",
        words(feature),
        words(other),
        table.name
    );
    let mut figure = Figure::new(format!("Durations by {feature}-{other}"), caption, chart);
    figure.part = format!("{feature}-{other}");
    let drawn = |level: &str, other: &str| of_first.contains(&level) && of_second.contains(&other);
    let shown = rows.iter().filter(|row| drawn(&row.level, &second(row))).count();
    figure.missing = left_out("pair", rows.len(), shown);
    figure
}

fn named(level: &str) -> String {
    if level.is_empty() { "unknown".into() } else { level.into() }
}

fn left_out(of: &str, all: usize, drawn: usize) -> Vec<String> {
    let rest = all.saturating_sub(drawn);
    (rest > 0).then(|| format!("{rest} of {all} levels of this {of}, with fewer jobs")).into_iter().collect()
}

/// The range of the factors.
fn finding(feature: &str, rows: &[&DurationShape]) -> String {
    let least = rows.iter().min_by(|a, b| a.factor.total_cmp(&b.factor));
    let most = rows.iter().max_by(|a, b| a.factor.total_cmp(&b.factor));
    let Some((least, most)) = least.zip(most).filter(|(least, most)| least.factor < most.factor) else {
        return String::new();
    };
    let of = |row: &DurationShape| {
        let level = if feature == "day" { days(&row.level) } else { named(&row.level) };
        format!("{:.3} for {level} ({} jobs)", row.factor, row.jobs)
    };
    format!("the {} changes durations by factors from {} to {}", words(feature), of(least), of(most))
}

#[cfg(test)]
mod tests;
