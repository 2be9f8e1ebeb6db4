//! The name and the batch that the user gives a program.

use record::rows::Status;

use super::{exits, row, with_program};

const RUN: &str = "single --device cpu:0 --repeats 1";

#[test]
fn a_name_stands_for_the_program_in_rows_tables_and_comparisons() {
    let door = crate::door();
    for (out, script) in [("r", "sleep 0.02"), ("s", "sleep 0.03")] {
        let said = exits(0, &door, &format!("{RUN} --name mine --out {out}"), &["--", "sh", "-c", script]);
        assert!(said.out.contains(" mine ") && !said.out.contains("sh -c"), "{}", said.out);
        let row = &door.measurements(out)[0];
        assert_eq!((&*row.job, &*row.workload, &*row.launch), ("mine", "mine", "0001-mine"));
        assert_eq!(door.run(out).manifest().expect("it reads").cells[0].name, "mine@on=cpu:0");
    }
    let said = door.exits(0, "compare r s");
    assert!(said.out.contains("mine"), "{}", said.out);
}

#[test]
fn programs_are_named_in_the_order_of_their_commands() {
    let door = crate::door();
    let named = ["--cmd", "sleep 0.3", "--name", "a", "--cmd", "sleep 0.3", "--name", "b"];
    exits(0, &door, &format!("{RUN} --out r"), &named);
    let mut jobs: Vec<String> = door.measurements("r").into_iter().map(|row| row.job).collect();
    jobs.sort();
    assert_eq!(jobs, ["a", "b"], "a program may be compared with itself");
    exits(0, &door, "colocate --device cpu:0 --repeats 1 --out g", &named);
    let mut jobs: Vec<String> = door.interference("g").into_iter().map(|row| row.job).collect();
    jobs.sort();
    assert_eq!(jobs, ["a", "b"]);
}

#[test]
fn the_batch_of_a_program_gives_its_samples_per_second() {
    let Some(door) = with_program("train(40)") else { return };
    exits(0, &door, &format!("{RUN} --batch 32 --out r"), &["--", "python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.global_batch, row.micro_batch), (Status::Ok, Some(32), None));
    let (rate, mean) = (row.samples_per_s.expect("it stepped"), row.step_ns_mean.expect("it stepped"));
    assert!((rate * mean as f64 / 32e9 - 1.0).abs() < 1e-3, "{row:?}");
    let summary = &door.summaries("r")[0];
    assert_eq!((summary.global_batch, summary.samples_per_s), (Some(32), row.samples_per_s));
    let before = std::fs::read(door.run("r").measurements_path()).expect("it was written");
    door.exits(0, "derive r");
    assert_eq!(std::fs::read(door.run("r").measurements_path()).expect("it was written"), before);
}

#[test]
fn names_and_batches_that_cannot_be_are_refused_before_anything_starts() {
    let door = crate::door();
    for (arguments, words) in [
        ("--name lstm -- true", "--name lstm is the name of a workload"),
        ("--name 1a -- true", "--name '1a': expected up to 40 letters"),
        ("--name a@b4 -- true", "--name 'a@b4': expected up to 40 letters"),
        ("--name cmd-x -- true", "names that begin with cmd- are made from commands"),
        ("--name a --name b -- true", "the numbers of names and of programs differ, 2 and 1"),
        ("--name a --cmd true --cmd false", "the numbers of names and of programs differ, 1 and 2"),
        ("--name a --name a --cmd true --cmd false", "--name a is the name of two programs"),
        ("--name a --name a --cmd true --cmd true", "named twice"),
        ("synthetic-sleep --name a", "--name applies to programs only"),
        ("--batch 8,16 -- true", "name one number"),
        ("--batch 8 --steps-regex (?<samples>.) -- true", "remove one of them"),
    ] {
        let said = exits(2, &door, &format!("{RUN} --out r {arguments}"), &[]);
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
        assert!(!door.path("r").exists(), "{arguments}");
    }
}
