//! A number of the jobs alone that each of their launches has: a dot for each job, with its interval between launches.

use record::rows::{Measurement, Summary};
use statistics::launches::between_launches;

use crate::{
    alone::{self, JobsOfFigure, Names},
    chart::{Axis, Chart, MarkValue, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
};

/// The number, and what the figure says of it.
pub(super) struct PerLaunch {
    pub(super) title: &'static str,
    /// Why a job has no number.
    pub(super) unknown: &'static str,
    pub(super) of_launch: fn(&Measurement) -> Option<f64>,
    /// The number of a job whose launches have no row.
    pub(super) of_job: fn(&Summary) -> Option<f64>,
    /// What the name of a job ends with.
    pub(super) ending: fn(&Summary) -> String,
    /// The axis of these numbers.
    pub(super) axis: fn(Vec<f64>) -> Axis,
    /// The caption without the intervals, of jobs on these devices.
    pub(super) caption: fn(&str) -> String,
}

impl PerLaunch {
    pub(super) fn figures(&self, run: &Run, colours: &Colours) -> Vec<Figure> {
        alone::parts(run).into_iter().filter_map(|part| self.figure(run, colours, part)).collect()
    }

    fn figure(&self, run: &Run, colours: &Colours, mut part: JobsOfFigure) -> Option<Figure> {
        let value = |row: &Summary| match self.quantity(run, row)? {
            MarkValue::Dot { value, .. } => Some(value),
            _ => None,
        };
        part.sort(value);
        let values: Vec<f64> = part.rows.iter().filter_map(|row| value(row)).collect();
        values.first()?;
        let names = Names::of(run);
        let row = |row: &&Summary| {
            let dot = self.quantity(run, row).ok_or_else(|| alone::why_absent(row, self.unknown));
            let name = format!("{}{}", names.name(&row.job, &row.device), (self.ending)(row));
            alone::dot_row(name, row, colours, dot)
        };
        let rows = Rows {
            value: (self.axis)(values),
            column: "job".into(),
            rows: part.rows.iter().map(row).collect(),
            rule: None,
        };
        let caption = format!("{} {}", (self.caption)(&run.devices()), part.intervals());
        let is_drawn = |row: &Summary| value(row).is_some();
        Some(Figure {
            doubts: part.doubts(is_drawn),
            missing: part.missing(is_drawn, self.unknown),
            part: part.name,
            ..Figure::new(self.title, caption, Chart::Rows(rows))
        })
    }

    fn quantity(&self, run: &Run, row: &Summary) -> Option<MarkValue> {
        let numbers: Vec<f64> = alone::launches(run, row).into_iter().filter_map(self.of_launch).collect();
        match &numbers[..] {
            [] => (self.of_job)(row).map(|value| MarkValue::Dot { value, ci: None }),
            [only] => Some(MarkValue::Dot { value: *only, ci: None }),
            several => between_launches(several).map(|interval| MarkValue::Dot {
                value: interval.estimate,
                ci: Some((interval.lo, interval.hi)),
            }),
        }
    }
}
