//! The rolling estimate of QSSF (Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU
//! datacenters", SC 2021, section 4): the mean of the jobs of the same user on as many devices that have the same name, or else of the two
//! most similar names; of a name that is like no other, the mean of the user; and of an unknown user, the mean of all.
//!
//! Names are similar if the share of the longer one that need not be edited is at least [`SIMILAR`]. The original gives
//! this estimate a tenth of the weight, and the rest to one of gradient boosting, which is left out.

use std::collections::HashMap;

use super::{Arrival, Durations, Mean};

/// The least similarity of names.
const SIMILAR: f64 = 0.6;
/// Names that are compared with a new one, the latest first, so that an estimate takes time that does not grow with the history.
const COMPARED: usize = 256;
/// Names that a new one is taken to be like, at most.
const CLOSEST: usize = 2;

/// Means of the durations of past jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rolling {
    all: Mean,
    users: HashMap<String, Mean>,
    names: HashMap<(String, u32), Names>,
}

/// The names of the jobs of a user on a number of devices.
#[derive(Clone, Debug, Default, PartialEq)]
struct Names {
    means: HashMap<String, Mean>,
    /// In order of their first job.
    in_order: Vec<String>,
}

impl Names {
    fn estimate(&self, name: &str) -> Option<f64> {
        if let Some(mean) = self.means.get(name) {
            return mean.value();
        }
        let latest = self.in_order.iter().rev().take(COMPARED);
        let like = latest.filter_map(|known| {
            let similarity = strsim::normalized_levenshtein(known, name);
            (similarity >= SIMILAR).then_some((similarity, known))
        });
        let mut like: Vec<(f64, &String)> = like.collect();
        like.sort_by(|(a, name), (b, other)| b.total_cmp(a).then(name.cmp(other)));
        let closest = like.iter().take(CLOSEST).filter_map(|(_, known)| self.means.get(*known));
        closest.fold(Mean::default(), |all, known| all.and(*known)).value()
    }
}

impl Durations for Rolling {
    fn estimate(&self, job: &Arrival<'_>) -> Option<f64> {
        let of_name = || self.names.get(&(job.user.to_owned(), job.devices))?.estimate(job.name);
        let of_user = || self.users.get(job.user)?.value();
        of_name().or_else(of_user).or_else(|| self.all.value())
    }

    fn learn(&mut self, job: &Arrival<'_>, duration_s: f64) {
        self.all.add(duration_s);
        self.users.entry(job.user.to_owned()).or_default().add(duration_s);
        let names = self.names.entry((job.user.to_owned(), job.devices)).or_default();
        if !names.means.contains_key(job.name) {
            names.in_order.push(job.name.to_owned());
        }
        names.means.entry(job.name.to_owned()).or_default().add(duration_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::TimeOfWeek;

    fn job<'a>(user: &'a str, name: &'a str, devices: u32) -> Arrival<'a> {
        Arrival { name, user, virtual_cluster: "", workload: "resnet50", plan: None, devices, time: None }
    }

    #[test]
    fn the_closest_jobs_of_the_past_decide() {
        let mut rolling = Rolling::default();
        assert_eq!(rolling.estimate(&job("ann", "train", 1)), None);
        for (name, devices, duration_s) in [
            ("train-a", 1, 10.0),
            ("train-a", 1, 30.0),
            ("train-b", 1, 80.0),
            ("search", 1, 4.0),
            ("train-a", 8, 600.0),
        ] {
            rolling.learn(&job("ann", name, devices), duration_s);
        }
        rolling.learn(&job("bob", "train-a", 1), 1000.0);
        for (user, name, devices, expected) in [
            ("ann", "train-a", 1, 20.0),
            ("ann", "train-a", 8, 600.0),
            // Like both, with three jobs.
            ("ann", "train-c", 1, 40.0),
            // Like none.
            ("ann", "evaluation", 1, 724.0 / 5.0),
            // On no number of devices of this user.
            ("ann", "train-a", 4, 724.0 / 5.0),
            ("eve", "train-a", 1, 1724.0 / 6.0),
        ] {
            let estimate = rolling.estimate(&job(user, name, devices)).expect("jobs are known");
            assert!((estimate - expected).abs() < 1e-9, "{user} {name} {devices}: {estimate}");
        }
    }

    #[test]
    fn a_week_has_the_days_of_the_calendar() {
        // A Thursday, a Tuesday, and a Sunday.
        for (seconds, day, hour) in [(0, 3, 0), (1_598_947_200, 1, 8), (1_599_436_799, 6, 23)] {
            assert_eq!(TimeOfWeek::of_unix_time(seconds), TimeOfWeek { day, hour }, "{seconds}");
        }
    }
}
