//! The rule of searches, as settings of a policy spell it.

use anyhow::ensure;

use crate::kit::settings::Setting;

/// Whether and how members of searches are ended or favoured. Without settings there is no rule, and members are jobs as any other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rule {
    pub(super) kind: Kind,
    eta: Option<u32>,
    rung: Option<u64>,
    keep: Option<usize>,
    pub(super) target: Option<Target>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Off,
    Halving,
    Keep,
}

/// The loss at which a search is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target(pub(super) f64);

impl Rule {
    /// Takes a setting. Returns whether it is one of searches.
    ///
    /// # Errors
    /// Fails if the value is out of range.
    pub(crate) fn set(&mut self, setting: &Setting<'_>) -> anyhow::Result<bool> {
        // Whole numbers up to this one are exact.
        let whole = |least: f64, most: f64| {
            setting.number(|number| number.fract() == 0.0 && (least..=most).contains(&number))
        };
        match setting.key {
            "search" => {
                let kinds = [("halving", Kind::Halving), ("keep", Kind::Keep), ("off", Kind::Off)];
                self.kind = setting.word(&kinds)?;
            }
            "eta" => self.eta = Some(whole(2.0, 1e6)? as u32),
            "rung" => self.rung = Some(whole(1.0, 1e15)? as u64),
            "keep" => self.keep = Some(whole(1.0, 1e6)? as usize),
            "target" => self.target = Some(Target(setting.number(|_| true)?)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that the settings fit together, after the last of them.
    ///
    /// # Errors
    /// Fails at a setting that the rule would ignore, and at successive halving without a rung.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let is_halving = self.kind == Kind::Halving;
        ensure!(is_halving || self.eta.is_none(), "eta is of search=halving; write both, or neither");
        ensure!(is_halving || self.rung.is_none(), "rung is of search=halving; write both, or neither");
        ensure!(
            !is_halving || self.rung.is_some(),
            "search=halving needs a rung in steps, such as rung=1000"
        );
        ensure!(
            self.kind == Kind::Keep || self.keep.is_none(),
            "keep is of search=keep; write both, or neither"
        );
        ensure!(
            self.kind != Kind::Off || self.target.is_none(),
            "target is of a search; write search=halving or search=keep"
        );
        Ok(())
    }

    /// `eta`, by default 2, and the steps of the first rung, under successive halving.
    pub(super) fn halving(&self) -> Option<(u32, u64)> {
        Some((self.eta.unwrap_or(2), self.rung?)).filter(|_| self.kind == Kind::Halving)
    }

    /// Whether members wait for others.
    pub(crate) fn holds(&self) -> bool {
        self.kind == Kind::Halving
    }

    /// The number of members that are favoured, by default 2, under `keep`.
    pub(super) fn kept(&self) -> Option<usize> {
        (self.kind == Kind::Keep).then(|| self.keep.unwrap_or(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::settings::split;

    fn rule(text: &str) -> anyhow::Result<Rule> {
        let mut rule = Rule::default();
        for setting in split(text)? {
            ensure!(rule.set(&setting)?, "'{}' is no setting of searches", setting.part);
        }
        rule.check()?;
        Ok(rule)
    }

    #[test]
    fn rules_are_spelled_by_settings_that_fit_together() {
        let halving = rule("search=halving:rung=100").unwrap();
        assert_eq!((halving.halving(), halving.kept()), (Some((2, 100)), None));
        assert_eq!(rule("rung=50:eta=4:search=halving").unwrap().halving(), Some((4, 50)));
        let keep = rule("search=keep:target=-0.5").unwrap();
        assert_eq!((keep.kept(), keep.target, keep.halving()), (Some(2), Some(Target(-0.5)), None));
        assert_eq!(rule("search=keep:keep=8").unwrap().kept(), Some(8));
        assert_eq!(rule("search=off").unwrap(), Rule::default());
        for (text, message) in [
            ("search=best", "'search=best': write search=halving or search=keep or search=off"),
            ("search=halving", "search=halving needs a rung in steps"),
            ("search=halving:rung=0", "'rung=0' is out of range"),
            ("search=halving:rung=1.5", "'rung=1.5' is out of range"),
            ("search=halving:rung=9:eta=1", "'eta=1' is out of range"),
            ("search=keep:keep=0", "'keep=0' is out of range"),
            ("search=keep:target=nan", "'target=nan' is out of range"),
            ("search=keep:rung=9", "rung is of search=halving"),
            ("eta=3", "eta is of search=halving"),
            ("search=halving:rung=9:keep=2", "keep is of search=keep"),
            ("target=1", "target is of a search"),
        ] {
            let error = format!("{:#}", rule(text).unwrap_err());
            assert!(error.starts_with(message), "{error}");
        }
    }
}
