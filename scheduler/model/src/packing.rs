//! The classes by which a policy decides which jobs to pack: how much a job suffers beside others (Hu et al., "Lucid: A non-intrusive,
//! scalable and interpretable scheduler for deep learning training jobs", ASPLOS 2023).

use crate::Subject;

/// How much a job is slowed down by others on its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackingClass {
    /// Hardly at all.
    Tiny,
    Medium,
    /// Much. A job of which nothing is known is of this class.
    Jumbo,
}

impl PackingClass {
    /// The sharing score: 0, 1 or 2. Lucid packs two jobs if the sum of their scores is 2 or less.
    pub fn score(self) -> u32 {
        self as u32
    }
}

/// The class of a job and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    pub class: PackingClass,
    /// The conditions from the root of the tree to its leaf, such as `busy 0.31 <= 0.52`, in this order.
    pub path: Vec<String>,
}

/// A classifier of jobs.
pub trait PackingClasses: Sync {
    /// The class of a job. `None` if it was not measured alone.
    fn class(&self, job: &Subject<'_>) -> Option<Classified>;
}
