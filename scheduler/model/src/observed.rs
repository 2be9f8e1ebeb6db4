//! What a run has measured of a configuration.

use crate::{Observation, Setting};

/// Observations of a configuration as their number and the sum of their logarithms, so that memory does not grow with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observed {
    pub(crate) setting: Setting,
    /// All observations.
    all: Logarithms,
    /// Those that predictions stand on.
    used: Logarithms,
}

/// Logarithms of times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Logarithms {
    pub(crate) count: u32,
    pub(crate) sum: f64,
}

/// A change of the mean of a configuration that is worth a refit: a small part of the least scale of residuals.
const WORTH_A_REFIT: f64 = 0.005;

impl Logarithms {
    pub(crate) fn of(times: impl Iterator<Item = f64>) -> Logarithms {
        let add = |sum: Logarithms, time: f64| Logarithms { count: sum.count + 1, sum: sum.sum + time.ln() };
        times.fold(Logarithms::default(), add)
    }

    pub(crate) fn and(self, other: Logarithms) -> Logarithms {
        Logarithms { count: self.count + other.count, sum: self.sum + other.sum }
    }

    /// Logarithm of the geometric mean; `None` if there are no times.
    pub(crate) fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

impl Observed {
    pub(crate) fn new(setting: Setting) -> Observed {
        Observed { setting, all: Logarithms::default(), used: Logarithms::default() }
    }

    pub(crate) fn used(&self) -> Logarithms {
        self.used
    }

    /// The observations that predictions stand on, as one.
    pub(crate) fn as_one(&self) -> Option<Observation> {
        self.used.mean().map(|mean| Observation::new(self.setting, mean.exp()))
    }

    /// Adds a time in seconds. Returns whether predictions stand on other observations now, because the mean of the observations
    /// and of the rows of the same configuration has changed by enough.
    pub(crate) fn add(&mut self, step_s: f64, rows: Logarithms) -> bool {
        self.all = self.all.and(Logarithms::of([step_s].into_iter()));
        let means = rows.and(self.used).mean().zip(rows.and(self.all).mean());
        let has_changed = means.is_none_or(|(before, after)| (after - before).abs() > WORTH_A_REFIT);
        if has_changed {
            self.used = self.all;
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use record::facts::Facts;

    use super::*;
    use crate::Placement;

    /// One row of 1 s and observations of 2 s: the mean of n observations is 2^(n / (n + 1)) s.
    #[test]
    fn observations_are_used_until_the_mean_changes_by_too_little() {
        let setting = Setting {
            facts: Facts::default(),
            global_batch: 8,
            plan: "dp1".parse().unwrap(),
            placement: Placement::of(&[1]),
            cpus: None,
            ranks_per_device: 1,
        };
        let rows = Logarithms::of([1.0].into_iter());
        let mut observed = Observed::new(setting);
        let mean = |observed: &Observed| rows.and(observed.used()).mean().unwrap().exp();
        let mut changes = 0;
        for count in 1..=1000 {
            changes += u32::from(observed.add(2.0, rows));
            let exact = 2f64.powf(f64::from(count) / f64::from(count + 1));
            assert!((mean(&observed) / exact).ln().abs() <= WORTH_A_REFIT, "{count}");
        }
        assert!((15..40).contains(&changes), "{changes}");
        assert!((observed.as_one().unwrap().step_s - 2.0).abs() < 1e-9);
        let mut first = Observed::new(setting);
        assert!(first.add(2.0, Logarithms::default()) && !first.add(2.0, Logarithms::default()));
    }
}
