//! Runs a program that reads lines and writes lines: at least one for each turn.

use std::{
    io::{self, BufReader, Write},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use record::lines;
use rig::{leash::die_with_us, output, processes::descendants};
use rustix::process::{Pid, Signal};

/// The time in which a program has to exit after the end of its input.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// The time-out for the exit status and the remaining stderr of a program that has closed its stdout. Only a program that keeps running,
/// or whose child does, reaches it.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(10);

/// The number of its lines that are read before they are waited for. A program that writes more blocks on its stdout, so that it cannot
/// fill the memory.
const READ_AHEAD: usize = 1;

/// The number of characters of an answer, or of a line of stderr, that an error quotes.
const LONGEST_QUOTE_CHARS: usize = 80;

/// A running program. It has to exit at the end of its input. It is killed when the scheduler dies or when the thread that started
/// it ends; processes that it has started then see the end of their input. Its stderr is passed on.
pub(super) struct Program {
    name: String,
    child: Child,
    /// The input of the program. Dropping the sender ends it.
    input: Option<Sender<String>>,
    /// A message for each line of input that the program, or a pipe to it, has taken.
    taken: Receiver<()>,
    /// The number of lines of input without such a message.
    pending: usize,
    output: Receiver<io::Result<String>>,
    /// The last line of stderr, for errors.
    last_words: Arc<Mutex<String>>,
    /// Disconnected when stderr has ended.
    stderr_end: Receiver<()>,
    /// The time for a turn, and when that of the present turn ends.
    limit: Duration,
    turn_ends: Instant,
    /// The number of replies in the present turn.
    replies: u64,
}

impl Program {
    pub(super) fn start(argv: &[String], limit: Duration) -> anyhow::Result<Program> {
        let [name, arguments @ ..] = argv else { bail!("no program is named") };
        let mut command = Command::new(name);
        // In a process group of its own it does not receive Ctrl-C. The scheduler does, and ends the run in order.
        command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        die_with_us(&mut command);
        let mut child = command.spawn().with_context(|| format!("'{name}' cannot be started"))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (input, to_write) = channel::<String>();
        let (take, taken) = channel();
        let (read, output) = sync_channel(READ_AHEAD);
        let (stderr_is_open, stderr_end) = channel();
        let last_words = Arc::new(Mutex::new(String::new()));
        // Each stream has a thread, so that a program that neither reads nor writes blocks only these threads.
        thread::spawn(move || {
            let Some(mut stdin) = stdin else { return };
            let mut lines = to_write.iter();
            while lines.next().is_some_and(|line| stdin.write_all(line.as_bytes()).is_ok()) {
                // An error means that the program was dropped.
                let _ = take.send(());
            }
        });
        thread::spawn(move || {
            let Some(mut stdout) = stdout.map(BufReader::new) else { return };
            while let Some(line) = lines::next(&mut stdout).transpose() {
                let is_over = line.is_err();
                let line = line.map(|line| String::from_utf8_lossy(&line).into_owned());
                if read.send(line).is_err() || is_over {
                    return;
                }
            }
        });
        let (prefix, last_line) = (name.clone(), last_words.clone());
        thread::spawn(move || {
            let Some(mut stderr) = stderr.map(BufReader::new) else { return };
            while let Some(line) = lines::next(&mut stderr).transpose() {
                let is_over = line.is_err();
                let line =
                    line.map_or_else(|error| error.to_string(), |line| String::from_utf8_lossy(&line).into());
                output::note(format_args!("{prefix}: {line}"));
                *last_line.lock().unwrap_or_else(PoisonError::into_inner) = beginning(&line);
                if is_over {
                    break;
                }
            }
            // After an error stderr is still read, so that the program does not block on a full pipe.
            let _ = io::copy(&mut stderr, &mut io::sink());
            drop(stderr_is_open);
        });
        let (name, input) = (name.clone(), Some(input));
        let (pending, replies, turn_ends) = (0, 0, Instant::now());
        Ok(Program {
            name,
            child,
            input,
            taken,
            pending,
            output,
            last_words,
            stderr_end,
            limit,
            turn_ends,
            replies,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Writes the first line of a turn, and reads the next line of the program.
    ///
    /// # Errors
    /// Fails if the program has ended, writes nothing in time, writes a line that is too long, or wrote one before the turn.
    pub(super) fn begin_turn(&mut self, line: String) -> anyhow::Result<String> {
        if let Ok(unasked) = self.output.try_recv() {
            let unasked = unasked.context("its answer")?;
            bail!("it wrote '{}' before it was asked; answer each line once", beginning(&unasked));
        }
        (self.turn_ends, self.replies) = (Instant::now() + self.limit, 0);
        self.write(line);
        self.read()
    }

    /// Writes a further line of the turn, and reads the next line of the program. The lines before have to be taken first, so that a
    /// program that never reads cannot fill the memory.
    ///
    /// # Errors
    /// See [`Program::begin_turn`]. All lines of a turn have the same time together.
    pub(super) fn reply(&mut self, line: String) -> anyhow::Result<String> {
        while self.pending > 0 {
            match self.taken.recv_timeout(self.time_left()) {
                Ok(()) => self.pending -= 1,
                Err(RecvTimeoutError::Timeout) => bail!(self.overdue()),
                // It has closed its input. The next read says how it ended, if it has.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.replies += 1;
        self.write(line);
        self.read()
    }

    fn write(&mut self, line: String) {
        self.pending -= self.taken.try_iter().count();
        self.pending += 1;
        // If the program has ended, the line is lost and the next read fails.
        let _ = self.input.as_ref().map(|input| input.send(line));
    }

    fn read(&mut self) -> anyhow::Result<String> {
        let left = self.time_left();
        // A program that asks for ever always has a line.
        if left.is_zero() {
            bail!(self.overdue());
        }
        match self.output.recv_timeout(left) {
            Ok(line) => line.context("its answer"),
            Err(RecvTimeoutError::Timeout) => bail!(self.overdue()),
            Err(RecvTimeoutError::Disconnected) => {
                self.input = None;
                let end = self
                    .leave(EXPLAINED_WITHIN)
                    .map_or_else(|| "it closed its output".into(), |end| format!("it ended ({end})"));
                // Its last lines may not have been read yet. A process that it has started may keep its stderr open.
                let _ = self.stderr_end.recv_timeout(EXPLAINED_WITHIN);
                bail!("{end}{}", self.last_words())
            }
        }
    }

    fn time_left(&self) -> Duration {
        self.turn_ends.saturating_duration_since(Instant::now())
    }

    fn overdue(&self) -> String {
        let questions = match self.replies {
            0 => String::new(),
            1 => ", and a line of questions".into(),
            lines => format!(", and {lines} lines of questions"),
        };
        let limit = humantime::format_duration(self.limit);
        format!("no answer for {limit}{questions}{}", self.last_words())
    }

    fn last_words(&self) -> String {
        match &**self.last_words.lock().unwrap_or_else(PoisonError::into_inner) {
            "" => String::new(),
            line => format!("; its last output: {line}"),
        }
    }

    /// Waits at most `within` for the program to exit. Returns the exit status if it does.
    fn leave(&mut self, within: Duration) -> Option<std::process::ExitStatus> {
        let until = Instant::now() + within;
        loop {
            // The clock is read before the check, so that one check follows even a sleep that outlasts the time-out.
            let is_last = Instant::now() >= until;
            match self.child.try_wait() {
                Ok(Some(end)) => return Some(end),
                Ok(None) if !is_last => thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        if self.leave(LEAVES_WITHIN).is_none() {
            // If the program is a shell, the processes that it has started are killed with it.
            let below = descendants(Pid::from_child(&self.child).as_raw_nonzero().get());
            // An error means that it has ended meanwhile, or that we may not kill it.
            let _ = self.child.kill();
            let _ = self.child.wait();
            below.into_iter().for_each(|process| process.signal(Signal::KILL));
        }
    }
}

/// The beginning of a line, for errors.
pub(super) fn beginning(line: &str) -> String {
    let line = line.trim_end();
    let rest = if line.chars().nth(LONGEST_QUOTE_CHARS).is_some() { ".." } else { "" };
    line.chars().take(LONGEST_QUOTE_CHARS).chain(rest.chars()).collect()
}

#[cfg(test)]
mod tests;
