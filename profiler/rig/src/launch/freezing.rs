//! Launches of which all processes are stopped for a while, because nothing else holds them.

use super::Launch;
use crate::leash::LeashHandle;

impl Launch {
    pub(super) fn freeze(&mut self) {
        self.is_frozen = true;
        self.ranks.iter().filter_map(|rank| rank.leash.as_ref()).for_each(LeashHandle::freeze);
    }

    pub(super) fn thaw(&mut self) {
        self.is_frozen = false;
        self.ranks.iter().filter_map(|rank| rank.leash.as_ref()).for_each(LeashHandle::thaw);
    }
}
