//! The program with a libtorch that has CUDA, on a machine that has no GPU: it runs there as it does on one with a GPU, up
//! to the driver.

use std::process::Command;

use crate::{
    common::whole_libtorch_without_driver,
    support::{Worker, failure, launch, program, steps},
};
use schema::{
    device::Device,
    spec::LaunchSpec,
    wire::{Event, EventLine, FailureKind},
};

/// The program for the whole library; `None` if the library is missing.
fn whole_program() -> Option<Command> {
    let mut program = program();
    program.env("LD_LIBRARY_PATH", whole_libtorch_without_driver()?);
    Some(program)
}

fn run_to_end(program: Command, spec: &LaunchSpec) -> (Vec<EventLine>, Option<i32>) {
    let worker = Worker::start_as(program, spec);
    worker.grant.extend_to(u64::MAX);
    let (said, status) = worker.finish();
    (said, status.code())
}

#[test]
fn it_names_its_cuda_and_says_that_there_is_no_driver() {
    let (Some(mut version), Some(mut capabilities)) = (whole_program(), whole_program()) else { return };
    let version = version.arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    assert!(version.ends_with("(libtorch 2.11.0, CUDA 13.0)\n"), "{version}");

    let output = capabilities.arg("--capabilities").output().unwrap();
    assert!(output.status.success());
    let capabilities: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&capabilities["cuda"], &capabilities["cuda_devices"]), (&"13.0".into(), &0.into()));
    let error = capabilities["cuda_error"].as_str().unwrap();
    assert!(error.starts_with("Found no NVIDIA driver"), "{error}");
}

#[test]
fn it_trains_on_the_cpu_all_the_same() {
    let Some(program) = whole_program() else { return };
    let (said, code) = run_to_end(program, &launch("neumf", 32, "bf16", Some(5)));
    assert_eq!((steps(&said).len(), code), (5, Some(0)), "{said:#?}");
    let Event::Hello(hello) = &said[0].event else { panic!("hello is not first: {said:#?}") };
    assert_eq!(hello.cuda.as_deref(), Some("13.0"));
}

#[test]
fn a_job_for_a_gpu_is_refused_in_the_words_of_the_library() {
    let Some(program) = whole_program() else { return };
    let mut spec = launch("neumf", 32, "dp1", Some(5));
    spec.devices = vec![Device::Cuda(2)];
    let (said, code) = run_to_end(program, &spec);
    let (kind, error) = failure(&said);
    assert_eq!((kind, code), (FailureKind::Unsupported, Some(1)));
    assert!(error.starts_with("cuda:2: Found no NVIDIA driver"), "{error}");
}
