//! A small policy that does everything that can be done to a job. It decides by the states of jobs alone, and not by times.

use engine::{
    cluster::{Action, DeviceId, JobId, Share},
    job::{Phase, Placed, State},
    policy::{Decision, Policy},
    view::View,
};

/// Shares the devices equally: an elastic job is started again on another number of them when the number of jobs changes. A job
/// with a priority pauses another one, and jobs with even numbers are throttled while there are more jobs than devices. It begins one
/// switch at a time, whose ends would otherwise come at the same time.
pub(crate) struct Varied;

impl Policy for Varied {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let here: Vec<JobId> = view
            .asked
            .iter()
            .map(|asked| asked.id)
            .filter(|job| !matches!(view.job(*job).state, State::Ended { .. }))
            .collect();
        let devices = view.topology.devices();
        let share = (devices / here.len().max(1) as u32).max(1);
        let is_free = |device: &DeviceId| view.occupancy.kept_by(*device).is_empty();
        let mut free: Vec<DeviceId> = (0..devices).map(DeviceId).filter(is_free).collect();
        let mut actions = Vec::new();
        for &job in &here {
            if actions.is_empty()
                && let Some(Placed { phase: Phase::Paused, devices, .. }) = view.job(job).placed()
                && devices.iter().all(|device| free.contains(device))
            {
                free.retain(|device| !devices.contains(device));
                actions.push(Action::Resume { job });
            }
        }
        let mut switches = !actions.is_empty();
        for &job in &here {
            let asked = view.request(job);
            let wanted = if asked.elastic { share } else { asked.devices };
            match &view.job(job).state {
                State::Waiting { .. } if !switches => {
                    if asked.priority > 0
                        && free.len() < wanted as usize
                        && let Some((other, device)) = running_on_one(view, &here)
                    {
                        actions.push(Action::Pause { job: other });
                        free.push(device);
                    }
                    if wanted as usize <= free.len() {
                        let devices = free.drain(..wanted as usize).collect();
                        let plan = Some(format!("dp{wanted}").parse().expect("it is a plan"));
                        actions.push(Action::Start { job, devices, cpus: None, plan });
                        switches = true;
                    }
                }
                State::Placed(placed) if placed.phase == Phase::Running => {
                    let Placed { devices, share: present, .. } = &**placed;
                    let is_throttled = job.0 % 2 == 0 && here.len() as u32 > view.topology.devices();
                    let share = if is_throttled { 0.5 } else { 1.0 };
                    if devices.len() as u32 != wanted && !switches {
                        actions.push(Action::Stop { job, checkpoint: true });
                        switches = true;
                    } else if present.get() != share {
                        let share = Share::new(share).expect("it is a share");
                        actions.push(Action::Throttle { job, share });
                    }
                }
                _ => {}
            }
        }
        Decision { actions, ..Decision::default() }
    }
}

/// The last job without a priority that runs on one device.
fn running_on_one(view: &View<'_>, here: &[JobId]) -> Option<(JobId, DeviceId)> {
    here.iter().rev().find_map(|job| match view.job(*job).placed()? {
        Placed { phase: Phase::Running, devices, .. }
            if devices.len() == 1 && view.request(*job).priority == 0 =>
        {
            Some((*job, devices[0]))
        }
        _ => None,
    })
}
