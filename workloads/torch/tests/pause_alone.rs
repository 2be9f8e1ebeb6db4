//! What a pause on the CPU gives back to others. A program of its own with one test, as the size is that of the process.

use procfs::process::Process;
use schema::catalog::Catalog;
use tch::Device;
use torch_worker::{
    data, models,
    pause::{Left, Paused},
    step::{Execution, Trainer},
};

fn resident_bytes() -> u64 {
    Process::myself().unwrap().statm().unwrap().resident * procfs::page_size()
}

#[test]
fn a_pause_says_what_the_process_shrank_by() {
    const PIECE_BYTES: usize = 1 << 10;
    const PIECES: usize = 1 << 16;
    let workload = Catalog::embedded().get("neumf").unwrap().clone();
    let model = models::build(&workload, Device::Cpu).unwrap();
    let samples = data::open(workload.model.samples(), None, 7, Device::Cpu).unwrap();
    let mut trainer = Trainer::new(model, samples, Execution::plain(Device::Cpu, 2)).unwrap();

    // Memory that is free and stays with the C library, because the last piece lies behind it.
    let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; PIECE_BYTES]).collect();
    let last = pieces.pop();
    drop(pieces);
    let before = resident_bytes();
    let (paused, Left { bytes_freed, .. }) = Paused::new(&mut trainer).unwrap();
    let most_of_it = (PIECES * PIECE_BYTES) as u64 / 4 * 3;
    assert!(most_of_it < bytes_freed && bytes_freed < before, "{bytes_freed} of {before} bytes");
    drop(last);
    paused.resume(&mut trainer).unwrap();
}
