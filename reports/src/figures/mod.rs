//! The figures of a report, each in a file of its own: a function from the rows of runs to charts.
//!
//! To add a figure, write its file, and add it to [`KINDS`] in the place where the page has it.

mod group_throughput;
mod interference;
mod memory_together;
mod sensitivity;
mod slowdown_heat;
mod slowdown_utilisation;
mod together;

use crate::{
    colours::Colours,
    figure::Figure,
    run::{Run, RunKind},
};

/// A kind of figure.
pub struct Kind {
    /// The name in `report table NAME` and of its files: `step-times`.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub about: &'static str,
    pub make: Make,
}

/// How the figures of a kind are made. A run that lacks their data has none.
pub enum Make {
    /// From one run. The figures of a page are those of each of its runs.
    OfRun(fn(&Run, &Colours) -> Vec<Figure>),
    /// From all runs of a report together.
    OfAll(fn(&[Run], &Colours) -> Vec<Figure>),
}

/// All kinds, in the order of the page.
pub const KINDS: &[Kind] = &[Kind {
    name: "interference",
    about: "what each member of each group pays for the company",
    make: Make::OfRun(interference::figures),
}];
