//! What a user sees while jobs run on a testbed, on stderr: a view that stays in its place on a terminal, plain lines elsewhere.

mod panel;
mod turn_text;

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rig::output;
use schema::decision::{Happened, Turn};

use self::{panel::panel, turn_text::turn_lines};
use crate::{journal::Journal, topology::Topology, view::View};

/// Shows every turn, and hands it on.
pub struct Live<J> {
    journal: J,
    screen: Option<Screen>,
}

/// One line for the whole run, one a device, one for the queue.
struct Screen {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl<J: Journal> Live<J> {
    /// In front of the journal of a run on these devices.
    pub fn new(journal: J, topology: &Topology) -> Live<J> {
        let screen = std::io::stderr().is_terminal().then(|| Screen::new(topology.devices() as usize + 2));
        Live { journal, screen }
    }
}

impl<J> Drop for Live<J> {
    fn drop(&mut self) {
        if let Some(screen) = &self.screen {
            screen.lines.iter().for_each(ProgressBar::finish_and_clear);
        }
    }
}

impl<J: Journal> Journal for Live<J> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        match &self.screen {
            Some(screen) => screen.show(&turn, view),
            None => turn_lines(&turn, view).iter().for_each(output::note),
        }
        self.journal.record(turn, view)
    }
}

impl Screen {
    fn new(lines: usize) -> Screen {
        let all = MultiProgress::new();
        let line = |index| {
            let template = if index == 0 { "{elapsed} {msg}" } else { "{msg}" };
            let style = ProgressStyle::with_template(template).expect("the template is well formed");
            all.add(ProgressBar::new_spinner().with_style(style))
        };
        let lines: Vec<ProgressBar> = (0..lines).map(line).collect();
        if let Some(first) = lines.first() {
            first.enable_steady_tick(Duration::from_millis(500));
        }
        Screen { all, lines }
    }

    fn show(&self, turn: &Turn, view: &View<'_>) {
        for line in turn_lines(turn, view).into_iter().filter(|_| is_end(&turn.happened)) {
            // What keeps a line from being shown is no reason to end a run.
            let _ = self.all.println(&*output::harmless(&line));
        }
        for (line, text) in self.lines.iter().zip(panel(view)) {
            line.set_message(output::harmless(&text).into_owned());
        }
    }
}

fn is_end(happened: &Happened) -> bool {
    matches!(happened, Happened::Finished { .. } | Happened::Failed { .. } | Happened::DeviceLost { .. })
}

#[cfg(test)]
mod tests;
