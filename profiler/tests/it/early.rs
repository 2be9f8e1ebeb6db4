//! Signals that come before there is a run.

use std::fs;

use front_door::{Background, executable, wait_until};
use rustix::process::Signal;

/// A worker that never reports the memory of a workload.
const THINKS_FOR_EVER: &str =
    "#!/bin/sh\ncase $1 in --footprint) echo $$ > asked.new; mv asked.new asked; sleep 600 ;; esac\n";

#[test]
fn a_signal_during_estimates_ends_in_words_and_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 130), (Signal::HUP, 129)] {
        let door = crate::door();
        let mut command = door.command_with_stand_in("single resnet18-mini --device cpu:0 --memory 2GiB");
        executable(&door.path("bin/torch-worker"), THINKS_FOR_EVER);
        fs::create_dir(door.path("tmp")).expect("the folder is writable");
        command.env("TMPDIR", door.path("tmp"));
        let mut profile = Background::start(command);
        wait_until("the worker is asked", || door.path("asked").exists());
        assert_eq!(
            fs::read_dir(door.path("tmp")).expect("it is there").count(),
            1,
            "what is estimated lies there"
        );
        let worker = fs::read_to_string(door.path("asked")).expect("it wrote its number");
        let is_worker = |process: &String| process.starts_with(&format!("{}: ", worker.trim()));
        assert!(door.leftovers().iter().any(is_worker), "it would be found if it were left");
        profile.send(signal);
        let (ended_with, said) = profile.wait();
        assert_eq!(ended_with, Some(code), "{said}");
        assert!(said.ends_with("interrupted; no job was started\n"), "{said}");
        door.wait_until_nothing_is_left();
        assert_eq!(fs::read_dir(door.path("tmp")).expect("it is there").count(), 0);
        assert!(!door.path("runs").exists(), "there is no run");
    }
}
