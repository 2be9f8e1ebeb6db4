//! What policies decide, on traces of one mechanism each, and how they are listed.

mod gandiva;
mod lacking;
mod listing;
mod memory;
mod rubick;
mod shortest;

use std::fs;

use formats::rows::Outcome;
use front_door::Door;
use record::rows::{self};

/// The times of `gpt2-mini` with a batch of 8: plans, their numbers of devices, and steps per second.
const PLANS: [(&str, usize, f64); 5] =
    [("dp1", 1, 1.0), ("dp2", 2, 1.6), ("tp2", 2, 1.9), ("dp4", 4, 2.4), ("dp2-tp2", 4, 3.0)];

/// Writes the table of a run that measured `gpt2-mini` alone under some plans, on one type of device.
fn write_table(door: &Door, device_type: &str, plans: &[(&str, usize, f64)]) {
    fs::create_dir_all(door.path(device_type)).expect("the folder is writable");
    let mut manifest = "format = 1\nstarted_utc = \"2026-11-25T00:00:00Z\"\ncommand = [\"profile\"]\nversion = \"0.1.0\"\nseed = 1\n\
        cells = []\n\n[settings]\nrepeats = 1\ncatalogs = []\n\n[machine]\n\n[machine.environment]\n"
        .to_owned();
    for number in 0..4 {
        manifest += &format!("\n[[devices]]\ndevice = \"cuda:{number}\"\nname = \"{device_type}\"\n");
    }
    door.write(&format!("{device_type}/manifest.toml"), &manifest);
    let mut summary = "run,job,workload,plan,device,threads,sharing,global_batch,repeats,repeats_failed,step_ns_median,step_ns_mean,\
        warnings,status\n"
        .to_owned();
    for (plan, devices, rate) in plans {
        let devices: Vec<String> = (0..*devices).map(|number| format!("cuda:{number}")).collect();
        let (devices, step_ns) = (devices.join(","), (1e9 / rate).round());
        summary += &format!(
            "{device_type},gpt2-mini@b8@{plan},gpt2-mini,{plan},\"{devices}\",1,alone,8,1,0,{step_ns},{step_ns},,ok\n"
        );
    }
    door.write(&format!("{device_type}/summary.csv"), &summary);
}

/// Ends of the jobs of a trace in seconds, in its order, after `sched sim t.csv ARGUMENTS`.
fn ends(trace: &str, arguments: &str) -> Vec<f64> {
    let (_, outcomes) = simulated(trace, arguments);
    outcomes.iter().map(|row| row.end_ns.expect("every job ends") as f64 / 1e9).collect()
}

/// The folder in which a trace was simulated, and the outcomes of its jobs.
fn simulated(trace: &str, arguments: &str) -> (Door, Vec<Outcome>) {
    let door = crate::door();
    write_table(&door, "GPU", &PLANS);
    door.write("t.csv", trace);
    door.exits(0, &format!("sim t.csv {arguments} --out r"));
    let outcomes = rows::read(&door.path("r/outcomes.csv")).expect("it reads back");
    (door, outcomes)
}

/// Rigid jobs as `(submit_s, devices, seconds)`, of steps of a second.
fn rigid(jobs: &[(u64, u32, u64)]) -> String {
    let mut trace = "name,submit_s,job,steps,devices,step_ns\n".to_owned();
    for (number, (submit_s, devices, seconds)) in jobs.iter().enumerate() {
        trace += &format!("j{number},{submit_s},any,{seconds},{devices},1000000000\n");
    }
    trace
}
