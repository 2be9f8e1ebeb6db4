//! Every step of a run, in rows.

use schema::rows::{ExportStep, Measurement};

use super::Source;
use crate::derive::{self, JobStep};

impl Source {
    /// The steps of each launch that has a row, a piece at a time, as all of them may be more than memory holds. Of a seat
    /// whose job was started again that is every one of its launches. What was never started has none, and neither has a
    /// program that was measured from outside.
    ///
    /// # Errors
    /// A file of the run that cannot be read, and a group that the manifest does not name.
    pub fn steps(&self) -> impl Iterator<Item = anyhow::Result<Vec<ExportStep>>> {
        let launches = self.measurements.iter().filter(|row| !row.launch.is_empty());
        launches.map(|row| {
            let mut found = Vec::new();
            for launch in self.launches_of(row)? {
                let steps = derive::steps_of(&self.run, &launch)?;
                found.extend(self.rows_of(row, &launch, &steps)?);
            }
            Ok(found)
        })
    }

    /// One, or those of a seat in their order.
    fn launches_of(&self, row: &Measurement) -> anyhow::Result<Vec<String>> {
        let seat = self.specs.get(&row.launch).and_then(|spec| spec.seat.as_ref());
        let visit = match seat {
            Some(seat) => self.run.visit(&seat.visit)?,
            None => None,
        };
        let of_seat =
            seat.zip(visit).and_then(|(seat, visit)| visit.launches.get(seat.number as usize).cloned());
        Ok(of_seat.unwrap_or_else(|| vec![row.launch.clone()]))
    }

    fn rows_of(&self, row: &Measurement, launch: &str, steps: &[JobStep]) -> anyhow::Result<Vec<ExportStep>> {
        let split_key = self.subject(row)?.members.split_key();
        let of_launch = ExportStep { split_key, step_launch: launch.into(), ..ExportStep::of(row) };
        let rows = steps.iter().enumerate().map(|(place, step)| ExportStep {
            in_window: in_window(row, place),
            ..with_step(of_launch.clone(), step)
        });
        Ok(rows.collect())
    }
}

/// Whether the step at this place of a launch counts; not known of one in a group, whose window is of all members.
fn in_window(row: &Measurement, place: usize) -> Option<bool> {
    let first = row.warmup_steps.filter(|_| row.group.is_none())?;
    Some((first..first + row.steps_used).contains(&(place as u64)))
}

fn with_step(row: ExportStep, step: &JobStep) -> ExportStep {
    let phases = &step.phases;
    let [data_ns, forward_ns, backward_ns, sync_total_ns, sync_exposed_ns, optimizer_ns, offload_ns] = [
        phases.data_ns,
        phases.forward_ns,
        phases.backward_ns,
        phases.sync_total_ns,
        phases.sync_exposed_ns,
        phases.optimizer_ns,
        phases.offload_ns,
    ]
    .map(|phase| phase.map(|ns| ns.0));
    ExportStep {
        index: step.index,
        end_mono_ns: step.end.0,
        dur_ns: step.dur_ns,
        samples: step.samples,
        loss: step.loss,
        data_ns,
        forward_ns,
        backward_ns,
        sync_total_ns,
        sync_exposed_ns,
        optimizer_ns,
        offload_ns,
        sent_bytes: step.sent_bytes,
        timing: Some(step.timing),
        ..row
    }
}
