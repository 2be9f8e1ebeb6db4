//! Trees of real processes: a shell and what it starts.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use front_door::{let_pass, wait_for, wait_until};

use super::{process::stat_of, *};
use crate::device::allowed_cores;

/// A shell that executes one line, prints `done` and reads the next line.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Shell {
    fn start() -> Shell {
        let mut child = Command::new("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("every system has sh");
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut shell = Shell { child, stdin, stdout };
        // One answer, and it is no longer the process that was forked from this one.
        shell.run("true");
        shell
    }

    fn run(&mut self, line: &str) {
        writeln!(self.stdin, "{line}\necho done").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n");
        // A sleeping shell's accounts include the CPU time of printing.
        let state = || stat_of(self.child.id()).map(|stat| stat.state);
        wait_for("it waits", || if state() == Some('S') { Ok(()) } else { Err(state()) });
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const BURN: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

/// Reads until a condition holds, because processes end when they like.
fn read_until(tree: &mut Tree, holds: impl Fn(&Reading) -> bool) -> Reading {
    wait_for("the reading is as it should be", || {
        let reading = tree.read();
        if holds(&reading) { Ok(reading) } else { Err(reading) }
    })
}

#[test]
fn work_raises_cpu_time_and_rest_does_not() {
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    let before = tree.read();
    shell.run(BURN);
    let worked = tree.read();
    assert!(worked.cpu_ns >= before.cpu_ns + 5_000_000, "{before:?} {worked:?}");
    let first = tree.read();
    let_pass(Duration::from_millis(50), "a clock that goes on at rest would show it");
    let second = tree.read();
    assert_eq!(second.cpu_ns, first.cpu_ns, "it waits in one read");
    assert!(second.rss_bytes > 0 && second.processes == 1);
}

#[test]
fn children_join_leave_and_leave_their_time_behind() {
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    let alone = tree.read();
    shell.run("sleep 1000 & child=$!");
    tree.refresh();
    let with_child = tree.read();
    assert_eq!((alone.processes, with_child.processes), (1, 2));
    shell.run("kill $child; wait $child");
    let without = read_until(&mut tree, |reading| reading.processes == 1);
    assert!(without.cpu_ns >= with_child.cpu_ns);
    // A child that comes and goes between two looks is in the accounts of its parent.
    shell.run(&format!("( {BURN} )"));
    let unseen = tree.read();
    assert!(unseen.cpu_ns >= without.cpu_ns + 5_000_000, "{without:?} {unseen:?}");
}

#[test]
fn memory_from_before_a_fork_counts_once_and_that_of_after_counts() {
    const MIB: u64 = 1 << 20;
    if sharing::Mapped::read(std::process::id()).is_none() {
        return schema::skips::skipped("kernel-accounting", "this kernel does not say what processes share");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    shell.run("before=$(head -c 32M /dev/zero | tr '\\0' a)");
    let alone = tree.read();
    assert!((32 * MIB..48 * MIB).contains(&alone.rss_bytes), "{alone:?}");
    shell.run(&format!("cd '{}'; mkfifo go end; exec 3<>go 4<>end", folder.path().display()));
    shell.run("(read line <&3; after=$(head -c 16M /dev/zero | tr '\\0' a); read line <&4) &");
    shell.run("for i in 1 2 3; do (read line <&4) & done");
    tree.refresh();
    let forked = tree.read();
    assert_eq!(forked.processes, 5);
    assert!((alone.rss_bytes..alone.rss_bytes + 8 * MIB).contains(&forked.rss_bytes), "{alone:?} {forked:?}");
    shell.run("echo >&3");
    let grown = read_until(&mut tree, |reading| reading.rss_bytes >= alone.rss_bytes + 16 * MIB);
    assert!(grown.rss_bytes < alone.rss_bytes + 64 * MIB, "{alone:?} {grown:?}");
    shell.run("for i in 1 2 3 4; do echo >&4; done; wait");
    let after = read_until(&mut tree, |reading| reading.processes == 1);
    assert!(after.rss_bytes.abs_diff(alone.rss_bytes) < 8 * MIB, "{alone:?} {after:?}");
}

#[test]
fn a_seen_child_counts_once() {
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    let folder = tempfile::tempdir().unwrap();
    let burnt = folder.path().join("burnt");
    let touch = format!("touch '{}'", burnt.display());
    shell.run(&format!("( {BURN}; {BURN}; {BURN}; {touch}; exec sleep 1000 ) & child=$!"));
    tree.refresh();
    wait_until("the child has burnt what it will", || burnt.exists());
    let burnt = tree.read();
    shell.run("kill $child; wait $child");
    let after = read_until(&mut tree, |reading| reading.processes == 1);
    let grown = after.cpu_ns - burnt.cpu_ns;
    assert!(grown < burnt.cpu_ns / 2 + 20_000_000, "{burnt:?} {after:?}");
}

#[test]
fn a_process_that_nobody_has_waited_for_has_all_of_its_cpu_time() {
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    let before = tree.read();
    shell.run(BURN);
    let _ = shell.child.kill();
    let ended = read_until(&mut tree, |reading| reading.processes == 0);
    assert!(ended.cpu_ns >= before.cpu_ns + 5_000_000, "{before:?} {ended:?}");
    let _ = shell.child.wait();
    let waited_for = tree.read();
    assert_eq!((waited_for.processes, waited_for.cpu_ns), (0, ended.cpu_ns), "it repeats the last reading");
}

#[test]
fn orphans_are_kept_and_the_end_of_the_root_takes_nothing_away() {
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    shell.run("sleep 1000 &");
    tree.refresh();
    let orphan = tree.pids().find(|&pid| pid != tree.root()).unwrap();
    shell.run(BURN);
    let before = tree.read();
    let _ = shell.child.kill();
    let _ = shell.child.wait();
    let after = tree.read();
    assert_eq!((before.processes, after.processes), (2, 1));
    assert!(after.cpu_ns >= before.cpu_ns && tree.pids().eq([orphan]));
    assert!(after.read_bytes >= before.read_bytes && after.run_queue_wait_ns >= before.run_queue_wait_ns);
    let orphan = rustix::process::Pid::from_raw(orphan as i32).unwrap();
    rustix::process::kill_process(orphan, rustix::process::Signal::KILL).unwrap();
    let end = read_until(&mut tree, |reading| reading.processes == 0);
    assert!(end.processes == 0 && end.rss_bytes == 0 && end.cpu_ns >= after.cpu_ns, "{end:?}");
}

#[test]
fn bytes_through_read_and_write_are_counted_once() {
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    let before = tree.read();
    let Some(read_before) = before.read_bytes else {
        schema::skips::skipped("kernel-accounting", "this kernel counts no bytes");
        return;
    };
    shell.run("dd if=/dev/zero of=/dev/null bs=1000000 count=3 2>/dev/null");
    let after = tree.read();
    let (read, written) = (after.read_bytes.unwrap() - read_before, after.write_bytes.unwrap());
    assert!((3_000_000..3_500_000).contains(&read), "{read}");
    assert!((3_000_000..3_500_000).contains(&written), "{written}");
    assert_eq!(tree.read().write_bytes, after.write_bytes);
}

#[test]
fn threads_that_fight_for_a_core_wait() {
    let mut shell = Shell::start();
    let mut tree = Tree::new(shell.child.id());
    let Some(before) = tree.read().run_queue_wait_ns else {
        schema::skips::skipped("kernel-accounting", "this kernel does not account for waiting");
        return;
    };
    // More runners than cores: some have to wait.
    let runners = 2 * allowed_cores().unwrap().len();
    let folder = tempfile::tempdir().unwrap();
    let over = folder.path().join("over");
    let fights = format!("until [ -e '{}' ]; do :; done", over.display());
    shell.run(&format!("( {fights} ) & ").repeat(runners));
    tree.refresh();
    let waited = read_until(&mut tree, |reading| reading.run_queue_wait_ns > Some(before + 5_000_000));
    std::fs::write(over, "").unwrap();
    shell.run("wait");
    let after = read_until(&mut tree, |reading| reading.processes == 1);
    assert!(after.run_queue_wait_ns >= waited.run_queue_wait_ns, "it stays when the runners are gone");
}

#[test]
fn a_process_that_does_not_exist_is_an_empty_tree() {
    // This process id is above the kernel's limit.
    let mut tree = Tree::new(5_000_000);
    assert_eq!(
        tree.read(),
        Reading {
            run_queue_wait_ns: tree.read().run_queue_wait_ns,
            read_bytes: Some(0),
            write_bytes: Some(0),
            ..Reading::default()
        }
    );
    assert_eq!(tree.pids().count(), 0);
}
