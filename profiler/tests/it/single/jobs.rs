//! The jobs of `profile single`: grids, tables of jobs and sets, and errors in naming them.

use front_door::has_cores;
use record::rows::{self, DeviceSample, Status, Summary};

#[test]
fn a_grid_keeps_what_cannot_run_as_a_row() {
    let door = crate::door();
    door.exits(
        1,
        "single synthetic-sleep --plan dp1,ga2,dp2-zero1 --device cpu:0 --steps 5 --repeats 1 --out r",
    );
    let rows = door.measurements("r");
    let refused: Vec<_> = rows.iter().filter(|row| row.status == Status::Unsupported).collect();
    let [refused] = &refused[..] else { panic!("dp2-zero1 alone is refused: {rows:?}") };
    assert_eq!(refused.plan.map(|plan| plan.to_string()).as_deref(), Some("dp2-zero1"));
    let detail = refused.err_detail.as_deref();
    assert_eq!(detail, Some("synthetic-sleep runs no plans with zero; it runs dp, ga"));
    assert_eq!(rows.iter().filter(|row| row.status == Status::Ok).count(), 2);
}

#[test]
fn a_table_of_jobs_is_measured_and_nothing_else() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let write = |name: &str, text: &str| std::fs::write(door.path(name), text).expect("it is writable");
    write(
        "next.csv",
        "job,devices,step_ns,device_s\nsynthetic-sleep@b8@ga2,1,9,1.5\nsynthetic-sleep@b16@dp2,2,9,0.5\n",
    );
    let options = "--device cpu:0,cpu:1 --steps 5";
    door.exits(0, &format!("single --grid next.csv {options} --repeats 2 --out r"));
    let jobs = |run: &str| {
        let measured = |row: &Summary| (row.job.clone(), row.device.clone(), row.repeats);
        door.summaries(run).iter().map(measured).collect::<Vec<_>>()
    };
    let row = |job: &str, device: &str, repeats| (job.to_owned(), device.to_owned(), repeats);
    let expected = [("synthetic-sleep@b8@ga2", "cpu:0"), ("synthetic-sleep@b16@dp2", "cpu:0,cpu:1")];
    assert_eq!(jobs("r"), expected.map(|(job, device)| row(job, device, 2)));

    // An export has a line for each launch, and each job is measured once.
    door.exits(0, "export r --out all.csv");
    assert_eq!(std::fs::read_to_string(door.path("all.csv")).expect("it is there").lines().count(), 5);
    door.exits(0, &format!("single --grid all.csv {options} --repeats 1 --out again"));
    let mut again = jobs("again");
    again.sort();
    let mut sorted = expected.map(|(job, device)| row(job, device, 1));
    sorted.sort();
    assert_eq!(again, sorted);
}

#[test]
fn a_bad_table_of_jobs_is_refused_with_file_line_and_column() {
    let door = crate::door();
    for (text, arguments, message) in [
        ("job\nlstm\n", "single lstm --grid g.csv", "'[JOBS]...' cannot be used with '--grid <FILE>'"),
        ("job\nlstm\n", "single --grid g.csv --cmd true", "cannot be used with"),
        ("job\nlstm\n", "single --grid g.csv --plan dp1", "cannot be used with"),
        ("job\nlstm\n", "single --grid g.csv -- true", "cannot be used with"),
        ("job\nlstm\n", "single --resume r --grid g.csv", "cannot be used with"),
        ("job\nlstm\n", "single --grid none.csv", "none.csv: No such file"),
        ("", "single --grid g.csv", "g.csv: line 1: the file is empty"),
        ("name\nlstm\n", "single --grid g.csv", "g.csv: line 1: there is no column 'job'"),
        ("job\nlstm@zero1\n", "single --grid g.csv", "g.csv: line 2: column 'job': job 'lstm@zero1': plan"),
        (
            "job\nlstm\nresnet81\n",
            "single --grid g.csv",
            "g.csv: line 3: column 'job': there is no workload 'resnet81'; did you mean 'resnet18'?",
        ),
        (
            "devices,job\n1,lstm\n2,lstm@bf16\n",
            "single --grid g.csv",
            "g.csv: line 3: column 'devices': is 2, and the plan of lstm@bf16 takes 1; correct one of them",
        ),
        ("job,devices\nlstm,-1\n", "single --grid g.csv", "column 'devices': '-1' is no number of devices"),
    ] {
        std::fs::write(door.path("g.csv"), text).expect("it is writable");
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
    }
    std::fs::write(door.path("g.csv"), "job\n").expect("it is writable");
    assert!(door.exits(4, "single --grid g.csv").err.contains("g.csv names no jobs"));
    assert!(!door.path("runs").exists(), "nothing was begun");
}

/// If steps take the same time for each batch, the largest batch has the highest throughput.
#[test]
fn the_fastest_of_a_grid_is_said_and_rows_on_file_stay_in_order() {
    let door = crate::door();
    let said =
        door.exits(0, "single synthetic-sleep --batch 1,4096 --device cpu:0 --steps 40 --repeats 2 --out r");
    // The verdict comes first.
    let lines: Vec<&str> = said.out.lines().skip(1).collect();
    assert!(lines[0].contains(" fastest "), "{}", said.out);
    assert!(lines[1].contains("synthetic-sleep@b4096@dp1") && lines[1].contains(" yes "), "{}", said.out);
    assert!(lines[2].contains("synthetic-sleep@b1@dp1"), "{}", said.out);
    assert_eq!(lines[3], "fastest of 2: synthetic-sleep@b4096@dp1@on=cpu:0");
    let batches: Vec<_> = door.summaries("r").into_iter().map(|row| row.global_batch).collect();
    assert_eq!(batches, [Some(1), Some(4096)]);
}

#[test]
fn progress_names_batch_and_plan_of_each_launch() {
    let door = crate::door();
    let said = door.exits(
        0,
        "single synthetic-sleep --batch 4,8 --plan dp1,ga2 --device cpu:0 --steps 5 --repeats 1 --out r",
    );
    for row in door.measurements("r") {
        let begins = format!("] {}@on=cpu:0: ", row.job);
        let ends = format!("{} steps used ({})", row.steps_used, row.launch);
        let is_of_row = |line: &&str| line.contains(&begins) && line.ends_with(&ends);
        assert_eq!(said.err.lines().filter(is_of_row).count(), 1, "{begins}{ends}: {}", said.err);
    }
}

#[test]
fn a_device_of_the_job_is_resolved_like_one_of_the_pool() {
    let door = crate::door();
    door.exits(0, "single synthetic-spin@on=cpu --seconds 1 --repeats 1 --out r");
    let row = &door.measurements("r")[0];
    let readings: Vec<DeviceSample> = rows::read(&door.run("r").devices_path()).expect("it reads back");
    let is_read = readings.iter().any(|reading| reading.device == row.device && reading.busy_ns.is_some());
    assert!(row.device.starts_with("cpu:") && is_read, "{row:?}");
}

#[test]
fn slips_are_usage_errors_that_say_what_to_do() {
    let door = crate::door();
    for (arguments, message) in [
        ("single", "name a job"),
        ("single resnet81", "did you mean 'resnet18'?"),
        ("single lstm@bf16-dp2", "is spelled 'dp2-bf16'"),
        (
            "single lstm --plan tp2",
            "lstm runs no plans with tp because only attention and its feed-forward networks have",
        ),
        (
            "single ppo-cartpole --plan dp2 --device cpu:0",
            "ppo-cartpole runs no plans with dp because it makes its data by acting",
        ),
        ("single lstm --device cpu:0,cpu:0", "names cpu:0 twice"),
        (
            "single lstm --device cpu:0,cpu:1 --collectives nccl",
            "between GPUs only, and cpu:0 is not one; use gloo",
        ),
        ("single bert", "there is no workload 'bert'; did you mean 'bert-base'?"),
        (
            "single train.py",
            "'train.py'; to run a program, give its command: after --, as in `profile single -- python3 train.py`, with",
        ),
        ("single quite-another-name", "'quite-another-name'; `profile list` shows them all"),
        ("single synthetic-sleep --strict --dry-run", "cannot be used with"),
        ("single synthetic-sleep -x 3", "unexpected argument '-x'"),
        ("single synthetic-sleep --seconds 0", "expected seconds above 0, such as 2, 0.5 or 500ms"),
        ("single synthetic-sleep --seconds 0s", "expected seconds above 0"),
        ("single synthetic-sleep --seconds 2x", "expected seconds above 0"),
        ("single synthetic-sleep --seconds=-1", "expected seconds above 0"),
        ("single synthetic-sleep --seconds -1", "--seconds -1: the value must be positive"),
        ("single synthetic-sleep --repeats -3", "--repeats -3: the value must be positive"),
        ("single synthetic-sleep --ci 1 --budget -5m", "--budget -5m: the value must be positive"),
        ("single synthetic-sleep --catalog none.toml", "none.toml: line 1: cannot be read"),
        ("single --resume nowhere", "nowhere is no run"),
        ("single --resume nowhere --repeats 3", "cannot be used with"),
        ("single synthetic-sleep --heartbeat 0s", "expected a time of at least 1s"),
        ("single synthetic-sleep@on=cpu:0 --device cpu:1", "and so does --device"),
        ("single synthetic-sleep --data nowhere", "there is no such folder"),
        (
            "single stress-cache@b101 --device cpu:0",
            "dial in percent, and 101 is more than 100; write b1 to b100",
        ),
        (
            "single stress-io@b50 --plan dp2 --device cpu:0,cpu:1",
            "stress-io runs no plans with dp because it trains no network; it runs dp1 alone",
        ),
        ("single set:quick@b4", "write set:quick and use --batch"),
        ("single synthetic-sleep --loaders 2", "--data <DIR>"),
        ("single synthetic-sleep --data . --loaders 65", "65 is not in 0..=64"),
        ("single --resume nowhere --loaders 2", "cannot be used with"),
        ("single lstm --plan dp1,bf16 --offload-threads 2", "no plan of this run has offload"),
        ("single lstm@offload --offload-threads 0", "0 is not in 1.."),
        ("single --resume nowhere --offload-threads 2", "cannot be used with"),
        ("single --resume nowhere --collectives gloo", "cannot be used with"),
        ("single --collectives gloo -- true", "--collectives applies to jobs only"),
        ("list --plans lstm@on=cpu:0 --device cpu:1", "and so does --device"),
        ("list --collectives gloo", "--plans <JOB>"),
        (
            "single lstm --device cuda:0 --memory 1GiB",
            "--memory applies to CPU devices only, and none is used",
        ),
        ("list --plans lstm --device cuda:0 --memory 1GiB", "--memory applies to CPU devices only"),
        ("verify lstm --device cuda:0 --memory 1GiB", "--memory applies to CPU devices only"),
    ] {
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
        assert!(!said.err.contains("tip:"), "no tip of clap's fits here: {}", said.err);
    }
    assert!(door.exits(4, "list nothing-like-it").err.contains("no workload has 'nothing-like-it'"));
    let lacking = door.exits(3, "single synthetic-sleep --device cpu:9999");
    assert!(lacking.err.contains("is not among the cores"), "{}", lacking.err);
    assert!(!door.path("runs").exists(), "nothing was begun");
}

#[test]
fn a_dry_run_shows_the_cells_and_makes_nothing() {
    let door = crate::door();
    let said =
        door.exits(0, "single synthetic-sleep --plan dp1,ga2 --device cpu:0 -n 4 --seconds 2s --dry-run");
    assert!(
        said.out.contains("synthetic-sleep@b32@ga2@on=cpu:0") && said.out.contains("in all"),
        "{}",
        said.out
    );
    assert!(!door.path("runs").exists());
}

#[test]
fn a_set_stands_for_its_workloads() {
    let door = crate::door();
    for name in ["one", "two", "three"] {
        door.catalog(&format!("{name}.toml"), name, "step_us = 1_000, busy_percent = 0");
        let file = door.path(&format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).expect("just written");
        let sets = if name == "three" { "[]" } else { r#"["pair"]"# };
        std::fs::write(file, text.replace("axes", &format!("sets = {sets}\naxes"))).expect("it is writable");
    }
    let catalogs = "--catalog one.toml --catalog two.toml --catalog three.toml";
    let said = door.exits(0, &format!("list set:pair {catalogs}"));
    assert!(
        said.out.contains("one") && said.out.contains("two") && !said.out.contains("three"),
        "{}",
        said.out
    );
    assert_eq!(said.out.matches(" pair ").count(), 2, "{}", said.out);

    door.exits(
        0,
        &format!("single set:pair three {catalogs} --batch 4 --device cpu:0 --steps 3 --repeats 1 --out r"),
    );
    let mut jobs: Vec<_> = door.summaries("r").into_iter().map(|row| row.job).collect();
    jobs.sort();
    assert_eq!(jobs, ["one@b4@dp1", "three@b4@dp1", "two@b4@dp1"]);

    let said = door.exits(0, &format!("verify set:pair {catalogs} --device cpu:0 --out v"));
    assert_eq!(said.out.matches("verified").count(), 2, "{}", said.out);
}
