//! Decisions at fixed times.

use anyhow::{Context as _, bail, ensure};
use engine::view::View;
use schema::units::Nanos;

/// The times at which a policy decides: all multiples of the time between two rounds, as long as there is anything to decide.
#[derive(Debug)]
pub(crate) struct Rounds {
    every: Nanos,
    /// The time of the next round. `None` if none is due before something changes.
    due: Option<Nanos>,
}

impl Rounds {
    pub(crate) fn new(every: Nanos) -> Rounds {
        Rounds { every, due: None }
    }

    /// Whether a round is due now. It is then over.
    pub(crate) fn begins(&mut self, view: &View<'_>) -> bool {
        let every = self.every.0;
        let due = *self.due.get_or_insert(Nanos(view.now.0.div_ceil(every) * every));
        let begins = view.now >= due;
        if begins {
            self.due = Some(Nanos((view.now.0 / every + 1) * every));
        }
        begins
    }

    /// The time of the next round. There is one if this is no round, or if time changes what the next one decides: a job has
    /// devices, or will have some. Otherwise it waits for a change, so that a run in which nothing can happen any more ends.
    pub(crate) fn next(&mut self, was_round: bool, goes_on: bool) -> Option<Nanos> {
        if was_round && !goes_on {
            self.due = None;
        }
        self.due
    }
}

/// The settings `[:every=TIME][:NAME=NUMBER..]` of a policy that decides in rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings<const N: usize> {
    /// The time between two rounds.
    pub(crate) every: Nanos,
    pub(crate) numbers: [f64; N],
}

impl<const N: usize> Settings<N> {
    const EVERY: Nanos = Nanos(60 * Nanos::SECOND.0);
    const LEAST: Nanos = Nanos(Nanos::SECOND.0 / 10);

    /// Parses the settings. `numbers` has the names of numbers, each with its default.
    pub(crate) fn parse(text: &str, numbers: [(&str, f64); N]) -> anyhow::Result<Settings<N>> {
        let mut settings = Settings { every: Settings::<N>::EVERY, numbers: numbers.map(|(_, value)| value) };
        for part in text.split(':').filter(|_| !text.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if let Some(place) = numbers.iter().position(|(known, _)| *known == name) {
                let value = value.parse().ok().filter(|value: &f64| value.is_finite());
                settings.numbers[place] = value.with_context(|| format!("{name} needs a number"))?;
            } else if name == "every" {
                let time = humantime::parse_duration(value);
                settings.every = time.context("every needs a time, such as every=60s")?.into();
                ensure!(settings.every >= Settings::<N>::LEAST, "every needs at least 100ms");
            } else {
                bail!("'{part}' is no setting");
            }
        }
        Ok(settings)
    }
}
