//! `report compare --jobs`: two jobs of one run, on a machine that drifts.

use std::path::Path;

use front_door::Door;
use record::{
    rows::{self, BoundVerdict, ChangeQuantity, Changes, ErrorKind, Measurement, Status, Summary, Verdict},
    run_dir::RunDir,
};

/// The steps of the old program in each block, in ms: the machine becomes twice as slow.
const OLD_MS: [f64; 4] = [10.0, 13.0, 16.0, 20.0];

/// A run of the jobs `old` and `new`, whose ratios in the four blocks are these. A job without a time has failed.
fn with_run(ratios: Option<[f64; 4]>) -> Door {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261121-epyc");
    let record = RunDir::open(&record).expect("a record");
    let run = RunDir::create(&door.path("r")).expect("the folder is writable");
    run.write_manifest(&record.manifest().expect("it has a manifest")).expect("the folder is writable");
    let summary: Summary = rows::read(&record.summary_path()).expect("its rows").swap_remove(0);
    let launch: Measurement = rows::read(&record.measurements_path()).expect("its launches").swap_remove(0);
    let (mut summaries, mut launches) = (Vec::new(), Vec::new());
    for (job, ratios) in [("old", Some([1.0; 4])), ("new", ratios)] {
        let times = ratios.map(|ratios| [0, 1, 2, 3].map(|block| OLD_MS[block] * ratios[block] * 1e6));
        let interval = times.and_then(|times| statistics::launches::between_launches(&times));
        let ns = |value: fn(&statistics::Interval) -> f64| {
            interval.as_ref().map(|interval| value(interval).round() as u64)
        };
        let (status, err) = match times {
            Some(_) => (Status::Ok, None),
            None => (Status::Failed, Some(ErrorKind::Crashed)),
        };
        summaries.push(Summary {
            job: job.into(),
            step_ns_median: ns(|interval| interval.estimate),
            step_ns_median_ci_lo: ns(|interval| interval.lo),
            step_ns_median_ci_hi: ns(|interval| interval.hi),
            repeats: 4,
            status,
            err,
            ..summary.clone()
        });
        for (time, block) in times.into_iter().flatten().zip(0..) {
            launches.push(Measurement {
                job: job.into(),
                repeat: block,
                step_ns_median: Some(time.round() as u64),
                step_ns_median_ci_lo: None,
                step_ns_median_ci_hi: None,
                peak_memory_bytes: Some(40_000_000),
                ..launch.clone()
            });
        }
    }
    rows::write(&run.summary_path(), &summaries).expect("the folder is writable");
    rows::write(&run.measurements_path(), &launches).expect("the folder is writable");
    door
}

fn compared(door: &Door, code: i32) -> Changes {
    let printed = door.exits(code, "compare r --jobs old,new --fail-above 5% --json");
    rows::from_json(&printed.out).expect("stdout is JSON and nothing else")
}

/// The 97.5 % quantile of Student's t with three degrees of freedom.
const T_OF_THREE: f64 = 3.182_446_305;

#[test]
fn the_drift_of_the_machine_cancels_within_blocks() {
    for (ratios, code, expected) in [
        ([1.01, 1.02, 1.0, 1.01], 0, BoundVerdict::Within),
        ([1.18, 1.2, 1.22, 1.2], 1, BoundVerdict::Worse),
        ([0.9, 1.2, 1.1, 1.0], 7, BoundVerdict::CannotTell),
    ] {
        let door = with_run(Some(ratios));
        let changes = compared(&door, code);
        let [time, memory] = &changes.rows[..] else { panic!("time and memory: {changes:?}") };
        assert_eq!(
            (&*time.job, time.quantity, time.bound_verdict),
            ("new over old", ChangeQuantity::Alone, Some(expected))
        );
        assert_eq!((memory.verdict, memory.bound_verdict), (Verdict::Equal, Some(BoundVerdict::Within)));
        let logs = ratios.map(f64::ln);
        let mean = logs.iter().sum::<f64>() / 4.0;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
        let half = T_OF_THREE * deviation / 2.0;
        let ends = [time.ratio, time.ratio_ci_lo, time.ratio_ci_hi].map(|end| end.expect("four blocks"));
        for (end, log) in ends.into_iter().zip([mean, mean - half, mean + half]) {
            assert!((end / log.exp() - 1.0).abs() < 1e-6, "{ends:?} and {}", log.exp());
        }
        let printed = door.exits(code, "compare r --jobs old,new --fail-above 5%");
        assert!(printed.out.contains("new over old") && !printed.out.contains("shift"), "{}", printed.out);
    }
}

#[test]
fn a_job_that_failed_is_worse_and_one_that_is_not_there_is_named() {
    let door = with_run(None);
    let changes = compared(&door, 1);
    assert_eq!((changes.rows.len(), changes.rows[0].verdict), (1, Verdict::Failed));
    for (arguments, words) in [
        ("r --jobs old,newer", "r has no job 'newer' alone; it has old, new"),
        ("r --jobs new,old", "new has no time in r; nothing can be compared with it"),
        ("r --jobs old", "expected the names of two jobs, as OLD,NEW"),
        ("r --jobs old,old", "expected the names of two jobs"),
        ("r r --jobs old,new", "cannot be used with"),
        ("r", "<B>"),
    ] {
        let said = door.exits(2, &format!("compare {arguments}"));
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
    }
}
