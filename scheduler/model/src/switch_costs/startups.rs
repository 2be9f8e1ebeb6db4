//! The times that jobs alone took to start, from tables of `profile`.

use std::collections::HashMap;

use schema::{plan::Plan, units::Nanos};
use statistics::median;

use crate::JobKey;

/// The times from the start of the first process of a job until the job trained, by workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startups {
    rows: HashMap<String, Vec<Startup>>,
}

/// The start of one row of a table.
#[derive(Clone, Debug, PartialEq)]
struct Startup {
    batch_and_plan: (Option<u32>, Option<Plan>),
    devices: u32,
    took: Nanos,
}

impl Startups {
    pub(crate) fn add(
        &mut self,
        workload: &str,
        batch_and_plan: (Option<u32>, Option<Plan>),
        devices: u32,
        took: Nanos,
    ) {
        let row = Startup { batch_and_plan, devices, took };
        self.rows.entry(workload.to_owned()).or_default().push(row);
    }

    /// The median over the rows of the job itself, or else over the rows of its workload with the closest number of devices. `None` if
    /// no row has a start time.
    pub fn median_for(&self, job: &JobKey<'_>, devices: u32) -> Option<Nanos> {
        let rows = self.rows.get(job.workload)?;
        let distance = |row: &Startup| {
            (row.devices.abs_diff(devices), row.batch_and_plan != (job.global_batch, job.plan))
        };
        let closest = rows.iter().map(distance).min()?;
        let took = rows.iter().filter(|row| distance(row) == closest).map(|row| row.took.0);
        median(&took.collect::<Vec<_>>()).map(|ns| Nanos(ns.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_rows_answer_by_their_median() {
        let mut startups = Startups::default();
        for (batch, devices, took) in [(8, 1, 10), (8, 1, 30), (8, 1, 12), (16, 1, 50), (8, 4, 90)] {
            startups.add("bert", (Some(batch), None), devices, Nanos(took));
        }
        let median = |workload, batch, devices| {
            let job = JobKey::new(workload, Some(batch), None);
            startups.median_for(&job, devices).map(|took| took.0)
        };
        assert_eq!(median("bert", 8, 1), Some(12));
        assert_eq!(median("bert", 16, 1), Some(50));
        assert_eq!(median("bert", 32, 1), Some(21), "of all rows on one device");
        assert_eq!(median("bert", 16, 3), Some(90));
        assert_eq!(median("gpt2", 8, 1), None);
    }
}
