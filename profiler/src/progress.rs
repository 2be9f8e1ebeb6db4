//! What a user sees while a run goes on: a bar on a terminal, plain lines elsewhere, on stderr.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of a run in launches.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For about so many launches.
    pub fn new(launches: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(launches), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} ({elapsed} so far, about {eta} left)");
        bar.set_style(style.expect("the template is well formed"));
        Progress { bar }
    }

    /// A launch begins.
    pub fn begin(&self, what: &str) {
        self.bar.set_message(what.to_string());
        self.bar.enable_steady_tick(Duration::from_millis(500));
    }

    /// A launch has ended; `line` says how.
    pub fn end(&self, line: &str) {
        self.bar.inc(1);
        let left = match (self.bar.position(), self.bar.length()) {
            (done, Some(all)) if done < all => format!(", about {} left", HumanDuration(self.bar.eta())),
            _ => String::new(),
        };
        self.say(&format!("[{}/{}{left}] {line}", self.bar.position(), self.bar.length().unwrap_or(0)));
    }

    /// There is more or less to do than was thought.
    pub fn expect(&self, launches: u64) {
        self.bar.set_length(launches.max(self.bar.position()));
    }

    /// Prints a line without tearing the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
