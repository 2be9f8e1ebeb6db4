//! Who is said to use a device, and what is said of those who are not on its lists.

use std::time::Duration;

use front_door::let_pass;

use super::{
    super::super::{ProcessLister, ProcessUse, Processes},
    DeviceReader, capability, device, reader,
};

fn lister(script: &str) -> Box<dyn ProcessLister> {
    reader(script).lister().unwrap()
}

fn listed(processes: &Processes) -> Vec<(u32, Option<u64>, Option<f64>)> {
    processes
        .listed
        .iter()
        .map(|&ProcessUse { pid, bytes, util_percent }| (pid, bytes, util_percent))
        .collect()
}

#[test]
fn processes_of_both_lists_are_listed_once() {
    let script = "[[device]]
        name = 'NVIDIA H200'
        memory_bytes = 1000
        processes = [{ pid = 11, bytes = 500 }, { pid = 12 }]
        mps_processes = [{ pid = 11, bytes = 500 }, { pid = 13, bytes = 7 }]
        [device.metrics]
        processes = {}
        mps_processes = { error = 'insufficient-size', error_after_calls = 2, error_calls = 8 }";
    let mut lister = lister(script);
    let processes = lister.list().unwrap();
    assert_eq!(listed(&processes), [(11, Some(500), None), (12, None, None)]);
    assert!(!processes.memory_is_known, "three tries were too few: a client may hold some");
    // Of the next three tries one fails.
    let processes = lister.list().unwrap();
    assert_eq!(listed(&processes), [(11, Some(500), None), (12, None, None), (13, Some(7), None)]);
    assert!(processes.memory_is_known && !processes.util_is_known);
}

#[test]
fn an_idle_device_is_no_processes_and_not_unknown() {
    let mut reader = reader(&device("[device.metrics]\nprocesses = {}\nprocess_util = {}"));
    let nobody = Processes { listed: vec![], memory_is_known: true, util_is_known: true };
    assert_eq!(reader.lister().unwrap().list(), Some(nobody));
    assert!(reader.lister().is_none(), "it is given out once");
    assert_eq!(capability(&reader, "process_util"), "ok", "no samples are an answer too");
}

#[test]
fn utilisation_is_the_mean_over_the_samples_since_the_last_asking() {
    // The call at opening is number 0, which notes a sample that nobody may count again.
    let script = "[[device]]
        name = 'NVIDIA H200'
        memory_bytes = 1000
        processes = [{ pid = 11, bytes = 500 }, { pid = 12, bytes = 30 }]
        utilization = [
            { pid = 11, sm_percent = 99, calls = 1 },
            { pid = 11, sm_percent = 40, first_call = 1, calls = 1 },
            { pid = 11, sm_percent = 60, first_call = 1, calls = 1 },
            { pid = 77, sm_percent = 8, first_call = 1, calls = 1 },
            { pid = 12, sm_percent = 400, first_call = 1, calls = 1 },
            { pid = 12, sm_percent = 70, first_call = 1, calls = 1, ahead_s = 9000 },
            { pid = 12, sm_percent = 20, first_call = 2, calls = 1 },
        ]
        [device.metrics]
        processes = {}
        process_util = { error = 'timeout', error_after_calls = 3, error_calls = 1 }";
    let mut lister = lister(script);
    let in_between = || let_pass(Duration::from_micros(10), "the driver stamps samples to a microsecond");
    in_between();
    let first = lister.list().unwrap();
    // Who is not on the list any more holds nothing, and its kernels did run. Places that nobody has
    // written are no samples, and 77 may be another number of 12.
    let expected = [(11, Some(500), Some(50.0)), (12, Some(30), None), (77, Some(0), Some(8.0))];
    assert_eq!(listed(&first), expected);
    in_between();
    let second = lister.list().unwrap();
    assert_eq!(listed(&second), [(11, Some(500), Some(0.0)), (12, Some(30), Some(20.0))]);
    let third = lister.list().unwrap();
    assert_eq!(listed(&third), [(11, Some(500), None), (12, Some(30), None)], "it failed: unknown, not zero");
    assert!(third.memory_is_known && !third.util_is_known);
    let troubles = lister.take_trouble().unwrap();
    assert!(troubles.contains("process_util: the provided timeout"), "{troubles}");
}

#[test]
fn a_process_that_samples_call_by_a_number_of_the_host_is_not_said_to_rest() {
    // What a container sees of some drivers: its own number with no memory, and the host's.
    let script = "[[device]]
        name = 'NVIDIA H200'
        memory_bytes = 1000
        processes = [{ pid = 324, bytes = 0 }]
        utilization = [{ pid = 645400, sm_percent = 13 }]
        [device.metrics]
        processes = {}
        process_util = {}";
    let processes = lister(script).list().unwrap();
    assert_eq!(listed(&processes), [(324, None, None), (645_400, Some(0), Some(13.0))]);
}

#[test]
fn memory_in_use_that_nobody_listed_holds_is_somebodys() {
    let script = |in_use: u64| {
        format!(
            "[[device]]
            name = 'NVIDIA H200'
            memory_bytes = 9000000000
            reserved_bytes = 600000000
            processes = [{{ pid = 11, bytes = 4000000000 }}]
            [device.metrics]
            memory_used_bytes = {{ start = {in_use} }}
            processes = {{}}
            process_util = {{}}"
        )
    };
    for (in_use, everyone_is_listed) in [(4_100_000_000, true), (5_000_000_000, false)] {
        let processes = lister(&script(in_use)).list().unwrap();
        assert_eq!(listed(&processes), [(11, Some(4_000_000_000), Some(0.0))]);
        let known = (processes.memory_is_known, processes.util_is_known);
        assert_eq!(known, (everyone_is_listed, everyone_is_listed), "{in_use}");
    }
}

#[test]
fn a_client_of_mps_without_samples_is_not_said_to_rest() {
    let script = "[[device]]
        name = 'NVIDIA H200'
        memory_bytes = 1000
        processes = [{ pid = 10, bytes = 1 }, { pid = 11, bytes = 5 }]
        mps_processes = [{ pid = 11, bytes = 5 }, { pid = 12, bytes = 6 }]
        utilization = [{ pid = 12, sm_percent = 30 }]
        [device.metrics]
        processes = {}
        mps_processes = {}
        process_util = {}";
    let processes = lister(script).list().unwrap();
    // Its kernels may have been put down to the server.
    let expected = [(10, Some(1), Some(0.0)), (11, Some(5), None), (12, Some(6), Some(30.0))];
    assert_eq!(listed(&processes), expected);
}
