//! How nodes, devices and jobs are shown to a program.

use formats::exec::{JobState, ShownDevice, ShownJob, ShownNode, ShownPlans};

use engine::{
    cluster::JobId,
    job::{Ending, Phase, State},
    topology::{DeviceId, Node, Topology},
    view::View,
};
use policies::kit::{belief, progress::Progress};

pub(super) fn nodes(topology: &Topology) -> Vec<ShownNode> {
    let show = |Node { name, device_type, first, devices, virtual_cluster, facts }: &Node| ShownNode {
        name: name.clone(),
        device_type: device_type.clone(),
        devices: (first.0..first.0 + devices.len() as u32).map(DeviceId).collect(),
        facts: *facts,
        vc: virtual_cluster.map(|of| topology.virtual_clusters()[usize::from(of.0)].name.clone()),
    };
    topology.nodes().iter().map(show).collect()
}

pub(super) fn show_device(view: &View<'_>, device: DeviceId) -> ShownDevice {
    let (kept_by, lost) = (view.occupancy.kept_by(device).to_vec(), view.occupancy.is_lost(device));
    ShownDevice { device, kept_by, lost }
}

pub(super) fn show_job(view: &View<'_>, id: JobId, plans: ShownPlans) -> ShownJob {
    let (asked, job) = (view.request(id), view.job(id));
    let (account, progress) = (job.account_at(view.now), Progress::new(view, id));
    let (state, since_ns) = match &job.state {
        State::Waiting { since } => (JobState::Waiting, *since),
        State::Ended { at, .. } => (JobState::Ended, *at),
        State::Placed(placed) => (show_phase(placed.phase), placed.since),
    };
    let failed = match &job.state {
        State::Ended { how: Ending::Failed(kind, _), .. } => Some(*kind),
        _ => None,
    };
    ShownJob {
        job: id,
        name: asked.name.clone(),
        arrival_ns: asked.arrival,
        workload: asked.what.workload().into_owned(),
        global_batch: asked.what.global_batch(),
        plan: asked.plan,
        devices: asked.devices,
        device_type: asked.device_type.clone(),
        cpus: asked.cpus,
        elastic: asked.elastic,
        min_devices: asked.min_devices,
        max_devices: asked.max_devices,
        steps: asked.steps,
        takes_checkpoints: asked.takes_no_checkpoint.is_none(),
        user: asked.user.clone(),
        vc: asked.virtual_cluster.clone(),
        class: asked.class,
        priority: asked.priority,
        weight: asked.weight,
        recurring_job: asked.recurring_job.clone(),
        submit_utc: asked.submit_utc(),
        search: asked.search.clone(),
        learning_rate: asked.learning_rate,
        step_ns: belief::step(view, id).map(|step| step.step_ns),
        plans,
        state,
        since_ns,
        on: job.placed().map(|placed| placed.devices.clone()).unwrap_or_default(),
        share: job.placed().map(|placed| placed.share).unwrap_or_default(),
        steps_done: job.steps,
        steps_at_ns: job.steps_at,
        steps_now: progress.steps(view.now),
        ends_at_ns: progress.ends_at(view.now),
        measured_step_ns: job.measured.map(|measured| measured.step_ns),
        measured_at_ns: job.measured.map(|measured| measured.at),
        loss: job.loss,
        first_start_ns: account.first_start,
        running_ns: account.running,
        device_time_ns: account.device_time,
        starts: account.starts,
        retries: job.retries,
        failed,
    }
}

fn show_phase(phase: Phase) -> JobState {
    match phase {
        Phase::Starting => JobState::Starting,
        Phase::Running => JobState::Running,
        Phase::Pausing => JobState::Pausing,
        Phase::Paused => JobState::Paused,
        Phase::Resuming => JobState::Resuming,
        Phase::Stopping => JobState::Stopping,
        Phase::Ending => JobState::Ending,
    }
}

#[cfg(test)]
mod tests {
    use record::manifest::{AlikeNodes, NodeFacts};

    use super::*;

    #[test]
    fn nodes_are_shown_with_what_the_user_has_described() {
        let facts = NodeFacts { cpus: Some(48), memory_bytes: Some(1 << 38), ..NodeFacts::default() };
        let alike = AlikeNodes {
            nodes: 2,
            devices: 1,
            device_type: "V100".into(),
            virtual_cluster: Some("a".into()),
            facts,
        };
        let shown = nodes(&Topology::simulated(&[alike]));
        let expected = ShownNode {
            name: "n1".into(),
            device_type: "V100".into(),
            devices: vec![DeviceId(1)],
            vc: Some("a".into()),
            facts,
        };
        assert_eq!((shown.len(), &shown[1]), (2, &expected));
    }
}
