//! One launch of a job: its ranks, their limits, and its end.
//!
//! A launch is a task of the rig's supervisor thread. It reads the event files of its ranks at intervals: an append-only file
//! cannot slow a trainer down, and a read costs the same for one new event or a hundred. No rank is trusted to leave: a rank
//! that does not react to SIGTERM within the grace period is killed, with all processes that it started.

mod beside;
mod command;
mod elsewhere;
mod ending;
mod foreign;
mod freezing;
mod hook;
mod kept;
mod launchers;
mod life;
mod listener;
mod notes;
mod preload;
mod pytorch;
mod rank;
mod remains;
mod saves;
mod scraper;
mod start;
mod surroundings;
mod tail;
mod verdict;
mod words;

use std::{collections::VecDeque, fs, sync::Arc, time::Duration};

use record::{
    launch_end::{LaunchEnd, Notes, RankEnd},
    rows::ErrorKind,
    run_dir::RunDir,
};
use schema::{
    FORMAT,
    events::write_command,
    grant::Grant,
    spec::LaunchSpec,
    units::Nanos,
    wire::{Command, Event, EventLine},
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::sleep,
};

pub(crate) use self::command::{environment, removed_from_environment};
pub use self::{
    command::Programs,
    remains::remove_remains,
    scraper::StepPattern,
    surroundings::who_sets,
    words::{check_shell, has_words},
};
use self::{
    life::Life,
    listener::{Fault, Listener},
    pytorch::PytorchWatch,
    rank::Rank,
    saves::Saves,
    scraper::Scraper,
    verdict::Evidence,
};
use crate::{
    event::{Member, RigEvent},
    leash::{Isolation, RankStatus},
    limits, output,
};

/// The interval between reads of event files while the job trains. Most of the cost is that of waking up beside the job: about
/// 0.05 ms of CPU time, against 0.001 ms for an event.
pub const POLL_TRAINING: Duration = Duration::from_millis(200);
/// The interval while an event is expected soon: ready, a boundary or the end.
const POLL_WAITING: Duration = Duration::from_millis(20);
/// The interval while the answer to a command is expected. Until then the device is idle, or another job waits for it.
const POLL_REPLY: Duration = Duration::from_millis(5);

/// The interval between checks of the sizes of its logs.
const LOOK_AT_LOGS: Duration = Duration::from_secs(1);

/// The default of the time limit for the first step of a program of the user's. Programs unpack data sets and compile models before it.
pub const FIRST_STEP: Duration = Duration::from_secs(30 * 60);

/// The time limits of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The time without a step, a rest or an answer after which a job that may run is hung. A program of the user's may have no events at all, so
    /// the limit applies from its first step on, and the program is not hung while it computes.
    pub heartbeat: Duration,
    /// The time in which a job must become ready.
    pub startup: Duration,
    /// The time in which a program of the user's must take its first step, if an amount of its steps is to be measured.
    pub first_step: Duration,
    /// The time in which a program of the user's must show a checkpoint after an order to save.
    pub save: Duration,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The time after SIGKILL in which a process must end. A process that has not ended waits in the kernel for something that
    /// may never come, for example a driver whose device is gone, and the launch ends as `stuck`.
    pub death: Duration,
}

impl Timeouts {
    /// A time longer than any wait.
    pub const ENDLESS: Duration = Duration::from_secs(1 << 32);
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            heartbeat: Duration::from_secs(60),
            startup: Duration::from_secs(300),
            first_step: FIRST_STEP,
            save: Duration::from_secs(300),
            grace: Duration::from_secs(10),
            death: Duration::from_secs(30),
        }
    }
}

/// What to start, where, and with which time limits.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    pub run: RunDir,
    /// The specification that its ranks read. The rig adds their rendezvous.
    pub spec: LaunchSpec,
    pub timeouts: Timeouts,
    /// What its ranks join before their programs run.
    pub isolation: Isolation,
}

/// How a job that has not ended by itself leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// At the end of its grant: the job is stopped, reports `finished`, and the launch is good. A program of the user's is
    /// ended there by SIGTERM, or at once if it does not obey grants, and is good too.
    AtStepBoundary,
    /// By SIGTERM, and by SIGKILL after the grace period. The launch is recorded as interrupted.
    Immediately,
}

/// An order to a launch from its owner.
pub(crate) enum Order {
    Extend(u64),
    /// Sets the interval between reads of the events of a job that trains.
    LookEvery(Duration),
    Tell(Command),
    /// Tell a program that defines a checkpoint to save.
    Save,
    Freeze,
    Thaw,
    Stop(StopMode),
    /// Leave as by [`StopMode::Immediately`], because this other launch of its group failed.
    Contaminate {
        by: String,
    },
}

/// The state of a launch between its start and its end.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    No,
    Terminated { kill_at: Nanos },
    Killed,
}

struct Launch {
    member: Member,
    run: RunDir,
    spec: LaunchSpec,
    timeouts: Timeouts,
    isolation: Isolation,
    /// Events that are collected and sent together, so that the owner wakes once for all of them.
    reports: Vec<RigEvent>,
    ranks: Vec<Rank>,
    /// `None` if steps are found in the program's output.
    grant: Option<Grant>,
    /// `Some` if steps are found in the program's output.
    scraper: Option<Scraper>,
    /// `Some` if the program defines a checkpoint.
    saves: Option<Saves>,
    commands: VecDeque<Command>,
    /// Whether a program of the user's, which has no stop command, is to end at its next boundary.
    leaving: bool,
    /// Whether its processes are stopped.
    is_frozen: bool,
    /// When the launch was first ordered to leave at the end of a step.
    enough_mono_ns: Option<Nanos>,
    ending: Ending,
    /// The grant of a program of the user's when it was released to act on SIGTERM. Its steps from this number on do not count.
    released_at: Option<u64>,
    /// The grace period, if processes that had not ended on SIGTERM were killed.
    killed_after: Option<Nanos>,
    pytorch: PytorchWatch,
    look_every: Duration,
    /// Whether the end was requested and counts as good in any case.
    dismissed: bool,
    /// The program of the first rank.
    pid: Option<u32>,
    /// When the sizes of its logs were last checked.
    logs_seen: Nanos,
    /// `Some` while a program of the user's has had no event for too long, but may still compute.
    life: Option<Life>,
    /// The first fault of a rank, which explains the later ones.
    fault: Option<(u32, Fault)>,
    out_of_memory_kills: Option<i64>,
}

/// Runs a launch from its first file to its last, and returns when all of its processes have ended.
///
/// Writes `jobs/<launch>.json` before the ranks start, their logs, and `jobs/<launch>.end.json`.
pub(crate) async fn supervise(
    programs: Arc<Programs>,
    member: Member,
    request: LaunchRequest,
    mut orders: UnboundedReceiver<Order>,
    send: impl Fn(Vec<RigEvent>),
) -> LaunchEnd {
    let LaunchRequest { run, spec, timeouts, isolation } = request;
    let mut launch = Launch {
        member,
        run,
        spec,
        timeouts,
        isolation,
        reports: Vec::new(),
        ranks: Vec::new(),
        grant: None,
        scraper: None,
        saves: None,
        commands: VecDeque::new(),
        leaving: false,
        is_frozen: false,
        enough_mono_ns: None,
        ending: Ending::No,
        released_at: None,
        killed_after: None,
        pytorch: PytorchWatch::new(),
        look_every: POLL_TRAINING,
        dismissed: false,
        pid: None,
        logs_seen: Nanos::ZERO,
        life: None,
        fault: None,
        out_of_memory_kills: out_of_memory_kills(),
    };
    let (tell, mut news) = unbounded_channel();
    let could_not = |error: &anyhow::Error| format!("could not be started: {}", limits::told(error));
    let is_laid_out = launch.lay_out().map_err(|error| (ErrorKind::Start, could_not(&error)));
    let has_folder = is_laid_out.is_ok();
    let prepared = match is_laid_out {
        Ok(()) => launch.prepare(&programs, &mut orders).await,
        Err(fault) => Err(fault),
    };
    match prepared {
        Ok(later) => {
            if let Err(error) = launch.begin(&programs, &tell) {
                let rank = launch.ranks.len() as u32;
                launch.fail(rank, (ErrorKind::Start, could_not(&error)));
            }
            later.into_iter().for_each(|order| launch.obey(order));
        }
        Err(fault) => launch.fail(0, fault),
    }
    while launch.ranks.iter().any(|rank| rank.end.is_none()) {
        tokio::select! {
            Some(order) = orders.recv() => launch.obey(order),
            Some((rank, news)) = news.recv() => launch.hear_of(rank, news),
            () = launch.output() => {}
            () = sleep(launch.poll_after()) => {}
        }
        launch.listen();
        launch.look_for_saves(false);
        launch.let_save();
        launch.refuse_unheard();
        launch.look_for_pytorch();
        launch.let_go();
        launch.urge();
        launch.give_up();
        launch.send_commands();
        launch.bound_logs();
        if !launch.reports.is_empty() {
            send(std::mem::take(&mut launch.reports));
        }
    }
    let ended = Nanos::monotonic_now();
    let cleanup_failed = match has_folder {
        true => launch.clean_up(&programs, &mut orders).await,
        false => None,
    };
    launch.close(ended, cleanup_failed)
}

impl Launch {
    fn obey(&mut self, order: Order) {
        match order {
            Order::LookEvery(pause) => self.look_every = pause,
            Order::Extend(steps) => {
                let Some(grant) = &self.grant else { return };
                let before = grant.get();
                grant.extend_to(steps);
                for listener in self.ranks.iter_mut().flat_map(|rank| &mut rank.listeners) {
                    // The time limit for a hung job does not start anew with every grant.
                    if listener.at_rest(before) {
                        listener.told(None);
                    }
                }
            }
            Order::Tell(command) if self.spec.program.speaks() => self.commands.push_back(command),
            Order::Tell(command) => {
                let name = command.name();
                let what = format!("cannot be told to '{name}': programs of the user's take no commands");
                self.fail(0, (ErrorKind::Unsupported, what));
            }
            Order::Save => self.order_save(),
            Order::Freeze => self.freeze(),
            Order::Thaw => self.thaw(),
            Order::Stop(StopMode::AtStepBoundary) => {
                self.enough_mono_ns.get_or_insert_with(Nanos::monotonic_now);
                if self.spec.program.speaks() {
                    self.commands.push_back(Command::Stop {});
                } else {
                    self.leaving = true;
                }
            }
            Order::Stop(StopMode::Immediately) => {
                self.fail(0, (ErrorKind::Interrupted, "was ended before it was done".into()));
            }
            Order::Contaminate { by } => {
                let what = format!("was ended because {by}, of the same group, had failed");
                self.fail(0, (ErrorKind::Contaminated, what));
            }
        }
    }

    fn hear_of(&mut self, index: usize, news: RankStatus) {
        let rank = index as u32;
        if self.ranks[index].end.is_some() {
            // The launch has stopped waiting for this rank, and has recorded its end.
            return;
        }
        let end = match news {
            RankStatus::Started { pid } => {
                self.ranks[index].started = true;
                self.pid.get_or_insert(pid);
                self.scraper.iter_mut().for_each(|scraper| scraper.started(pid));
                let (member, launch) = (self.member, self.spec.launch.clone());
                return self.reports.push(RigEvent::Started { member, launch, rank, pid });
            }
            RankStatus::Terminated => return self.release(),
            RankStatus::Leaving => {
                self.ranks[index].dying_since.get_or_insert_with(Nanos::monotonic_now);
                return;
            }
            RankStatus::Refused { why } => {
                self.fail(rank, (ErrorKind::Start, why));
                RankEnd::default()
            }
            RankStatus::Ended(end) => end,
            RankStatus::Lost => RankEnd::default(),
        };
        self.ranks[index].leash = None;
        self.ranks[index].stdin = None;
        self.listen();
        self.look_for_saves(true);
        let memory_ran_out = out_of_memory_kills() > self.out_of_memory_kills;
        let granted = self.granted();
        let listeners = &mut self.ranks[index].listeners;
        let torn = listeners.iter_mut().find_map(|listener| listener.finish(&mut Vec::new(), granted).err());
        let fault = verdict::fault_of(&Evidence {
            end: &end,
            said_last_word: self.ranks[index].said_last_word(),
            speaks: self.spec.program.speaks(),
            greeted: self.ranks[index].listeners.iter().all(Listener::greeted),
            memory_ran_out,
        });
        // A failure before the order to leave does not count as a requested end.
        let left_too_early = self.dismissed && end.by_itself && fault.is_some();
        self.dismissed &= !left_too_early;
        // A rank that was killed within a line is reported as killed, and not as one that cannot write.
        if let Some(fault) = fault.filter(|_| left_too_early || !self.is_our_doing(&end)).or(torn) {
            self.fail(rank, fault);
        }
        self.ranks[index].end = Some(end);
    }

    /// Reads the new events of the ranks and reports them.
    fn listen(&mut self) {
        self.look_for_ranks();
        self.scrape();
        let granted = self.granted();
        let mut lines = Vec::new();
        for index in 0..self.ranks.len() {
            let Rank { started: true, listeners, .. } = &mut self.ranks[index] else { continue };
            let mut fault = None;
            for listener in listeners {
                fault = fault.or(listener.poll(&mut lines, granted).err());
            }
            for line in lines.drain(..) {
                if let Event::Failed { kind, error } = &line.event {
                    fault = Some((listener::kind_of(*kind), format!("failed: {error}")));
                }
                let EventLine { rank, mono_ns: at, event, .. } = line;
                if let (Event::Step(step), 0, Some(saves)) = (&event, rank, &mut self.saves) {
                    saves.note(step, at);
                }
                let event = ending::counted(event, self.released_at);
                self.reports.extend(event.map(|event| RigEvent::Said {
                    member: self.member,
                    rank,
                    at,
                    event,
                }));
            }
            if let Some(fault) = fault {
                self.fail(index as u32, fault);
            }
        }
    }

    /// Sends the next command when all ranks are at rest and have answered the last one.
    fn send_commands(&mut self) {
        let granted = self.granted();
        // A rank that is leaving gets no command, and the others do not wait for it.
        let mut left = self.ranks.iter().filter(|rank| rank.end.is_none() && !rank.said_last_word());
        let ready = left.all(|rank| rank.listeners.iter().all(|listener| listener.at_rest(granted)));
        if !ready || self.ending != Ending::No {
            return;
        }
        let Some(command) = self.commands.pop_front() else { return };
        for rank in &mut self.ranks {
            if rank.said_last_word() {
                continue;
            }
            let Some(stdin) = &mut rank.stdin else { continue };
            // A rank that closed its stdin does not answer, and this is reported.
            let _ = write_command(stdin, &command);
            rank.listeners.iter_mut().for_each(|listener| listener.told(Some(&command)));
        }
    }

    /// The time of the next read if there is no event before.
    fn poll_after(&self) -> Duration {
        let mut listeners = self.ranks.iter().flat_map(|rank| &rank.listeners);
        let somebody_waits =
            self.ending != Ending::No || self.leaving || self.is_to_save() || !self.commands.is_empty();
        if self.is_saving() || listeners.clone().any(Listener::owes_reply) {
            POLL_REPLY
        } else if somebody_waits || listeners.any(Listener::is_due) {
            POLL_WAITING
        } else {
            self.look_every
        }
    }

    fn granted(&self) -> u64 {
        self.grant.as_ref().map_or(0, Grant::get)
    }

    /// Keeps the output of the ranks from filling the disk.
    fn bound_logs(&mut self) {
        let now = Nanos::monotonic_now();
        if now.saturating_sub(self.logs_seen) < LOOK_AT_LOGS.into() {
            return;
        }
        self.logs_seen = now;
        for rank in &mut self.ranks {
            for (stream, log) in rank.logs.iter_mut().enumerate() {
                let scraped = self.scraper.as_ref().map_or(u64::MAX, |scraper| scraper.read_to(stream));
                let searched = self.saves.as_ref().map_or(u64::MAX, |saves| saves.read_to(stream));
                let read_to = scraped.min(searched);
                // If a log cannot be shortened while it is written, it is shortened at the end.
                let _ = log.give_back(read_to);
            }
        }
    }

    /// Finishes a launch without processes, of which the last ended at that time: writes how it ended, and removes what only processes
    /// need.
    fn close(self, ended: Nanos, cleanup_failed: Option<String>) -> LaunchEnd {
        let launch = &self.spec.launch;
        let _ = fs::remove_file(self.run.control_path(launch));
        let _ = fs::remove_file(self.run.rendezvous_path(launch));
        let _ = fs::remove_dir_all(self.run.hook_path(launch));
        let (err, err_detail) = match &self.fault {
            Some((rank, fault)) => {
                let files = (0..self.run.ranks(&self.spec)).map(|rank| self.run.events_path(launch, rank));
                let detail = verdict::detail(&self.run, &self.spec, *rank, fault, files);
                (Some(fault.0), Some(detail))
            }
            None => (None, None),
        };
        self.forget_silent_rank();
        let notes = notes::take(&self.run.notes_path(launch));
        let lacks_hook = self.pytorch.is_seen() && !notes.has_pytorch;
        let notes = Notes { lacks_hook, cleanup_failed, ..notes };
        for log in self.ranks.iter().flat_map(|rank| &rank.logs) {
            // A log that does not exist was not written, and one that cannot be shortened is complete.
            let _ = log.shorten();
        }
        let ranks = self.ranks.into_iter().filter_map(|rank| rank.end).collect();
        let end = LaunchEnd {
            format: FORMAT,
            mono_ns: ended,
            enough_mono_ns: self.enough_mono_ns,
            err,
            err_detail,
            killed_after: self.killed_after,
            notes,
            ranks,
        };
        if let Err(error) = self.run.write_launch_end(launch, &end) {
            // Without this file the launch counts as cut off, which is correct for a full disk.
            output::note(format_args!("warning: {error}"));
        }
        end
    }
}

/// The number of processes that the kernel has killed since boot because it ran out of memory.
fn out_of_memory_kills() -> Option<i64> {
    procfs::vmstat().ok()?.get("oom_kill").copied()
}
