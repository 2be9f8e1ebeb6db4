//! A GPU's readings from a scripted NVML to the tables.

use schema::{
    device::Device,
    rows::{self, Arithmetic, DeviceSample, Measurement, Status, Tier, Warning},
};

#[test]
fn a_gpu_s_counters_reach_the_row() {
    let door = crate::door();
    // No process is listed or holds memory.
    let script =
        fake_driver::H200.replace("memory_used_bytes = { start = 20000000000 }", "memory_used_bytes = {}");
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    let mut command =
        door.command("single synthetic-sleep --device cuda:0 --seconds 2.5 --repeats 1 --out r");
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &door.measurements("r")[0];
    assert_eq!((row.device.as_str(), row.status), ("cuda:0", Status::Ok));
    assert!(row.energy_mj > Some(0), "{:?}", row.energy_mj);
    // On a busy machine the sampler may be too late for counters that wrap.
    let was_late = row.warnings.iter().any(|warning| warning == Warning::Unread);
    for (what, value) in [("pcie_rx_bytes", row.pcie_rx_bytes), ("pcie_tx_bytes", row.pcie_tx_bytes)] {
        assert_eq!(value.is_none(), was_late, "{what}: {value:?}");
        assert_ne!(value, Some(0), "{what}");
    }
    for (what, value) in [
        ("device_util_percent_mean", row.device_util_percent_mean),
        ("sm_util_percent", row.sm_util_percent),
        ("sm_occupancy_percent", row.sm_occupancy_percent),
        ("dram_util_percent", row.dram_util_percent),
    ] {
        assert!(value.is_some_and(|percent| (0.0..=100.0).contains(&percent)), "{what}: {value:?}");
    }
    // The driver answers for all processes, and those of the job are not among them.
    assert_eq!((row.job_util_percent_mean, row.device_memory_bytes), (Some(0.0), Some(0)));
    let samples: Vec<DeviceSample> = rows::read(&door.run("r").devices_path()).expect("it reads back");
    let slow = samples.iter().find(|row| row.tier == Tier::Slow).expect("one every second");
    let link = (slow.pcie_link_generation, slow.pcie_link_width, slow.pcie_replays);
    assert_eq!(link, (Some(5), Some(16), Some(0)));
    let manifest = door.run("r").manifest().expect("it reads back");
    let [facts] = &manifest.devices[..] else { panic!("one device") };
    assert!(facts.name.contains("H200") && facts.memory_bytes > Some(100 << 30), "{facts:?}");
    assert_eq!((facts.topology["mig"].as_str(), facts.topology["ecc"].as_str()), ("disabled", "on"));
    assert!(!facts.peak_flops.is_empty() && manifest.machine.driver.is_some());
}

#[test]
fn mfu_is_what_the_steps_of_the_row_make_of_the_peak_of_their_arithmetic() {
    const FLOPS_PER_SAMPLE: u64 = 20_000_000_000;
    let door = crate::door();
    door.catalog("mine.toml", "mine", "step_us = 10000, busy_percent = 0");
    let text = std::fs::read_to_string(door.path("mine.toml")).expect("it was written");
    let with_flops = format!("flops_per_sample = {FLOPS_PER_SAMPLE}\n            model.synthetic");
    std::fs::write(door.path("mine.toml"), text.replace("model.synthetic", &with_flops)).expect("it is ours");
    let library = fake_driver::install(&door.path(""), fake_driver::H200).expect("the folder is writable");
    let mut command =
        door.command("single mine --catalog mine.toml --device cuda:0 --steps 40 --repeats 1 --out r");
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &door.measurements("r")[0];
    assert_eq!(row.flops_per_step, Some(8 * FLOPS_PER_SAMPLE));
    // It has no convolutions, so that fp32 really is fp32: 67 TFLOP/s.
    let window_s = row.window_ns.expect("it has steps") as f64 / 1e9;
    let expected = 100.0 * (8 * FLOPS_PER_SAMPLE * row.steps_used) as f64 / window_s / 67e12;
    let mfu = row.mfu_percent.expect("the chip is known");
    assert!((mfu - expected).abs() <= 0.005 && expected > 1.0, "{mfu} for {expected}");
    assert_eq!(row.mfu_arithmetic, Some(Arithmetic::Fp32));
    let summary = &door.summaries("r")[0];
    assert_eq!((summary.mfu_percent, summary.mfu_arithmetic), (Some(mfu), Some(Arithmetic::Fp32)));
}

#[test]
fn a_launch_is_shown_its_own_gpu_by_name() {
    let door = crate::door();
    let library = fake_driver::install(&door.path(""), fake_driver::H200).expect("the folder is writable");
    let mut command = door.command("single --device cuda:0 --repeats 1 --out r --");
    command.args(["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]).env("TANDEM_NVML", &library);
    assert_eq!(command.status().expect("profile starts").code(), Some(0));
    let log = door.run("r").stdout_path(&door.measurements("r")[0].launch, 0);
    let shown = std::fs::read_to_string(log).expect("its output is kept");
    assert_eq!(shown, "GPU-00000000-0000-0000-0000-000000000000\n");
}

#[test]
fn a_gpu_whose_name_the_driver_does_not_tell_is_refused_before_anything_starts() {
    let door = crate::door();
    let script = fake_driver::H200.replace("\"GPU-00000000-0000-0000-0000-000000000000\"", "\"\"");
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    let mut command = door.command("single synthetic-sleep --device cuda:0 --out r");
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("cuda:0: the driver does not say its uuid") && said.contains("take another device"),
        "{said}"
    );
    assert!(!door.path("r").exists());
}

#[test]
fn jobs_together_on_a_gpu_have_cores_of_their_own() {
    let door = crate::door();
    let library = fake_driver::install(&door.path(""), fake_driver::H200).expect("the folder is writable");
    let mut command = door.command("colocate --device cuda:0 --repeats 1 --out r");
    for seconds in ["0.2", "0.3"] {
        command
            .args(["--cmd", &format!("sh -c 'grep Cpus_allowed_list /proc/self/status; sleep {seconds}'")]);
    }
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let run = door.run("r");
    for launch in run.launches().expect("they are listed") {
        let log = std::fs::read_to_string(run.stdout_path(&launch, 0)).expect("its output is kept");
        // A process that was ordered to stop may have had no time to print.
        if let Some((_, list)) = log.trim().split_once(":\t") {
            let bound_to: Device = format!("cpu:{}", list.replace(',', "+")).parse().expect("a set of cores");
            assert_eq!(run.spec(&launch).expect("it reads back").host_cores, [bound_to], "{launch}");
        }
    }
    let rows = door.measurements("r");
    let cores = |row: &Measurement| match &run.spec(&row.launch).expect("it reads back").host_cores[..] {
        [Device::Cpu(cores)] => cores.clone(),
        other => panic!("{other:?}"),
    };
    let (together, alone): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.group.is_some());
    let [one, other] = &together[..] else { panic!("two seats: {rows:?}") };
    for row in alone.iter().chain(&together) {
        assert_eq!((cores(row).len(), row.threads as usize), (cores(one).len(), cores(one).len()), "{row:?}");
    }
    let are_apart = !cores(one).iter().any(|core| cores(other).contains(core));
    let has_cores = std::thread::available_parallelism().expect("it is known").get() > 1;
    assert!(are_apart || !has_cores, "{:?} {:?}", cores(one), cores(other));
    for row in [one, other] {
        assert_eq!(row.warnings.iter().any(|word| word == Warning::CoresShared), !are_apart, "{row:?}");
    }
}

#[test]
fn cores_of_the_host_are_asked_for_where_there_is_a_gpu_and_as_many_as_there_are() {
    let door = crate::door();
    let said = door.exits(2, "single synthetic-sleep --device cpu:0 --cpus-per-job 1 --dry-run");
    assert!(said.err.contains("a job on a CPU device has the cores of its device"), "{}", said.err);
    let library = fake_driver::install(&door.path(""), fake_driver::H200).expect("the folder is writable");
    let mut command = door.command("single synthetic-sleep --device cuda:0 --cpus-per-job 5000 --dry-run");
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--cpus-per-job 5000: this program may use "), "{said}");
}

#[test]
fn a_device_that_is_lost_is_a_warning_and_the_run_goes_on() {
    let door = crate::door();
    let script = fake_driver::H200.replacen("[[device]]", "[[device]]\nlost_after_calls = 400", 1);
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    let mut command = door.command("single synthetic-sleep --device cuda:0 --seconds 2 --repeats 1 --out r");
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &door.measurements("r")[0];
    assert!(row.warnings.iter().any(|w| w == Warning::DeviceLost), "{:?}", row.warnings);
}

#[test]
fn a_device_that_is_split_up_is_refused_before_anything_starts() {
    let door = crate::door();
    let script = fake_driver::H200.replace("mig = {}", "mig = { start = 1 }");
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    let mut command = door.command("single synthetic-sleep --device cuda:0 --out r");
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cuda:0 is split up by MIG") && said.contains("take another device"), "{said}");
    assert!(!door.path("r").exists());
    // The doctor reports this device and continues.
    let mut doctor = door.command("doctor");
    let output = doctor.env("TANDEM_NVML", &library).output().expect("profile starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("cuda:0 is split up by MIG") && said.contains("a spin loop takes"), "{said}");
}

#[test]
fn without_a_driver_a_gpu_is_lacking_and_the_doctor_says_so() {
    let door = crate::door();
    let mut command = door.command("single synthetic-sleep --device cuda:0 --out r");
    let output = command.env("TANDEM_NVML", "/nowhere/libnvidia-ml.so.1").output().expect("profile starts");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no NVIDIA driver"), "{output:?}");
    let mut doctor = door.command("doctor");
    let output = doctor.env("TANDEM_NVML", "/nowhere/libnvidia-ml.so.1").output().expect("profile starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("no NVIDIA driver") && said.contains("a spin loop takes"), "{said}");
}

#[test]
fn a_driver_that_shows_no_device_is_said_by_the_doctor() {
    let door = crate::door();
    let library = fake_driver::install(&door.path(""), fake_driver::H200).expect("the folder is writable");
    let mut doctor = door.command("doctor");
    let output = doctor.env("TANDEM_NVML", &library).env("CUDA_VISIBLE_DEVICES", "").output();
    let said = String::from_utf8_lossy(&output.expect("profile starts").stdout).into_owned();
    assert!(said.contains("CUDA_VISIBLE_DEVICES hides them all"), "{said}");
}
