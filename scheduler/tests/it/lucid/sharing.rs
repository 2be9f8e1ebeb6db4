//! Sharing that is switched by the load, and the admission of jobs that do not fit.

use engine::job::JobRequest;
use formats::history::PastJob;

use super::{TINY, World, estimated, job, of_class};

/// Tiny jobs of 1,000 s on one device that arrive at these seconds.
fn tiny(arrivals: &[u64]) -> Vec<JobRequest> {
    (0..).zip(arrivals).map(|(id, at)| of_class(TINY, job(id, (*at, 1, 1000)))).collect()
}

/// The second at which the last job starts.
fn last_start(world: &World<'_>, policy: &str, jobs: &[JobRequest]) -> u64 {
    let last = jobs.len() as u32 - 1;
    let found = world.starts(policy, jobs);
    found.iter().find(|(_, job, _)| *job == last).map(|(at, ..)| *at).expect("all jobs start")
}

#[test]
fn jobs_do_not_share_under_a_low_load() {
    // Two jobs in 10 minutes are not more than 2. The second waits.
    assert_eq!(last_start(&World::node(1), "lucid", &tiny(&[0, 10])), 1000);
    assert_eq!(last_start(&World::node(1), "lucid:busy=1", &tiny(&[0, 10])), 600);
    assert_eq!(last_start(&World::node(1), "lucid:sharing=on", &tiny(&[0, 10])), 10);
    assert_eq!(last_start(&World::node(1), "lucid:sharing=off:busy=0", &tiny(&[0, 10])), 1000);
    // Of eleven jobs in one bin, each of the next five has more than 2.
    let many: Vec<u64> = (0..11).collect();
    assert_eq!(last_start(&World::node(10), "lucid", &tiny(&many)), 10);
    assert_eq!(last_start(&World::node(10), "lucid", &tiny(&many[..10])), 9);
    let ten: Vec<u64> = (0..10).collect();
    // Ten are 2 in each, and all in the last hour when the bin has ended.
    assert_eq!(last_start(&World::node(9), "lucid", &tiny(&ten)), 600);
}

/// The history has three jobs in each bin of ten minutes on Mondays, and two a day on others.
#[test]
fn the_history_tells_which_days_are_busy() {
    let past = |week: u64, second: u64| PastJob {
        name: "past".into(),
        user: String::new(),
        vc: String::new(),
        recurring_job: None,
        workload: "lstm".into(),
        global_batch: None,
        plan: None,
        devices: 1,
        // From Monday, 3 August 2020, on.
        submit_utc: Some(humantime::format_rfc3339(at(week, second)).to_string()),
        duration_ns: schema::units::Nanos(1_000_000_000),
    };
    let quiet_days = |week| (1..14).map(move |half| past(week, half * 43_200));
    let monday = |week| (0..144 * 3).map(move |third| past(week, third * 200));
    let mut history: Vec<PastJob> = (0..4).flat_map(|week| monday(week).chain(quiet_days(week))).collect();
    history.sort_by(|a, b| a.submit_utc.cmp(&b.submit_utc));
    let world = World { history, ..World::node(1) };
    // A job early on the next Monday, and one on the last Sunday. What comes later is not used.
    for (week, second, shares) in [(4, 600, true), (3, 6 * 86_400 + 43_300, false)] {
        let dated = |(number, job): (u64, JobRequest)| JobRequest {
            submitted_at: Some(at(week, second + number)),
            ..job
        };
        let jobs: Vec<JobRequest> = (0..).zip(tiny(&[0, 1])).map(dated).collect();
        let started = last_start(&world, "lucid", &jobs);
        assert_eq!(started == 1, shares, "week {week}, {second} s: at {started} s");
    }
}

/// A time since the start of Monday, 3 August 2020, and so many weeks.
fn at(week: u64, second: u64) -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_596_412_800 + week * 7 * 86_400 + second)
}

/// The second job has the smallest service and needs two devices. The third would fit.
#[test]
fn a_job_that_does_not_fit_is_passed_as_the_setting_says() {
    let jobs = [
        estimated(10, job(0, (0, 1, 100))),
        estimated(10, job(1, (1, 2, 5))),
        estimated(100, job(2, (2, 1, 200))),
    ];
    let world = World::node(2).remembers(&[10, 100]);
    for (policy, expected) in [
        ("lucid:sharing=off", 2),
        ("lucid:sharing=off:backfill=sharing", 105),
        ("lucid:sharing=on:backfill=sharing", 2),
        ("lucid:sharing=on:backfill=off", 105),
    ] {
        assert_eq!(last_start(&world, &format!("{policy}:estimates=rolling"), &jobs), expected, "{policy}");
    }
}
