//! How a launch comes into being: its files, and a leash for each rank.

use std::{fs::File, io::PipeWriter, process::Stdio};

use schema::{grant::Grant, spec::RankEnd};
use tokio::sync::mpsc::UnboundedSender;

use super::{
    Launch,
    command::{self, Programs},
    listener::Listener,
};
use crate::leash::{LeashHandle, News};

pub(super) struct Rank {
    /// Gone when the rank has ended.
    pub(super) leash: Option<LeashHandle>,
    /// Its start has been reported. Nothing it says is reported before.
    pub(super) started: bool,
    /// Absent for a program without the protocol.
    pub(super) listener: Option<Listener>,
    pub(super) stdin: Option<PipeWriter>,
    pub(super) end: Option<RankEnd>,
}

impl Rank {
    /// Whether it is leaving by itself.
    pub(super) fn said_last_word(&self) -> bool {
        self.listener.as_ref().is_some_and(Listener::said_last_word)
    }
}

impl Launch {
    /// Writes what the ranks are told, then starts them. What was started before an error is in
    /// `ranks`, and has to be ended.
    pub(super) fn begin(
        &mut self,
        programs: &Programs,
        tell: &UnboundedSender<(usize, News)>,
    ) -> anyhow::Result<()> {
        let count = self.spec.devices.len();
        anyhow::ensure!(count > 0, "the launch has no device");
        let speaks = self.spec.program.speaks();
        if let Some(rendezvous) = self.spec.program.rendezvous().filter(|_| count > 1) {
            *rendezvous = Some(self.run.rendezvous_path(&self.spec.launch));
        }
        self.run.write_spec(&self.spec)?;
        if speaks {
            self.grant = Some(Grant::create(&self.run.control_path(&self.spec.launch))?);
        }
        for index in 0..count {
            let rank = index as u32;
            let (mut stdin, mut commands, mut listener) = (Stdio::null(), None, None);
            if speaks {
                let events = self.run.events_path(&self.spec.launch, rank);
                // Made here, so that a file which is not there can only mean a rank's mistake.
                File::create_new(&events)?;
                listener = Some(Listener::open(&events, rank)?);
                let (reader, writer) = std::io::pipe()?;
                (stdin, commands) = (reader.into(), Some(writer));
            }
            let command = command::of_rank(programs, &self.run, &self.spec, rank, stdin)?;
            let (leash, mut reports) = LeashHandle::start(&programs.own, command)?;
            self.ranks.push(Rank {
                leash: Some(leash),
                started: false,
                listener,
                stdin: commands,
                end: None,
            });
            let tell = tell.clone();
            tokio::spawn(async move {
                loop {
                    let news = reports.next().await;
                    let last = !matches!(news, News::Started { .. });
                    // The launch stays until each of its ranks has told its last news.
                    if tell.send((index, news)).is_err() || last {
                        return;
                    }
                }
            });
        }
        Ok(())
    }
}
