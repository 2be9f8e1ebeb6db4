//! Reads the events of one rank, and checks that they follow the protocol.

use std::{path::Path, time::Duration};

use record::rows::ErrorKind;
use schema::{
    events::{EventError, EventReader},
    units::Nanos,
    wire::{Command, Event, EventLine, FailureKind, PROTOCOL},
};

/// The number of steps that a rank which says `ready` may report beyond its grant before it counts as one that ignores the grant.
/// The step hook reports a few when another optimizer takes over the count, and one for each thread that trains.
const MOST_BEYOND_GRANT: u32 = 128;

/// The tolerance in the comparison of an event's time with the clock of the harness. Both are readings of one clock, but the time of a
/// step on a GPU is computed from the clock of the device.
const CLOCKS_AGREE_WITHIN: Nanos = Nanos::SECOND;

/// A fault of a rank: its kind, and a description.
pub(super) type Fault = (ErrorKind, String);

/// The writer of a rank's event file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// A worker, which must write events.
    Worker,
    /// The hook in a program of the user's, which writes `hello` late or never.
    Hook,
    /// The harness, for a program whose output has its steps. The program does not obey grants.
    Scraper,
}

pub(super) struct Listener {
    reader: EventReader,
    speaker: Speaker,
    /// When its launch began. No event is older.
    began: Nanos,
    /// Whether an error occurred. Nothing is read after it, because later events have no meaning.
    broken: bool,
    greeted: bool,
    /// The process that wrote `hello`.
    pid: Option<u32>,
    ready: bool,
    /// The number of completed steps when it last came to rest.
    rested_at: Option<u64>,
    paused: bool,
    owes_reply: bool,
    said_last_word: bool,
    /// The number of steps beyond its grant since it last rested.
    beyond_grant: u32,
    /// The time of its last event but `memory`, which is no progress, or of the last grant or command to it.
    fresh_at: Nanos,
}

impl Listener {
    pub(super) fn open(
        events: &Path,
        rank: u32,
        speaker: Speaker,
        began: Nanos,
    ) -> Result<Listener, EventError> {
        Ok(Listener {
            reader: EventReader::open(events, rank)?,
            speaker,
            began,
            broken: false,
            greeted: false,
            pid: None,
            ready: false,
            rested_at: None,
            paused: false,
            owes_reply: false,
            said_last_word: false,
            beyond_grant: 0,
            fresh_at: Nanos::monotonic_now(),
        })
    }

    /// Appends new events to `out`, up to the first line that breaks the protocol. `granted` is the number of steps that the rank may
    /// complete.
    pub(super) fn poll(&mut self, out: &mut Vec<EventLine>, granted: u64) -> Result<(), Fault> {
        if self.broken {
            return Ok(());
        }
        let from = out.len();
        let mut outcome = self.reader.poll(out).map_err(|error| fault_of(&error));
        let now = Nanos::monotonic_now();
        if out[from..].iter().any(|line| !matches!(line.event, Event::Memory(_))) {
            self.fresh_at = now;
        }
        for (index, line) in out.iter().enumerate().skip(from) {
            let checked = self.check_clock(line, now).and_then(|()| self.on_event(&line.event, granted));
            if let Err(fault) = checked {
                out.truncate(index);
                outcome = Err(fault);
                break;
            }
        }
        self.broken = outcome.is_err();
        outcome
    }

    /// Reads the rest after the rank has ended: an incomplete line is an error now.
    pub(super) fn finish(&mut self, out: &mut Vec<EventLine>, granted: u64) -> Result<(), Fault> {
        self.poll(out, granted)?;
        if self.broken { Ok(()) } else { self.reader.finish().map_err(|error| fault_of(&error)) }
    }

    /// Checks that an event that was read at `now` happened between the start of the launch and then. Otherwise the program has
    /// another clock than the harness, and its times cannot be compared with readings of devices.
    fn check_clock(&self, line: &EventLine, now: Nanos) -> Result<(), Fault> {
        let EventLine { mono_ns, event, .. } = line;
        let age = now.saturating_sub(self.began);
        if let Event::Ready(ready) = event
            && ready.startup_ns > age + CLOCKS_AGREE_WITHIN
        {
            let startup_ns = ready.startup_ns;
            let what = format!(
                "has another clock than the harness: it was ready {startup_ns} after its start, which was {age} ago"
            );
            return Err((ErrorKind::Clock, what));
        }
        let (apart, direction) = if *mono_ns > now + CLOCKS_AGREE_WITHIN {
            (*mono_ns - now, "ahead of")
        } else if *mono_ns + CLOCKS_AGREE_WITHIN < self.began {
            (self.began - *mono_ns, "behind")
        } else {
            return Ok(());
        };
        let name = event.name();
        let what = format!(
            "has another clock than the harness: the time of its '{name}' is at least {apart} {direction} that of the harness"
        );
        Err((ErrorKind::Clock, what))
    }

    fn on_event(&mut self, event: &Event, granted: u64) -> Result<(), Fault> {
        if self.said_last_word {
            return Err((ErrorKind::Garbled, format!("went on after its last word with '{}'", event.name())));
        }
        match event {
            Event::Hello(hello) if !self.greeted => {
                self.greeted = true;
                self.pid = Some(hello.pid);
                if hello.protocol != PROTOCOL {
                    let (worker, theirs) = (&hello.worker, hello.protocol);
                    let what = format!("{worker} speaks protocol {theirs}, and this program {PROTOCOL}");
                    return Err((ErrorKind::Protocol, what));
                }
            }
            _ if !self.greeted => {
                return Err((
                    ErrorKind::Protocol,
                    format!("did not say hello first, but '{}'", event.name()),
                ));
            }
            Event::Hello(_) => return Err((ErrorKind::Protocol, "said hello twice".into())),
            Event::Ready(_) => {
                self.ready = true;
                self.rested_at = Some(0);
                self.beyond_grant = 0;
            }
            Event::Held { index } => {
                self.rested_at = Some(*index);
                self.beyond_grant = 0;
            }
            Event::Paused { .. }
            | Event::Resumed { .. }
            | Event::Checkpointed { .. }
            | Event::Refused { .. }
                if !self.owes_reply =>
            {
                let what = format!("answered '{}' without a command", event.name());
                return Err((ErrorKind::Protocol, what));
            }
            Event::Paused { .. } => {
                self.paused = true;
                self.owes_reply = false;
            }
            Event::Resumed { .. } => {
                self.paused = false;
                self.owes_reply = false;
            }
            Event::Checkpointed { .. } | Event::Refused { .. } => self.owes_reply = false,
            Event::Step(step) if self.ready && step.index >= granted => {
                self.beyond_grant += 1;
                if self.beyond_grant > MOST_BEYOND_GRANT {
                    let (beyond, index) = (self.beyond_grant, step.index);
                    let what = format!(
                        "ignores its grant: it may complete {granted} steps, and has taken {beyond} more, up to \
                         step {index}, without a rest"
                    );
                    return Err((ErrorKind::Protocol, what));
                }
            }
            Event::Step(_) | Event::Memory(_) => {}
            Event::Finished { .. } | Event::Failed { .. } => self.said_last_word = true,
        }
        Ok(())
    }

    /// Records that the rank got a grant or a command just now. A command must be answered.
    pub(super) fn told(&mut self, command: Option<&Command>) {
        self.fresh_at = Nanos::monotonic_now();
        self.owes_reply |= command.is_some();
    }

    /// Whether a command may be sent: the rank waits for steps beyond `granted`, or is paused.
    pub(super) fn at_rest(&self, granted: u64) -> bool {
        let rests = self.paused || self.rested_at.is_some_and(|done| done >= granted);
        rests && !self.owes_reply && !self.said_last_word
    }

    /// Whether no more steps come from it under this grant.
    pub(super) fn rests(&self, granted: u64) -> bool {
        self.said_last_word || self.at_rest(granted)
    }

    /// Whether an event other than its next step is expected from it soon.
    pub(super) fn is_due(&self) -> bool {
        match self.speaker {
            Speaker::Worker => !self.ready || self.owes_reply,
            Speaker::Hook => self.greeted && !self.ready,
            Speaker::Scraper => false,
        }
    }

    /// Whether it was given a command and has not answered.
    pub(super) fn owes_reply(&self) -> bool {
        self.owes_reply
    }

    /// Whether it stops at its grant. A program of the user's shows this by being ready.
    pub(super) fn obeys_grant(&self) -> bool {
        self.speaker == Speaker::Worker || self.ready
    }

    /// The event that is overdue.
    pub(super) fn overdue(&self, granted: u64, heartbeat: Duration, startup: Duration) -> Option<Fault> {
        let silent = Nanos::monotonic_now().saturating_sub(self.fresh_at);
        let (limit, what) = match () {
            () if self.said_last_word || self.at_rest(granted) => return None,
            // A program that takes no steps is measured from outside.
            () if !self.greeted && self.speaker != Speaker::Worker => return None,
            () if self.speaker == Speaker::Scraper => (heartbeat, "showed no end of a step"),
            () if !self.greeted => (startup, "did not say hello"),
            () if !self.ready => (startup, "was not ready"),
            () if self.owes_reply => (heartbeat, "did not answer a command"),
            () => (heartbeat, "reported no progress"),
        };
        (silent > Nanos::from(limit)).then(|| (ErrorKind::Hung, format!("{what} for {silent}")))
    }

    /// The time since its last event, if that was the one before its exit.
    pub(super) fn lingering(&self) -> Option<Duration> {
        let silent = Nanos::monotonic_now().saturating_sub(self.fresh_at);
        self.said_last_word.then(|| silent.as_duration())
    }

    /// The process that trains, once it is known.
    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    pub(super) fn greeted(&self) -> bool {
        self.greeted
    }

    pub(super) fn said_last_word(&self) -> bool {
        self.said_last_word
    }
}

/// The kind of error for the reason that a worker reports for its end.
pub(super) fn kind_of(failure: FailureKind) -> ErrorKind {
    match failure {
        FailureKind::OutOfMemory => ErrorKind::OutOfMemory,
        FailureKind::Unsupported => ErrorKind::Unsupported,
        FailureKind::Data => ErrorKind::Data,
        FailureKind::Collective => ErrorKind::Collective,
        FailureKind::Internal => ErrorKind::Internal,
    }
}

fn fault_of(error: &EventError) -> Fault {
    let kind = match error {
        EventError::Lost { .. } => ErrorKind::Lost,
        EventError::Garbled { .. }
        | EventError::Rank { .. }
        | EventError::Torn { .. }
        | EventError::Io { .. } => ErrorKind::Garbled,
    };
    (kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use schema::{
        events::EventWriter,
        wire::{Hello, Ready, Step, Timing},
    };

    use super::*;

    fn hello() -> Event {
        let (worker, version) = ("w".into(), "1".into());
        let (libtorch, cuda, ranks) = (None, None, None);
        Event::Hello(Hello { protocol: PROTOCOL, worker, version, libtorch, cuda, ranks, pid: 1 })
    }

    fn ready() -> Event {
        let (parameters, model_bytes, optimizer_bytes, peak_bytes) = (Some(0), Some(0), None, None);
        let (statistics, fp32_layers, startup_ns, restore_ns) = (None, Vec::new(), Nanos(1), None);
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

    /// A rank that has said these things, what of it was believed, and what was not.
    fn after_events(events: &[Event], tail: &str) -> (Listener, usize, Option<Fault>) {
        hear_from(Speaker::Worker, events, tail)
    }

    fn hear_from(speaker: Speaker, events: &[Event], tail: &str) -> (Listener, usize, Option<Fault>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0001-x.0.jsonl");
        let mut writer = EventWriter::create(&path, 0).unwrap();
        events.iter().for_each(|event| writer.say(event.clone()).unwrap());
        std::fs::File::options().append(true).open(&path).unwrap().write_all(tail.as_bytes()).unwrap();
        let mut listener = Listener::open(&path, 0, speaker, Nanos::ZERO).unwrap();
        if events.iter().any(|event| matches!(event, Event::Paused { .. })) {
            listener.told(Some(&Command::Pause {}));
        }
        let mut lines = Vec::new();
        let fault = listener.finish(&mut lines, 1).err();
        (listener, lines.len(), fault)
    }

    #[test]
    fn the_order_of_the_protocol_is_enforced() {
        let finished = Event::Finished { steps: 0, samples: None, loss: None };
        let held = Event::Held { index: 0 };
        let cases = [
            (vec![hello(), ready(), held.clone(), finished.clone()], 4, None),
            (vec![ready()], 0, Some(ErrorKind::Protocol)),
            (vec![hello(), hello()], 1, Some(ErrorKind::Protocol)),
            (vec![hello(), finished, held], 2, Some(ErrorKind::Garbled)),
        ];
        for (events, believed, kind) in cases {
            let (_, lines, fault) = after_events(&events, "");
            assert_eq!((lines, fault.map(|(kind, _)| kind)), (believed, kind), "{events:?}");
        }
    }

    #[test]
    fn a_step_may_be_older_than_what_was_said_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0001-x.0.jsonl");
        let mut writer = EventWriter::create(&path, 0).unwrap();
        let step = Step {
            index: 0,
            dur_ns: Nanos(5),
            samples: Some(1),
            loss: None,
            phases: None,
            sent_bytes: None,
            timing: Timing::DeviceEvent,
        };
        for (at, event) in
            [(10, hello()), (20, ready()), (90, Event::Held { index: 1 }), (60, Event::Step(step))]
        {
            writer.say_at(Nanos(at), event).unwrap();
        }
        let mut listener = Listener::open(&path, 0, Speaker::Worker, Nanos::ZERO).unwrap();
        let mut lines = Vec::new();
        assert_eq!(listener.finish(&mut lines, 1), Ok(()));
        assert_eq!(lines.iter().map(|line| line.mono_ns.0).collect::<Vec<_>>(), [10, 20, 90, 60]);
        assert!(
            listener.at_rest(1),
            "the time limit is counted from when a line was heard, not from its time"
        );
    }

    #[test]
    fn a_line_that_a_rank_left_unfinished_is_a_fault() {
        let (_, lines, fault) = after_events(&[hello()], "{\"seq\":1");
        let (kind, what) = fault.unwrap();
        assert_eq!((lines, kind), (1, ErrorKind::Garbled));
        assert!(what.contains("line 2: torn"), "{what}");
    }

    #[test]
    fn a_rank_is_overdue_only_while_somebody_waits_for_it() {
        let none = Duration::ZERO;
        let (mut listener, ..) = after_events(&[hello()], "");
        assert_eq!(listener.overdue(0, none, none).unwrap().0, ErrorKind::Hung, "it is to be ready");
        (listener, ..) = after_events(&[hello(), ready()], "");
        assert!(listener.at_rest(0) && listener.overdue(0, none, none).is_none(), "nothing is granted");
        assert!(!listener.at_rest(1) && listener.overdue(1, none, none).is_some(), "a step is granted");
        (listener, ..) = after_events(&[hello(), ready(), Event::Held { index: 2 }], "");
        assert!(listener.at_rest(2) && listener.overdue(2, none, none).is_none(), "it is held");
        assert!(!listener.at_rest(3) && listener.overdue(3, none, none).is_some(), "it is granted more");
        (listener, ..) = after_events(&[hello(), ready()], "");
        listener.told(Some(&Command::Pause {}));
        assert!(!listener.at_rest(0) && listener.overdue(0, none, none).is_some(), "it owes an answer");
        (listener, ..) =
            after_events(&[hello(), ready(), Event::Paused { dur_ns: Nanos(1), bytes_freed: 0 }], "");
        assert!(listener.at_rest(5) && listener.overdue(5, none, none).is_none(), "it is paused");
    }
    #[test]
    fn a_program_of_the_users_may_be_silent_and_is_held_to_what_it_has_said() {
        let none = Duration::ZERO;
        let kind = |listener: &Listener| listener.overdue(1, none, none).map(|(kind, _)| kind);
        let (hung, not_hung) = (Some(ErrorKind::Hung), None);
        for (speaker, said, expected, is_due, obeys_grant) in [
            (Speaker::Hook, vec![], not_hung, false, false),
            (Speaker::Hook, vec![hello()], hung, true, false),
            (Speaker::Hook, vec![hello(), ready()], hung, false, true),
            (Speaker::Scraper, vec![], not_hung, false, false),
            (Speaker::Scraper, vec![hello()], hung, false, false),
            (Speaker::Worker, vec![], hung, true, true),
        ] {
            let (listener, ..) = hear_from(speaker, &said, "");
            assert_eq!(kind(&listener), expected, "{speaker:?} {said:?}");
            assert_eq!(
                (listener.is_due(), listener.obeys_grant()),
                (is_due, obeys_grant),
                "{speaker:?} {said:?}"
            );
        }
        let (listener, _, fault) = hear_from(Speaker::Hook, &[ready()], "");
        assert_eq!((kind(&listener), fault.map(|(kind, _)| kind)), (not_hung, Some(ErrorKind::Protocol)));
    }
}
