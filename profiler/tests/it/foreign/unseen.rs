//! Programs of which not all is seen, and what their rows say.

use std::{fs, process::Command};

use front_door::executable;
use record::rows::{ErrorKind, Measurement, Status, Warning};
use schema::wire::Timing;

use super::{exits, root, row, with_program};

const RUN: &str = "single --device cpu:0 --repeats 1 --out r --";

fn has(row: &Measurement, warning: Warning) -> bool {
    row.warnings.iter().any(|of_row| of_row == warning)
}

/// The command of a shell that runs `train.py` with the fake PyTorch on the path of a Python that got none from its environment.
fn with_path_of_its_own(python: &str) -> String {
    let fake = root().join("workloads/python/tests/fake");
    format!(
        "{python} -c 'import sys; sys.path.insert(0, \"{}\"); exec(open(\"train.py\").read())'",
        fake.display()
    )
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
    let said = exits(0, &door, RUN, &["sh", "-c", &with_path_of_its_own("exec python3 -E")]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Outside)));
    assert!(has(&row, Warning::NoHook) && !has(&row, Warning::NoSteps), "{row:?}");
    assert!(said.err.contains("it has loaded PyTorch without the step hook"), "{}", said.err);
    assert!(said.err.contains("pip install ./workloads/python"), "{}", said.err);
}

#[test]
fn a_program_that_sets_its_module_path_anew_keeps_the_hook() {
    let fake = root().join("workloads/python/tests/fake");
    let anew = |python: &str| format!("PYTHONPATH={} {python} train.py", fake.display());
    for script in [
        anew("exec python3"),
        anew("PYTHONDONTWRITEBYTECODE=1 python3 -B"),
        // Of the path that the shell gives on, the hook is there only once more.
        format!("export PYTHONPATH={}; sh -c 'exec python3 train.py'", fake.display()),
        with_path_of_its_own("unset PYTHONPATH; python3"),
        format!("python3 -m venv --without-pip env && {}", anew("env/bin/python")),
    ] {
        let Some(door) = with_program("train(40)") else { return };
        exits(0, &door, RUN, &["sh", "-c", &script]);
        let row = row(&door);
        assert_eq!((row.timing, row.steps_total), (Some(Timing::Hook), 40), "{script}: {row:?}");
        assert!(!has(&row, Warning::NoHook), "{script}: {row:?}");
    }
}

#[test]
fn the_libraries_that_a_program_is_to_preload_stay() {
    let Some(door) = with_program("print('preloaded', os.environ['LD_PRELOAD'])\ntrain(40)") else { return };
    exits(
        0,
        &door,
        "single --device cpu:0 --repeats 1 --out r --env LD_PRELOAD=libm.so.6 --",
        &["python3", "train.py"],
    );
    let out = fs::read_to_string(door.run("r").stdout_path(&row(&door).launch, 0)).unwrap();
    assert!(out.contains("preloaded libm.so.6:/") && out.contains("/keep_hook.so"), "{out}");
}

/// The library of a sanitizer wants to be the first that is loaded.
#[test]
fn a_program_with_a_sanitizer_starts_and_keeps_its_options() {
    let door = crate::door();
    fs::write(door.path("main.c"), "int main(void) { return 7; }\n").expect("it is ours");
    let mut compiler = Command::new("cc");
    compiler.args(["-fsanitize=address", "main.c", "-o", "main"]).current_dir(door.path("."));
    if !compiler.output().is_ok_and(|output| output.status.success()) {
        schema::skips::skipped("asan", "the C compiler has no AddressSanitizer");
        return;
    }
    let options = "single --device cpu:0 --repeats 1 --out r --env ASAN_OPTIONS=detect_leaks=0 --";
    let said = exits(1, &door, options, &["sh", "-c", "echo $ASAN_OPTIONS; exec ./main"]);
    let row = row(&door);
    let end = door.run("r").launch_end(&row.launch).expect("it reads").expect("it has ended");
    assert_eq!(end.ranks[0].exit_code, Some(7), "{}", said.err);
    let out = fs::read_to_string(door.run("r").stdout_path(&row.launch, 0)).expect("it reads");
    assert_eq!(out, "detect_leaks=0:verify_asan_link_order=0\n");
}

#[test]
fn a_run_whose_path_has_a_space_preloads_nothing() {
    let Some(door) = with_program("print('preloaded', os.environ.get('LD_PRELOAD'))\ntrain(40)") else {
        return;
    };
    let folder =
        "single --device cpu:0 --repeats 1 --out".split(' ').chain(["a run", "--", "python3", "train.py"]);
    let folder: Vec<&str> = folder.collect();
    let said = exits(0, &door, "", &folder);
    assert!(!said.err.contains("cannot be preloaded"), "{}", said.err);
    let [row] = &door.measurements("a run")[..] else { panic!("one launch has one row") };
    assert_eq!((row.timing, row.steps_total), (Some(Timing::Hook), 40));
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
