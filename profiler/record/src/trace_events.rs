//! `trace.json`: the Chrome trace event format, which Perfetto (ui.perfetto.dev) and
//! `chrome://tracing` open. The source is "Trace Event Format", Google, 2016. Of that format, the reader accepts what the writer uses.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use schema::{
    unfinished::{self, Unfinished},
    units::Nanos,
};
use serde::{Deserialize, Serialize};

use crate::{lines, rows::RowError};

/// One event. The format has times in microseconds, with fractions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TraceEvent {
    name: String,
    ph: Phase,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// How much of the picture an instant crosses.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<Scope>,
    pid: u64,
    tid: u64,
    args: BTreeMap<String, Argument>,
}

/// The details of an event on a click.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    Number(f64),
    Text(String),
}

impl From<f64> for Argument {
    fn from(number: f64) -> Argument {
        Argument::Number(number)
    }
}

impl From<String> for Argument {
    fn from(text: String) -> Argument {
        Argument::Text(text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// A complete span.
    X,
    /// An instant.
    #[serde(rename = "i")]
    I,
    /// A counter.
    C,
    /// Metadata: the name of a process or thread.
    M,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Scope {
    /// The track of the instant alone.
    #[serde(rename = "t")]
    Thread,
}

const PROCESS_NAME: &str = "process_name";
const THREAD_NAME: &str = "thread_name";

/// Writes a trace event by event, so that memory does not grow with the run.
pub struct TraceWriter {
    out: BufWriter<File>,
    unfinished: Unfinished,
    origin: Nanos,
    first: bool,
}

impl TraceWriter {
    /// Begins the file. Its times count from `origin`.
    pub fn create(path: &Path, origin: Nanos) -> io::Result<TraceWriter> {
        let (file, unfinished) = unfinished::begin(path)?;
        let mut out = BufWriter::new(file);
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        Ok(TraceWriter { out, unfinished, origin, first: true })
    }

    /// Names a group of tracks: a launch, a device.
    pub fn name_process(&mut self, pid: u64, name: &str) -> io::Result<()> {
        self.name(PROCESS_NAME, (pid, 0), name)
    }

    /// Names a single track.
    pub fn name_thread(&mut self, track: (u64, u64), name: &str) -> io::Result<()> {
        self.name(THREAD_NAME, track, name)
    }

    fn name(&mut self, what: &str, track: (u64, u64), name: &str) -> io::Result<()> {
        let args = [("name".to_string(), Argument::Text(name.into()))].into();
        self.event(what.into(), Phase::M, (self.origin, None), track, args)
    }

    /// A span from `start` for `length`. Absent arguments are left out. Spans of a track lie within each other or apart.
    pub fn span<A: Into<Argument>>(
        &mut self,
        track: (u64, u64),
        name: String,
        (start, length): (Nanos, Nanos),
        args: impl IntoIterator<Item = (&'static str, Option<A>)>,
    ) -> io::Result<()> {
        self.event(name, Phase::X, (start, Some(length)), track, arguments(args))
    }

    pub fn instant<A: Into<Argument>>(
        &mut self,
        track: (u64, u64),
        name: String,
        at: Nanos,
        args: impl IntoIterator<Item = (&'static str, Option<A>)>,
    ) -> io::Result<()> {
        self.event(name, Phase::I, (at, None), track, arguments(args))
    }

    pub fn counter(&mut self, pid: u64, name: &str, at: Nanos, value: f64) -> io::Result<()> {
        let args = [("value".to_string(), Argument::Number(value))].into();
        self.event(name.into(), Phase::C, (at, None), (pid, 0), args)
    }

    /// Completes the document and moves it to its place.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        self.unfinished.put()
    }

    fn event(
        &mut self,
        name: String,
        ph: Phase,
        (at, length): (Nanos, Option<Nanos>),
        (pid, tid): (u64, u64),
        args: BTreeMap<String, Argument>,
    ) -> io::Result<()> {
        let micros = |ns: Nanos| ns.0 as f64 / 1e3;
        let ts = micros(at.saturating_sub(self.origin));
        let s = (ph == Phase::I).then_some(Scope::Thread);
        let event = TraceEvent { name, ph, ts, dur: length.map(micros), s, pid, tid, args };
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.out, &event)?;
        Ok(())
    }
}

fn arguments<A: Into<Argument>>(
    args: impl IntoIterator<Item = (&'static str, Option<A>)>,
) -> BTreeMap<String, Argument> {
    args.into_iter().filter_map(|(key, value)| Some((key.into(), value?.into()))).collect()
}

/// The file, as its format has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    display_time_unit: String,
    trace_events: Vec<TraceEvent>,
}

/// An event of a trace that was read. Times are in microseconds from the origin of the trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Process { pid: u64, name: String },
    Thread { pid: u64, tid: u64, name: String },
    Span { pid: u64, tid: u64, name: String, start_us: f64, dur_us: f64 },
    Instant { pid: u64, tid: u64, name: String, at_us: f64 },
    Counter { pid: u64, name: String, at_us: f64, value: f64 },
}

/// Reads a trace and checks it against the format: times are finite and not negative, spans have a length, counters a number, and
/// metadata a name.
///
/// # Errors
/// The file cannot be read, or an event is not as the format has it.
pub fn read(path: &Path) -> Result<Vec<Entry>, RowError> {
    let text = lines::read(path)?;
    let wrong = |line, message| RowError::Row { file: path.into(), line, message };
    let document: Document =
        serde_json::from_slice(&text).map_err(|error| wrong(error.line() as u64, error.to_string()))?;
    if document.display_time_unit != "ms" {
        return Err(wrong(1, format!("'{}' is no unit of time that is shown", document.display_time_unit)));
    }
    // The first line of the file has no event.
    document
        .trace_events
        .into_iter()
        .zip(2..)
        .map(|(event, line)| event.entry().map_err(|e| wrong(line, e)))
        .collect()
}

impl TraceEvent {
    fn entry(self) -> Result<Entry, String> {
        let is_time = |time: f64| time.is_finite() && time >= 0.0;
        if !is_time(self.ts) || !self.dur.is_none_or(is_time) {
            return Err("a time is negative or not finite".into());
        }
        let TraceEvent { name, ph, ts, dur, s, pid, tid, mut args } = self;
        if s.is_some() != (ph == Phase::I) {
            return Err(format!("'{name}' has a scope and is no instant, or is one without a scope"));
        }
        match (ph, dur, args.remove("value"), args.remove("name")) {
            (Phase::I, None, ..) => Ok(Entry::Instant { pid, tid, name, at_us: ts }),
            (Phase::X, Some(dur_us), ..) => Ok(Entry::Span { pid, tid, name, start_us: ts, dur_us }),
            (Phase::C, None, Some(Argument::Number(value)), _) => {
                Ok(Entry::Counter { pid, name, at_us: ts, value })
            }
            (Phase::M, None, _, Some(Argument::Text(of))) if name == PROCESS_NAME => {
                Ok(Entry::Process { pid, name: of })
            }
            (Phase::M, None, _, Some(Argument::Text(of))) if name == THREAD_NAME => {
                Ok(Entry::Thread { pid, tid, name: of })
            }
            _ => Err(format!(
                "'{name}' is no span with a length, no instant, no counter with a number and no name"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_reads_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        let mut writer = TraceWriter::create(&path, Nanos(1_000)).unwrap();
        writer.name_process(1, "0001-a").unwrap();
        let args = [("loss", Some(0.5)), ("data_ns", None)];
        writer.span((1, 0), "step 0".into(), (Nanos(3_500), Nanos(250)), args).unwrap();
        writer.counter(2, "util", Nanos(4_000), 97.5).unwrap();
        writer.name_thread((1, 0), "rank 0").unwrap();
        writer.instant((1, 0), "stop".into(), Nanos(5_000), [("why", Some("full".to_owned()))]).unwrap();
        writer.finish().unwrap();

        let document: Document = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let [named, span, counter, _, instant] = &document.trace_events[..] else { panic!("five events") };
        assert_eq!((instant.ph, instant.s, instant.ts), (Phase::I, Some(Scope::Thread), 4.0));
        assert_eq!(instant.args, [("why".to_string(), Argument::Text("full".into()))].into());
        assert_eq!((named.ph, &named.args["name"]), (Phase::M, &Argument::Text("0001-a".into())));
        assert_eq!((span.ph, span.ts, span.dur), (Phase::X, 2.5, Some(0.25)));
        assert_eq!(
            (counter.ph, counter.ts, &counter.args["value"]),
            (Phase::C, 3.0, &Argument::Number(97.5))
        );
        assert_eq!(span.args, [("loss".to_string(), Argument::Number(0.5))].into());
        let entries = [
            Entry::Process { pid: 1, name: "0001-a".into() },
            Entry::Span { pid: 1, tid: 0, name: "step 0".into(), start_us: 2.5, dur_us: 0.25 },
            Entry::Counter { pid: 2, name: "util".into(), at_us: 3.0, value: 97.5 },
            Entry::Thread { pid: 1, tid: 0, name: "rank 0".into() },
            Entry::Instant { pid: 1, tid: 0, name: "stop".into(), at_us: 4.0 },
        ];
        assert_eq!(read(&path).unwrap(), entries);
    }

    #[test]
    fn what_the_format_does_not_have_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        let event = r#"{"name":"a","ph":"X","ts":1.0,"dur":2.0,"pid":1,"tid":0,"args":{}}"#;
        for (from, to) in [
            ("\"dur\":2.0,", ""),
            ("2.0", "-2.0"),
            ("\"X\"", "\"Y\""),
            ("\"X\",\"ts\":1.0,\"dur\":2.0", "\"i\",\"ts\":1.0"),
            ("\"X\",\"ts\":1.0,\"dur\":2.0", "\"C\",\"ts\":1.0"),
            ("\"tid\"", "\"thread\""),
        ] {
            let text =
                |event: &str| format!("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{event}\n]}}\n");
            std::fs::write(&path, text(event)).unwrap();
            assert_eq!(read(&path).unwrap().len(), 1);
            std::fs::write(&path, text(&event.replace(from, to))).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("line 2"), "{from}");
        }
    }
}
