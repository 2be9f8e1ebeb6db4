//! Facts and copies of CUDA's library, scripted: found, matched, timed and compared with the counters.

use std::process::{Command, Output};

use front_door::Door;
use record::rows::{self, Direction, DoctorRow, Health, TransferRow};

/// Two devices of known speed without other users. NVML and CUDA number them in opposite orders.
const TWO: &str = "
    [[device]]
    name = 'NVIDIA A'
    uuid = 'GPU-0000000a-0001-0002-0003-00000000000a'
    memory_bytes = 80000000
    cuda = { multiprocessors = 11, clock_khz = 1500999, async_engines = 0, header_share = 0.03, \
        host_to_device_bytes_per_s = 400000000, device_to_host_bytes_per_s = 300000000, \
        page_locked_bytes = 80000000 }
    [device.metrics]
    pcie_rx_bytes = { start = 4194967296, bits = 32 }
    pcie_tx_bytes = { bits = 32 }
    gpm_sm_util = { unit = '%' }
    gpm_pcie_rx = { unit = 'MiB/s' }
    gpm_pcie_tx = { unit = 'MiB/s' }

    [[device]]
    name = 'NVIDIA B'
    uuid = 'GPU-0000000b-0001-0002-0003-00000000000b'
    memory_bytes = 80000000
    cuda = { multiprocessors = 22, header_share = 0.1, host_to_device_bytes_per_s = 800000000, \
        device_to_host_bytes_per_s = 600000000, page_locked_bytes = 30000000 }
    [device.metrics]
    pcie_rx_bytes = {}";

/// `profile` with this script as the driver.
fn scripted(door: &Door, script: &str, arguments: &str) -> Command {
    let library = fake_driver::install(&door.path(""), script).expect("the folder is writable");
    let mut command = door.command(arguments);
    command.env("TANDEM_NVML", &library).env("LD_LIBRARY_PATH", door.path(""));
    command
}

/// The output, after a check of the exit code.
fn said(code: i32, mut command: Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().expect("profile starts");
    let [out, err] = [stdout, stderr].map(|text| String::from_utf8(text).expect("it speaks UTF-8"));
    assert_eq!(status.code(), Some(code), "{out}\n{err}");
    (out, err)
}

/// The doctor's rows. Its exit code also depends on libtorch, which these tests do not need.
fn examined(mut command: Command) -> Vec<DoctorRow> {
    let output = command.output().expect("profile starts");
    rows::from_json(&String::from_utf8_lossy(&output.stdout)).expect("rows")
}

fn is_near(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value / expected - 1.0).abs() < 1e-4)
}

#[test]
fn known_copies_are_timed_and_found_in_both_accounts() {
    let door = crate::door();
    let arguments = "doctor --transfers --device cuda:0 --mib 64 --copies 2 --json";
    let (out, _) = said(0, scripted(&door, TWO, arguments));
    let rows: Vec<TransferRow> = rows::from_json(&out).expect("rows");
    let directions: Vec<Direction> = rows.iter().map(|row| row.direction).collect();
    assert_eq!(directions, [Direction::HostToDevice, Direction::DeviceToHost]);
    for (row, speed) in rows.iter().zip([4e8, 3e8]) {
        assert_eq!((row.device.as_str(), row.bytes, row.copies), ("cuda:0", 64 << 20, 2));
        assert!(is_near(Some(row.bytes_per_s), speed), "{row:?}");
        // The receiving counter wraps in the first copy that counts.
        assert!(is_near(row.counter_ratio, 1.03) && is_near(row.counter_ratio_ci_hi, 1.03), "{row:?}");
        // The harness times the GPM windows. A pause of the host between two of them makes the sum wrong.
        assert!(row.gpm_ratio > Some(0.0), "{row:?}");
    }
}

#[test]
fn a_copy_larger_than_the_buffer_is_many_of_it() {
    let door = crate::door();
    let large = TWO.replace("0000000,", "00000000,").replace("80000000", "800000000");
    let (out, _) = said(0, scripted(&door, &large, "doctor --transfers --mib 300 --copies 1 --json"));
    for (row, speed) in rows::from_json::<Vec<TransferRow>>(&out).expect("rows").iter().zip([4e9, 3e9]) {
        assert_eq!((row.bytes, row.copies, row.bytes_per_s_ci_lo), (300 << 20, 1, None));
        assert!(is_near(Some(row.bytes_per_s), speed) && is_near(row.counter_ratio, 1.03), "{row:?}");
    }
}

#[test]
fn the_device_is_the_one_that_nvml_means_and_headers_are_called_headers() {
    let door = crate::door();
    let (out, _) = said(0, scripted(&door, TWO, "doctor --transfers --device cuda:1 --mib 16 --copies 2"));
    assert!(out.contains("0.80 GB/s") && out.contains("0.60 GB/s"), "{out}");
    assert!(out.contains("bytes received, by the PCIe counters: 1.100 (1."), "{out}");
    assert!(out.contains("of what was copied, NOT within 5 %: this is what packet headers add"), "{out}");
    assert!(
        out.contains("bytes transmitted, by the PCIe counters: this device has no such counter"),
        "{out}"
    );
    assert!(out.contains("bytes received, by the rates of GPM: this device has no such counter"), "{out}");
}

#[test]
fn a_machine_that_cannot_copy_is_told_why() {
    let door = crate::door();
    let refused = |code, script: &str, arguments: &str, reason: &str| {
        let (_, err) = said(code, scripted(&door, script, &format!("doctor --transfers {arguments}")));
        assert!(err.contains(reason), "{err}");
    };
    refused(2, TWO, "--device cpu:0", "cpu:0 has no link to copy over; name a GPU");
    refused(3, TWO, "--device cuda:2", "there is no cuda:2");
    refused(
        3,
        TWO,
        "--device cuda:1 --mib 40",
        "cuda:1: taking page-locked memory of the host: out of memory",
    );
    refused(3, TWO, "--device cuda:0 --mib 90", "cuda:0: taking memory of the device: out of memory");
    let old = format!("cuda_version = 12070\n{TWO}");
    refused(3, &old, "", "the driver is of CUDA 12.7, and CUDA 12.8 at least is needed");
    let hidden = TWO.replacen("cuda = {", "# {", 1);
    refused(3, &hidden, "", "the CUDA driver lists no device GPU-0000000a");
}

#[test]
fn without_a_driver_there_is_nothing_to_copy_with() {
    let door = crate::door();
    let mut command = door.command("doctor --transfers");
    command.env("TANDEM_NVML", "/nowhere/libnvidia-ml.so.1");
    let (_, err) = said(3, command);
    assert!(err.contains("no NVIDIA driver"), "{err}");
}

#[test]
fn the_chip_stands_in_the_doctor_s_list_and_in_the_manifest() {
    let door = crate::door();
    let rows = examined(scripted(&door, TWO, "doctor --json"));
    let found = |about: &str| rows.iter().find(|row| row.about == about).map(|row| row.found.as_str());
    assert_eq!(found("libcuda"), Some("runs CUDA up to 13.0"));
    assert_eq!((found("cuda:0 multiprocessors"), found("cuda:1 multiprocessors")), (Some("11"), Some("22")));
    assert_eq!((found("cuda:0 clock_mhz_max"), found("cuda:0 warp_size")), (Some("1500"), Some("32")));
    // A zero from the driver means unknown, and so does a refusal.
    assert_eq!((found("cuda:0 async_engines"), found("cuda:0 l2_cache_bytes")), (None, None));

    let run = "single synthetic-sleep --device cuda:0 --seconds 0.5 --repeats 1 --out r";
    said(0, scripted(&door, fake_driver::H200, run));
    let manifest = door.run("r").manifest().expect("it reads back");
    assert_eq!(manifest.machine.cuda.as_deref(), Some("13.0"));
    let chip = &manifest.devices[0].chip;
    assert_eq!((chip["multiprocessors"], chip["memory_bus_bits"]), (132, 6144));
    assert_eq!((chip["memory_clock_mhz_max"], chip["async_engines"]), (3201, 3));
}

#[test]
fn a_driver_that_does_not_know_the_chip_is_asked_why() {
    let door = crate::door();
    for (script, reason) in [
        (
            format!("cuda_version = 11030\n{TWO}"),
            "the driver is of CUDA 11.3, and CUDA 11.4 at least is needed",
        ),
        (TWO.replacen("cuda = {", "# {", 1), "the CUDA driver lists no device GPU-0000000a-"),
    ] {
        let rows = examined(scripted(&door, &script, "doctor --json"));
        let chip = rows.iter().find(|row| row.about == "cuda:0 chip").expect("a row");
        assert!(chip.health == Health::Lacks && chip.found.starts_with(reason), "{chip:?}");
    }
}

#[test]
fn facts_need_no_context() {
    let door = crate::door();
    let occupied = TWO.replace("cuda = {", "cuda = { occupied = true,");
    let rows = examined(scripted(&door, &occupied, "doctor --json"));
    assert!(rows.iter().any(|row| row.about == "cuda:0 multiprocessors"), "{rows:?}");
    let (_, err) = said(3, scripted(&door, &occupied, "doctor --transfers"));
    assert!(err.contains("cuda:0: opening a CUDA context: CUDA-capable device"), "{err}");
}

#[test]
fn a_gpu_without_cuda_s_library_is_measured_all_the_same() {
    let door = crate::door();
    let command = scripted(&door, fake_driver::H200, "doctor --json");
    std::fs::remove_file(door.path("libcuda.so")).expect("it was installed");
    let rows = examined(command);
    let found = |about: &str| rows.iter().find(|row| row.about == about).map(|row| row.found.as_str());
    assert!(found("cuda:0").is_some_and(|found| found.contains("H200")), "{rows:?}");
    // On a machine with a driver the loader finds another libcuda, which lists no such device.
    assert_eq!(found("cuda:0 multiprocessors"), None);
}
