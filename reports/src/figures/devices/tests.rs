use record::{
    manifest::{FastForward, Scheduling},
    rows::{Appender, from_json},
};

use super::*;
use crate::{
    chart::Series,
    steps::tests::{Written, WrittenRun, run_with_steps},
};

const S: u64 = 1_000_000_000;

fn sample(at: u64, columns: &str) -> DeviceSample {
    let begin = format!(r#""mono_ns": {at}, "end_mono_ns": {at}, "device": "cpu:0", "tier": "fast""#);
    from_json(&format!("{{{begin}, {columns}}}")).expect("the columns are those of a reading")
}

fn busy(at: u64, busy_ns: u64) -> DeviceSample {
    sample(at, &format!(r#""util_percent": 50.0, "busy_ns": {busy_ns}, "memory_used_bytes": {at}"#))
}

fn with_readings(samples: &[DeviceSample]) -> WrittenRun {
    let launch = Written { lengths: vec![vec![S, S / 2, S / 2]], used: 1..3, ..Written::default() };
    let written = run_with_steps(&[launch]);
    Appender::open(&written.run.dir.devices_path()).unwrap().push(samples).unwrap();
    written
}

fn points(series: &Series) -> Vec<(f64, f64)> {
    series.points.iter().map(|point| (point.x / S as f64, point.y)).collect()
}

#[test]
fn shares_are_growth_over_time_and_launches_are_shaded() {
    let samples: Vec<DeviceSample> =
        (0..=10).map(|tenth| busy(S + tenth * 4 * S / 10, tenth * 3 * S / 10)).collect();
    let written = with_readings(&samples);
    let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one device") };
    let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
    let names: Vec<&str> = planes.iter().map(|plane| &*plane.title).collect();
    assert_eq!(names, ["busy share of the cores", "memory in use", "step time"]);
    let shares = points(&planes[0].series[0]);
    assert_eq!(shares.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0.0, 1.2, 2.4, 3.6]);
    assert!(shares.iter().all(|(_, share)| (share - 75.0).abs() < 1e-9), "{shares:?}");
    assert_eq!(points(&planes[2].series[0]), [(1.0, 1e9), (1.5, 5e8), (2.0, 5e8)]);
    let shade = Shade { from: 0.0, to: 2e9, name: "a@b1@dp1".into() };
    assert!(planes.iter().all(|plane| plane.shades == [shade.clone()]));
    assert_eq!((&*figure.part, &figure.missing[..]), ("cpu:0", &[][..]));
}

#[test]
fn the_caption_says_that_a_run_that_skipped_steps_has_another_clock() {
    let mut written = with_readings(&[busy(S, 0), busy(2 * S, S)]);
    let caption = |run: &Run| make(run, &Colours::default())[0].caption.clone();
    assert!(!caption(&written.run).contains("skipped"));
    let scheduled = crate::activity::tests::recorded().swap_remove(0).manifest.scheduling;
    let fast_forward = Some(FastForward { window_s: 2.0, window_steps: 30, error_percent: 2.0 });
    written.run.manifest.scheduling = scheduled.map(|of| Scheduling { fast_forward, ..of });
    assert!(caption(&written.run).contains("The run skipped steps"), "{}", caption(&written.run));
}

#[test]
fn no_share_is_taken_across_a_fall_a_failure_or_a_gap() {
    let failed = sample(8 * S, r#""err": "lost""#);
    let mut samples = vec![busy(S, 900), busy(3 * S, S + 900), busy(4 * S, 10), busy(5 * S, 10 + S / 2)];
    samples.extend([
        busy(7 * S, 10 + S),
        failed,
        busy(9 * S, 9 * S),
        busy(10 * S, 9 * S),
        busy(99 * S, 9 * S),
    ]);
    let written = with_readings(&samples);
    let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one device") };
    let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
    let shares: Vec<Vec<(f64, f64)>> = planes[0].series.iter().map(points).collect();
    assert_eq!(
        shares,
        [
            vec![(0.0, 50.0), (2.0, 50.0)],
            vec![(3.0, 50.0), (4.0, 25.0), (6.0, 25.0)],
            vec![(8.0, 0.0), (9.0, 0.0)],
        ]
    );
    let memory: Vec<usize> = planes[1].series.iter().map(|series| series.points.len()).collect();
    assert_eq!(memory, [5, 2, 1], "a gauge may fall");
    assert_eq!(figure.missing, ["1 of 9 readings of cpu:0 failed"]);
}

#[test]
fn many_readings_keep_their_extremes() {
    let mut samples: Vec<DeviceSample> = (0..20_000).map(|at| busy(S + at * S / 10, at)).collect();
    samples[7_777].memory_used_bytes = Some(u64::MAX >> 12);
    let written = with_readings(&samples);
    let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one device") };
    let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
    let memory = &planes[1].series[0];
    assert!(memory.points.len() <= planes::POINTS + 1 && memory.decimated_from == Some(20_000));
    assert!(memory.points.iter().any(|point| point.y == (u64::MAX >> 12) as f64));
}

#[test]
fn readings_that_are_absent_or_garbled_are_no_plane() {
    let written = run_with_steps(&[]);
    assert_eq!(make(&written.run, &Colours::default()), []);
    std::fs::write(written.run.dir.devices_path(), "mono_ns,device\nx,y\n").unwrap();
    let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one table") };
    let Chart::Table(table) = &figure.chart else { panic!("a table of problems") };
    assert!(table.rows[0][0].in_csv().starts_with("devices.csv: line 2"), "{table:?}");
}

/// 40 ms between readings, and one gap in which a counter of 32 bits may have wrapped.
#[test]
fn traffic_is_bytes_over_time_and_stops_where_a_counter_may_have_wrapped() {
    let ms = S / 1_000;
    let read = |at: u64| {
        let bytes = at / ms * 1_000;
        sample(
            S + at,
            &format!(r#""pcie_rx_bytes": {bytes}, "nvlink_tx_bytes": {bytes}, "sm_util_percent": 40.0"#),
        )
    };
    let early = (0..=50).map(|n| read(n * 40 * ms));
    let late = (0..=25).map(|n| read(2_200 * ms + n * 40 * ms));
    let written = with_readings(&early.chain(late).collect::<Vec<_>>());
    let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one device") };
    let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
    let of = |title: &str| {
        let plane = planes.iter().find(|plane| plane.title == title).expect("it was read");
        plane.series.iter().map(points).collect::<Vec<_>>()
    };
    let rate = 1_000_000.0;
    assert_eq!(
        of("PCIe to the device"),
        [vec![(0.0, rate), (1.0, rate), (2.0, rate)], vec![(2.2, rate), (3.2, rate)]]
    );
    assert_eq!(of("NVLink from the device").len(), 1, "this counter does not wrap");
    assert_eq!(of("SMs in use")[0].len(), 77);
}
