//! How each job of a run of `sched` ended, and how it spent its time.

use std::cmp::Reverse;

use formats::rows::Outcome;
use record::rows::Status;

use crate::{
    chart::Chart,
    colours::Colours,
    figure::Figure,
    run::Run,
    scheduled::{is_scheduled, place},
    table::{Cell, Table, Unit},
};

/// The largest number of rows.
const MOST_ROWS: usize = 1_000;

const COLUMNS: &[(&str, &str)] = &[
    ("job", "job"),
    ("workload", "workload"),
    ("plan", "plan"),
    ("devices", "devices"),
    ("jct_ns", "JCT"),
    ("queued_ns", "queued"),
    ("switching_ns", "switching"),
    ("running_ns", "running"),
    ("paused_ns", "paused"),
    ("starts", "starts"),
    ("steps_lost", "steps lost"),
    ("status", "status"),
    ("failure", "failure"),
];

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    if !is_scheduled(run) || run.outcomes.is_empty() {
        return Vec::new();
    }
    let mut jobs: Vec<&Outcome> = run.outcomes.iter().collect();
    let mut missing = Vec::new();
    if jobs.len() > MOST_ROWS {
        jobs.sort_by_key(|row| (row.status == Status::Ok, Reverse(row.jct_ns)));
        let failed = jobs.iter().filter(|row| row.status != Status::Ok).count();
        missing.push(match failed > MOST_ROWS {
            true => format!(
                "{} jobs: {MOST_ROWS} of {failed} that did not end well are shown",
                jobs.len() - MOST_ROWS
            ),
            false => format!("{} jobs with shorter completion times", jobs.len() - MOST_ROWS),
        });
        jobs.truncate(MOST_ROWS);
        jobs.sort_by_key(|row| row.job);
    }
    let mut table = Table::new(COLUMNS);
    jobs.iter().for_each(|row| table.push(cells(row)));
    let [skipped, steps] = [|row: &Outcome| row.steps_skipped, |row: &Outcome| row.steps]
        .map(|of| run.outcomes.iter().map(of).sum::<u64>());
    let forwarded = match skipped {
        0 => String::new(),
        _ => format!(
            " The run was fast-forwarded: {skipped} of {steps} steps were skipped, at the step time that was measured before."
        ),
    };
    let caption = format!(
        "{} of {} jobs on {}. The plan and the number of devices are those that a job asked for. From arrival to end, a job is queued, \
         switching, running or paused. Each job ran once, so that its times have no interval.{forwarded}",
        jobs.len(),
        run.outcomes.len(),
        place(run)
    );
    vec![Figure { missing, ..Figure::new("Outcomes of jobs", caption, Chart::Table(table)) }]
}

fn cells(row: &Outcome) -> Vec<Cell> {
    let ns = |ns| Cell::whole(Unit::Ns, ns);
    let count = |count| Cell::whole(Unit::Count, Some(count));
    let failure = row.err.map(|kind| match &row.err_detail {
        Some(detail) => format!("{kind}: {detail}"),
        None => kind.to_string(),
    });
    vec![
        Cell::text(&row.name),
        Cell::text(&row.workload),
        Cell::maybe_text(row.plan),
        count(row.devices.into()),
        ns(row.jct_ns),
        ns(row.queued_ns),
        ns(row.switching_ns),
        ns(row.running_ns),
        ns(row.paused_ns),
        count(row.starts.into()),
        count(row.steps_lost),
        Cell::text(row.status),
        Cell::maybe_text(failure),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn the_caption_counts_skipped_steps() {
        let mut runs = recorded();
        let run = &mut runs[0];
        let caption = |run: &Run| make(run, &Colours::default())[0].caption.clone();
        assert!(!caption(run).contains("skipped"), "{}", caption(run));
        let like = Outcome { steps: 100, ..run.outcomes[0].clone() };
        run.outcomes = [80, 0].map(|steps_skipped| Outcome { steps_skipped, ..like.clone() }).into();
        assert!(caption(run).contains("80 of 200 steps were skipped"), "{}", caption(run));
    }

    #[test]
    fn the_longest_and_all_that_failed_are_kept() {
        let mut runs = recorded();
        let run = &mut runs[0];
        let like = run.outcomes[0].clone();
        let job =
            |n: u64| Outcome { job: formats::decision::JobId(n as u32), jct_ns: Some(n), ..like.clone() };
        run.outcomes = (0..1_500).map(job).collect();
        run.outcomes[3] = Outcome { status: Status::Failed, jct_ns: None, ..like.clone() };
        let [figure] = &make(run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Table(table) = &figure.chart else { panic!("a table") };
        assert_eq!((table.rows.len(), figure.missing.len()), (1_000, 1));
        let shown: Vec<&Cell> = table.rows.iter().map(|row| &row[4]).collect();
        assert_eq!(shown.iter().filter(|cell| ***cell == Cell::Missing).count(), 1);
        assert!(
            shown.contains(&&Cell::whole(Unit::Ns, Some(501)))
                && !shown.contains(&&Cell::whole(Unit::Ns, Some(500)))
        );
    }
}
