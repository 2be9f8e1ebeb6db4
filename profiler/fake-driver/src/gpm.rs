//! The exported functions of GPU performance monitoring (GPM), which compares two samples.
#![expect(non_upper_case_globals, reason = "the names are NVIDIA's")]

use std::{ffi::CString, ptr, time::Instant};

use nvml_wrapper_sys::bindings::*;

use crate::{
    exports::{INVALID, NOT_SUPPORTED, SUCCESS, index_of, on_machine},
    link::{Link, Way},
};

/// The content of a `nvmlGpmSample_t`: its device and its time.
struct GpmSample {
    device: usize,
    taken: Option<Instant>,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleAlloc(out: *mut nvmlGpmSample_t) -> nvmlReturn_t {
    let sample = Box::new(GpmSample { device: 0, taken: None });
    // SAFETY: the caller passes a valid place for the answer.
    unsafe { out.write(Box::into_raw(sample).cast()) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleFree(sample: nvmlGpmSample_t) -> nvmlReturn_t {
    // SAFETY: the caller returns what `nvmlGpmSampleAlloc` gave, once.
    drop(unsafe { Box::from_raw(sample.cast::<GpmSample>()) });
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleGet(device: nvmlDevice_t, sample: nvmlGpmSample_t) -> nvmlReturn_t {
    on_machine(|machine| {
        // A chip without GPM has no GPM metric, so that any of them can be requested here.
        machine.answer(index_of(device), "gpm_sm_util")?;
        // SAFETY: the sample comes from `nvmlGpmSampleAlloc` and is not freed yet.
        unsafe {
            sample
                .cast::<GpmSample>()
                .write(GpmSample { device: index_of(device), taken: Some(Instant::now()) })
        };
        Ok(())
    })
}

fn metric_of_gpm(id: u32) -> Option<&'static str> {
    match id {
        nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL => Some("gpm_sm_util"),
        nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_OCCUPANCY => Some("gpm_sm_occupancy"),
        nvmlGpmMetricId_t_NVML_GPM_METRIC_ANY_TENSOR_UTIL => Some("gpm_tensor_util"),
        nvmlGpmMetricId_t_NVML_GPM_METRIC_DRAM_BW_UTIL => Some("gpm_dram_util"),
        nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_TX_PER_SEC => Some("gpm_pcie_tx"),
        nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_RX_PER_SEC => Some("gpm_pcie_rx"),
        nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC => Some("gpm_nvlink_tx"),
        nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC => Some("gpm_nvlink_rx"),
        _ => None,
    }
}

/// The contribution of copies to a rate, in the unit of the real library.
fn copied_mib_per_s(link: &Link, id: u32, first: &GpmSample, second: &GpmSample) -> f64 {
    let way = match id {
        nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_RX_PER_SEC => Way::In,
        nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_TX_PER_SEC => Way::Out,
        _ => return 0.0,
    };
    let Some((begin, end)) = first.taken.zip(second.taken) else { return 0.0 };
    let bytes = link.carried(way, end) - link.carried(way, begin);
    bytes / (end - begin).as_secs_f64() / f64::from(1 << 20)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmMetricsGet(request: *mut nvmlGpmMetricsGet_t) -> nvmlReturn_t {
    on_machine(|machine| {
        // SAFETY: the request and both of its samples are the caller's and valid.
        let request = unsafe { &mut *request };
        // SAFETY: see above.
        let [first, second] = [request.sample1, request.sample2].map(|s| unsafe { &*s.cast::<GpmSample>() });
        let count = request.numMetrics as usize;
        if first.device != second.device || first.taken.is_none() || first.taken >= second.taken {
            return Err(INVALID);
        }
        for metric in &mut request.metrics[..count] {
            let name = metric_of_gpm(metric.metricId);
            let answer = name.ok_or(NOT_SUPPORTED).and_then(|name| machine.answer(first.device, name));
            metric.nvmlReturn = answer.as_ref().err().copied().unwrap_or(SUCCESS);
            if let Ok((number, reading)) = answer {
                let link = &machine.devices[first.device].link;
                let value = number as f64 + copied_mib_per_s(link, metric.metricId, first, second);
                metric.value = if reading.is_nan { f64::NAN } else { value };
                // The real library's units are constants; those of a script live as long as the program.
                metric.metricInfo.unit = reading.unit.map_or(ptr::null_mut(), |unit| {
                    CString::new(unit).map_or(ptr::null_mut(), CString::into_raw)
                });
            }
        }
        Ok(())
    })
}
