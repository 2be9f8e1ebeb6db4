//! The progress of a run for the user, on stderr: a bar on a terminal, plain lines elsewhere.

use std::time::Instant;

use cli::progress;
use indicatif::{ProgressBar, ProgressStyle};
use rig::output;
use schema::units::Nanos;

/// The progress of a run in launches.
pub struct Progress {
    bar: ProgressBar,
    began: Instant,
}

impl Progress {
    /// Shows the progress of an estimated number of launches.
    pub fn new(launches: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(launches), progress::target());
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} ({elapsed} so far, {prefix})");
        bar.set_style(style.expect("the template is well formed"));
        Progress { bar, began: Instant::now() }
    }

    /// Shows that a launch begins.
    pub fn begin(&self, what: &str) {
        self.bar.set_message(output::harmless(what).into_owned());
        self.bar.set_prefix(self.left());
        progress::tick(&self.bar);
    }

    /// Shows that a launch has ended; `line` describes its result.
    pub fn end(&self, line: &str) {
        self.bar.inc(1);
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let left = if done < all { format!(", {}", self.left()) } else { String::new() };
        self.bar.suspend(|| output::news(format_args!("[{done}/{all}{left}] {line}")));
    }

    /// Sets the number of remaining launches, which may differ from the estimate.
    pub fn expect(&self, left: u64) {
        self.bar.set_length(self.bar.position() + left);
    }

    /// Prints a line without breaking the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| output::note(line));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The time left at the pace of the launches so far.
    fn left(&self) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        match done {
            1.. => {
                let a_launch_s = self.began.elapsed().as_secs_f64() / done as f64;
                format!("about {} left", Nanos::from_secs_f64(a_launch_s * all.saturating_sub(done) as f64))
            }
            0 => "time left not known yet".into(),
        }
    }
}
