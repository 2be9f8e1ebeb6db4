//! Tests of the program `profile` itself, with synthetic workers and without libtorch.

mod architecture;
mod bench;
mod calibrate;
mod colocate;
mod commands;
mod compare;
mod cuda_checkpoint;
mod disk;
mod doctor;
mod early;
mod exit_codes;
mod export;
mod faults;
mod foreign;
mod gpu;
mod leash;
mod leftovers;
mod limits;
mod memory;
mod mps;
mod operators;
mod output;
mod outside;
mod program_init;
mod quota;
mod ranks;
mod received;
mod resume;
mod rig;
mod single;
mod stress;
mod tables;
mod time_line;
mod together;
mod torch;
mod transfers;
mod verdict;
mod verify_plans;
mod version;
mod writers;

/// The front door of `profile`.
fn door() -> front_door::Door {
    front_door::Door::new(env!("CARGO_BIN_EXE_profile"))
}
