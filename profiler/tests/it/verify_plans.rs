//! `profile verify --plans`, on synthetic workers, whose loss depends on no plan, and on a real one.

use front_door::{Door, has_cores, torch_bin};
use record::rows::{self, Status, VerifyPlanRow};
use schema::{
    catalog::Model,
    spec::{Program, Training},
};

fn rows_of(door: &Door, code: i32, arguments: &str) -> Vec<VerifyPlanRow> {
    let said = door.exits(code, &format!("verify {arguments} --plans --device cpu:0,cpu:1 --json --out v"));
    rows::from_json(&said.out).expect("stdout is JSON and nothing else")
}

/// The spec of a launch of the run.
fn told(door: &Door, launch: &str) -> Training {
    let spec = door.run("v").spec(launch).expect("a launch has a spec");
    let Program::Training(training) = spec.program else { panic!("a workload is trained") };
    *training
}

#[test]
fn every_valid_plan_is_launched_exactly_and_held_to_dp1() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.catalog("mine.toml", "quick", "step_us = 100, busy_percent = 0");
    let rows = rows_of(&door, 0, "quick@b4 --catalog mine.toml");
    let plans: Vec<_> = rows.iter().map(|row| row.plan.to_string()).collect();
    assert_eq!(plans, ["dp1", "ga2", "ga4", "dp2", "dp2-ga2"]);
    for row in &rows {
        assert!(row.verified && row.reason.is_none(), "{row:?}");
        assert_eq!((row.job.as_str(), row.steps, row.loss_difference), ("quick@b4", 20, Some(0.0)));
        assert_eq!(row.devices, row.plan.ranks());
    }
    let end = door.run("v").end().expect("it reads back").expect("it was written last");
    assert_eq!((end.exit_code, end.missing), (0, vec![]));
    assert!(end.observer.sampler_ticks > 0, "{:?}", end.observer);
    for launch in door.run("v").launches().expect("there are launches") {
        assert!(told(&door, &launch).exact, "{launch}");
    }
}

#[test]
fn a_plan_that_does_not_come_through_is_not_verified() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let fault = "fault = { rank-dies = { rank = 1, after_steps = 3 } }";
    door.catalog("mine.toml", "dying", &format!("step_us = 100, busy_percent = 0, {fault}"));
    let rows = rows_of(&door, 1, "dying@b2 --catalog mine.toml");
    let verdicts: Vec<_> = rows.iter().map(|row| (row.plan.to_string(), row.verified)).collect();
    assert_eq!(verdicts, [("dp1".into(), true), ("ga2".into(), true), ("dp2".into(), false)]);
    let reason = rows[2].reason.as_deref().expect("it says why");
    assert!(reason.contains("rank 1 was killed by SIGKILL"), "{reason}");
    assert_eq!(rows[2].loss_difference, None);
}

#[test]
fn what_no_memory_holds_is_unsupported_and_not_started() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.catalog("a.toml", "large", "step_us = 100, busy_percent = 0, memory_bytes = 3000000");
    door.catalog("b.toml", "small", "step_us = 100, busy_percent = 0, memory_bytes = 1000");
    let options = "--catalog a.toml --catalog b.toml --memory 2MiB";
    let reason = "needs 2.86 MiB and cpu:0 has 2.00 MiB";
    let alone = door.exits(2, &format!("verify large@b2 --plans --device cpu:0,cpu:1 {options} --out v"));
    assert!(alone.err.contains(&format!("large@b2@dp1@on=cpu:0 cannot run here: {reason}")), "{}", alone.err);
    assert!(!door.path("v").exists(), "nothing was begun");

    let rows = rows_of(&door, 1, &format!("large@b2 small@b2 {options}"));
    let (refused, ran): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.job == "large@b2");
    assert_eq!((refused.len(), ran.len()), (3, 3));
    assert!(ran.iter().all(|row| (row.status, row.verified) == (Status::Ok, true)), "{ran:?}");
    for row in &refused {
        assert_eq!((row.status, row.verified, row.steps), (Status::Unsupported, false, 0), "{row:?}");
        assert!(row.reason.as_deref().is_some_and(|said| said.starts_with("needs 2.86 MiB and ")), "{row:?}");
    }
    let started = door.run("v").launches().expect("the run was begun");
    assert!(started.iter().all(|launch| launch.ends_with("-small")), "{started:?}");
    std::fs::remove_dir_all(door.path("v")).expect("it is ours");
    let said = door.exits(1, &format!("verify large@b2 small@b2 --plans --device cpu:0 {options} --out v"));
    assert!(said.out.contains(&format!("unsupported: {reason}")), "{}", said.out);
}

#[test]
fn a_job_without_a_valid_plan_is_refused_with_its_reason() {
    let door = crate::door();
    let said = door.exits(2, "verify stress-compute@b101 --plans --device cpu:0 --out v");
    assert!(said.err.contains("its dial in percent, and 101 is more than 100"), "{}", said.err);
    assert!(!door.path("v").exists(), "nothing was begun");
}

/// Replaces torch-worker by a worker that takes a second to report that it knows no footprint. Known facts
/// are not requested from it.
#[test]
fn the_states_of_an_exact_launch_are_counted_in_fp64() {
    let door = crate::door();
    // 12 bytes for each of 124,439,808 parameters are 1.39 GiB, and 24 are 2.78 GiB.
    let mut command =
        door.command_with_stand_in("verify gpt2@b1 --plans --device cpu:0 --memory 2GiB --out v");
    let output = command.output().expect("profile starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("needs 2.78 GiB besides activations and cpu:0 has 2.00 GiB"), "{said}");
    assert!(!said.contains("some steps of") && !door.path("v").exists(), "{said}");
}

#[test]
fn slips_are_usage_errors_that_say_what_to_do() {
    let door = crate::door();
    for (arguments, message) in [
        ("verify --plans", "required"),
        (
            "verify synthetic-sleep@ga2 --plans",
            "names its plan, and --plans takes all plans; remove one of them",
        ),
        ("verify lstm@on=cpu:0 --plans --device cpu:1", "and so does --device"),
        ("verify lstm --collectives gloo", "--plans"),
        ("verify synthetic-sleep@b4", "there is no workload 'synthetic-sleep@b4'"),
    ] {
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
    }
    assert!(!door.path("runs").exists(), "nothing was begun");
}

#[test]
fn every_plan_of_a_real_job_computes_the_same_thing() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let mut command = door.command("verify bert-mini@b1 --plans --device cpu:0 --json --out v");
    let output = command.env("TANDEM_BIN", bin).output().expect("profile starts");
    let rows: Vec<VerifyPlanRow> = rows::from_json(&String::from_utf8_lossy(&output.stdout)).expect("rows");
    assert!(rows.len() > 1 && rows.iter().all(|row| row.verified), "{rows:#?}");
    assert_eq!(output.status.code(), Some(0));
    let Model::Bert(model) = told(&door, "0001-bert-mini").workload.model else { panic!("it is BERT") };
    assert_eq!(model.dropout, 0.0, "what is dropped differs between plans");
}
