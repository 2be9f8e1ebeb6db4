//! Traces and jobs that cannot be simulated.

use std::fs;

use formats::rows::Outcome;
use record::rows::{self, Status};

use super::THREE;

/// Elastic jobs may ask for more devices than there are, if the policy gives them fewer.
#[test]
fn an_elastic_job_that_would_wait_for_ever_is_not_admitted() {
    let door = crate::door();
    door.write("t.csv", "name,submit_s,job,steps,devices,elastic,step_ns\nlarge,0,any,5,4,true,100\nsmall,1,any,5,1,false,100\n");
    let arguments = "t.csv --policy fifo --cluster 1x2 --switch-cost 0s --out r";
    door.exits(1, &format!("sim {arguments}"));
    let outcomes: Vec<Outcome> = rows::read(&door.path("r/outcomes.csv")).unwrap();
    assert_eq!(outcomes.iter().map(|row| row.status).collect::<Vec<_>>(), [Status::Unsupported, Status::Ok]);
    assert_eq!(
        outcomes[0].err_detail.as_deref(),
        Some("asks for 4 devices, the cluster has 2 of one type, and policy 'fifo' gives no other number")
    );
}

#[test]
fn a_trace_that_cannot_be_is_refused_by_line_and_column_before_anything_starts() {
    let door = crate::door();
    let header = "name,submit_s,job,steps,devices,step_ns\n";
    for (rows, message) in [
        ("a,0,nobody,5,,\n", "t.csv: line 2: column 'job': there is no workload 'nobody'"),
        ("a,-1,lstm,5,,\n", "t.csv: line 2: column 'submit_s': -1 is no time"),
        ("a,0,lstm,5,,7\na,1,lstm,5,,7\n", "t.csv: line 3: column 'name': 'a' stands in line 2 already"),
        ("a,0,any,5,4,7\n", "t.csv: line 2: column 'devices': asks for 4 devices, and the cluster has 3"),
        ("a,0,any,5,1,7\nb,1,an", "t.csv: line 3: column 'steps': the line ends after 3 of 6 columns"),
    ] {
        door.write("t.csv", &format!("{header}{rows}"));
        let said = door.exits(2, "sim t.csv --policy fifo --cluster 1x3 --switch-cost 0s --out run");
        assert!(said.err.contains(message) && said.out.is_empty(), "{}", said.err);
        assert!(!door.path("run").exists(), "{message}");
    }
    door.write("t.csv", THREE);
    for (arguments, message) in [
        ("t.csv --policy fifo --cluster 1x1", "--switch-cost"),
        ("t.csv --policy lifo --cluster 1x1 --switch-cost 0s", "there is no policy 'lifo'"),
        (
            "t.csv --policy fifo --cluster 1x1 --switch-cost -1s",
            "--switch-cost -1s: the value must be positive",
        ),
        ("t.csv --policy fifo --cluster 1 --switch-cost 0s", "write NODESxDEVICES[:TYPE]"),
        ("t.csv --policy fifo --switch-cost 0s", "--cluster"),
        ("none.csv --policy fifo --cluster 1x1 --switch-cost 0s", "none.csv: "),
        ("t.csv --policy fifo --cluster 1x1 --switch-cost 0s --table t.csv", "is no run"),
    ] {
        let said = door.exits(2, &format!("sim {arguments}"));
        assert!(said.err.contains(message), "{arguments}: {}", said.err);
        assert_eq!(
            said.err.matches("No such file").count(),
            usize::from(message == "none.csv: "),
            "{}",
            said.err
        );
    }
    door.write("empty.csv", "name,submit_s,job,steps\n");
    for command in [
        "sim empty.csv --policy fifo --cluster 1x1 --switch-cost 0s",
        "run empty.csv --policy fifo --device cpu:0",
    ] {
        let said = door.exits(4, command);
        assert!(said.err.contains("empty.csv has no jobs"), "{}", said.err);
    }
    assert!(!door.path("runs").exists(), "nothing was begun");
}

#[test]
fn what_is_to_be_measured_first_is_a_command_to_copy() {
    let door = crate::door();
    let lstm = "name,submit_s,job,steps\na,0,lstm@b8,100\nb,0,lstm@b8,100\n";
    door.write("lstm.csv", lstm);
    door.write("told.csv", &lstm.replace("steps", "steps,step_ns").replace("100", "100,7"));
    door.write("three.csv", THREE);
    let single = "the time of a step of lstm@b8@dp1 is not known; run `profile single lstm@b8@dp1 --out runs/alone` first";
    let calibrate = "run `profile calibrate lstm@b8@dp1 --device cpu:0 --out machine.toml` first, and add --machine machine.toml";
    for (arguments, message) in [
        ("sim lstm.csv --policy fifo --cluster 1x1 --switch-cost 0s", single),
        ("trace make lstm@b8 --jobs 2 --every 1s --length fixed:20s", single),
        ("sim told.csv --policy fifo --device cpu:0", calibrate),
        // None of its workloads can be measured.
        (
            "sim three.csv --policy fifo --cluster 1x1",
            "the costs of switches are not known; add --switch-cost, such as --switch-cost 5s",
        ),
    ] {
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "{arguments}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{arguments}: {}", said.err);
    }
}

#[test]
fn what_ends_a_simulation_is_told_with_the_files_that_it_comes_from() {
    let door = crate::door();
    let sim = "sim t.csv --policy fifo --cluster 1x1";
    let header = "name,submit_s,job,steps,step_ns\n";
    door.write("t.csv", &format!("{header}a,0,any,100000000000,20000000\nb,1,any,100000000000,20000000\n"));
    let never = "jobs have not ended after 100 simulated years; check their arrivals, steps and step times";
    let said = door.exits(2, &format!("{sim} --switch-cost 0s"));
    assert!(said.err.contains(&format!("error: policy fifo: t.csv: {never}\n")), "{}", said.err);

    let (table, machine) = (crate::fit::record("20261123-epyc/colocate/all-pairs-1"), "machine.toml");
    // A turn each 10 s of a hundred years would take hours. The trace has no time of a step, so that its reader cannot tell.
    door.write(
        "t.csv",
        "name,submit_s,job,steps\na,0,lstm@b20@dp1,9223372036854775808\nb,1,lstm@b20@dp1,9\n",
    );
    let turns = "sim t.csv --policy tiresias:10s --cluster 1x1 --switch-cost 0s";
    let said = door.exits(2, &format!("{turns} --table {}", table.display()));
    let never = "job 'a': 9223372036854775808 steps of ";
    assert!(said.err.contains(never), "{}", said.err);
    assert!(
        said.err.contains(" would take more than 100 years; check its steps and step time"),
        "{}",
        said.err
    );
    fs::copy(crate::fit::record("20261124-epyc/testbed/machine.toml"), door.path(machine)).unwrap();
    door.write("t.csv", &format!("{header}a,0,any,5,7\n"));
    for (tables, files) in [
        (String::new(), "t.csv with machine.toml".to_owned()),
        (
            format!("--table {}", table.display()),
            format!("t.csv with machine.toml and {}", table.join("summary.csv").display()),
        ),
    ] {
        let said = door.exits(2, &format!("{sim} --machine {machine} {tables}"));
        let message = "job 'a': the cost to start any was not measured; calibrate with it, or name a cost with --switch-cost";
        assert!(said.err.contains(&format!("error: {files}: {message}\n")), "{}", said.err);
    }

    door.exits(0, &format!("{sim} --switch-cost 1s --progress-every 7s --out run"));
    fs::copy(door.path("run/outcomes.csv"), door.path("outcomes.csv")).unwrap();
    let manifest = fs::read_to_string(door.path("run/manifest.toml")).unwrap();
    for (is, made, message) in [
        (
            "progress_every_s = 7.0",
            "progress_every_s = 1e-12",
            "the interval of progress reports is 0; write a time above 0",
        ),
        (
            "noise_percent = 0.0",
            "noise_percent = -3.0",
            "the noise is -0.03; write a standard deviation of 0 or more, such as 0.02",
        ),
        ("devices = 1", "devices = 0", "1 nodes of 0 devices are no part of a cluster"),
    ] {
        assert!(manifest.contains(is), "{manifest}");
        fs::write(door.path("run/manifest.toml"), manifest.replace(is, made)).unwrap();
        for command in ["replay run", "explain run a"] {
            let said = door.exits(2, command);
            assert!(said.err.contains(&format!("run/manifest.toml: {message}")), "{command}: {}", said.err);
        }
    }
}
