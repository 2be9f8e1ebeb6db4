//! `report compare` on runs whose times, memory and requests are made for the test.

use std::{fs, path::Path};

use front_door::Door;
use record::{
    rows::{
        self, BoundVerdict, Change, ChangeQuantity, Changes, ErrorKind, Measurement, Status, Summary, Verdict,
    },
    run_dir::RunDir,
};

pub(crate) const LSTM: &str = "lstm@b20@dp1";
pub(crate) const BERT: &str = "bert-mini@b8@dp1";
pub(crate) const VAE: &str = "vae@b128@dp1";

/// The launches of a job alone.
pub(crate) struct Job {
    name: &'static str,
    /// Median step times.
    times_ns: [f64; 4],
    peaks: [u64; 4],
}

/// A job with the logarithms -d, 0, 0 and d of its launches' times about that of 10 ms times `factor`.
pub(crate) fn job(name: &'static str, factor: f64, d: f64) -> Job {
    Job { name, times_ns: [-d, 0.0, 0.0, d].map(|log| 10e6 * factor * f64::exp(log)), peaks: [40_000_000; 4] }
}

pub(crate) fn door() -> Door {
    Door::new(env!("CARGO_BIN_EXE_report"))
}

/// Writes a run that was to measure `requested`, and measured `jobs`.
pub(crate) fn write_run(door: &Door, name: &str, jobs: &[Job], requested: &[&str]) {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261121-epyc");
    let record = RunDir::open(&record).expect("a record");
    let mut manifest = record.manifest().expect("it has a manifest");
    manifest.cells.retain(|cell| requested.contains(&cell.job.as_str()));
    let run = RunDir::create(&door.path(name)).expect("the folder is writable");
    run.write_manifest(&manifest).expect("the folder is writable");
    let mut summaries: Vec<Summary> = rows::read(&record.summary_path()).expect("its rows");
    summaries.retain(|row| jobs.iter().any(|job| job.name == row.job));
    for row in &mut summaries {
        let job = jobs.iter().find(|job| job.name == row.job).expect("others were left out");
        let interval = statistics::launches::between_launches(&job.times_ns).expect("four launches");
        let whole = |ns: f64| Some(ns.round() as u64);
        row.repeats = 4;
        row.step_ns_median = whole(interval.estimate);
        (row.step_ns_median_ci_lo, row.step_ns_median_ci_hi) = (whole(interval.lo), whole(interval.hi));
    }
    rows::write(&run.summary_path(), &summaries).expect("the folder is writable");
    let launches: Vec<Measurement> = rows::read(&record.measurements_path()).expect("its launches");
    let measured = jobs.iter().flat_map(|job| {
        let launch = launches.iter().find(|launch| launch.job == job.name).expect("the record has the job");
        job.peaks.map(|peak| Measurement { peak_memory_bytes: Some(peak), ..launch.clone() })
    });
    rows::write(&run.measurements_path(), &measured.collect::<Vec<_>>()).expect("the folder is writable");
}

/// The comparison of the runs `a` and `b` with these options, after a check of the exit code.
pub(crate) fn compared(door: &Door, code: i32, options: &str) -> Changes {
    let printed = door.exits(code, &format!("compare a b --json {options}"));
    rows::from_json(&printed.out).expect("stdout is JSON and nothing else")
}

pub(crate) fn row<'a>(changes: &'a Changes, job: &str, quantity: ChangeQuantity) -> &'a Change {
    let mut rows = changes.rows.iter().filter(|row| row.job == job && row.quantity == quantity);
    rows.next().unwrap_or_else(|| panic!("{job} has a {quantity}: {changes:?}"))
}

fn verdicts(row: &Change) -> (Verdict, Option<BoundVerdict>) {
    (row.verdict, row.bound_verdict)
}

/// The 97.5 % quantile of Student's t with the six degrees of freedom of two times four launches that vary alike.
const T_OF_SIX: f64 = 2.446_911_851;

/// Half of the 95 % interval of the logarithm of the ratio of two [`job`]s: the variance of each mean is d * d / 6.
fn half_width(d: f64) -> f64 {
    T_OF_SIX * d / 3_f64.sqrt()
}

/// 1.386 (0.746 to 2.576) was once "no difference".
#[test]
fn a_wide_interval_is_no_verdict_and_has_a_code_of_its_own() {
    let door = door();
    let d = 0.62 * 3_f64.sqrt() / T_OF_SIX;
    write_run(&door, "a", &[job(LSTM, 1.0, d)], &[LSTM]);
    write_run(&door, "b", &[job(LSTM, 1.386, d)], &[LSTM]);
    let changes = compared(&door, 7, "--fail-above 5%");
    let time = row(&changes, LSTM, ChangeQuantity::Alone);
    assert_eq!(verdicts(time), (Verdict::CannotTell, Some(BoundVerdict::CannotTell)));
    let ends = [time.ratio, time.ratio_ci_lo, time.ratio_ci_hi].map(|end| end.expect("two numbers"));
    let expected = [0.0, -half_width(d), half_width(d)].map(|log| 1.386 * f64::exp(log));
    for (end, expected) in ends.into_iter().zip(expected) {
        assert!((end / expected - 1.0).abs() < 1e-6, "{ends:?}");
    }
    assert_eq!(ends.map(|end| format!("{end:.3}")), ["1.386", "0.746", "2.576"]);
    let printed = door.exits(7, "compare a b --fail-above 5%");
    assert!(
        printed.err.contains("cannot tell whether they are worse by more than 5 %: 1"),
        "{}",
        printed.err
    );
    assert!(printed.out.contains("within 5 %: 1; worse: 0; cannot tell: 1"), "{}", printed.out);
    let needs = format!("  {LSTM} on cpu:0: {}\n", time.launches_needed.expect("below a thousand"));
    assert!(printed.out.contains(&needs), "{needs} in {}", printed.out);
    let printed = door.exits(0, "compare a b");
    assert!(printed.out.contains("cannot tell") && !printed.out.contains("no difference"), "{}", printed.out);
}

#[test]
fn a_narrow_interval_is_within_the_bound_or_above_it() {
    let d = 0.01;
    for (factor, code, expected) in [
        (1.0, 0, (Verdict::CannotTell, BoundVerdict::Within)),
        (1.03, 0, (Verdict::Slower, BoundVerdict::Within)),
        (0.7, 0, (Verdict::Faster, BoundVerdict::Within)),
        (1.045, 7, (Verdict::Slower, BoundVerdict::CannotTell)),
        (1.055, 7, (Verdict::Slower, BoundVerdict::CannotTell)),
        (1.08, 1, (Verdict::Slower, BoundVerdict::Worse)),
    ] {
        let door = door();
        write_run(&door, "a", &[job(LSTM, 1.0, d)], &[LSTM]);
        write_run(&door, "b", &[job(LSTM, factor, d)], &[LSTM]);
        let changes = compared(&door, code, "--fail-above 5%");
        let time = row(&changes, LSTM, ChangeQuantity::Alone);
        assert_eq!(verdicts(time), (expected.0, Some(expected.1)), "{factor}");
        let log = factor.ln();
        let [lo, hi] = [(log - half_width(d)).exp(), (log + half_width(d)).exp()];
        assert_eq!(expected.1 == BoundVerdict::Within, hi < 1.05, "{factor}: {lo} to {hi}");
        assert_eq!(expected.1 == BoundVerdict::Worse, lo > 1.05, "{factor}: {lo} to {hi}");
    }
}

/// The times of three jobs are 1.065 (1.050 to 1.080), which is above 5 % alone, and not beside two other tests.
#[test]
fn worse_is_corrected_for_the_number_of_rows() {
    let d = 0.01;
    let changed = |name| job(name, 1.051 * half_width(d).exp(), d);
    for (names, code) in [(&[LSTM][..], 1), (&[LSTM, BERT, VAE][..], 7)] {
        let door = door();
        let before: Vec<Job> = names.iter().map(|name| job(name, 1.0, d)).collect();
        let after: Vec<Job> =
            names.iter().map(|name| if *name == LSTM { changed(name) } else { job(name, 1.0, d) }).collect();
        write_run(&door, "a", &before, names);
        write_run(&door, "b", &after, names);
        let changes = compared(&door, code, "--fail-above 5%");
        let p_worse = row(&changes, LSTM, ChangeQuantity::Alone).p_worse_holm.expect("it was tested");
        assert_eq!(p_worse < 0.025, code == 1, "{p_worse}");
        if let [_, others @ ..] = names {
            let within = |name: &&str| row(&changes, name, ChangeQuantity::Alone).bound_verdict;
            assert!(others.iter().all(|name| within(name) == Some(BoundVerdict::Within)), "{changes:?}");
        }
    }
}

/// The expected values come from a numerical integration over both measured variances with another program. With four launches a side,
/// the test finds a difference of 3.5548 standard errors with a probability of 80 %. It finds 5 % with a probability of 67 % with three
/// launches a side, and of 91 % with four.
#[test]
fn a_row_says_what_it_detects_and_how_many_launches_it_needs() {
    let door = door();
    let d = 0.02;
    write_run(&door, "a", &[job(LSTM, 1.0, d)], &[LSTM]);
    write_run(&door, "b", &[job(LSTM, 1.0, d)], &[LSTM]);
    for options in ["", "--fail-above 5%"] {
        let changes = compared(&door, 0, options);
        let time = row(&changes, LSTM, ChangeQuantity::Alone);
        let detectable = time.detectable_ratio.expect("both runs vary");
        assert!((detectable.ln() / (d / 3_f64.sqrt()) - 3.554_8).abs() < 0.02, "{detectable}");
        assert_eq!(time.launches_needed, Some(4), "{options}");
    }
    let printed = door.exits(7, "compare a b --fail-above 0");
    assert!(printed.out.contains("No number of launches shows"), "{}", printed.out);
}

#[test]
fn cells_that_vanished_are_never_within_and_new_ones_count_for_nothing() {
    let d = 0.001;
    let all = [job(LSTM, 1.0, d), job(BERT, 1.0, d), job(VAE, 1.0, d)];
    let requested = [LSTM, BERT, VAE];
    for (requested_of_b, code, expected) in [
        (&requested[..], 1, (Verdict::Missing, Some(BoundVerdict::Worse))),
        (&requested[..1], 7, (Verdict::NotRequested, Some(BoundVerdict::CannotTell))),
    ] {
        let door = door();
        write_run(&door, "a", &all, &requested);
        write_run(&door, "b", &all[..1], requested_of_b);
        let changes = compared(&door, code, "--fail-above 5%");
        assert_eq!(row(&changes, LSTM, ChangeQuantity::Alone).bound_verdict, Some(BoundVerdict::Within));
        for vanished in [BERT, VAE] {
            let time = row(&changes, vanished, ChangeQuantity::Alone);
            assert_eq!((verdicts(time), time.b), (expected, None), "{vanished}");
            assert!(changes.only_in_a.contains(&format!("{vanished} on cpu:0")), "{changes:?}");
        }
        let printed = door.exits(0, "compare a b");
        assert!(printed.out.contains(&format!("{}: 2", expected.0).replace('-', " ")), "{}", printed.out);
        let printed = door.exits(0, "compare b a --fail-above 5%");
        assert!(printed.err.contains("new in B, which counts for nothing: "), "{}", printed.err);
        assert!(printed.err.contains(VAE) && !printed.out.contains(VAE), "{}", printed.out);
    }
}

#[test]
fn runs_without_a_common_cell_have_nothing_to_compare() {
    let door = door();
    write_run(&door, "a", &[job(LSTM, 1.0, 0.01)], &[LSTM]);
    write_run(&door, "b", &[job(VAE, 1.0, 0.01)], &[VAE]);
    let refused = door.exits(4, "compare a b --fail-above 5%");
    assert!(refused.err.contains("nothing to compare"), "{}", refused.err);
}

#[test]
fn memory_that_does_not_vary_needs_no_interval() {
    use ChangeQuantity::PeakMemory;
    for (peak, code, expected) in [
        (40_000_000, 0, (Verdict::Equal, BoundVerdict::Within)),
        (40_000_001, 0, (Verdict::More, BoundVerdict::Within)),
        (42_000_000, 0, (Verdict::More, BoundVerdict::Within)),
        (42_000_001, 1, (Verdict::More, BoundVerdict::Worse)),
        (20_000_000, 0, (Verdict::Less, BoundVerdict::Within)),
    ] {
        let door = door();
        write_run(&door, "a", &[job(LSTM, 1.0, 0.001)], &[LSTM]);
        write_run(&door, "b", &[Job { peaks: [peak; 4], ..job(LSTM, 1.0, 0.001) }], &[LSTM]);
        let changes = compared(&door, code, "--fail-above 5%");
        let memory = row(&changes, LSTM, PeakMemory);
        assert_eq!(verdicts(memory), (expected.0, Some(expected.1)), "{peak}");
        assert_eq!((memory.a, memory.b), (40e6, Some(f64::from(peak as u32))));
        assert_eq!(memory.ratio, Some(f64::from(peak as u32) / 40e6));
        assert_eq!((memory.ratio_ci_lo, memory.p, memory.launches_needed), (None, None, None));
    }
}

/// Launches with the logarithms -d, 0, 0 and d have the interval of times that vary as much.
#[test]
fn memory_that_varies_has_an_interval() {
    let door = door();
    let d = 0.05;
    let peaks = |factor: f64| [-d, 0.0, 0.0, d].map(|log: f64| (4e9 * factor * log.exp()).round() as u64);
    write_run(&door, "a", &[Job { peaks: peaks(1.0), ..job(LSTM, 1.0, 0.001) }], &[LSTM]);
    write_run(&door, "b", &[Job { peaks: peaks(1.1), ..job(LSTM, 1.0, 0.001) }], &[LSTM]);
    let changes = compared(&door, 7, "--fail-above 5%");
    let memory = row(&changes, LSTM, ChangeQuantity::PeakMemory);
    assert_eq!(memory.bound_verdict, Some(BoundVerdict::CannotTell));
    let (lo, hi) = memory.ratio_ci_lo.zip(memory.ratio_ci_hi).expect("both runs vary");
    assert!((lo.ln() - 1.1_f64.ln() + half_width(d)).abs() < 1e-6, "{lo} to {hi}");
    assert!((hi.ln() - 1.1_f64.ln() - half_width(d)).abs() < 1e-6, "{lo} to {hi}");
}

/// Programs report no tensors, and their processes have memory.
#[test]
fn memory_of_the_host_stands_in_where_tensors_are_unknown() {
    let door = door();
    write_run(&door, "a", &[job(LSTM, 1.0, 0.001)], &[LSTM]);
    write_run(&door, "b", &[Job { peaks: [0; 4], ..job(LSTM, 1.0, 0.001) }], &[LSTM]);
    let changes = compared(&door, 7, "--fail-above 5%");
    let tensors = row(&changes, LSTM, ChangeQuantity::PeakMemory);
    assert_eq!(
        verdicts(tensors),
        (Verdict::Missing, Some(BoundVerdict::CannotTell)),
        "only A reports tensors"
    );
    write_run(&door, "c", &[Job { peaks: [0; 4], ..job(LSTM, 1.0, 0.001) }], &[LSTM]);
    let printed = door.exits(0, "compare b c --json --fail-above 5%");
    let changes: Changes = rows::from_json(&printed.out).expect("stdout is JSON");
    let memory = row(&changes, LSTM, ChangeQuantity::HostMemory);
    let launches: Vec<Measurement> = rows::read(&door.run("c").measurements_path()).expect("its launches");
    assert_eq!(Some(memory.a as u64), launches[0].host_rss_peak_bytes, "all launches have the same");
    assert_eq!(verdicts(memory), (Verdict::Equal, Some(BoundVerdict::Within)));
}

#[test]
fn a_failure_in_b_is_worse() {
    let door = door();
    write_run(&door, "a", &[job(LSTM, 1.0, 0.001)], &[LSTM]);
    write_run(&door, "b", &[job(LSTM, 1.0, 0.001)], &[LSTM]);
    let mut failed = door.summaries("b");
    (failed[0].status, failed[0].err) = (Status::Failed, Some(ErrorKind::Crashed));
    rows::write(&door.run("b").summary_path(), &failed).expect("the folder is writable");
    let changes = compared(&door, 1, "--fail-above 900%");
    let [only] = &changes.rows[..] else {
        panic!("the memory of a failed job is no second finding: {changes:?}")
    };
    assert_eq!(verdicts(only), (Verdict::Failed, Some(BoundVerdict::Worse)));
    assert!(door.exits(0, "compare a b").out.contains("failed: "));
}

#[test]
fn a_launch_that_failed_in_b_alone_is_worse() {
    let door = door();
    for (failures_in_a, exit, verdict) in [(0, 1, Verdict::Failed), (1, 0, Verdict::CannotTell)] {
        for (run, failures) in [("a", failures_in_a), ("b", 1)] {
            let _ = fs::remove_dir_all(door.path(run));
            write_run(&door, run, &[job(LSTM, 1.0, 0.001)], &[LSTM]);
            let mut summaries = door.summaries(run);
            summaries[0].repeats_failed = failures;
            rows::write(&door.run(run).summary_path(), &summaries).expect("the folder is writable");
        }
        let changes = compared(&door, exit, "--fail-above 900%");
        let change = row(&changes, LSTM, ChangeQuantity::Alone);
        assert_eq!(change.verdict, verdict, "{change:?}");
        let why = "1 of 5 launches failed";
        assert_eq!(change.err_detail.as_deref(), (verdict == Verdict::Failed).then_some(why));
        assert_eq!(door.exits(0, "compare a b").out.contains(why), verdict == Verdict::Failed);
    }
}

#[test]
fn a_terminal_of_a_hundred_columns_shows_the_table() {
    let door = door();
    let record = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name);
    for options in ["", "--fail-above 5%"] {
        let runs = ["20261122-epyc/colocate/all-pairs-1", "20261123-epyc/colocate/all-pairs-1"].map(record);
        let [a, b] = runs.map(|run| run.display().to_string());
        let mut command = door.command(&format!("compare {a} {b} {options}"));
        let output = command.env("COLUMNS", "100").output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("stdout is text");
        let table: Vec<&str> = text.lines().take_while(|line| !line.starts_with("A: ")).collect();
        assert!(table.len() > 50 && table.iter().all(|line| line.chars().count() <= 100), "{text}");
    }
}
