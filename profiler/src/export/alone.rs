//! The numbers of a job alone in its run, which its rows in groups are compared with.

use jobs::cells;
use record::{
    manifest::Cell,
    rows::{Measurement, Status},
};
use schema::sharing::Sharing;

use crate::derive::rounded;

/// The launches of a cell alone that have numbers.
pub(super) struct Alone<'a>(Vec<&'a Measurement>);

impl<'a> Alone<'a> {
    pub(super) fn of(measurements: &'a [Measurement], cell: &Cell) -> Alone<'a> {
        let device = cells::joined(&cell.devices);
        let is_alone = |row: &&Measurement| {
            row.group.is_none() && row.status == Status::Ok && row.job == cell.job && row.device == device
        };
        Alone(measurements.iter().filter(is_alone).collect())
    }

    pub(super) fn mean(&self, value: fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().filter_map(|row| value(row)).collect();
        (!values.is_empty()).then(|| rounded(values.iter().sum::<f64>() / values.len() as f64, 2))
    }

    pub(super) fn peak_memory_bytes(&self) -> Option<u64> {
        self.0.iter().filter_map(|row| row.peak_memory_bytes).max()
    }

    /// The step time alone in the block of a row: the geometric mean of the launches of the same part of the run, which begin
    /// and end the block.
    pub(super) fn step_ns_beside(&self, row: &Measurement) -> Option<f64> {
        let beside = |alone: &&&Measurement| (alone.repeat, alone.part) == (row.repeat, row.part);
        let of_block = self.0.iter().filter(beside);
        let logs: Vec<f64> = of_block.filter_map(|row| step_ns(row)).map(f64::ln).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }

    /// The ratio of the step time in a row of a group to the step time alone in the same block. It is `None` under
    /// `sequential`, as in `interference.csv`.
    pub(super) fn slowdown_of(&self, row: &Measurement) -> Option<f64> {
        if row.sharing == Sharing::Sequential {
            return None;
        }
        Some(rounded(step_ns(row)? / self.step_ns_beside(row)?, 6))
    }
}

/// The step time, in a group including the time in which the job was held; the run time of a program without known steps.
fn step_ns(row: &Measurement) -> Option<f64> {
    let time = match row.timing? {
        schema::wire::Timing::Outside => row.wall_ns? as f64,
        _ => row.window_ns? as f64 / row.steps_used as f64,
    };
    (time.is_finite() && time > 0.0).then_some(time)
}
