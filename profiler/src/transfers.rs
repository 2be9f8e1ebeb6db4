//! Measures the speed of copies of page-locked memory over the link, and whether the device's own accounts of the link agree
//! with the number of bytes copied.
//!
//! There are two accounts. The byte counters (NVML fields 197 and 198, "PCIe transmit bytes" and "PCIe receive bytes", which
//! "can be wrapped") are read as the sampler reads them, often enough that no wrap of 32 bits is missed. The performance
//! monitors (GPM) give rates, "PCIe traffic from this GPU" and "PCIe traffic to this GPU", which are integrated over adjacent
//! windows. Both are from the device's point of view: a copy from host to device is *received*, and one to the host is
//! *transmitted*.
//!
//! A copy that is counted correctly has a ratio of 1 or a little more. The link carries packets, and their headers are traffic
//! too. From generation 3 to 5, a packet has 20 bytes of header if the device requested the data, which is how it receives, and
//! 24 bytes if the device writes it. With 256 bytes of data in a packet, the usual setting, an account that includes headers
//! has a ratio of 1.08 and 1.09; with 128 bytes, of 1.16 and 1.19. NVML does not document whether its counters include headers;
//! DCGM documents that its PCIe metrics do. Other traffic on the link is in the ratio too, so the device should otherwise be
//! idle.

use std::time::Duration;

use record::rows::{DeviceSample, Direction, Tier, TransferRow};
use rig::{
    Exit,
    device::{
        self, DeviceError, DeviceReader, NvmlReader,
        cuda::{CudaError, Link},
    },
};
use schema::{device::Device, units::Nanos};
use statistics::launches::between_launches;

use crate::progress::Progress;

/// The page-locked buffer that every copy uses: far larger than any cache, and small enough to be page-locked on any machine.
const BUFFER_BYTES: u64 = 256 << 20;

/// The pause between a reading and a copy, at either end of the copy. Counters are updated only at intervals, and a window of
/// GPM is at least a tenth of a second. An idle link cannot wrap a counter.
const SETTLE: Duration = Duration::from_millis(150);

/// The largest distance of a ratio from 1 at which the counters agree with the copies.
pub const TOLERANCE: f64 = 0.05;

/// The largest ratio that headers of packets can explain, with a margin.
const WITH_HEADERS: f64 = 1.2;

/// Copies about `bytes` bytes `copies` times in each direction, and compares the device's accounts with it. The directions
/// alternate, so that a drift affects both equally.
///
/// # Errors
/// There is no driver or no such device, or the memory for the buffers is not available.
pub fn measure(index: u32, bytes: u64, copies: u32) -> anyhow::Result<Vec<TransferRow>> {
    let lacks = |error: DeviceError| Exit::MachineLacks.because(error.to_string());
    let device = Device::Cuda(index);
    let cuda_lacks = |error: CudaError| Exit::MachineLacks.because(format!("{device}: {error}"));
    let library = device::library().map_err(lacks)?;
    let open = || NvmlReader::open(library, index).map_err(lacks);
    let mut accounts =
        [Account::new(open()?, Tier::Fast), Account::new(open()?.without_counters(), Tier::Gpm)];
    let times = bytes.div_ceil(BUFFER_BYTES).max(1);
    let buffer = bytes / times;
    let uuid = device::uuid(index).map_err(lacks)?;
    let mut link = Link::open(&uuid, buffer as usize).map_err(cuda_lacks)?;
    let mut measured = [const { Vec::new() }; Direction::ALL.len()];
    let progress = Progress::new(u64::from(copies) + 1);
    for round in 0..=copies {
        progress.begin("copies in both directions");
        for (&direction, copies) in Direction::ALL.iter().zip(&mut measured) {
            let copy = watched_copy(&mut link, &mut accounts, direction, times, buffer * times)
                .map_err(cuda_lacks)?;
            if let Some(account) = accounts.iter().find(|account| account.reader.is_lost()) {
                let lost = format!("{}: the device stopped answering", account.reader.device());
                return Err(Exit::MachineLacks.because(lost));
            }
            // The first copy in a direction wakes the link from its lowest speed, and does not count.
            if round > 0 {
                copies.push(copy);
            }
        }
        let what = if round == 0 { "the link is awake".into() } else { format!("copy {round} of {copies}") };
        progress.end(&what);
    }
    progress.finish();
    let rows = Direction::ALL.iter().zip(&measured);
    Ok(rows.map(|(&direction, copies)| row(&device, direction, buffer * times, copies)).collect())
}

/// The speed of one copy, and what each account has for it.
struct Copied {
    bytes_per_s: f64,
    /// Bytes counted over bytes copied, by the counters and by GPM.
    ratios: [Option<f64>; 2],
}

fn watched_copy(
    link: &mut Link,
    accounts: &mut [Account; 2],
    direction: Direction,
    times: u64,
    bytes: u64,
) -> Result<Copied, CudaError> {
    std::thread::sleep(SETTLE);
    let before = accounts.each_mut().map(|account| account.total(direction));
    let copying = link.copy(direction, times)?;
    while !copying.is_done()? {
        let due = accounts.iter().filter_map(|account| account.due).min();
        let wait = due.map_or(SETTLE, |due| due.saturating_sub(Nanos::monotonic_now()).as_duration());
        std::thread::sleep(wait.min(SETTLE));
        accounts.iter_mut().for_each(Account::keep_up);
    }
    let seconds = copying.seconds()?;
    std::thread::sleep(SETTLE);
    let mut ratios = [None; 2];
    for ((ratio, account), before) in ratios.iter_mut().zip(accounts).zip(before) {
        *ratio = account
            .total(direction)
            .zip(before)
            // A counter that fell since then has lost the copy.
            .and_then(|(after, before)| Some(after.checked_sub(before)? as f64 / bytes as f64));
    }
    Ok(Copied { bytes_per_s: bytes as f64 / seconds, ratios })
}

/// One of the device's accounts of its link, read at the rate that its reader requires.
struct Account {
    reader: NvmlReader,
    tier: Tier,
    /// The time of the next reading; `None` if the device does not have this account.
    due: Option<Nanos>,
}

impl Account {
    fn new(reader: NvmlReader, tier: Tier) -> Account {
        let due = reader.period(tier).map(|_| Nanos::monotonic_now());
        Account { reader, tier, due }
    }

    /// Takes a reading if it is due. The reader itself accumulates the counters.
    fn keep_up(&mut self) {
        let now = Nanos::monotonic_now();
        if self.due.is_some_and(|due| due <= now) {
            self.read();
        }
    }

    fn read(&mut self) -> DeviceSample {
        let now = Nanos::monotonic_now();
        self.due = self.reader.period(self.tier).map(|period| now + period.into());
        self.reader.sample(self.tier)
    }

    /// The bytes in this direction since the reader was opened.
    fn total(&mut self, direction: Direction) -> Option<u64> {
        self.due?;
        let sample = self.read();
        match direction {
            Direction::HostToDevice => sample.pcie_rx_bytes,
            Direction::DeviceToHost => sample.pcie_tx_bytes,
        }
    }
}

fn row(device: &Device, direction: Direction, bytes: u64, copies: &[Copied]) -> TransferRow {
    let speed = Estimate::of(copies.iter().map(|copy| Some(copy.bytes_per_s)));
    let [counter, gpm] = [0, 1].map(|i| Estimate::of(copies.iter().map(|copy| copy.ratios[i])));
    TransferRow {
        device: device.to_string(),
        direction,
        bytes,
        copies: copies.len() as u32,
        bytes_per_s: speed.mean.expect("one copy at least was made, and timed"),
        bytes_per_s_ci_lo: speed.lo,
        bytes_per_s_ci_hi: speed.hi,
        counter_ratio: counter.mean,
        counter_ratio_ci_lo: counter.lo,
        counter_ratio_ci_hi: counter.hi,
        gpm_ratio: gpm.mean,
        gpm_ratio_ci_lo: gpm.lo,
        gpm_ratio_ci_hi: gpm.hi,
    }
}

/// A mean over copies, with its interval if there is one.
#[derive(Debug, PartialEq)]
struct Estimate {
    mean: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
}

impl Estimate {
    /// The estimate over the copies that have a value. A single copy has a mean and no interval. So has an account that missed
    /// a whole copy: its ratio of 0 has no logarithm, but must be reported.
    fn of(values: impl Iterator<Item = Option<f64>>) -> Estimate {
        let values: Vec<f64> = values.flatten().collect();
        let plain = || (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        match between_launches(&values) {
            Some(interval) => {
                Estimate { mean: Some(interval.estimate), lo: Some(interval.lo), hi: Some(interval.hi) }
            }
            None => Estimate { mean: plain(), lo: None, hi: None },
        }
    }
}

/// Whether an account agrees with the copies, and the likely cause if it does not. If the interval contains both cases, the
/// verdict is that it cannot be told.
pub fn verdict(ratio: Option<f64>, interval: Option<(f64, f64)>) -> String {
    let Some(ratio) = ratio else { return "this device has no such counter".into() };
    let percent = TOLERANCE * 100.0;
    let (lo, hi) = match interval {
        Some(interval) => interval,
        // The ratio of several copies has no interval if one of them was not counted at all.
        None if ratio < 1.0 - TOLERANCE => (ratio, ratio),
        None => {
            return format!(
                "{ratio:.3} of what was copied: cannot tell, as one copy has no interval; take more with --copies"
            );
        }
    };
    let of = match interval {
        Some(_) => format!("{ratio:.3} ({lo:.3} to {hi:.3}) of what was copied"),
        None => format!("{ratio:.3} of what was copied"),
    };
    let (fewest, most) = (1.0 - TOLERANCE, 1.0 + TOLERANCE);
    let finding = if fewest <= lo && hi <= most {
        return format!("{of}, within {percent} %");
    } else if hi < fewest {
        "traffic is missing, as when a counter wraps between two readings"
    } else if lo <= most {
        return format!(
            "{of}: cannot tell whether that is within {percent} %; take more with --copies, and let nothing else use the device"
        );
    } else if hi <= WITH_HEADERS {
        "this is what packet headers add if they are counted"
    } else if lo > WITH_HEADERS {
        "there was other traffic; let nothing else use the device"
    } else {
        "cannot tell headers of packets from other traffic; take more with --copies, and let nothing else use the device"
    };
    format!("{of}, NOT within {percent} %: {finding}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_agrees_misses_traffic_counts_headers_or_sees_others() {
        for (ratio, lo, hi, verdict_of_it) in [
            (1.049, 1.048, 1.05, "1.049 (1.048 to 1.050) of what was copied, within 5 %"),
            (0.951, 0.951, 0.96, "0.951 (0.951 to 0.960) of what was copied, within 5 %"),
            (0.5, 0.4, 0.6, "0.500 (0.400 to 0.600) of what was copied, NOT within 5 %: traffic is missing"),
            (
                1.094,
                1.09,
                1.1,
                "1.094 (1.090 to 1.100) of what was copied, NOT within 5 %: this is what packet headers",
            ),
            (
                2.5,
                2.0,
                3.0,
                "2.500 (2.000 to 3.000) of what was copied, NOT within 5 %: there was other traffic",
            ),
            (1.0, 0.8, 1.25, "1.000 (0.800 to 1.250) of what was copied: cannot tell whether"),
            (0.9, 0.8, 0.96, "0.900 (0.800 to 0.960) of what was copied: cannot tell whether"),
            (1.5, 1.04, 2.0, "1.500 (1.040 to 2.000) of what was copied: cannot tell whether"),
            (1.2, 1.1, 1.3, "1.200 (1.100 to 1.300) of what was copied, NOT within 5 %: cannot tell headers"),
        ] {
            let said = verdict(Some(ratio), Some((lo, hi)));
            assert!(said.starts_with(verdict_of_it), "{said}");
        }
        for (ratio, verdict_of_it) in [
            (Some(0.0), "0.000 of what was copied, NOT within 5 %: traffic is missing"),
            (Some(0.667), "0.667 of what was copied, NOT within 5 %: traffic is missing"),
            (Some(1.0), "1.000 of what was copied: cannot tell, as one copy has no interval"),
            (None, "this device has no such counter"),
        ] {
            assert!(verdict(ratio, None).starts_with(verdict_of_it), "{}", verdict(ratio, None));
        }
    }

    #[test]
    fn a_zero_is_said_and_has_no_interval() {
        let of = |values: &[Option<f64>]| Estimate::of(values.iter().copied());
        assert_eq!(of(&[None, None]), Estimate { mean: None, lo: None, hi: None });
        assert_eq!(of(&[Some(0.0), Some(1.0)]), Estimate { mean: Some(0.5), lo: None, hi: None });
        assert_eq!(of(&[Some(2.0), None]), Estimate { mean: Some(2.0), lo: None, hi: None });
        let interval = of(&[Some(0.99), Some(1.01)]);
        assert!(interval.lo < interval.mean && interval.mean < interval.hi, "{interval:?}");
    }
}
