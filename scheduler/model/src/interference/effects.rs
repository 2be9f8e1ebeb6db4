//! What families of workloads, and the jobs of a family that has several, bear and do more than terms say.
//!
//! Effects are normal with variances of their own for each kind, so that a name of few rows has a small effect, and one without rows has
//! none and makes the interval wider.

use std::collections::{BTreeMap, BTreeSet};

use formats::interference_fit::{ModeFit, WorkloadEffect};
use nalgebra::DVector;

use super::{
    Member,
    mode::Row,
    ridge::{Group, SparseRow},
};

/// The effects of all kinds, in the order of [`Group::EFFECTS`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effects([Kind; Group::EFFECTS.len()]);

/// The effects of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Kind {
    /// Places among the coefficients, by name.
    columns: BTreeMap<String, usize>,
    scale: f64,
}

impl Effects {
    /// The effects that rows determine, with coefficients from `first` on. Burdens and disturbances differ from the effects of victims and
    /// aggressors only where the contention of rows differs.
    pub(super) fn of_rows(rows: &[Row<'_>], first: usize, contention_differs: bool) -> Effects {
        let members = rows.iter().flat_map(|row| &row.members);
        let jobs: BTreeSet<(&str, &str)> =
            members.map(|member| (member.family.as_str(), member.job.as_str())).collect();
        let families: BTreeSet<&str> = jobs.iter().map(|(family, _)| *family).collect();
        let has_variants = jobs.len() > families.len();
        let mut next = first;
        Effects(Group::EFFECTS.map(|group| {
            let is_used = match group {
                Group::Burdens | Group::Disturbances => contention_differs,
                Group::VictimJobs | Group::AggressorJobs => has_variants,
                _ => true,
            };
            let rows = if is_used { rows } else { &[] };
            let names: BTreeSet<&str> = rows.iter().flat_map(|row| names(group, &row.members)).collect();
            let columns: BTreeMap<String, usize> = names.into_iter().map(str::to_owned).zip(next..).collect();
            next += columns.len();
            Kind { columns, scale: 0.0 }
        }))
    }

    /// Adds the groups of the coefficients.
    pub(super) fn add_groups(&self, groups: &mut Vec<Group>) {
        for (kind, group) in self.0.iter().zip(Group::EFFECTS) {
            groups.resize(groups.len() + kind.columns.len(), group);
        }
    }

    pub(super) fn set_scales(&mut self, scale: impl Fn(Group) -> f64) {
        for (kind, group) in self.0.iter_mut().zip(Group::EFFECTS) {
            kind.scale = if kind.columns.is_empty() { 0.0 } else { scale(group) };
        }
    }

    pub(super) fn scale(&self, group: Group) -> f64 {
        self.kinds().find(|(_, own)| *own == group).map_or(0.0, |(kind, _)| kind.scale)
    }

    fn kinds(&self) -> impl Iterator<Item = (&Kind, Group)> {
        self.0.iter().zip(Group::EFFECTS)
    }

    /// Whether rows have the families of all members, the victim among the victims.
    pub(super) fn know(&self, members: &[&Member]) -> bool {
        let mut kinds = self.kinds().filter(|(_, group)| matches!(group, Group::Victims | Group::Aggressors));
        kinds.all(|(kind, group)| names(group, members).iter().all(|name| kind.columns.contains_key(*name)))
    }

    /// Adds what the coefficients are multiplied with. Returns the variance of the effects of unknown names.
    pub(super) fn add_coordinates(&self, members: &[&Member], contention: f64, to: &mut SparseRow) -> f64 {
        let mut unknown = 0.0;
        for (kind, group) in self.kinds().filter(|(kind, _)| !kind.columns.is_empty()) {
            let factor = if matches!(group, Group::Burdens | Group::Disturbances) { 1.0 } else { contention };
            let names = names(group, members);
            let share = factor / names.len().max(1) as f64;
            let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
            for name in names {
                *shares.entry(name).or_default() += share;
            }
            for (name, share) in shares {
                match kind.columns.get(name) {
                    Some(column) => to.push((*column, share)),
                    None => unknown += (share * kind.scale).powi(2),
                }
            }
        }
        unknown
    }

    pub(super) fn to_file(&self, group: Group, coefficients: &DVector<f64>) -> Vec<WorkloadEffect> {
        let own = self.kinds().filter(|(_, own)| *own == group).flat_map(|(kind, _)| &kind.columns);
        own.map(|(name, column)| WorkloadEffect { workload: name.clone(), effect: coefficients[*column] })
            .collect()
    }

    pub(super) fn from_file(file: &ModeFit) -> Effects {
        let mut next = file.terms.len();
        let scales = [
            file.victim_sd,
            file.aggressor_sd,
            file.burden_sd,
            file.disturbance_sd,
            file.victim_job_sd,
            file.aggressor_job_sd,
        ];
        let mut kinds = file.effects().into_iter().zip(scales).map(|(effects, scale)| {
            let names = effects.iter().map(|effect| effect.workload.clone());
            let columns: BTreeMap<String, usize> = names.zip(next..).collect();
            next += columns.len();
            Kind { columns, scale }
        });
        Effects(std::array::from_fn(|_| kinds.next().unwrap_or_default()))
    }
}

/// The names that have effects of a kind in a group of jobs, the victim first.
fn names<'a>(group: Group, members: &[&'a Member]) -> Vec<&'a str> {
    let (victim, aggressors) = members.split_at(members.len().min(1));
    let families = |members: &[&'a Member]| members.iter().map(|member| member.family.as_str()).collect();
    let jobs = |members: &[&'a Member]| members.iter().map(|member| member.job.as_str()).collect();
    match group {
        Group::Victims | Group::Burdens => families(victim),
        Group::Aggressors | Group::Disturbances => families(aggressors),
        Group::VictimJobs => jobs(victim),
        Group::AggressorJobs => jobs(aggressors),
        Group::Free | Group::Terms => Vec::new(),
    }
}
