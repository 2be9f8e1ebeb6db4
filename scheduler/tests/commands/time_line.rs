//! `trace.json` of `sched run`.

use std::collections::BTreeMap;

use record::{
    rows::Status,
    trace_events::{self, Entry},
};

use crate::{
    held::{Held, starts},
    run::{ON_TWO, TRACE, door, door_to_two, outcomes, run},
};

type Track = (u64, u64);

/// The entries of a trace by what they are.
#[derive(Default)]
struct TimeLine {
    groups: BTreeMap<u64, String>,
    tracks: BTreeMap<Track, String>,
    /// Of each track: the name of each span, its begin and its end in ns.
    spans: BTreeMap<Track, Vec<(String, u64, u64)>>,
    instants: Vec<String>,
}

fn read(path: &std::path::Path) -> TimeLine {
    let ns = |us: f64| (us * 1e3).round() as u64;
    let mut line = TimeLine::default();
    for entry in trace_events::read(path).expect("it is as the format has it") {
        match entry {
            Entry::Process { pid, name } => drop(line.groups.insert(pid, name)),
            Entry::Thread { pid, tid, name } => drop(line.tracks.insert((pid, tid), name)),
            Entry::Span { pid, tid, name, start_us, dur_us } => {
                let (from, until) = (ns(start_us), ns(start_us) + ns(dur_us));
                line.spans.entry((pid, tid)).or_default().push((name, from, until));
            }
            Entry::Instant { name, .. } => line.instants.push(name),
            Entry::Counter { .. } => panic!("a run of the scheduler has no counters"),
        }
    }
    line
}

impl TimeLine {
    fn spans_of(&self, group: &str, track: &str) -> &[(String, u64, u64)] {
        let entry = self.tracks.iter().find(|((pid, _), name)| self.groups[pid] == group && *name == track);
        let (track, _) = entry.unwrap_or_else(|| panic!("{group} has {track}: {:?}", self.tracks));
        self.spans.get(track).map_or(&[], Vec::as_slice)
    }
}

/// The sum of the spans with these names.
fn total(spans: &[(String, u64, u64)], names: &[&str]) -> u64 {
    spans.iter().filter(|(name, ..)| names.contains(&&**name)).map(|(_, from, until)| until - from).sum()
}

#[test]
fn the_phases_of_jobs_add_up_to_their_outcomes() {
    let Some(door) = door_to_two(TRACE) else { return };
    door.exits(0, &format!("run trace.csv --policy srtf --switch-cost 50ms {ON_TWO}"));
    let line = read(&run(&door).trace_path());
    assert_eq!(line.groups.values().collect::<Vec<_>>(), ["devices", "jobs", "decisions"]);
    let outcomes = outcomes(&door);
    for row in &outcomes {
        let spans = line.spans_of("jobs", &row.name);
        // Microseconds with fractions hold a time to less than a nanosecond, and each span is rounded once.
        let is_close = |sum: u64, ns: Option<u64>| sum.abs_diff(ns.unwrap_or(0)) <= spans.len() as u64;
        assert!(is_close(total(spans, &["train"]), row.running_ns), "{row:?}: {spans:?}");
        assert!(is_close(total(spans, &["paused"]), row.paused_ns), "{row:?}: {spans:?}");
        let switching = total(spans, &["start", "pause", "resume", "stop", "end"]);
        assert!(is_close(switching, row.switching_ns), "{row:?}: {spans:?}");
        let launches = (1..=row.starts).map(|launch| format!("{}, launch {launch}", row.name));
        let drawn = spans.iter().map(|(name, ..)| name).filter(|name| name.contains(", launch "));
        assert_eq!(drawn.cloned().collect::<Vec<_>>(), launches.collect::<Vec<_>>());
    }
    let is_device = |track: &&Track| line.groups[&track.0] == "devices";
    let on_devices = line.spans.iter().filter(|(track, _)| is_device(track));
    let on_devices: u64 = on_devices.map(|(_, spans)| total(spans, &["train"])).sum();
    let expected: u64 =
        outcomes.iter().filter_map(|row| Some(row.running_ns? * u64::from(row.devices))).sum();
    assert!(on_devices.abs_diff(expected) <= 100, "{on_devices} and {expected}");
    let starts = line.instants.iter().filter(|name| name.contains(": start on cpu:")).count();
    assert_eq!(starts as u32, outcomes.iter().map(|row| row.starts).sum::<u32>(), "{:?}", line.instants);
    for spans in line.spans.values() {
        assert!(
            spans.iter().all(|one| spans.iter().all(|other| is_nested_or_apart(one, other))),
            "{spans:?}"
        );
    }
}

fn is_nested_or_apart(one: &(String, u64, u64), other: &(String, u64, u64)) -> bool {
    let ((_, a, b), (_, c, d)) = (one, other);
    // A neighbour may begin in the nanosecond in which a span ends.
    b <= &(c + 1) || d <= &(a + 1) || (a <= c && d <= &(b + 1)) || (c <= a && b <= &(d + 1))
}

#[test]
fn jobs_that_share_a_device_have_tracks_of_their_own() {
    let trace = "name,submit_s,job,command,steps,step_ns\na,0,short,,200,5000000\nb,0,short,,200,5000000\n";
    let door = door(trace);
    // Each is paused while the other has its turn, about ten times.
    let options = "--device cpu:0 --catalog catalog.toml --out r";
    door.exits(0, &format!("run trace.csv --policy gandiva:quantum=100ms {options}"));
    let line = read(&run(&door).trace_path());
    let names = |track: &str| -> Vec<String> {
        let spans = line.spans_of("devices", track).iter();
        spans.map(|(name, ..)| name.clone()).filter(|name| name.contains("launch")).collect()
    };
    assert_eq!(names("cpu:0"), ["a, launch 1"]);
    assert_eq!(names("cpu:0, job 2 at once"), ["b, launch 1"]);
}

#[test]
fn a_job_that_failed_for_good_no_longer_waits() {
    let door = door(
        "name,submit_s,job,command,steps,step_ns\nbad,0,dies,,50,5000000\ngood,0.1,short,,200,5000000\n",
    );
    door.exits(1, "run trace.csv --policy fifo --device cpu:0 --catalog catalog.toml --out r");
    let line = read(&run(&door).trace_path());
    let outcomes = outcomes(&door);
    let [bad, good] = &outcomes[..] else { panic!("two rows: {outcomes:?}") };
    assert_eq!((bad.status, good.status), (Status::Failed, Status::Ok), "{outcomes:?}");
    for row in [bad, good] {
        let spans = line.spans_of("jobs", &row.name);
        let queued = row.queued_ns.expect("it was admitted");
        assert!(total(spans, &["waits"]).abs_diff(queued) <= spans.len() as u64, "{row:?}: {spans:?}");
        let end = row.end_ns.expect("it has ended");
        assert!(spans.iter().all(|(_, _, until)| *until <= end + 1), "{row:?}: {spans:?}");
    }
    assert!(good.end_ns > bad.end_ns, "the run goes on after the failure: {outcomes:?}");
}

#[test]
fn a_time_line_that_cannot_be_written_changes_no_exit_code() {
    let door = door("name,submit_s,job,command,steps,step_ns\na,0,short,,100,5000000\n");
    let options = "--device cpu:0 --catalog catalog.toml --progress-every 200ms --out r";
    let command = door.command(&format!("run trace.csv {options}"));
    let held = Held::start(&door, command, (&starts(&[(0, "dp1", &[0])]), ""), "true");
    std::fs::create_dir(door.path("r/trace.json")).expect("the run is writable");
    let (code, said) = held.go_on();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("trace.json cannot be written"), "{said}");
}
