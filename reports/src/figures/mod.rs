//! The figures of a report, each in a file of its own: a function from the rows of runs to charts.
//!
//! To add a figure, write its file, and add it to [`KINDS`] in the place where the page has it.

mod coverage;
mod devices;
mod draws;
mod duration_shapes;
mod energy;
mod error_parts;
pub(crate) mod fidelity;
mod gantt;
pub(crate) mod group_throughput;
mod history;
mod interference;
mod jct_box;
mod jct_cdf;
mod jct_predicted;
mod job_errors;
mod job_times;
mod memory;
mod memory_together;
mod mfu;
mod model_errors;
mod model_predicted;
pub(crate) mod model_rows;
mod operators;
mod outcomes_table;
mod pareto;
mod per_launch;
mod phases;
mod plan_heat;
mod policies;
mod policy_ratio;
mod predicted_measured;
mod scaling;
mod sensitivity;
mod slowdown_class;
mod slowdown_heat;
mod slowdown_utilisation;
mod speed;
mod step_cdf;
mod step_histogram;
mod step_median;
mod step_times;
mod summary;
#[cfg(test)]
mod tests;
mod throughput;
pub(crate) mod together;
mod utilisation;
mod values;

use crate::{
    colours::Colours, figure::Figure, fitted::FittedModel, history::is_of_profile, run::Run,
    scheduled::is_scheduled, shapes::ShapeTable,
};

/// A kind of figure.
pub struct FigureKind {
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
    /// From all runs of a report together that have its data, which the second function says.
    OfAll(fn(&[Run], &Colours) -> Vec<Figure>, fn(&Run) -> bool),
    /// From a fitted model of step times, which is of no run.
    OfModel(fn(&FittedModel, &Colours) -> Vec<Figure>),
    /// From the table of a duration model, which is of no run.
    OfShapes(fn(&ShapeTable, &Colours) -> Vec<Figure>),
}

/// All kinds, in the order of the page.
pub const KINDS: &[FigureKind] = &[
    FigureKind {
        name: "slowdown-heat",
        about: "what the jobs of a pair cost each other, victim by aggressor",
        make: Make::OfRun(slowdown_heat::make),
    },
    FigureKind {
        name: "group-throughput",
        about: "the throughput of groups by sharing mode",
        make: Make::OfRun(group_throughput::make),
    },
    FigureKind {
        name: "slowdown-utilisation",
        about: "slowdown over the summed utilisation of the members alone, with its line",
        make: Make::OfRun(slowdown_utilisation::make),
    },
    FigureKind {
        name: "memory-together",
        about: "the memory of groups over the sum of their members alone",
        make: Make::OfRun(memory_together::make),
    },
    FigureKind {
        name: "sensitivity",
        about: "slowdown beside stressors, over their dial",
        make: Make::OfRun(sensitivity::make),
    },
    FigureKind {
        name: "interference",
        about: "the members of groups, as a table",
        make: Make::OfRun(interference::make),
    },
    FigureKind {
        name: "summary",
        about: "the jobs measured alone, as a table",
        make: Make::OfRun(summary::make),
    },
    FigureKind {
        name: "step-median",
        about: "the median step of each job alone, with its interval",
        make: Make::OfRun(step_median::make),
    },
    FigureKind {
        name: "throughput",
        about: "samples per second of each job alone, the fastest first",
        make: Make::OfRun(throughput::make),
    },
    FigureKind { name: "phases", about: "where the time of a step goes", make: Make::OfRun(phases::make) },
    FigureKind {
        name: "operators",
        about: "the operators of a step that take the longest, where they were recorded",
        make: Make::OfRun(operators::make),
    },
    FigureKind {
        name: "memory",
        about: "the peak of memory of each job alone, and its estimate",
        make: Make::OfRun(memory::make),
    },
    FigureKind {
        name: "pareto",
        about: "step time and memory of all plans of a workload",
        make: Make::OfRun(pareto::make),
    },
    FigureKind {
        name: "plan-heat",
        about: "the throughput of plans over the fastest plan at each batch",
        make: Make::OfRun(plan_heat::make),
    },
    FigureKind {
        name: "scaling",
        about: "throughput over the number of devices",
        make: Make::OfRun(scaling::make),
    },
    FigureKind {
        name: "values",
        about: "the median step over the values of --vary",
        make: Make::OfRun(values::make),
    },
    FigureKind {
        name: "history",
        about: "the time of a step over runs, with its levels",
        make: Make::OfAll(history::make, is_of_profile),
    },
    FigureKind {
        name: "mfu",
        about: "the part of the peak arithmetic that each job alone uses",
        make: Make::OfRun(mfu::make),
    },
    FigureKind { name: "energy", about: "the energy of a sample", make: Make::OfRun(energy::make) },
    FigureKind {
        name: "devices",
        about: "readings of devices over the time of the run, beside step times",
        make: Make::OfRun(devices::make),
    },
    FigureKind {
        name: "step-times",
        about: "the time of each step over the time of its launch",
        make: Make::OfRun(step_times::make),
    },
    FigureKind {
        name: "step-histogram",
        about: "the number of steps by their time",
        make: Make::OfRun(step_histogram::make),
    },
    FigureKind {
        name: "step-cdf",
        about: "the distribution of step times, launch by launch",
        make: Make::OfRun(step_cdf::make),
    },
    FigureKind {
        name: "policies",
        about: "totals of policies, beside each other",
        make: Make::OfAll(policies::make, is_scheduled),
    },
    FigureKind {
        name: "jct-predicted",
        about: "predicted and measured average completion times, by policy",
        make: Make::OfAll(jct_predicted::make, is_scheduled),
    },
    FigureKind {
        name: "coverage",
        about: "how many jobs ended inside their predicted intervals",
        make: Make::OfAll(coverage::make, is_scheduled),
    },
    FigureKind {
        name: "policy-ratio",
        about: "completion times of jobs over those in the first run",
        make: Make::OfAll(policy_ratio::make, is_scheduled),
    },
    FigureKind {
        name: "jct-cdf",
        about: "the distribution of completion times by policy",
        make: Make::OfAll(jct_cdf::make, is_scheduled),
    },
    FigureKind {
        name: "jct-box",
        about: "completion times by policy as boxes",
        make: Make::OfAll(jct_box::make, is_scheduled),
    },
    FigureKind {
        name: "job-times",
        about: "how jobs spend their time, by policy",
        make: Make::OfAll(job_times::make, is_scheduled),
    },
    FigureKind {
        name: "utilisation",
        about: "busy devices and waiting jobs over time",
        make: Make::OfAll(utilisation::make, is_scheduled),
    },
    FigureKind { name: "gantt", about: "which job ran where and when", make: Make::OfRun(gantt::make) },
    FigureKind {
        name: "fidelity",
        about: "prediction and result of a run",
        make: Make::OfRun(fidelity::make),
    },
    FigureKind {
        name: "error-parts",
        about: "where the error of a prediction arose",
        make: Make::OfRun(error_parts::make),
    },
    FigureKind {
        name: "predicted-measured",
        about: "predicted against measured completion times",
        make: Make::OfRun(predicted_measured::make),
    },
    FigureKind {
        name: "job-errors",
        about: "the error of the prediction of each job",
        make: Make::OfRun(job_errors::make),
    },
    FigureKind {
        name: "draws",
        about: "the prediction over draws, and the result",
        make: Make::OfRun(draws::make),
    },
    FigureKind {
        name: "speed",
        about: "the speed of the machine over a run",
        make: Make::OfRun(speed::make),
    },
    FigureKind {
        name: "slowdown-class",
        about: "slowdown of jobs by class, user and virtual cluster",
        make: Make::OfRun(slowdown_class::make),
    },
    FigureKind { name: "outcomes", about: "how each job ended", make: Make::OfRun(outcomes_table::make) },
    FigureKind {
        name: "model-errors",
        about: "the errors of a fitted model on rows that were left out, beside the differences between launches",
        make: Make::OfModel(model_errors::make),
    },
    FigureKind {
        name: "model-predicted",
        about: "predicted against measured step times of a fitted model, each row predicted from the others",
        make: Make::OfModel(model_predicted::make),
    },
    FigureKind {
        name: "model-rows",
        about: "the measured throughput that a model was fitted to, over the number of devices",
        make: Make::OfModel(model_rows::make),
    },
    FigureKind {
        name: "duration-shapes",
        about: "the shapes of a duration model: what each level of a feature, or of a pair, multiplies durations by",
        make: Make::OfShapes(duration_shapes::make),
    },
];
