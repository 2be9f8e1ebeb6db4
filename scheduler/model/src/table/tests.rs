use record::{
    group::Group,
    manifest::{DeviceFacts, Machine, Settings},
    rows,
};
use schema::FORMAT;

use super::*;
use crate::TraceTime;

fn cell(workload: &str, devices: &[&str]) -> Cell {
    let plan = Plan { dp: devices.len() as u16, ..Plan::default() };
    let job = format!("{workload}@b8@{plan}");
    Cell {
        name: format!("{job}@on={}", devices.join(",")),
        sharing: Sharing::Alone,
        job,
        workload: workload.into(),
        command: None,
        all_reduce_bytes: None,
        global_batch: Some(8),
        plan: Some(plan),
        devices: devices.iter().map(|device| device.parse().unwrap()).collect(),
        memory_estimate_bytes: None,
        unsupported: None,
        ..Cell::default()
    }
}

/// Two cores, a set of two, and a GPU, on which `a` ran beside itself and beside `b`.
fn manifest() -> Manifest {
    let facts = |device: &str, name: &str| DeviceFacts {
        device: device.parse().unwrap(),
        name: name.into(),
        memory_bytes: None,
        peak_flops: Default::default(),
        capabilities: Default::default(),
        chip: Default::default(),
        topology: Default::default(),
    };
    let group = |members: &[&str]| Group {
        name: members.join("+"),
        sharing: Sharing::TIME_SLICE,
        members: members.iter().map(|name| (*name).to_owned()).collect(),
        unsupported: None,
    };
    Manifest {
        format: FORMAT,
        started_utc: String::new(),
        command: Vec::new(),
        version: String::new(),
        git_revision: None,
        seed: 1,
        tags: Vec::new(),
        settings: Settings::default(),
        folder: None,
        machine: Machine::default(),
        devices: vec![
            facts("cpu:0", "CPU"),
            facts("cpu:1", "CPU"),
            facts("cpu:0-1", "CPU"),
            facts("cuda:0", "GPU"),
        ],
        cells: vec![cell("a", &["cpu:0"]), cell("b", &["cpu:0"]), cell("b", &["cpu:1"])],
        groups: vec![
            group(&["a@b8@dp1@on=cpu:0", "a@b8@dp1@on=cpu:0", "b@b8@dp1@on=cpu:0"]),
            group(&["a@b8@dp1@on=cpu:0", "b@b8@dp1@on=cpu:1"]),
        ],
        scheduling: None,
    }
}

/// A summary of batches of 8 at this rate.
fn summary(workload: &str, plan: &str, device: &str, threads: u32, batches_per_s: f64) -> Summary {
    let median = (0.9e9 / batches_per_s) as u64;
    let samples_per_s = 8.0 * batches_per_s;
    let (lo, hi) = (median - median / 10, median + median / 10);
    rows::from_json(&format!(
        r#"{{"run": "r", "job": "{workload}@b8@{plan}", "workload": "{workload}", "plan": "{plan}", "device": "{device}",
        "threads": {threads}, "sharing": "alone", "global_batch": 8, "repeats": 3, "repeats_failed": 0, "warnings": "",
        "step_ns_median": {median}, "step_ns_median_ci_lo": {lo}, "step_ns_median_ci_hi": {hi},
        "samples_per_s": {samples_per_s}, "status": "ok"}}"#
    ))
    .unwrap()
}

fn beside(workload: &str, group: &Group, seat: u32, slowdown: f64) -> Interference {
    Interference {
        workload: workload.into(),
        plan: Some(Plan::default()),
        global_batch: Some(8),
        device: "cpu:0".into(),
        sharing: group.sharing.clone(),
        group: group.name.clone(),
        seat,
        step_ns_alone: Some(100),
        step_ns_together: Some((100.0 * slowdown) as u64),
        slowdown: Some(slowdown),
        slowdown_ci_lo: Some(slowdown - 0.1),
        slowdown_ci_hi: Some(slowdown + 0.1),
        ..Interference::default()
    }
}

fn table() -> Table {
    table_with(&manifest())
}

fn table_with(manifest: &Manifest) -> Table {
    let summaries = [
        summary("a", "dp1", "cpu:0", 1, 10.0),
        summary("a", "dp1", "cpu:1", 1, 7.0),
        summary("a", "dp2", "cpu:0,cpu:1", 1, 18.0),
        summary("a", "dp1", "cpu:0-1", 2, 15.0),
        summary("a", "dp1", "cuda:0", 4, 100.0),
        summary("a", "dp1", "cuda:0", 1, 50.0),
        summary("b", "dp1", "cpu:0", 1, 8.0),
        Summary { status: Status::Failed, ..summary("c", "dp1", "cpu:0", 1, 9.0) },
        summary("c", "dp2", "cpu:0,cuda:0", 1, 9.0),
        summary("c", "dp2", "cpu:1,cpu:1", 1, 9.0),
    ];
    let [three, neighbours] = &manifest.groups[..] else { panic!("{:?}", manifest.groups) };
    let interference = [
        beside("a", three, 0, 3.0),
        beside("b", three, 2, 2.0),
        beside("a", neighbours, 0, 1.2),
        beside("b", neighbours, 1, 1.05),
    ];
    let mut table = Table::default();
    table.add(manifest, &summaries, &interference);
    table
}

fn subject(workload: &'static str, plan: &str) -> JobKey<'static> {
    JobKey::new(workload, Some(8), Some(plan.parse().unwrap()))
}

/// The job with a step time in its trace, of its plan on this number of devices of one node.
fn with_time(job: JobKey<'static>, step_ns: u64, devices: u32) -> JobKey<'static> {
    let time = TraceTime { step_ns, plan: job.plan, devices, nodes: 1, device_type: None };
    JobKey { trace_time: Some(time), ..job }
}

/// A job alone on a node.
fn alone_on<'a>(job: JobKey<'a>, placement: &'a [u32], device_type: &'a str) -> PredictRequest<'a> {
    let sharing = &Sharing::TIME_SLICE;
    PredictRequest { job, placement, device_type, cpus: None, co_runners: &[], sharing, neighbours: &[] }
}

#[test]
fn what_was_measured_is_known_and_nothing_else() {
    for (job, placement, device_type, step_ns) in [
        (subject("a", "dp1"), &[1][..], "CPU", Some(1e9 / 70f64.sqrt())),
        (subject("a", "dp2"), &[2], "CPU", Some(1e9 / 18.0)),
        (subject("a", "dp1"), &[1], "2 cores of CPU", Some(1e9 / 15.0)),
        (subject("a", "dp1"), &[1], "GPU", Some(1e7)),
        (subject("a", "dp2"), &[1, 1], "CPU", None),
        (subject("a", "dp2"), &[2], "GPU", None),
        (subject("a", "ga2"), &[1], "CPU", None),
        (JobKey { global_batch: Some(16), ..subject("a", "dp1") }, &[1], "CPU", None),
        (subject("c", "dp1"), &[1], "CPU", None),
        (subject("c", "dp2"), &[2], "CPU", None),
        (subject("d", "dp1"), &[1], "CPU", None),
        (with_time(subject("d", "dp2"), 7, 2), &[2], "TPU", Some(7.0)),
        // A row comes first, and the time in the trace holds for what was asked for.
        (with_time(subject("a", "dp1"), 7, 1), &[1], "CPU", Some(1e9 / 70f64.sqrt())),
        (with_time(subject("d", "dp2"), 7, 2), &[1, 1], "TPU", None),
        (with_time(subject("d", "dp2"), 7, 2), &[1], "TPU", None),
        (JobKey { plan: None, ..with_time(subject("d", "dp2"), 7, 2) }, &[2], "TPU", None),
    ] {
        let found = table().predict(&alone_on(job, placement, device_type)).map(|found| found.step_ns);
        let is_right = match (found, step_ns) {
            (Some(found), Some(expected)) => (found / expected - 1.0).abs() < 1e-9,
            (found, expected) => found == expected,
        };
        assert!(is_right, "{job:?} on {placement:?} {device_type}: {found:?}, not {step_ns:?}");
    }
    assert_eq!(table().device_types().collect::<Vec<_>>(), ["2 cores of CPU", "CPU", "GPU"]);
}

#[test]
fn threads_count_where_they_are_asked_for_and_intervals_follow_the_mean() {
    let job = subject("a", "dp1");
    let ask = |cpus| table().predict(&PredictRequest { cpus, ..alone_on(job, &[1], "GPU") });
    let found = ask(Some(1)).unwrap().step_ns;
    assert!((found / 2e7 - 1.0).abs() < 1e-9, "{found}");
    assert_eq!(ask(Some(2)), None);
    let (lo, hi) = ask(Some(4)).unwrap().step_ns_ci.unwrap();
    assert!((lo / 0.9e7 - 1.0).abs() < 1e-6 && (hi / 1.1e7 - 1.0).abs() < 1e-6, "{lo} {hi}");
}

#[test]
fn co_runners_are_known_in_whatever_order_and_slow_down_what_the_job_takes_alone() {
    let (a, b) = (subject("a", "dp1"), subject("b", "dp1"));
    let with_time = with_time(b, 5, 1);
    let (a_alone, b_alone) = (1e9 / 70f64.sqrt(), 1e9 / 8.0);
    for (job, co_runners, sharing, step_ns) in [
        (a, &[a, b][..], "time-slice", Some((3.0, a_alone))),
        (a, &[with_time, a], "time-slice", Some((3.0, a_alone))),
        (b, &[a, a], "time-slice", Some((2.0, b_alone))),
        (with_time, &[a, a], "time-slice", Some((2.0, b_alone))),
        (a, &[a, a], "time-slice", None),
        (a, &[a, b, b], "time-slice", None),
        (a, &[b], "time-slice", None),
        (a, &[a, b], "step-gate", None),
        (with_time, &[a], "time-slice", None),
    ] {
        let sharing = &sharing.parse().unwrap();
        let question = PredictRequest { co_runners, sharing, ..alone_on(job, &[1], "CPU") };
        let found = table().predict(&question);
        assert_eq!(found.is_some(), step_ns.is_some(), "{job:?} beside {co_runners:?}");
        if let (Some(Prediction { step_ns, step_ns_ci: Some((lo, hi)) }), Some((slowdown, alone))) =
            (found, step_ns)
        {
            for (found, expected) in [(step_ns, slowdown), (lo, slowdown - 0.1), (hi, slowdown + 0.1)] {
                assert!((found / (expected * alone) - 1.0).abs() < 1e-9, "{job:?}: {found}");
            }
        }
    }
}

#[test]
fn a_group_with_other_values_than_those_of_a_definition_gives_no_slowdown() {
    let (a, b) = (subject("a", "dp1"), subject("b", "dp1"));
    let mut manifest = manifest();
    manifest.cells[1].vary = [("lr".to_owned(), "0.5".to_owned())].into();
    let (of_defaults, of_values) = (table(), table_with(&manifest));
    for (job, co_runners) in [(a, [a, b]), (b, [a, a])] {
        let question = PredictRequest { co_runners: &co_runners, ..alone_on(job, &[1], "CPU") };
        assert!(
            of_defaults.predict(&question).is_some() && of_values.predict(&question).is_none(),
            "{job:?}"
        );
        assert_eq!(
            of_values.predict(&alone_on(job, &[1], "CPU")),
            of_defaults.predict(&alone_on(job, &[1], "CPU"))
        );
    }
}

/// The table knows `b` alone and not under another plan.
#[test]
fn another_model_gives_the_time_alone_where_there_is_no_row_and_the_table_the_slowdown() {
    let (a, b) = (subject("a", "dp1"), subject("b", "dp1"));
    let otherwise = || Some(Prediction { step_ns: 1000.0, step_ns_ci: Some((900.0, 1100.0)) });
    let step_ns = |request: &PredictRequest<'_>| {
        table().predict_or(request, otherwise, || None).map(|prediction| prediction.step_ns)
    };
    let unknown = subject("b", "ga2");
    assert_eq!(
        step_ns(&alone_on(b, &[1], "CPU")),
        table().predict(&alone_on(b, &[1], "CPU")).map(|prediction| prediction.step_ns)
    );
    assert_eq!(step_ns(&alone_on(unknown, &[1], "CPU")), Some(1000.0));
    let beside = PredictRequest { co_runners: &[a, b], ..alone_on(unknown, &[1], "CPU") };
    assert_eq!(step_ns(&beside), None, "no row is of it in company");
    // Without the row of `a` alone, its slowdown of 3 beside both is still known.
    let mut table = table();
    table.alone.clear();
    let beside = PredictRequest { co_runners: &[a, b], ..alone_on(a, &[1], "CPU") };
    assert_eq!(table.predict(&beside), None);
    let found = table.predict_or(&beside, otherwise, || None).expect("the slowdown is known");
    assert!((found.step_ns - 3000.0).abs() < 1e-6, "{found:?}");
    // The uncertainty of the time alone is no part of that of the slowdown.
    assert!(
        found.step_ns_ci.is_some_and(|(lo, hi)| (lo - 2900.0).abs() < 1e-6 && (hi - 3100.0).abs() < 1e-6)
    );
}

/// A job with batches of 8, alone in runs that began at these times.
fn runs_at(runs: &[(&str, f64)]) -> Prediction {
    let table = table_of(runs.iter().map(|(started_utc, batches_per_s)| (*started_utc, "a", *batches_per_s)));
    table.predict(&alone_on(subject("a", "dp1"), &[1], "CPU")).unwrap()
}

/// Runs that began at these times, each with a row of one job.
fn table_of<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str, f64)>) -> Table {
    let mut table = Table::default();
    for (started_utc, workload, batches_per_s) in rows {
        let manifest = Manifest { started_utc: started_utc.into(), ..manifest() };
        table.add(&manifest, &[summary(workload, "dp1", "cpu:0", 1, batches_per_s)], &[]);
    }
    table
}

/// Steps of both jobs take a tenth longer in the second run. No other run has the job of the third.
#[test]
fn the_drift_of_the_machine_is_what_runs_differ_by() {
    let (first, second, third) = ("2026-11-22T09:00:00Z", "2026-11-22T10:00:00Z", "2026-11-22T10:10:00Z");
    let table = table_of([
        (first, "a", 11.0),
        (first, "b", 22.0),
        (second, "a", 10.0),
        (second, "b", 20.0),
        (third, "c", 5.0),
    ]);
    let [(_, before), (_, after)] = table.speeds()[..] else { panic!("{:?}", table.speeds()) };
    let log = 1.1f64.ln();
    assert!((after - before - log).abs() < 1e-9, "{before} {after}");
    assert_eq!(table.host_drift(), HostDrift::of_runs(&[before, after], 1));
    // Of four degrees of freedom, one is of the two runs.
    let expected = ((3.0 * 0.03f64.powi(2) + log * log / 2.0) / 4.0).sqrt();
    assert!((table.host_drift().sigma - expected).abs() < 1e-9, "{expected}");
}

#[test]
fn of_a_job_alone_the_newest_runs_answer_together() {
    let (old, before, new) = ("2026-11-22T09:59:00Z", "2026-11-22T10:01:00Z", "2026-11-22T10:15:00Z");
    for (runs, batches_per_s) in [
        (&[(new, 32.0), (before, 18.0), (old, 7.0)][..], 24.0),
        (&[(old, 7.0), (new, 32.0)], 32.0),
        (&[("", 18.0), (new, 32.0), (old, 7.0)], 24.0),
        (&[("", 18.0), ("yesterday", 32.0)], 24.0),
    ] {
        let found = runs_at(runs).step_ns;
        assert!((found * batches_per_s / 1e9 - 1.0).abs() < 1e-9, "{runs:?}: {found}");
    }
    let (lo, hi) = runs_at(&[(new, 32.0), (before, 18.0)]).step_ns_ci.unwrap();
    assert!((lo * 32.0 / 0.9e9 - 1.0).abs() < 1e-6 && (hi * 18.0 / 1.1e9 - 1.0).abs() < 1e-6, "{lo} {hi}");
}

#[test]
fn neighbours_slow_down_by_what_was_measured_of_two_while_it_is_their_turn() {
    let (a, b) = (subject("a", "dp1"), subject("b", "dp1"));
    let next = |job, share| Neighbour { job, share };
    let elsewhere = JobKey { plan: Some("ga2".parse().unwrap()), ..b };
    let alone = alone_on(a, &[1], "CPU");
    let co_runners = [a, b];
    let packed = PredictRequest { co_runners: &co_runners, ..alone };
    let told = alone_on(with_time(subject("a", "dp4"), 100, 2), &[2], "CPU");
    for (question, neighbours, slowdown) in [
        (alone, vec![next(b, 1.0)], 1.2),
        (alone, vec![next(b, 0.5)], 1.1),
        (alone, vec![next(b, 1.0), next(b, 0.5)], 1.2 * 1.1),
        // An interval from 0.95 to 1.15 shows no difference.
        (alone_on(b, &[1], "CPU"), vec![next(a, 1.0)], 1.0),
        (alone, vec![next(a, 1.0), next(elsewhere, 1.0)], 1.0),
        (packed, vec![next(b, 1.0)], 1.2),
        (alone_on(a, &[1], "GPU"), vec![next(b, 1.0)], 1.0),
        (told, vec![next(b, 1.0)], 1.0),
    ] {
        let disturbed = table().predict(&PredictRequest { neighbours: &neighbours, ..question }).unwrap();
        let undisturbed = table().predict(&question).unwrap();
        let ratio = disturbed.step_ns / undisturbed.step_ns;
        assert!((ratio - slowdown).abs() < 1e-9, "{question:?} next to {neighbours:?}: {ratio}");
    }
    let disturbed = PredictRequest { neighbours: &[next(b, 1.0)], ..alone };
    let [(lo, hi), (lo_alone, hi_alone)] =
        [disturbed, alone].map(|question| table().predict(&question).unwrap().step_ns_ci.unwrap());
    assert!((lo / lo_alone - 1.1).abs() < 1e-9 && (hi / hi_alone - 1.3).abs() < 1e-9, "{lo} {hi}");
    assert!(table().minds_neighbours() && !Table::default().minds_neighbours());
}

/// Questions never have neighbours and co-runners at once, or jobs that wait for their turn.
#[test]
fn only_one_neighbour_that_runs_all_the_time_is_known() {
    let mut manifest = manifest();
    let [_, two] = &manifest.groups[..] else { panic!("{:?}", manifest.groups) };
    let in_turns = Group { sharing: Sharing::Sequential, ..two.clone() };
    let members = [&two.members[..], &two.members[..1]].concat();
    let three = Group { name: members.join("+"), members, ..two.clone() };
    let rows = [beside("a", &in_turns, 0, 1.9), beside("a", &three, 0, 2.1)];
    manifest.groups.extend([in_turns, three]);
    let mut table = Table::default();
    table.add(&manifest, &[], &rows);
    assert!(!table.minds_neighbours() && table.slowdowns.is_empty(), "{table:?}");
}
