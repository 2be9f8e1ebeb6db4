//! What a policy declares of itself: its name, what it decides by, and its settings.

mod uses;

use anyhow::{Context as _, ensure};
use engine::{policy::Policy, view::View};

use crate::kit::{
    divided::Divided,
    settings::{Setting, Values},
};
pub use uses::Uses;

/// A policy, as users choose and read about it.
#[derive(Debug)]
pub struct Declaration {
    pub name: &'static str,
    /// The system that the policy is of, with the place and the year of its paper.
    pub source: &'static str,
    /// What the policy decides by.
    pub order: &'static str,
    /// What happens to a job that does not fit.
    pub misfit: &'static str,
    pub preemption: &'static str,
    pub packing: &'static str,
    /// The information that the policy needs.
    pub needs: &'static str,
    /// What the policy uses of a run that a run may lack.
    pub uses: &'static [Uses],
    /// The name with settings, as a user may write it.
    pub example: &'static str,
    pub settings: &'static [Setting],
    /// Builds the policy from its settings.
    pub(crate) build: fn(&Values) -> anyhow::Result<Box<dyn Policy>>,
}

impl Declaration {
    /// The name and the settings that may follow it.
    pub fn usage(&self) -> String {
        let settings: String = self.settings.iter().map(Setting::usage).collect();
        format!("{}{settings}", self.name)
    }

    /// Whether the policy may give elastic jobs other numbers of devices than they ask for.
    pub fn resizes(&self) -> bool {
        self.uses.contains(&Uses::Resizes)
    }

    /// What the run lacks that the policy with these settings uses, a sentence each.
    ///
    /// # Errors
    /// The settings cannot be parsed.
    pub(crate) fn lacking(&self, settings: &str, view: &View<'_>) -> anyhow::Result<Vec<String>> {
        let values = Values::parse(self.settings, settings)?;
        Ok(self.uses.iter().filter_map(|uses| uses.lacking(view, &values)).collect())
    }

    /// Builds the policy from the settings that follow its name and a colon.
    pub(crate) fn build(&self, settings: &str) -> anyhow::Result<Box<dyn Policy>> {
        let Declaration { name, .. } = self;
        ensure!(
            settings.is_empty() || !self.settings.is_empty(),
            "policy '{name}' has no settings; '{settings}' was given"
        );
        let build = || -> anyhow::Result<Box<dyn Policy>> {
            let values = Values::parse(self.settings, settings)?;
            let policy = (self.build)(&values)?;
            debug_assert!(values.unread().is_empty(), "{name} does not read {:?}", values.unread());
            Ok(policy)
        };
        let written = if settings.is_empty() { String::new() } else { format!(":{settings}") };
        build().with_context(|| format!("policy '{name}{written}'; write {}", self.usage()))
    }
}

/// A policy that decides in each virtual cluster apart.
pub(crate) fn each<P: Policy + 'static>(build: impl Fn() -> P + 'static) -> anyhow::Result<Box<dyn Policy>> {
    Ok(Box::new(Divided::new(move || Box::new(build()))))
}
