//! Writes, follows and checks the event files of the protocol in [`crate::wire`].

mod bounds;

use std::{
    fs::File,
    io::{self, BufRead, Read, Write},
    path::{Path, PathBuf},
};

use self::bounds::Bounds;
use crate::{
    line_file::LineFile,
    units::Nanos,
    wire::{Command, Event, EventLine, Step},
};

/// Far above any valid line. A program that writes to the file by mistake may exceed it.
const LONGEST_LINE_BYTES: usize = 1 << 20;
/// Bytes per read. At most this and one line are in memory, whatever a program writes.
const CHUNK_BYTES: u64 = 1 << 20;

impl EventLine {
    /// Parses a line of the file, without its line break.
    pub fn from_line(line: &[u8]) -> serde_json::Result<EventLine> {
        serde_json::from_slice(line)
    }
}

/// Appends events. An event is on file when `say` returns.
pub struct EventWriter {
    file: LineFile,
    rank: u32,
    line: Vec<u8>,
}

impl EventWriter {
    /// Opens the event file of one rank, which must be new or empty.
    pub fn create(path: &Path, rank: u32) -> io::Result<EventWriter> {
        Ok(EventWriter { file: LineFile::create(path)?, rank, line: Vec::with_capacity(512) })
    }

    /// Appends an event with the present time.
    pub fn say(&mut self, event: Event) -> io::Result<()> {
        self.say_at(Nanos::monotonic_now(), event)
    }

    /// Appends an event with the time `mono_ns`.
    pub fn say_at(&mut self, mono_ns: Nanos, event: Event) -> io::Result<()> {
        let line = EventLine { seq: self.file.lines(), rank: self.rank, mono_ns, event };
        self.line.clear();
        serde_json::to_writer(&mut self.line, &line)?;
        self.line.push(b'\n');
        // One write per line, so that a polling reader sees the whole line or an incomplete tail.
        self.file.append(&self.line, &[self.line.len()])
    }
}

/// The reason why an event file is invalid. Lines count from 1.
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
    #[error("{}: {cause}", file.display())]
    Io { file: PathBuf, cause: io::Error },
}

/// Follows a growing event file and checks every line.
pub struct EventReader {
    file: File,
    path: PathBuf,
    rank: u32,
    unread: Vec<u8>,
    next_seq: u64,
    bounds: Bounds,
}

impl EventReader {
    pub fn open(path: &Path, rank: u32) -> Result<EventReader, EventError> {
        let file = File::open(path).map_err(|cause| EventError::Io { file: path.into(), cause })?;
        Ok(EventReader {
            file,
            path: path.into(),
            rank,
            unread: Vec::new(),
            next_seq: 0,
            bounds: Bounds::default(),
        })
    }

    /// Appends the new complete lines to `out`, including those before an invalid line.
    pub fn poll(&mut self, out: &mut Vec<EventLine>) -> Result<(), EventError> {
        while self.poll_some(out)? {}
        Ok(())
    }

    /// Appends new complete lines as [`EventReader::poll`] does, but at most a megabyte of them. The result
    /// says whether there may be more.
    pub fn poll_some(&mut self, out: &mut Vec<EventLine>) -> Result<bool, EventError> {
        let read = (&mut self.file).take(CHUNK_BYTES).read_to_end(&mut self.unread);
        let read = read.map_err(|cause| EventError::Io { file: self.path.clone(), cause })?;
        self.parse_whole_lines(out)?;
        if self.unread.len() > LONGEST_LINE_BYTES {
            return Err(self.garbled("longer than any event", &self.unread));
        }
        Ok(read as u64 == CHUNK_BYTES)
    }

    fn parse_whole_lines(&mut self, out: &mut Vec<EventLine>) -> Result<(), EventError> {
        let mut unread = std::mem::take(&mut self.unread);
        let mut start = 0;
        let mut outcome = Ok(());
        while let Some(length) = unread[start..].iter().position(|&b| b == b'\n') {
            match self.parse(&unread[start..start + length]) {
                Ok(line) => out.push(line),
                Err(e) => {
                    outcome = Err(e);
                    break;
                }
            }
            self.next_seq += 1;
            start += length + 1;
        }
        unread.drain(..start);
        self.unread = unread;
        outcome
    }

    /// Checks the end of a file that is complete: an unfinished line is now an error.
    pub fn finish(&self) -> Result<(), EventError> {
        if self.unread.is_empty() {
            return Ok(());
        }
        Err(EventError::Torn { file: self.path.clone(), line: self.next_seq + 1, text: quote(&self.unread) })
    }

    fn parse(&mut self, text: &[u8]) -> Result<EventLine, EventError> {
        let line = EventLine::from_line(text).map_err(|e| self.garbled(&e.to_string(), text))?;
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
        self.bounds.check(&line).map_err(|why| self.garbled(&why, text))?;
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

/// Reads a complete event file.
pub fn read(path: &Path, rank: u32) -> Result<Vec<EventLine>, EventError> {
    let mut reader = EventReader::open(path, rank)?;
    let mut lines = Vec::new();
    reader.poll(&mut lines)?;
    reader.finish()?;
    Ok(lines)
}

/// The steps that all ranks have taken, by their events. A program of the user's takes some that no event tells of by itself, as it
/// is not known when they began.
pub fn steps_taken(ranks: &[Vec<EventLine>]) -> u64 {
    let of_rank = |events: &Vec<EventLine>| events.iter().map(steps_told).max().unwrap_or(0);
    ranks.iter().map(of_rank).min().unwrap_or(0)
}

/// The number of steps that a rank has taken, as far as this event tells.
pub fn steps_told(line: &EventLine) -> u64 {
    match line.event {
        Event::Step(Step { index, .. }) => index.saturating_add(1),
        Event::Held { index } => index,
        Event::Finished { steps, .. } => steps,
        _ => 0,
    }
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

/// Waits for the next command. `None` is the end of file, which means that the worker must exit.
pub fn read_command(mut from: impl BufRead) -> io::Result<Option<Command>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

#[cfg(test)]
mod tests;
