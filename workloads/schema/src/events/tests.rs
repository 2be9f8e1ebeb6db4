//! Event files: what was written is read back, and what was not is refused by its line.

use proptest::prelude::*;

use super::*;
use crate::wire::{FailureKind, Hello, Memory, Phases, Ready, Statistics, Step, Timing};

fn any_phases() -> impl Strategy<Value = Phases> {
    prop::collection::vec(prop::option::of(any::<u64>().prop_map(Nanos)), 10).prop_map(|v| Phases {
        data_ns: v[0],
        forward_ns: v[1],
        backward_ns: v[2],
        sync_total_ns: v[3],
        sync_exposed_ns: v[4],
        optimizer_ns: v[5],
        offload_ns: v[6],
        tensor_ns: v[7],
        gather_ns: v[8],
        pipeline_ns: v[9],
    })
}

fn any_loss() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop::num::f64::NORMAL | prop::num::f64::ZERO)
}

fn any_event() -> impl Strategy<Value = Event> {
    let text = "\\PC{0,30}";
    let timing = prop::sample::select(vec![
        Timing::Host,
        Timing::DeviceEvent,
        Timing::Hook,
        Timing::HookDeviceEvent,
        Timing::Scraped,
        Timing::Outside,
    ]);
    let kind = prop::sample::select(vec![
        FailureKind::OutOfMemory,
        FailureKind::Unsupported,
        FailureKind::Data,
        FailureKind::Collective,
        FailureKind::Internal,
    ]);
    prop_oneof![
        (
            any::<u32>(),
            text,
            text,
            prop::option::of(text),
            prop::option::of(text),
            any::<(Option<u32>, u32)>()
        )
            .prop_map(|(protocol, worker, version, libtorch, cuda, (ranks, pid))| Event::Hello(
                Hello { protocol, worker, version, libtorch, cuda, ranks, pid }
            )),
        any::<(Option<u64>, Option<u64>, Option<u64>, bool, bool, u64)>().prop_map(
            |(parameters, model_bytes, peak_bytes, local, recurs, ns)| {
                let optimizer_bytes = model_bytes;
                let statistics = local.then_some(Statistics::Local);
                let fp32_layers = recurs.then(|| "LSTM".to_owned()).into_iter().collect();
                let (startup_ns, restore_ns) = (Nanos(ns), peak_bytes.map(Nanos));
                Event::Ready(Ready {
                    parameters,
                    model_bytes,
                    optimizer_bytes,
                    peak_bytes,
                    statistics,
                    fp32_layers,
                    startup_ns,
                    restore_ns,
                })
            }
        ),
        (
            any::<(u64, u64, Option<u64>)>(),
            any_loss(),
            prop::option::of(any_phases()),
            any::<Option<u64>>(),
            timing
        )
            .prop_map(|((index, ns, samples), loss, phases, sent_bytes, timing)| Event::Step(Step {
                index,
                dur_ns: Nanos(ns),
                samples,
                loss,
                phases,
                sent_bytes,
                timing
            })),
        any::<u64>().prop_map(|index| Event::Held { index }),
        any::<(u64, Option<u64>, u64, [Option<u64>; 2])>().prop_map(|(a, r, p, [h, n])| Event::Memory(
            Memory {
                allocated_bytes: a,
                reserved_bytes: r,
                peak_bytes: p,
                host_bytes: h,
                allocator_retries: n
            }
        )),
        any::<(u64, u64)>().prop_map(|(ns, b)| Event::Paused { dur_ns: Nanos(ns), bytes_freed: b }),
        any::<u64>().prop_map(|ns| Event::Resumed { dur_ns: Nanos(ns) }),
        any::<(u64, u64)>().prop_map(|(ns, bytes)| Event::Checkpointed { bytes, dur_ns: Nanos(ns) }),
        (any::<(u64, Option<u64>)>(), any_loss()).prop_map(|((steps, samples), loss)| Event::Finished {
            steps,
            samples,
            loss
        }),
        (kind, text).prop_map(|(kind, error)| Event::Failed { kind, error }),
    ]
}

proptest! {
    #[test]
    fn every_event_round_trips(events in prop::collection::vec(any_event(), 0..20), rank in 0u32..9) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut writer = EventWriter::create(&path, rank).unwrap();
        for (i, event) in events.iter().enumerate() {
            writer.say_at(Nanos(i as u64), event.clone()).unwrap();
        }
        // The tail holds arbitrary numbers, which the reader of a launch would refuse.
        let back = std::fs::read(&path).unwrap();
        let back = back.split_inclusive(|byte| *byte == b'\n').map(|line| EventLine::from_line(line).unwrap());
        let back: Vec<EventLine> = back.collect();
        prop_assert!(back.iter().all(|line| line.rank == rank));
        prop_assert_eq!(back.iter().map(|l| l.event.clone()).collect::<Vec<_>>(), events);
        prop_assert!(back.iter().enumerate().all(|(i, l)| l.seq == i as u64 && l.mono_ns == Nanos(i as u64)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        std::fs::write(&path, &bytes).unwrap();
        let _ = read(&path, 0);
    }

    #[test]
    fn commands_round_trip(path in "\\PC{0,30}") {
        for command in [Command::Pause {}, Command::Resume {}, Command::Stop {}, Command::Checkpoint { path }] {
            let mut bytes = Vec::new();
            write_command(&mut bytes, &command).unwrap();
            prop_assert_eq!(read_command(&bytes[..]).unwrap(), Some(command));
        }
        prop_assert_eq!(read_command(&b""[..]).unwrap(), None);
    }
}

#[test]
fn a_torn_line_waits_and_is_an_error_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0001-x.0.jsonl");
    let mut writer = EventWriter::create(&path, 0).unwrap();
    writer.say(Event::Held { index: 0 }).unwrap();
    let mut reader = EventReader::open(&path, 0).unwrap();
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(br#"{"seq":1,"rank":0,"#).unwrap();
    let mut lines = Vec::new();
    reader.poll(&mut lines).unwrap();
    assert_eq!(lines.len(), 1);
    let torn = reader.finish().unwrap_err().to_string();
    assert!(
        torn.ends_with(
            r#"0001-x.0.jsonl: line 2: torn: the file ends within a line: "{\"seq\":1,\"rank\":0,""#
        )
    );
    file.write_all(b"\"mono_ns\":5,\"event\":{\"held\":{\"index\":1}}}\n").unwrap();
    reader.poll(&mut lines).unwrap();
    reader.finish().unwrap();
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_lost_line_a_foreign_rank_and_garbage_name_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e.jsonl");
    let good = r#"{"seq":0,"rank":0,"mono_ns":5,"event":{"held":{"index":1}}}"#;
    for (second, message) in [
        (r#"{"seq":2,"rank":0,"mono_ns":5,"event":{"held":{"index":1}}}"#, "expected seq 1, found 2"),
        (r#"{"seq":1,"rank":3,"mono_ns":5,"event":{"held":{"index":1}}}"#, "an event of rank 3"),
        (r#"{"seq":1,"rank":0,"mono_ns":5,"event":{"sang":{}}}"#, "unknown variant `sang`"),
        (r#"{"seq":1,"rank":0,"mono_ns":5,"event":{"held":{"index":1,"x":1}}}"#, "unknown field `x`"),
        ("Epoch 1: loss 3.2", "not an event"),
    ] {
        std::fs::write(&path, format!("{good}\n{second}\n")).unwrap();
        let error = read(&path, 0).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains(message), "{error}");
    }
}

#[test]
fn a_file_longer_than_a_chunk_is_read_whole_and_endless_garbage_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e.jsonl");
    let mut writer = EventWriter::create(&path, 0).unwrap();
    let error = "x".repeat(LONGEST_LINE_BYTES / 2);
    for _ in 0..5 {
        writer.say(Event::Refused { error: error.clone() }).unwrap();
    }
    assert_eq!(read(&path, 0).unwrap().len(), 5);
    std::fs::write(&path, "x".repeat(5 * LONGEST_LINE_BYTES)).unwrap();
    let mut reader = EventReader::open(&path, 0).unwrap();
    let error = reader.poll(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("line 1: not an event: longer than any event"), "{error}");
    assert!(reader.unread.len() as u64 <= LONGEST_LINE_BYTES as u64 + CHUNK_BYTES);
}

/// Lines of a rank with steps of 10 ms, of which the third is different.
fn with_third(from: &str, to: &str) -> String {
    let step = |index: u64, dur_ns: u64| {
        format!(
            r#"{{"step":{{"index":{index},"dur_ns":{dur_ns},"samples":8,"phases":{{"data_ns":5}},"sent_bytes":7,"timing":"host"}}}}"#
        )
    };
    let memory = r#"{"memory":{"allocated_bytes":1,"peak_bytes":2}}"#.to_owned();
    let events = [r#"{"held":{"index":0}}"#.to_owned(), step(0, 10_000_000), step(1, 10_000_000), memory];
    let at = [5_000_000_000u64, 5_010_000_000, 5_020_000_000, 5_020_000_000];
    let line = |(seq, (event, at)): (usize, (&String, u64))| {
        format!("{{\"seq\":{seq},\"rank\":0,\"mono_ns\":{at},\"event\":{event}}}\n")
    };
    let mut lines: Vec<String> = events.iter().zip(at).enumerate().map(line).collect();
    assert!(from.is_empty() || lines[2].contains(from), "{}", lines[2]);
    lines[2] = lines[2].replacen(from, to, 1);
    lines.concat()
}

#[test]
fn impossible_steps_are_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e.jsonl");
    let dur = r#""dur_ns":10000000"#;
    for (from, to, message) in [
        (dur, r#""dur_ns":0"#, "dur_ns is 0, and no step takes no time"),
        (
            dur,
            r#""dur_ns":1100000000"#,
            "dur_ns is 1.10 s, and at most 1.01 s have passed since the step before it",
        ),
        (
            dur,
            r#""dur_ns":18446744073709551615"#,
            "dur_ns is 18446744073709551615, which is more than a hundred years",
        ),
        (
            r#""samples":8"#,
            r#""samples":18446744073709551615"#,
            "samples is 18446744073709551615, and no batch has more",
        ),
        (
            r#""sent_bytes":7"#,
            r#""sent_bytes":9223372036854775807"#,
            "sent_bytes is 9223372036854775807, which is more",
        ),
        (
            r#""data_ns":5"#,
            r#""data_ns":9223372036854775807"#,
            "data_ns is 9223372036854775807, which is more",
        ),
        (
            r#""data_ns":5"#,
            r#""pipeline_ns":9223372036854775807"#,
            "pipeline_ns is 9223372036854775807, which is more",
        ),
        (r#""index":1"#, r#""index":7"#, "index 7, where step 1 comes next"),
        ("5020000000", "5009999999", "the step ends at 5009999999 ns, before the one before it"),
    ] {
        std::fs::write(&path, with_third(from, to)).unwrap();
        let error = read(&path, 0).unwrap_err().to_string();
        assert!(error.contains("e.jsonl: line 3: not an event: ") && error.contains(message), "{error}");
    }
    for (from, to) in [
        ("", ""),
        // A process without a core reports late.
        (dur, r#""dur_ns":900000000"#),
        (r#""dur_ns":10000000,"samples":8"#, r#""dur_ns":0"#),
    ] {
        let lines = with_third(from, to);
        let lines = if to.contains("\":0") { lines.replace("host", "scraped") } else { lines };
        std::fs::write(&path, lines).unwrap();
        assert_eq!(read(&path, 0).unwrap().len(), 4, "{to}");
    }
}

#[test]
fn lengths_add_up_to_no_more_than_the_time_that_passed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e.jsonl");
    // Each step alone is possible. They are a tenth longer than the time between their ends.
    let step = |index: u64| {
        let at = 9_000_000_000 + index * 1_000_000_000;
        format!(
            "{{\"seq\":{index},\"rank\":0,\"mono_ns\":{at},\"event\":{{\"step\":{{\"index\":{index},\"dur_ns\":1100000000,\
             \"timing\":\"device-event\"}}}}}}\n"
        )
    };
    std::fs::write(&path, (0..40).map(step).collect::<String>()).unwrap();
    let error = read(&path, 0).unwrap_err().to_string();
    assert!(error.contains("not an event: dur_ns is 1.10 s, and at most"), "{error}");
}

#[test]
fn steps_that_are_seen_together_share_the_time_since_those_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e.jsonl");
    let held = r#"{"seq":0,"rank":0,"mono_ns":5000000000,"event":{"held":{"index":0}}}"#;
    // A program that prints the lines of twenty steps after five seconds.
    let write = |dur_ns: u64| {
        let step = |index: u64| {
            format!(
                "{{\"seq\":{},\"rank\":0,\"mono_ns\":10000000000,\"event\":{{\"step\":{{\"index\":{index},\
                 \"dur_ns\":{dur_ns},\"timing\":\"scraped\"}}}}}}\n",
                index + 1
            )
        };
        std::fs::write(&path, format!("{held}\n{}", (0..20).map(step).collect::<String>())).unwrap();
    };
    write(250_000_000);
    assert_eq!(read(&path, 0).unwrap().len(), 21);
    write(400_000_000);
    let error = read(&path, 0).unwrap_err().to_string();
    assert!(error.contains("not an event: dur_ns is 400 ms, and at most"), "{error}");
}
