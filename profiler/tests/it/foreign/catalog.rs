//! Programs that the catalog defines: their commands follow from batches and plans.

use front_door::{Door, has_cores};
use record::{
    calibration::{Calibration, Switch},
    rows::{self, ExportRow, Measurement, ProgramKind, Status},
};

use super::{exits, with_program};

/// Trains in ranks, as a launcher does: each has the batch and the cores that it was given. The plan makes its steps longer or shorter.
const RANKS: &str = "import subprocess, sys
ranks, micro, passes, words = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
if 'RANK' not in os.environ:
    names = [dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks)) for rank in range(ranks)]
    sys.exit(max([child.wait() for child in [subprocess.Popen([sys.executable] + sys.argv, env=env) for env in names]]))
if os.environ['RANK'] == '0':
    print('cores', *sorted(os.sched_getaffinity(0)), 'words', *words, flush=True)
while True:
    time.sleep(0.001 * micro * passes)
    optimizer.step()";

const DEFINITION: &str = r#"[[program]]
name = "mine"
about = "a program of the test"
command = "python3 train.py {ranks} {micro_batch} {ga}"
batches = [8, 16]
axes = ["dp", "ga", "gc"]
most = { dp = 2, ga = 2 }
words.gc = ["--plain", "--checkpoint"]
"#;

/// A door with the program and its definition, if the machine has Python and two cores.
fn with_definition() -> Option<Door> {
    let door = with_program(RANKS).filter(|_| has_cores(2))?;
    door.write("mine.toml", DEFINITION);
    Some(door)
}

const RUN: &str = "single --catalog mine.toml --device cpu:0,cpu:1 --repeats 1 --steps 40";

fn said_by(door: &Door, run: &str, row: &Measurement) -> String {
    let path = door.run(run).stdout_path(&row.launch, 0);
    std::fs::read_to_string(path).expect("it has said where it is").lines().next().unwrap_or_default().into()
}

#[test]
fn rows_of_a_program_have_its_batch_and_plan_and_their_commands() {
    let Some(door) = with_definition() else { return };
    let said = exits(0, &door, &format!("{RUN} mine --batch 8,16 --plan dp1,dp2-ga2-gc --out r"), &[]);
    assert!(said.out.contains("mine@b16@dp2-ga2-gc") && !said.out.contains("train.py"), "{}", said.out);
    let mut rows = door.measurements("r");
    rows.sort_by(|one, other| one.job.cmp(&other.job));
    let expected = [
        ("mine@b16@dp1", 16, 16, "cpu:0", "cores 0 words --plain", 16.0),
        ("mine@b16@dp2-ga2-gc", 16, 4, "cpu:0,cpu:1", "cores 0 1 words --checkpoint", 8.0),
        ("mine@b8@dp1", 8, 8, "cpu:0", "cores 0 words --plain", 8.0),
        ("mine@b8@dp2-ga2-gc", 8, 2, "cpu:0,cpu:1", "cores 0 1 words --checkpoint", 4.0),
    ];
    assert_eq!(rows.len(), expected.len());
    for (row, (job, batch, micro_batch, device, said, ms)) in rows.iter().zip(expected) {
        assert_eq!((&*row.job, &*row.workload, row.status), (job, "mine", Status::Ok), "{row:?}");
        assert_eq!((row.global_batch, row.micro_batch), (Some(batch), Some(micro_batch)), "{row:?}");
        assert_eq!((&*row.device, &*said_by(&door, "r", row)), (device, said));
        assert!(row.step_ns_median >= Some((ms * 1e6) as u64), "{row:?}");
        let (rate, mean) = (row.samples_per_s.expect("it stepped"), row.step_ns_mean.expect("it stepped"));
        assert!((rate * mean as f64 / (f64::from(batch) * 1e9) - 1.0).abs() < 1e-3, "{row:?}");
    }
    door.exits(0, "export r --out all.csv");
    let exported: Vec<ExportRow> = rows::read(&door.path("all.csv")).expect("it reads back");
    assert!(exported.iter().all(|row| row.program == Some(ProgramKind::Command)), "{exported:?}");
    assert!(exported.iter().any(|row| row.plan == rows[1].plan && row.ranks == Some(2)), "{exported:?}");
    door.exits(0, "compare r r");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn all_plans_of_a_program_are_those_that_it_has_and_the_pool_holds() {
    let Some(door) = with_definition() else { return };
    let dry = |arguments: &str| exits(0, &door, &format!("{RUN} --dry-run {arguments}"), &[]).out;
    let all = dry("mine@b8 --plan all");
    for plan in ["dp1", "gc", "ga2", "ga2-gc", "dp2", "dp2-gc", "dp2-ga2", "dp2-ga2-gc"] {
        assert!(all.contains(&format!("mine@b8@{plan}@on=")), "{plan}: {all}");
    }
    assert_eq!(all.matches("mine@b8@").count(), 8, "{all}");
    let list = |job| door.exits(0, &format!("list --plans {job} --catalog mine.toml --device cpu:0")).out;
    assert!(list("mine@b8").contains("mine runs plans up to ga2"), "{}", list("mine@b8"));
    assert!(list("mine@b8@dp2").contains("it needs 2 devices and the pool has 1"), "{}", list("mine@b8@dp2"));
    let list = door.exits(0, "list mine --catalog mine.toml").out;
    assert!(list.contains("a program of the test"), "{list}");
    let json = door.exits(0, "list mine --catalog mine.toml --json").out;
    assert!(json.contains("python3 train.py {ranks}"), "{json}");
}

#[test]
fn programs_of_the_catalog_share_devices_with_each_other_and_with_workloads() {
    let Some(door) = with_definition() else { return };
    let members = "mine@b8@dp1 synthetic-sleep mine@b8@ga2";
    exits(
        0,
        &door,
        &format!("colocate {members} --catalog mine.toml --device cpu:0 --repeats 1 --seconds 1 --out g"),
        &[],
    );
    let mut jobs: Vec<String> = door.interference("g").into_iter().map(|row| row.job).collect();
    jobs.sort();
    assert_eq!(jobs, ["mine@b8@dp1", "mine@b8@ga2", "synthetic-sleep@b32@dp1"]);
}

#[test]
fn what_a_definition_does_not_allow_is_refused_before_anything_starts() {
    let Some(door) = with_definition() else { return };
    door.write("absent.toml", &DEFINITION.replace("python3", "no-such-program"));
    door.write("wrong.toml", &DEFINITION.replace("{ga}", "{lr}"));
    for (arguments, words) in [
        ("mine@b8@tp2 --catalog mine.toml", "mine runs no plans with tp; it runs dp, ga, gc"),
        ("mine@b4 --catalog mine.toml", "mine trains with batches 8, 16"),
        ("mine@b8@ga4 --catalog mine.toml", "mine runs plans up to ga2"),
        ("mine --catalog absent.toml", "there is no program 'no-such-program'"),
        ("mine --catalog wrong.toml", "wrong.toml: line 1: program 'mine': command: nothing fills {lr}"),
        ("mine --catalog mine.toml --catalog mine.toml", "program 'mine' is defined twice"),
        (
            "mine --catalog mine.toml --memory 1GiB",
            "--memory does not apply to programs, and no other job is named",
        ),
        ("mine --catalog mine.toml --data .", "--data does not apply to programs"),
        ("min --catalog mine.toml", "did you mean 'mine'?"),
        ("lstm --name mine --cmd true --catalog mine.toml", "--name mine is the name of a workload"),
    ] {
        let said = exits(2, &door, &format!("single --device cpu:0 --out r {arguments}"), &[]);
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
        assert!(!door.path("r").exists(), "{arguments}");
    }
}

#[test]
fn the_switches_of_a_program_are_calibrated_under_its_plan() {
    let Some(door) = with_definition() else { return };
    let options = "--parts restart --device cpu:0,cpu:1 --repeats 2 --catalog mine.toml --out m.toml";
    exits(0, &door, &format!("calibrate mine@b8@dp2 {options}"), &[]);
    let calibrated = Calibration::read(&door.path("m.toml")).expect("it reads back");
    let parts: Vec<Switch> = calibrated.restart.iter().map(|row| row.part).collect();
    let expected = [Switch::Release, Switch::Hold, Switch::Stop, Switch::Start, Switch::Step, Switch::Total];
    assert_eq!(parts, expected);
    assert!(calibrated.restart.iter().all(|row| row.job == "mine@b8@dp2" && row.devices.len() == 2));
}
