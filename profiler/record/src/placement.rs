//! How policies place jobs on nodes.

use schema::words;

words! {
    /// The nodes on which a policy places a job.
    Placement {
        /// A job waits for the smallest number of nodes that can hold it: one node if it is not larger than
        /// a node, and else whole nodes and a part of one more.
        Consolidated = "consolidated",
        /// A job gets any free devices, on as few nodes as possible at that moment.
        Spread = "spread",
    }
}

impl Placement {
    /// The placement of runs whose manifest has none.
    pub(crate) fn unrecorded() -> Placement {
        Placement::Spread
    }
}
