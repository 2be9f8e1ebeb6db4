//! Stressors: jobs that each load one resource of a machine at an adjustable intensity.
//!
//! A step is a period of 10 ms. At a dial of 40 percent every thread of the rank works for 4 ms of it, at
//! 100 percent for all of it, and then the rank sleeps for the rest. The amount of work is calibrated once,
//! before the job is ready, and from then on all steps are the same. A stressor is therefore slowed down
//! like any job by others on its core or its resource: its own step time shows the effect of a job beside
//! it.

mod cache;
mod compute;
mod io;
mod memory;
mod pace;

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use schema::{
    catalog::{Resource, Stress},
    device::Device,
    units::Nanos,
    wire::Phases,
};

use self::pace::Pace;
use crate::{
    caches::{CORES, last_level_bytes},
    work::{Work, sleep, thread_cpu_time, timed},
};

/// Duration of an undisturbed step.
const PERIOD: Duration = Duration::from_millis(10);

/// The assumed size of the last-level caches if the kernel does not report it.
const UNTOLD_CACHES_BYTES: u64 = 32 << 20;

/// One thread that loads a resource, in units of equal work.
trait Stressor: Send {
    /// Does one unit of work.
    fn unit(&mut self) -> std::io::Result<()>;

    /// A clock that stops while another job has the thread's core.
    fn clock(&self) -> Duration {
        thread_cpu_time()
    }

    fn memory_bytes(&self) -> u64;
}

/// The memory of a stressor that runs this number of threads on these cores.
pub fn memory_bytes(stress: &Stress, cores: &[u16], threads: u32) -> u64 {
    u64::from(threads) * thread_bytes(stress.resource, cores, threads)
}

/// The share of one thread.
fn thread_bytes(resource: Resource, cores: &[u16], threads: u32) -> u64 {
    let caches = last_level_bytes(Path::new(CORES), cores).unwrap_or(UNTOLD_CACHES_BYTES);
    match resource {
        Resource::Compute => 0,
        Resource::Cache => cache::thread_bytes(caches, threads),
        Resource::Memory => memory::thread_bytes(caches, threads),
        Resource::Io => io::THREAD_BYTES,
    }
}

/// The stressors of one rank, one per thread.
pub(crate) struct Stressors {
    resource: Resource,
    dial_percent: u32,
    threads: u32,
    thread_bytes: u64,
    /// The folder for files.
    folder: PathBuf,
    /// Empty while their memory is released.
    stressors: Vec<Box<dyn Stressor>>,
    /// One per stressor, from the first build on.
    paces: Vec<Pace>,
}

impl Stressors {
    /// `folder` is for temporary files.
    pub(crate) fn new(
        stress: &Stress,
        dial_percent: u32,
        device: &Device,
        threads: u32,
        folder: PathBuf,
    ) -> Stressors {
        let cores = if let Device::Cpu(cores) = device { &cores[..] } else { &[] };
        Stressors {
            resource: stress.resource,
            dial_percent,
            threads,
            thread_bytes: thread_bytes(stress.resource, cores, threads),
            folder,
            stressors: Vec::new(),
            paces: Vec::new(),
        }
    }
}

fn stressor(resource: Resource, bytes: u64, folder: &Path) -> anyhow::Result<Box<dyn Stressor>> {
    Ok(match resource {
        Resource::Compute => Box::new(compute::Compute::new()),
        Resource::Cache => Box::new(cache::Cache::new(bytes)),
        Resource::Memory => Box::new(memory::Memory::new(bytes)),
        Resource::Io => Box::new(io::Io::new(folder).context("stress-io cannot write its file")?),
    })
}

impl Work for Stressors {
    fn refusal(&self) -> Option<String> {
        (self.resource == Resource::Io).then(|| io::refusal(&self.folder)).flatten()
    }

    fn build(&mut self) -> anyhow::Result<()> {
        let (resource, bytes, folder) = (self.resource, self.thread_bytes, &self.folder);
        self.stressors = on_threads(0..self.threads, |_| stressor(resource, bytes, folder))?;
        if self.paces.is_empty() {
            // All threads at once, as in every step, so that they divide a shared resource.
            self.paces =
                on_threads(self.stressors.iter_mut(), |stressor| Ok(Pace::measure(stressor.as_mut())?))?;
        }
        Ok(())
    }

    fn step(&mut self, _index: u64) -> anyhow::Result<Phases> {
        let begin = Nanos::monotonic_now();
        let pairs = self.stressors.iter_mut().zip(&mut self.paces);
        let dial_percent = self.dial_percent;
        on_threads(pairs, |(stressor, pace)| {
            Ok((0..pace.units_of_step(dial_percent)).try_for_each(|_| stressor.unit())?)
        })?;
        let worked = Nanos::monotonic_now() - begin;
        let rested = timed(|| sleep(PERIOD * 100u32.saturating_sub(dial_percent) / 100));
        Ok(Phases { data_ns: Some(rested), forward_ns: Some(worked), ..Phases::default() })
    }

    fn release(&mut self) -> u64 {
        let bytes = self.memory_bytes();
        self.stressors.clear();
        bytes
    }

    fn memory_bytes(&self) -> u64 {
        self.stressors.iter().map(|stressor| stressor.memory_bytes()).sum()
    }
}

/// Does `work` with all items at the same time, the first one on this thread. Threads are started each
/// time, which takes some ten microseconds of a step.
fn on_threads<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let mut items = items.into_iter();
    let Some(first) = items.next() else { return Ok(Vec::new()) };
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let first = work(first);
        let others = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of a stressor panicked"))));
        std::iter::once(first).chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// Counts its units.
    struct Counting(Arc<AtomicU64>);

    impl Stressor for Counting {
        fn unit(&mut self) -> std::io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn memory_bytes(&self) -> u64 {
            0
        }
    }

    fn stressors(resource: Resource, threads: u32, folder: &Path) -> Stressors {
        Stressors::new(&Stress { resource }, 30, &Device::Cpu(vec![0]), threads, folder.into())
    }

    #[test]
    fn what_is_kept_is_what_was_announced_and_comes_and_goes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for resource in [Resource::Compute, Resource::Cache, Resource::Memory] {
            let announced = memory_bytes(&Stress { resource }, &[0], 2);
            let mut both = stressors(resource, 2, folder.path());
            assert_eq!((both.refusal(), both.memory_bytes()), (None, 0));
            both.build().expect("there is memory");
            assert_eq!((both.stressors.len(), both.memory_bytes()), (2, announced), "{resource:?}");
            let paces = both.paces.clone();
            assert_eq!((both.release(), both.memory_bytes()), (announced, 0));
            both.build().expect("there is memory");
            assert_eq!(both.paces, paces, "a pause does not change what a step is");
        }
    }

    #[test]
    fn a_step_is_work_and_rest() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut one = stressors(Resource::Compute, 1, folder.path());
        one.build().expect("it needs nothing");
        let phases = one.step(0).expect("it works");
        assert!(phases.data_ns >= Some(Nanos(7_000_000)) && phases.forward_ns > Some(Nanos(0)), "{phases:?}");
    }

    /// All units of a stressor are equal work, as the tests of each kind show.
    #[test]
    fn every_thread_does_the_part_of_its_units_that_the_dial_says_and_rests_for_the_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (dial_percent, units, rest_ms) in [(25, 10, 7), (75, 30, 2), (100, 40, 0)] {
            let done = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
            let mut both = stressors(Resource::Compute, 2, folder.path());
            both.dial_percent = dial_percent;
            both.stressors =
                done.iter().map(|done| Box::new(Counting(done.clone())) as Box<dyn Stressor>).collect();
            both.paces = vec![Pace { units_per_period: 40.0, left: 0.0 }; 2];
            for steps in 1..=3 {
                let phases = both.step(steps).expect("it works");
                assert!(phases.data_ns >= Some(Nanos(rest_ms * 1_000_000)), "{phases:?}");
                let units_done = done.each_ref().map(|done| done.load(Ordering::Relaxed));
                assert_eq!(units_done, [steps * units; 2], "{dial_percent} %");
            }
        }
    }

    #[test]
    fn threads_work_at_the_same_time_and_answer_in_order() {
        let all_there = std::sync::Barrier::new(3);
        let answers = on_threads(0..3, |item| {
            all_there.wait();
            Ok(10 * item)
        });
        assert_eq!(answers.expect("none of them fails"), [0, 10, 20]);
        let one_fails = on_threads(0..3, |item| if item == 1 { Err(anyhow!("no")) } else { Ok(()) });
        assert_eq!(one_fails.expect_err("one fails").to_string(), "no");
    }
}
