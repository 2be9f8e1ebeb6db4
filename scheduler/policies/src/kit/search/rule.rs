//! The rule of searches, as settings of a policy spell it.

use std::ops::Bound::Unbounded;

use anyhow::{bail, ensure};

use crate::kit::settings::{Kind, Setting, Values};

/// Whether and how members of searches are ended or favoured. Without settings there is no rule, and members are jobs as any other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rule {
    pub(super) mode: Mode,
    pub(super) target: Option<Target>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Off,
    /// Successive halving, with the steps of the first rung.
    Halving { eta: u32, rung: u64 },
    /// The number of favoured members.
    Keep(usize),
}

/// The loss at which a search is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target(pub(super) f64);

pub(crate) const SEARCH: Setting = Setting::new(
    "search",
    Kind::Words(&["halving", "keep", "off"]),
    "off",
    "what is done with members of searches: successive halving, in which members that wait keep their devices, so that slice=off is \
     refused; or the best run exclusively and the others take turns",
);
pub(crate) const ETA: Setting = Setting::new(
    "eta",
    Kind::whole("N", 2.0, 1e6),
    "2",
    "with search=halving, one in eta members goes on from a rung, to eta times as many steps, and the others are ended",
);
pub(crate) const RUNG: Setting = Setting::new(
    "rung",
    Kind::whole("STEPS", 1.0, 1e15),
    "none",
    "with search=halving, the steps of the first rung, which it needs; the remaining members are compared when all have done them",
)
.or("none")
.such_as("1000");
pub(crate) const KEEP: Setting = Setting::new(
    "keep",
    Kind::whole("N", 1.0, 1e6),
    "2",
    "with search=keep, the number of members that run exclusively; the cluster needs more devices than these",
);
pub(crate) const TARGET: Setting = Setting::new(
    "target",
    Kind::number("LOSS", Unbounded, Unbounded),
    "none",
    "with either rule, the first member that reaches this loss runs on, and the others are ended",
)
.or("none")
.such_as("0.5");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Off,
    Halving,
    Keep,
}

impl Rule {
    /// Reads the settings of searches.
    ///
    /// # Errors
    /// Fails at a setting that the rule would ignore, and at successive halving without a rung.
    pub(crate) fn read(values: &Values) -> anyhow::Result<Rule> {
        let words = [("halving", Word::Halving), ("keep", Word::Keep), ("off", Word::Off)];
        let word = values.word("search", &words);
        let (eta, rung) = (values.number("eta") as u32, values.number_or_none("rung"));
        let keep = values.number("keep") as usize;
        let target = values.number_or_none("target").map(Target);
        for (key, owner, name) in [
            ("eta", Word::Halving, "halving"),
            ("rung", Word::Halving, "halving"),
            ("keep", Word::Keep, "keep"),
        ] {
            ensure!(
                word == owner || !values.is_given(key),
                "{key} is of search={name}; write both, or neither"
            );
        }
        ensure!(
            word != Word::Off || target.is_none(),
            "target is of a search; write search=halving or search=keep"
        );
        let mode = match (word, rung) {
            (Word::Off, _) => Mode::Off,
            (Word::Keep, _) => Mode::Keep(keep),
            (Word::Halving, Some(rung)) => Mode::Halving { eta, rung: rung as u64 },
            (Word::Halving, None) => bail!("search=halving needs a rung in steps, such as rung=1000"),
        };
        Ok(Rule { mode, target })
    }

    /// `eta` and the steps of the first rung, under successive halving.
    pub(super) fn halving(&self) -> Option<(u32, u64)> {
        match self.mode {
            Mode::Halving { eta, rung } => Some((eta, rung)),
            Mode::Off | Mode::Keep(_) => None,
        }
    }

    /// Whether members wait for others.
    pub(crate) fn holds(&self) -> bool {
        self.halving().is_some()
    }

    /// The number of members that are favoured, under `keep`.
    pub(super) fn kept(&self) -> Option<usize> {
        match self.mode {
            Mode::Keep(members) => Some(members),
            Mode::Off | Mode::Halving { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn rule(text: &str) -> anyhow::Result<Rule> {
        Rule::read(&Values::parse(&[SEARCH, ETA, RUNG, KEEP, TARGET], text)?)
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
            (
                "search=halving:rung=0",
                "'rung=0': write a whole number from 1 to 1e15, or none, such as rung=1000",
            ),
            ("search=halving:rung=1.5", "'rung=1.5': write a whole number from 1 to 1e15, or none"),
            ("search=halving:rung=9:eta=1", "'eta=1': write a whole number from 2 to 1e6, such as eta=2"),
            ("search=keep:keep=0", "'keep=0': write a whole number from 1 to 1e6"),
            ("search=keep:target=nan", "'target=nan': write a number, or none, such as target=0.5"),
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
