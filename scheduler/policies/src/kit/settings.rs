//! The settings of policies, as they follow a name: `KEY=VALUE:KEY=VALUE`.

use anyhow::{Context as _, bail, ensure};
use schema::units::Nanos;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// The key and the value as the user typed them.
    pub(crate) part: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

/// Splits settings.
///
/// # Errors
/// Fails at a part without a value, and at the second one with the same key.
pub(crate) fn split(text: &str) -> anyhow::Result<Vec<Setting<'_>>> {
    let mut settings: Vec<Setting<'_>> = Vec::new();
    for part in text.split(':').filter(|_| !text.is_empty()) {
        let (key, value) = part.split_once('=').with_context(|| format!("'{part}' is not KEY=VALUE"))?;
        ensure!(settings.iter().all(|other| other.key != key), "'{key}' is given twice");
        settings.push(Setting { part, key, value });
    }
    Ok(settings)
}

impl Setting<'_> {
    /// A time above 0.
    pub(crate) fn time(&self) -> anyhow::Result<Nanos> {
        let Setting { part, value, .. } = self;
        let time = humantime::parse_duration(value)
            .with_context(|| format!("'{part}': write a time, such as 60s"))?;
        ensure!(!time.is_zero(), "'{part}': write a time above 0");
        Ok(Nanos::from(time))
    }

    /// A number in a range.
    pub(crate) fn number(&self, is_valid: impl Fn(f64) -> bool) -> anyhow::Result<f64> {
        let number = self.value.parse().ok().filter(|number: &f64| number.is_finite() && is_valid(*number));
        number.with_context(|| format!("'{}' is out of range", self.part))
    }

    /// One of these words, each with what it stands for.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> anyhow::Result<T> {
        match words.iter().find(|(word, _)| *word == self.value) {
            Some((_, of)) => Ok(*of),
            None => {
                let all: Vec<String> = words.iter().map(|(word, _)| format!("{}={word}", self.key)).collect();
                bail!("'{}': write {}", self.part, all.join(" or "))
            }
        }
    }

    pub(crate) fn is_on(&self) -> anyhow::Result<bool> {
        self.word(&[("on", true), ("off", false)])
    }
}
