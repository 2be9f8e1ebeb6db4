//! The user's commands before and after a program, run by a shell. The measured time of the launch excludes both.
//!
//! Each command runs under a leash, as a rank does. The leash ends all of its processes when the command ends, exceeds its time limit,
//! or outlives the harness.

use std::time::Duration;

use record::{launch_end::RankEnd, rows::ErrorKind};
use schema::{spec::LaunchSpec, units::Nanos};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::sleep,
};

use super::{
    Launch, Order, StopMode,
    command::{self, Programs},
    kept::Kept,
    listener::Fault,
    start,
    verdict::{self, Evidence},
};
use crate::{
    leash::{LeashHandle, RankStatus},
    limits,
};

/// The interval between looks at the time limit and at the logs.
const LOOK: Duration = Duration::from_millis(200);

/// A command beside the program of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Prepare,
    Cleanup,
}

impl Beside {
    /// The word in the names of its logs, and in its option.
    pub(super) fn word(self) -> &'static str {
        match self {
            Beside::Prepare => "prepare",
            Beside::Cleanup => "cleanup",
        }
    }

    /// Its text as typed; `None` if the launch has no such command.
    pub(super) fn text(self, spec: &LaunchSpec) -> Option<&str> {
        let surroundings = spec.surroundings.as_ref()?;
        match self {
            Beside::Prepare => surroundings.prepare.as_deref(),
            Beside::Cleanup => surroundings.cleanup.as_deref(),
        }
    }
}

impl Launch {
    /// Runs the user's command before the program, if the launch has one. Returns the orders for the program that arrive meanwhile.
    ///
    /// # Errors
    /// The command failed or was ended, so that the program must not start.
    pub(super) async fn prepare(
        &mut self,
        programs: &Programs,
        orders: &mut UnboundedReceiver<Order>,
    ) -> Result<Vec<Order>, Fault> {
        let mut later = Vec::new();
        let limit = self.timeouts.first_step;
        match self.run_beside(Beside::Prepare, programs, orders, &mut later, limit).await {
            Ok(()) => Ok(later),
            Err((kind, what)) => {
                // `Crashed` means that the program itself failed.
                let kind = if kind == ErrorKind::Crashed { ErrorKind::Prepare } else { kind };
                Err((kind, format!("was not started, as --prepare {what}")))
            }
        }
    }

    /// Runs the user's command after the program, if the launch has one, and returns how the command failed. After an interrupt the
    /// command has the grace period.
    pub(super) async fn clean_up(
        &mut self,
        programs: &Programs,
        orders: &mut UnboundedReceiver<Order>,
    ) -> Option<String> {
        let kind = self.fault.as_ref().map(|(_, fault)| fault.0);
        if kind == Some(ErrorKind::Stuck) {
            return Beside::Cleanup.text(&self.spec).map(|_| "was not run, as a process is stuck".into());
        }
        let is_interrupted = kind == Some(ErrorKind::Interrupted);
        let limit = if is_interrupted { self.timeouts.grace } else { self.timeouts.first_step };
        let (kind, what) =
            self.run_beside(Beside::Cleanup, programs, orders, &mut Vec::new(), limit).await.err()?;
        if kind == ErrorKind::Stuck {
            // No measurement may run beside its process.
            self.fail(0, (kind, format!("has ended, and --cleanup {what}")));
        }
        let log = self.run.beside_path(&self.spec.launch, Beside::Cleanup.word(), "err");
        let words = verdict::words_of(&log);
        Some(verdict::without_paths(&self.run, &self.spec, format!("{what}; {words}"), [log]))
    }

    async fn run_beside(
        &mut self,
        beside: Beside,
        programs: &Programs,
        orders: &mut UnboundedReceiver<Order>,
        later: &mut Vec<Order>,
        mut limit: Duration,
    ) -> Result<(), Fault> {
        let Some(text) = beside.text(&self.spec) else { return Ok(()) };
        let not_started = |why: String| (ErrorKind::Start, format!("could not be started: {why}"));
        let command = command::beside(&self.run, &self.spec, beside, text)
            .map_err(|error| not_started(error.to_string()))?;
        let mut logs = [command.stdout.clone(), command.stderr.clone()].map(Kept::new);
        let (leash, reports) = LeashHandle::start(&programs.own, &self.isolation, command)
            .map_err(|error| not_started(limits::told(&error.into()).to_string()))?;
        let (tell, mut news) = unbounded_channel();
        let follow = start::follow(reports, 0, tell);
        let began = Nanos::monotonic_now();
        let (mut fault, mut kill_at, mut dead_at): (Option<Fault>, Option<Nanos>, Option<Nanos>) =
            (None, None, None);
        let end = loop {
            let mut ends_by: Option<Fault> = None;
            tokio::select! {
                Some((_, news)) = news.recv() => match news {
                    RankStatus::Started { .. } | RankStatus::Terminated | RankStatus::Leaving => {}
                    RankStatus::Refused { why } => return Err(not_started(why)),
                    RankStatus::Ended(end) => break end,
                    RankStatus::Lost => break RankEnd::default(),
                },
                Some(order) = orders.recv() => match order {
                    Order::Stop(StopMode::Immediately) if beside == Beside::Cleanup => {
                        let passed = Nanos::monotonic_now().saturating_sub(began).as_duration();
                        limit = limit.min(passed + self.timeouts.grace);
                    }
                    Order::Stop(StopMode::Immediately) => {
                        ends_by = Some((ErrorKind::Interrupted, "was ended before it was done".into()));
                    }
                    order => later.push(order),
                },
                () = sleep(LOOK) => logs.iter_mut().for_each(|log| drop(log.give_back(u64::MAX))),
            }
            let now = Nanos::monotonic_now();
            if fault.is_none() && now.saturating_sub(began) > limit.into() {
                ends_by.get_or_insert((
                    ErrorKind::Prepare,
                    format!("did not end within {}", Nanos::from(limit)),
                ));
            }
            if let Some(ends_by) = ends_by.filter(|_| fault.is_none()) {
                fault = Some(ends_by);
                kill_at = Some(now + self.timeouts.grace.into());
                leash.terminate();
            }
            if kill_at.is_some_and(|at| now >= at) {
                kill_at = None;
                dead_at = Some(now + self.timeouts.death.into());
                leash.kill();
            }
            if dead_at.is_some_and(|at| now >= at) {
                follow.abort();
                self.killed_after = Some(self.timeouts.grace.into());
                let death = Nanos::from(self.timeouts.death);
                return Err((ErrorKind::Stuck, format!("did not end within {death} of SIGKILL")));
            }
        };
        // A log that cannot be shortened is complete.
        logs.iter().for_each(|log| drop(log.shorten()));
        let evidence = Evidence {
            end: &end,
            speaks: false,
            said_last_word: false,
            greeted: false,
            memory_ran_out: false,
        };
        match fault.or_else(|| verdict::fault_of(&evidence)) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}
