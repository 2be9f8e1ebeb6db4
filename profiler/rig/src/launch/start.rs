//! The start of a launch: its files, and a leash for each rank.

use std::{fs::File, process::Stdio};

use anyhow::Context as _;
use schema::{grant::Grant, spec::Program, units::Nanos};
use tokio::sync::mpsc::UnboundedSender;

use super::{
    Launch,
    command::{self, Programs},
    elsewhere, hook,
    kept::Kept,
    listener::{Listener, Speaker},
    rank::Rank,
    scraper::Scraper,
    surroundings,
};
use crate::{
    leash::{LeashHandle, RankStatus},
    output,
};

impl Launch {
    /// Writes the files for the ranks, then starts them. Ranks that were started before an error are in `ranks`, and must be
    /// ended.
    pub(super) fn begin(
        &mut self,
        programs: &Programs,
        tell: &UnboundedSender<(usize, RankStatus)>,
    ) -> anyhow::Result<()> {
        let count = self.spec.devices.len();
        anyhow::ensure!(count > 0, "the launch has no device");
        let speaks = self.spec.program.speaks();
        if let Some(rendezvous) = self.spec.program.rendezvous().filter(|_| count > 1) {
            *rendezvous = Some(self.run.rendezvous_path(&self.spec.launch));
        }
        self.run.write_spec(&self.spec)?;
        surroundings::prepare(&self.run, &self.spec)?;
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
        for index in 0..count {
            let rank = index as u32;
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
            let command = command::of_rank(programs, &self.run, &self.spec, rank, stdin)?;
            let (leash, mut reports) = LeashHandle::start(&programs.own, &self.isolation, command)?;
            let tell = tell.clone();
            let follow = tokio::spawn(async move {
                loop {
                    let news = reports.next().await;
                    let last = news.is_last();
                    // The launch lives until each of its ranks has sent its last report.
                    if tell.send((index, news)).is_err() || last {
                        return;
                    }
                }
            });
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
                reports: follow.abort_handle(),
            });
        }
        Ok(())
    }
}
