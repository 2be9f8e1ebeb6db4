//! Programs of which not all is seen, and what their rows say.

use front_door::executable;
use record::rows::{ErrorKind, Measurement, Status, Warning};
use schema::wire::Timing;

use super::{exits, root, row, with_program};

const RUN: &str = "single --device cpu:0 --repeats 1 --out r --";

fn has(row: &Measurement, warning: Warning) -> bool {
    row.warnings.iter().any(|of_row| of_row == warning)
}

#[test]
fn a_program_that_lost_the_hook_says_so_with_the_remedy() {
    // Long enough for several looks at its libraries.
    let load = "import mmap
file = open('libtorch.so', 'w+b')
file.write(b'x')
file.flush()
loaded = mmap.mmap(file.fileno(), 1)
train(1000)
time.sleep(3)";
    let Some(door) = with_program(load) else { return };
    let fake = root().join("workloads/python/tests/fake");
    let script = format!("PYTHONPATH={} exec python3 train.py", fake.display());
    let said = exits(0, &door, RUN, &["sh", "-c", &script]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Outside)));
    assert!(has(&row, Warning::NoHook) && !has(&row, Warning::NoSteps), "{row:?}");
    assert!(said.err.contains("it has loaded PyTorch without the step hook"), "{}", said.err);
    assert!(said.err.contains("PYTHONPATH=.:$PYTHONPATH"), "{}", said.err);
}

#[test]
fn a_page_that_is_not_that_of_the_run_holds_nothing_and_the_row_says_so() {
    let other = "page = os.memfd_create('other', os.MFD_ALLOW_SEALING)
os.truncate(page, 4096)
import fcntl
fcntl.fcntl(page, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
os.environ['TANDEM_CONTROL'] = f'/proc/self/fd/{page}'
train(40)";
    let Some(door) = with_program(other) else { return };
    let said = exits(0, &door, RUN, &["python3", "train.py"]);
    let alone = row(&door);
    assert_eq!((alone.status, alone.timing), (Status::Ok, Some(Timing::Outside)));
    assert!(has(&alone, Warning::NoHook) && !has(&alone, Warning::NoSteps), "{alone:?}");
    assert!(said.err.contains("where the grant page of this run cannot be reached"), "{}", said.err);
}

#[test]
fn inner_and_outer_optimizers_of_meta_learning_are_both_counted() {
    let maml = "outer = torch.optim.SGD([torch.Parameter(8)])
for _ in range(12):
    for task in range(4):
        inner = torch.optim.SGD([torch.Parameter(8)])
        for _ in range(5):
            time.sleep(0.002)
            inner.step()
    outer.step()";
    let Some(door) = with_program(maml) else { return };
    let said = exits(0, &door, RUN, &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.timing, row.steps_total), (Some(Timing::Hook), 240));
    assert!(has(&row, Warning::Alternating), "{row:?}");
    assert!(said.err.contains("at least 12 calls of other optimizers are not counted"), "{}", said.err);
}

#[test]
fn a_command_that_starts_programs_elsewhere_gets_a_hint() {
    let door = crate::door();
    executable(&door.path("docker"), "#!/bin/sh\nexit 0\n");
    let said = exits(0, &door, "single --device cpu:0 --repeats 3 --out r --", &["./docker", "run", "image"]);
    assert_eq!(
        said.err.matches("what docker starts on other nodes, in containers").count(),
        1,
        "{}",
        said.err
    );
    assert!(said.err.contains("start this command there instead, within docker"), "{}", said.err);
}

#[test]
fn the_text_of_an_exception_of_cpp_is_quoted_and_no_stack_frame() {
    let door = crate::door();
    let script = "echo \"terminate called after throwing an instance of 'c10::Error'\" >&2
echo '  what():  sizes differ' >&2
echo 'frame #0: at::sum() + 0x1 (0x2 in libtorch_cpu.so)' >&2
kill -ABRT $$";
    exits(1, &door, RUN, &["sh", "-c", script]);
    let row = row(&door);
    let detail = row.err_detail.unwrap_or_default();
    assert_eq!(row.err, Some(ErrorKind::Crashed), "{detail}");
    assert!(detail.contains("says \"sizes differ\""), "{detail}");
}
