//! Traces of PyTorch's profiler: the time of each operator, and the time in which an operator was in progress.
//!
//! A trace is in the Chrome trace event format (see [`crate::trace_events`]). Of its spans, those of the category `cpu_op` are operators on
//! the host, and an operator within another on the same thread is called by it. Those of `kernel`, `gpu_memcpy` and `gpu_memset` are
//! work on a device, with the number of the operator that started it. One span of the category `Trace` is the whole recording. Times
//! are in microseconds, with fractions.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde::Deserialize;

use crate::{lines, rows::RowError};

/// The times of a recording, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorTimes {
    pub window_ns: f64,
    /// The time in which work of the device was in progress; without a device, an operator on any thread.
    pub busy_ns: f64,
    /// In the order of their names.
    pub operators: Vec<Operator>,
}

/// All calls of an operator together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operator {
    pub name: String,
    pub calls: u64,
    /// On the host, without operators that it calls.
    pub host_ns: f64,
    /// Of its work on the device; `None` if the recording has none of any operator.
    pub device_ns: Option<f64>,
}

#[derive(Deserialize)]
struct Trace<'a> {
    #[serde(borrow, rename = "traceEvents")]
    events: Vec<Span<'a>>,
}

#[derive(Deserialize)]
struct Span<'a> {
    #[serde(borrow)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    cat: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    pid: Option<Track>,
    #[serde(default)]
    tid: Option<Track>,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Details,
}

/// A process or thread, which has a number or a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(untagged)]
enum Track {
    Number(i64),
    Name(String),
}

#[derive(Default, Deserialize)]
struct Details {
    /// The number of an operator, and of the operator that started the work of a device.
    #[serde(rename = "External id", default)]
    operator: Option<ExternalId>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ExternalId {
    Whole(u64),
    /// In traces of versions that quote it.
    Text(String),
}

impl Details {
    fn operator(&self) -> Option<u64> {
        match self.operator.as_ref()? {
            ExternalId::Whole(number) => Some(*number),
            ExternalId::Text(text) => text.parse().ok(),
        }
    }
}

impl Span<'_> {
    fn end(&self) -> f64 {
        self.ts + self.dur
    }
}

const NS_PER_US: f64 = 1e3;

/// Reads the trace of a recording.
///
/// # Errors
/// The file cannot be read, is no such trace, or has no span of the whole recording.
pub fn read(path: &Path) -> Result<OperatorTimes, RowError> {
    let bytes = lines::read(path)?;
    let invalid =
        |line: usize, message: String| RowError::Row { file: path.into(), line: line as u64, message };
    let trace: Trace =
        serde_json::from_slice(&bytes).map_err(|error| invalid(error.line(), error.to_string()))?;
    times(&trace.events)
        .ok_or_else(|| invalid(1, "the trace of PyTorch's profiler has no span of its recording".into()))
}

/// The times of a recording; `None` without a span of the whole recording.
fn times(events: &[Span]) -> Option<OperatorTimes> {
    let spans = || events.iter().filter(|event| event.ph == "X");
    let window = spans().find(|span| span.cat == "Trace" && span.dur > 0.0)?;
    let host: Vec<&Span> = spans().filter(|span| span.cat == "cpu_op").collect();
    let device: Vec<&Span> =
        spans().filter(|span| matches!(&*span.cat, "kernel" | "gpu_memcpy" | "gpu_memset")).collect();
    let mut operators: BTreeMap<&str, Operator> = BTreeMap::new();
    let mut names: HashMap<u64, &str> = HashMap::new();
    for (span, own_us) in host.iter().zip(times_of_their_own(&host)) {
        let operator = operators.entry(&span.name).or_insert_with(|| Operator {
            name: span.name.clone().into_owned(),
            device_ns: (!device.is_empty()).then_some(0.0),
            ..Operator::default()
        });
        operator.calls += 1;
        operator.host_ns += own_us * NS_PER_US;
        names.extend(span.args.operator().map(|number| (number, &*span.name)));
    }
    for span in &device {
        let starter = span.args.operator().and_then(|number| operators.get_mut(names.get(&number)?));
        if let Some(ns) = starter.and_then(|operator| operator.device_ns.as_mut()) {
            *ns += span.dur * NS_PER_US;
        }
    }
    let busy = if device.is_empty() { &host } else { &device };
    Some(OperatorTimes {
        window_ns: window.dur * NS_PER_US,
        busy_ns: covered(busy, window) * NS_PER_US,
        operators: operators.into_values().collect(),
    })
}

/// The time of each span without spans within it on the same thread, in microseconds and in the order of `spans`.
fn times_of_their_own(spans: &[&Span]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    let place = |i: usize| (&spans[i].pid, &spans[i].tid);
    order.sort_by(|&a, &b| {
        let begin = spans[a].ts.total_cmp(&spans[b].ts);
        // Of two that begin together, the longer one calls the other.
        place(a).cmp(&place(b)).then(begin).then(spans[b].dur.total_cmp(&spans[a].dur))
    });
    let mut own: Vec<f64> = spans.iter().map(|span| span.dur).collect();
    let mut callers: Vec<usize> = Vec::new();
    for i in order {
        while callers
            .pop_if(|caller| place(*caller) != place(i) || spans[*caller].end() <= spans[i].ts)
            .is_some()
        {}
        if let Some(caller) = callers.last() {
            own[*caller] -= spans[i].dur;
        }
        callers.push(i);
    }
    own
}

/// The time within a window in which at least one of these spans is in progress, in microseconds.
fn covered(spans: &[&Span], window: &Span) -> f64 {
    let within = |time: f64| time.clamp(window.ts, window.end());
    let mut ends: Vec<(f64, f64)> = spans.iter().map(|span| (within(span.ts), within(span.end()))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut until = f64::NEG_INFINITY;
    ends.into_iter()
        .map(|(begin, end)| {
            let new = (end - begin.max(until)).max(0.0);
            until = until.max(end);
            new
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, thread: u32, (ts, dur): (f64, f64), number: u32) -> String {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 7, "tid": {thread}, "ts": {ts}, "dur": {dur},
                "args": {{"External id": {number}, "Ev Idx": 1}}}}"#
        )
    }

    fn trace(events: &[String]) -> Result<OperatorTimes, RowError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0001-a.0.json");
        let around = r#"{"ph": "X", "cat": "Trace", "ts": 1000.0, "dur": 100.5, "pid": "Spans", "tid": "PyTorch Profiler",
            "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
            {"ph": "M", "name": "process_name", "ts": 1000.0, "pid": 7, "tid": 0, "args": {"name": "python"}}"#;
        let text = format!(r#"{{"schemaVersion": 1, "traceEvents": [{around}, {}]}}"#, events.join(", "));
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn an_operator_has_its_time_without_those_it_calls() {
        let times = trace(&[
            operator("linear", 7, (1010.0, 30.0), 1),
            operator("addmm", 7, (1015.0, 20.0), 2),
            operator("copy", 7, (1016.0, 2.5), 3),
            operator("addmm", 7, (1060.0, 10.0), 4),
            // On another thread at the same time, and within no operator there.
            operator("mul", 8, (1020.0, 40.0), 5),
        ]);
        let times = times.unwrap();
        let rows: Vec<(&str, u64, f64)> =
            times.operators.iter().map(|row| (&*row.name, row.calls, row.host_ns)).collect();
        assert_eq!(
            rows,
            [("addmm", 2, 27_500.0), ("copy", 1, 2_500.0), ("linear", 1, 10_000.0), ("mul", 1, 40_000.0)]
        );
        // From 1010 to 1070 without a gap.
        assert_eq!((times.window_ns, times.busy_ns), (100_500.0, 60_000.0));
        assert!(times.operators.iter().all(|row| row.device_ns.is_none()));
    }

    #[test]
    fn work_on_a_device_belongs_to_the_operator_that_started_it() {
        let kernel = |category: &str, ts: f64, dur: f64, number: &str| {
            format!(
                r#"{{"ph": "X", "cat": "{category}", "name": "gemm", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur},
                    "args": {{"External id": {number}, "stream": 7}}}}"#
            )
        };
        let times = trace(&[
            operator("linear", 7, (1010.0, 30.0), 1),
            operator("addmm", 7, (1015.0, 20.0), 2),
            kernel("kernel", 1030.0, 25.0, "2"),
            kernel("gpu_memcpy", 1050.0, 10.0, "\"1\""),
            // Started by no operator.
            kernel("gpu_memset", 1090.0, 5.0, "9"),
        ]);
        let times = times.unwrap();
        let device: Vec<(&str, Option<f64>)> =
            times.operators.iter().map(|row| (&*row.name, row.device_ns)).collect();
        assert_eq!(device, [("addmm", Some(25_000.0)), ("linear", Some(10_000.0))]);
        // From 1030 to 1060, and 5 us of which no operator is known.
        assert_eq!(times.busy_ns, 35_000.0);
    }

    #[test]
    fn a_file_that_is_no_trace_is_refused_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0001-a.0.json");
        for (text, line, words) in [
            ("{\"traceEvents\": [\n{\"ph\": \"X\", \"ts\"", 2, "EOF while parsing"),
            ("{\"traceEvents\": []}", 1, "has no span of its recording"),
            ("{}", 1, "missing field `traceEvents`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("0001-a.0.json: line {line}: ")), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }
}
