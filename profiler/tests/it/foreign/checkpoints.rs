//! Programs that the catalog defines and that save: `profile verify` checks their plans and checkpoints, and `profile calibrate` measures
//! what saving costs.

use front_door::{Door, has_cores};
use record::{
    calibration::{Calibration, Switch},
    rows::{self, ProgramCheck, Status, VerifyProgramRow},
};
use schema::plan::Plan;

use super::{exits, with_program};

/// Trains in ranks. The loss of step n is 8 / n, whatever the plan. It saves on SIGUSR1 and goes on with `--resume`.
const SAVES: &str = "import signal, subprocess
ranks, passes, folder, resume = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
if 'RANK' not in os.environ:
    names = [dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks)) for rank in range(ranks)]
    sys.exit(max([child.wait() for child in [subprocess.Popen([sys.executable] + sys.argv, env=env) for env in names]]))
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
place = os.path.join(folder, 'last')
step = int(open(place).read()) if resume and os.path.exists(place) else 0
while True:
    time.sleep(0.005)
    optimizer.step()
    step += 1
    if os.environ['RANK'] != '0':
        continue
    print('step', step, 'loss', 8 / step, flush=True)
    if told:
        open(place + '.new', 'w').write(str(step))
        os.rename(place + '.new', place)
        print('saved checkpoint at step', step, flush=True)
        told.clear()";

const DEFINITION: &str = r#"[[program]]
name = "mine"
command = "python3 train.py {ranks} {ga} {checkpoint}"
batches = [8]
axes = ["dp", "ga", "bf16"]
most = { dp = 2, ga = 2 }
words.bf16 = ["", "--bf16"]
loss = "step {step} loss {loss}"

[program.checkpoint]
save = "SIGUSR1"
saved = "saved checkpoint at step {step}"
resume = "--resume"
portable = true
"#;

/// A door with this program and definition, if the machine has Python and two cores.
fn door_with(program: &str, definition: &str) -> Option<Door> {
    let door = with_program(program).filter(|_| has_cores(2))?;
    door.write("mine.toml", definition);
    Some(door)
}

const VERIFY: &str = "verify mine --catalog mine.toml --device cpu:0,cpu:1 --json --out v";

fn rows_of(door: &Door, options: &str, code: i32) -> Vec<VerifyProgramRow> {
    rows::from_json(&exits(code, door, &format!("{VERIFY} {options}"), &[]).out).expect("it is rows")
}

fn plan(name: &str) -> Plan {
    name.parse().expect("a plan")
}

#[test]
fn a_program_trains_under_each_plan_and_goes_on_from_what_it_has_saved() {
    let Some(door) = door_with(SAVES, DEFINITION) else { return };
    let rows = rows_of(&door, "--plans", 0);
    let of_plans: Vec<_> = rows.iter().filter(|row| row.check == ProgramCheck::Plan).collect();
    assert_eq!(of_plans.len(), 8, "{rows:?}");
    for row in of_plans {
        let (ranks, is_first) = (row.plan.ranks(), [plan("dp1"), plan("bf16")].contains(&row.plan));
        assert_eq!((row.ranks, row.devices, row.steps >= 20), (ranks, ranks, true), "{row:?}");
        assert_eq!(row.loss_difference, (!is_first).then_some(0.0), "{row:?}");
    }
    let resumed: Vec<_> = rows.iter().filter(|row| row.check == ProgramCheck::Resume).collect();
    let plans: Vec<Plan> = resumed.iter().map(|row| row.plan).collect();
    assert!(plans.len() == 2 && plans[0] == plan("dp1") && plans[1].ranks() == 2, "{plans:?}");
    for row in resumed {
        assert!(row.saved_steps.is_some_and(|saved| (8..=10).contains(&saved)), "{row:?}");
        assert_eq!((row.status, row.loss_difference), (Status::Ok, Some(0.0)), "{row:?}");
    }
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn what_a_definition_promises_and_a_program_does_not_do_is_said() {
    let other_loss = SAVES.replace("8 / step", "8 / step * (1 + 0.01 * (passes - 1))");
    let begins_anew = SAVES.replace("if resume and", "if not resume and");
    let lonely =
        SAVES.replace("    optimizer.step()", "    optimizer.step() if os.environ['RANK'] == '0' else None");
    let of_axis = |axis: &str| {
        let definition = DEFINITION.replace("words.bf16 = [\"\", \"--bf16\"]\n", "");
        let definition = definition.replace("\"dp\", \"ga\", \"bf16\"", &format!("\"{axis}\""));
        definition.replace("dp = 2, ga = 2", &format!("{axis} = 2"))
    };
    let quiet = of_axis("ga").replace("step {step} loss {loss}", "epoch {step} loss {loss}");
    for (program, definition, reason) in [
        (&*other_loss, of_axis("ga"), "its loss of step "),
        (&begins_anew, of_axis("ga"), "it went on with step 1 and not with step "),
        (&lonely, of_axis("dp"), "steps were seen in 1 of 2 ranks"),
        (SAVES, quiet, "no line of its output has the pattern of `loss`"),
    ] {
        let Some(door) = door_with(program, &definition) else { return };
        let rows = rows_of(&door, "", 1);
        let is_failed =
            |row: &&VerifyProgramRow| row.reason.as_ref().is_some_and(|why| why.starts_with(reason));
        let failed: Vec<_> = rows.iter().filter(is_failed).collect();
        assert!(!failed.is_empty(), "{reason}: {rows:?}");
        assert!(failed.iter().all(|row| row.status == Status::Failed && !row.verified), "{rows:?}");
        let is_apart = |row: &&&VerifyProgramRow| row.loss_difference.is_some_and(|apart| apart > 0.001);
        assert_eq!(failed.iter().filter(is_apart).count() > 0, program == other_loss, "{failed:?}");
        for row in failed.iter().filter(is_apart) {
            assert!(row.loss_difference.is_some_and(|apart| (apart - 0.01).abs() < 1e-3), "{row:?}");
            assert!(
                row.reason.as_ref().is_some_and(|why| why.ends_with("they differ by more than 0.001")),
                "{row:?}"
            );
        }
    }
}

#[test]
fn the_cost_of_saving_and_of_going_on_is_calibrated() {
    let Some(door) = door_with(SAVES, DEFINITION) else { return };
    let options = "--parts restart --device cpu:0,cpu:1 --repeats 2 --catalog mine.toml --out m.toml";
    exits(0, &door, &format!("calibrate mine@b8@dp2 {options}"), &[]);
    let calibrated = Calibration::read(&door.path("m.toml")).expect("it reads back");
    let parts: Vec<Switch> = calibrated.restart.iter().map(|row| row.part).collect();
    let expected = [
        Switch::Release,
        Switch::Hold,
        Switch::CheckpointAnswer,
        Switch::Stop,
        Switch::Start,
        Switch::Step,
        Switch::Total,
    ];
    assert_eq!(parts, expected);
}
