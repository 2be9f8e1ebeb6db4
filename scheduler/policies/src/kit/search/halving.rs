//! Successive halving (Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016), in
//! its synchronous form.
//!
//! Rungs are at `rung`, `rung * eta`, `rung * eta^2`, .. steps. A rung is decided when every contender has reached it or has ended: of
//! `n` contenders, the `n / eta` with the lowest losses go on, rounded down and at least one. Ties go by job number. A contender that has
//! reported no loss is worse than all that have, and one that has failed or was ended is worse still. The last contender runs to its end.
//! Reports come at intervals, so that a contender may be past a rung when it is held there, and its loss is that of the report.

use std::collections::{BTreeMap, BTreeSet};

use engine::cluster::JobId;

use super::{Member, MemberState};

pub(super) struct Halving {
    eta: usize,
    /// The steps of the present rung.
    rung: u64,
    /// The members that were not beaten at earlier rungs.
    contenders: BTreeSet<JobId>,
}

impl Halving {
    /// `eta` is 2 or more.
    pub(super) fn new(eta: u32, rung: u64) -> Halving {
        Halving { eta: eta as usize, rung, contenders: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, job: JobId) {
        self.contenders.insert(job);
    }

    /// Whether a contender that has done this number of steps waits for the others.
    pub(super) fn holds(&self, job: JobId, steps: u64) -> bool {
        self.contenders.len() > 1 && steps >= self.rung && self.contenders.contains(&job)
    }

    /// Decides the rungs that all contenders have reached.
    pub(super) fn decide(&mut self, name: &str, members: &mut BTreeMap<JobId, Member>) {
        while self.contenders.len() > 1 {
            let has_reached = |member: &Member| !member.is_live() || member.steps >= self.rung;
            let contenders = || self.contenders.iter().filter_map(|job| Some((*job, members.get(job)?)));
            if !contenders().all(|(_, member)| has_reached(member))
                || !contenders().any(|(_, member)| member.is_live())
            {
                return;
            }
            let mut ranked: Vec<(JobId, &Member)> = contenders().collect();
            ranked.sort_by(|one, other| {
                let class = |member: &Member| (member.state == MemberState::Gone, member.loss.is_none());
                let loss = |member: &Member| member.loss.unwrap_or_default();
                let by_loss = loss(one.1).total_cmp(&loss(other.1));
                class(one.1).cmp(&class(other.1)).then(by_loss).then(one.0.cmp(&other.0))
            });
            let ranked: Vec<JobId> = ranked.into_iter().map(|(job, _)| job).collect();
            let (all, rung) = (ranked.len(), self.rung);
            let kept = (all / self.eta).max(1);
            for (place, job) in (1..).zip(&ranked) {
                let Some(member) = members.get_mut(job) else { continue };
                if place <= kept && member.state != MemberState::Gone {
                    continue;
                }
                self.contenders.remove(job);
                if member.is_live() {
                    let loss = match member.loss {
                        Some(loss) => format!("a loss of {loss:.4}"),
                        None => "no reported loss".into(),
                    };
                    member.out = Some(format!(
                        "search '{name}': {} with {loss} is number {place} of {all} at {rung} steps (kept: {kept})",
                        member.name
                    ));
                }
            }
            self.rung = rung.saturating_mul(self.eta as u64);
        }
    }
}
