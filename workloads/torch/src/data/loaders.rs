//! Loaders, which are threads that prepare batches for the training thread, for all readers of files.

use std::{
    io,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{Builder, JoinHandle},
};

use anyhow::Context;
use tch::{TchError, Tensor};

use super::{
    DataError,
    in_order::{Numbered, Place},
};
use crate::workload::Batch;

/// Makes samples on the host, with all costs of reading a file, in any thread.
///
/// The stream is endless, and its samples are numbered from 0. A sample depends on its number, the files
/// and the seed only. Therefore batches are the same for any number of loaders.
/// seed alone: that is why batches are the same however many threads make them.
pub(super) trait Reader: Send + Sync + 'static {
    /// A batch in host memory, which does not count as tensor memory of the job.
    type Batch: Default + Send + 'static;

    /// Appends sample `number` to `batch`.
    fn read(&self, number: u64, batch: &mut Self::Batch) -> Result<(), DataError>;
}

/// The part of the training thread: copies the data of a reader to the device, and transforms it where that
/// is cheaper.
type Transfer<R> = Box<dyn Fn(<R as Reader>::Batch) -> Result<Batch, TchError>>;

/// The samples of a reader.
pub(super) struct Loaded<R: Reader> {
    reader: Arc<R>,
    transfer: Transfer<R>,
    /// The tensors that the transfer keeps on the device.
    kept: Vec<Tensor>,
    loaders: u32,
    ahead: Option<Ahead<R::Batch>>,
}

impl<R: Reader> Loaded<R> {
    /// Without loaders, the training thread makes batches when they are needed.
    ///
    /// Loaders are threads of this process. They run on the cores that the rank is bound to, and count to
    /// its CPU time.
    pub(super) fn new(
        reader: R,
        loaders: u32,
        transfer: impl Fn(R::Batch) -> Result<Batch, TchError> + 'static,
    ) -> Self {
        Self {
            reader: Arc::new(reader),
            transfer: Box::new(transfer),
            kept: Vec::new(),
            loaders,
            ahead: None,
        }
    }

    /// Declares the tensors that `transfer` keeps on the device.
    pub(super) fn keeping(self, kept: Vec<Tensor>) -> Self {
        Self { kept, ..self }
    }

    fn host_batch(&mut self, place: Place, samples: usize) -> anyhow::Result<R::Batch> {
        if self.loaders == 0 {
            let first = place.first(samples);
            return Ok(make(&*self.reader, first..first + samples as u64)?);
        }
        // Prepared batches have the size of the first one and follow one another. Other requests start
        // again.
        let ahead = match self.ahead.take().filter(|ahead| (ahead.place, ahead.samples) == (place, samples)) {
            Some(ahead) => ahead,
            None => Ahead::start(&self.reader, self.loaders, place, samples)
                .context("cannot start a thread; use fewer loaders")?,
        };
        // Loaders end after an error. A second try gives the same error again, as it does without loaders.
        let ahead = self.ahead.insert(ahead);
        let made = ahead.next();
        if made.is_err() {
            self.ahead = None;
        }
        Ok(made?)
    }
}

impl<R: Reader> Numbered for Loaded<R> {
    fn batch(&mut self, place: Place, samples: usize) -> anyhow::Result<Batch> {
        let batch = self.host_batch(place, samples)?;
        Ok((self.transfer)(batch)?)
    }

    fn tensors(&self) -> Vec<&Tensor> {
        self.kept.iter().collect()
    }
}

fn make<R: Reader>(reader: &R, numbers: impl Iterator<Item = u64>) -> Result<R::Batch, DataError> {
    let mut batch = R::Batch::default();
    for number in numbers {
        reader.read(number, &mut batch)?;
    }
    Ok(batch)
}

/// Running loaders. Loader `i` of `n` makes batches `i`, `i + n`, `i + 2n`, so that the order needs no
/// bookkeeping. Each loader has at most one batch ready and one in progress, which is PyTorch's
/// `prefetch_factor` of 2.
struct Ahead<B> {
    /// Position of the next batch.
    place: Place,
    samples: usize,
    /// The loader of the next batch.
    turn: usize,
    queues: Vec<Receiver<Result<B, DataError>>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl<B: Default + Send + 'static> Ahead<B> {
    fn start<R: Reader<Batch = B>>(
        reader: &Arc<R>,
        loaders: u32,
        place: Place,
        samples: usize,
    ) -> io::Result<Self> {
        const READY_MAX: usize = 1;
        let stop = Arc::new(AtomicBool::new(false));
        let mut ahead = Self { place, samples, turn: 0, queues: Vec::new(), threads: Vec::new(), stop };
        let batch = samples as u64;
        let stride = u64::from(loaders) * place.share.all(batch);
        let mut start = place;
        for loader in 0..loaders {
            let (sender, queue) = sync_channel(READY_MAX);
            let (reader, stop) = (Arc::clone(reader), Arc::clone(&ahead.stop));
            let first = start.first(samples);
            let thread = Builder::new()
                .name(format!("loader-{loader}"))
                .spawn(move || load(&*reader, first, stride, batch, &sender, &stop))?;
            ahead.queues.push(queue);
            ahead.threads.push(thread);
            start = start.after(samples);
        }
        Ok(ahead)
    }

    fn next(&mut self) -> Result<B, DataError> {
        let Ok(made) = self.queues[self.turn].recv() else {
            match self.threads.swap_remove(self.turn).join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("a loader ends on order, or after an error that was taken"),
            }
        };
        self.turn = (self.turn + 1) % self.queues.len();
        self.place = self.place.after(self.samples);
        made
    }
}

impl<B> Drop for Ahead<B> {
    /// Threads end with the stream, after at most one more sample.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A loader that waits for space in its queue wakes up when the queue is closed.
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // A panic has no effect any more.
            let _ = thread.join();
        }
    }
}

/// The work of a loader until its stream ends.
fn load<R: Reader>(
    reader: &R,
    first: u64,
    stride: u64,
    samples: u64,
    queue: &SyncSender<Result<R::Batch, DataError>>,
    stop: &AtomicBool,
) {
    let stopped = || stop.load(Ordering::Relaxed);
    for start in (first..).step_by(stride as usize) {
        let made = make(reader, (start..start + samples).take_while(|_| !stopped()));
        // An incomplete batch is dropped.
        if stopped() {
            return;
        }
        let is_last = made.is_err();
        if queue.send(made).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU64, thread, time::Duration};

    use front_door::{let_pass, wait_until};

    use super::*;
    use crate::{
        data::in_order::InOrder,
        workload::{DataStream, Share},
    };

    /// Samples that are their own numbers, with another action at one of them.
    struct Counting {
        end: u64,
        at_end: fn(u64) -> DataError,
        made: Arc<AtomicU64>,
    }

    impl Reader for Counting {
        type Batch = Vec<i64>;

        fn read(&self, number: u64, batch: &mut Vec<i64>) -> Result<(), DataError> {
            if number >= self.end {
                return Err((self.at_end)(number));
            }
            self.made.fetch_add(1, Ordering::Relaxed);
            batch.push(number as i64);
            Ok(())
        }
    }

    fn malformed(offset: u64) -> DataError {
        DataError::Malformed { file: "train.bin".into(), offset, problem: "nothing".into() }
    }

    fn stream(
        loaders: u32,
        end: u64,
        at_end: fn(u64) -> DataError,
    ) -> (InOrder<Loaded<Counting>>, Arc<AtomicU64>) {
        let made = Arc::new(AtomicU64::new(0));
        let reader = Counting { end, at_end, made: Arc::clone(&made) };
        (InOrder::new(Loaded::new(reader, loaders, transfer)), made)
    }

    fn transfer(numbers: Vec<i64>) -> Result<Batch, TchError> {
        let tensor = Tensor::f_from_slice(&numbers)?;
        Ok(Batch { inputs: tensor.shallow_clone(), targets: tensor })
    }

    fn numbers(stream: &mut impl DataStream, samples: usize) -> Vec<i64> {
        Vec::try_from(&stream.next(samples).unwrap().inputs).unwrap()
    }

    #[test]
    fn samples_come_in_order_whatever_the_loaders_and_the_sizes_of_batches() {
        for loaders in [0, 1, 3, 8] {
            let (mut stream, _) = stream(loaders, u64::MAX, malformed);
            let mut all = Vec::new();
            for samples in [4, 4, 4, 4, 4, 7, 7, 1, 4] {
                all.extend(numbers(&mut stream, samples));
            }
            assert_eq!(all, (0..39).collect::<Vec<_>>(), "{loaders} loaders");
        }
    }

    #[test]
    fn ranks_take_their_parts_of_one_stream() {
        let (mut whole, _) = stream(0, u64::MAX, malformed);
        for loaders in [0, 3] {
            let mut ranks = [0, 1].map(|rank| {
                let (mut stream, _) = stream(loaders, u64::MAX, malformed);
                stream.share_out(Share { rank, ranks: 2 }).unwrap();
                stream
            });
            whole.seek(0).unwrap();
            for _ in 0..7 {
                let together: Vec<_> = ranks.iter_mut().flat_map(|stream| numbers(stream, 3)).collect();
                assert_eq!(together, numbers(&mut whole, 6), "{loaders} loaders");
            }
            assert_eq!(ranks[1].position(), Some(42));
            ranks[1].seek(6).unwrap();
            assert_eq!(numbers(&mut ranks[1], 3), [9, 10, 11], "{loaders} loaders");
        }
    }

    #[test]
    fn an_error_comes_in_its_turn_as_what_it_is_and_comes_again() {
        for loaders in [0, 1, 3, 8] {
            let (mut stream, _) = stream(loaders, 10, malformed);
            assert_eq!([numbers(&mut stream, 4), numbers(&mut stream, 4)].concat(), Vec::from_iter(0..8));
            for _ in 0..2 {
                let error = stream.next(4).err().expect("sample 10 is not there");
                assert!(
                    matches!(error.downcast_ref(), Some(DataError::Malformed { offset: 10, .. })),
                    "{error:#}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "a reader's own mistake")]
    fn a_panic_of_a_loader_is_one_of_the_training_thread() {
        let (mut stream, _) = stream(2, 0, |_| panic!("a reader's own mistake"));
        let _ = stream.next(1);
    }

    #[test]
    fn two_batches_of_each_loader_are_ahead_at_most_and_none_is_made_after_the_end() {
        const MOST: u64 = 5 * (1 + 2 * 3);
        let (mut stream, made) = stream(3, u64::MAX, malformed);
        stream.next(5).unwrap();
        wait_until("each loader is two batches ahead", || made.load(Ordering::Relaxed) >= MOST);
        let_pass(Duration::from_millis(50), "without a bound the loaders would make millions");
        assert_eq!(made.load(Ordering::Relaxed), MOST);
        drop(stream);
        assert_eq!(Arc::strong_count(&made), 1, "the reader went with its threads");
    }

    /// Samples that are made after the gate was opened. Counts those that were begun.
    struct Gated {
        begun: Arc<AtomicU64>,
        is_open: Arc<AtomicBool>,
    }

    impl Reader for Gated {
        type Batch = Vec<i64>;

        fn read(&self, number: u64, batch: &mut Vec<i64>) -> Result<(), DataError> {
            self.begun.fetch_add(1, Ordering::Relaxed);
            wait_until("the gate is open", || self.is_open.load(Ordering::Acquire));
            batch.push(number as i64);
            Ok(())
        }
    }

    #[test]
    fn the_end_waits_for_a_sample_and_not_for_a_batch() {
        const LOADERS: u32 = 2;
        let (begun, is_open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let reader = Arc::new(Gated { begun: Arc::clone(&begun), is_open: Arc::clone(&is_open) });
        let ahead = Ahead::start(&reader, LOADERS, Place::START, 1000).unwrap();
        wait_until("each loader makes a sample", || begun.load(Ordering::Relaxed) == u64::from(LOADERS));
        let stop = Arc::clone(&ahead.stop);
        let opener = thread::spawn(move || {
            wait_until("`drop` sets the stop flag", || stop.load(Ordering::Relaxed));
            is_open.store(true, Ordering::Release);
        });
        drop(ahead);
        opener.join().unwrap();
        assert_eq!(begun.load(Ordering::Relaxed), u64::from(LOADERS), "no second sample was begun");
        assert_eq!(Arc::strong_count(&reader), 1, "the threads have ended");
    }
}
