//! The start of a launch: its files, and a leash for each rank.

use std::{fs::File, process::Stdio};

use anyhow::Context as _;
use schema::{grant::Grant, spec::Program, units::Nanos};
use tokio::{sync::mpsc::UnboundedSender, task::AbortHandle};

use super::{
    Launch,
    command::{self, Programs},
    elsewhere, hook,
    kept::Kept,
    listener::{Listener, Speaker},
    rank::Rank,
    saves::Saves,
    scraper::Scraper,
    surroundings,
};
use crate::{
    leash::{LeashHandle, RankStatus, Reports},
    output,
};

impl Launch {
    /// Writes the specification, and makes what the user's commands of the launch need.
    pub(super) fn lay_out(&mut self) -> anyhow::Result<()> {
        let count = self.spec.devices.len();
        anyhow::ensure!(count > 0, "the launch has no device");
        if let Some(rendezvous) = self.spec.program.rendezvous().filter(|_| count > 1) {
            *rendezvous = Some(self.run.rendezvous_path(&self.spec.launch));
        }
        self.run.write_spec(&self.spec)?;
        surroundings::make_folders(&self.run, &self.spec)
    }

    /// Writes the other files for the ranks, then starts them. Ranks that were started before an error are in `ranks`, and must be
    /// ended.
    pub(super) fn begin(
        &mut self,
        programs: &Programs,
        tell: &UnboundedSender<(usize, RankStatus)>,
    ) -> anyhow::Result<()> {
        let speaks = self.spec.program.speaks();
        // Once, and not with every repeat.
        if let (Program::Command(argv), 0, None) = (&self.spec.program, self.spec.block, &self.spec.seat)
            && let Some(hint) = elsewhere::hint(argv)
        {
            output::note(format_args!("{}: {hint}", self.spec.launch));
        }
        let launch = self.spec.launch.clone();
        let speaker = match &self.spec.steps_regex {
            _ if speaks => Speaker::Worker,
            None => Speaker::Hook,
            Some(_) => Speaker::Scraper,
        };
        if speaker != Speaker::Scraper {
            self.grant = Some(Grant::create(&self.run.control_path(&launch))?);
        }
        if speaker == Speaker::Hook {
            hook::write(&self.run.hook_path(&launch))?;
        }
        for rank in 0..self.spec.processes() {
            let (mut stdin, mut commands) = (Stdio::null(), None);
            if let Some(input) = &self.spec.input {
                stdin = File::open(input).with_context(|| format!("--input {}", input.display()))?.into();
            }
            let events = self.run.events_path(&launch, rank);
            // The harness creates the file, so a missing file can only be an error of the rank.
            File::create_new(&events)?;
            let asked_at = Nanos::monotonic_now();
            let listeners = vec![Listener::open(&events, rank, speaker, asked_at)?];
            if speaks {
                let (reader, writer) = std::io::pipe()?;
                (stdin, commands) = (reader.into(), Some(writer));
            } else if let Some(pattern) = &self.spec.steps_regex {
                self.scraper = Some(Scraper::start(&self.run, &launch, pattern)?);
            }
            if rank == 0 {
                self.saves = Saves::open(&self.run, &self.spec)?;
            }
            let command = command::of_rank(programs, &self.run, &self.spec, rank, stdin)?;
            let (leash, reports) = LeashHandle::start(&programs.own, &self.isolation, command)?;
            self.ranks.push(Rank {
                leash: Some(leash),
                started: false,
                listeners,
                stdin: commands,
                end: None,
                asked_at,
                logs: [self.run.stdout_path(&launch, rank), self.run.stderr_path(&launch, rank)]
                    .map(Kept::new),
                dying_since: None,
                reports: follow(reports, rank as usize, tell.clone()),
            });
        }
        Ok(())
    }
}

/// Passes on the reports of a leash with the number of its rank. The launch lives until each leash has sent its last report.
pub(super) fn follow(
    mut reports: Reports,
    index: usize,
    tell: UnboundedSender<(usize, RankStatus)>,
) -> AbortHandle {
    let follow = tokio::spawn(async move {
        loop {
            let news = reports.next().await;
            let last = news.is_last();
            if tell.send((index, news)).is_err() || last {
                return;
            }
        }
    });
    follow.abort_handle()
}
