//! Programs of others on the devices of a run, for people alone: a record names no program of others.

use std::collections::BTreeMap;

use rig::usage::{Foreign, Scan, top_foreign};
use schema::{device::Device, units::Nanos};

/// The programs that used devices most while something was measured there, by their names; no name where none of them ran any more.
#[derive(Default)]
pub(super) struct Others(BTreeMap<Option<String>, Found>);

/// A program that was found at least once.
struct Found {
    times: u32,
    cpu_ns: u64,
    /// The launch at which it was found first.
    first: String,
}

impl Others {
    /// Counts the busiest program on these devices since `before`, and returns a line about a program that was not found before.
    pub(super) fn find(&mut self, launch: &str, devices: &[Device], before: &Scan) -> Option<String> {
        let of_device = |device: &Device| match device {
            Device::Cpu(cores) => cores.clone(),
            _ => Vec::new(),
        };
        let cores: Vec<u16> = devices.iter().flat_map(of_device).collect();
        self.count(launch, top_foreign(before, &Scan::take(), &cores, &[std::process::id()]))
    }

    fn count(&mut self, launch: &str, busiest: Option<Foreign>) -> Option<String> {
        let (name, cpu_ns) =
            busiest.as_ref().map_or((None, 0), |other| (Some(other.name.clone()), other.cpu_ns));
        let found = self.0.entry(name).or_insert_with(|| Found { times: 0, cpu_ns: 0, first: launch.into() });
        found.times += 1;
        found.cpu_ns += cpu_ns;
        (found.times == 1).then(|| match busiest {
            Some(Foreign { name, pid, cpu_ns }) => format!(
                "  others used its device: most of all {name} (process {pid}), {} of CPU time",
                Nanos(cpu_ns)
            ),
            None => "  others used its device, and none of them runs any more".into(),
        })
    }

    /// A line for each program that was found more than once.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter(|(_, found)| found.times > 1).map(|(name, Found { times, cpu_ns, first })| {
            let who = name.as_ref().map_or("and none of them ran any more".into(), |name| {
                format!("most of all {name}, {} of CPU time in all", Nanos(*cpu_ns))
            });
            format!("others used the device {times} times, first in {first}: {who}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_once_and_counted_from_then_on() {
        let other = |name: &str| Some(Foreign { name: name.into(), pid: 7, cpu_ns: 1_500_000_000 });
        let mut others = Others::default();
        let compiler = "  others used its device: most of all rustc (process 7), 1.50 s of CPU time";
        let gone = "  others used its device, and none of them runs any more";
        for (launch, busiest, told) in [
            ("0001-lstm", other("rustc"), Some(compiler)),
            ("0002-lstm", None, Some(gone)),
            ("0003-lstm", other("rustc"), None),
            ("0004-lstm", other("rustc"), None),
            ("0005-lstm", None, None),
            ("0006-lstm", other("cp"), Some(&*compiler.replace("rustc", "cp"))),
        ] {
            assert_eq!(others.count(launch, busiest).as_deref(), told, "{launch}");
        }
        let lines: Vec<String> = others.lines().collect();
        assert_eq!(
            lines,
            [
                "others used the device 2 times, first in 0002-lstm: and none of them ran any more",
                "others used the device 3 times, first in 0001-lstm: most of all rustc, 4.50 s of CPU time in all",
            ]
        );
    }
}
