//! A GPU's readings from a scripted NVML to the tables.

use std::fs;

use front_door::{Background, wait_for};
use profiler::{
    derive,
    window::{Window, growth_in, longest_gap, mean},
};
use record::{
    rows::{self, Arithmetic, DeviceSample, HostSample, Measurement, Status, Tier, Warning},
    run_dir::RunDir,
};
use rig::device::{LOST, WRAPS_BEYOND};
use schema::{device::Device, units::Nanos};

/// A column of `devices.csv`.
type Gauge = fn(&DeviceSample) -> Option<f64>;

/// The windows of steady steps behind a row: one for each interval in which the job was not held.
fn windows(run: &RunDir, row: &Measurement) -> Vec<Window> {
    let [launch] = &derive::steps_of(run, row).expect("its events are whole")[..] else {
        panic!("one launch")
    };
    let used = launch.used.iter().flatten().map(|&place| &launch.steps[place]);
    let mut windows: Vec<Window> = Vec::new();
    for step in used {
        match windows.last_mut().filter(|window| window.end == step.start()) {
            Some(window) => window.end = step.end,
            None => windows.push(Window { start: step.start(), end: step.end }),
        }
    }
    windows
}

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
    let run = door.run("r");
    let row = &door.measurements("r")[0];
    assert_eq!((row.device.as_str(), row.status), ("cuda:0", Status::Ok));
    let samples: Vec<DeviceSample> = rows::read(&run.devices_path()).expect("it reads back");
    let ended = run.launch_end(&row.launch).expect("it reads back").expect("it has ended").mono_ns;
    let windows = windows(&run, row);
    let of_tier = |tier| samples.iter().filter(move |row| row.tier == tier && row.mono_ns <= ended);
    let grown = |value: fn(&DeviceSample) -> Option<u64>, own_period| {
        let readings = of_tier(Tier::Fast).filter_map(|row| Some((row.mono_ns, value(row)?)));
        growth_in(readings, own_period, &windows)
    };
    let has_counters =
        |row: &DeviceSample| row.energy_mj.is_some() && row.pcie_rx_bytes.and(row.pcie_tx_bytes).is_some();
    assert!(of_tier(Tier::Fast).any(has_counters), "{samples:?}");
    // The driver updates this counter ten times a second, too rarely for a window shorter than one second.
    assert_eq!(row.energy_mj, grown(|row| row.energy_mj, Nanos::SECOND));
    // On a busy machine the sampler may be too late for counters that wrap.
    let times = || of_tier(Tier::Fast).map(|row| (row.mono_ns, row.end_mono_ns));
    let was_late = windows.iter().any(|window| longest_gap(times(), *window) > WRAPS_BEYOND);
    let unless_late = |grown: Option<u64>| if was_late { None } else { grown };
    assert_eq!(row.pcie_rx_bytes, unless_late(grown(|row| row.pcie_rx_bytes, Nanos::ZERO)));
    assert_eq!(row.pcie_tx_bytes, unless_late(grown(|row| row.pcie_tx_bytes, Nanos::ZERO)));
    assert!(!was_late || row.warnings.iter().any(|warning| warning == Warning::Unread), "{row:?}");
    for counter in [row.energy_mj, row.pcie_rx_bytes, row.pcie_tx_bytes] {
        assert_ne!(counter, Some(0), "{row:?}");
    }
    // A gauge is constant here. It is empty if no reading fell into the window.
    let gauges: [(Tier, Gauge, Option<f64>, f64); 4] = [
        (Tier::Fast, |row| row.util_percent, row.device_util_percent_mean, 97.0),
        (Tier::Gpm, |row| row.sm_util_percent, row.sm_util_percent, 88.0),
        (Tier::Gpm, |row| row.sm_occupancy_percent, row.sm_occupancy_percent, 41.0),
        (Tier::Gpm, |row| row.dram_util_percent, row.dram_util_percent, 52.0),
    ];
    for (tier, gauge, found, expected) in gauges {
        let read: Vec<(Nanos, f64)> =
            of_tier(tier).filter_map(|row| Some((row.mono_ns, gauge(row)?))).collect();
        assert!(!read.is_empty() && read.iter().all(|(_, value)| *value == expected), "{tier}: {read:?}");
        assert_eq!(found, mean(read, &windows), "{tier}");
    }
    // The driver answers for all processes, and those of the job are not among them.
    let hosts: Vec<HostSample> = rows::read(&run.host_path()).expect("it reads back");
    let listed = hosts.iter().filter_map(|row| Some((row.mono_ns, row.device_util_percent?)));
    assert_eq!(row.job_util_percent_mean, mean(listed, &windows));
    assert!(
        hosts.iter().all(|row| row.device_util_percent.is_none_or(|percent| percent == 0.0)),
        "{hosts:?}"
    );
    assert_eq!(row.device_memory_bytes, Some(0));
    let slow = samples.iter().find(|row| row.tier == Tier::Slow).expect("one every second");
    let link = (slow.pcie_link_generation, slow.pcie_link_width, slow.pcie_replays);
    assert_eq!(link, (Some(5), Some(16), Some(0)));
    let manifest = run.manifest().expect("it reads back");
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
    let text = fs::read_to_string(door.path("mine.toml")).expect("it was written");
    let with_flops = format!("flops_per_sample = {FLOPS_PER_SAMPLE}\n            model.synthetic");
    fs::write(door.path("mine.toml"), text.replace("model.synthetic", &with_flops)).expect("it is ours");
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
    // MFU is rounded to two decimals: 24 % at 10 ms a step, less on a busy machine.
    assert!((mfu - expected).abs() < 0.006 && expected > 0.1, "{mfu} for {expected}");
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
    let shown = fs::read_to_string(log).expect("its output is kept");
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
        let log = fs::read_to_string(run.stdout_path(&launch, 0)).expect("its output is kept");
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
    let has_cores = profiler::cores::count().expect("it is known") > 1;
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
    // The program runs until `devices.csv` reports the lost device.
    let mut command = door.command("single --device cuda:0 --repeats 1 --out r --");
    command.args(["sh", "-c", "until [ -e lost ]; do sleep 0.05; done"]).env("TANDEM_NVML", &library);
    let mut profile = Background::start(command);
    wait_for("the device is lost", || {
        let samples = fs::read_to_string(door.path("r/devices.csv")).unwrap_or_default();
        if samples.contains(LOST) { Ok(()) } else { Err((samples.lines().count(), profile.has_ended())) }
    });
    door.write("lost", "");
    let (code, said) = profile.wait();
    assert_eq!(code, Some(0), "{said}");
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
    // The doctor reports this device and continues to its last line.
    let mut doctor = door.command("doctor");
    let output = doctor.env("TANDEM_NVML", &library).output().expect("profile starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("cuda:0 is split up by MIG") && said.contains("supervision"), "{said}");
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
    assert!(said.contains("no NVIDIA driver") && said.contains("supervision"), "{said}");
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
