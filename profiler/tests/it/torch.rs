//! Real training by the program, if set-up has placed torch-worker in `bin/`.

use front_door::{Background, torch_bin, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use schema::{
    calibration::{Calibration, Switch},
    events::EventReader,
    rows::{ErrorKind, Status},
    units::Nanos,
    wire::Event,
};

#[test]
fn a_real_job_is_measured_with_its_phases_and_its_memory() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let mut command = door.command("single lstm@b4 --device cpu:0 --steps 30 --repeats 1 --out r");
    let output = command.env("TANDEM_BIN", bin).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &door.measurements("r")[0];
    assert_eq!(row.status, Status::Ok);
    assert!(row.parameters.is_some() && row.flops_per_step.is_some(), "{row:?}");
    // Tensor memory holds at least parameters and gradients, four bytes each.
    assert!(row.peak_memory_bytes > row.parameters.map(|count| 8 * count), "{row:?}");
    let phases = [row.data_ns_median, row.forward_ns_median, row.backward_ns_median, row.optimizer_ns_median];
    let sum: u64 = phases.into_iter().map(|phase| phase.expect("every phase is reported on a CPU")).sum();
    let step = row.step_ns_median.expect("it stepped");
    assert!((sum as f64 / step as f64 - 1.0).abs() < 0.2, "phases add up to {sum} of {step} ns");
    assert!(row.sync_total_ns_median.is_none() && row.offload_ns_median.is_none());
}

#[test]
fn offload_is_run_where_it_is_named_and_has_a_phase_of_its_own() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let arguments =
        "single lstm@b4@offload --offload-threads 1 --device cpu:0 --steps 10 --repeats 1 --out r";
    let output = door.command(arguments).env("TANDEM_BIN", bin).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &door.measurements("r")[0];
    assert_eq!(row.status, Status::Ok);
    assert!(row.offload_ns_median.is_some_and(|ns| ns > 0), "{row:?}");
    // Parameters, gradients, and a copy of each in host memory, which here is the device's.
    assert!(row.peak_memory_bytes > row.parameters.map(|count| 16 * count), "{row:?}");
}

#[test]
fn one_seed_gives_one_training() {
    let Some(bin) = torch_bin() else { return };
    let losses = |run: &str| {
        let door = crate::door();
        let arguments = format!("single lstm@b4 --device cpu:0 --steps 20 --repeats 1 --out {run}");
        let output = door.command(&arguments).env("TANDEM_BIN", &bin).output().expect("profile starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let events =
            schema::events::read(&door.run(run).events_path("0001-lstm", 0), 0).expect("events read");
        let loss = |line: &schema::wire::EventLine| match &line.event {
            schema::wire::Event::Step(step) => step.loss,
            _ => None,
        };
        events.iter().filter_map(loss).take(20).collect::<Vec<f64>>()
    };
    let first = losses("a");
    assert_eq!(first.len(), 20);
    assert_eq!(first, losses("b"), "bit for bit");
}

#[test]
fn a_rank_that_is_killed_in_a_step_is_a_row_at_once_and_nothing_is_left() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let arguments = "single gpt2-mini@b4@dp2 --device cpu:0,cpu:1 --seconds 600 --repeats 1 --out r";
    let mut command = door.command(arguments);
    command.env("TANDEM_BIN", bin);
    let mut profile = Background::start(command);
    let said = door.path("r/events/0001-gpt2-mini.1.jsonl");
    wait_until("rank 1 trains", || {
        std::fs::read_to_string(&said).is_ok_and(|text| text.contains("\"step\""))
    });
    let mut lines = Vec::new();
    EventReader::open(&said, 1).and_then(|mut reader| reader.poll(&mut lines)).expect("events read");
    let Event::Hello(hello) = &lines[0].event else { panic!("hello comes first: {lines:?}") };

    let killed_at = Nanos::monotonic_now();
    kill_process(Pid::from_raw(hello.pid as i32).expect("a process"), Signal::KILL).expect("it runs");
    let (code, said) = profile.wait();
    assert_eq!(code, Some(1), "{said}");
    let end = door.run("r").launch_end("0001-gpt2-mini").expect("it reads back").expect("the launch ended");
    assert!(end.mono_ns.saturating_sub(killed_at) < Nanos(5 * Nanos::SECOND.0), "{end:?}");
    let row = &door.measurements("r")[0];
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Killed)), "{row:?}");
    let detail = row.err_detail.as_deref().expect("in words");
    assert!(detail.contains("rank 1 was killed by SIGKILL"), "{detail}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn all_reduces_and_restarts_of_real_jobs_are_calibrated() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let arguments = "calibrate lstm@b4 lstm@b4@dp2 --parts all-reduce,restart --kib 4,4096 \
                     --device cpu:0,cpu:1 --repeats 2 --seconds 0.2 --run r";
    let output = door.command(arguments).env("TANDEM_BIN", bin).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found = Calibration::read(&door.path("machine.toml")).expect("it reads back");
    let sizes: Vec<u64> = found.all_reduce.iter().map(|row| row.bytes).collect();
    assert_eq!((sizes, found.not_measured.len()), (vec![4 << 10, 4 << 20], 0));
    for job in ["lstm@b4@dp1", "lstm@b4@dp2"] {
        let of =
            |part| found.restart.iter().find(|row| row.job == job && row.part == part).expect("it has all");
        // Under every plan, the checkpoint holds at least the parameters, four bytes each.
        let parameters =
            door.measurements("r").iter().find(|row| row.job == job).and_then(|row| row.parameters);
        assert!(of(Switch::Checkpoint).bytes > parameters.map(|count| 4 * count), "{job}");
        assert!(of(Switch::Restore).ns.value > 0, "{job}");
        assert!(of(Switch::Start).ns.value > of(Switch::Restore).ns.value, "{job}");
    }
}
