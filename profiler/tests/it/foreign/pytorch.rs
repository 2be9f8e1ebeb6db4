//! Programs that train with PyTorch, if it is installed.

use std::{fs, path::PathBuf};

use record::rows::{Measurement, Status, Warning};
use schema::wire::{Event, Timing};

use super::{MEET, events_of, exits, files_named, root, row, with_program};

/// A Python with PyTorch, or a recorded skip.
pub(super) fn python_with_torch() -> Option<PathBuf> {
    let python = root().join(".venv-parity/bin/python");
    let is_there = python.is_file();
    if !is_there {
        schema::skips::skipped(
            "pytorch",
            "there is no .venv-parity/bin/python with PyTorch; scripts/parity makes it",
        );
    }
    is_there.then_some(python)
}

const MODEL: &str = r#"
import os, torch, torch.distributed as dist
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
while True:
    optimizer.zero_grad()
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
"#;

#[test]
fn a_program_of_pytorch_and_its_ranks_under_torchrun() {
    let Some(python) = python_with_torch() else { return };
    let python = python.to_str().expect("it is text");
    let door = crate::door();
    fs::write(door.path("train.py"), MODEL).expect("the folder is writable");
    let torchrun =
        [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"];
    for (program, ranks) in [(&[python, "train.py"][..], 1), (&torchrun, 2)] {
        let run = "single --device cpu:0 --threads 1 --repeats 1 --steps 30 --out r --";
        let output = door.command(run).args(program).output().expect("profile starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let row = row(&door);
        let parameters = 64 * 65 + 65;
        assert_eq!((row.timing, row.parameters), (Some(Timing::Hook), Some(parameters)));
        // Both means of each parameter, and the number of steps for each of four tensors.
        assert_eq!(row.optimizer_bytes, Some(4 * (2 * parameters + 4)));
        assert!(row.steps_total >= 30, "{row:?}");
        for rank in 0..ranks {
            assert!(matches!(events_of(&door, &row.launch, rank).last(), Some(Event::Held { .. })));
        }
        assert_eq!(door.run("r").ranks(&door.run("r").spec(&row.launch).expect("it was told")), ranks);
        assert_eq!(door.leftovers(), Vec::<String>::new());
        fs::remove_dir_all(door.path("r")).expect("it is ours");
    }
}

#[test]
fn of_optimizers_that_take_turns_it_is_said_which_one_counts() {
    let gan = "generator = torch.optim.SGD([torch.Parameter(8)])
for batch in itertools.count():
    train(1)
    if batch % 5 == 0:
        generator.step()";
    let Some(door) = with_program(gan) else { return };
    let said =
        exits(0, &door, "single --device cpu:0 --repeats 1 --steps 30 --out r --", &["python3", "train.py"]);
    assert!(said.err.contains("each call of the one that was called first is a step"), "{}", said.err);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Hook)));
    assert!(row.warnings.iter().any(|warning| warning == Warning::Alternating), "{row:?}");
    assert!(row.step_ns_mean.expect("it took steps") >= 2_000_000, "{row:?}");
}

#[test]
fn a_second_process_that_trains_is_warned_of_and_takes_no_turns() {
    let Some(door) = with_program(&format!("{MEET}train(1)\nmeet(2)\ntrain()")) else { return };
    let script = "sh -c 'python3 train.py & python3 train.py & wait'";
    exits(0, &door, "single --device cpu:0 --repeats 1 --steps 30 --out r --cmd", &[script]);
    let alone = row(&door);
    assert_eq!((alone.status, alone.timing), (Status::Ok, Some(Timing::Hook)));
    assert!(alone.warnings.iter().any(|warning| warning == Warning::Unheard), "{alone:?}");
    let end = door.run("r").launch_end(&alone.launch).expect("it can be read").expect("it has ended");
    assert_eq!((end.notes.has_pytorch, end.notes.unheard), (true, 1));
    assert_eq!(files_named(&door.path("r"), ".notes"), Vec::<PathBuf>::new());
    let run =
        "colocate synthetic-sleep --device cpu:0 --sharing step-gate --repeats 1 --seconds 1 --out g --cmd";
    exits(1, &door, run, &[script]);
    let refused: Vec<_> =
        door.measurements("g").into_iter().filter(|row| row.status == Status::Unsupported).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for row in refused {
        assert!(row.err_detail.unwrap_or_default().contains("has several processes that train"));
    }
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn a_program_with_pytorch_and_no_optimizer_step_is_told_how_to_show_its_steps() {
    // Where lines mark steps, the program prints the others after the harness has read the first.
    let program = "for i in range(30):
    time.sleep(0.01)
    print('batch', i, flush=True)
    while sys.argv[1:] and not os.path.getsize(sys.argv[1]):
        time.sleep(0.001)";
    let Some(door) = with_program(program) else { return };
    let run = "single --device cpu:0 --repeats 1";
    let said = exits(0, &door, &format!("{run} --out r --"), &["python3", "train.py"]);
    let silent = row(&door);
    assert_eq!((silent.status, silent.timing), (Status::Ok, Some(Timing::Outside)));
    let has_no_steps = |row: &Measurement| row.warnings.iter().any(|warning| warning == Warning::NoSteps);
    assert!(has_no_steps(&silent), "{silent:?}");
    assert!(
        said.err.contains("no optimizer step was seen") && said.err.contains("--steps-regex"),
        "{}",
        said.err
    );
    let program = ["sh", "-c", "exec python3 train.py s/events/*.jsonl"];
    exits(0, &door, &format!("{run} --steps-regex ^batch --out s --"), &program);
    let [shown] = &door.measurements("s")[..] else { panic!("one launch has one row") };
    assert_eq!((shown.timing, shown.steps_total), (Some(Timing::Scraped), 30));
    assert!(!has_no_steps(shown), "{shown:?}");
}
