//! A run on the page: its status, its verdict, and how it was started.

use record::rows::Usability;

use crate::{
    activity::StayEnd,
    run::{Run, RunKind},
};

/// A longer command, in letters, is shown by its begin until a reader opens it.
const LONG_COMMAND: usize = 400;

/// What the page says of a run.
pub(super) struct RunOnPage<'a> {
    pub(super) run: &'a Run,
    pub(super) number: usize,
    pub(super) kind: &'static str,
    pub(super) status: String,
    pub(super) is_well: bool,
    pub(super) usability: Option<Usability>,
    pub(super) revision: String,
    pub(super) command: String,
    /// The begin of a command that is too long to be shown at once.
    pub(super) command_head: Option<String>,
    pub(super) devices: String,
}

pub(super) fn on_page(number: usize, run: &Run) -> RunOnPage<'_> {
    let missing = run.end.as_ref().map_or(0, |end| end.missing.len());
    let usability = Usability::of_run(&run.summaries, &run.interference, missing);
    let may_be_quoted = usability.as_ref().is_none_or(Usability::may_be_quoted);
    let (status, is_well) = match &run.end {
        Some(end) if end.exit_code == 0 && !may_be_quoted => ("ended; do not quote".into(), false),
        Some(end) if end.exit_code == 0 => ("ended well".into(), true),
        Some(end) if end.missing.is_empty() => (format!("ended with exit code {}", end.exit_code), false),
        Some(end) => {
            (format!("ended with exit code {}; {} missing", end.exit_code, end.missing.len()), false)
        }
        None => (format!("has no end: {}", so_far(run)), false),
    };
    let command = run.manifest.command.join(" ");
    RunOnPage {
        run,
        number,
        usability,
        kind: match run.kind() {
            RunKind::Single => "jobs alone",
            RunKind::Colocate => "jobs together",
            RunKind::Scheduled => "trace on devices",
            RunKind::Simulated => "trace in simulation",
        },
        status,
        is_well,
        revision: run.manifest.git_revision.clone().unwrap_or_else(|| "unknown".into()),
        command_head: (command.chars().count() > LONG_COMMAND)
            .then(|| command.chars().take(LONG_COMMAND / 3).collect()),
        command,
        devices: run.devices(),
    }
}

/// How far a run has come that goes on, or that was killed.
fn so_far(run: &Run) -> String {
    match run.activity() {
        Some(activity) => {
            let finished = activity.stays.iter().filter(|stay| stay.end == StayEnd::Finished).count();
            format!("{finished} of {} jobs have finished so far", run.manifest.cells.len())
        }
        None if run.measurements.is_empty() => "it is a table of another run, or has no row yet".into(),
        None => format!("{} launches have rows so far", run.measurements.len()),
    }
}
