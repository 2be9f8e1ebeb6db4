//! `profile colocate` on synthetic workers: groups, the files of a run, and errors of the user.

mod programs;

use std::collections::BTreeSet;

use front_door::{Background, Door, has_cores, wait_until};
use record::{
    group::{Group, Visit},
    rows::{self, Curve, ErrorKind, ExportStep, HostSample, Interference, Measurement, Side, Status},
    run_dir::RunDir,
};
use rustix::process::Signal;
use schema::{
    events,
    sharing::Sharing,
    units::{Nanos, Window},
    wire::{Event, Timing},
};

/// A light job and a lighter one on one core.
fn catalogs(door: &Door) -> &'static str {
    door.catalog("a.toml", "light", "step_us = 2000, busy_percent = 20");
    door.catalog("b.toml", "lighter", "step_us = 3000, busy_percent = 5");
    "--catalog a.toml --catalog b.toml --device cpu:0"
}

/// The time from a visit's barrier to its first command to leave.
fn visit_of(run: &RunDir, launch: &str) -> Window {
    let seat = run.spec(launch).expect("it reads").seat.expect("it is of a group");
    let visit = run.visit(&seat.visit).expect("it reads").expect("it is over");
    let (start, end) = (visit.barrier_mono_ns, visit.end_mono_ns);
    Window { start: start.expect("it had a barrier"), end: end.expect("it is over") }
}

/// The number of a launch's steps that ended between the barrier and the end of its visit.
fn steps_together(run: &RunDir, launch: &str) -> usize {
    let visit = visit_of(run, launch);
    let lines = events::read(&run.events_path(launch, 0), 0).expect("they are whole");
    let is_inside = |at: Nanos| visit.start < at && at <= visit.end;
    lines.iter().filter(|line| matches!(line.event, Event::Step(_)) && is_inside(line.mono_ns)).count()
}

/// Replaces the process readings by readings in which a job named in `one_in` uses one part in `n` of a core.
fn use_cpu(run: &RunDir, one_in: &[(&str, u64)]) {
    let template: HostSample =
        rows::from_json(r#"{"mono_ns": 0, "end_mono_ns": 0, "launch": "", "rank": 0}"#).expect("a reading");
    let mut readings = Vec::new();
    for launch in run.launches().expect("jobs/ is there") {
        let job = run.spec(&launch).expect("it reads").job;
        let Some((_, parts)) = one_in.iter().find(|(name, _)| *name == job) else { continue };
        let end = run.launch_end(&launch).expect("it reads").expect("it has ended");
        let wall_ns = end.ranks[0].wall_ns.expect("it ran");
        // A reading every millisecond, and one after the end.
        readings.extend((0..wall_ns + 2_000_000).step_by(1_000_000).map(|since| HostSample {
            mono_ns: Nanos(end.mono_ns.0 - wall_ns + since),
            launch: launch.clone(),
            cpu_ns: Some(since / parts),
            ..template.clone()
        }));
    }
    rows::write(&run.host_path(), &readings).expect("it is ours");
}

#[test]
fn a_pair_is_measured_between_its_members_alone() {
    let door = crate::door();
    let options = catalogs(&door);
    let said =
        door.exits(0, &format!("colocate light lighter {options} --steps 60 --repeats 2 --json --out r"));
    let printed: Vec<Interference> = rows::from_json(&said.out).expect("stdout is JSON and nothing else");
    let found = door.interference("r");
    assert_eq!(printed, found);

    let group = "light@b8@dp1@on=cpu:0+lighter@b8@dp1@on=cpu:0";
    for (seat, (row, job)) in found.iter().zip(["light@b8@dp1", "lighter@b8@dp1"]).enumerate() {
        assert_eq!((row.job.as_str(), row.seat, row.group.as_str()), (job, seat as u32, group));
        assert_eq!((row.status, row.blocks, row.group_size), (Status::Ok, 2, 2), "{row:?}");
        let slowdown = row.slowdown.expect("both blocks have numbers");
        assert!(row.slowdown_ci_lo <= row.slowdown && row.slowdown <= row.slowdown_ci_hi, "{row:?}");
        // Both are rounded to six decimals.
        let throughput = row.norm_throughput.expect("it is known");
        assert!((throughput * slowdown - 1.0).abs() < 1e-6 * (throughput + slowdown), "{row:?}");
        assert!(row.blocks_failed == 0 && row.group_memory_bytes.is_some(), "{row:?}");
        let [lo, estimate, hi] =
            [row.group_norm_throughput_ci_lo, row.group_norm_throughput, row.group_norm_throughput_ci_hi];
        assert!(lo.is_some() && lo <= estimate && estimate <= hi, "{row:?}");
        assert_eq!(row.timing, Some(Timing::Host));
    }

    // A block is all cells, the group, and the cells in reverse order.
    let (run, rows) = (door.run("r"), door.measurements("r"));
    for block in rows.chunk_by(|a, b| a.repeat == b.repeat) {
        let jobs: Vec<_> = block.iter().map(|row| (row.workload.as_str(), row.seat)).collect();
        let [first, second, .., again, last] = jobs[..] else { panic!("{jobs:?}") };
        assert_eq!((jobs.len(), jobs[2], jobs[3]), (6, ("light", Some(0)), ("lighter", Some(1))));
        assert!(first.0 != second.0 && (first, second) == (last, again), "{jobs:?}");
    }
    for row in rows.iter().filter(|row| row.group.is_some()) {
        assert_eq!((row.group.as_deref(), row.sharing.to_string().as_str()), (Some(group), "time-slice"));
        let steps = steps_together(&run, &row.launch);
        assert!(steps >= 60 && (1..=steps as u64).contains(&row.steps_used), "{steps} steps: {row:?}");
        // A step takes at least its sleep and its work. A busy machine only makes it longer.
        let step_ns = if row.workload == "light" { 2_000_000 } else { 3_000_000 };
        let window_ns = row.window_ns.expect("it stepped");
        let longest_ns = visit_of(&run, &row.launch).length().0;
        assert!((row.steps_used * step_ns..=longest_ns).contains(&window_ns), "{longest_ns}: {row:?}");
    }
    let summaries = door.summaries("r");
    let seats: Vec<_> = summaries.iter().map(|row| (row.workload.as_str(), row.seat, row.repeats)).collect();
    let expected = [("light", None, 4), ("lighter", None, 4), ("light", Some(0), 2), ("lighter", Some(1), 2)];
    assert_eq!(seats, expected);

    let derived = [run.measurements_path(), run.summary_path(), run.interference_path(), run.trace_path()];
    let read = || derived.iter().map(|path| std::fs::read(path).expect("derived")).collect::<Vec<_>>();
    let before = read();
    derived.iter().for_each(|path| std::fs::remove_file(path).expect("derived files can go"));
    let said = door.exits(0, "derive r");
    assert!(said.out.contains("slowdown") && said.out.contains("lighter@b8@dp1"), "{}", said.out);
    assert!(before == read(), "what is derived again is the same to the byte");

    use_cpu(&run, &[("light@b8@dp1", 5), ("lighter@b8@dp1", 20)]);
    door.exits(0, "derive r");
    for row in door.measurements("r").iter().filter(|row| row.group.is_some()) {
        let parts = if row.workload == "light" { 5 } else { 20 };
        let expected = row.window_ns.expect("it stepped") / parts;
        let cpu_ns = row.cpu_ns.expect("its readings are dense");
        assert!(
            cpu_ns.abs_diff(expected) <= 2,
            "its own CPU time, not that of the other: {expected} {row:?}"
        );
    }
}

/// A member that is held after its last step does nothing then, and its rate shows it.
#[test]
fn rates_under_turns_are_over_the_window_and_have_no_tail() {
    let door = crate::door();
    let modes = "--sharing step-gate:60ms,sequential";
    let options = catalogs(&door);
    door.exits(0, &format!("colocate light lighter {options} {modes} --steps 60 --repeats 1 --out r"));
    let rows = door.measurements("r");
    let (together, alone): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.group.is_some());
    assert_eq!((together.len(), alone.len()), (4, 4));
    for row in &rows {
        let window_s = Nanos(row.window_ns.expect("it stepped")).as_secs_f64();
        // The column is rounded to three decimals.
        let rate = row.samples_per_s.expect("a batch has 8 samples");
        assert!((rate - (8 * row.steps_used) as f64 / window_s).abs() < 1e-3, "{row:?}");
        let steps_s = Nanos(row.step_ns_mean.expect("it stepped")).as_secs_f64() * row.steps_used as f64;
        assert!((steps_s / window_s - 1.0).abs() < 1e-4, "{row:?}");
    }
    door.exits(0, "export r --steps --out steps.csv");
    let steps: Vec<ExportStep> = rows::read(&door.path("steps.csv")).expect("steps are exported");
    for row in &together {
        let counted = steps.iter().filter(|step| step.launch == row.launch && step.in_window == Some(true));
        let working_ns: u64 = counted.map(|step| step.dur_ns).sum();
        assert_eq!(
            row.held_ns.zip(row.window_ns).map(|(held, window)| window - held),
            Some(working_ns),
            "{row:?}"
        );
        assert!(row.held_ns >= Some(working_ns / 4), "the other member has its turns: {row:?}");
    }
    assert!(alone.iter().all(|row| row.held_ns.is_none()), "{alone:?}");
    assert!(alone.iter().all(|row| row.step_ns_p90.is_some()), "{alone:?}");
    assert!(together.iter().all(|row| (row.step_ns_p90, row.step_ns_p99) == (None, None)), "{together:?}");
    assert!(door.interference("r").iter().all(|row| row.slowdown_p99.is_none()));
    let summaries = door.summaries("r");
    let of = |job: &str, sharing: &str| {
        let is_of = |name: &str, mode: &Sharing| name.starts_with(job) && mode.to_string() == sharing;
        let row = rows.iter().find(|row| is_of(&row.job, &row.sharing)).expect("it was measured");
        let summary = summaries.iter().find(|row| is_of(&row.job, &row.sharing)).expect("it has a summary");
        ((row.step_ns_mean, row.samples_per_s), (summary.step_ns_mean, summary.samples_per_s))
    };
    for (job, sharing) in [("light@", "sequential"), ("lighter@", "sequential"), ("light@", "step-gate:60ms")]
    {
        let (row, summary) = of(job, sharing);
        assert_eq!(row, summary, "{job} {sharing}: of one visit");
    }
}

#[test]
fn twins_are_two_seats_of_one_cell() {
    let door = crate::door();
    let options = catalogs(&door);
    door.exits(0, &format!("colocate light light {options} --steps 30 --repeats 1 --out r"));
    let rows = door.measurements("r");
    let seats: Vec<_> = rows.iter().map(|row| row.seat).collect();
    assert_eq!(seats, [None, Some(0), Some(1), None]);
    let found = door.interference("r");
    assert_eq!((found.len(), &found[0].job), (2, &found[1].job));
    assert_eq!((found[0].blocks, found[0].slowdown_ci_lo), (1, None), "one block has no interval");
}

#[test]
fn members_that_are_apart_run_at_once_on_devices_of_their_own() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let options = format!("{},cpu:1 --apart --steps 30 --repeats 1", catalogs(&door));
    door.exits(0, &format!("colocate light light {options} --out r"));
    let found = door.interference("r");
    assert_eq!(found.iter().map(|row| row.device.as_str()).collect::<Vec<_>>(), ["cpu:0", "cpu:1"]);
    assert!(found.iter().all(|row| row.slowdown.is_some() && row.status == Status::Ok), "{found:?}");
}

#[test]
fn every_pair_and_every_mode_is_a_group() {
    let door = crate::door();
    let options = catalogs(&door);
    let groups = |arguments: &str| -> Vec<Group> {
        let jobs = "light lighter synthetic-sleep";
        let said = door.exits(0, &format!("colocate {jobs} {options} {arguments} --dry-run --json"));
        rows::from_json(&said.out).expect("stdout is JSON and nothing else")
    };
    for (arguments, count, size) in [
        ("", 1, 3),
        ("--all-pairs", 6, 2),
        ("--size 2 --sharing time-slice,sequential", 12, 2),
        ("--size 3", 10, 3),
        ("--size 4 --sharing step-gate:8:4/3/2/1", 15, 4),
    ] {
        let found = groups(arguments);
        let names: BTreeSet<_> = found.iter().map(|group| (&group.name, &group.sharing)).collect();
        assert_eq!((found.len(), names.len()), (count, count), "{arguments}");
        assert!(found.iter().all(|group| group.members.len() == size && group.unsupported.is_none()));
    }
    let said = door.exits(0, &format!("colocate light lighter {options} --all-pairs --repeats 4 --dry-run"));
    let line = |start: &str| said.out.lines().find(|line| line.trim().starts_with(start)).map(str::to_owned);
    assert!(line("light@b8@dp1@on=cpu:0 ").is_some_and(|line| line.trim().ends_with(" 8")), "{}", said.out);
    assert!(
        line("light@b8@dp1@on=cpu:0+lighter@b8").is_some_and(|line| line.trim().ends_with(" 4")),
        "{}",
        said.out
    );
    assert!(said.out.contains("in all") && !door.path("runs").exists(), "{}", said.out);
}

#[test]
fn a_group_of_one_is_refused_before_anything_is_estimated() {
    let door = crate::door();
    for (jobs, words) in [
        ("lstm", "a group needs at least two jobs; name a job twice to run it beside itself"),
        ("lstmm", "did you mean 'lstm'?"),
    ] {
        let mut command = door.command_with_stand_in(&format!("colocate {jobs} --device cpu:0 --out r"));
        let output = command.output().expect("profile starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words) && !said.contains("memory of"), "{jobs}: {said}");
        assert!(!door.path("r").exists(), "{jobs}");
    }
    // A set is one job per workload, and a program is one job.
    for more in ["set:stress", "synthetic-sleep --cmd true"] {
        door.exits(0, &format!("colocate {more} --device cpu:0 --seconds 1 --dry-run"));
    }
}

#[test]
fn what_does_not_fit_together_is_a_row_and_is_not_started() {
    let door = crate::door();
    door.catalog("big.toml", "big", "step_us = 2000, busy_percent = 5, memory_bytes = 40000000");
    door.catalog("small.toml", "small", "step_us = 2000, busy_percent = 5, memory_bytes = 1000000");
    let options = "--catalog big.toml --catalog small.toml --device cpu:0 --memory 64MiB";
    let said = door.exits(2, &format!("colocate big big {options} --out r"));
    assert!(said.err.contains("its members need 76.3 MiB together and cpu:0 has 64.0 MiB"), "{}", said.err);
    assert!(!door.path("r").exists(), "nothing was begun");

    door.exits(1, &format!("colocate big small {options} --all-pairs --steps 25 --repeats 1 --out r"));
    let found = door.interference("r");
    let status: Vec<_> = found.iter().map(|row| (row.workload.as_str(), row.seat, row.status)).collect();
    let (ok, refused) = (Status::Ok, Status::Unsupported);
    assert_eq!(status[..2], [("big", 0, refused), ("big", 1, refused)]);
    assert_eq!(status[2..], [("big", 0, ok), ("small", 1, ok), ("small", 0, ok), ("small", 1, ok)]);
    assert!(
        found[0].err_detail.as_deref().is_some_and(|detail| detail.contains("need 76.3 MiB")),
        "{found:?}"
    );
}

#[test]
fn a_member_that_dies_contaminates_the_others() {
    let door = crate::door();
    let options = catalogs(&door);
    // The second start is the one beside the other job.
    let script = "n=$(cat starts 2>/dev/null); echo $n. > starts; sleep 0.2; [ \"$n\" != . ]";
    // The visit's time-out is three times `--seconds`: 6 s.
    let mut command = door.command(&format!("colocate light {options} --seconds 2 --repeats 1 --out r"));
    let status = command.args(["--cmd", &format!("sh -c '{script}'")]).status().expect("profile starts");
    assert_eq!(status.code(), Some(1));
    let rows = door.measurements("r");
    let of_group: Vec<_> = rows.iter().filter(|row| row.group.is_some()).map(|row| row.err).collect();
    assert_eq!(of_group, [Some(ErrorKind::Contaminated), Some(ErrorKind::Crashed)], "{rows:?}");
    assert!(rows.iter().filter(|row| row.group.is_none()).all(|row| row.status == Status::Ok), "{rows:?}");
    let found = door.interference("r");
    assert_eq!((found[0].err, found[1].err), (Some(ErrorKind::Contaminated), Some(ErrorKind::Crashed)));
    assert!(found.iter().all(|row| row.status == Status::Failed && row.slowdown.is_none() && !row.valid));
    let detail = found[0].err_detail.as_deref().expect("it says whose fault it was");
    assert!(detail.contains("cmd-sh-") && detail.contains("of the same group"), "{detail}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn a_member_that_never_had_its_turn_is_a_row_too() {
    let door = crate::door();
    let options = catalogs(&door);
    door.catalog("faulty.toml", "faulty", "step_us = 2000, busy_percent = 5, fault = \"crash-before-hello\"");
    let said = door.exits(
        1,
        &format!("colocate faulty light {options} --catalog faulty.toml --steps 30 --repeats 3 --out r"),
    );
    let found = door.interference("r");
    let kinds: Vec<_> = found.iter().map(|row| (row.workload.as_str(), row.err)).collect();
    let contaminated = Some(ErrorKind::Contaminated);
    assert_eq!(kinds, [("faulty", Some(ErrorKind::NoHello)), ("light", contaminated)], "{}", said.err);
    // Two failures are enough to give up the job alone, and then the group has no baseline.
    let count = |group: bool| {
        let rows = door.measurements("r");
        rows.iter().filter(|row| row.workload == "faulty" && row.group.is_some() == group).count()
    };
    assert_eq!((count(false), count(true)), (2, 1));
}

fn lines(door: &Door, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(door.run(name).measurements_path()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn kill_9_loses_the_visit_in_flight_and_resume_measures_no_group_beside_launches_alone_of_before() {
    let door = crate::door();
    let options = catalogs(&door);
    let pairs = format!("colocate light lighter {options} --all-pairs --steps 30 --repeats 1 --out r");
    let mut profile = Background::start(door.command(&pairs));
    wait_until("a group is measured", || {
        door.path("r/groups").read_dir().is_ok_and(|visits| visits.count() > 0)
            && door.path("r/measurements.csv").exists()
            && lines(&door, "r").len() >= 5
    });
    let launches = || door.run("r").launches().expect("jobs/ is there").len();
    let before = launches();
    wait_until("the next one has begun", || launches() > before);
    profile.send(Signal::KILL);
    profile.wait();
    door.wait_until_nothing_is_left();

    let finished = lines(&door, "r");
    door.exits(0, "colocate --resume r");
    let all = lines(&door, "r");
    assert_eq!(all[..finished.len()], finished[..], "finished rows are byte-equal");
    // Each job was measured alone before the kill, and none after its groups, so the block is repeated.
    let rows = door.measurements("r");
    let of_part = |part: u32, in_group: bool| {
        let rows = rows.iter().filter(|row| row.part == part && row.group.is_some() == in_group);
        rows.map(|row| (row.job.clone(), row.group.clone(), row.seat)).collect::<Vec<_>>()
    };
    assert_eq!((of_part(0, false).len(), of_part(1, false).len()), (2, 4));
    assert_eq!(of_part(1, true).iter().collect::<BTreeSet<_>>().len(), 6, "all groups");
    assert_eq!(rows.len(), 2 + of_part(0, true).len() + 4 + 6, "and nothing twice in a part");
    for found in door.interference("r") {
        assert_eq!((found.blocks, found.blocks_failed), (1, 0), "{found:?}");
        let beside = |row: &&Measurement| row.part == 1 && row.group.is_none() && row.job == found.job;
        let logs: f64 = rows
            .iter()
            .filter(beside)
            .map(|row| (row.window_ns.expect("it has steps") as f64 / row.steps_used as f64).ln())
            .sum();
        let alone = found.step_ns_alone.expect("it is known") as f64;
        assert!(((logs / 2.0).exp() - alone).abs() < 1.0, "{found:?}");
    }
    door.exits(0, "colocate --resume r");
    assert_eq!(lines(&door, "r"), all, "there was nothing left to do");
}

#[test]
fn ctrl_c_leaves_a_group_that_was_not_measured_without_a_row() {
    let door = crate::door();
    let options = catalogs(&door);
    let mut profile = Background::start(
        door.command(&format!("colocate light lighter {options} --seconds 60 --repeats 1 --out r")),
    );
    wait_until("it runs", || door.path("r/events").read_dir().is_ok_and(|events| events.count() > 0));
    profile.send(Signal::INT);
    let (code, err) = profile.wait();
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("(time-slice), block 0") && err.contains("profile colocate --resume r"), "{err}");
    let interference = std::fs::read_to_string(door.run("r").interference_path()).expect("it was written");
    assert_eq!((lines(&door, "r").len(), interference.lines().count()), (1, 1), "the names of the columns");
    assert!(interference.starts_with("run,job,workload,"), "{interference}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
    let said = door.exits(2, "single --resume r");
    assert!(said.err.contains("is not a run of `profile single`"), "{}", said.err);
    // A run of groups prints rows of groups, even if there are none yet; a launch alone has a row.
    let printed: Vec<Interference> =
        rows::from_json(&door.exits(0, "derive r --json").out).expect("it is JSON");
    assert!(printed.is_empty());
}

#[test]
fn sensitivity_is_a_point_for_each_stressor_and_place_of_its_dial() {
    let door = crate::door();
    let options = catalogs(&door);
    let groups = |arguments: &str| -> Vec<Group> {
        let said = door.exits(0, &format!("colocate {arguments} {options} --sensitivity --dry-run --json"));
        rows::from_json(&said.out).expect("stdout is JSON and nothing else")
    };
    assert_eq!(groups("light lighter").len(), 32, "two jobs, four stressors, four places");
    assert_eq!(groups("light --dial 10,50").len(), 8);
    door.exits(
        0,
        &format!("colocate light {options} --sensitivity --dial 10 --steps 25 --repeats 1 --out r"),
    );
    let curves: Vec<Curve> = rows::read(&door.run("r").curves_path()).expect("curves.csv reads back");
    let points: BTreeSet<_> = curves.iter().map(|point| (point.stressor.as_str(), point.side)).collect();
    assert_eq!((curves.len(), points.len()), (8, 8));
    assert!(curves.iter().all(|point| point.dial_percent == 10 && point.slowdown.is_some()), "{curves:?}");
    assert!(
        points.contains(&("stress-cache", Side::Sensitivity))
            && points.contains(&("stress-io", Side::Aggressiveness))
    );
}

#[test]
fn slips_are_usage_errors_that_say_what_to_do() {
    let door = crate::door();
    for (arguments, message) in [
        ("colocate", "name two jobs, as in `profile colocate lstm vae`"),
        ("colocate synthetic-sleep", "name a job twice to run it beside itself"),
        ("colocate synthetic-sleep resnet81", "did you mean 'resnet18'?"),
        ("colocate synthetic-sleep synthetic-spin --sharing alone", "measures each job alone already"),
        ("colocate synthetic-sleep synthetic-spin --sharing time-slice,time-slice", "names time-slice twice"),
        ("colocate synthetic-sleep synthetic-spin --sharing slices", "'slices' is no sharing mode"),
        (
            "colocate synthetic-sleep synthetic-spin --sharing step-gate:3/2/1",
            "is for 3 members, and the group has 2",
        ),
        ("colocate synthetic-sleep@tp2 synthetic-spin", "cannot run: synthetic-sleep runs no plans with tp"),
        ("colocate synthetic-sleep --all-pairs --size 3", "cannot be used with"),
        ("colocate synthetic-sleep --size 1", "1 is not in 2..=16"),
        ("colocate synthetic-sleep --dial 20", "--sensitivity"),
        ("colocate synthetic-sleep --sensitivity --apart", "cannot be used with"),
        ("colocate synthetic-sleep --sensitivity --sharing sequential", "--sensitivity needs slowdowns"),
        ("colocate synthetic-sleep --yes", "--yes applies to --resume only; remove it"),
        ("colocate synthetic-sleep@on=cpu:0 synthetic-spin --apart", "names its own; remove one of them"),
        ("colocate synthetic-sleep synthetic-spin --apart --device cpu:0", "a group needs 2 devices"),
        ("colocate synthetic-sleep --sensitivity --dial 120", "120 is not in 1..=100"),
        ("colocate --cmd ' ", "a quote is not closed"),
        ("colocate --resume nowhere", "nowhere is no run"),
        ("colocate --resume nowhere --repeats 3", "cannot be used with"),
        ("colocate --resume nowhere --seed 3", "cannot be used with"),
        ("colocate synthetic-sleep synthetic-spin --data nowhere", "there is no such folder"),
        ("colocate synthetic-sleep synthetic-spin --offload-threads 2", "no plan of this run has offload"),
    ] {
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
    }
    let lacking = door.exits(3, "colocate synthetic-sleep synthetic-spin --device cpu:9999");
    assert!(lacking.err.contains("is not among the cores"), "{}", lacking.err);
    assert!(!door.path("runs").exists(), "nothing was begun");
}

/// Rewrites a visit of the run after a change.
fn visit_otherwise(run: &RunDir, change: impl FnOnce(&mut Visit)) {
    let name = run.visits().expect("they read")[0].clone();
    let mut visit = run.visit(&name).expect("it reads").expect("it is over");
    change(&mut visit);
    std::fs::remove_file(run.visit_path(&name)).expect("it is ours");
    run.write_visit(&name, &visit).expect("it is ours");
}

#[test]
fn a_visit_without_time_in_which_all_were_steady_says_so_in_the_rows_of_all() {
    let door = crate::door();
    let options = catalogs(&door);
    door.exits(0, &format!("colocate light lighter {options} --steps 30 --repeats 1 --out r"));
    visit_otherwise(&door.run("r"), |visit| visit.end_mono_ns = visit.barrier_mono_ns);
    door.exits(1, "derive r");
    let rows = door.measurements("r");
    let members: Vec<_> = rows.iter().filter(|row| row.group.is_some()).collect();
    assert_eq!(members.len(), 2);
    for row in members {
        assert_eq!((row.status, row.err, row.steps_used), (Status::Failed, Some(ErrorKind::TooShort), 0));
        let why = "no time in which all members were steady; give the group more with --seconds";
        assert_eq!(row.err_detail.as_deref(), Some(why));
    }
    for row in door.interference("r") {
        assert_eq!((row.slowdown, row.blocks, row.blocks_failed), (None, 0, 1), "{row:?}");
    }
}
