use formats::{decision::JobId, trace::Class};
use schema::units::Nanos;

use super::*;

/// A job that arrived at `submit` and was queued, switching, running and paused for these numbers of seconds.
fn outcome(name: &str, submit: u64, spent: [u64; 4], switches: [u32; 2], packed: u64) -> Outcome {
    let s = |seconds: u64| seconds * 1_000_000_000;
    let [queued, switching, running, paused] = spent;
    let jct = queued + switching + running + paused;
    Outcome {
        job: JobId(0),
        name: name.into(),
        workload: "lstm".into(),
        global_batch: Some(8),
        plan: None,
        devices: 1,
        user: String::new(),
        vc: String::new(),
        class: Class::Guaranteed,
        recurring_job: None,
        submit_utc: None,
        submit_ns: s(submit),
        start_ns: Some(s(submit + queued)),
        end_ns: Some(s(submit + jct)),
        jct_ns: Some(s(jct)),
        queued_ns: Some(s(queued)),
        switching_ns: Some(s(switching)),
        starting_ns: None,
        running_ns: Some(s(running)),
        paused_ns: Some(s(paused)),
        packed_ns: Some(s(packed)),
        device_time_ns: Some(s(running)),
        busy_share_ns: Some(s(running) - s(packed) / 2),
        alone_ns: None,
        fair_ns: None,
        first_100_ns: None,
        starts: switches[0],
        pauses: switches[1],
        stops: Some(0),
        migrations: Some(0),
        retries: 0,
        steps: 10,
        steps_asked: Some(10),
        steps_lost: 0,
        loss: None,
        steps_skipped: 0,
        skipped_ns: 0,
        predicted_jct_ns: None,
        status: Status::Ok,
        err: None,
        err_detail: None,
    }
}

fn compared(predicted: &[Outcome], measured: &[Outcome]) -> Fidelity {
    let predicted: Vec<Prediction> = predicted.iter().map(Prediction::from).collect();
    compare(&predicted, measured, [Some(2), Some(2)]).unwrap()
}

#[test]
fn the_longest_times_that_a_table_may_hold_are_compared() {
    let longest = Nanos::LONGEST.0;
    let job = |name: &str, times: [u64; 4]| {
        let [queued, switching, running, paused] = times.map(Some);
        Outcome {
            jct_ns: Some(longest),
            queued_ns: queued,
            switching_ns: switching,
            running_ns: running,
            paused_ns: paused,
            ..outcome(name, 0, [0; 4], [1, 0], 0)
        }
    };
    let all = |times: [u64; 4]| ["a", "b", "c", "d", "e"].map(|name| job(name, times));
    let arose = compared(&all([longest, 0, 0, 0]), &all([0, 0, longest, 0])).arose;
    assert_eq!((arose.order_ns, arose.step_time_ns), (longest as i64, -(longest as i64)));
    let arose = compared(&all([0; 4]), &all([longest; 4])).arose;
    assert_eq!((arose.step_time_ns, arose.order_ns), (-(longest as i64), i64::MIN));
}

#[test]
fn a_run_is_itself() {
    let rows = [outcome("a", 0, [1, 2, 30, 4], [2, 1], 5), outcome("b", 9, [0, 1, 9, 0], [1, 0], 0)];
    let same = compared(&rows, &rows);
    assert_eq!((same.jobs, same.arose, same.job_jct.max_percent), (2, Arose::default(), 0.0));
    let utilisation = same.utilisation;
    assert_eq!((same.average_jct.error_percent, utilisation.error_percent), (0.0, Some(0.0)));
    // Job a ends at 37 s and job b at 19 s. They run for 39 s, of which another job takes half of 5 s.
    assert_eq!(same.makespan.measured_ns, 37_000_000_000);
    assert!((utilisation.measured_percent.unwrap() - 36.5 / 37.0 / 2.0 * 100.0).abs() < 1e-12);
    let nothing = [outcome("a", 0, [0; 4], [1, 0], 0)];
    let same = compared(&nothing, &nothing);
    assert_eq!((same.job_jct.max_percent, same.utilisation), (0.0, Utilisation::default()));
}

#[test]
fn errors_arise_where_they_arise_and_add_up() {
    for (predicted, measured, expected) in [
        (
            outcome("a", 0, [0, 1, 90, 0], [1, 0], 0),
            outcome("a", 0, [0, 1, 100, 0], [1, 0], 0),
            [-10, 0, 0, 0],
        ),
        (
            outcome("a", 0, [0, 1, 90, 0], [1, 0], 0),
            outcome("a", 0, [0, 1, 100, 0], [1, 0], 9),
            [0, -10, 0, 0],
        ),
        (
            outcome("a", 0, [0, 8, 100, 0], [2, 0], 0),
            outcome("a", 0, [0, 6, 100, 0], [2, 0], 0),
            [0, 0, 2, 0],
        ),
        // A pause that was not predicted. Its three switches take 4 s each. One counts as order; the other two were predicted at 5
        // s each.
        (
            outcome("a", 0, [0, 10, 9, 0], [2, 0], 0),
            outcome("a", 0, [7, 12, 9, 3], [2, 1], 0),
            [0, 0, 2, -14],
        ),
        (outcome("a", 0, [5, 9, 9, 0], [3, 0], 0), outcome("a", 0, [0, 0, 9, 0], [0, 0], 0), [0, 0, 0, 14]),
    ] {
        let found = compared(&[predicted], &[measured]);
        assert_eq!(found.arose.start_up_ns, None, "no side knows its starts");
        let parts: Vec<i64> = found.arose.parts().iter().filter_map(|(_, ns)| *ns).collect();
        assert_eq!(parts, expected.map(|s| s * 1_000_000_000));
        let Times { predicted_ns, measured_ns, .. } = found.average_jct;
        assert_eq!(parts.iter().sum::<i64>(), predicted_ns as i64 - measured_ns as i64);
    }
}

/// Starts of 4 s each were predicted as 1 s each, and one of the three was not predicted. Of the other switches, one was predicted.
#[test]
fn starts_are_apart_from_other_switches() {
    let started =
        |starting: u64, row: Outcome| Outcome { starting_ns: Some(starting * 1_000_000_000), ..row };
    let predicted = started(2, outcome("a", 0, [0, 8, 50, 0], [2, 1], 0));
    let measured = started(12, outcome("a", 0, [0, 20, 50, 0], [3, 1], 0));
    let arose = compared(&[predicted], &[measured]).arose;
    // The other switches take 6 s over three, and 8 s over four, of which one counts as order.
    let parts = [("start-up", -6), ("switch cost", 0), ("order", -6)];
    for (name, seconds) in parts {
        let part = arose.parts().into_iter().find(|(part, _)| *part == name).expect("it is a part");
        assert_eq!(part.1, Some(seconds * 1_000_000_000), "{name}");
    }
}

#[test]
fn quantiles_are_of_single_jobs_whatever_the_sign() {
    let name = |n: u64| format!("j{n}");
    let measured: Vec<Outcome> = (1..=10).map(|n| outcome(&name(n), n, [0, 0, 100, 0], [1, 0], 0)).collect();
    // The errors are 1, 2 .. 10 %, alternately up and down.
    let off = |n: u64| if n.is_multiple_of(2) { 100 + n } else { 100 - n };
    let predicted: Vec<Outcome> =
        (1..=10).map(|n| outcome(&name(n), n, [0, 0, off(n), 0], [1, 0], 0)).collect();
    let found = compared(&predicted, &measured);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    near(found.job_jct.median_percent, 5.5);
    near(found.job_jct.p90_percent, 9.0);
    near(found.job_jct.max_percent, 10.0);
    near(found.average_jct.error_percent, 0.5);
    near(found.p99_jct.error_percent, 10.0);
    // The last job ends at 110 s and is predicted to end at 120 s. The first arrives at 1 s.
    near(found.makespan.error_percent, (119.0 / 109.0 - 1.0) * 100.0);
}

#[test]
fn jobs_that_did_not_end_well_are_named_and_other_traces_are_refused() {
    let good = outcome("a", 0, [0, 1, 9, 0], [1, 0], 0);
    let failed = Outcome { name: "b".into(), status: Status::Failed, jct_ns: None, ..good.clone() };
    let ended = Outcome { name: "b".into(), ..good.clone() };
    let found = compared(&[good.clone(), ended.clone()], &[good.clone(), failed.clone()]);
    assert_eq!((found.jobs, found.left_out), (1, vec!["b".to_owned()]));
    for (predicted, measured, message) in [
        (vec![&good], vec![&good, &ended], "job 'b' was only measured"),
        (vec![&good, &ended], vec![&good], "job 'b' was only predicted"),
        (vec![&failed], vec![&failed], "no job ended well on both sides"),
    ] {
        let predicted: Vec<Prediction> = predicted.into_iter().map(Prediction::from).collect();
        let measured: Vec<Outcome> = measured.into_iter().cloned().collect();
        let error = compare(&predicted, &measured, [None; 2]).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn first_steps_are_compared_where_both_sides_have_them() {
    let first = |name, seconds: Option<u64>| Outcome {
        first_100_ns: seconds.map(|seconds| seconds * 1_000_000_000),
        ..outcome(name, 0, [0, 1, 90, 0], [1, 0], 0)
    };
    let predicted = [first("a", Some(10)), first("b", Some(30)), first("c", None)];
    let measured = [first("a", Some(20)), first("b", Some(30)), first("c", Some(1))];
    let found = compared(&predicted, &measured).first_100.expect("two jobs have both");
    assert_eq!((found.average.predicted_ns, found.average.measured_ns), (20_000_000_000, 25_000_000_000));
    assert!((found.median.error_percent + 20.0).abs() < 1e-9);
    assert_eq!(compared(&predicted[2..], &measured[2..]).first_100, None);
}
