//! Any program, measured from outside.

use std::{fs, path::Path, process::Command, time::Instant};

use front_door::{Background, Door, Said, executable, wait_for};
use record::rows::{self, ErrorKind, HostSample, Measurement, Status, Warning};
use rig::StopMode;
use rustix::process::{Pid, Signal, kill_process};
use schema::wire::Timing;

use crate::{
    bench::{Bench, PATIENT},
    leftovers::leash_of,
    rig::{stop, wait_for_state},
};

/// A shell command that waits until the harness has read the first line of this launch, which creates the first event. Before that the
/// event file is empty. The first line ends no step, because nothing marks where a step began.
pub(crate) const UNTIL_HEARD: &str = "until [ -z \"$(find r/events -size 0)\" ]; do sleep 0.01; done";

/// As if `profile` were itself started by torchrun, by mpirun or by srun.
#[test]
fn a_program_is_no_rank_of_the_launcher_of_the_harness() {
    let of_launchers = [
        "RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "ROLE_NAME",
        "MASTER_ADDR",
        "TORCHELASTIC_RUN_ID",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "PMIX_RANK",
        "MV2_COMM_WORLD_SIZE",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_STEP_ID",
        "TANDEM_SPEC",
    ];
    let of_the_user = ["SLURM_JOB_ID", "SLURM_CPUS_PER_TASK", "MASTER", "WORKER_EVENTS"];
    let door = crate::door();
    let mut command =
        door.command("single --device cpu:0 --repeats 1 --out r -- env RANKS=3 MASTER_PORT=29500 env");
    command.envs(of_launchers.into_iter().chain(of_the_user).map(|name| (name, "3")));
    let output = command.output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", Said::of(&output).err);
    let log = door.run("r").stdout_path(&door.measurements("r")[0].launch, 0);
    let environment = fs::read_to_string(log).expect("it has written its environment");
    let has = |name: &str| environment.lines().any(|line| line.split('=').next() == Some(name));
    assert_eq!(of_launchers.into_iter().filter(|name| has(name)).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(of_the_user.into_iter().all(has), "{environment}");
    assert!(
        has("RANKS") && environment.contains("MASTER_PORT=29500"),
        "what the command sets stays: {environment}"
    );
}

#[test]
fn a_program_is_measured_until_it_ends() {
    let door = crate::door();
    let mut command = door.command("single --device cpu:0 --repeats 2 --out r --");
    let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; echo done";
    let began = Instant::now();
    let output = command.args(["sh", "-c", burn]).output().expect("profile starts");
    let took_ns = began.elapsed().as_nanos() as u64;
    assert_eq!(output.status.code(), Some(0));
    let said = Said::of(&output);
    assert!(said.out.contains("iB RSS "), "its memory is no peak of tensors: {}", said.out);
    let rows = door.measurements("r");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!((row.timing, row.step_ns_median, row.plan), (Some(Timing::Outside), None, None));
        assert!(row.cpu_ns > Some(10_000_000) && row.host_rss_peak_bytes > Some(100_000), "{row:?}");
        assert!(row.job.starts_with("cmd-sh-"));
        assert!(row.wall_ns >= row.cpu_ns, "{row:?}");
        let readings: Vec<HostSample> = rows::read_appended(&door.path("r/host.csv")).expect("it reads");
        let last = readings.iter().rfind(|reading| reading.launch == row.launch).expect("it was read");
        assert!(
            last.cpu_ns >= row.cpu_ns,
            "the last reading lacks what the kernel counted: {last:?} {row:?}"
        );
    }
    let both_ns: u64 = rows.iter().filter_map(|row| row.wall_ns).sum();
    assert!(both_ns <= took_ns, "{both_ns} of {took_ns}");
    let summary = &door.summaries("r")[0];
    assert!(
        summary.wall_ns_ci_lo <= summary.wall_ns && summary.wall_ns <= summary.wall_ns_ci_hi,
        "{summary:?}"
    );
    assert!(summary.wall_ns.is_some() && summary.half_width_percent.is_some());
    let log = fs::read_to_string(door.run("r").stdout_path(&rows[0].launch, 0)).expect("its output is kept");
    assert_eq!(log, "done\n");
}

#[test]
fn memory_is_that_of_all_processes_together() {
    let door = crate::door();
    let mut command = door.command("single --device cpu:0 --repeats 1 --out r --");
    // Each has a buffer of 64 MiB, and waits with it for a reader.
    let holds = "dd if=/dev/zero bs=64M count=1 2>/dev/null | until [ -e seen ]; do sleep 0.01; done";
    command.args(["sh", "-c", &format!("({holds}) & ({holds}) & wait")]);
    let mut profile = Background::start(command);
    wait_for("a reading has both buffers", || {
        let readings: Vec<HostSample> = rows::read_appended(&door.path("r/host.csv")).expect("it reads");
        let largest = readings.iter().filter_map(|reading| reading.rss_bytes).max();
        if largest >= Some(128 << 20) { Ok(()) } else { Err((largest, profile.has_ended())) }
    });
    door.write("seen", "");
    let (code, err) = profile.wait();
    assert_eq!(code, Some(0), "{err}");
    let row = &door.measurements("r")[0];
    let end = door.run("r").launch_end(&row.launch).expect("it reads back").expect("it has ended");
    let largest = end.ranks[0].rss_peak_bytes.expect("the kernel counts");
    let both = row.host_rss_peak_bytes.expect("it was read");
    assert!((64 << 20..96 << 20).contains(&largest), "{largest}");
    assert!((128 << 20..192 << 20).contains(&both), "{both}");
}

#[test]
fn memory_that_processes_share_after_a_fork_counts_once() {
    if !Path::new("/proc/self/smaps_rollup").exists() {
        return schema::skips::skipped("kernel-accounting", "this kernel does not say what processes share");
    }
    let door = crate::door();
    let mut command = door.command("single --device cpu:0 --repeats 1 --out r --");
    let large = "large=$(head -c 64M /dev/zero | tr '\\0' a)";
    let fork = "mkfifo end; exec 3<>end; for i in 1 2 3 4; do (read line <&3) & done";
    let end = "until [ -e seen ]; do sleep 0.01; done; for i in 1 2 3 4; do echo >&3; done; wait";
    command.args(["sh", "-c", &format!("{large}; {fork}; {end}")]);
    let mut profile = Background::start(command);
    let forked = wait_for("a reading has all processes", || {
        let readings: Vec<HostSample> = rows::read_appended(&door.path("r/host.csv")).expect("it reads");
        let read = readings.len();
        let has_all = |reading: &HostSample| reading.processes >= Some(5);
        readings.into_iter().find(has_all).ok_or_else(|| (read, profile.has_ended()))
    });
    door.write("seen", "");
    let (code, err) = profile.wait();
    assert_eq!(code, Some(0), "{err}");
    let together = forked.rss_bytes.expect("it was read");
    assert!((64 << 20..96 << 20).contains(&together), "{together}");
    let row = &door.measurements("r")[0];
    let end = door.run("r").launch_end(&row.launch).expect("it reads back").expect("it has ended");
    // The shell has the text twice for a moment. Five times 64 MiB are more than that.
    let largest = end.ranks[0].rss_peak_bytes.expect("the kernel counts");
    let peak = row.host_rss_peak_bytes.expect("it was read");
    assert!((largest..largest + (32 << 20)).contains(&peak) && peak < 256 << 20, "{largest} {peak}");
}

/// `profile` under a limit of open files, which `ulimit` sets with these arguments. Its program has twenty processes beside its
/// own until there is a file `seen`.
fn many_processes_under(door: &Door, limit: &str) -> Command {
    let profile = door.command("single --device cpu:0 --repeats 1 --out r --");
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"]);
    limited.arg(profile.get_program()).args(profile.get_args()).current_dir(door.path(""));
    let many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1000 & done";
    let waits = "until [ -e seen ]; do sleep 0.01; done";
    limited.args(["sh", "-c", &format!("ulimit -n; {many}; {waits}")]);
    limited
}

fn is_unread(row: &Measurement) -> bool {
    row.warnings.iter().any(|warning| warning == Warning::Unread)
}

#[test]
fn few_open_files_are_raised_for_readings_and_not_for_the_program() {
    let door = crate::door();
    let mut profile = Background::start(many_processes_under(&door, "-S -n 48"));
    wait_for("all processes are read", || {
        let readings: Vec<HostSample> = rows::read_appended(&door.path("r/host.csv")).expect("it reads");
        let most = readings.iter().filter_map(|reading| reading.processes).max();
        if most >= Some(21) { Ok(()) } else { Err((most, profile.has_ended())) }
    });
    door.write("seen", "");
    let (code, err) = profile.wait();
    assert_eq!(code, Some(0), "{err}");
    let row = &door.measurements("r")[0];
    assert!(row.host_rss_peak_bytes.is_some() && !is_unread(row), "{row:?}");
    let log = fs::read_to_string(door.run("r").stdout_path(&row.launch, 0)).expect("its output is kept");
    assert_eq!(log, "48\n");
}

#[test]
fn readings_without_some_of_the_processes_are_empty_and_warned_of() {
    let door = crate::door();
    let mut profile = Background::start(many_processes_under(&door, "-n 48"));
    let lacking = wait_for("a reading lacks processes", || {
        let readings: Vec<HostSample> = rows::read_appended(&door.path("r/host.csv")).expect("it reads");
        let read = readings.len();
        readings.into_iter().find(|reading| reading.err.is_some()).ok_or((read, profile.has_ended()))
    });
    door.write("seen", "");
    let (code, err) = profile.wait();
    assert_eq!(code, Some(0), "{err}");
    assert!(lacking.err.as_ref().is_some_and(|why| why.contains("Too many open files")), "{lacking:?}");
    assert_eq!((lacking.rss_bytes, lacking.cpu_ns, lacking.processes), (None, None, None));
    let row = &door.measurements("r")[0];
    assert_eq!((row.status, row.host_rss_peak_bytes), (Status::Ok, None));
    assert!(is_unread(row) && err.contains("Too many open files"), "{row:?} {err}");
    assert!(row.cpu_ns.is_some(), "the kernel's account at the end has all of them");
}

#[test]
fn a_program_that_fails_is_a_row_with_its_last_words() {
    let door = crate::door();
    let mut command = door.command("single --device cpu:0 --repeats 1 --out r --");
    let status =
        command.args(["sh", "-c", "echo no such thing >&2; exit 7"]).status().expect("profile starts");
    assert_eq!(status.code(), Some(1));
    let row = &door.measurements("r")[0];
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Crashed)));
    let detail = row.err_detail.as_deref().unwrap_or_default();
    assert!(detail.contains('7') && detail.contains("no such thing"), "{detail}");
}

#[test]
fn a_program_that_cannot_be_started_is_a_row() {
    let door = crate::door();
    executable(&door.path("script"), "#!/no/such/interpreter\n");
    door.exits(1, "single --device cpu:0 --repeats 1 --out r -- ./script");
    let row = &door.measurements("r")[0];
    assert_eq!(row.err, Some(ErrorKind::Start), "{row:?}");
}

#[test]
fn each_launch_reads_its_input_from_the_beginning() {
    let door = crate::door();
    door.write("input", "one\ntwo\nthree\n");
    for (options, lines) in [("--repeats 2 --input input --out r", "3"), ("--repeats 1 --out empty", "0")] {
        let mut command = door.command(&format!("single --device cpu:0 {options} -- wc -l"));
        assert_eq!(command.output().expect("profile starts").status.code(), Some(0));
        let name = options.split(' ').next_back().expect("the folder is named");
        for row in door.measurements(name) {
            let log =
                fs::read_to_string(door.run(name).stdout_path(&row.launch, 0)).expect("its output is kept");
            assert_eq!(log.trim(), lines, "{options}");
        }
    }
    assert_eq!(door.measurements("r").len(), 2);
}

#[test]
fn an_input_that_cannot_be_read_is_refused_before_anything_starts() {
    let door = crate::door();
    door.write("input", "");
    for (options, message) in [
        ("--input nowhere -- cat", "--input nowhere cannot be read; name a file"),
        ("--input . --dry-run -- cat", "--input . is no regular file"),
        ("--input input lstm", "--input applies to programs only"),
    ] {
        let said = door.exits(2, &format!("single --device cpu:0 --out r {options}"));
        assert!(said.err.contains(message), "{}", said.err);
        assert!(!door.path("r").exists());
    }
}

#[test]
fn a_program_that_is_not_there_is_missed_before_anything_starts() {
    let door = crate::door();
    for options in
        ["--dry-run -- no-such-program-anywhere", "--cmd ./nowhere", "lstm --cmd no-such-program-anywhere"]
    {
        let said = door.exits(2, &format!("single --device cpu:0 --out r {options}"));
        assert!(
            said.err.contains("there is no program '") && !said.err.contains("scripts/setup"),
            "{}",
            said.err
        );
        assert!(!door.path("r").exists());
    }
    let said = door.exits(2, "single python3 train.py");
    assert!(said.err.contains("`profile single -- python3 ..`"), "{}", said.err);
}

#[test]
fn a_file_that_is_not_on_the_path_is_told_from_a_program_that_is_not_there() {
    let door = crate::door();
    door.write("loop.sh", "#!/bin/sh\n");
    for (program, message) in [
        (
            "loop.sh",
            "there is no program 'loop.sh' on the PATH; to run the file in this folder, write ./loop.sh",
        ),
        ("./loop.sh", "the file './loop.sh' is not executable; run `chmod +x ./loop.sh` first"),
    ] {
        let said = door.exits(2, &format!("single --device cpu:0 --out r -- {program}"));
        assert!(said.err.contains(message), "{}", said.err);
        assert!(!door.path("r").exists());
    }
}

#[test]
fn a_time_limit_ends_a_program_and_all_it_started() {
    let door = crate::door();
    let limit = "--seconds 1 --first-step-timeout 1s";
    let mut command = door.command(&format!("single --device cpu:0 {limit} --repeats 1 --out r --"));
    let script = "sleep 1000 & (setsid sleep 1000 &) ; sleep 1000";
    let status = command.args(["sh", "-c", script]).status().expect("profile starts");
    assert_eq!(status.code(), Some(1));
    assert_eq!(door.measurements("r")[0].err, Some(ErrorKind::TooShort));
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

/// The program fails while its leash is stopped. When the leash continues, it finds the dead program and
/// the order to end it.
#[test]
fn a_program_that_has_failed_when_its_time_is_over_is_no_success() {
    for (fails, exit_code, signal) in [("exit 1", Some(1), None), ("kill -SEGV $$", None, Some(11))] {
        let mut bench = Bench::new();
        let go = bench.dir.path().join("go");
        let waits = format!("until [ -e '{}' ]; do sleep 0.01; done", go.display());
        let script = format!("{waits}; echo no module >&2; {fails}");
        let job = bench.add_command(&["sh", "-c", &script], PATIENT);
        let program = bench.until_started(job);
        let leash = leash_of(program);
        stop(leash);
        fs::write(go, "").expect("the folder is writable");
        wait_for_state(program, 'Z');
        bench.rig.remove(job, StopMode::AtStepBoundary);
        // One thread serves all launches. When a later launch has ended, this thread has given the command.
        let later = bench.add_command(&["true"], PATIENT);
        bench.until_ended(later);
        kill_process(Pid::from_raw(leash).expect("a process"), Signal::CONT).expect("it is ours");
        let end = bench.until_ended(job);
        assert_eq!(end.err, Some(ErrorKind::Crashed), "{end:?}");
        assert!(end.err_detail.is_some_and(|detail| detail.contains("no module")));
        assert!(end.enough_mono_ns.is_some(), "it was to leave");
        let rank = &end.ranks[0];
        assert_eq!((rank.exit_code, rank.signal, rank.by_itself), (exit_code, signal, true));
    }
}

#[test]
fn a_program_that_answers_the_signal_with_a_code_of_its_own_did_what_it_was_told() {
    let door = crate::door();
    let options = "--device cpu:0 --steps 20 --repeats 1 --steps-regex ^step";
    let mut command = door.command(&format!("single {options} --out r --"));
    let script = "trap 'exit 3' TERM; while :; do echo step; sleep 0.01; done";
    assert_eq!(command.args(["sh", "-c", script]).status().expect("profile starts").code(), Some(0));
    let row = &door.measurements("r")[0];
    let end = door.run("r").launch_end(&row.launch).expect("it reads back").expect("it has ended");
    assert_eq!((end.ranks[0].exit_code, end.ranks[0].by_itself), (Some(3), false));
}

#[test]
fn a_program_that_computes_between_two_steps_is_not_hung_and_one_that_waits_is() {
    let steps = "i=0; while [ $i -lt 20 ]; do echo step $i; i=$((i+1)); done";
    // Longer than the heartbeat time-out and the observation after it.
    let compute = "(sleep 5; touch go) & until [ -e go ]; do :; done";
    for (between, code, err) in [(compute, 0, None), ("sleep 1000", 1, Some(ErrorKind::Hung))] {
        let door = crate::door();
        let options = "--device cpu:0 --steps 35 --repeats 1 --heartbeat 1s --steps-regex ^step";
        let mut command = door.command(&format!("single {options} --out r --"));
        let script = format!("echo step; {UNTIL_HEARD}; {steps}; {between}; {steps}");
        let status = command.args(["sh", "-c", &script]).status().expect("profile starts");
        let row = &door.measurements("r")[0];
        assert_eq!((status.code(), row.err), (Some(code), err), "{row:?}");
        let detail = row.err_detail.as_deref().unwrap_or_default();
        assert_eq!(
            detail.contains("showed no end of a step for") && detail.contains("--heartbeat"),
            err.is_some()
        );
        assert_eq!(row.steps_total >= 35, err.is_none(), "{row:?}");
    }
}

#[test]
fn of_output_without_bounds_the_beginning_and_the_end_are_kept_and_no_step_is_lost() {
    let door = crate::door();
    // 48 MiB, of which 16 MiB are kept, and a line of them in 65536 ends a step.
    let output = "yes 'a line of output' | head -c 48M | awk '{ print } NR % 65536 == 0 { print \"step\" }'";
    let script = format!("echo step; {UNTIL_HEARD}; {output}; echo last");
    let mut command =
        door.command("single --device cpu:0 --repeats 1 --heartbeat 10m --out r --steps-regex ^step --");
    let status = command.args(["sh", "-c", &script]).status().expect("profile starts");
    let row = &door.measurements("r")[0];
    let lines = (48 << 20) / "a line of output\n".len() as u64;
    assert_eq!((status.code(), row.steps_total), (Some(0), 1 + lines / (1 << 16)), "{row:?}");
    let log = fs::read_to_string(door.run("r").stdout_path(&row.launch, 0)).expect("its output is kept");
    assert!(log.len() < 17 << 20, "{}", log.len());
    assert!(log.starts_with("step\na line of output\n") && log.ends_with("\nlast\n"));
    assert_eq!(log.matches(" of output are left out here]\n").count(), 1);
}
