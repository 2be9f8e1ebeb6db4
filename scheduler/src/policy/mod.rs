//! Policies: functions of the view they are given, without I/O, clock or chance of their own.

use schema::units::Nanos;

use crate::{cluster::Action, view::View};

/// Decides who runs where.
pub trait Policy {
    /// Called after each event. Actions are checked and applied in order; one that is refused is skipped, recorded, and told on stderr.
    fn decide(&mut self, view: &View<'_>) -> Decision;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// When to be asked again if nothing happens before.
    pub wake_at: Option<Nanos>,
    /// Why, in a few words, for whoever reads the journal. Empty where nothing was done.
    pub reason: String,
}
