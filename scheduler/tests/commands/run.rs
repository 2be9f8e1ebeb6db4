//! `sched run` with synthetic workers: its files, and its resumption.

mod interrupted;
mod refused;

use std::process::Command;

use formats::{
    decision::{self, Action, ClusterEvent, JobId, Turn},
    rows::{MachineSpeed, Outcome, Prediction},
    saved::Saved,
};
use front_door::{Background, Door, Said, definition, has_cores, wait_until};
use record::{
    rows::{self, ErrorKind, Status, Summary},
    run_dir::RunDir,
};
use rustix::process::Signal;
use schema::{device::Device, events, wire::Event};

use crate::{
    held::{Held, starts},
    sim::measured,
};

/// Six jobs on two devices, some of which SRTF preempts for others.
pub(crate) const TRACE: &str = "\
name,submit_s,job,command,steps,step_ns
long,0,short,,700,5000000
second,0.1,short,,500,5000000
both,0.5,short@dp2,,120,5000000
quick,1.2,short,,60,5000000
other,1.4,short,,200,5000000
last,2,short@ga2,,150,5000000
";

pub(crate) const ON_TWO: &str = "--device cpu:0,cpu:1 --catalog catalog.toml --progress-every 200ms --out r";

pub(crate) fn door(trace: &str) -> Door {
    let door = crate::door();
    // Steps of 5 ms; and jobs whose rank is killed in its sixth.
    let step = "step_us = 5000, busy_percent = 0";
    let short = definition("short", step);
    let dies = definition("dies", &format!("{step}, fault.rank-dies = {{ rank = 0, after_steps = 5 }}"));
    door.write("catalog.toml", &format!("{short}{dies}"));
    door.write("trace.csv", trace);
    door
}

/// The same for a run that is started with [`ON_TWO`]. `None`, with a recorded skip, on one core.
pub(crate) fn door_to_two(trace: &str) -> Option<Door> {
    has_cores(2).then(|| door(trace))
}

pub(crate) fn outcomes(door: &Door) -> Vec<Outcome> {
    rows::read(&run(door).outcomes_path()).expect("outcomes.csv reads back")
}

pub(crate) fn run(door: &Door) -> RunDir {
    RunDir::open(&door.path("r")).expect("the run was begun")
}

#[test]
fn jobs_of_a_trace_run_and_stand_beside_what_was_predicted() {
    let Some(door) = door_to_two(TRACE) else { return };
    let said = door.exits(0, &format!("run trace.csv --policy srtf --switch-cost 50ms {ON_TWO}"));
    assert!(said.out.contains("6 of 6 jobs done; average JCT"), "{}", said.out);
    assert!(
        said.err.contains("long runs from step "),
        "plain lines where there is no terminal: {}",
        said.err
    );
    let (outcomes, run) = (outcomes(&door), run(&door));
    let asked = [700, 500, 120, 60, 200, 150];
    for (row, steps) in outcomes.iter().zip(asked) {
        assert_eq!((row.status, row.steps, row.steps_lost), (Status::Ok, steps, 0), "{row:?}");
        let parts = [row.queued_ns, row.switching_ns, row.running_ns, row.paused_ns];
        assert_eq!(parts.iter().flatten().sum::<u64>(), row.jct_ns.expect("it is done"), "{row:?}");
        assert!(row.predicted_jct_ns.is_some(), "{row:?}");
    }
    let predictions: Vec<Prediction> =
        rows::read(&run.predictions_path()).expect("predictions.csv reads back");
    assert_eq!(predictions.len(), 6);
    let turns = decision::read(&run.decisions_path()).expect("decisions.jsonl reads back");
    let stops = turns.iter().flat_map(|turn| &turn.actions).filter(|act| matches!(act, Action::Stop { .. }));
    let stops = stops.count() as u32;
    assert!(stops > 0, "the short ones pass the long ones");
    assert_eq!(outcomes.iter().filter_map(|row| row.stops).sum::<u32>(), stops);
    for (row, prediction) in outcomes.iter().zip(&predictions) {
        // The time of step 100 lies between the reports around it.
        let reports =
            turns.iter().flat_map(|turn| turn.events.iter().map(move |event| (turn.at_ns.0, event)));
        let (mut before, mut after) = (row.submit_ns, None);
        for (at, steps) in reports.filter_map(|(at, event)| Some((at, reported(event, row.job)?))) {
            match steps {
                0..100 => before = at,
                _ if after.is_none() => after = Some(at),
                _ => {}
            }
        }
        let found = row.first_100_ns.map(|ns| row.submit_ns + ns);
        assert_eq!(
            (found.is_some(), prediction.first_100_ns.is_some()),
            (row.steps >= 100, row.steps >= 100)
        );
        assert!(
            found.is_none_or(|at| (before..=after.unwrap()).contains(&at)),
            "{row:?}: {before} {after:?}"
        );
    }
    assert!(said.out.contains(&format!("; {stops} preemptions, ")), "{}", said.out);
    assert!(said.err.contains(" decisions took "), "{}", said.err);
    let end = run.end().expect("end.toml reads").expect("it was written");
    assert_eq!((end.exit_code, end.missing.len()), (0, 0));
    assert!(run.manifest().expect("it reads").scheduling.is_some());

    let before = std::fs::read_to_string(run.outcomes_path()).expect("it reads");
    door.exits(0, "run --resume r");
    assert_eq!(
        std::fs::read_to_string(run.outcomes_path()).expect("it reads"),
        before,
        "nothing was left to do"
    );
    let replayed = door.exits(0, "replay r");
    assert!(replayed.out.contains("every decision as it was recorded"), "{}", replayed.out);
    let again = door.exits(2, &format!("run trace.csv --policy srtf {ON_TWO}"));
    let remedy = "r already holds a run; name another directory, or continue this run with --resume\n";
    assert!(again.err.ends_with(remedy), "{}", again.err);
    let sim = "sim trace.csv --policy srtf --cluster 1x2 --switch-cost 1s --catalog catalog.toml --out r";
    let again = door.exits(2, sim);
    assert!(again.err.ends_with("r already holds a run; name another directory\n"), "{}", again.err);
}

#[test]
fn consent_without_a_question_is_refused() {
    let door = door(TRACE);
    for (command, only) in [
        ("run trace.csv --policy fifo --device cpu:0 --yes", "--resume"),
        ("fidelity r --yes", "--hindsight"),
    ] {
        let said = door.exits(2, command);
        assert!(said.err.contains(&format!("--yes applies to {only} only; remove it")), "{}", said.err);
    }
}

#[test]
fn files_of_the_user_stay_in_and_beside_a_run() {
    let Some(door) = door_to_two(TRACE) else { return };
    std::fs::create_dir(door.path("r")).expect("it is new");
    door.write("r/best.pt", "weights");
    let said = door.exits(2, &format!("run trace.csv --policy fifo {ON_TWO}"));
    assert!(said.err.contains("r already holds best.pt"), "{}", said.err);

    std::fs::remove_file(door.path("r/best.pt")).expect("it is there");
    door.exits(0, &format!("run trace.csv --policy fifo {ON_TWO}"));
    door.write("r/checkpoints/best.pt", "weights");
    door.exits(0, "run --resume r");
    let weights = std::fs::read_to_string(door.path("r/checkpoints/best.pt")).expect("it is still there");
    assert_eq!(weights, "weights");

    std::fs::rename(door.path("r/checkpoints"), door.path("weights")).expect("it is there");
    std::os::unix::fs::symlink("../weights", door.path("r/checkpoints")).expect("the name is free");
    let said = door.exits(2, "run --resume r");
    assert!(
        said.err.contains("r/checkpoints is a symbolic link, and a run has files and folders alone"),
        "{}",
        said.err
    );
    assert!(door.path("weights/best.pt").exists());
}

/// The steps of a job in an event.
fn reported(event: &ClusterEvent, of: JobId) -> Option<u64> {
    match *event {
        ClusterEvent::Progress { job, steps, .. }
        | ClusterEvent::Settled { job, steps, .. }
        | ClusterEvent::Finished { job, steps }
            if job == of =>
        {
            Some(steps)
        }
        _ => None,
    }
}

/// Steps take 5 ms or more, and the trace says 2.5 ms.
#[test]
fn a_machine_that_is_slower_than_its_tables_is_told_of_while_the_run_goes_on() {
    let trace = "name,submit_s,job,steps,step_ns\none,0,short,1400,2500000\ntwo,0,short,1400,2500000\n";
    let Some(door) = door_to_two(trace) else { return };
    let said = door.exits(0, &format!("run trace.csv --policy fifo --switch-cost 50ms --draws 20 {ON_TWO}"));
    let warned: Vec<&str> =
        said.err.lines().filter(|line| line.contains("times as long as the tables say")).collect();
    let [warned] = &warned[..] else { panic!("once: {}", said.err) };
    assert!(warned.contains("expects 0.87 to 1.14 times"), "{warned}");
    let (_, told) = warned.split_once(" jobs took ").expect("it says how long");
    let told: f64 = told.split_once(' ').and_then(|(ratio, _)| ratio.parse().ok()).expect("it is a number");
    assert!(said.err.contains("watch it with: report serve "), "{}", said.err);
    assert!(
        said.err.contains("predicted average JCT") && said.err.contains("(95 % of 20 draws)"),
        "{}",
        said.err
    );
    let speed: Vec<MachineSpeed> = rows::read(&run(&door).speed_path()).expect("speed.csv reads back");
    // A report has whole steps, and the latest steps are not reported yet.
    let least = 0.95 * 2.0;
    assert!(told >= least && !speed.is_empty(), "{warned}");
    for row in speed {
        assert!(row.step_ratio >= least && (1..=2).contains(&row.jobs), "{row:?}");
        assert!(row.step_ratio_min <= row.step_ratio && row.step_ratio <= row.step_ratio_max, "{row:?}");
    }
}

#[test]
fn a_job_that_fails_is_tried_again_and_then_a_row_with_its_last_words() {
    let trace =
        "name,submit_s,job,command,steps\nbad,0,dies,,50\ngood,0,short,,50\nmine,0.2,,sh -c 'exit 0',\n";
    let Some(door) = door_to_two(trace) else { return };
    door.exits(1, &format!("run trace.csv --policy fifo {ON_TWO}"));
    let [bad, good, mine] = &outcomes(&door)[..] else { panic!("three rows") };
    assert_eq!((good.status, mine.status, bad.status), (Status::Ok, Status::Ok, Status::Failed));
    assert_eq!((bad.err, bad.retries, bad.starts), (Some(ErrorKind::Killed), 2, 3));
    assert_eq!((bad.steps, bad.steps_lost), (0, 15), "five steps, three times");
    assert!(bad.err_detail.as_deref().unwrap_or_default().contains("was killed by SIGKILL"), "{bad:?}");
}

/// The grants of jobs do not grow while the policy computes.
#[test]
fn a_policy_that_takes_too_long_is_told_of() {
    let Some(door) = door_to_two("name,submit_s,job,steps\na,0,short,100\n") else { return };
    let starts_all = "import json, sys, time\nfor turn in map(json.loads, sys.stdin):\n    time.sleep(0.4)\n    \
        waiting = [job for job in turn['jobs'] if job['state'] == 'waiting']\n    \
        start = [{'start': {'job': job['job'], 'devices': [0], 'plan': job['plan']}} for job in waiting]\n    \
        print(json.dumps({'turn': turn['turn'], 'actions': start}), flush=True)\n";
    door.write("slow.py", starts_all);
    let mut sched = door.command(&format!("run trace.csv {ON_TWO}"));
    let output = sched.args(["--policy", "exec:python3 slow.py"]).output().expect("sched starts");
    let said = Said::of(&output);
    assert!(output.status.success(), "{}", said.err);
    assert_eq!(said.err.matches("warning: a decision took ").count(), 1, "{}", said.err);

    // The policy's program is started again only if the user agrees, and a test has no terminal for the
    // question.
    for command in ["run --resume r", "replay r"] {
        let said = door.exits(2, command);
        assert!(said.err.contains("  python3 slow.py\n") && said.err.contains("--yes"), "{}", said.err);
        door.exits(0, &format!("{command} --yes"));
    }
}

/// Writes a run that measured `short` on devices of this machine: 5 ms under dp1, and 3 ms under dp2.
fn short_is_measured(door: &Door, name: &str) {
    measured(door, name);
    let run = RunDir::open(&door.path(name)).expect("it was written");
    let mut manifest = run.manifest().expect("it was written");
    let facts = |core| {
        let device = rig::device::open(&Device::Cpu(vec![core])).expect("there are two cores");
        device.facts().clone()
    };
    manifest.devices = vec![facts(0), facts(1)];
    std::fs::remove_file(run.manifest_path()).expect("it was written");
    run.write_manifest(&manifest).expect("the folder is writable");
    let row = |plan: &str, device: &str, ms: u64| {
        format!(
            r#"{{"run": "r", "job": "short@b8@{plan}", "workload": "short", "plan": "{plan}", "device": "{device}", "threads": 1,
            "sharing": "alone", "global_batch": 8, "repeats": 3, "repeats_failed": 0, "warnings": "",
            "step_ns_median": {ms}000000, "samples_per_s": {}, "status": "ok"}}"#,
            8000 / ms
        )
    };
    let rows = [row("dp1", "cpu:0", 5), row("dp2", "cpu:0,cpu:1", 3)];
    let rows = rows.map(|row| rows::from_json::<Summary>(&row).expect("it is a row"));
    rows::write(&run.summary_path(), &rows).expect("the folder is writable");
    std::fs::remove_file(run.interference_path()).expect("it was written");
}

/// An elastic job has both devices, gives one to a job that arrives, and gets it back. The elastic job has more steps than fit into this
/// time, and the test interrupts the run once the job has both devices again.
#[test]
fn a_program_reshapes_elastic_jobs_by_what_it_is_told_of_their_plans() {
    let program = include_str!("../../examples/reshape.py");
    assert!(program.lines().count() < 60, "it is meant to be short");
    let rows = "long,0,short@dp2,1000000,true\nother,1,short@dp1,100,false\n";
    let Some(door) = door_to_two(&format!("name,submit_s,job,steps,elastic\n{rows}")) else { return };
    door.write("reshape.py", program);
    short_is_measured(&door, "alone");
    let mut command = door.command(&format!("run trace.csv {ON_TWO} --table alone --policy"));
    command.arg("exec:python3 reshape.py");
    let said = interrupted_when(&door, command, "the job has been reshaped twice", |turns| {
        goes_on_under(turns, 0, 3)
    });
    assert_eq!(plans(&run(&door), 0), ["dp2", "dp1", "dp2"], "{said}");
    let rows = outcomes(&door);
    assert_eq!((rows[1].status, rows[1].steps, rows[1].steps_lost), (Status::Ok, 100, 0));
    assert_eq!((rows[0].err, rows[0].steps_lost), (Some(ErrorKind::Interrupted), 0));
    does_each_step_once(&run(&door), &rows[0]);
}

/// Checks that the launches of a job have executed as many steps as it has saved.
pub(crate) fn does_each_step_once(run: &RunDir, row: &Outcome) {
    let launches = run.launches().expect("jobs/ is there");
    let of_job = launches.iter().filter(|launch| run.spec(launch).expect("it reads").cell == row.name);
    let steps = of_job.map(|launch| {
        let lines = events::read(&run.events_path(launch, 0), 0).expect("events read");
        lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as u64
    });
    let saved = Saved::read(run, row.job).expect("it reads").expect("it was saved");
    assert_eq!(steps.sum::<u64>(), saved.steps, "{row:?}");
}

/// Interrupts a run once `is_enough` accepts its turns, and returns stderr. Panics if the run ends by itself.
pub(crate) fn interrupted_when(
    door: &Door,
    run: Command,
    what: &str,
    is_enough: impl Fn(&[Turn]) -> bool,
) -> String {
    let journal = door.path("r/decisions.jsonl");
    let mut run = Background::start(run);
    wait_until(what, || {
        assert!(!run.has_ended(), "{:?}", run.wait());
        decision::read(&journal).is_ok_and(|turns| is_enough(&turns))
    });
    run.send(Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    said
}

/// Returns whether a job was started this number of times and has reported steps since the last start.
pub(crate) fn goes_on_under(turns: &[Turn], job: u32, starts: usize) -> bool {
    let is_start = |action: &Action| matches!(action, Action::Start { job: of, .. } if of.0 == job);
    let mut started = turns.iter().enumerate().filter(|(_, turn)| turn.actions.iter().any(is_start));
    let Some((last, _)) = started.nth(starts - 1) else { return false };
    let reports =
        |happened: &ClusterEvent| matches!(happened, ClusterEvent::Progress { job: of, .. } if of.0 == job);
    turns[last + 1..].iter().flat_map(|turn| &turn.events).any(reports)
}

/// The plans under which a job was started, in order.
pub(crate) fn plans(run: &RunDir, job: u32) -> Vec<String> {
    let turns = decision::read(&run.decisions_path()).expect("decisions.jsonl reads back");
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
    let plan = |action: &Action| match action {
        Action::Start { job: of, plan, .. } if of.0 == job => Some(plan.expect("it has a plan").to_string()),
        _ => None,
    };
    turns.iter().flat_map(|turn| &turn.actions).filter_map(plan).collect()
}

/// Starts [`TRACE`] and halts it once a job has done steps. Two jobs train, and the others start when one of the two has ended.
fn held(door: &Door) -> Held<'_> {
    let two = starts(&[(0, "dp1", &[0]), (1, "dp1", &[1])]);
    let others = starts(&[(2, "dp2", &[0, 1]), (3, "dp1", &[0]), (4, "dp1", &[1]), (5, "ga2", &[0])]);
    let all = format!("{two}, {others}");
    Held::start(door, door.command(&format!("run trace.csv {ON_TWO}")), (&two, &all), "true")
}

#[test]
fn a_run_whose_outcomes_cannot_be_written_says_how_it_ended() {
    let Some(door) = door_to_two(TRACE) else { return };
    let run_held = held(&door);
    std::fs::create_dir(door.path("r/outcomes.csv")).expect("it is not there yet");
    let (code, said) = run_held.go_on();
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("outcomes.csv"), "{said}");
    let end = run(&door).end().expect("end.toml reads").expect("it was written");
    assert_eq!(end.exit_code, 5);

    std::fs::remove_dir(door.path("r/outcomes.csv")).expect("it is ours");
    door.exits(0, "run --resume r --yes");
    assert!(outcomes(&door).iter().all(|row| row.status == Status::Ok));
}

/// A policy that starts both jobs on one core.
const PACKS: &str = "import json, sys\n\
    for turn in map(json.loads, sys.stdin):\n\
    \x20   start = [{'start': {'job': job['job'], 'devices': [0], 'plan': job['plan']}} for job in turn['jobs'] if job['state'] == 'waiting']\n\
    \x20   print(json.dumps({'turn': turn['turn'], 'actions': start}), flush=True)\n";

#[test]
fn jobs_share_a_core_in_the_mode_of_the_run() {
    for sharing in ["step-gate:5", "time-slice:20ms"] {
        let trace = "name,submit_s,job,steps,step_ns\na,0,short,150,5000000\nb,0,short,150,5000000\n";
        let Some(door) = door_to_two(trace) else { return };
        door.write("packs.py", PACKS);
        let mut command = door.command(&format!("run trace.csv --sharing {sharing} {ON_TWO} --policy"));
        let output = command.arg("exec:python3 packs.py").output().expect("it starts");
        let said = Said::of(&output);
        if said.err.contains("it takes Linux 6.12 to choose them") {
            assert_eq!((output.status.code(), door.path("r").exists()), (Some(3), false), "{}", said.err);
            schema::skips::skipped("slices", said.err);
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{sharing}: {}", said.err);
        let rows = outcomes(&door);
        assert!(rows.iter().all(|row| (row.status, row.steps) == (Status::Ok, 150)), "{rows:?}");
        // One of the two still waits while the other trains, in either order.
        assert!(rows.iter().any(|row| row.packed_ns > Some(0)), "{rows:?}");
        let run = run(&door);
        for launch in run.launches().unwrap() {
            assert_eq!(run.spec(&launch).unwrap().sharing.to_string(), sharing);
        }
    }
}

#[test]
fn a_run_that_nothing_is_predicted_of_says_what_to_measure_for_that() {
    let Some(door) = door_to_two("name,submit_s,job,steps\na,0,short,5\n") else { return };
    let said = door.exits(0, &format!("run trace.csv --policy fifo {ON_TWO}"));
    let calibrate = "there is no prediction, because the costs of switches are not known; run `profile calibrate short@b8@dp1 \
        --device cpu:0,cpu:1 --catalog catalog.toml --out machine.toml` first";
    assert!(said.err.contains(calibrate), "{}", said.err);
}

/// A program whose output shows its steps: it is ended after the requested number, or has ended before.
#[test]
fn a_program_does_the_steps_that_were_asked_for_or_says_that_it_did_not() {
    // The harness counts steps from the first line, so that the program waits until the line is read.
    let shows = |steps, then| {
        let wait = "until test -e go; do sleep 0.02; done";
        format!(
            "sh -c 'echo step 1; {wait}; for i in $(seq 2 {steps}); do echo step $i; sleep 0.01; done; {then}'"
        )
    };
    let trace = format!(
        "name,submit_s,job,command,steps,steps_regex\nlong,0,,{},30,^step\nearly,0.1,,{},50,^step\nunseen,0.2,,{},50,\n\
         beside,0.2,short,,60,\n",
        // The program waits here and does no further step until it is ended.
        shows(30, "exec sleep 1000"),
        shows(40, "true"),
        shows(40, "true"),
    );
    let Some(door) = door_to_two(&trace) else { return };
    let mut sched = Background::start(door.command(&format!("run trace.csv --policy fifo {ON_TWO}")));
    let is_seen = |run: &RunDir, launch: &String| {
        let hello = std::fs::metadata(run.events_path(launch, 0));
        hello.is_ok_and(|file| file.len() > 0)
    };
    wait_until("both have shown a step", || {
        let run = RunDir::open(&door.path("r"));
        let seen = run.map(|run| {
            let launches = run.launches().unwrap_or_default();
            launches.iter().filter(|launch| is_seen(&run, launch)).count()
        });
        seen.is_ok_and(|seen| seen == 2)
    });
    door.write("go", "");
    let (code, said) = sched.wait();
    assert_eq!(code, Some(1), "{said}");
    let [long, early, unseen, beside] = &outcomes(&door)[..] else { panic!("four rows") };
    assert_eq!((long.status, long.steps), (Status::Ok, 30), "{long:?}");
    assert_eq!((early.status, early.err, early.retries), (Status::Failed, Some(ErrorKind::TooShort), 0));
    assert_eq!((early.starts, early.jct_ns), (1, None), "it would come to its end as early again");
    assert!(early.err_detail.as_deref().unwrap_or_default().contains("after 40 of 50 steps"), "{early:?}");
    assert_eq!((unseen.status, unseen.steps), (Status::Ok, 0), "{unseen:?}");
    assert_eq!((beside.status, beside.steps), (Status::Ok, 60), "{beside:?}");
}
