//! The measurements of the doctor about itself: the cost of observation, and the duration of readings.

use front_door::Door;
use record::rows::{self, DeviceSample, Load, OverheadRow, ReadingRow, Tier};

/// Runs the doctor on a scripted GPU; returns its output.
fn doctor(door: &Door, arguments: &str) -> String {
    let library = fake_driver::install(&door.path(""), fake_driver::H200).expect("the folder is writable");
    let mut command = door.command(arguments);
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it speaks UTF-8")
}

fn samples(door: &Door, run: &str) -> Vec<DeviceSample> {
    rows::read(&door.run(run).devices_path()).expect("devices.csv reads back")
}

#[test]
fn readings_of_a_gpu_are_timed_at_rest_and_beside_a_job() {
    let door = crate::door();
    let job = "--job synthetic-sleep --device cuda:0";
    let out = doctor(&door, &format!("doctor --readings {job} --calls 5 --out r --json"));
    let rows: Vec<ReadingRow> = rows::from_json(&out).expect("rows of the schema");
    let of = |reading: &str, load| {
        rows.iter()
            .find(|row| row.reading == reading && row.load == load)
            .unwrap_or_else(|| panic!("no {reading} {load}"))
    };
    for load in [Load::Idle, Load::Training] {
        for reading in ["fast tier", "gpm tier", "slow tier", "field_values", "gpm_metrics", "process_util"] {
            let row = of(reading, load);
            assert_eq!((row.calls, row.failures, row.device.as_str()), (5, 0, "cuda:0"), "{row:?}");
            assert!(row.ns_p50 > Some(0) && row.ns_p50 <= row.ns_max, "{row:?}");
            assert_eq!(row.ns_p99, None, "five calls have no 99th percentile");
        }
        // One call answers for all of them: each has the latency that the driver reports, or none. The energy, which is costly, is
        // read in each fifth call.
        for (reading, calls, ns, capability) in [
            ("pcie_tx_bytes", 5, Some(90_000), "ok, 32 bits"),
            ("energy_mj", 1, None, "ok, 64 bits"),
            ("power_mw", 5, None, "ok"),
            ("sm_util_percent", 5, None, "ok, in %"),
        ] {
            let row = of(reading, load);
            assert_eq!((row.calls, row.ns_p50, row.capability.as_deref()), (calls, ns, Some(capability)));
        }
    }
    // The readings are on file, and no window of the performance monitors was too short.
    let samples = samples(&door, "r");
    let gpm: Vec<_> = samples.iter().filter(|row| row.tier == Tier::Gpm).collect();
    assert_eq!((samples.len(), gpm.len()), (30, 10));
    assert!(gpm.iter().all(|row| row.sm_util_percent == Some(88.0)), "{gpm:?}");
    let end = door.run("r").end().expect("end.toml reads back").expect("the run has ended");
    assert_eq!(end.exit_code, 0);
    assert!(end.observer.cpu_ns > 0 && door.leftovers().is_empty());
}

#[test]
fn readings_of_cores_are_those_of_their_only_tier() {
    let door = crate::door();
    let said = door.exits(0, "doctor --readings --job synthetic-sleep --device cpu:0 --calls 3 --out r");
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 3, "a header, at rest, and beside the job: {}", said.out);
    assert!(lines[1].contains("fast tier") && lines[1].contains("idle") && lines[2].contains("training"));
    assert!(said.err.contains("run: r") && said.err.contains("3 readings of each tier"), "{}", said.err);
}

#[test]
fn the_doctor_watches_as_often_as_it_is_told() {
    let door = crate::door();
    let arguments =
        "doctor --overhead --job synthetic-sleep --device cuda:0 --blocks 3 --fast-hz 5 --out r --json";
    let out = doctor(&door, arguments);
    let row: OverheadRow = rows::from_json(&out).expect("a row of the schema");
    // The device's default is 25 readings per second, and a busy machine makes fewer. A stretch holds at most two more than its length
    // allows: one at its start, and one late reading from before.
    assert!(row.fast_reads_per_s > 0.0 && row.fast_reads_per_s <= 7.0, "{row:?}");
    // The row leaves out a block if the job was stopped for a whole stretch.
    assert!(row.step_ratio > 0.0 && row.blocks >= 2 && row.blocks + row.blocks_left_out == 3, "{row:?}");
    assert!(door.run("r").end().expect("end.toml reads back").is_some());
    for (wrong, complaint) in [
        ("doctor --fast-hz 5", "--overhead"),
        ("doctor --overhead --fast-hz 0", "from 0.1 to 1000"),
        ("doctor --overhead --readings", "cannot be used with"),
    ] {
        let said = door.exits(2, wrong);
        assert!(said.err.contains(complaint), "{wrong}: {}", said.err);
    }
}
