//! Makes rows of `summary.csv` from those of `measurements.csv`.

use jobs::cells;
use record::{
    group::Group,
    manifest::{Cell, Manifest},
    rows::{MOST_HALF_WIDTH_PERCENT, Measurement, Status, Summary, Warning, Warnings},
};
use statistics::{
    Interval,
    drift::{EXCESSIVE_SPREAD_PERCENT, drift_between_launches, spread_percent},
    launches::between_launches,
    median,
    stop::MIN_REPEATS,
};

use super::{interference::seat_name, missing::without_replaced, rounded, whole};
use crate::warnings::Finding;

/// One row per cell and one per member of a group, in the order of the manifest, and the warnings about their launches
/// together. A cell or a member without a launch has no row, and a launch that another one replaces does not count.
pub(super) fn of_all(manifest: &Manifest, measurements: &[Measurement]) -> (Vec<Summary>, Vec<Finding>) {
    let mut findings = Vec::new();
    let measurements = &without_replaced(manifest, measurements);
    let of_cell = |cell: &Cell| {
        let rows = rows_of(cell, measurements);
        (!rows.is_empty()).then(|| summary(manifest, cell, &cell.name, &rows, &mut findings))
    };
    let mut summaries: Vec<Summary> = manifest.cells.iter().filter_map(of_cell).collect();
    for group in &manifest.groups {
        let rows = rows_of_group(group, measurements);
        for (seat, member) in group.members.iter().enumerate() {
            let rows: Vec<&Measurement> =
                rows.iter().copied().filter(|row| row.seat == Some(seat as u32)).collect();
            let cell = manifest.cells.iter().find(|cell| cell.name == *member);
            if let Some(cell) = cell.filter(|_| !rows.is_empty()) {
                let subject = seat_name(&group.name, &group.sharing, seat as u32);
                summaries.push(summary(manifest, cell, &subject, &rows, &mut findings));
            }
        }
    }
    (summaries, findings)
}

/// The rows of all members of a group, in the order of its visits.
fn rows_of_group<'a>(group: &Group, measurements: &'a [Measurement]) -> Vec<&'a Measurement> {
    measurements.iter().filter(|row| is_of_group(group, row)).collect()
}

/// Whether a row is of a member of this group.
pub fn is_of_group(group: &Group, row: &Measurement) -> bool {
    row.group.as_ref() == Some(&group.name) && row.sharing == group.sharing
}

/// The rows of one cell, in the order of its launches.
fn rows_of<'a>(cell: &Cell, measurements: &'a [Measurement]) -> Vec<&'a Measurement> {
    measurements.iter().filter(|row| is_of(cell, row)).collect()
}

/// Whether a row is of this cell, alone.
pub fn is_of(cell: &Cell, row: &Measurement) -> bool {
    row.job == cell.job && row.sharing == cell.sharing && row.device == cells::joined(&cell.devices)
}

fn summary(
    manifest: &Manifest,
    cell: &Cell,
    subject: &str,
    rows: &[&Measurement],
    findings: &mut Vec<Finding>,
) -> Summary {
    let first = rows[0];
    let ok: Vec<&Measurement> = rows.iter().copied().filter(|row| row.status == Status::Ok).collect();
    let of = |value: fn(&Measurement) -> Option<u64>| centre(ok.iter().filter_map(|row| value(row)));
    let mean = |value: fn(&Measurement) -> Option<f64>, decimals| {
        let values: Vec<f64> = ok.iter().filter_map(|row| value(row)).collect();
        (!values.is_empty()).then(|| rounded(values.iter().sum::<f64>() / values.len() as f64, decimals))
    };
    let medians: Vec<f64> = ok.iter().filter_map(|row| row.step_ns_median).map(|ns| ns as f64).collect();
    let interval = between_launches(&medians);
    let means: Vec<f64> = ok.iter().filter_map(|row| row.step_ns_mean).map(|ns| ns as f64).collect();
    // A program that was measured from outside has one number per launch: its run time.
    let walls: Vec<f64> = match medians.is_empty() {
        true => ok.iter().filter_map(|row| row.wall_ns).map(|ns| ns as f64).collect(),
        false => Vec::new(),
    };
    let wall = between_launches(&walls);
    let percent = |interval: Interval| interval.half_width_percent().min(MOST_HALF_WIDTH_PERCENT);
    let half_width = interval.or(wall).map(|interval| rounded(percent(interval), 3));

    let mut warnings: Warnings = ok.iter().flat_map(|row| row.warnings.iter()).collect();
    // Launches of a cell are one block apart, so the block number stands for time.
    let of_block = |row: &&Measurement| {
        let ns = if medians.is_empty() { row.wall_ns } else { row.step_ns_median };
        Some((u64::from(row.repeat), ns? as f64))
    };
    let values: Vec<(u64, f64)> = ok.iter().filter_map(of_block).collect();
    for (warning, found) in between(manifest, &values, half_width) {
        warnings.add(warning);
        findings.push(Finding { subject: subject.into(), warning, found });
    }
    Summary {
        run: first.run.clone(),
        job: cell.job.clone(),
        workload: cell.workload.clone(),
        command: first.command.clone(),
        vary: first.vary.clone(),
        plan: cell.plan,
        device: first.device.clone(),
        threads: first.threads,
        sharing: first.sharing.clone(),
        group: first.group.clone(),
        seat: first.seat,
        global_batch: cell.global_batch,
        repeats: ok.len() as u32,
        repeats_failed: (rows.len() - ok.len()) as u32,
        statistics: ok.iter().find_map(|row| row.statistics),
        step_ns_median: centre_of(interval, &medians),
        step_ns_median_ci_lo: interval.map(|interval| whole(interval.lo)),
        step_ns_median_ci_hi: interval.map(|interval| whole(interval.hi)),
        half_width_percent: half_width,
        step_ns_mean: centre_of(between_launches(&means), &means),
        step_ns_p90: of(|row| row.step_ns_p90),
        step_ns_p99: of(|row| row.step_ns_p99),
        samples_per_s: mean(|row| row.samples_per_s, 3),
        wall_ns: centre_of(wall, &walls),
        wall_ns_ci_lo: wall.map(|interval| whole(interval.lo)),
        wall_ns_ci_hi: wall.map(|interval| whole(interval.hi)),
        startup_ns: of(|row| row.startup_ns),
        exit_ns: of(|row| row.exit_ns),
        parameters: of(|row| row.parameters),
        optimizer_bytes: of(|row| row.optimizer_bytes),
        flops_per_step: first.flops_per_step,
        mfu_percent: mean(|row| row.mfu_percent, 2),
        mfu_arithmetic: ok.iter().find_map(|row| row.mfu_arithmetic),
        peak_memory_bytes: ok.iter().filter_map(|row| row.peak_memory_bytes).max(),
        memory_estimate_bytes: cell.memory_estimate_bytes,
        device_memory_bytes: ok.iter().filter_map(|row| row.device_memory_bytes).max(),
        host_rss_peak_bytes: ok.iter().filter_map(|row| row.host_rss_peak_bytes).max(),
        device_util_percent_mean: mean(|row| row.device_util_percent_mean, 2),
        job_util_percent_mean: mean(|row| row.job_util_percent_mean, 2),
        warnings,
        // If some launches have numbers, `repeats_failed` counts those without.
        status: if ok.is_empty() { first.status } else { Status::Ok },
        err: if ok.is_empty() { first.err } else { None },
        err_detail: if ok.is_empty() { first.err_detail.clone() } else { None },
    }
}

/// Warnings about the launches together. `values` has the block and the step time of each, or its run time if it has no steps.
fn between(manifest: &Manifest, values: &[(u64, f64)], half_width: Option<f64>) -> Vec<(Warning, String)> {
    let mut found = Vec::new();
    if values.is_empty() {
        return found;
    }
    let (blocks, values): (Vec<u64>, Vec<f64>) = values.iter().copied().unzip();
    if let Some(drift) = drift_between_launches(&blocks, &values).filter(|d| d.deserves_warning()) {
        let text = format!(
            "times drift by {:+.1} % from the first repeat to the last (p = {:.3})",
            drift.percent_over_span, drift.p_value
        );
        found.push((Warning::Drift, text));
    }
    if let Some(spread) = spread_percent(&values).filter(|spread| *spread > EXCESSIVE_SPREAD_PERCENT) {
        found.push((Warning::Spread, format!("repeats differ by {spread:.1} % (standard deviation)")));
    }
    if values.len() < MIN_REPEATS && manifest.settings.repeats as usize >= MIN_REPEATS {
        found.push((Warning::FewRepeats, format!("{} repeats have numbers", values.len())));
    }
    if let Some(target) = manifest.settings.ci_percent
        && half_width.is_none_or(|reached| reached > target)
    {
        let reached = half_width.map_or("no interval".into(), |reached| format!("{reached:.2} %"));
        found.push((Warning::Budget, format!("asked for a half-width of {target} %, reached {reached}")));
    }
    found
}

/// The published value: the centre of the interval, or the only value.
fn centre_of(interval: Option<Interval>, values: &[f64]) -> Option<u64> {
    let centre = interval.map(|interval| interval.estimate).or_else(|| values.first().copied());
    centre.map(whole)
}

fn centre(values: impl Iterator<Item = u64>) -> Option<u64> {
    median(&values.collect::<Vec<_>>()).map(whole)
}
