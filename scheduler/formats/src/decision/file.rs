//! Reads and writes `decisions.jsonl`, one turn per line.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use record::{
    lines::{self, LONGEST_LINE_BYTES},
    rows::RowError,
};
use schema::{line_file::LineFile, units::Nanos};

use super::Turn;

/// The size of the blocks of [`TurnWriter::in_blocks`].
const BLOCK_BYTES: usize = 1 << 20;

/// Appends turns. Each is on file when `write` returns, so that it survives the process that wrote it, unless they are written in blocks.
pub struct TurnWriter {
    file: LineFile,
    path: PathBuf,
    /// Turns that are not on file yet, and where each of them ends.
    lines: Vec<u8>,
    ends: Vec<usize>,
    block_bytes: usize,
}

impl TurnWriter {
    /// Opens the file for appending. A torn line that a killed writer left is cut off first.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path) -> Result<TurnWriter, RowError> {
        let (file, _) = LineFile::open(path).map_err(|cause| RowError::Write { file: path.into(), cause })?;
        let lines = Vec::with_capacity(512);
        Ok(TurnWriter { file, path: path.into(), lines, ends: Vec::new(), block_bytes: 0 })
    }

    /// Collects turns and writes a megabyte of them at once. A reader sees the last turns only after [`TurnWriter::finish`].
    pub fn in_blocks(self) -> TurnWriter {
        TurnWriter { block_bytes: BLOCK_BYTES, ..self }
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, turn: &Turn) -> Result<(), RowError> {
        let append = |cause| RowError::Write { file: self.path.clone(), cause };
        serde_json::to_writer(&mut self.lines, turn).map_err(|error| append(error.into()))?;
        self.lines.push(b'\n');
        self.ends.push(self.lines.len());
        if self.lines.len() < self.block_bytes { Ok(()) } else { self.finish() }
    }

    /// Writes the turns that are not on file yet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> Result<(), RowError> {
        // One write, so that a concurrent reader sees whole lines or an incomplete tail.
        let written = self.file.append(&self.lines, &self.ends);
        self.lines.clear();
        self.ends.clear();
        written.map_err(|cause| RowError::Write { file: self.path.clone(), cause })
    }
}

/// Reads all turns up to the last complete line. A killed writer may have left an incomplete one after it.
///
/// # Errors
/// The file cannot be read, a line is no turn, turns are missing between two lines, or a turn is earlier than the one before it or
/// later than [`Nanos::LONGEST`].
pub fn read(path: &Path) -> Result<Vec<Turn>, RowError> {
    let mut turns = Vec::new();
    read_each(path, |turn| turns.push(turn))?;
    Ok(turns)
}

/// Reads all turns as [`read`] does, one after the other, so that a long journal is never in memory as a whole.
///
/// # Errors
/// See [`read`]. The turns before the error have been visited.
pub fn read_each(path: &Path, mut visit: impl FnMut(Turn)) -> Result<(), RowError> {
    let broken = |cause| RowError::Io { file: path.into(), cause };
    let mut file = BufReader::new(File::open(path).map_err(broken)?);
    let (mut line, mut before) = (Vec::new(), Nanos::ZERO);
    for number in 0.. {
        line.clear();
        let most = LONGEST_LINE_BYTES as u64 + 1;
        file.by_ref().take(most).read_until(b'\n', &mut line).map_err(broken)?;
        if line.last() != Some(&b'\n') {
            let is_too_long = line.len() as u64 == most;
            let too_long =
                || RowError::Row { file: path.into(), line: number + 1, message: lines::too_long() };
            return if is_too_long { Err(too_long()) } else { Ok(()) };
        }
        let turn = turn(path, &line, number, before)?;
        before = turn.at_ns;
        visit(turn);
    }
    Ok(())
}

/// Parses the turn `number`, which is not earlier than `before`, nor later than a run can last.
fn turn(path: &Path, line: &[u8], number: u64, before: Nanos) -> Result<Turn, RowError> {
    let wrong = |message| RowError::Row { file: path.into(), line: number + 1, message };
    let turn: Turn = serde_json::from_slice(line).map_err(|e| wrong(format!("not a turn: {e}")))?;
    if turn.turn != number {
        return Err(wrong(format!("turns were lost: expected turn {number}, found {}", turn.turn)));
    }
    if turn.at_ns < before {
        let (at, before) = (turn.at_ns.0, before.0);
        return Err(wrong(format!(
            "at_ns is {at}, and the turn before it was at {before}: no clock of a run goes back"
        )));
    }
    if turn.at_ns > Nanos::LONGEST {
        return Err(wrong(format!("at_ns is {}: no run lasts that long", turn.at_ns.0)));
    }
    Ok(turn)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use record::rows::ErrorKind;

    use super::*;
    use crate::decision::{Action, ClusterEvent, DeviceId, JobId, Refused, Settled, Share};

    fn any_action() -> impl Strategy<Value = Action> {
        let job = || any::<u32>().prop_map(JobId);
        let devices = prop::collection::vec(any::<u32>().prop_map(DeviceId), 0..4);
        let plan = prop::option::of(crate::any_plan::any_plan());
        prop_oneof![
            (job(), devices, prop::option::of(any::<u16>()), plan)
                .prop_map(|(job, devices, cpus, plan)| Action::Start { job, devices, cpus, plan }),
            job().prop_map(|job| Action::Pause { job }),
            job().prop_map(|job| Action::Resume { job }),
            (job(), any::<bool>()).prop_map(|(job, checkpoint)| Action::Stop { job, checkpoint }),
            job().prop_map(|job| Action::End { job }),
            (job(), 1..=1000u16).prop_map(|(job, share)| {
                let share = Share::new(f64::from(share) / 1000.0).expect("it is a share");
                Action::Throttle { job, share }
            }),
        ]
    }

    fn any_event() -> impl Strategy<Value = ClusterEvent> {
        let (job, device) = (any::<u32>().prop_map(JobId), any::<u32>().prop_map(DeviceId));
        let kind = prop::sample::select(ErrorKind::ALL);
        let settled = prop::sample::select(vec![Settled::Running, Settled::Paused, Settled::Stopped]);
        let steps = (any::<u64>(), prop::option::of(-1e9..1e9f64));
        (0..8u8, job, device, steps, kind, settled, "\\PC{0,20}").prop_map(
            |(which, job, device, (steps, loss), kind, now, detail)| match which {
                0 => ClusterEvent::Finished { job, steps },
                1 => ClusterEvent::Failed { job, steps, kind, detail },
                2 => ClusterEvent::DeviceLost { device },
                3 => ClusterEvent::DeviceBack { device },
                4 => ClusterEvent::Settled { job, now, steps },
                5 => ClusterEvent::Arrived { job },
                6 => ClusterEvent::Progress { job, steps, loss },
                _ => ClusterEvent::Deadline,
            },
        )
    }

    fn any_turns() -> impl Strategy<Value = Vec<Turn>> {
        let refused =
            (any_action(), "\\PC{0,20}").prop_map(|(action, why): (Action, String)| Refused { action, why });
        let turn = (
            (any::<u64>(), prop::option::of(any::<u64>())),
            prop::collection::vec(any_event(), 1..4),
            prop::collection::vec(any_action(), 0..3),
            prop::collection::vec(refused, 0..2),
            prop::option::of(any::<u64>()),
            ("\\PC{0,20}", prop::collection::btree_map(any::<u32>().prop_map(JobId), "\\PC{0,20}", 0..3)),
        );
        let turn = turn.prop_map(|((at, model_version), events, actions, refused, wake, said)| Turn {
            turn: 0,
            at_ns: Nanos(at % (Nanos::LONGEST.0 + 1)),
            model_version,
            events,
            actions,
            refused,
            wake_at_ns: wake.map(Nanos),
            reason: said.0,
            explain: said.1,
            view_hash: "0123456789abcdef".into(),
        });
        prop::collection::vec(turn, 0..6).prop_map(|mut turns| {
            turns.sort_by_key(|turn| turn.at_ns);
            turns.iter_mut().zip(0..).for_each(|(turn, number)| turn.turn = number);
            turns
        })
    }

    proptest! {
        #[test]
        fn every_journal_round_trips_and_bears_a_torn_line(turns in any_turns(), torn in 1usize..40) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("decisions.jsonl");
            for turn in &turns {
                TurnWriter::open(&path).unwrap().write(turn).unwrap();
            }
            if turns.is_empty() {
                drop(TurnWriter::open(&path).unwrap());
            }
            prop_assert_eq!(read(&path).unwrap(), turns.clone());
            let whole = std::fs::read(&path).unwrap();
            let at_once = folder.path().join("at-once.jsonl");
            let mut writer = TurnWriter::open(&at_once).unwrap().in_blocks();
            turns.iter().for_each(|turn| writer.write(turn).unwrap());
            prop_assert_eq!(std::fs::read(&at_once).unwrap(), b"");
            writer.finish().unwrap();
            prop_assert_eq!(&std::fs::read(&at_once).unwrap(), &whole);
            let line = serde_json::to_vec(turns.last().unwrap_or(&example(0))).unwrap();
            std::fs::write(&path, [&whole[..], &line[..torn]].concat()).unwrap();
            prop_assert_eq!(read(&path).unwrap(), turns);
            drop(TurnWriter::open(&path).unwrap());
            prop_assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
    }

    fn example(turn: u64) -> Turn {
        Turn {
            turn,
            at_ns: Nanos(5),
            model_version: None,
            events: vec![ClusterEvent::Arrived { job: JobId(0) }],
            actions: vec![Action::Pause { job: JobId(1) }],
            refused: Vec::new(),
            wake_at_ns: None,
            reason: String::new(),
            explain: Default::default(),
            view_hash: "0123456789abcdef".into(),
        }
    }

    /// A file of the present format, which later programs must read.
    #[test]
    fn a_line_reads_as_it_is_written() {
        let line = r#"{"turn":0,"at_ns":5,"events":[{"arrived":{"job":0}}],"actions":[{"pause":{"job":1}}],"wake_at_ns":null,"view_hash":"0123456789abcdef"}"#;
        assert_eq!(serde_json::to_string(&example(0)).unwrap(), line);
        assert_eq!(serde_json::from_str::<Turn>(line).unwrap(), example(0));
        let explaining = Turn { explain: [(JobId(1), "has run longest".into())].into(), ..example(0) };
        let explained = line.replace(r#","view_hash""#, r#","explain":{"1":"has run longest"},"view_hash""#);
        assert_eq!(serde_json::to_string(&explaining).unwrap(), explained);
        let believing = Turn { model_version: Some(3), ..example(0) };
        let line = line.replace(r#""at_ns":5,"#, r#""at_ns":5,"model_version":3,"#);
        assert_eq!(serde_json::to_string(&believing).unwrap(), line);
        assert_eq!(serde_json::from_str::<Turn>(&line).unwrap(), believing);
    }

    #[test]
    fn a_line_with_one_event_outside_of_a_list_is_read() {
        let line = |happened: &str| {
            format!(r#"{{"turn":0,"at_ns":5,"happened":{happened},"wake_at_ns":null,"view_hash":"0"}}"#)
        };
        for (spelled, event) in [
            (r#"{"arrived":{"job":3}}"#, ClusterEvent::Arrived { job: JobId(3) }),
            (r#""deadline""#, ClusterEvent::Deadline),
        ] {
            let turn: Turn = serde_json::from_str(&line(spelled)).unwrap();
            assert_eq!(turn.events, [event]);
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let first = serde_json::to_string(&example(0)).unwrap();
        for (second, message) in [
            (first.clone(), "decisions.jsonl: line 2: turns were lost: expected turn 1, found 0"),
            ("{}".into(), "line 2: not a turn: missing field"),
            (first.replace("arrived", "arised").replacen('0', "1", 1), "line 2: not a turn: unknown variant"),
            (
                first.replacen('0', "1", 1).replace(r#""at_ns":5"#, r#""at_ns":4"#),
                "line 2: at_ns is 4, and the turn before it was at 5",
            ),
            (first.replace(r#"{"arrived":{"job":0}}"#, ""), "line 2: not a turn: a turn without an event"),
        ] {
            std::fs::write(&path, format!("{first}\n{second}\n")).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
