//! A figure: a chart with everything that a reader needs to judge it.

use crate::chart::Chart;

/// A chart, its caption, and where its numbers come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What distinguishes it from other figures of its kind and its run, such as a device; empty for the only one.
    pub part: String,
    pub title: String,
    /// What it shows, on which device, from how many repeats, and what its intervals are. Sentences.
    pub caption: String,
    /// What was found, as a sentence with its numbers, for the top of the page; empty if there is nothing to say.
    pub finding: String,
    /// Warnings of the rows that are drawn, as `lstm@b20@dp1: not-steady`.
    pub doubts: Vec<String>,
    /// Values that the figure leaves out, each with the reason.
    pub missing: Vec<String>,
    pub chart: Chart,
}

impl Figure {
    pub fn new(title: impl Into<String>, caption: impl Into<String>, chart: Chart) -> Figure {
        Figure {
            part: String::new(),
            title: title.into(),
            caption: caption.into(),
            finding: String::new(),
            doubts: Vec::new(),
            missing: Vec::new(),
            chart,
        }
    }
}
