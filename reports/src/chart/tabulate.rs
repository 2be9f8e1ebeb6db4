//! The numbers of a chart as a table: what is drawn, and nothing else.

use super::{Axis, Chart, Heat, Lanes, MarkValue, Plane, Rows};
use crate::table::{Cell, Heading, Table, Unit};

impl Chart {
    /// The table behind the picture: one row for each mark.
    pub fn table(&self) -> Table {
        match self {
            Chart::Planes(planes) => of_planes(planes),
            Chart::Rows(rows) => of_rows(rows),
            Chart::Heat(heat) => of_heat(heat),
            Chart::Lanes(lanes) => of_lanes(lanes),
            Chart::Table(table) => table.clone(),
        }
    }
}

/// A table from its columns, each with the cells of all rows. A column without any value is left out, unless it is the first.
fn table(columns: Vec<(Heading, Vec<Cell>)>) -> Table {
    let is_empty = |cells: &[Cell]| {
        cells.iter().all(|cell| match cell {
            Cell::Missing => true,
            Cell::Text(text) => text.is_empty(),
            Cell::Number { .. } => false,
        })
    };
    let kept: Vec<(Heading, Vec<Cell>)> = columns
        .into_iter()
        .enumerate()
        .filter(|(number, (_, cells))| *number == 0 || !is_empty(cells))
        .map(|(_, column)| column)
        .collect();
    let count = kept.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let row = |number: usize| {
        kept.iter().map(|(_, cells)| cells.get(number).cloned().unwrap_or(Cell::Missing)).collect()
    };
    Table {
        rows: (0..count).map(row).collect(),
        columns: kept.into_iter().map(|(column, _)| column).collect(),
    }
}

fn texts(name: &str, cells: impl Iterator<Item = String>) -> (Heading, Vec<Cell>) {
    (Heading { name: name.into(), title: name.replace('_', " ") }, cells.map(Cell::Text).collect())
}

fn numbers(
    name: String,
    title: &str,
    unit: Unit,
    cells: impl Iterator<Item = Option<f64>>,
) -> (Heading, Vec<Cell>) {
    (Heading { name, title: title.into() }, cells.map(|value| Cell::number(unit, value)).collect())
}

/// Three columns of a quantity: its value and the ends of its interval.
fn quantity(axis: &Axis, values: &[Option<f64>], ci: &[Option<(f64, f64)>]) -> [(Heading, Vec<Cell>); 3] {
    let end = |suffix: &str, title: &str, of: fn((f64, f64)) -> f64| {
        numbers(format!("{}_{suffix}", axis.column), title, axis.unit, ci.iter().map(|ci| ci.map(of)))
    };
    [
        numbers(axis.column.clone(), &axis.label, axis.unit, values.iter().copied()),
        end("ci_lo", "interval from", |(lo, _)| lo),
        end("ci_hi", "interval to", |(_, hi)| hi),
    ]
}

fn of_planes(planes: &[Plane]) -> Table {
    let all: Vec<_> = planes
        .iter()
        .flat_map(|plane| {
            plane
                .series
                .iter()
                .flat_map(move |series| series.points.iter().map(move |point| (plane, series, point)))
        })
        .collect();
    let Some(first) = planes.first() else { return Table::default() };
    let mut columns = vec![
        texts("plane", all.iter().map(|(plane, ..)| plane.title.clone())),
        texts("series", all.iter().map(|(_, series, _)| series.name.clone())),
        texts("label", all.iter().map(|(.., point)| point.label.clone())),
    ];
    // Planes of one figure may show different quantities, whose numbers then stand in columns of their own.
    for axis in distinct(planes.iter().map(|plane| &plane.x)) {
        let x = all.iter().map(|(plane, _, point)| (plane.x.column == axis.column).then_some(point.x));
        columns.push(numbers(axis.column.clone(), &axis.label, axis.unit, x));
    }
    for axis in distinct(planes.iter().map(|plane| &plane.y)) {
        let of = |plane: &Plane| plane.y.column == axis.column;
        let values: Vec<_> = all.iter().map(|(plane, _, point)| of(plane).then_some(point.y)).collect();
        let ci: Vec<_> = all.iter().map(|(plane, _, point)| point.ci.filter(|_| of(plane))).collect();
        columns.extend(quantity(axis, &values, &ci));
    }
    columns
        .push(texts("marked", all.iter().map(|(.., point)| if point.is_marked { "yes" } else { "" }.into())));
    columns.push(texts("warnings", all.iter().map(|(.., point)| point.doubt.clone())));
    if planes.len() == 1 && first.title.is_empty() {
        columns.remove(0);
    }
    table(columns)
}

/// The axes with different columns, in order.
fn distinct<'a>(axes: impl Iterator<Item = &'a Axis>) -> Vec<&'a Axis> {
    let mut found: Vec<&Axis> = Vec::new();
    for axis in axes {
        if !found.iter().any(|known| known.column == axis.column) {
            found.push(axis);
        }
    }
    found
}

fn of_rows(rows: &Rows) -> Table {
    // A row without a mark is a row of the table, too: it has the reason.
    let all: Vec<_> = rows
        .rows
        .iter()
        .flat_map(|row| {
            let marks: Vec<_> =
                if row.marks.is_empty() { vec![None] } else { row.marks.iter().map(Some).collect() };
            marks.into_iter().map(move |mark| (row, mark))
        })
        .collect();
    let value = |of: MarkValue| match of {
        MarkValue::Bar(value) | MarkValue::Dot { value, .. } => value,
        MarkValue::Box([.., median, _, _]) => median,
    };
    let ci = |of: MarkValue| match of {
        MarkValue::Dot { ci, .. } => ci,
        MarkValue::Bar(_) | MarkValue::Box(_) => None,
    };
    let five = |number: usize| {
        all.iter().map(move |(_, mark)| match mark.map(|mark| mark.quantity) {
            Some(MarkValue::Box(five)) => five.get(number).copied(),
            _ => None,
        })
    };
    let values: Vec<_> = all.iter().map(|(_, mark)| mark.map(|mark| value(mark.quantity))).collect();
    let intervals: Vec<_> = all.iter().map(|(_, mark)| mark.and_then(|mark| ci(mark.quantity))).collect();
    let mut columns = vec![
        texts(&rows.column, all.iter().map(|(row, _)| row.name.clone())),
        texts("part", all.iter().map(|(_, mark)| mark.map_or(String::new(), |mark| mark.part.clone()))),
    ];
    columns.extend(quantity(&rows.value, &values, &intervals));
    for (suffix, number) in [("min", 0), ("q1", 1), ("q3", 3), ("max", 4)] {
        columns.push(numbers(
            format!("{}_{suffix}", rows.value.column),
            suffix,
            rows.value.unit,
            five(number),
        ));
    }
    columns.push(texts("note", all.iter().map(|(row, _)| row.note.clone())));
    columns.push(texts(
        "warnings",
        all.iter().map(|(_, mark)| mark.map_or(String::new(), |mark| mark.doubt.clone())),
    ));
    table(columns)
}

fn of_heat(heat: &Heat) -> Table {
    let all: Vec<_> = heat
        .rows
        .iter()
        .zip(&heat.cells)
        .flat_map(|(row, cells)| {
            heat.columns.iter().zip(cells).map(move |(column, cell)| (row, column, cell))
        })
        .collect();
    let values: Vec<_> = all.iter().map(|(.., cell)| cell.value).collect();
    let ci: Vec<_> = all.iter().map(|(.., cell)| cell.ci).collect();
    let mut columns = vec![
        texts(&heat.row_column, all.iter().map(|(row, ..)| (*row).clone())),
        texts(&heat.column_column, all.iter().map(|(_, column, _)| (*column).clone())),
    ];
    columns.extend(quantity(&heat.value, &values, &ci));
    columns.push(texts("warnings", all.iter().map(|(.., cell)| cell.doubt.clone())));
    table(columns)
}

fn of_lanes(lanes: &Lanes) -> Table {
    let spans = &lanes.spans;
    let time = |suffix: &str, of: fn(&super::Span) -> f64| {
        numbers(format!("{suffix}_ns"), suffix, lanes.time.unit, spans.iter().map(move |span| Some(of(span))))
    };
    table(vec![
        texts(
            &lanes.column,
            spans.iter().map(|span| lanes.lanes.get(span.lane).cloned().unwrap_or_default()),
        ),
        texts("job", spans.iter().map(|span| span.name.clone())),
        texts("workload", spans.iter().map(|span| span.group.clone())),
        texts("kind", spans.iter().map(|span| format!("{:?}", span.kind).to_lowercase())),
        time("from", |span| span.from),
        time("to", |span| span.to),
        texts("detail", spans.iter().map(|span| span.detail.clone())),
    ])
}
