//! Launches of which all processes are stopped for a while, because nothing else holds them.

use super::{Ending, Launch};
use crate::leash::LeashHandle;

impl Launch {
    /// A launch that is ending may save its work, and is not frozen.
    pub(super) fn freeze(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        self.is_frozen = true;
        self.ranks.iter().filter_map(|rank| rank.leash.as_ref()).for_each(LeashHandle::freeze);
    }

    pub(super) fn thaw(&mut self) {
        self.is_frozen = false;
        self.ranks.iter().filter_map(|rank| rank.leash.as_ref()).for_each(LeashHandle::thaw);
    }
}
