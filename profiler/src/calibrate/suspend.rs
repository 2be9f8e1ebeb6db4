//! Measures what it costs to suspend a job in each way: held at a step, with its tensors moved off the device, stopped and started
//! again, and moved off the device as a whole by `cuda-checkpoint`.

use std::{collections::BTreeMap, time::Duration};

use record::{
    calibration::{SuspendCost, SuspendRow, Switch},
    manifest::Cell,
    rows::Tier,
    suspension::Suspension,
};
use rig::{
    POLL_TRAINING,
    cuda_checkpoint::{self, CudaAction, Switching},
    device,
    pace::Pace,
};
use schema::{device::Device, units::Nanos, wire::Event};

use super::{
    restart::{Parts, STEPS},
    values::over_repeats,
};
use crate::running::{Running, Trouble, step};

/// The number of steps for which a job is released before it is held again.
const HELD_AFTER: u64 = 4;

/// The interval between looks whether `cuda-checkpoint` has ended.
const LOOK_AT_PROGRAM: Duration = Duration::from_millis(5);

/// The cost of suspending a job once.
#[derive(Clone, Copy)]
pub(super) struct Suspended {
    pub(super) suspend: Nanos,
    pub(super) resume: Nanos,
    pub(super) bytes: Option<u64>,
}

/// By the way of suspending it.
pub(super) type Ways = BTreeMap<Suspension, Suspended>;

impl Running<'_> {
    /// Lets a job that rests after [`STEPS`] steps do some more, and waits until it rests again, as a testbed does. Returns the times of
    /// [`Switch::Release`] and [`Switch::Hold`].
    pub(super) fn release_and_hold(&mut self) -> Result<(Nanos, Nanos), Trouble> {
        let until = STEPS + HELD_AFTER;
        let mut pace = Pace::default();
        // The first step is longer than the others, and says nothing of the next ones.
        for step in self.said.iter().filter_map(|(rank, _, event)| step_of_first(*rank, event)) {
            if step.index > 0 {
                pace.count(step);
            }
        }
        pace.grant(HELD_AFTER);
        let ordered = Nanos::monotonic_now();
        self.event_loop.rig.extend(self.member, until);
        let (mut look_at, mut worked_since, mut heard) = (ordered, ordered, self.said.len());
        let ended = loop {
            for (rank, at, event) in &self.said[heard..] {
                if let Some(step) = step_of_first(*rank, event) {
                    pace.count(step);
                    worked_since = *at;
                }
            }
            heard = self.said.len();
            if let Some(ended) = self.all_have(|event| step(event, until - 1))
                && self
                    .all_have(|event| matches!(event, Event::Held { index } if *index == until).then_some(()))
                    .is_some()
            {
                break ended;
            }
            let now = Nanos::monotonic_now();
            if look_at <= now {
                let look = pace.look_after(worked_since, now);
                self.event_loop.rig.look_every(self.member, look);
                look_at = now + look.into();
            }
            self.go_on_until(Some(look_at))?;
        };
        let seen = Nanos::monotonic_now();
        self.event_loop.rig.look_every(self.member, POLL_TRAINING);
        let ended = ended.iter().map(|(at, _)| *at).max().unwrap_or(seen);
        let began = self.begun(STEPS)?;
        Ok((at_least_one(began.saturating_sub(ordered)), at_least_one(seen.saturating_sub(ended))))
    }

    /// When the last rank began a step.
    pub(super) fn begun(&mut self, index: u64) -> Result<Nanos, Trouble> {
        let steps = self.all_say(|event| step(event, index))?;
        Ok(steps.iter().map(|(at, dur)| at.saturating_sub(*dur)).max().unwrap_or_default())
    }

    /// Moves a job that rests off its device with `cuda-checkpoint`, and back.
    pub(super) fn move_off_and_back(&mut self, device: &Device) -> Result<Parts, Trouble> {
        let pid = self.pid.ok_or_else(|| Trouble::Failed("its process is not known".into()))?;
        let used = |device: &Device| device::open(device).ok()?.sample(Tier::Fast).memory_used_bytes;
        let before = used(device);
        let mut parts = self.switched(&cuda_checkpoint::suspend(pid))?;
        if let (Some(before), Some(after), Some(checkpoint)) =
            (before, used(device), parts.get_mut(&Switch::CudaCheckpoint))
        {
            checkpoint.1 = Some(before.saturating_sub(after));
        }
        parts.extend(self.switched(&cuda_checkpoint::resume(pid))?);
        Ok(parts)
    }

    fn switched(&mut self, program: &Switching) -> Result<Parts, Trouble> {
        loop {
            if let Some(switched) = program.poll() {
                let took = switched.map_err(Trouble::Failed)?;
                return Ok(took.into_iter().map(|(action, took)| (part_of(action), (took, None))).collect());
            }
            self.go_on_until(Some(Nanos::monotonic_now() + LOOK_AT_PROGRAM.into()))?;
        }
    }
}

fn step_of_first(rank: u32, event: &Event) -> Option<&schema::wire::Step> {
    match event {
        Event::Step(step) if rank == 0 => Some(step),
        _ => None,
    }
}

fn part_of(action: CudaAction) -> Switch {
    match action {
        CudaAction::Lock => Switch::CudaLock,
        CudaAction::Checkpoint => Switch::CudaCheckpoint,
        CudaAction::Restore => Switch::CudaRestore,
        CudaAction::Unlock => Switch::CudaUnlock,
    }
}

/// Whether a part is an action of `cuda-checkpoint`.
pub(super) fn is_of_cuda(part: Switch) -> bool {
    matches!(part, Switch::CudaLock | Switch::CudaCheckpoint | Switch::CudaRestore | Switch::CudaUnlock)
}

/// A time that a calibration can hold, which is above 0.
fn at_least_one(time: Nanos) -> Nanos {
    time.max(Nanos(1))
}

/// The cost of `cuda-checkpoint` from its parts and from those of holding the job.
pub(super) fn by_cuda_checkpoint(parts: &Parts) -> Option<Suspended> {
    let sum = |of: &[Switch]| of.iter().map(|part| Some(parts.get(part)?.0)).sum::<Option<Nanos>>();
    Some(Suspended {
        suspend: sum(&[Switch::Hold, Switch::CudaLock, Switch::CudaCheckpoint])?,
        resume: sum(&[Switch::CudaRestore, Switch::CudaUnlock, Switch::Release])?,
        bytes: parts.get(&Switch::CudaCheckpoint)?.1,
    })
}

/// Why `cuda-checkpoint` cannot move this job here.
pub(super) fn cannot_be_moved(cell: &Cell) -> Option<String> {
    match cell.devices.len() {
        1 => cuda_checkpoint::check(&cell.devices).err(),
        ranks => Some(format!("{} moves one process, and the job has {ranks}", cuda_checkpoint::PROGRAM)),
    }
}

/// The rows of a job, one for each way of suspending it.
pub(super) fn rows(
    cell: &Cell,
    ways: &[Suspension],
    taken: &[Ways],
    not_moved: Option<&str>,
) -> Vec<SuspendRow> {
    let row = |suspension: &Suspension| {
        let all: Vec<Suspended> = taken.iter().filter_map(|ways| ways.get(suspension).copied()).collect();
        let cost = cost(&all);
        let lacking = cost.is_none().then(|| not_moved.unwrap_or("fewer than two repeats have a value"));
        SuspendRow {
            job: cell.job.clone(),
            devices: cell.devices.clone(),
            suspension: *suspension,
            why_not: lacking.map(str::to_owned),
            cost,
        }
    };
    ways.iter().map(row).collect()
}

/// The means over repeats; `None` for fewer than two.
fn cost(all: &[Suspended]) -> Option<SuspendCost> {
    let over = |of: fn(&Suspended) -> Nanos| {
        let times: Vec<f64> = all.iter().map(|suspended| of(suspended).0 as f64).collect();
        over_repeats(&times)
    };
    Some(SuspendCost {
        suspend_ns: over(|of| of.suspend)?,
        resume_ns: over(|of| of.resume)?,
        both_ns: over(|of| of.suspend + of.resume)?,
        bytes: all.iter().filter_map(|of| of.bytes).max(),
        repeats: all.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_together_take_the_mean_of_their_sums() {
        let once =
            |suspend, resume, bytes| Suspended { suspend: Nanos(suspend), resume: Nanos(resume), bytes };
        let mean_cost = cost(&[once(1_000, 4_000, Some(9)), once(4_000, 1_000, None)]).expect("two repeats");
        let values =
            [mean_cost.suspend_ns, mean_cost.resume_ns, mean_cost.both_ns].map(|measured| measured.value);
        assert_eq!((values, mean_cost.bytes, mean_cost.repeats), ([2_000, 2_000, 5_000], Some(9), 2));
        assert!(cost(&[once(1_000, 4_000, None)]).is_none(), "one has no interval");
    }
}
