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
pub const KINDS: &[Kind] = &[
    Kind {
        name: "interference",
        about: "what each member of each group pays for the company",
        make: Make::OfRun(interference::figures),
    },
    Kind {
        name: "slowdown-heat",
        about: "how much each job slows down each other one",
        make: Make::OfRun(slowdown_heat::figures),
    },
    Kind {
        name: "group-throughput",
        about: "the throughput of groups beside that of turns without loss",
        make: Make::OfRun(group_throughput::figures),
    },
    Kind {
        name: "slowdown-utilisation",
        about: "slowdowns over the summed utilisation of the members alone, with the line through them",
        make: Make::OfRun(slowdown_utilisation::figures),
    },
    Kind {
        name: "memory-together",
        about: "the memory of groups beside that of their members alone",
        make: Make::OfRun(memory_together::figures),
    },
    Kind {
        name: "sensitivity",
        about: "slowdowns of jobs and stressors over the dial of the stressors",
        make: Make::OfRun(sensitivity::figures),
    },
];
