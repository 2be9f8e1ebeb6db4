//! The figures of a report, each in a file of its own: a function from the rows of runs to charts.
//!
//! To add a figure, write its file, and add it to [`KINDS`] in the place where the page has it.

mod devices;
mod energy;
mod memory;
mod pareto;
mod phases;
mod scaling;
mod step_cdf;
mod step_histogram;
mod step_median;
mod step_times;
mod summary;
mod throughput;

use crate::{colours::Colours, figure::Figure, run::Run};

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
    Kind { name: "summary", about: "the jobs measured alone, as a table", make: Make::OfRun(summary::make) },
    Kind {
        name: "step-median",
        about: "the median step of each job alone, with its interval",
        make: Make::OfRun(step_median::make),
    },
    Kind {
        name: "throughput",
        about: "samples per second of each job alone, the fastest first",
        make: Make::OfRun(throughput::make),
    },
    Kind { name: "phases", about: "where the time of a step goes", make: Make::OfRun(phases::make) },
    Kind {
        name: "memory",
        about: "the peak of memory of each job alone, and its estimate",
        make: Make::OfRun(memory::make),
    },
    Kind {
        name: "pareto",
        about: "step time and memory of all plans of a workload",
        make: Make::OfRun(pareto::make),
    },
    Kind {
        name: "scaling",
        about: "throughput over the number of devices",
        make: Make::OfRun(scaling::make),
    },
    Kind { name: "energy", about: "the energy of a sample", make: Make::OfRun(energy::make) },
    Kind {
        name: "devices",
        about: "readings of devices over the time of the run, beside step times",
        make: Make::OfRun(devices::make),
    },
    Kind {
        name: "step-times",
        about: "the time of each step over the time of its launch",
        make: Make::OfRun(step_times::make),
    },
    Kind {
        name: "step-histogram",
        about: "the number of steps by their time",
        make: Make::OfRun(step_histogram::make),
    },
    Kind {
        name: "step-cdf",
        about: "the distribution of step times, launch by launch",
        make: Make::OfRun(step_cdf::make),
    },
];
