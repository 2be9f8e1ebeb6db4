//! Runs a program that reads questions as lines and writes answers as lines.

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

/// The number of lines that are read ahead of the questions. A program that writes more blocks on its stdout, so that it cannot fill
/// the memory.
const READ_AHEAD: usize = 1;

/// The number of characters of an answer, or of a line of stderr, that an error quotes.
const LONGEST_QUOTE_CHARS: usize = 80;

/// A running program. It has to exit at the end of its input. It is killed when the scheduler dies or when the thread that started
/// it ends; processes that it has started then see the end of their input. Its stderr is passed on.
pub(super) struct Program {
    name: String,
    child: Child,
    /// The input of the program. Dropping the sender ends it.
    questions: Option<Sender<String>>,
    answers: Receiver<io::Result<String>>,
    /// The last line of stderr, for errors.
    last_words: Arc<Mutex<String>>,
    /// Disconnected when stderr has ended.
    stderr_end: Receiver<()>,
    limit: Duration,
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
        let (questions, asked) = channel::<String>();
        let (answer, answers) = sync_channel(READ_AHEAD);
        let (stderr_is_open, stderr_end) = channel();
        let last_words = Arc::new(Mutex::new(String::new()));
        // Each stream has a thread, so that a program that neither reads nor writes blocks only these threads.
        thread::spawn(move || {
            let Some(mut stdin) = stdin else { return };
            asked.iter().take_while(|line| stdin.write_all(line.as_bytes()).is_ok()).for_each(drop);
        });
        thread::spawn(move || {
            let Some(mut stdout) = stdout.map(BufReader::new) else { return };
            while let Some(line) = lines::next(&mut stdout).transpose() {
                let is_over = line.is_err();
                let line = line.map(|line| String::from_utf8_lossy(&line).into_owned());
                if answer.send(line).is_err() || is_over {
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
        let (name, questions) = (name.clone(), Some(questions));
        Ok(Program { name, child, questions, answers, last_words, stderr_end, limit })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Writes a question and reads the answer.
    ///
    /// # Errors
    /// Fails if the program has ended, gives no answer in time, gives one that is too long, or wrote a line before the question.
    pub(super) fn ask(&mut self, line: String) -> anyhow::Result<String> {
        if let Ok(unasked) = self.answers.try_recv() {
            let unasked = unasked.context("its answer")?;
            bail!("it wrote '{}' before it was asked; answer each line once", beginning(&unasked));
        }
        // If the program has ended, the question is lost and the wait for the answer fails.
        let _ = self.questions.as_ref().map(|questions| questions.send(line));
        let answer = self.answers.recv_timeout(self.limit);
        match answer {
            Ok(answer) => answer.context("its answer"),
            Err(RecvTimeoutError::Timeout) => {
                bail!("no answer for {}{}", humantime::format_duration(self.limit), self.last_words())
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.questions = None;
                let end = self
                    .leave(EXPLAINED_WITHIN)
                    .map_or_else(|| "it closed its output".into(), |end| format!("it ended ({end})"));
                // Its last lines may not have been read yet. A process that it has started may keep its stderr open.
                let _ = self.stderr_end.recv_timeout(EXPLAINED_WITHIN);
                bail!("{end}{}", self.last_words())
            }
        }
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
        self.questions = None;
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
mod tests {
    use front_door::wait_for;

    use super::*;

    #[test]
    fn an_error_of_a_program_contains_its_last_output() {
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(300));
        for (script, limit, error) in [
            ("echo bad news >&2; exit 3", long, "it ended (exit status: 3); its last output: bad news"),
            ("kill -9 $$", long, "it ended (signal: 9 (SIGKILL))"),
            (
                "exec cat /dev/zero",
                long,
                "its answer: the line is longer than 16.0 MiB, the longest that is read; it may lack its line breaks",
            ),
            ("echo thinking >&2; exec sleep 1000", short, "no answer for 300ms; its last output: thinking"),
        ] {
            let argv = ["sh", "-c", script].map(str::to_owned);
            let mut program = Program::start(&argv, limit).expect("there is a shell");
            if limit == short {
                // The output arrives before the wait for the answer begins.
                wait_for("the program says something", || match program.last_words() {
                    words if words.is_empty() => Err("nothing"),
                    _ => Ok(()),
                });
            }
            assert_eq!(
                program.ask("?\n".into()).map_err(|error| format!("{error:#}")),
                Err(error.into()),
                "{script}"
            );
        }
    }

    #[test]
    fn each_line_is_answered_with_a_line() {
        let mut program = Program::start(&["cat".into()], Duration::from_secs(60)).expect("there is a cat");
        for line in ["one", "two"] {
            assert_eq!(program.ask(format!("{line}\n")).ok().as_deref(), Some(line));
        }
    }

    #[test]
    fn a_program_that_floods_its_output_stands_still_until_it_is_refused() {
        let argv = ["sh", "-c", "exec yes $(printf '%0200d' 7)"].map(str::to_owned);
        let mut program = Program::start(&argv, Duration::from_secs(60)).expect("there is a shell");
        let io = format!("/proc/{}/io", program.child.id());
        let (mut written, mut polls_alike) = (0, 0);
        wait_for("the flood stands still", || {
            let text = std::fs::read_to_string(&io).expect("the process lives");
            let count = text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok());
            let now = count.expect("the kernel counts written bytes");
            polls_alike = if now > 0 && now == written { polls_alike + 1 } else { 0 };
            written = now;
            if polls_alike > 20 { Ok(()) } else { Err(now) }
        });
        assert!(written < 1 << 20, "a pipe and a few lines, and not {written} bytes");
        let error = program.ask("?\n".into()).expect_err("it was not asked").to_string();
        let zeros = "0".repeat(LONGEST_QUOTE_CHARS);
        assert_eq!(error, format!("it wrote '{zeros}..' before it was asked; answer each line once"));
    }

    #[test]
    fn an_answer_before_the_question_is_refused() {
        let argv = ["sh", "-c", "echo early; read line; echo one"].map(str::to_owned);
        let mut program = Program::start(&argv, Duration::from_secs(60)).expect("there is a shell");
        let line = program.answers.recv();
        let (answer, answers) = sync_channel(READ_AHEAD);
        program.answers = answers;
        answer.send(line.expect("it says something")).expect("it is listened to");
        let error = program.ask("?\n".into()).expect_err("it was not asked").to_string();
        assert_eq!(error, "it wrote 'early' before it was asked; answer each line once");
    }
}
