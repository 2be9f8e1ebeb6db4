//! Measures the parts of this machine: the numbers of `machine.toml`.
//!
//! Parts that need a quiet machine come first, then those that launch jobs. All-reduces are cells of a run and go through the
//! blocks of `profile single`. Restarts use the rig of that run. The events of both stay on file.

mod all_reduce;
mod limits;
mod memory;
mod program;
mod restart;
mod suspend;
mod values;

use std::{collections::BTreeSet, path::Path};

use jobs::{
    cells::joined,
    run::{self, Observed},
};
use record::{
    calibration::{Calibration, CopyRow, Measured, SpinRow},
    manifest::{Cell, Manifest},
    rows::Status,
    run_dir::RunDir,
};
use rig::{Exit, Rig, programs, sampler::Sampler};
use schema::{FORMAT, catalog::Catalog, device::Device};
use statistics::Interval;

pub use self::all_reduce::cells as all_reduces;
use self::{
    limits::Limits,
    restart::{Measurements, Restarts},
    values::{failed, measured, not_measured},
};
use crate::{
    blocks::{Blocks, Ledger, Lost},
    core_contention,
    cores::HostCores,
    derive::Derived,
    measure,
    progress::Progress,
    transfers,
};

/// The size of each copy over a link, large enough that its start does not matter.
const COPY_BYTES: u64 = 1 << 30;

/// The reason that a pool has no all-reduces.
pub const NO_PAIR: &str = "it needs two devices of a kind, which the pool lacks; name more with --device A,B";

/// A part of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CalibrationPart {
    /// Contention between two CPU devices.
    Spin,
    /// Memory bandwidth of CPU devices.
    Memory,
    /// Copies between host and GPU.
    Copy,
    /// All-reduces between devices.
    AllReduce,
    /// Stop and restart of a job from a checkpoint.
    Restart,
}

/// What to measure, and on which devices.
pub struct Calibrator<'a> {
    pub catalog: &'a Catalog,
    /// The manifest of the run, whose cells are the launches of the calibration.
    pub manifest: &'a Manifest,
    pub pool: &'a [Device],
    pub parts: &'a [CalibrationPart],
    /// The directory of the run, which is created only if there is something to launch.
    pub run: &'a Path,
}

impl Calibrator<'_> {
    /// Measures the parts in order. Failures are in `not_measured`.
    ///
    /// # Errors
    /// The user interrupts the calibration, or a file of the run cannot be written.
    pub fn measure(&self) -> anyhow::Result<Calibration> {
        let limits = Limits::of(self.manifest)?;
        let mut found = self.blank();
        for part in self.parts {
            match part {
                CalibrationPart::Spin => self.spin(&limits, &mut found)?,
                CalibrationPart::Memory => self.memory(&limits, &mut found)?,
                CalibrationPart::Copy => self.copies(&limits, &mut found)?,
                CalibrationPart::AllReduce
                    if self.manifest.cells.iter().all(|cell| cell.all_reduce_bytes.is_none()) =>
                {
                    found.not_measured.push(not_measured("all-reduce", Status::Unsupported, NO_PAIR));
                }
                CalibrationPart::AllReduce | CalibrationPart::Restart => {}
            }
        }
        for cell in &self.manifest.cells {
            if let Some(reason) = &cell.unsupported {
                found.not_measured.push(not_measured(&cell.name, Status::Unsupported, reason));
            }
        }
        if self.manifest.cells.iter().any(|cell| cell.unsupported.is_none()) {
            self.launches(&limits, &mut found)?;
        }
        Ok(found)
    }

    /// The exit code of the command for these results. A part that the user did not name and that the pool has no devices for
    /// is noted and is no failure. A cell that cannot run is a failure, as in any run.
    pub fn exit(&self, found: &Calibration) -> Exit {
        let failed = found.not_measured.iter().any(|row| row.status == Status::Failed);
        let refused = self.manifest.cells.iter().any(|cell| cell.unsupported.is_some());
        if failed || refused { Exit::SomeFailed } else { Exit::Ok }
    }

    fn blank(&self) -> Calibration {
        Calibration {
            format: FORMAT,
            measured_utc: self.manifest.started_utc.clone(),
            command: self.manifest.command.clone(),
            version: self.manifest.version.clone(),
            git_revision: self.manifest.git_revision.clone(),
            seed: self.manifest.seed,
            run: None,
            pool: self.pool.to_vec(),
            machine: self.manifest.machine.clone(),
            spin: Vec::new(),
            memory: Vec::new(),
            copy: Vec::new(),
            all_reduce: Vec::new(),
            restart: Vec::new(),
            suspend: Vec::new(),
            not_measured: Vec::new(),
        }
    }

    fn cpus(&self) -> Vec<(&Device, &[u16])> {
        let of = self.pool.iter().filter_map(|device| match device {
            Device::Cpu(cores) => Some((device, &cores[..])),
            _ => None,
        });
        of.collect()
    }

    fn spin(&self, limits: &Limits, found: &mut Calibration) -> anyhow::Result<()> {
        let cpus = self.cpus();
        let pairs: Vec<_> = (0..cpus.len()).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        let progress = Progress::new(pairs.len() as u64);
        for (a, b) in pairs {
            let ((first, of_first), (second, of_second)) = (cpus[a], cpus[b]);
            let what = format!("spin loops on {first} and {second}");
            if !limits.allow(&what, found)? {
                continue;
            }
            progress.begin(&what);
            let cores = [of_first[0], of_second[0]];
            let Some(ratio) =
                core_contention::sibling_ratio(cores[0], cores[1], self.manifest.settings.repeats)
            else {
                let reason = "the loops could not be pinned to their cores";
                progress.end(&format!("{what}: {reason}"));
                found.not_measured.push(failed(&what, reason));
                continue;
            };
            progress.end(&format!("{what}: {:.3} times as long together", ratio.estimate));
            found.spin.push(SpinRow {
                devices: [first.clone(), second.clone()],
                cores,
                ratio: Measured { value: ratio.estimate, interval: ratio.ends() },
                repeats: ratio.n as u32,
            });
        }
        progress.finish();
        Ok(())
    }

    /// Measures each CPU device by itself, and all of them at once.
    fn memory(&self, limits: &Limits, found: &mut Calibration) -> anyhow::Result<()> {
        let all: Vec<Device> = self.cpus().into_iter().map(|(device, _)| device.clone()).collect();
        let mut sets: Vec<&[Device]> = all.chunks(1).collect();
        if all.len() > 1 {
            sets.push(&all);
        }
        let progress = Progress::new(sets.len() as u64);
        for devices in sets {
            let what = format!("memory bandwidth of {}", joined(devices));
            if !limits.allow(&what, found)? {
                continue;
            }
            progress.begin(&what);
            match memory::measure(devices, self.manifest.settings.repeats) {
                Ok(row) => {
                    progress.end(&format!("{what}: {:.2} GB/s", row.bytes_per_s.value as f64 / 1e9));
                    found.memory.push(row);
                }
                Err(error) => {
                    progress.end(&format!("{what}: {error:#}"));
                    found.not_measured.push(failed(&what, &format!("{error:#}")));
                }
            }
        }
        progress.finish();
        Ok(())
    }

    fn copies(&self, limits: &Limits, found: &mut Calibration) -> anyhow::Result<()> {
        // A GPU that ranks share is in the pool more than once.
        for device in self.pool.iter().collect::<BTreeSet<_>>() {
            let Device::Cuda(index) = device else { continue };
            let what = format!("copies to and from {device}");
            if !limits.allow(&what, found)? {
                continue;
            }
            let rows = match transfers::measure(*index, COPY_BYTES, self.manifest.settings.repeats) {
                Ok(rows) => rows,
                Err(error) => {
                    found.not_measured.push(failed(&what, &format!("{error:#}")));
                    continue;
                }
            };
            for row in rows {
                let Some((lo, hi)) = row.bytes_per_s_ci_lo.zip(row.bytes_per_s_ci_hi) else {
                    found.not_measured.push(failed(&what, &format!("{} has no interval", row.direction)));
                    continue;
                };
                found.copy.push(CopyRow {
                    device: device.clone(),
                    direction: row.direction,
                    bytes: row.bytes,
                    bytes_per_s: measured(&Interval {
                        estimate: row.bytes_per_s,
                        lo,
                        hi,
                        n: row.copies as usize,
                    }),
                    repeats: row.copies,
                });
            }
        }
        Ok(())
    }

    /// All-reduces and restarts: the cells of the manifest.
    fn launches(&self, limits: &Limits, found: &mut Calibration) -> anyhow::Result<()> {
        let observed = Observed::from_now();
        let run = RunDir::create(self.run)?;
        run.write_manifest(self.manifest)?;
        let _lock = run::lock(&run)?;
        found.run = Some(run.name());
        let sampler = run::start_sampler(&run, self.manifest)?;
        let measured = self.launch_all(&run, &sampler, limits, found);
        let cost = sampler.cost();
        let stopped = sampler.stop();
        let cost = stopped.as_ref().copied().unwrap_or(cost);
        let written = measured.and_then(|missing| {
            stopped?;
            Derived::of(&run)?.write()?;
            Ok(missing)
        });
        match written {
            Ok(missing) => {
                let exit = if limits.interrupt.asked() { Exit::Interrupted } else { self.exit(found) };
                run::write_end(&run, exit, missing, observed, cost)?;
                limits.check()
            }
            Err(error) => {
                let left = self.manifest.cells.iter().map(|cell| cell.name.clone()).collect();
                measure::write_failed_end(&run, &error, left, observed, cost);
                Err(error)
            }
        }
    }

    /// Measures the cells that can run here, and returns what is missing.
    fn launch_all(
        &self,
        run: &RunDir,
        sampler: &Sampler,
        limits: &Limits,
        found: &mut Calibration,
    ) -> anyhow::Result<Vec<String>> {
        let mut rig = Rig::new(programs::all()?)?;
        let runnable = self.manifest.cells.iter().filter(|cell| cell.unsupported.is_none()).cloned();
        let (all_reduces, jobs): (Vec<Cell>, Vec<Cell>) =
            runnable.partition(|cell| cell.all_reduce_bytes.is_some());

        let mut blocks = Blocks {
            run,
            manifest: self.manifest,
            cells: &all_reduces,
            groups: &[],
            catalog: self.catalog,
            rig: &mut rig,
            sampler,
            interrupt: &limits.interrupt,
            host_cores: HostCores::default(),
            derived: Derived::of(run)?,
            ledger: Ledger::default(),
            part: 0,
            lost: Lost::default(),
            next_number: run.next_number()?,
            began: limits.began,
        };
        let mut missing = blocks.measure()?.launches;
        let summaries = Derived::of(run)?.summaries;
        let (rows, unmeasured) = all_reduce::rows(&all_reduces, &summaries, &self.manifest.settings);
        found.all_reduce = rows;
        found.not_measured.extend(unmeasured);

        let restarts =
            Restarts { run, manifest: self.manifest, catalog: self.catalog, rig: &mut rig, limits };
        let Measurements { restart, suspend, not_measured } = restarts.measure(&jobs);
        missing.extend(not_measured.iter().map(|row| row.what.clone()));
        (found.restart, found.suspend) = (restart, suspend);
        found.not_measured.extend(not_measured);
        Ok(missing)
    }
}
