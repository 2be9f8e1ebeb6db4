//! A million lines that are almost events: none of them makes the reader panic, and what it takes for an event is one.

use schema::wire::EventLine;

const LINES: usize = 1_000_000;

/// One example of each kind, from which the tests derive others.
const EVENTS: [&str; 14] = [
    r#"{"hello":{"protocol":1,"worker":"w","version":"0.1","libtorch":"2.11.0","cuda":"13.0","pid":7}}"#,
    r#"{"hello":{"protocol":1,"worker":"python-hook","version":"0.1","ranks":2,"pid":7}}"#,
    r#"{"ready":{"parameters":5,"model_bytes":20,"optimizer_bytes":40,"peak_bytes":9,"statistics":"local","fp32_layers":["LSTM"],"startup_ns":3}}"#,
    r#"{"step":{"index":3,"dur_ns":13400000,"samples":64,"loss":2.31,"timing":"device-event"}}"#,
    r#"{"step":{"index":0,"dur_ns":1,"samples":0,"phases":{"data_ns":1,"offload_ns":2,"tensor_ns":3,"gather_ns":4,"pipeline_ns":5},"timing":"host"}}"#,
    r#"{"step":{"index":0,"dur_ns":1,"timing":"hook"}}"#,
    r#"{"held":{"index":18446744073709551615}}"#,
    r#"{"memory":{"allocated_bytes":1,"reserved_bytes":2,"peak_bytes":3,"host_bytes":4}}"#,
    r#"{"paused":{"dur_ns":1,"bytes_freed":2}}"#,
    r#"{"resumed":{"dur_ns":1}}"#,
    r#"{"checkpointed":{"bytes":1,"dur_ns":2}}"#,
    r#"{"refused":{"error":"the \"disk\" is full\n\u00e4"}}"#,
    r#"{"finished":{"steps":1,"samples":2,"loss":1e-3}}"#,
    r#"{"failed":{"kind":"out-of-memory","error":"x"}}"#,
];

/// Inputs on which JSON parsers have failed.
const PIECES: [&str; 20] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "true",
    "NaN",
    "1e999",
    "-0",
    "-1",
    "0.1",
    "99999999999999999999",
    "\\ud800",
    "\u{0}",
    "\u{e4}",
    "[[[[[[[[[[[[[[[[",
];

/// A line of `chance`: an event with a random number of changes, which may be 0.
fn line(chance: &mut fastrand::Rng) -> Vec<u8> {
    let event = EVENTS[chance.usize(..EVENTS.len())];
    let seq = chance.u64(..);
    let mut line = format!(r#"{{"seq":{seq},"rank":0,"mono_ns":5,"event":{event}}}"#).into_bytes();
    for _ in 0..chance.usize(..4) {
        let (at, to) = (chance.usize(..line.len()), chance.usize(..line.len()));
        let (from, to) = (at.min(to), at.max(to));
        match chance.u8(..5) {
            0 => line[at] = chance.u8(..),
            1 => drop(line.drain(from..to)),
            2 => line.extend_from_within(from..to),
            3 => drop(line.splice(at..at, PIECES[chance.usize(..PIECES.len())].bytes())),
            _ => drop(line.splice(from..to, PIECES[chance.usize(..PIECES.len())].bytes())),
        }
        if line.is_empty() {
            break;
        }
    }
    line
}

#[test]
fn no_line_panics_and_what_is_read_is_what_is_written() {
    let mut chance = fastrand::Rng::with_seed(1);
    let mut events = 0;
    for _ in 0..LINES {
        let line = line(&mut chance);
        let Ok(event) = EventLine::from_line(&line) else { continue };
        events += 1;
        let written = serde_json::to_vec(&event).expect("what was read can be written");
        let again = EventLine::from_line(&written).expect("what was written can be read");
        assert_eq!(again, event, "{}", String::from_utf8_lossy(&line));
    }
    // Otherwise nearly every line would be refused at its first bytes, or none would be.
    assert!((LINES / 10..LINES * 9 / 10).contains(&events), "{events} of {LINES} are events");
}
