//! When a launch rests.

use schema::wire::Event;

/// The number of steps after which each rank last came to rest. A rank that is ready rests after 0 steps.
#[derive(Clone, Debug)]
pub struct IdleTracker(Vec<Option<u64>>);

impl IdleTracker {
    /// A tracker of a launch of this number of ranks, none of which is ready.
    pub fn new(ranks: usize) -> IdleTracker {
        IdleTracker(vec![None; ranks])
    }

    pub fn on_event(&mut self, rank: u32, event: &Event) {
        let after = match event {
            Event::Ready(_) => 0,
            Event::Held { index } => *index,
            _ => return,
        };
        if let Some(rank) = self.0.get_mut(rank as usize) {
            *rank = Some(after);
        }
    }

    pub fn is_ready(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// Whether all ranks rest, with this number of steps granted.
    pub fn at(&self, granted: u64) -> bool {
        self.0.iter().all(|after| after.is_some_and(|steps| steps >= granted))
    }
}
