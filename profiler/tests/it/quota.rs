//! CPU quotas of cgroups.

use std::{fs, path::PathBuf, process::Command};

use front_door::{Background, Door, Said, wait_for};
use record::rows::{self, DoctorRow, HostSample, Status, Warning};
use rig::cgroup::directories;

/// A cgroup with a quota below that of this process, which is removed when this is dropped.
struct Group(PathBuf);

impl Group {
    /// `name` is for this test alone. The error says what the machine lacks.
    fn with_quota(name: &str, quota_us: u32) -> Result<Group, String> {
        let own = directories(std::process::id() as i32);
        let own = own.iter().find(|directory| directory.join("cpu.cfs_quota_us").exists());
        let own = own.ok_or("no cgroups of version 1 divide CPU time")?;
        let group = Group(own.join(format!("tandem-test-{name}-{}", std::process::id())));
        fs::create_dir(&group.0).map_err(|error| format!("{}: {error}", group.0.display()))?;
        fs::write(group.0.join("cpu.cfs_quota_us"), quota_us.to_string())
            .map_err(|error| format!("a quota of {quota_us} us: {error}"))?;
        // The weight lets the group use its quota beside other programs.
        fs::write(group.0.join("cpu.shares"), "262144").map_err(|error| format!("a weight: {error}"))?;
        Ok(group)
    }

    /// A command whose processes are in the group.
    fn within(&self, door: &Door, command: &Command) -> Command {
        let mut joins = Command::new("sh");
        joins.args(["-c", "echo 0 > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        joins.arg(command.get_program()).args(command.get_args()).current_dir(door.path(""));
        joins
    }

    /// Waits until the kernel has released the processes that were in it.
    fn remove(self) {
        wait_for("the cgroup can be removed", || fs::remove_dir(&self.0));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_that_stops_a_program_is_named_and_warned_of() {
    let group = match Group::with_quota("whole", 20_000) {
        Ok(group) => group,
        Err(lacks) => return schema::skips::skipped("cgroups", lacks),
    };
    let door = crate::door();
    let mut command = door.command("single --device cpu:0 --repeats 1 --out r --");
    let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    command.args(["sh", "-c", burn]);
    let output = group.within(&door, &command).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(0), "{}", said.err);
    let row = &door.measurements("r")[0];
    assert_eq!(row.status, Status::Ok);
    assert!(row.warnings.iter().any(|warning| warning == Warning::Throttled), "{row:?}");
    assert!(said.err.contains("throttled: a CPU quota of its cgroup stopped it in "), "{}", said.err);

    let output = group.within(&door, &door.command("doctor --json")).output().expect("profile starts");
    let rows: Vec<DoctorRow> = rows::from_json(&Said::of(&output).out).expect("rows of the schema");
    let expected = format!(
        "{} limits its processes to 0.20 cores (20000 us of CPU time in 100000 us) and stops them beyond that",
        group.0.display()
    );
    let quotas: Vec<&String> =
        rows.iter().filter(|row| row.about == "cpu quota").map(|row| &row.found).collect();
    assert!(quotas.contains(&&expected), "{quotas:?}");
    group.remove();
}

#[test]
fn a_program_that_joins_a_cgroup_with_a_quota_after_its_start_is_warned_of() {
    let group = match Group::with_quota("joined", 20_000) {
        Ok(group) => group,
        Err(lacks) => return schema::skips::skipped("cgroups", lacks),
    };
    let door = crate::door();
    let mut command = door.command("single --device cpu:0 --repeats 1 --out r --");
    let first_reading = "until [ -s r/host.csv ]; do sleep 0.01; done";
    let joins = format!("echo 0 > '{}'", group.0.join("cgroup.procs").display());
    let burns = "until [ -e seen ]; do :; done";
    command.args(["sh", "-c", &format!("{first_reading}; {joins}; {burns}")]);
    let mut profile = Background::start(command);
    wait_for("it was stopped", || {
        let readings: Vec<HostSample> = rows::read_appended(&door.path("r/host.csv")).expect("it reads");
        let stopped = readings.iter().any(|reading| reading.throttled_periods > Some(0));
        if stopped { Ok(()) } else { Err((readings.len(), profile.has_ended())) }
    });
    door.write("seen", "");
    let (code, err) = profile.wait();
    assert_eq!(code, Some(0), "{err}");
    let row = &door.measurements("r")[0];
    assert!(row.warnings.iter().any(|warning| warning == Warning::Throttled), "{row:?}");
    assert!(err.contains("throttled: a CPU quota of its cgroup stopped it in "), "{err}");
    group.remove();
}
