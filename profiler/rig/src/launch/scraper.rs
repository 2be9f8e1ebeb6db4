//! Finds steps in the output of a program: a line that matches the user's regular expression ends one, or several if it has the
//! number of a step.
//!
//! The steps are appended to the event file of rank 0, which is read like that of any worker. The kernel notifies the harness
//! of a write, so a line is found some tenths of a millisecond after it was written, independent of the interval between reads.

mod pattern;

use std::{fs::File, io, os::fd::OwnedFd, path::PathBuf};

use anyhow::anyhow;
use record::run_dir::RunDir;
use rustix::{
    fs::inotify::{self, CreateFlags, WatchFlags},
    io::retry_on_intr,
};
use schema::{
    events::EventWriter,
    units::Nanos,
    wire::{Event, Hello, PROTOCOL, Step, Timing},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::sleep,
};

pub use self::pattern::StepPattern;
use self::pattern::{StepLine, StepNumbers};
use super::tail::Tail;

/// The shortest interval between reads of the output of a program that writes continuously.
const SHORTEST_PAUSE: Nanos = Nanos(1_000_000);

/// The name in the `hello` that is written for such a program.
const WORKER: &str = "profile";

pub(super) struct Scraper {
    pattern: StepPattern,
    /// The logs of its stdout and its stderr, each with the numbers of steps in it.
    logs: [(Tail, StepNumbers); 2],
    events: EventWriter,
    /// Notifies of every write to the logs.
    writes: AsyncFd<OwnedFd>,
    looked_at: Nanos,
    /// Whether the last read left output, of which no other notification arrives.
    has_more: bool,
    /// When the last line that ends a step was found. The first such line sends `hello`, because the beginning of its step is
    /// not known.
    boundary: Option<Nanos>,
    /// The number of steps so far.
    steps: u64,
    /// The process id of the program, once it runs.
    pid: u32,
}

impl Scraper {
    /// Creates the logs and begins to watch them. Needs a tokio runtime.
    pub(super) fn start(run: &RunDir, launch: &str, pattern: &str) -> anyhow::Result<Scraper> {
        let pattern = StepPattern::parse(pattern).map_err(|why| anyhow!("--steps-regex: {why}"))?;
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let open = |log: PathBuf| -> anyhow::Result<(Tail, StepNumbers)> {
            File::create(&log)?;
            inotify::add_watch(&inotify, log.as_path(), WatchFlags::MODIFY)?;
            Ok((Tail::open(&log)?, StepNumbers::default()))
        };
        Ok(Scraper {
            pattern,
            logs: [open(run.stdout_path(launch, 0))?, open(run.stderr_path(launch, 0))?],
            events: EventWriter::create(&run.events_path(launch, 0), 0)?,
            writes: readable(inotify)?,
            looked_at: Nanos::ZERO,
            has_more: false,
            boundary: None,
            steps: 0,
            pid: 0,
        })
    }

    pub(super) fn started(&mut self, pid: u32) {
        self.pid = pid;
    }

    /// Returns when the program has written output that was not read yet.
    pub(super) async fn written(&self) {
        let next_look = self.looked_at + SHORTEST_PAUSE;
        let early = next_look.saturating_sub(Nanos::monotonic_now());
        if early > Nanos::ZERO {
            sleep(early.as_duration()).await;
        }
        if self.has_more {
            return;
        }
        match self.writes.readable().await {
            Ok(mut ready) => {
                // Only the arrival of notifications matters. Unread ones would arrive again at once.
                let mut news = [0; 4096];
                let mut read = || retry_on_intr(|| rustix::io::read(self.writes.get_ref(), &mut news));
                while read().is_ok() {}
                ready.clear_ready();
            }
            Err(_) => sleep(super::POLL_TRAINING).await,
        }
    }

    /// Reads new output, and appends the steps in it.
    pub(super) fn poll(&mut self) -> io::Result<()> {
        self.look(|log, each| log.poll(each))
    }

    /// How far a log was read: `stream` is 0 for stdout and 1 for stderr.
    pub(super) fn read_to(&self, stream: usize) -> u64 {
        self.logs[stream].0.read_bytes()
    }

    /// Reads the rest. It is called when the program has ended.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.look(|log, each| log.finish(each).map(|()| false))
    }

    /// Searches the lines of `read`, which returns whether it left output.
    fn look(
        &mut self,
        read: impl Fn(&mut Tail, &mut dyn FnMut(&[u8])) -> io::Result<bool>,
    ) -> io::Result<()> {
        self.looked_at = Nanos::monotonic_now();
        self.has_more = false;
        let (mut ended, mut refused) = (Vec::new(), None);
        for (log, numbers) in &mut self.logs {
            self.has_more |= read(log, &mut |line| {
                let line = match self.pattern.read(line) {
                    // After lines with numbers, one without is no step.
                    Err(_) if numbers.have_begun() => Ok(None),
                    line => line,
                };
                match line.and_then(|line| line.map(|line| Ok((line, numbers.steps(&line)?))).transpose()) {
                    Ok(steps) => ended.extend(steps.filter(|(_, steps)| *steps > 0)),
                    Err(why) => _ = refused.get_or_insert(why),
                }
            })?;
        }
        if let Some(why) = refused {
            return Err(io::Error::other(format!("--steps-regex: {why}")));
        }
        if ended.is_empty() { Ok(()) } else { self.say(&ended, self.looked_at) }
    }

    /// Records the steps that have ended since the last one was found. If there are several, because the program's output comes
    /// in blocks or because a line ends several, they count as equally long, and each begins where the one before it ended.
    fn say(&mut self, lines: &[(StepLine, u64)], seen: Nanos) -> io::Result<()> {
        let ended: u64 = lines.iter().map(|(_, steps)| steps).sum();
        let Some(begun) = self.boundary.replace(seen) else {
            self.steps = ended;
            let (worker, version) = (WORKER.into(), env!("CARGO_PKG_VERSION").into());
            let (libtorch, cuda, ranks) = (None, None, None);
            let hello = Hello { protocol: PROTOCOL, worker, version, libtorch, cuda, ranks, pid: self.pid };
            return self.events.say_at(seen, Event::Hello(hello));
        };
        let spent_ns = u128::from((seen - begun).0);
        let share = |steps: u64| (spent_ns * u128::from(steps) / u128::from(ended)) as u64;
        let lines = lines.iter().flat_map(|(line, steps)| (0..*steps).map(move |_| line));
        for (number, line) in (0..).zip(lines) {
            let step = Step {
                index: self.steps,
                dur_ns: Nanos(share(number + 1) - share(number)),
                samples: line.samples,
                loss: line.loss,
                phases: None,
                sent_bytes: None,
                timing: Timing::Scraped,
            };
            self.events.say_at(begun + Nanos(share(number + 1)), Event::Step(step))?;
            self.steps += 1;
        }
        Ok(())
    }
}

#[expect(unsafe_code, reason = "tokio trusts that a file descriptor stays what it is")]
fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: it is owned, so it always gives the same number and is open until tokio lets go of it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, time::Duration};

    use schema::events;

    use super::*;

    /// A run in which the output of one launch is watched, and the file of its stdout.
    fn watched(pattern: &str) -> (tempfile::TempDir, RunDir, Scraper, File) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("run")).unwrap();
        let scraper = Scraper::start(&run, "0001-x", pattern).unwrap();
        let stdout = File::options().append(true).open(run.stdout_path("0001-x", 0)).unwrap();
        (dir, run, scraper, stdout)
    }

    fn steps(run: &RunDir) -> Vec<(Nanos, u64)> {
        let lines = events::read(&run.events_path("0001-x", 0), 0).unwrap();
        let step = |line: &schema::wire::EventLine| match &line.event {
            Event::Step(step) => Some((line.mono_ns, step.dur_ns.0)),
            _ => None,
        };
        lines.iter().filter_map(step).collect()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn lines_of_both_logs_end_steps_and_the_first_begins_them() {
        let (_dir, run, mut scraper, mut stdout) = watched("^step [0-9]+");
        let mut stderr = File::options().append(true).open(run.stderr_path("0001-x", 0)).unwrap();
        scraper.started(7);
        stdout.write_all(b"loading\nstep 1\n").unwrap();
        scraper.poll().unwrap();
        assert!(steps(&run).is_empty());
        stderr.write_all(b"no step\nstep 2\n").unwrap();
        scraper.poll().unwrap();
        stdout.write_all(b"step 3\nepoch\nstep 4\nstep 5").unwrap();
        scraper.poll().unwrap();
        scraper.finish().unwrap();
        let steps = steps(&run);
        assert_eq!(steps.len(), 4, "the end of a line is seen with its end, or with that of the program");
        assert!(
            steps[1].1.abs_diff(steps[2].1) <= 1,
            "those that were seen together share the time: {steps:?}"
        );
        for pair in steps.windows(2) {
            assert_eq!(
                (pair[1].0 - pair[0].0).0,
                pair[1].1,
                "a step begins where the one before it ended: {steps:?}"
            );
        }
        let whole: u64 = steps.iter().map(|(_, dur_ns)| dur_ns).sum();
        let lines = events::read(&run.events_path("0001-x", 0), 0).unwrap();
        assert_eq!(whole, (steps[3].0 - lines[0].mono_ns).0, "no time is lost");
        assert!(matches!(&lines[0].event, Event::Hello(hello) if hello.pid == 7));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_write_wakes_and_silence_does_not() {
        let (_dir, _run, mut scraper, mut stdout) = watched("step");
        let pause = Duration::from_millis(50);
        assert!(tokio::time::timeout(pause, scraper.written()).await.is_err(), "nothing was written");
        stdout.write_all(b"anything").unwrap();
        tokio::time::timeout(Duration::from_secs(60), scraper.written()).await.expect("it was told");
        scraper.poll().unwrap();
        assert!(tokio::time::timeout(pause, scraper.written()).await.is_err(), "it is told once");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn output_that_one_read_leaves_is_read_without_another_write() {
        let (_dir, run, mut scraper, mut stdout) = watched("^step [0-9]+");
        stdout.write_all(b"step 1\n").unwrap();
        scraper.poll().unwrap();
        let noise = "x".repeat(3 << 20);
        stdout.write_all(format!("{noise}\nstep 2\n").as_bytes()).unwrap();
        while steps(&run).is_empty() {
            let more = tokio::time::timeout(Duration::from_secs(60), scraper.written()).await;
            more.expect("there is more to read");
            scraper.poll().unwrap();
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_pattern_that_is_none_is_refused_by_the_name_of_its_option() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("run")).unwrap();
        let error = Scraper::start(&run, "0001-x", "(").err().expect("refused");
        assert!(format!("{error:#}").starts_with("--steps-regex: "), "{error:#}");
    }
}
