//! A round of a policy that chooses numbers of devices for all jobs at once.

use engine::{
    cluster::{Action, JobId},
    job::State,
    policy::{Decision, Policy},
    view::View,
};
use schema::units::Nanos;

use crate::kit::{
    elastic::{Candidate, Curve, Elastic, Level, Rounds, Types},
    jobs_named,
};

/// A policy that chooses among all levels of the curves of its jobs, and nothing else.
pub(crate) struct InRounds {
    rounds: Rounds,
    jobs: Elastic,
    choose: Choose,
}

/// Chooses the configuration of each candidate, given the numbers of devices for them by pool.
type Choose = fn(&View<'_>, &[Candidate], &mut [u32]) -> Vec<Option<usize>>;

impl InRounds {
    pub(crate) fn new(every: Nanos, choose: Choose) -> InRounds {
        InRounds { rounds: Rounds::new(every), jobs: Elastic::new(Types::First), choose }
    }
}

impl Policy for InRounds {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let choose = |candidates: &[Candidate], free: &mut [u32]| {
            ((self.choose)(view, candidates, free), String::new())
        };
        decide(view, &mut self.rounds, &mut self.jobs, |_, _| true, choose)
    }
}

/// Decides if a round is due, and otherwise goes on with the moves that are under way. `choose` is given the candidates and the
/// numbers of devices for them by pool, and returns the configuration of each and a remark for the reason.
pub(crate) fn decide(
    view: &View<'_>,
    rounds: &mut Rounds,
    jobs: &mut Elastic,
    wants: impl Fn(&Curve, &Level) -> bool,
    choose: impl FnOnce(&[Candidate], &mut [u32]) -> (Vec<Option<usize>>, String),
) -> Decision {
    let mut actions = jobs.refresh(view);
    let is_round = rounds.begins(view);
    let mut reason = String::new();
    if is_round {
        let (candidates, available) = jobs.candidates(view, wants);
        let mut free: Vec<u32> = view.occupancy.pools().map(|pool| available.of_pool(pool)).collect();
        let (chosen, remark) = choose(&candidates, &mut free);
        let new = jobs.give(view, &available, &candidates, chosen);
        reason = [told(view, &new, jobs), remark].join("");
        actions.extend(new);
    }
    let goes_on = !actions.is_empty() || jobs.any_placed(view);
    Decision { actions, wake_at: rounds.next(is_round, goes_on), reason }
}

fn told(view: &View<'_>, actions: &[Action], jobs: &Elastic) -> String {
    let waits = |job: JobId| matches!(view.job(job).state, State::Waiting { .. });
    let named = |what: &str, is_one: &dyn Fn(JobId) -> bool| {
        let of: Vec<JobId> = actions.iter().map(Action::job).filter(|job| is_one(*job)).collect();
        (!of.is_empty()).then(|| format!("{what} {}", jobs_named(view, &of)))
    };
    let parts = [
        named("starts", &waits),
        named("moves", &|job| jobs.moves(job)),
        named("stops", &|job| !waits(job) && !jobs.moves(job)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("the round {}", parts.join(", ")) }
}
