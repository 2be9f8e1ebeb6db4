use record::rows::ErrorKind;

use super::*;
use crate::activity::{Loss, Phase, tests::recorded};

fn lanes(figures: &[Figure]) -> &Lanes {
    let [Figure { chart: Chart::Lanes(lanes), .. }] = figures else { panic!("one figure of lanes") };
    lanes
}

/// The lengths of spans are the account of the engine.
#[test]
fn spans_of_one_device_add_up_to_the_rows() {
    for run in recorded() {
        let figures = make(&run, &Colours::default());
        let lanes = lanes(&figures);
        assert_eq!((&lanes.lanes, lanes.decimated_from), (&run.device_names(), None));
        for row in &run.outcomes {
            let sum = |kind| -> f64 {
                let own = lanes.spans.iter().filter(|span| span.name == row.name && span.kind == kind);
                own.map(|span| span.to - span.from).sum()
            };
            assert_eq!(Some(sum(SpanKind::Running) as u64), row.device_time_ns);
            assert_eq!(
                Some(sum(SpanKind::Switching) as u64),
                row.switching_ns.map(|ns| ns * u64::from(row.devices))
            );
        }
        let key = |span: &Span| (span.lane, span.from as u64);
        assert!(lanes.spans.windows(2).all(|pair| key(&pair[0]) <= key(&pair[1])));
        // No two spans of a lane lie on each other.
        for (n, span) in lanes.spans.iter().enumerate() {
            let overlaps = |other: &&Span| {
                other.lane == span.lane
                    && other.from < span.to
                    && span.from < other.to
                    && (other.part.0 == span.part.0 || other.part.1 != span.part.1)
            };
            assert_eq!(lanes.spans[n + 1..].iter().find(overlaps), None);
        }
    }
}

#[test]
fn failures_lost_devices_and_plans_are_told() {
    let job = JobId(7);
    let plan = |text: &str| Some(text.parse().expect("it is a plan"));
    let first = Stay {
        job,
        launch: 0,
        devices: [DeviceId(1)].into(),
        plan: plan("dp1"),
        plan_before: None,
        phase: Phase::Starting,
        from_ns: 0,
        until_ns: 5,
        end: StayEnd::Failed(ErrorKind::DeviceLost, "fell off".into()),
    };
    let second = Stay {
        launch: 1,
        plan: plan("bf16"),
        plan_before: plan("dp1"),
        from_ns: 9,
        until_ns: 12,
        end: StayEnd::NextPhase,
        ..first.clone()
    };
    let third = Stay { phase: Phase::Running, from_ns: 12, end: StayEnd::Open, ..second.clone() };
    let activity = Activity {
        stays: vec![first, second, third],
        losses: vec![Loss { device: DeviceId(1), from_ns: 5, until_ns: 9 }],
        until_ns: 12,
        ..Activity::default()
    };
    let runs = recorded();
    let colours = Colours::default();
    let jobs = Jobs { known: HashMap::new(), colours: &colours };
    let spans = spans(&activity, &[DeviceId(1)], &jobs);
    let seen: Vec<_> = spans.iter().map(|span| (span.kind, span.from as u64, span.to as u64)).collect();
    let expected = [
        (SpanKind::Switching, 0, 5),
        (SpanKind::Failed, 5, 5),
        (SpanKind::Lost, 5, 9),
        (SpanKind::Switching, 9, 12),
        (SpanKind::Running, 12, 12),
    ];
    assert_eq!(seen, expected);
    assert_eq!(spans[0].detail, "starting; dp1; 1 device; then failed: device-lost: fell off");
    assert_eq!(spans[3].detail, "starting; bf16; 1 device; start 2; before under dp1");
    assert_eq!(spans[0].name, "job 7");
    assert_eq!(Jobs::of(&runs[0], &colours).name(JobId(0)), runs[0].outcomes[0].name);
}

#[test]
fn launches_that_overlap_are_below_each_other() {
    assert_eq!(parts(&[(0, 10), (10, 20)]), [(0, 1), (0, 1)]);
    assert_eq!(parts(&[(0, 10), (5, 20), (12, 30), (40, 50)]), [(0, 2), (1, 2), (0, 2), (0, 1)]);
    assert_eq!(parts(&[(5, 6), (0, 9), (1, 8)]), [(2, 3), (0, 3), (1, 3)]);
    assert_eq!(parts(&[]), []);
}

/// 100,000 jobs on 2,490 devices. `benches/large.rs` measures how long such a report takes.
#[test]
fn a_large_run_stays_small() {
    let (jobs, devices) = (100_000u32, 2_490u32);
    let mut stays = Vec::new();
    for n in 0..jobs {
        let at = u64::from(n / devices) * 1_000;
        let starting = Stay {
            job: JobId(n),
            launch: 0,
            devices: [DeviceId(n % devices)].into(),
            plan: None,
            plan_before: None,
            phase: Phase::Starting,
            from_ns: at,
            until_ns: at + 10,
            end: StayEnd::NextPhase,
        };
        let (from_ns, until_ns) = (at + 10, at + 900);
        let running =
            Stay { phase: Phase::Running, from_ns, until_ns, end: StayEnd::Finished, ..starting.clone() };
        stays.extend([starting, running]);
    }
    stays.sort_by_key(|stay| stay.until_ns);
    let until_ns = stays[stays.len() - 1].until_ns;
    let activity = Activity { stays, until_ns, ..Activity::default() };
    let shown = shown(&activity, devices as usize);
    assert_eq!(shown.len(), MOST_LANES);
    let colours = Colours::default();
    let all = spans(&activity, &shown, &Jobs { known: HashMap::new(), colours: &colours });
    assert!(all.len() > 5_000, "{}", all.len());
    let whole = activity.until_ns as f64;
    for most in [4_000, 500, 64] {
        let found = joined(all.clone(), whole, most);
        assert!(found.len() <= most, "{} for {most}", found.len());
        assert!(found.iter().any(|span| span.kind == SpanKind::Several));
        assert!(found.windows(2).all(|pair| pair[0].lane <= pair[1].lane));
    }
}
