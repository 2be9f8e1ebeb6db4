//! Checks for impossible values. The name of a column determines what it holds, so that the check does not
//! need the type of the row.

use std::ops::RangeInclusive;

use csv::StringRecord;
use schema::units::Nanos;

use super::{RowError, records::shown};

/// Columns of names, which may be any text.
const NAMES: [&str; 26] = [
    "run",
    "launch",
    "step_launch",
    "name",
    "job",
    "workload",
    "command",
    "plan",
    "device",
    "sharing",
    "group",
    "stressor",
    "user",
    "vc",
    "recurring_job",
    "feature",
    "level",
    "other_feature",
    "other_level",
    "submit_utc",
    "began_utc",
    "boot_id",
    "unit",
    "meaning",
    "err",
    "err_detail",
];

/// The largest plausible ratio of two speeds: no job is a million times faster or slower beside another one.
pub const MOST_RATIO: f64 = 1e6;
const RATIOS: RangeInclusive<f64> = 1.0 / MOST_RATIO..=MOST_RATIO;

/// Columns of the times of several devices together, which may be longer than any time of one.
const OF_DEVICES: [&str; 2] = ["device_time_ns", "busy_share_ns"];

/// The largest plausible numbers: no machine does more in a second, moves more bytes in a run, or uses more of a part of it.
const MOST_PER_S: f64 = 1e15;
const MOST_BYTES: f64 = 1e18;
const MOST_PERCENT: f64 = 1e6;
/// The largest half width of an interval, in percent of its estimate. An interval that is wider says nothing.
pub const MOST_HALF_WIDTH_PERCENT: f64 = 1e6;

/// What the cells of a column hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    Name,
    Rate,
    Ratio,
    /// An end of the interval of a ratio, which may be wide: two repeats can differ much.
    RatioEnd,
    StepTime,
    /// A time up to [`Nanos::LONGEST`].
    Time,
    Bytes,
    /// Half of the width of an interval, in percent.
    HalfWidth,
    /// The part of a device or of its memory that is in use.
    Utilisation,
    /// The mean of a loss, which may be negative.
    Loss,
    /// From -1 to 1.
    Correlation,
    /// Any other number, or words.
    Other,
}

impl Holds {
    fn of(column: &str) -> Holds {
        if let Some(of) = column.strip_suffix("_ci_lo").or_else(|| column.strip_suffix("_ci_hi")) {
            return Holds::of(of).of_an_end();
        }
        match column {
            _ if NAMES.contains(&column) => Holds::Name,
            "loss" => Holds::Loss,
            _ if column.ends_with("correlation") => Holds::Correlation,
            _ if column.ends_with("_per_s") => Holds::Rate,
            _ if column.starts_with("slowdown") || column.ends_with("norm_throughput") => Holds::Ratio,
            _ if column.starts_with("step_ns") => Holds::StepTime,
            _ if column.ends_with("_ns") && !OF_DEVICES.contains(&column) => Holds::Time,
            _ if column.ends_with("_bytes") => Holds::Bytes,
            _ if column.starts_with("half_width_percent") => Holds::HalfWidth,
            _ if column.contains("util_percent") || column.contains("occupancy_percent") => {
                Holds::Utilisation
            }
            _ => Holds::Other,
        }
    }

    /// What the ends of an interval around such a value hold. The lower end may be 0.
    fn of_an_end(self) -> Holds {
        match self {
            Holds::Ratio => Holds::RatioEnd,
            Holds::StepTime => Holds::Time,
            Holds::Rate => Holds::Other,
            other => other,
        }
    }

    /// The reason why this cell is invalid in the column.
    fn problem(self, cell: &str) -> Option<String> {
        if self == Holds::Name || cell.is_empty() {
            return None;
        }
        if let Some(problem) = hexadecimal(cell) {
            return Some(problem);
        }
        let value: f64 = cell.parse().ok()?;
        let longest = Nanos::LONGEST.0 as f64;
        let is_wrong = match self {
            Holds::Name => false,
            Holds::Loss => !value.is_finite(),
            Holds::Correlation => !(-1.0..=1.0).contains(&value),
            Holds::Rate => !(value > 0.0 && value <= MOST_PER_S),
            Holds::Ratio => !RATIOS.contains(&value),
            Holds::RatioEnd => !(0.0..=MOST_RATIO).contains(&value),
            Holds::StepTime => !(value > 0.0 && value <= longest),
            Holds::Time => !(0.0..=longest).contains(&value),
            Holds::Bytes => !(0.0..=MOST_BYTES).contains(&value),
            Holds::HalfWidth => !(0.0..=MOST_HALF_WIDTH_PERCENT).contains(&value),
            Holds::Utilisation => !(0.0..=MOST_PERCENT).contains(&value),
            Holds::Other => !(value.is_finite() && value >= 0.0),
        };
        let (cell, empty) = (shown(cell), "leave the cell empty where nothing was measured");
        is_wrong.then(|| match self {
            Holds::Rate if value.is_finite() && value > 0.0 => {
                format!("{cell} is more than any machine does in a second; {empty}")
            }
            Holds::Rate => format!("{cell} is no rate; a rate is finite and above 0; {empty}"),
            Holds::Ratio => {
                format!(
                    "{cell} is no ratio of two speeds; it lies between a millionth and a million; {empty}"
                )
            }
            Holds::RatioEnd if value > MOST_RATIO => {
                format!("{cell} is more than a million times as long, which no job takes; {empty}")
            }
            Holds::Correlation => format!("{cell} is no correlation; it lies between -1 and 1; {empty}"),
            Holds::StepTime if value <= 0.0 => {
                format!("{cell} is no time of a step; a step takes at least 1 ns; {empty}")
            }
            Holds::StepTime | Holds::Time if value > longest => {
                format!("{cell} is longer than 146 years, which no run lasts; {empty}")
            }
            Holds::HalfWidth if value.is_finite() && value > 0.0 => {
                format!("{cell} is wider than the widest interval of a table, {MOST_HALF_WIDTH_PERCENT} %; {empty}")
            }
            Holds::Bytes | Holds::Utilisation if value.is_finite() && value > 0.0 => {
                format!("{cell} is more than any machine has; {empty}")
            }
            _ if value < 0.0 => format!("{cell} is below 0; {empty}"),
            _ => format!("{cell} is not finite; {empty}"),
        })
    }
}

/// The reason against a hexadecimal number: the CSV reader would parse 0x10 as 16.
pub fn hexadecimal(cell: &str) -> Option<String> {
    let signs = cell.bytes().take_while(|byte| b"+-".contains(byte)).count();
    matches!(cell.as_bytes()[signs..], [b'0', b'x' | b'X', ..])
        .then(|| format!("{} is hexadecimal; write a decimal number", shown(cell)))
}

/// The columns of an estimate and of the ends of its interval.
#[derive(Debug)]
struct Estimated {
    value: usize,
    lo: usize,
    hi: usize,
}

/// The rules for a table with this header.
#[derive(Debug)]
pub(super) struct Rules {
    header: StringRecord,
    holds: Vec<Holds>,
    estimates: Vec<Estimated>,
    /// The column with the number of repeats behind the estimates.
    repeats: Option<usize>,
}

impl Rules {
    pub(super) fn of(header: &StringRecord) -> Rules {
        let place = |name: &str| header.iter().position(|column| column == name);
        let estimated = |(lo, column): (usize, &str)| {
            let name = column.strip_suffix("_ci_lo")?;
            // The interval of a prediction is over draws, as the median is. The prediction itself may lie outside.
            let value = place(&format!("{name}_median")).or_else(|| place(name))?;
            Some(Estimated { value, lo, hi: place(&format!("{name}_ci_hi"))? })
        };
        Rules {
            holds: header.iter().map(Holds::of).collect(),
            estimates: header.iter().enumerate().filter_map(estimated).collect(),
            repeats: place("repeats").or_else(|| place("blocks")),
            header: header.clone(),
        }
    }

    /// # Errors
    /// The first invalid cell of the record, with its column.
    pub(super) fn check(&self, record: &StringRecord) -> Result<(), (String, String)> {
        let of_cell = |(place, (holds, cell)): (usize, (&Holds, &str))| Some((place, holds.problem(cell)?));
        let of_cells = || self.holds.iter().zip(record).enumerate().find_map(of_cell);
        let of_estimates = || self.estimates.iter().find_map(|estimated| self.of_estimate(estimated, record));
        match of_cells().or_else(of_estimates) {
            Some((place, why)) => Err((self.header[place].to_owned(), why)),
            None => Ok(()),
        }
    }

    /// The cell of an estimate or its interval that contradicts the others.
    fn of_estimate(&self, places: &Estimated, record: &StringRecord) -> Option<(usize, String)> {
        let number = |place: usize| record.get(place)?.parse::<f64>().ok();
        let (cell, name) =
            (|place: usize| shown(record.get(place).unwrap_or_default()), |place: usize| &self.header[place]);
        let &Estimated { value, lo, hi } = places;
        let estimate = number(value);
        if let Some(repeats) = self.repeats
            && estimate.is_some()
            && number(repeats) == Some(0.0)
        {
            let why = format!("is 0, and {} has a number of them; one of the two is wrong", name(value));
            return Some((repeats, why));
        }
        let (from, to) = (number(lo)?, number(hi)?);
        if from > to {
            let why = format!("{} is above {}, {}; the lower end comes first", cell(lo), name(hi), cell(hi));
            return Some((lo, why));
        }
        let outside = estimate.is_some_and(|estimate| !(from..=to).contains(&estimate));
        outside.then(|| {
            let why = format!(
                "{} lies outside its own interval, {} to {}; derive the table again",
                cell(value),
                cell(lo),
                cell(hi)
            );
            (value, why)
        })
    }
}

/// The error for a table without even a header.
pub(super) fn nothing(path: &std::path::Path) -> RowError {
    let message =
        "the file is empty, and a table begins with the names of its columns; make it again, or leave it out";
    RowError::Row { file: path.into(), line: 1, message: message.into() }
}
