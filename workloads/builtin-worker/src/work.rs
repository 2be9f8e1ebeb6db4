//! The work of a rank in its steps, and that of a synthetic step: CPU time, sleep and memory.

use std::{hint::black_box, thread, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use schema::{catalog::Synthetic, units::Nanos, wire::Phases};

/// Factor of the steps at the start. The change is sudden, as at the end of a real job's kernel tuning.
const WARMUP_FACTOR: f64 = 2.0;

/// The division of the busy part of a step into phases; the last phase is the rest.
const FORWARD_SHARE: f64 = 0.3;
const BACKWARD_SHARE: f64 = 0.6;

/// The smallest page size of supported machines: one write per page makes it resident.
const PAGE_BYTES: usize = 4096;

/// The work of a rank in its steps, and its memory.
pub(crate) trait Work {
    /// The reason why this machine cannot do it.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Makes the job's memory resident, because untouched memory costs nothing.
    fn build(&mut self) -> anyhow::Result<()>;

    /// Does step `index`.
    fn step(&mut self, index: u64) -> anyhow::Result<Phases>;

    /// Releases the job's memory until the next build, and returns its size.
    fn release(&mut self) -> u64;

    /// Size of the present memory.
    fn memory_bytes(&self) -> u64;
}

/// Burns CPU time and sleeps.
pub(crate) struct Burner {
    step: Duration,
    busy_share: f64,
    noise: f64,
    warmup_steps: u64,
    memory: Vec<u8>,
    memory_bytes: usize,
    chance: fastrand::Rng,
}

impl Burner {
    pub(crate) fn new(model: &Synthetic, seed: u64) -> Burner {
        Burner {
            step: Duration::from_micros(model.step_us),
            busy_share: f64::from(model.busy_percent) / 100.0,
            noise: model.noise_percent / 100.0,
            warmup_steps: model.warmup_steps,
            memory: Vec::new(),
            memory_bytes: usize::try_from(model.memory_bytes).expect("a machine of 64 bits"),
            chance: fastrand::Rng::with_seed(seed),
        }
    }

    /// A standard normal number, by the method of Box and Muller (1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.chance.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.chance.f64()).cos()
    }
}

impl Work for Burner {
    fn build(&mut self) -> anyhow::Result<()> {
        self.memory = vec![0; self.memory_bytes];
        self.memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        black_box(&mut self.memory);
        Ok(())
    }

    /// Waits for its "data", then burns CPU time in three phases.
    fn step(&mut self, index: u64) -> anyhow::Result<Phases> {
        let warmup = if index < self.warmup_steps { WARMUP_FACTOR } else { 1.0 };
        let length = self.step.mul_f64(warmup * (self.noise * self.normal()).exp());
        let busy = length.mul_f64(self.busy_share);
        let data_ns = timed(|| sleep(length - busy));
        let forward_ns = timed(|| burn(busy.mul_f64(FORWARD_SHARE)));
        let backward_ns = timed(|| burn(busy.mul_f64(BACKWARD_SHARE)));
        let optimizer_ns = timed(|| burn(busy.mul_f64(1.0 - FORWARD_SHARE - BACKWARD_SHARE)));
        Ok(Phases {
            data_ns: Some(data_ns),
            forward_ns: Some(forward_ns),
            backward_ns: Some(backward_ns),
            optimizer_ns: Some(optimizer_ns),
            ..Phases::default()
        })
    }

    fn release(&mut self) -> u64 {
        std::mem::take(&mut self.memory).len() as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.memory.len() as u64
    }
}

pub(crate) fn timed(work: impl FnOnce()) -> Nanos {
    let begin = Nanos::monotonic_now();
    work();
    Nanos::monotonic_now() - begin
}

pub(crate) fn sleep(time: Duration) {
    if !time.is_zero() {
        thread::sleep(time);
    }
}

/// Burns CPU time by the thread's own clock. On a shared core it takes longer, as real work does.
pub(crate) fn burn(cpu_time: Duration) {
    let until = thread_cpu_time() + cpu_time;
    while thread_cpu_time() < until {
        std::hint::spin_loop();
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(step_us: u64, busy_percent: u8, noise_percent: f64) -> Burner {
        let model = Synthetic {
            step_us,
            busy_percent,
            noise_percent,
            warmup_steps: 1,
            memory_bytes: 1 << 20,
            fault: None,
        };
        Burner::new(&model, 7)
    }

    #[test]
    fn a_step_burns_the_cpu_time_it_was_asked_for() {
        let mut work = work(4_000, 50, 0.0);
        let before = thread_cpu_time();
        let phases = work.step(1).expect("it cannot fail");
        assert!(thread_cpu_time() - before >= Duration::from_millis(2));
        assert!(phases.data_ns.unwrap() >= Nanos(2_000_000));
        assert!(phases.forward_ns.unwrap() >= Nanos(600_000));
        assert!(phases.backward_ns.unwrap() >= Nanos(1_200_000));
        assert_eq!(phases.sync_total_ns, None);
    }

    #[test]
    fn steps_at_the_start_take_longer() {
        let mut work = work(2_000, 0, 0.0);
        let phases = work.step(0).expect("it cannot fail");
        assert!(phases.data_ns.unwrap() >= Nanos(4_000_000));
    }

    #[test]
    fn noise_has_the_deviation_it_was_given() {
        let mut work = work(1, 0, 0.0);
        let numbers: Vec<f64> = (0..10_000).map(|_| work.normal()).collect();
        let mean = numbers.iter().sum::<f64>() / 1e4;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e4;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn memory_comes_and_goes() {
        let mut work = work(1, 0, 0.0);
        assert_eq!(work.memory_bytes(), 0);
        work.build().expect("there is memory");
        assert_eq!(work.memory_bytes(), 1 << 20);
        assert_eq!(work.release(), 1 << 20);
        assert_eq!(work.memory_bytes(), 0);
    }
}
