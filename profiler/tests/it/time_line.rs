//! The phases and the memory in `trace.json`.

use std::collections::BTreeMap;

use record::{
    rows::{self, HostSample},
    trace_events::{self, Entry},
};
use schema::{events, wire::Event};

/// Microseconds with a fraction, as whole nanoseconds.
fn ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// What Python reads of an event is what the format asks for.
const CHECK: &str = r#"
import json, sys
document = json.load(open(sys.argv[1]))
assert set(document) == {"displayTimeUnit", "traceEvents"}
needed = {"X": {"dur"}, "C": set(), "M": set(), "i": {"s"}}
for event in document["traceEvents"]:
    assert set(event) == {"name", "ph", "ts", "pid", "tid", "args"} | needed[event["ph"]], event
    assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int), event
    assert event["ts"] >= 0 and event.get("dur", 0) >= 0, event
print(len(document["traceEvents"]))
"#;

/// Begin and end of a step, and the name, begin and end of each of its phases.
type DrawnStep = (u64, u64, Vec<(String, u64, u64)>);

#[test]
fn phases_lie_within_their_step_one_after_another() {
    let door = crate::door();
    door.exits(0, "single synthetic-spin --device cpu:0 --steps 40 --repeats 1 --out r");
    let run = door.run("r");
    let entries = trace_events::read(&run.trace_path()).expect("it is a trace");
    let mut steps: BTreeMap<u64, DrawnStep> = BTreeMap::new();
    for entry in &entries {
        let Entry::Span { name, start_us, dur_us, .. } = entry else { continue };
        let (from, until) = (ns(*start_us), ns(*start_us) + ns(*dur_us));
        match name.strip_prefix("step ") {
            Some(index) => drop(steps.insert(index.parse().expect("a number"), (from, until, Vec::new()))),
            None => steps.values_mut().last().expect("a step before").2.push((name.clone(), from, until)),
        }
    }
    let launch = "0001-synthetic-spin";
    let mut checked = 0;
    for line in events::read(&run.events_path(launch, 0), 0).expect("the events are whole") {
        let Event::Step(step) = line.event else { continue };
        let Some((from, until, drawn)) = steps.get(&step.index) else { continue };
        let phases = step.phases.expect("the worker reports them");
        let recorded = [
            ("data", phases.data_ns),
            ("forward", phases.forward_ns),
            ("backward", phases.backward_ns),
            ("optimizer", phases.optimizer_ns),
        ];
        let expected: Vec<(&str, u64)> = recorded
            .into_iter()
            .filter_map(|(name, ns)| Some((name, ns?.0)))
            .filter(|(_, ns)| *ns > 0)
            .collect();
        if ns(0.0) == *from || drawn.is_empty() {
            continue;
        }
        let mut at = *from;
        for ((name, begin, end), (expected, length)) in drawn.iter().zip(&expected) {
            assert_eq!(
                (&**name, begin.abs_diff(at) <= 1),
                (*expected, true),
                "step {}: {drawn:?}",
                step.index
            );
            let clipped = (*length).min(until.saturating_sub(at));
            assert!((end - begin).abs_diff(clipped) <= 1, "step {}: {drawn:?} and {expected}", step.index);
            at = *end;
        }
        // Phases that would begin at the end of their step are not drawn.
        let is_full = until.saturating_sub(at) <= 1;
        assert!(
            drawn.len() == expected.len() || (drawn.len() < expected.len() && is_full),
            "step {}: {drawn:?} and {expected:?}",
            step.index
        );
        checked += 1;
    }
    assert!(checked >= 30, "{checked} steps have phases");
}

#[test]
fn memory_is_a_counter_of_its_launch_and_the_file_is_json_to_others() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --seconds 1 --repeats 2 --out r");
    let run = door.run("r");
    let entries = trace_events::read(&run.trace_path()).expect("it is a trace");
    let mut names = BTreeMap::new();
    let mut counted: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for entry in &entries {
        match entry {
            Entry::Process { pid, name } => drop(names.insert(*pid, name.clone())),
            Entry::Counter { pid, name, value, .. } if name == "rss_bytes of rank 0" => {
                counted.entry(names[pid].clone()).or_default().push(*value);
            }
            _ => {}
        }
    }
    let samples: Vec<HostSample> = rows::read_appended(&run.host_path()).expect("readings");
    for launch in run.launches().expect("there are launches") {
        let read = samples.iter().filter(|row| row.launch == launch).filter_map(|row| row.rss_bytes);
        let read: Vec<f64> = read.map(|bytes| bytes as f64).collect();
        assert!(!read.is_empty(), "{launch}");
        assert_eq!(counted.get(&launch), Some(&read), "{launch}");
    }
    let checked = std::process::Command::new("python3").args(["-c", CHECK]).arg(run.trace_path()).output();
    let Ok(output) = checked else {
        return schema::skips::skipped("python3", "there is no python3");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), entries.len().to_string());
}
