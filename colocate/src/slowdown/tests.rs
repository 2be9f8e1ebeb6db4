use proptest::prelude::*;
use record::group::Turn;
use schema::units::{Nanos, Window};

use super::*;
use crate::window::{LaunchActivity, SteadyPart, Step, common};

/// A row with steps of this length, in a window of a second and more.
fn measured(job: &str, repeat: u32, step_ns: f64) -> Measurement {
    Measurement {
        run: "r".into(),
        job: job.into(),
        workload: job.into(),
        device: "cpu:0".into(),
        repeat,
        steps_used: 1_000,
        window_ns: Some((step_ns * 1e3).round() as u64),
        step_ns_p99: Some((step_ns * 2.0).round() as u64),
        timing: Some(Timing::Host),
        host_rss_peak_bytes: Some(100),
        ..Measurement::default()
    }
}

fn seated(row: Measurement, group: &Group, seat: u32) -> Measurement {
    Measurement { group: Some(group.name.clone()), sharing: group.sharing.clone(), seat: Some(seat), ..row }
}

fn failed(row: Measurement, err: ErrorKind) -> Measurement {
    let (steps_used, window_ns, step_ns_p99) = (0, None, None);
    let err_detail = Some(format!("{err}!"));
    Measurement {
        steps_used,
        window_ns,
        step_ns_p99,
        status: Status::Failed,
        err: Some(err),
        err_detail,
        ..row
    }
}

fn group(members: &[&str]) -> Group {
    let names: Vec<String> = members.iter().map(|name| name.to_string()).collect();
    Group {
        name: names.join("+"),
        sharing: "time-slice".parse().expect("a mode"),
        members: names,
        unsupported: None,
    }
}

/// Blocks of two jobs alone, their group, and the jobs again in reverse, on a machine that gets slower by `drift` from one
/// visit to the next.
fn blocks(alone_ns: [f64; 2], slowdowns: [f64; 2], drift: f64, count: u32) -> (Group, Vec<Measurement>) {
    let pair = group(&["a", "b"]);
    let [a, b] = alone_ns;
    let mut rows = Vec::new();
    let mut position = 0;
    let mut at = |ns: f64| {
        position += 1;
        ns * drift.powi(position)
    };
    for block in 0..count {
        rows.push(measured("a", block, at(a)));
        rows.push(measured("b", block, at(b)));
        let both = at(1.0);
        rows.push(seated(measured("a", block, a * slowdowns[0] * both), &pair, 0));
        rows.push(seated(measured("b", block, b * slowdowns[1] * both), &pair, 1));
        rows.push(measured("b", block, at(b)));
        rows.push(measured("a", block, at(a)));
    }
    (pair, rows)
}

fn table(group: &Group, rows: &[Measurement]) -> Vec<Interference> {
    interference(std::slice::from_ref(group), rows)
}

/// To the digits that rows keep.
fn is_close(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() < 2e-6 * expected.max(1.0))
}

#[test]
fn a_drift_cancels_within_the_block() {
    for drift in [1.0, 1.01, 0.97] {
        let (pair, rows) = blocks([1e7, 3e7], [2.0, 1.25], drift, 3);
        let found = table(&pair, &rows);
        for (row, slowdown) in found.iter().zip([2.0, 1.25]) {
            assert!(is_close(row.slowdown, slowdown), "{drift}: {row:?}");
            assert!(is_close(row.slowdown_p99, slowdown), "{drift}: {row:?}");
            assert!(
                is_close(row.slowdown_ci_lo, slowdown) && is_close(row.slowdown_ci_hi, slowdown),
                "{row:?}"
            );
            assert!(is_close(row.group_norm_throughput, 1.0 / 2.0 + 1.0 / 1.25), "{row:?}");
            assert_eq!((row.blocks, row.blocks_failed, row.group_size, row.valid), (3, 0, 2, true));
            assert_eq!((row.group_memory_bytes, row.alone_memory_sum_bytes), (Some(200), Some(200)));
        }
        // The geometric means over three blocks of five visits each are those in the middle of the run.
        let middle = 1e7 * drift.powi(8);
        assert!(is_close(found[0].step_ns_alone.map(|ns| ns as f64), middle), "{:?}", found[0]);
        assert!(is_close(found[0].step_ns_together.map(|ns| ns as f64), 2.0 * middle), "{:?}", found[0]);
    }
}

/// Logarithms 0, 0.01 and 0.02 over three blocks: mean 0.01, standard error 0.01 / sqrt(3), t of two degrees 4.302652730.
#[test]
fn the_interval_is_the_t_interval_over_blocks() {
    let (pair, mut rows) = blocks([1e7, 1e7], [1.0, 1.0], 1.0, 3);
    for row in rows.iter_mut().filter(|row| row.seat == Some(0)) {
        row.window_ns = Some((1e10 * (f64::from(row.repeat) * 0.01).exp()).round() as u64);
    }
    let row = &table(&pair, &rows)[0];
    let half = 4.302_652_730 * 0.01 / 3.0_f64.sqrt();
    assert!(is_close(row.slowdown, 0.01_f64.exp()), "{row:?}");
    assert!(is_close(row.slowdown_ci_lo, (0.01 - half).exp()), "{row:?}");
    assert!(is_close(row.slowdown_ci_hi, (0.01 + half).exp()), "{row:?}");
}

/// Blocks of 1 and 100: mean ln 10, standard error ln 10, t of one degree 12.7, so that the interval would end at 5e13.
#[test]
fn the_interval_of_blocks_a_hundredfold_apart_ends_at_a_million() {
    let (pair, mut rows) = blocks([1e7, 1e7], [1.0, 1.0], 1.0, 2);
    for row in rows.iter_mut().filter(|row| row.seat == Some(0) && row.repeat == 1) {
        row.window_ns = row.window_ns.map(|ns| 100 * ns);
    }
    let row = &table(&pair, &rows)[0];
    assert!(is_close(row.slowdown, 10.0), "{row:?}");
    assert_eq!((row.slowdown_ci_lo, row.slowdown_ci_hi), (Some(0.0), Some(1e6)));
}

#[test]
fn one_block_has_a_ratio_and_no_interval() {
    let (pair, rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 1);
    let row = &table(&pair, &rows)[0];
    assert_eq!((row.blocks, row.slowdown, row.slowdown_ci_lo), (1, Some(2.0), None));
}

#[test]
fn a_block_that_is_not_complete_does_not_count() {
    let (pair, rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 2);
    assert_eq!(table(&pair, &rows[..rows.len() - 1])[1].blocks, 2);
    assert_eq!(table(&pair, &rows[..rows.len() - 1])[0].blocks, 1, "the last launch of a is missing");
    assert!(table(&pair, &rows[..4]).is_empty(), "nothing to compare with yet");
    assert!(table(&pair, &rows[..2]).is_empty());
}

#[test]
fn faster_together_is_labelled_beyond_the_interval_alone_and_never_clipped() {
    let (pair, mut rows) = blocks([1e7, 1e7], [0.9, 1.0], 1.0, 3);
    let faster = |rows: &[Measurement]| {
        table(&pair, rows)[0].warnings.iter().any(|warning| warning == Warning::FasterTogether)
    };
    let found = table(&pair, &rows);
    assert!(
        is_close(found[0].slowdown, 0.9) && is_close(found[0].norm_throughput, 1.0 / 0.9),
        "{:?}",
        found[0]
    );
    assert!(faster(&rows) && !found[0].valid && found[1].warnings.is_empty());
    for row in rows.iter_mut().filter(|row| row.seat == Some(0) && row.repeat == 0) {
        row.window_ns = Some(11_000_000_000);
    }
    assert!(!faster(&rows), "the interval reaches over 1");
}

#[test]
fn a_member_that_failed_leaves_no_number_of_the_others() {
    let (pair, mut rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 3);
    let die = |rows: &mut [Measurement], block: u32| {
        for row in rows.iter_mut().filter(|row| row.repeat == block && row.group.is_some()) {
            let err = if row.seat == Some(0) { ErrorKind::Killed } else { ErrorKind::Contaminated };
            *row = failed(row.clone(), err);
        }
    };
    die(&mut rows, 1);
    let found = table(&pair, &rows);
    for row in &found {
        assert_eq!(
            (row.blocks, row.blocks_failed, row.slowdown, row.status, row.valid),
            (2, 1, Some(2.0), Status::Ok, false),
            "{row:?}"
        );
        assert!(row.warnings.iter().eq([Warning::BlocksFailed]), "{row:?}");
    }
    die(&mut rows, 0);
    die(&mut rows, 2);
    let found = table(&pair, &rows);
    let kinds: Vec<_> = found.iter().map(|row| (row.status, row.err, row.slowdown)).collect();
    let of = |err| (Status::Failed, Some(err), None);
    assert_eq!(kinds, [of(ErrorKind::Killed), of(ErrorKind::Contaminated)]);
    assert_eq!(found[1].err_detail.as_deref(), Some("contaminated!"));
    assert_eq!((found[0].group_norm_throughput, found[0].blocks_failed), (None, 3));
}

#[test]
fn a_failure_alone_costs_its_block_and_that_is_said() {
    let (pair, mut rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 3);
    let (before, after) = (0, rows.len() - 1);
    for place in [before, after] {
        rows[place] = failed(rows[place].clone(), ErrorKind::Crashed);
    }
    let found = table(&pair, &rows);
    let counts: Vec<_> = found.iter().map(|row| (row.blocks, row.blocks_failed, row.slowdown)).collect();
    assert_eq!(counts, [(1, 2, Some(2.0)), (3, 0, Some(2.0))]);
    assert!(
        found.iter().all(|row| !row.valid),
        "the other one's numbers are of more blocks than the group's"
    );
    assert!(found[0].warnings.iter().eq([Warning::BlocksFailed]) && found[1].warnings.is_empty());
    let throughput = (found[0].group_norm_throughput, found[0].group_norm_throughput_ci_lo);
    assert_eq!(throughput, (Some(1.0), None), "of the one block in which both have numbers");
}

#[test]
fn a_launch_that_is_not_steady_stays_in_the_ratio_and_is_labelled() {
    let (pair, rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 3);
    for place in [0, 2] {
        let mut rows = rows.clone();
        rows[place].steady = Some(false);
        let found = table(&pair, &rows);
        let labelled = [Warning::NotSteady];
        assert!(found[0].warnings.iter().eq(labelled) && found[1].warnings.is_empty(), "{found:?}");
        assert!(found.iter().all(|row| row.blocks == 3 && !row.valid), "{found:?}");
    }
}

#[test]
fn what_another_part_of_the_run_measured_is_no_baseline() {
    let (pair, mut rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 2);
    // Torn off after its group, and gone on with on a machine that is half as fast: the second block's own launches alone.
    let torn = rows.split_off(rows.len() - 2);
    let slower = |row: Measurement| Measurement { window_ns: row.window_ns.map(|ns| 2 * ns), part: 1, ..row };
    let again: Vec<Measurement> = torn.into_iter().map(slower).collect();
    rows.extend(again.clone());
    for row in table(&pair, &rows) {
        assert_eq!((row.blocks, row.blocks_failed, row.slowdown), (1, 0, Some(2.0)), "{row:?}");
    }
    // With the group and the launches before it measured again, the block is that of the later part alone.
    let group: Vec<Measurement> =
        rows.iter().filter(|row| row.repeat == 1 && row.group.is_some()).cloned().collect();
    rows.extend(again.into_iter().chain(group.into_iter().map(slower)));
    for row in table(&pair, &rows) {
        assert_eq!((row.blocks, row.slowdown), (2, Some(2.0)), "{row:?}");
        assert!(is_close(row.step_ns_alone.map(|ns| ns as f64), 2f64.sqrt() * 1e7), "{row:?}");
    }
}

/// A visit in which members without loss have one turn each, of steps of 10 ms.
fn in_turns(group: &Group, block: u32, steps: [u64; 2]) -> Vec<Measurement> {
    const STEP: u64 = 10_000_000;
    let first = Turn { seat: 0, start_mono_ns: Nanos(0), end_mono_ns: Nanos(steps[0] * STEP) };
    let end = Nanos((steps[0] + steps[1]) * STEP);
    let turns = [first, Turn { seat: 1, start_mono_ns: first.end_mono_ns, end_mono_ns: end }];
    let lanes = turns.map(|turn| {
        let step = |i| Step { end: turn.start_mono_ns + Nanos((i + 1) * STEP), dur_ns: STEP };
        vec![LaunchActivity::Steps((0..steps[turn.seat as usize]).map(step).collect())]
    });
    let parts = common(&lanes, Window { start: Nanos(0), end }, &turns).expect("each has steps");
    let row = |(seat, part): (usize, &SteadyPart)| {
        let measured = measured(["a", "b"][seat], block, 1.0);
        let (steps_used, window_ns) = (part.steps.len() as u64, Some(part.window_ns));
        seated(Measurement { steps_used, window_ns, ..measured }, group, seat as u32)
    };
    parts.iter().enumerate().map(row).collect()
}

#[test]
fn one_after_the_other_without_loss_is_1_however_long_the_turns() {
    let sequential = Group { sharing: Sharing::Sequential, ..group(&["a", "b"]) };
    let mut rows = Vec::new();
    for (block, steps) in [[30, 70], [200, 100], [55, 45]].into_iter().enumerate() {
        for job in ["a", "b"] {
            rows.extend([(); 2].map(|()| measured(job, block as u32, 1e7)));
        }
        rows.extend(in_turns(&sequential, block as u32, steps));
    }
    for row in table(&sequential, &rows) {
        let throughput =
            [row.group_norm_throughput_ci_lo, row.group_norm_throughput, row.group_norm_throughput_ci_hi];
        assert_eq!(throughput, [Some(1.0); 3], "{row:?}");
        // How long its turns were is no property of a member.
        assert_eq!((row.slowdown, row.slowdown_ci_lo, row.norm_throughput), (None, None, None), "{row:?}");
        assert_eq!((row.step_ns_together, row.slowdown_p99), (None, None), "{row:?}");
        assert_eq!(
            (row.step_ns_alone, row.blocks, row.status, row.valid),
            (Some(10_000_000), 3, Status::Ok, true)
        );
        assert!(row.warnings.is_empty(), "{row:?}");
    }
}

/// Sums of 1 + 1, 1/2 + 1/2 and 1/4 + 1/4: logarithms ln 2, 0 and -ln 2, whose standard error is ln 2 / sqrt(3).
#[test]
fn the_throughput_of_the_group_has_the_t_interval_over_blocks() {
    let (pair, mut rows) = blocks([1e7, 1e7], [1.0, 1.0], 1.0, 3);
    for row in rows.iter_mut().filter(|row| row.group.is_some()) {
        row.window_ns = row.window_ns.map(|ns| ns << row.repeat);
    }
    let half = 4.302_652_730 * 2f64.ln() / 3f64.sqrt();
    let row = &table(&pair, &rows)[0];
    assert!(is_close(row.group_norm_throughput, 1.0), "{row:?}");
    assert!(is_close(row.group_norm_throughput_ci_lo, (-half).exp()), "{row:?}");
    assert!(is_close(row.group_norm_throughput_ci_hi, half.exp()), "{row:?}");
}

#[test]
fn a_tail_is_compared_where_every_block_has_both_sides_and_not_under_turns() {
    let (pair, rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 3);
    assert_eq!(table(&pair, &rows)[0].slowdown_p99, Some(2.0));
    for place in [0, 2] {
        let mut rows = rows.clone();
        rows[place].step_ns_p99 = None;
        assert_eq!(table(&pair, &rows)[0].slowdown_p99, None);
        assert_eq!(table(&pair, &rows)[1].slowdown_p99, Some(2.0));
    }
    let gated = Group { sharing: "step-gate:250ms".parse().expect("a mode"), ..pair };
    let seats = rows.into_iter().map(|row| match row.seat {
        Some(seat) => seated(row, &gated, seat),
        None => row,
    });
    let row = &table(&gated, &seats.collect::<Vec<_>>())[0];
    assert_eq!((row.slowdown, row.slowdown_p99, row.slowdown_p99_ci_lo), (Some(2.0), None, None));
}

#[test]
fn a_job_that_fails_alone_says_so() {
    let (pair, mut rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 1);
    for row in rows.iter_mut().filter(|row| row.job == "b" && row.group.is_none()) {
        *row = failed(row.clone(), ErrorKind::Crashed);
    }
    let found = table(&pair, &rows);
    assert_eq!((found[0].slowdown, found[1].slowdown), (Some(2.0), None));
    assert_eq!(
        (found[1].err, found[1].err_detail.as_deref()),
        (Some(ErrorKind::Crashed), Some("alone: crashed!"))
    );
}

#[test]
fn a_program_without_steps_is_compared_by_how_long_it_runs() {
    let (pair, mut rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 2);
    for row in rows.iter_mut().filter(|row| row.job == "a") {
        (row.timing, row.step_ns_p99, row.steps_used) = (Some(Timing::Outside), None, 0);
        row.wall_ns = Some(if row.group.is_some() { 9_000 } else { 6_000 });
    }
    let found = table(&pair, &rows);
    assert_eq!(
        (found[0].slowdown, found[0].step_ns_alone, found[0].slowdown_p99),
        (Some(1.5), Some(6_000), None)
    );
    // With a hook that spoke only in the group, the two are not the same kind of time.
    for row in rows.iter_mut().filter(|row| row.seat == Some(0)) {
        (row.timing, row.steps_used) = (Some(Timing::Hook), 1_000);
    }
    assert_eq!(
        (table(&pair, &rows)[0].slowdown, table(&pair, &rows)[0].err),
        (None, Some(ErrorKind::NoHello))
    );
}

#[test]
fn sharing_modes_of_one_group_are_groups_of_their_own() {
    let (pair, rows) = blocks([1e7, 1e7], [2.0, 2.0], 1.0, 2);
    let other = Group { sharing: "sequential".parse().expect("a mode"), ..pair.clone() };
    assert!(table(&other, &rows).is_empty());
    assert_eq!(interference(&[other, pair.clone()], &rows), table(&pair, &rows));
}

proptest! {
    #[test]
    fn the_order_of_seats_and_of_rows_does_not_matter(
        alone in prop::array::uniform2(1e3..1e9f64),
        slowdowns in prop::array::uniform2(0.5..9.0f64),
        seed in any::<u64>(),
    ) {
        let (pair, rows) = blocks(alone, slowdowns, 1.001, 3);
        let mut turned = rows.clone();
        for row in turned.iter_mut().filter(|row| row.group.is_some()) {
            (row.group, row.seat) = (Some("b+a".into()), row.seat.map(|seat| 1 - seat));
        }
        fastrand::Rng::with_seed(seed).shuffle(&mut turned);
        let found = table(&pair, &rows);
        let mut other = table(&group(&["b", "a"]), &turned);
        other.reverse();
        for (row, other) in found.iter().zip(&other) {
            prop_assert!(is_close(row.slowdown, other.slowdown.unwrap_or(0.0)));
            prop_assert!(is_close(row.group_norm_throughput, other.group_norm_throughput.unwrap_or(0.0)));
            prop_assert_eq!((&row.job, row.valid, row.blocks), (&other.job, other.valid, other.blocks));
        }
    }

    #[test]
    fn throughput_is_one_over_the_slowdown(alone in prop::array::uniform2(1e5..1e9f64), slowdown in 0.5..9.0f64) {
        let (pair, rows) = blocks(alone, [slowdown; 2], 1.0, 2);
        for row in table(&pair, &rows) {
            prop_assert!(is_close(row.norm_throughput, 1.0 / slowdown) && is_close(row.slowdown, slowdown));
            prop_assert!(is_close(row.group_norm_throughput, 2.0 / slowdown));
        }
    }

    #[test]
    fn twins_are_alike(step_ns in 1e3..1e9f64, slowdown in 0.5..9.0f64, blocks in 1u32..5) {
        let pair = group(&["a", "a"]);
        let mut rows = Vec::new();
        for block in 0..blocks {
            rows.extend([measured("a", block, step_ns), measured("a", block, step_ns)]);
            let together = measured("a", block, step_ns * slowdown);
            rows.extend([0, 1].map(|seat| seated(together.clone(), &pair, seat)));
        }
        let found = table(&pair, &rows);
        prop_assert_eq!(found.len(), 2);
        prop_assert_eq!(&Interference { seat: 1, ..found[0].clone() }, &found[1]);
    }
}
