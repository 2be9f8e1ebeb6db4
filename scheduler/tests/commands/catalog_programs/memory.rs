//! The memory of a program under any plan, by what the step hook sees of its parameters and of its optimizers.

use formats::{
    fitted::ModelFile,
    rows::{BestPlan, MemorySource},
};
use front_door::Door;
use record::{
    rows::{self, Summary},
    run_dir::RunDir,
};

use super::{DEFINITION, TRACE, with_definition, with_rows};

const PARAMETERS: u64 = 1_000_000;

/// A fit of rows with these parameters and bytes of optimizers, from the plan of a row, of a program with ZeRO.
fn fitted(seen: impl Fn(&str) -> (Option<u64>, Option<u64>)) -> Option<(Door, ModelFile)> {
    let door = with_definition(TRACE)?;
    let axes = "model = { parameters = 7 }\naxes = [\"dp\", \"ga\", \"zero\"]\nmost = { zero = 1 }\nwords = { zero = \"--zero\" }";
    door.write("mine.toml", &DEFINITION.replace("axes = [\"dp\", \"ga\"]", axes));
    with_rows(
        &door,
        &[(8, "dp2-zero1", 62), (8, "dp1", 100), (8, "dp2", 60), (8, "ga2", 115), (16, "dp1", 190)],
    );
    let path = RunDir::open(&door.path("t")).expect("it is a run").summary_path();
    let mut all: Vec<Summary> = rows::read(&path).expect("they read");
    for row in all.iter_mut().filter(|row| row.workload == "mine") {
        let plan = row.plan.expect("it has one").to_string();
        (row.parameters, row.optimizer_bytes) = seen(&plan);
    }
    rows::write(&path, &all).expect("they are written");
    // The other workload of the table has a single row.
    door.exits(1, "fit t --catalog mine.toml --out m.json");
    let model = ModelFile::read(&door.path("m.json")).expect("it reads");
    Some((door, model))
}

fn plans(door: &Door, options: &str, code: i32) -> Vec<BestPlan> {
    let plan =
        format!("plan mine@b8 --devices 2 --top 4 --model m.json --catalog mine.toml --json {options}");
    rows::from_json(&door.exits(code, &plan).out).expect("it is rows of plans")
}

#[test]
fn states_are_those_of_ranks_that_hold_all_of_them() {
    // Both means of Adam, and the number of steps of four tensors. Under ZeRO a rank has half of them, and knows half of the parameters.
    let seen = |plan: &str| match plan {
        "dp2-zero1" => (Some(PARAMETERS / 2), Some(4 * PARAMETERS)),
        _ => (Some(PARAMETERS), Some(8 * PARAMETERS + 16)),
    };
    let Some((door, model)) = fitted(seen) else { return };
    let facts = model.workloads[0].facts;
    assert_eq!((facts.parameters, facts.state_per_parameter), (Some(PARAMETERS), Some(2)));
    let needed = |options: &str| {
        let rows = plans(&door, options, 0);
        let mut needed: Vec<_> = rows
            .iter()
            .map(|row| (row.plan.expect("it fits").to_string(), row.memory_bytes, row.memory_source))
            .collect();
        needed.sort_by(|one, other| one.0.cmp(&other.0));
        needed
    };
    let states = |plan: &str, numbers: u64| {
        (plan.to_owned(), Some(4 * numbers * PARAMETERS), Some(MemorySource::States))
    };
    let all = needed("");
    for expected in [states("dp2", 3), states("dp2-zero1", 2)] {
        assert!(all.contains(&expected), "{expected:?}: {all:?}");
    }
    let (all, fit) = (all.len(), needed("--memory 9MiB"));
    assert!(fit.len() < all && fit.iter().all(|(plan, ..)| plan.contains("zero1")), "{fit:?}");
}

#[test]
fn what_is_not_known_of_states_is_said() {
    let Some((door, model)) = fitted(|_| (Some(PARAMETERS), None)) else { return };
    assert_eq!(model.workloads[0].facts.state_per_parameter, None);
    assert!(
        plans(&door, "--memory 9MiB", 0).iter().all(|row| row.plan.is_some() && row.memory_bytes.is_none())
    );
    let plan = "plan mine@b8 --devices 2 --model m.json --catalog mine.toml --memory 9MiB";
    let said = door.exits(0, plan).err;
    let words =
        "plan: the memory is not known in 1 of 1 rows, whose plans are taken to fit; give `parameters` and";
    assert!(said.contains(words), "{said}");
    door.write("mine.toml", &DEFINITION.replace("batches", "model = { state_per_parameter = 2 }\nbatches"));
    let least = plans(&door, "", 0).iter().map(|row| row.memory_bytes).min().flatten();
    assert_eq!(least, Some(12 * PARAMETERS));
}
