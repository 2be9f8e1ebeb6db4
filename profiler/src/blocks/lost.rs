//! Lost devices, on which no job is started any more because a process on them does not end.
//!
//! The process may hold memory of the device, and would disturb any measurement beside it. `--resume` starts without lost
//! devices, because a device may have recovered.

use colocate::visit::SeatRequest;
use record::{group::Visit, launch_end::LaunchEnd, rows::ErrorKind, run_dir::RunDir};
use schema::{FORMAT, device::Device, files::RunError, spec::LaunchSpec, units::Nanos};

/// The lost devices, each with the launch that is stuck on it.
#[derive(Default)]
pub(crate) struct Lost(Vec<(Device, String)>);

impl Lost {
    /// Records how a launch on these devices ended.
    pub(super) fn note(&mut self, launch: &str, devices: &[Device], end: &LaunchEnd) {
        // A launch that was refused because of a lost device is not stuck itself. It has no rank, and the harness killed no process.
        let was_there = !end.ranks.is_empty() || end.killed_after.is_some();
        if end.err == Some(ErrorKind::Stuck) && was_there {
            self.0.extend(devices.iter().map(|device| (device.clone(), launch.to_owned())));
        }
    }

    /// Returns why nothing can be started on these devices.
    pub(super) fn refusal(&self, devices: &[Device]) -> Option<String> {
        let (device, launch) =
            self.0.iter().find(|(lost, _)| devices.iter().any(|own| own.shares_with(lost)))?;
        Some(format!(
            "was not started, because {launch} on {device} did not end after SIGKILL; check the kernel's log, and continue with \
             --resume when the device is back"
        ))
    }
}

/// Records a launch that was not started, and returns its end.
pub(super) fn refuse(run: &RunDir, spec: &LaunchSpec, why: &str) -> Result<LaunchEnd, RunError> {
    run.write_spec(spec)?;
    let end = LaunchEnd {
        format: FORMAT,
        mono_ns: Nanos::monotonic_now(),
        enough_mono_ns: None,
        err: Some(ErrorKind::Stuck),
        err_detail: Some(format!("job '{}': {why}", spec.job)),
        killed_after: None,
        notes: Default::default(),
        ranks: Vec::new(),
    };
    run.write_launch_end(&spec.launch, &end)?;
    Ok(end)
}

/// Records the first launch of each seat as not started, and returns their visit.
pub(super) fn refuse_all(run: &RunDir, seats: &[SeatRequest], why: &str) -> Result<Option<Visit>, RunError> {
    for seat in seats {
        refuse(run, &seat.request.spec, why)?;
    }
    let Some(spec) = seats.first().map(|seat| &seat.request.spec) else { return Ok(None) };
    let now = Some(Nanos::monotonic_now());
    Ok(Some(Visit {
        format: FORMAT,
        group: spec.seat.as_ref().map(|seat| seat.group.clone()).unwrap_or_default(),
        sharing: spec.sharing.clone(),
        part: spec.part,
        block: spec.block,
        barrier_mono_ns: None,
        end_mono_ns: now,
        launches: seats.iter().map(|seat| vec![seat.request.spec.launch.clone()]).collect(),
        turns: Vec::new(),
        not_shared: None,
    }))
}

#[cfg(test)]
mod tests {
    use record::launch_end::RankEnd;

    use super::*;

    #[test]
    fn a_device_is_lost_with_the_launch_that_is_stuck_on_it_and_with_no_other() {
        let end = |err, ranks| LaunchEnd {
            format: FORMAT,
            mono_ns: Nanos(1),
            enough_mono_ns: None,
            err,
            err_detail: None,
            killed_after: None,
            notes: Default::default(),
            ranks,
        };
        let devices =
            |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<Device>>();
        let started = vec![RankEnd::default()];
        let mut lost = Lost::default();
        lost.note("0001-a", &devices(&["cuda:0"]), &end(Some(ErrorKind::Hung), started.clone()));
        lost.note("0002-a", &devices(&["cuda:1"]), &end(Some(ErrorKind::Stuck), started));
        lost.note("0003-a", &devices(&["cuda:2"]), &end(Some(ErrorKind::Stuck), Vec::new()));
        let prepared = LaunchEnd { killed_after: Some(Nanos(1)), ..end(Some(ErrorKind::Stuck), Vec::new()) };
        lost.note("0004-a", &devices(&["cuda:3"]), &prepared);
        for (asked, launch) in [
            (&["cuda:0"][..], None),
            (&["cuda:0", "cuda:1"], Some("0002-a on cuda:1")),
            (&["cuda:2"], None),
            (&["cuda:3"], Some("0004-a on cuda:3")),
            (&["cpu:0"], None),
        ] {
            let refusal = lost.refusal(&devices(asked));
            assert_eq!(refusal.is_some(), launch.is_some(), "{asked:?}");
            assert!(refusal.is_none_or(|why| why.contains(launch.unwrap_or_default())), "{asked:?}");
        }
    }
}
