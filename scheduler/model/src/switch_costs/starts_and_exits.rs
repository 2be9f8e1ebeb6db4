//! The times that jobs alone took to start and to exit, from tables of `profile`.

use std::collections::HashMap;

use schema::{plan::Plan, units::Nanos};
use statistics::median;

use super::Cost;
use crate::JobKey;

/// The times from the start of the first process of a job until the job trained, and from its last step until its last process had
/// ended, by workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartsAndExits {
    rows: HashMap<String, Vec<Row>>,
}

/// The times in one row of a table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    batch_and_plan: (Option<u32>, Option<Plan>),
    devices: u32,
    start: Option<Nanos>,
    exit: Option<Nanos>,
}

impl Row {
    /// The time of a start without a checkpoint or of an exit. A table has no other times of switches.
    fn time(&self, of: Cost) -> Option<Nanos> {
        match of {
            Cost::Start => self.start,
            Cost::Exit => self.exit,
            Cost::Restart | Cost::Pause | Cost::Resume | Cost::Checkpoint | Cost::Stop => None,
        }
    }
}

impl StartsAndExits {
    pub(crate) fn add(
        &mut self,
        workload: &str,
        batch_and_plan: (Option<u32>, Option<Plan>),
        devices: u32,
        [start, exit]: [Option<u64>; 2],
    ) {
        let row = Row { batch_and_plan, devices, start: start.map(Nanos), exit: exit.map(Nanos) };
        self.rows.entry(workload.to_owned()).or_default().push(row);
    }

    /// The median over the rows of the job itself, or else over the rows of its workload with the closest number of devices. `None` if
    /// no row has such a time.
    pub fn median_of(&self, of: Cost, job: &JobKey<'_>, devices: u32) -> Option<Nanos> {
        let distance =
            |row: &Row| (row.devices.abs_diff(devices), row.batch_and_plan != (job.global_batch, job.plan));
        let rows = self.rows.get(job.workload)?.iter();
        let times: Vec<_> = rows.filter_map(|row| Some((distance(row), row.time(of)?.0))).collect();
        let closest = times.iter().map(|(distance, _)| *distance).min()?;
        let times = times.iter().filter(|(distance, _)| *distance == closest).map(|(_, ns)| *ns);
        median(&times.collect::<Vec<_>>()).map(|ns| Nanos(ns.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_rows_answer_by_their_median() {
        let mut times = StartsAndExits::default();
        for (batch, devices, start, exit) in
            [(8, 1, 10, Some(3)), (8, 1, 30, None), (8, 1, 12, Some(5)), (16, 1, 50, None), (8, 4, 90, None)]
        {
            times.add("bert", (Some(batch), None), devices, [Some(start), exit]);
        }
        let median = |of, workload, batch, devices| {
            let job = JobKey::new(workload, Some(batch), None);
            times.median_of(of, &job, devices).map(|took| took.0)
        };
        assert_eq!(median(Cost::Start, "bert", 8, 1), Some(12));
        assert_eq!(median(Cost::Start, "bert", 16, 1), Some(50));
        assert_eq!(median(Cost::Start, "bert", 32, 1), Some(21), "of all rows on one device");
        assert_eq!(median(Cost::Start, "bert", 16, 3), Some(90));
        assert_eq!(median(Cost::Start, "gpt2", 8, 1), None);
        assert_eq!(median(Cost::Exit, "bert", 8, 1), Some(4));
        assert_eq!(median(Cost::Exit, "bert", 16, 4), Some(4), "rows without a time do not count");
        assert_eq!(median(Cost::Stop, "bert", 8, 1), None);
    }
}
