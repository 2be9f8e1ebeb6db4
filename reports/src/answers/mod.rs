//! What a page says first: for each question that its runs can answer, the answer with its certainty. A difference is claimed only if a
//! whole 95 % interval shows it, also after the correction for the number of comparisons; of jobs alone, if two intervals do not overlap.
//! An answer also names what no number shows.

mod alone;
mod model;
mod prediction;
mod setting;
mod together;
mod traces;

use std::collections::BTreeSet;

use record::rows::Usability;

use crate::{
    alone::throughput,
    phrases::first_of,
    report::Report,
    run::{Run, RunKind},
    scheduled::{is_scheduled, trace},
};

/// An answer to the question that runs of a kind are made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub question: &'static str,
    /// The run that it is about, as a position in the report; absent for several runs of one trace.
    pub run: Option<usize>,
    /// Sentences.
    pub text: String,
    /// The kind of the figure that has the numbers.
    pub figure: &'static str,
}

/// The answers of a report, in the order of its runs. Runs of one trace have one answer.
pub fn answers(report: &Report) -> Vec<Answer> {
    let runs = &report.runs;
    let mut compared: Vec<BTreeSet<(&str, u64)>> = Vec::new();
    let mut answers = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let jobs = trace(run);
        let of_trace: Vec<&Run> =
            runs.iter().filter(|other| is_scheduled(other) && trace(other) == jobs).collect();
        if !is_scheduled(run) || of_trace.len() < 2 || jobs.is_empty() {
            answers.extend(of_run(number, run));
        } else if !compared.contains(&jobs) {
            answers.push(Answer {
                question: "Which policy has the least average JCT?",
                run: None,
                text: traces::answer(&of_trace),
                figure: "policies",
            });
            compared.push(jobs);
        }
    }
    answers.extend(report.models.iter().map(|of| Answer {
        question: "How far may predictions be off?",
        run: None,
        text: model::answer(of),
        figure: "model-errors",
    }));
    answers
}

/// The answer of a run by itself. `None` for a table of another run, which has no rows of its own.
fn of_run(number: usize, run: &Run) -> Option<Answer> {
    let (question, text, figure) = match run.kind() {
        RunKind::Single => {
            let has_rates = run.summaries.iter().any(|row| throughput(row).is_some());
            let figure = if has_rates { "throughput" } else { "step-median" };
            ("Which job is fastest?", alone::answer(run)?, figure)
        }
        RunKind::Colocate => ("Which jobs gain by sharing?", together::answer(run)?, "group-throughput"),
        RunKind::Scheduled => ("How good was the prediction?", prediction::answer(run), "fidelity"),
        RunKind::Simulated => ("What does the simulation predict?", prediction::simulated(run), "policies"),
    };
    Some(Answer { question, run: Some(number), text, figure })
}

/// Whether the numbers of a run may be quoted. Empty for a run without rows.
fn quotable(run: &Run) -> String {
    let missing = run.end.as_ref().map_or(0, |end| end.missing.len());
    match Usability::of_run(&run.summaries, &run.interference, missing) {
        None => String::new(),
        Some(Usability::Usable) => "The numbers may be quoted.".into(),
        Some(Usability::WithCare(reasons)) => {
            format!("The numbers may be quoted with care: {}.", reasons.join("; "))
        }
        Some(Usability::DoNotQuote(reasons)) => format!("Do not quote the numbers: {}.", reasons.join("; ")),
    }
}

/// The first three of several phrases, and how many more there are.
fn some_of(phrases: &[String]) -> String {
    first_of(phrases, 3, "; ")
}
