//! The progress of a run on the testbed, on stderr: a panel that is updated in place on a terminal, and plain lines elsewhere.

mod panel;
mod turn_text;

use std::io::IsTerminal as _;

use cli::progress;
use engine::{journal::Journal, topology::Topology, view::View};
use formats::decision::{ClusterEvent, Turn};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rig::output;

use self::{panel::panel, turn_text::turn_lines};

/// Shows each turn, and passes it on.
pub struct Live<J> {
    journal: J,
    screen: Option<Screen>,
}

/// The panel on a terminal: one line for the run, one for each device, and one for the queue.
struct Screen {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl<J: Journal> Live<J> {
    /// Creates a live view that passes turns on to `journal`.
    pub fn new(journal: J, topology: &Topology) -> Live<J> {
        let screen = (std::io::stderr().is_terminal() && !output::is_quiet())
            .then(|| Screen::new(topology.devices() as usize + 2));
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
            None => turn_lines(&turn, view).iter().for_each(output::news),
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
            progress::tick(first);
        }
        Screen { all, lines }
    }

    fn show(&self, turn: &Turn, view: &View<'_>) {
        for line in turn_lines(turn, view).into_iter().filter(|_| turn.events.iter().any(is_end)) {
            // A line that cannot be shown is no reason to end the run.
            let _ = self.all.println(&*output::harmless(&line));
        }
        for (line, text) in self.lines.iter().zip(panel(view)) {
            line.set_message(output::harmless(&text).into_owned());
        }
    }
}

fn is_end(happened: &ClusterEvent) -> bool {
    matches!(
        happened,
        ClusterEvent::Finished { .. } | ClusterEvent::Failed { .. } | ClusterEvent::DeviceLost { .. }
    )
}

#[cfg(test)]
mod tests;
