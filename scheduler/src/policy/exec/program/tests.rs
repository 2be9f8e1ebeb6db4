//! Programs that fail, flood or never answer.

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
            program.begin_turn("?\n".into()).map_err(|error| format!("{error:#}")),
            Err(error.into()),
            "{script}"
        );
    }
}

#[test]
fn each_line_is_answered_with_a_line() {
    let mut program = Program::start(&["cat".into()], Duration::from_secs(60)).expect("there is a cat");
    for line in ["one", "two"] {
        assert_eq!(program.begin_turn(format!("{line}\n")).ok().as_deref(), Some(line));
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
    let error = program.begin_turn("?\n".into()).expect_err("it was not asked").to_string();
    let zeros = "0".repeat(LONGEST_QUOTE_CHARS);
    assert_eq!(error, format!("it wrote '{zeros}..' before it was asked; answer each line once"));
}

#[test]
fn an_answer_before_the_question_is_refused() {
    let argv = ["sh", "-c", "echo early; read line; echo one"].map(str::to_owned);
    let mut program = Program::start(&argv, Duration::from_secs(60)).expect("there is a shell");
    let line = program.output.recv();
    let (read, output) = sync_channel(READ_AHEAD);
    program.output = output;
    read.send(line.expect("it says something")).expect("it is listened to");
    let error = program.begin_turn("?\n".into()).expect_err("it was not asked").to_string();
    assert_eq!(error, "it wrote 'early' before it was asked; answer each line once");
}

/// Replies to a program until it is refused, and returns the error.
fn refused_at_last(script: &str, reply: &str) -> String {
    let argv = ["sh", "-c", script].map(str::to_owned);
    let mut program = Program::start(&argv, Duration::from_millis(300)).expect("there is a shell");
    let mut line = program.begin_turn("?\n".into());
    while line.is_ok() {
        line = program.reply(reply.into());
    }
    line.expect_err("it has ended").to_string()
}

#[test]
fn a_program_that_asks_for_ever_has_the_time_of_one_answer() {
    let error = refused_at_last("while read line; do echo ask; done", "!\n");
    let rest = error.strip_prefix("no answer for 300ms, and ").expect(&error);
    assert!(rest.ends_with(" lines of questions") || rest == "a line of questions", "{error}");
}

#[test]
fn a_program_that_asks_and_does_not_read_the_answers_is_refused() {
    // More than a pipe holds, so that the second reply waits for the first.
    let long = format!("{}\n", "!".repeat(1 << 20));
    assert_eq!(
        refused_at_last("read line; exec yes ask", &long),
        "no answer for 300ms, and a line of questions"
    );
}

#[test]
fn lines_of_questions_may_be_written_before_the_first_is_answered() {
    let script = "read line; echo one; echo two; read line; read line; echo three";
    let argv = ["sh", "-c", script].map(str::to_owned);
    let mut program = Program::start(&argv, Duration::from_secs(60)).expect("there is a shell");
    let mut lines = vec![program.begin_turn("?\n".into()).expect("it asks")];
    lines.extend((0..2).map(|_| program.reply("!\n".into()).expect("it asks, and answers")));
    assert_eq!(lines, ["one", "two", "three"]);
}
