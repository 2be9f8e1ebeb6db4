//! The settings of a policy, as data: from a declaration follow the parser ([`Values`]), what errors tell a user to write, and what
//! `sched policies` and the documentation say.
//!
//! A policy declares its settings beside the code that reads them. Settings follow the name of a policy as `KEY=VALUE:KEY=VALUE`. A
//! default is written as a user would write it, and is parsed as what a user has written.

mod values;

use std::{fmt, ops::Bound, time::Duration};

use schema::units::Nanos;
pub(crate) use values::Values;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub key: &'static str,
    /// The value without the setting, as a user would write it.
    pub default: &'static str,
    /// What the setting does.
    pub meaning: &'static str,
    kind: Kind,
    /// A word that stands for no value of the kind.
    or: Option<&'static str>,
    /// A value for a user who asks how the setting is written. `None` for the default.
    such_as: Option<&'static str>,
}

/// The values that a setting may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Time {
        least: Nanos,
        most: Nanos,
    },
    /// A time of whole seconds, from one second to this time.
    Seconds(Nanos),
    Number {
        unit: &'static str,
        range: (Bound<f64>, Bound<f64>),
        is_whole: bool,
    },
    /// A share from 0, written in percent.
    Percent,
    Words(&'static [&'static str]),
    /// Ascending times with slashes between them. The setting is written first and without its key.
    Times,
}

impl Kind {
    /// A time above 0.
    pub(crate) const TIME: Kind = Kind::Time { least: Nanos(1), most: Nanos::LONGEST };
    /// The length of a round.
    pub(crate) const ROUND: Kind = Kind::Time { least: Nanos(Nanos::SECOND.0 / 10), most: Nanos::LONGEST };
    pub(crate) const ON_OFF: Kind = Kind::Words(&["on", "off"]);

    pub(crate) const fn number(unit: &'static str, least: Bound<f64>, most: Bound<f64>) -> Kind {
        Kind::Number { unit, range: (least, most), is_whole: false }
    }

    /// Whole numbers from `least` to `most`, which is at most 2^53, so that they are exact.
    pub(crate) const fn whole(unit: &'static str, least: f64, most: f64) -> Kind {
        Kind::Number { unit, range: (Bound::Included(least), Bound::Included(most)), is_whole: true }
    }
}

impl Setting {
    pub(crate) const fn new(
        key: &'static str,
        kind: Kind,
        default: &'static str,
        meaning: &'static str,
    ) -> Setting {
        Setting { key, kind, default, meaning, or: None, such_as: None }
    }

    /// The setting with a word that may be written instead of a value.
    pub(crate) const fn or(self, word: &'static str) -> Setting {
        Setting { or: Some(word), ..self }
    }

    /// The setting with a value that shows how it is written, for example because the default is a word.
    pub(crate) const fn such_as(self, value: &'static str) -> Setting {
        Setting { such_as: Some(value), ..self }
    }

    /// Whether the value is written without the key.
    pub fn is_positional(&self) -> bool {
        matches!(self.kind, Kind::Times)
    }

    /// The setting as it is written with a value.
    pub fn written(&self, value: &str) -> String {
        if self.is_positional() { value.to_owned() } else { format!("{}={value}", self.key) }
    }

    /// An example of the setting, as it is written.
    pub fn example(&self) -> String {
        self.written(self.such_as.unwrap_or(self.default))
    }

    /// The setting as usage texts have it: `[:every=TIME]`.
    pub fn usage(&self) -> String {
        let value = match self.kind {
            Kind::Time { .. } | Kind::Seconds(_) => "TIME".to_owned(),
            Kind::Number { unit, .. } => unit.to_owned(),
            Kind::Percent => "PERCENT".to_owned(),
            Kind::Words(words) => words.join("|"),
            Kind::Times => format!("{0}[/{0}..]", self.key),
        };
        let or = self.or.map(|word| format!("|{word}")).unwrap_or_default();
        format!("[:{}]", self.written(&(value + &or)))
    }

    /// The words that the setting may have.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        let words = if let Kind::Words(words) = self.kind { words } else { &[] };
        words.iter().copied().chain(self.or).collect()
    }

    /// The values in words.
    pub fn values(&self) -> String {
        let or = self.or.map(|word| format!(", or {word}")).unwrap_or_default();
        format!("{}{or}", self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Nanos| humantime::format_duration(Duration::from_nanos(time.0));
        match *self {
            Kind::Time { least: Nanos(0 | 1), .. } => f.write_str("a time above 0"),
            Kind::Time { least, .. } => write!(f, "a time of {} or more", time(least)),
            Kind::Seconds(most) => write!(f, "whole seconds, {} at most", time(most)),
            Kind::Number { range, is_whole, .. } => {
                f.write_str(if is_whole { "a whole number" } else { "a number" })?;
                match range {
                    (Bound::Included(least), Bound::Included(most)) if most >= 1e6 => {
                        write!(f, " from {least} to {most:e}")
                    }
                    (Bound::Included(least), Bound::Included(most)) => write!(f, " from {least} to {most}"),
                    (Bound::Included(least), Bound::Excluded(most)) => {
                        write!(f, " of {least} or more and below {most}")
                    }
                    (Bound::Excluded(least), Bound::Included(most)) => {
                        write!(f, " above {least} and at most {most}")
                    }
                    (Bound::Excluded(least), Bound::Excluded(most)) => {
                        write!(f, " above {least} and below {most}")
                    }
                    (Bound::Included(least), Bound::Unbounded) => write!(f, " of {least} or more"),
                    (Bound::Excluded(least), Bound::Unbounded) => write!(f, " above {least}"),
                    (Bound::Unbounded, Bound::Included(most)) => write!(f, " of {most} or less"),
                    (Bound::Unbounded, Bound::Excluded(most)) => write!(f, " below {most}"),
                    (Bound::Unbounded, Bound::Unbounded) => Ok(()),
                }
            }
            Kind::Percent => f.write_str("a percentage of 0 or more"),
            Kind::Words([words @ .., last]) if !words.is_empty() => {
                write!(f, "{} or {last}", words.join(", "))
            }
            Kind::Words(words) => f.write_str(&words.join(", ")),
            Kind::Times => f.write_str("ascending times above 0 with slashes between them"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::POLICIES;

    #[test]
    fn an_example_shows_how_a_value_is_written() {
        for setting in POLICIES.iter().flat_map(|policy| policy.settings) {
            let is_word = setting.words().iter().any(|word| setting.example() == setting.written(word));
            assert_eq!(is_word, matches!(setting.kind, Kind::Words(_)), "{}", setting.key);
        }
    }

    #[test]
    fn values_are_told_as_they_are_checked() {
        use Bound::{Excluded, Included, Unbounded};
        for (kind, told) in [
            (Kind::TIME, "a time above 0"),
            (Kind::ROUND, "a time of 100ms or more"),
            (Kind::Seconds(Nanos(3_600 * Nanos::SECOND.0)), "whole seconds, 1h at most"),
            (Kind::number("N", Excluded(0.0), Excluded(1.0)), "a number above 0 and below 1"),
            (Kind::number("N", Excluded(0.0), Included(1.0)), "a number above 0 and at most 1"),
            (Kind::number("N", Included(0.0), Included(1.0)), "a number from 0 to 1"),
            (Kind::number("N", Included(1.0), Unbounded), "a number of 1 or more"),
            (Kind::number("N", Unbounded, Unbounded), "a number"),
            (Kind::whole("N", 1.0, 1e15), "a whole number from 1 to 1e15"),
            (Kind::Percent, "a percentage of 0 or more"),
            (Kind::ON_OFF, "on or off"),
            (Kind::Words(&["a", "b", "c"]), "a, b or c"),
        ] {
            assert_eq!(kind.to_string(), told);
        }
        let setting = Setting::new("bound", Kind::TIME, "7d", "").or("never");
        assert_eq!(
            (setting.values(), setting.usage()),
            ("a time above 0, or never".into(), "[:bound=TIME|never]".into())
        );
    }
}
