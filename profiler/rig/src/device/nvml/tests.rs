//! The whole NVML path through the scripted library, loaded as the driver's would be.

use std::time::Duration;

use front_door::{let_pass, wait_for};
use record::rows::{DeviceSample, Tier};
use schema::units::Nanos;

use super::{
    super::{DeviceError, LOST},
    DeviceReader, NvmlReader, gpm,
    library::library_at,
};

mod processes;

/// A reader of device 0 of a machine of its own. The folder goes, the library stays mapped.
fn reader(script: &str) -> NvmlReader {
    open(script).unwrap()
}

fn open(script: &str) -> Result<NvmlReader, DeviceError> {
    let dir = tempfile::tempdir().unwrap();
    let path = fake_driver::install(dir.path(), script).unwrap();
    NvmlReader::open(library_at(path.as_os_str()).unwrap(), 0)
}

fn device(metrics: &str) -> String {
    format!("[[device]]\nname = 'NVIDIA H100 PCIe'\nmemory_bytes = 1000\n{metrics}")
}

fn fast(reader: &mut NvmlReader, times: usize) -> Vec<DeviceSample> {
    (0..times).map(|_| reader.sample(Tier::Fast)).collect()
}

/// The fast rows that have the costly metrics as well.
fn with_all(reader: &mut NvmlReader, rows: usize) -> Vec<DeviceSample> {
    let every = super::COSTLY_EVERY as usize;
    fast(reader, rows * every).into_iter().step_by(every).collect()
}

/// A device row with GPM values.
fn after_a_window(reader: &mut NvmlReader) -> DeviceSample {
    let_pass(gpm::SHORTEST_WINDOW, "a shorter window has no values");
    reader.sample(Tier::Gpm)
}

fn capability<'a>(reader: &'a NvmlReader, metric: &str) -> &'a str {
    &reader.facts().capabilities[metric]
}

#[test]
fn a_full_device_answers_everything() {
    let mut reader = reader(fake_driver::H200);
    let facts = reader.facts().clone();
    assert_eq!(facts.name, "NVIDIA H200");
    assert_eq!(facts.memory_bytes, Some(150_754_820_096));
    assert_eq!(facts.peak_flops["bf16"], 989.5e12);
    assert_eq!(facts.capabilities["cuda"], "ok, compute capability 9.0");
    assert_eq!(facts.capabilities["memory_used_bytes"], "ok, without what the driver reserves");
    assert_eq!(facts.topology["pcie"], "generation 5, 16 lanes at most");
    let settings = ["mig", "compute_mode", "persistence", "ecc"].map(|name| facts.topology[name].as_str());
    assert_eq!(settings, ["disabled", "default", "on", "on"]);
    let refused: Vec<_> = facts.capabilities.iter().filter(|(_, found)| !found.starts_with("ok")).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let of = |metric: &str| facts.capabilities[metric].as_str();
    assert_eq!((of("pcie_rx_bytes"), of("energy_mj"), of("power_mw")), ("ok, 32 bits", "ok, 64 bits", "ok"));
    assert_eq!((of("sm_util_percent"), of("processes"), of("process_util")), ("ok, in %", "ok", "ok"));
    let row = reader.sample(Tier::Fast);
    assert_eq!((row.util_percent, row.power_mw, row.temperature_c), (Some(97.0), Some(450_000), Some(45)));
    assert_eq!((row.sm_clock_mhz, row.memory_clock_mhz), (Some(1980), Some(3201)));
    assert_eq!((row.memory_used_bytes, row.throttle_ns), (Some(20_000_000_000), Some(0)));
    assert!(row.pcie_rx_bytes > Some(0) && row.pcie_tx_bytes > Some(0) && row.err.is_none(), "{row:?}");
    let row = after_a_window(&mut reader);
    assert_eq!((row.sm_util_percent, row.sm_occupancy_percent), (Some(88.0), Some(41.0)));
    assert_eq!((row.tensor_util_percent, row.dram_util_percent), (Some(33.0), Some(52.0)));
    // Counters come from the counters, not from GPM's rates.
    assert_eq!((row.pcie_rx_bytes, row.nvlink_rx_bytes, row.util_percent), (None, None, None));
    let row = reader.sample(Tier::Slow);
    assert!(row.nvlink_tx_bytes.is_some_and(|bytes| bytes % 1024 == 0), "{row:?}");
    assert_eq!(
        (row.pcie_link_generation, row.pcie_link_width, row.pcie_replays),
        (Some(5), Some(16), Some(0))
    );
}

#[test]
fn counters_start_at_zero_and_wrap_at_32_bits() {
    let script = device(
        "[device.metrics]
        pcie_rx_bytes = { start = 4294967000, per_call = 100, bits = 32 }
        pcie_tx_bytes = { start = 7, bits = 32 }
        energy_mj = { start = 8589934592, per_call = 3 }",
    );
    let rows = fast(&mut reader(&script), 4);
    // The reading at opening was the zeroth.
    assert_eq!(rows.iter().map(|row| row.pcie_rx_bytes.unwrap()).collect::<Vec<_>>(), [100, 200, 300, 400]);
    assert!(rows.iter().all(|row| row.pcie_tx_bytes == Some(0)), "what stands still adds nothing");
}

#[test]
fn costly_metrics_are_read_in_every_fifth_row_alone() {
    let script = device(
        "[device.metrics]
        pcie_rx_bytes = { start = 0, per_call = 1, bits = 32 }
        energy_mj = { start = 8589934592, per_call = 3 }
        throttle_power_cap_ns = { start = 0 }",
    );
    let rows = fast(&mut reader(&script), 15);
    let with = |is_there: fn(&DeviceSample) -> bool| -> Vec<usize> {
        rows.iter().enumerate().filter(|(_, row)| is_there(row)).map(|(number, _)| number).collect()
    };
    assert_eq!(with(|row| row.energy_mj.is_some()), [0, 5, 10]);
    assert_eq!(with(|row| row.throttle_ns.is_some()), [0, 5, 10]);
    // The reading at opening was the zeroth.
    assert_eq!(rows.iter().filter_map(|row| row.energy_mj).collect::<Vec<_>>(), [3, 6, 9]);
    assert!(rows.iter().all(|row| row.pcie_rx_bytes.is_some()), "it would wrap");
}

#[test]
fn readings_that_are_not_counters_fall_as_they_rose() {
    let script = device(
        "[device.metrics]
        util_percent = { start = 90, per_call = -10 }
        memory_used_bytes = { start = 900, per_call = -100 }
        power_mw = { start = 700, per_call = -1 }
        sm_clock_mhz = { start = 1980, per_call = -15 }
        temperature_c = { start = 80, per_call = -2 }",
    );
    let rows = fast(&mut reader(&script), 2);
    let of = |row: &DeviceSample| {
        (
            row.util_percent.unwrap(),
            row.power_mw.unwrap(),
            row.sm_clock_mhz.unwrap(),
            row.temperature_c.unwrap(),
        )
    };
    assert_eq!(of(&rows[0]), (80.0, 699, 1965, 78));
    assert_eq!(of(&rows[1]), (70.0, 698, 1950, 76));
    assert!(rows[1].memory_used_bytes < rows[0].memory_used_bytes);
}

#[test]
fn a_refusal_is_remembered_and_not_asked_for_again() {
    let script = device(
        "[device.metrics]
        util_percent = { start = 50, error = 'not-supported', error_calls = 1 }
        energy_mj = { start = 50, error = 'no-permission', error_calls = 1 }
        power_average_mw = { start = 300 }
        temperature_c = { start = 40 }",
    );
    let mut reader = reader(&script);
    assert_eq!(
        capability(&reader, "util_percent"),
        "the requested operation is not available on the target device"
    );
    assert!(capability(&reader, "energy_mj").contains("does not have permission"));
    assert_eq!(capability(&reader, "temperature_c"), "ok");
    // The script would answer now. The metric is not asked for yet, and a refusal known from the start is no error of a row.
    for row in fast(&mut reader, 3) {
        assert_eq!((row.util_percent, row.energy_mj, row.err.as_deref()), (None, None, None));
        assert_eq!(row.power_mw, Some(300), "the average stands in for the instant");
    }
    assert_eq!(reader.period(Tier::Gpm), None);
    assert_eq!(reader.period(Tier::Fast), Some(Duration::from_millis(100)));
    assert_eq!(reader.lister().unwrap().list(), None);
}

#[test]
fn a_metric_that_was_not_permitted_is_asked_for_again() {
    let script = device(
        "[device.metrics]
        energy_mj = { start = 50, per_call = 1, error = 'no-permission', error_calls = 2 }
        processes = { error = 'no-permission', error_calls = 1 }
        mps_processes = { error = 'no-permission' }
        temperature_c = { start = 40 }",
    );
    let mut reader = reader(&script);
    let rows = with_all(&mut reader, 250);
    let first = rows.iter().position(|row| row.energy_mj.is_some());
    // It was asked for when the device was opened, at the 101st reading, and at the 202nd.
    assert_eq!(first, Some(201));
    assert_eq!(rows.last().unwrap().energy_mj, Some(48), "from then on at each");
    assert!(
        rows.iter().all(|row| row.err.is_none()),
        "the manifest says of the run that it was not permitted"
    );
    let mut lister = reader.lister().unwrap();
    let lists: Vec<_> = (0..102).map(|_| lister.list()).collect();
    assert!(lists[..100].iter().all(Option::is_none));
    assert!(
        lists[101].as_ref().is_some_and(|list| !list.memory_is_known),
        "who is on the other list nothing tells"
    );
}

#[test]
fn a_metric_that_is_refused_after_it_answered_says_so_in_each_row_and_comes_back() {
    let script = device(
        "[device.metrics]
        energy_mj = { start = 50, per_call = 1, error = 'no-permission', error_after_calls = 3, error_calls = 2 }
        util_percent = { start = 50, error = 'not-supported', error_after_calls = 11, error_calls = 10 }",
    );
    let rows = with_all(&mut reader(&script), 6);
    let of = |row: &DeviceSample| (row.energy_mj, row.util_percent, row.err.is_some());
    let there = |energy| (Some(energy), Some(50.0), false);
    let gone = (None, None, true);
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), [there(1), there(2), gone, gone, there(5), there(6)]);
    let told = rows[2].err.as_ref().unwrap();
    assert!(
        told.contains("energy_mj: ") && told.contains("permission") && told.contains("util_percent: "),
        "{told}"
    );
}

#[test]
fn a_passing_failure_is_an_error_of_its_row_alone() {
    let script = device(
        "[device.metrics]
        util_percent = { start = 50, error = 'timeout', error_after_calls = 2, error_calls = 1 }
        temperature_c = { start = 40 }",
    );
    let rows = fast(&mut reader(&script), 3);
    assert_eq!((rows[0].util_percent, rows[0].err.as_deref()), (Some(50.0), None));
    assert_eq!((rows[1].util_percent, rows[1].temperature_c), (None, Some(40)));
    assert_eq!(rows[1].err.as_deref(), Some("util_percent: the provided timeout was reached"));
    assert_eq!((rows[2].util_percent, rows[2].err.as_deref()), (Some(50.0), None));
}

#[test]
fn a_lost_device_goes_on_giving_rows_that_say_so() {
    let mut reader =
        reader(&fake_driver::H200.replace("reserved_bytes", "lost_after_calls = 80\nreserved_bytes"));
    assert!(!reader.is_lost());
    let rows = fast(&mut reader, 20);
    assert!(rows[0].err.is_none() && rows[0].energy_mj.is_some());
    let last = rows.last().unwrap();
    assert_eq!(last.err.as_deref().map(|err| err.starts_with(LOST)), Some(true), "{last:?}");
    assert_eq!((last.energy_mj, last.util_percent), (None, None));
    assert!(reader.is_lost());
    assert_eq!(reader.lister().unwrap().list(), None);
    for tier in [Tier::Gpm, Tier::Slow] {
        assert!(reader.sample(tier).err.unwrap().starts_with(LOST));
    }
}

#[test]
fn a_counter_is_taken_for_as_wide_as_its_type() {
    let script = device(
        "[device.metrics]
        pcie_tx_bytes = { start = 4294967290, per_call = 10, bits = 32 }
        pcie_rx_bytes = { start = 500, per_call = -100 }",
    );
    let mut reader = reader(&script);
    let rows = fast(&mut reader, 3);
    assert_eq!(rows.iter().map(|row| row.pcie_tx_bytes.unwrap()).collect::<Vec<_>>(), [10, 20, 30]);
    // What falls and is wide was reset, however small it is.
    assert_eq!(rows.iter().map(|row| row.pcie_rx_bytes.unwrap()).collect::<Vec<_>>(), [0, 0, 0]);
    let told =
        "pcie_rx_bytes: the counter fell from 500 to 400, as when the device is reset, and is added up anew";
    assert_eq!(rows[0].err.as_deref(), Some(told));
    assert_eq!(capability(&reader, "pcie_tx_bytes"), "ok, 32 bits");
    assert_eq!(capability(&reader, "pcie_rx_bytes"), "ok, 64 bits");
}

#[test]
fn the_link_is_read_as_it_is_now_and_replays_are_counted() {
    let script = device(
        "[device.metrics]
        pcie_link_generation = { start = 1, per_call = 1 }
        pcie_link_width = { start = 16 }
        pcie_replays = { start = 7, per_call = 2 }",
    );
    let mut reader = reader(&script);
    let rows = [reader.sample(Tier::Slow), reader.sample(Tier::Slow)];
    let of = |row: &DeviceSample| (row.pcie_link_generation, row.pcie_link_width, row.pcie_replays);
    assert_eq!(rows.each_ref().map(of), [(Some(2), Some(16), Some(2)), (Some(3), Some(16), Some(4))]);
    assert_eq!(of(&reader.sample(Tier::Fast)), (None, None, None));
}

#[test]
fn causes_of_throttling_are_added_up() {
    let script = device(
        "[device.metrics]
        throttle_power_cap_ns = { start = 5000, per_call = 30 }
        throttle_software_thermal_ns = { per_call = 4 }
        throttle_power_brake_ns = { start = 1 }",
    );
    let rows = with_all(&mut reader(&script), 2);
    assert_eq!((rows[0].throttle_ns, rows[1].throttle_ns), (Some(34), Some(68)));
}

#[test]
fn a_cause_of_throttling_that_fails_once_leaves_the_total_as_it_is() {
    let script = device(
        "[device.metrics]
        throttle_power_cap_ns = { start = 5000, per_call = 30 }
        throttle_software_thermal_ns = { start = 900, per_call = 4, error = 'timeout', error_after_calls = 2, error_calls = 1 }",
    );
    let rows = with_all(&mut reader(&script), 4);
    let totals: Vec<_> = rows.iter().map(|row| row.throttle_ns.unwrap()).collect();
    assert_eq!(totals, [34, 64, 102, 136], "what it missed in the second row comes with the third");
    assert_eq!(
        rows[1].err.as_deref(),
        Some("throttle_software_thermal_ns: the provided timeout was reached")
    );
}

#[test]
fn no_more_time_is_throttled_than_passed() {
    let script = device(
        "[device.metrics]
        throttle_power_cap_ns = { per_s = 1000000000 }
        throttle_software_thermal_ns = { per_s = 1000000000 }",
    );
    let mut reader = reader(&script);
    let [first] = with_all(&mut reader, 1).try_into().unwrap();
    let_pass(Duration::from_millis(20), "both causes run meanwhile");
    let last = reader.sample(Tier::Fast);
    let (passed, throttled) =
        ((last.end_mono_ns - first.mono_ns).0, last.throttle_ns.unwrap() - first.throttle_ns.unwrap());
    assert!((15_000_000..=passed).contains(&throttled), "{throttled} of {passed}");
}

#[test]
fn older_drivers_number_the_causes_differently_and_mean_the_same() {
    let metrics = "[device.metrics]\nthrottle_hardware_thermal_ns = { per_call = 9 }";
    for driver in ["535.104.05", "580.65.06", "580.82.07", "590.10"] {
        let script = format!("driver = '{driver}'\n{}", device(metrics));
        assert_eq!(reader(&script).sample(Tier::Fast).throttle_ns, Some(9), "{driver}");
    }
}

#[test]
fn gpm_values_count_only_with_a_unit_that_is_understood() {
    let script = device(
        "[device.metrics]
        gpm_sm_util = { start = 88, unit = '%' }
        gpm_sm_occupancy = { start = 41, unit = 'permille' }
        gpm_dram_util = { is_nan = true, unit = '%' }
        gpm_pcie_tx = { start = 1024, unit = 'KiB/s' }
        gpm_pcie_rx = { start = 5, unit = 'furlong' }
        gpm_nvlink_tx = { start = 1, unit = 'MiB/sec' }
        gpm_nvlink_rx = { start = 1 }",
    );
    let mut reader = reader(&script);
    assert_eq!(capability(&reader, "sm_occupancy_percent"), "its unit is 'permille', not percent");
    assert_eq!(capability(&reader, "gpm_pcie_rx"), "its unit 'furlong' is not known");
    assert_eq!(capability(&reader, "sm_util_percent"), "ok, in %");
    assert_eq!(capability(&reader, "gpm_pcie_tx"), "ok, in KiB/s");
    let by_header = "ok, in MiB/s by the header, the driver names no unit";
    assert_eq!(capability(&reader, "gpm_nvlink_rx"), by_header);
    let (first, too_soon) = wait_for("two rows come within a window", || {
        let rows = (after_a_window(&mut reader), reader.sample(Tier::Gpm));
        let apart = rows.1.end_mono_ns - rows.0.mono_ns;
        if apart < gpm::SHORTEST_WINDOW.into() { Ok(rows) } else { Err(apart) }
    });
    assert_eq!(too_soon.sm_util_percent, None, "too soon after the sample before: a row, but no values");
    let row = after_a_window(&mut reader);
    assert_eq!((row.sm_util_percent, row.sm_occupancy_percent), (Some(88.0), None));
    assert_eq!((row.dram_util_percent, capability(&reader, "dram_util_percent")), (None, "ok"));
    // 1 MiB/s over the window, which lies between the readings of these rows.
    let bytes_in = |time: Nanos| time.as_secs_f64() * f64::from(1 << 20);
    let bounds =
        bytes_in(row.mono_ns - first.end_mono_ns) - 1.0..=bytes_in(row.end_mono_ns - first.mono_ns) + 1.0;
    let of: [fn(&DeviceSample) -> Option<u64>; 3] =
        [|row| row.pcie_tx_bytes, |row| row.nvlink_tx_bytes, |row| row.nvlink_rx_bytes];
    for bytes in of {
        let grown = bytes(&row).unwrap() - bytes(&first).unwrap();
        assert!(bounds.contains(&(grown as f64)), "{grown}: {bounds:?}: {first:?} {row:?}");
    }
    assert_eq!(row.pcie_rx_bytes, None);
}

#[test]
fn a_device_that_is_split_up_is_refused() {
    let error = open(&device("[device.metrics]\nmig = { start = 1 }")).err().unwrap().to_string();
    assert!(
        error.starts_with("cuda:0 is split up by MIG") && error.contains("take another device"),
        "{error}"
    );
    let whole = reader(&device("[device.metrics]\ncompute_mode = { start = 3 }"));
    let topology = &whole.facts().topology;
    assert_eq!(
        (topology["mig"].as_str(), topology["compute_mode"].as_str()),
        ("absent", "exclusive-process")
    );
    assert!(!topology.contains_key("ecc"), "what the driver does not tell is left out: {topology:?}");
}

#[test]
fn calls_are_timed_and_of_those_that_share_one_the_driver_tells() {
    let mut reader = reader(fake_driver::H200);
    reader.take_costs();
    fast(&mut reader, 7);
    let costs = reader.take_costs();
    let of = |metric| costs.iter().find(|cost| cost.metric == metric).unwrap();
    for (metric, timed) in
        [("field_values", 7), ("util_percent", 7), ("power_mw", 0), ("pcie_rx_bytes", 7), ("gpm", 0)]
    {
        assert_eq!(of(metric).took.count(), timed, "{metric}");
    }
    assert_eq!((of("power_mw").calls, of("power_mw").failures, of("gpm").calls), (7, 0, 0));
    for _ in 0..7 {
        fast(&mut reader, 1);
        let costs = reader.take_costs();
        let ns = |metric| costs.iter().find(|cost| cost.metric == metric)?.took.tail().map(|tail| tail.max);
        assert!(ns("field_values") > Some(0));
        assert_eq!(ns("pcie_rx_bytes"), Some(90_000), "as the driver says");
    }
}

#[test]
fn a_device_beyond_the_last_is_named_with_those_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = fake_driver::install(dir.path(), &device("")).unwrap();
    let error = NvmlReader::open(library_at(path.as_os_str()).unwrap(), 3).err().unwrap();
    assert_eq!(error.to_string(), "there is no cuda:3: the driver lists cuda:0");
}
