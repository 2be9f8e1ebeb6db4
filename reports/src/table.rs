//! Tables of values, as a page shows them, a terminal prints them and a CSV file holds them.

use schema::units::{HumanBytes, Nanos};

/// Rows of values under named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Heading>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Heading {
    /// The name in CSV, with the unit: `step_ns_median`.
    pub name: String,
    /// The header for people: `median step`.
    pub title: String,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The value was not measured. It is an empty cell in CSV, and never zero.
    Missing,
    Text(String),
    Number {
        value: f64,
        unit: Unit,
    },
}

/// The unit of numbers, which decides how people see them. Files hold the plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, shown as `12.5 ms`.
    Ns,
    /// Nanoseconds with a sign, for differences.
    SignedNs,
    Bytes,
    BytesPerS,
    Percent,
    /// A whole number of things.
    Count,
    /// A number per second.
    PerS,
    /// A ratio of two quantities, shown with three decimals.
    Ratio,
    /// A number of any size without a unit, shown with up to six significant digits.
    Plain,
    Millijoules,
    Milliwatts,
    Mhz,
    Celsius,
}

impl Unit {
    /// A value for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Ns => Nanos(value.max(0.0).round() as u64).to_string(),
            Unit::SignedNs if value < 0.0 => format!("-{}", Nanos((-value).round() as u64)),
            Unit::SignedNs => format!("+{}", Nanos(value.round() as u64)),
            Unit::Bytes => HumanBytes(value.max(0.0).round() as u64).to_string(),
            Unit::BytesPerS => format!("{}/s", HumanBytes(value.max(0.0).round() as u64)),
            Unit::Percent => format!("{} %", plain(value)),
            Unit::Count => format!("{value:.0}"),
            Unit::PerS => format!("{}/s", plain(value)),
            Unit::Ratio => format!("{value:.3}"),
            Unit::Plain => format!("{value:.5e}").parse::<f64>().unwrap_or(value).to_string(),
            Unit::Millijoules => format!("{} J", plain(value / 1e3)),
            Unit::Milliwatts => format!("{} W", plain(value / 1e3)),
            Unit::Mhz => format!("{value:.0} MHz"),
            Unit::Celsius => format!("{value:.0} C"),
        }
    }
}

/// Three significant digits without an exponent, and no digit of a whole number left out.
fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

impl Table {
    /// A table with these columns, each the name in CSV and the title for people, and no rows.
    pub fn new(columns: &[(&str, &str)]) -> Table {
        let column = |(name, title): &(&str, &str)| Heading { name: (*name).into(), title: (*title).into() };
        Table { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Whether a column has numbers, which are read from the right.
    pub fn is_of_numbers(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number { .. })))
    }

    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
    }
}

impl Cell {
    pub fn text(text: impl ToString) -> Cell {
        Cell::Text(text.to_string())
    }

    /// A text, or a missing one.
    pub fn maybe_text(text: Option<impl ToString>) -> Cell {
        text.map_or(Cell::Missing, Cell::text)
    }

    /// A number, or a missing one. A number that is not finite is missing, too.
    pub fn number(unit: Unit, value: Option<f64>) -> Cell {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Cell::Number { value, unit },
            None => Cell::Missing,
        }
    }

    /// A whole number, or a missing one.
    pub fn whole(unit: Unit, value: Option<u64>) -> Cell {
        Cell::number(unit, value.map(|value| value as f64))
    }

    /// The value for people; a dash if it is missing.
    pub fn shown(&self) -> String {
        match self {
            Cell::Missing => "-".into(),
            Cell::Text(text) => text.clone(),
            Cell::Number { value, unit } => unit.show(*value),
        }
    }

    /// The value in CSV. A text that a spreadsheet would take for a formula begins with an apostrophe.
    pub fn in_csv(&self) -> String {
        match self {
            Cell::Missing => String::new(),
            Cell::Text(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => format!("'{text}"),
            Cell::Text(text) => text.clone(),
            Cell::Number { value, .. } => value.to_string(),
        }
    }
}
