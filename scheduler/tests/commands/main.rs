//! Tests of the program `sched` itself, without libtorch.

mod asks;
mod believe;
mod catalog_programs;
mod draws;
mod duration;
mod endings;
mod exits;
mod fairness;
mod fast_forward;
mod fidelity;
mod fit;
mod from_one_device;
mod held;
mod help;
mod hindsight;
mod history;
mod interference;
mod kill;
mod lacking;
mod lucid;
mod migrations;
mod output;
mod plan;
mod policies;
mod predict;
mod program_checkpoints;
mod program_lengths;
mod received;
mod reconfigure;
mod robust;
mod run;
mod saves;
mod searches;
mod sim;
mod startups;
mod suggest;
mod suspend;
mod tables;
mod time_line;
mod trace;
mod within_rows;

/// The front door of `sched`.
fn door() -> front_door::Door {
    front_door::Door::new(env!("CARGO_BIN_EXE_sched"))
}
