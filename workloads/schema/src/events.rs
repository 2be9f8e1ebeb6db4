//! Writes, follows and checks the files that [`crate::wire`] events live in.

use std::{
    fs::File,
    io::{self, BufRead, Read, Write},
    path::{Path, PathBuf},
};

use crate::{
    units::Nanos,
    wire::{Command, Event, EventLine},
};

/// No honest line comes near it; a program that writes into our file by mistake would.
const LONGEST_LINE_BYTES: usize = 1 << 20;

/// Appends events; what it wrote is on file when `say` returns.
pub struct EventWriter {
    file: File,
    rank: u32,
    next_seq: u64,
    line: Vec<u8>,
}

impl EventWriter {
    /// Opens the event file of one rank, which must be new or empty.
    pub fn create(path: &Path, rank: u32) -> io::Result<EventWriter> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(EventWriter { file, rank, next_seq: 0, line: Vec::with_capacity(512) })
    }

    /// Stamps the event with the present and appends it.
    pub fn say(&mut self, event: Event) -> io::Result<()> {
        self.say_at(Nanos::monotonic_now(), event)
    }

    /// Appends an event that happened at `mono_ns`.
    pub fn say_at(&mut self, mono_ns: Nanos, event: Event) -> io::Result<()> {
        let line = EventLine { seq: self.next_seq, rank: self.rank, mono_ns, event };
        self.next_seq += 1;
        self.line.clear();
        serde_json::to_writer(&mut self.line, &line)?;
        self.line.push(b'\n');
        // One write a line: a reader that polls meanwhile sees all of it or a tail it waits for.
        self.file.write_all(&self.line)
    }
}

/// Why an event file cannot be believed. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("{}: line {line}: not an event: {detail}: {text:?}", file.display())]
    Garbled { file: PathBuf, line: u64, detail: String, text: String },
    #[error("{}: line {line}: events were lost: expected seq {expected}, found {found}", file.display())]
    Lost { file: PathBuf, line: u64, expected: u64, found: u64 },
    #[error("{}: line {line}: an event of rank {found} in the file of rank {expected}", file.display())]
    Rank { file: PathBuf, line: u64, expected: u32, found: u32 },
    #[error("{}: line {line}: torn: the file ends within a line: {text:?}", file.display())]
    Torn { file: PathBuf, line: u64, text: String },
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
}

/// Follows a growing event file and checks every line of it.
pub struct EventReader {
    file: File,
    path: PathBuf,
    rank: u32,
    unread: Vec<u8>,
    next_seq: u64,
}

impl EventReader {
    pub fn open(path: &Path, rank: u32) -> Result<EventReader, EventError> {
        let file = File::open(path).map_err(|source| EventError::Io { file: path.into(), source })?;
        Ok(EventReader { file, path: path.into(), rank, unread: Vec::new(), next_seq: 0 })
    }

    /// Appends the whole lines that are new to `out`. Lines before a bad one are appended too.
    pub fn poll(&mut self, out: &mut Vec<EventLine>) -> Result<(), EventError> {
        self.file
            .read_to_end(&mut self.unread)
            .map_err(|source| EventError::Io { file: self.path.clone(), source })?;
        let mut start = 0;
        let mut outcome = Ok(());
        while let Some(length) = self.unread[start..].iter().position(|&b| b == b'\n') {
            match self.parse(&self.unread[start..start + length]) {
                Ok(line) => out.push(line),
                Err(e) => {
                    outcome = Err(e);
                    break;
                }
            }
            self.next_seq += 1;
            start += length + 1;
        }
        self.unread.drain(..start);
        if outcome.is_ok() && self.unread.len() > LONGEST_LINE_BYTES {
            outcome = Err(self.garbled("longer than any event", &self.unread));
        }
        outcome
    }

    /// To be called when no more can come: an unfinished line is an error now.
    pub fn finish(&self) -> Result<(), EventError> {
        if self.unread.is_empty() {
            return Ok(());
        }
        Err(EventError::Torn { file: self.path.clone(), line: self.next_seq + 1, text: quote(&self.unread) })
    }

    fn parse(&self, text: &[u8]) -> Result<EventLine, EventError> {
        let line: EventLine = serde_json::from_slice(text).map_err(|e| self.garbled(&e.to_string(), text))?;
        if line.rank != self.rank {
            return Err(EventError::Rank {
                file: self.path.clone(),
                line: self.next_seq + 1,
                expected: self.rank,
                found: line.rank,
            });
        }
        if line.seq != self.next_seq {
            return Err(EventError::Lost {
                file: self.path.clone(),
                line: self.next_seq + 1,
                expected: self.next_seq,
                found: line.seq,
            });
        }
        Ok(line)
    }

    fn garbled(&self, detail: &str, text: &[u8]) -> EventError {
        EventError::Garbled {
            file: self.path.clone(),
            line: self.next_seq + 1,
            detail: detail.into(),
            text: quote(text),
        }
    }
}

/// Reads a file that no one writes any more, whole.
pub fn read(path: &Path, rank: u32) -> Result<Vec<EventLine>, EventError> {
    let mut reader = EventReader::open(path, rank)?;
    let mut lines = Vec::new();
    reader.poll(&mut lines)?;
    reader.finish()?;
    Ok(lines)
}

fn quote(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned()
}

/// Writes one command and flushes it.
pub fn write_command(mut to: impl Write, command: &Command) -> io::Result<()> {
    let mut line = serde_json::to_vec(command)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Waits for the next command; `None` is the end of file, which means leave now.
pub fn read_command(mut from: impl BufRead) -> io::Result<Option<Command>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{FailureKind, Hello, Memory, Phases, Ready, Statistics, Step, Timing};

    fn any_phases() -> impl Strategy<Value = Phases> {
        prop::collection::vec(prop::option::of(any::<u64>().prop_map(Nanos)), 7).prop_map(|v| Phases {
            data_ns: v[0],
            forward_ns: v[1],
            backward_ns: v[2],
            sync_total_ns: v[3],
            sync_exposed_ns: v[4],
            optimizer_ns: v[5],
            offload_ns: v[6],
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
            (any::<u32>(), text, text, prop::option::of(text), prop::option::of(text), any::<u32>())
                .prop_map(|(protocol, worker, version, libtorch, cuda, pid)| Event::Hello(Hello {
                    protocol,
                    worker,
                    version,
                    libtorch,
                    cuda,
                    pid
                })),
            any::<(u64, u64, Option<u64>, bool, u64)>().prop_map(
                |(parameters, model_bytes, peak_bytes, local, ns)| {
                    let statistics = local.then_some(Statistics::Local);
                    let (startup_ns, restore_ns) = (Nanos(ns), peak_bytes.map(Nanos));
                    Event::Ready(Ready {
                        parameters,
                        model_bytes,
                        peak_bytes,
                        statistics,
                        startup_ns,
                        restore_ns,
                    })
                }
            ),
            (
                any::<(u64, u64, u64)>(),
                any_loss(),
                prop::option::of(any_phases()),
                any::<Option<u64>>(),
                timing
            )
                .prop_map(
                    |((index, ns, samples), loss, phases, sent_bytes, timing)| Event::Step(Step {
                        index,
                        dur_ns: Nanos(ns),
                        samples,
                        loss,
                        phases,
                        sent_bytes,
                        timing
                    })
                ),
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
            (any::<(u64, u64)>(), any_loss()).prop_map(|((steps, samples), loss)| Event::Finished {
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
            let back = read(&path, rank).unwrap();
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
        writer.file.write_all(br#"{"seq":1,"rank":0,"#).unwrap();
        let mut lines = Vec::new();
        reader.poll(&mut lines).unwrap();
        assert_eq!(lines.len(), 1);
        let torn = reader.finish().unwrap_err().to_string();
        assert!(torn.ends_with(
            r#"0001-x.0.jsonl: line 2: torn: the file ends within a line: "{\"seq\":1,\"rank\":0,""#
        ));
        writer.file.write_all(b"\"mono_ns\":5,\"event\":{\"held\":{\"index\":1}}}\n").unwrap();
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
}
