//! Searches over hyper-parameters: jobs of a trace with the same name in column `search` are members of one search, such as one job for
//! each learning rate. A rule ends members by the losses that they report, or says which of them run without interruption.
//!
//! | rule | source | parameters |
//! | --- | --- | --- |
//! | `halving` | successive halving (Jamieson and Talwalkar, AISTATS 2016), `halving.rs` | `eta`, `rung` |
//! | `keep` | Gandiva (Xiao et al., OSDI 2018, section 5.3): the best members run exclusively, and the others take turns | `keep` |
//! | `target`, with either | the first member whose loss is as low as the target ends the search, as in the evaluation of Gandiva | `target` |
//!
//! Losses are those of reports ([`engine::job::Job::loss`]), so that a run needs an interval of reports, and members are compared at the
//! reports that are nearest. A policy that slices time calls [`Searches::refresh`] at each turn and asks for the standing of a job when it
//! gives out slices.

mod halving;
mod rule;
use engine::{
    cluster::JobId,
    job::{Ending, Phase, State},
    view::View,
};

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) use self::rule::{ETA, KEEP, RUNG, Rule, SEARCH, TARGET};
use self::{
    halving::Halving,
    rule::{Mode, Target},
};

/// How a policy treats a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As any other job.
    Free,
    /// It runs without being sliced.
    Favoured,
    /// It waits for other members, or is to end, and is given no slice.
    Held,
}

/// The searches of a run.
pub(crate) struct Searches {
    rule: Rule,
    searches: BTreeMap<String, Search>,
    /// Of members that are not free.
    standings: HashMap<JobId, Standing>,
}

/// A search, as its members were at the last refresh.
struct Search {
    members: BTreeMap<JobId, Member>,
    /// `None` under another rule.
    halving: Option<Halving>,
    /// The member that has reached the target, and the reason for which the others are out.
    over: Option<(JobId, String)>,
}

struct Member {
    name: String,
    steps: u64,
    loss: Option<f64>,
    state: MemberState,
    /// Why it is to end.
    out: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Live,
    /// It has done all its steps.
    Finished,
    /// It failed or was ended.
    Gone,
}

impl Member {
    fn is_live(&self) -> bool {
        self.state == MemberState::Live
    }
}

impl Searches {
    pub(crate) fn new(rule: Rule) -> Searches {
        Searches { rule, searches: BTreeMap::new(), standings: HashMap::new() }
    }

    /// Takes note of what has changed. Returns the members to end now, each with the reason. A member is returned again if its end
    /// was refused.
    pub(crate) fn refresh(&mut self, view: &View<'_>) -> Vec<(JobId, String)> {
        if self.rule.mode == Mode::Off {
            return Vec::new();
        }
        let mut changed = BTreeSet::new();
        for job in view.changes.iter().filter_map(|change| change.job()) {
            if let Some(name) = &view.request(job).search {
                let halving = || self.rule.halving().map(|(eta, rung)| Halving::new(eta, rung));
                let search = self.searches.entry(name.clone()).or_insert_with(|| Search {
                    members: BTreeMap::new(),
                    halving: halving(),
                    over: None,
                });
                search.note(view, job);
                changed.insert(name);
            }
        }
        let mut ends = Vec::new();
        for name in changed {
            let Some(search) = self.searches.get_mut(name) else { continue };
            search.decide(name, &self.rule);
            let favoured = self.rule.kept().map(|kept| search.best(kept)).unwrap_or_default();
            for (&id, member) in &search.members {
                let standing = search.standing(id, member, &favoured);
                if standing == Standing::Free {
                    self.standings.remove(&id);
                } else {
                    self.standings.insert(id, standing);
                }
                let is_ending = view.job(id).placed().is_some_and(|placed| placed.phase == Phase::Ending);
                if let Some(reason) = member.out.as_ref().filter(|_| member.is_live() && !is_ending) {
                    ends.push((id, reason.clone()));
                }
            }
        }
        ends
    }

    pub(crate) fn standing(&self, job: JobId) -> Standing {
        self.standings.get(&job).copied().unwrap_or(Standing::Free)
    }
}

impl Search {
    /// Updates a member, or adds it. One that arrives after others joins them at their present rung.
    fn note(&mut self, view: &View<'_>, id: JobId) {
        let job = view.job(id);
        let state = match &job.state {
            State::Ended { how: Ending::Finished, .. } => MemberState::Finished,
            State::Ended { .. } => MemberState::Gone,
            State::Waiting { .. } | State::Placed(_) => MemberState::Live,
        };
        let member = self.members.entry(id).or_insert_with(|| {
            if let Some(halving) = &mut self.halving {
                halving.add(id);
            }
            let name = view.request(id).name.clone();
            Member { name, steps: 0, loss: None, state, out: None }
        });
        (member.steps, member.loss, member.state) = (job.steps, job.loss, state);
    }

    fn decide(&mut self, name: &str, rule: &Rule) {
        if let Some(Target(target)) = rule.target.filter(|_| self.over.is_none()) {
            self.over = self.reached(name, target);
        }
        if let Some((best, reason)) = &self.over {
            let others = self.members.iter_mut().filter(|(id, member)| *id != best && member.out.is_none());
            others.for_each(|(_, member)| member.out = Some(reason.clone()));
        } else if let Some(halving) = &mut self.halving {
            halving.decide(name, &mut self.members);
        }
    }

    /// The best of the members whose losses are as low as the target, in words, too.
    fn reached(&self, name: &str, target: f64) -> Option<(JobId, String)> {
        let members = self.members.iter().filter(|(_, member)| member.state != MemberState::Gone);
        let losses = members.filter_map(|(id, member)| Some((member.loss?, *id, member)));
        let best = losses.min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let (loss, id, best) = best.filter(|(loss, ..)| *loss <= target)?;
        let Member { name: of, steps, .. } = best;
        Some((id, format!("search '{name}': {of} has reached a loss of {loss:.4} after {steps} steps")))
    }

    fn standing(&self, id: JobId, member: &Member, favoured: &BTreeSet<JobId>) -> Standing {
        let is_held = || self.halving.as_ref().is_some_and(|halving| halving.holds(id, member.steps));
        match member.out {
            _ if !member.is_live() => Standing::Free,
            Some(_) => Standing::Held,
            None if self.over.is_some() => Standing::Free,
            None if favoured.contains(&id) => Standing::Favoured,
            None if is_held() => Standing::Held,
            None => Standing::Free,
        }
    }

    /// This many of the live members, those with the lowest losses. Ties go by job number.
    fn best(&self, number: usize) -> BTreeSet<JobId> {
        let live = self.members.iter().filter(|(_, member)| member.is_live());
        let mut losses: Vec<(f64, JobId)> =
            live.filter_map(|(id, member)| Some((member.loss?, *id))).collect();
        losses.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        losses.into_iter().take(number).map(|(_, id)| id).collect()
    }
}
