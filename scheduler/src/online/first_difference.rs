//! The first decision of a simulation that is not that of the run.

use std::collections::{BTreeMap, BTreeSet};

use engine::{journal::Journal, view::View};
use formats::{
    decision::{JobId, Turn},
    rows::{DecisionDifference, TimedAction},
};
use schema::units::Nanos;

/// The decisions about each job, in their order.
#[derive(Default)]
pub(super) struct DecisionsOfJobs(BTreeMap<JobId, Vec<TimedAction>>);

impl DecisionsOfJobs {
    pub(super) fn new(turns: &[Turn]) -> DecisionsOfJobs {
        let mut decisions = DecisionsOfJobs::default();
        turns.iter().for_each(|turn| decisions.add(turn));
        decisions
    }

    fn add(&mut self, turn: &Turn) {
        for action in &turn.actions {
            let timed = TimedAction { at_ns: turn.at_ns, action: action.clone() };
            self.0.entry(action.job()).or_default().push(timed);
        }
    }

    fn nth(&self, job: JobId, nth: usize) -> Option<&TimedAction> {
        self.0.get(&job)?.get(nth)
    }

    /// Returns the earliest decision about a job that differs from the simulated decision with the same number. Decisions about different
    /// jobs may have another order. `name` returns the name of a job.
    pub(super) fn first_difference(
        &self,
        simulated: &DecisionsOfJobs,
        name: impl Fn(JobId) -> String,
    ) -> Option<DecisionDifference> {
        let jobs: BTreeSet<JobId> = self.0.keys().chain(simulated.0.keys()).copied().collect();
        let of_job = |job: JobId| {
            let pairs = (0..).map(|nth| (self.nth(job, nth), simulated.nth(job, nth)));
            let mut pairs = pairs.take_while(|pair| *pair != (None, None));
            let (run, simulation) = pairs.find(|(run, simulation)| !is_same(*run, *simulation))?;
            let at = [run, simulation].into_iter().flatten().map(|timed| timed.at_ns).min();
            Some((at, job, run.cloned(), simulation.cloned()))
        };
        let first = jobs.into_iter().filter_map(of_job).min_by_key(|(at, job, ..)| (*at, *job));
        first.map(|(_, job, run, simulation)| DecisionDifference { job: name(job), run, simulation })
    }
}

/// Whether two decisions order the same action at about the same time: their times differ by at most 0.1 %, or by at most 5 ms, because
/// a scheduler receives events late.
fn is_same(run: Option<&TimedAction>, simulation: Option<&TimedAction>) -> bool {
    let (Some(run), Some(simulation)) = (run, simulation) else { return false };
    let near = (run.at_ns.0 / 1_000).max(Nanos::SECOND.0 / 200);
    run.action == simulation.action && run.at_ns.0.abs_diff(simulation.at_ns.0) <= near
}

impl Journal for DecisionsOfJobs {
    fn record(&mut self, turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        self.add(&turn);
        Ok(())
    }

    fn needs_hashes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use formats::decision::{Action, DeviceId};

    use super::*;

    fn decisions(actions: &[(u64, Action)]) -> DecisionsOfJobs {
        let mut decisions = DecisionsOfJobs::default();
        for (at, action) in actions {
            let timed = TimedAction { at_ns: Nanos(*at), action: action.clone() };
            decisions.0.entry(action.job()).or_default().push(timed);
        }
        decisions
    }

    #[test]
    fn the_earliest_decision_about_a_job_that_differs_is_the_first() {
        let start = |job, device| Action::Start {
            job: JobId(job),
            devices: vec![DeviceId(device)],
            cpus: None,
            plan: None,
        };
        let stop = |job| Action::Stop { job: JobId(job), checkpoint: true };
        let run =
            decisions(&[(0, start(0, 0)), (1, start(1, 1)), (5, stop(0)), (6, start(0, 1)), (9, stop(1))]);
        let name = |job: JobId| format!("j{}", job.0);
        let first = |others: &[(u64, Action)]| {
            let difference = run.first_difference(&decisions(others), name)?;
            let at = |timed: Option<TimedAction>| timed.map(|timed| timed.at_ns.0);
            Some((difference.job, at(difference.run), at(difference.simulation)))
        };
        let reordered = [(0, start(1, 1)), (1, start(0, 0)), (4, stop(1)), (5, stop(0)), (7, start(0, 1))];
        assert_eq!(
            first(&reordered),
            None,
            "another order of decisions about different jobs is no difference"
        );
        let other_device = [(0, start(0, 0)), (1, start(1, 1)), (5, stop(0)), (7, start(0, 0)), (8, stop(1))];
        assert_eq!(first(&other_device), Some(("j0".into(), Some(6), Some(7))));
        let without_stop = [(0, start(0, 0)), (1, start(1, 1)), (4, stop(0)), (6, start(0, 1))];
        assert_eq!(first(&without_stop), Some(("j1".into(), Some(9), None)));
        let one_more = [
            (0, start(0, 0)),
            (1, start(1, 1)),
            (2, stop(1)),
            (3, start(1, 0)),
            (5, stop(0)),
            (6, start(0, 1)),
        ];
        assert_eq!(first(&one_more), Some(("j1".into(), None, Some(3))));
        let late = 100_000_010;
        let later = [(0, start(0, 0)), (1, start(1, 1)), (5, stop(0)), (6, start(0, 1)), (late, stop(1))];
        assert_eq!(first(&later), Some(("j1".into(), Some(9), Some(late))));
    }
}
