//! Ranks as threads of one process, each with its own handle on the group: connected by real sockets, or by memory as in
//! tests of other modules.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use front_door::{LONG, let_pass};
use procfs::process::{FDTarget, Process};
use schema::{spec::Collectives, units::Nanos};
use tch::{Device, Kind, kind::FLOAT_CPU};

use super::{
    observed::{Observed, SumMade},
    threads::Thread,
    *,
};
use crate::nn::channels_last;

fn meet(rendezvous: &Path, rank: u32, size: u32, timeout: Duration) -> Result<Group, TchError> {
    let meeting = Meeting::open(rendezvous, rank, size, Collectives::Gloo, Device::Cpu, timeout)?;
    meeting.form("all", rank, size)
}

/// The results of `size` ranks in order, connected by sockets, and the file in which they met.
fn with_ranks<T: Send>(size: u32, of_rank: impl Fn(Group, PathBuf) -> T + Sync) -> Vec<T> {
    let folder = tempfile::tempdir().unwrap();
    let (file, of_rank) = (&folder.path().join("rendezvous"), &of_rank);
    thread::scope(|scope| {
        let rank = |rank| scope.spawn(move || of_rank(meet(file, rank, size, LONG).unwrap(), file.clone()));
        let ranks: Vec<_> = (0..size).map(rank).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs `of_rank` on groups of 2, 3 and 4 ranks of either kind.
fn with_groups(of_rank: impl Fn(&Group) + Sync) {
    for size in [2, 3, 4] {
        with_ranks(size, |group, _| of_rank(&group));
        thread::scope(|scope| {
            for group in Thread::group(size as usize) {
                scope.spawn(|| of_rank(&{ group }));
            }
        });
    }
}

/// `length` numbers from `first` on, few and small enough to be exact in every kind.
fn counting(first: u32, length: u32, kind: Kind) -> Tensor {
    Tensor::arange_start(i64::from(first), i64::from(first + length), FLOAT_CPU).to_kind(kind)
}

fn values(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.to_kind(Kind::Double)).unwrap()
}

fn numbers(values: impl IntoIterator<Item = u32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

/// Starts a collective and waits for it.
fn done(work: Result<Work, TchError>) {
    work.unwrap().wait().unwrap();
}

#[test]
fn every_collective_gives_its_values_among_any_number_of_ranks_in_every_kind() {
    with_groups(|group| {
        let (rank, size) = (group.rank(), group.size());
        for kind in [Kind::Float, Kind::Double, Kind::BFloat16] {
            let context = format!("rank {rank} of {size}, {kind:?}");
            let ranks_sum: u32 = (0..size).sum();

            let tensor = counting(10 * rank, 5, kind);
            done(group.all_reduce(&tensor, Reduction::Sum));
            assert_eq!(values(&tensor), numbers((0..5).map(|i| size * i + 10 * ranks_sum)), "{context}");

            // Below zero and above, and each rank has the maximum somewhere.
            let tensor = Tensor::zeros([i64::from(size)], (kind, Device::Cpu)) - 3.0;
            let _ = tensor.get(i64::from(rank)).fill_(f64::from(rank) - 2.0);
            done(group.all_reduce(&tensor, Reduction::Maximum));
            let expected: Vec<_> = (0..size).map(|rank| f64::from(rank) - 2.0).collect();
            assert_eq!(values(&tensor), expected, "{context}");

            let tensor = counting(10 * rank, 3, kind);
            done(group.broadcast(&tensor, size - 1));
            assert_eq!(values(&tensor), numbers((0..3).map(|i| 10 * (size - 1) + i)), "{context}");

            let whole = Tensor::zeros([i64::from(2 * size)], (kind, Device::Cpu));
            done(group.all_gather(&whole, &counting(2 * rank, 2, kind)));
            assert_eq!(values(&whole), numbers(0..2 * size), "{context}");

            let part = Tensor::zeros([2], (kind, Device::Cpu));
            let whole = counting(rank, 2 * size, kind);
            done(group.reduce_scatter(&part, &whole));
            let sum = |i| size * (2 * rank + i) + ranks_sum;
            assert_eq!(values(&part), numbers([sum(0), sum(1)]), "{context}");
            assert_eq!(values(&whole), numbers(rank..rank + 2 * size), "{context}: it is only read");

            // Each rank sends to the next one, the second of two tensors first.
            let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
            let sent = [counting(rank, 4, kind), counting(20 + rank, 4, kind)];
            let received = [0, 1].map(|_| Tensor::zeros([4], (kind, Device::Cpu)));
            let sending = [1, 0].map(|tag| group.send(&sent[tag], next, tag as u32).unwrap());
            for tag in [0, 1] {
                done(group.receive(&received[tag], previous, tag as u32));
                let first = 20 * tag as u32 + previous;
                assert_eq!(values(&received[tag]), numbers(first..first + 4), "{context}");
            }
            for work in sending {
                work.wait().unwrap();
            }
            group.barrier().unwrap();
        }
    });
}

/// `length` numbers of rank `rank` whose sum depends on the order of the ranks: they differ by orders of magnitude.
fn rounded(rank: u32, length: i64) -> Tensor {
    let waves = (Tensor::arange(length, FLOAT_CPU) * (1.3 + f64::from(rank))).sin();
    waves * 10_f64.powi([0, 7, 3, 6][rank as usize])
}

#[test]
fn parts_of_a_reduce_scatter_are_added_up_in_the_order_of_ranks_to_the_bit() {
    const PART: i64 = 1000;
    let sum = |ranks: &mut dyn Iterator<Item = u32>, whole: i64| {
        ranks.map(|rank| rounded(rank, whole)).reduce(|sum, next| sum + next).expect("there are ranks")
    };
    with_groups(|group| {
        let (rank, size) = (group.rank(), group.size());
        let whole = PART * i64::from(size);
        let expected = sum(&mut (0..size), whole);
        if size > 2 {
            assert_ne!(expected, sum(&mut (0..size).rev(), whole), "another order gives other numbers");
        }
        let part = Tensor::zeros([PART], FLOAT_CPU);
        done(group.reduce_scatter(&part, &rounded(rank, whole)));
        assert_eq!(part, expected.narrow(0, PART * i64::from(rank), PART), "rank {rank} of {size}");
    });
}

#[test]
fn each_operation_counts_the_bytes_that_a_rank_sends_in_a_ring() {
    with_groups(|group| {
        let (rank, size) = (group.rank(), u64::from(group.size()));
        let is_sent = |operation: &str, bytes: u64| {
            assert_eq!(group.take_sent_bytes(), bytes, "{operation}, rank {rank} of {size}");
        };
        let numbers = |count: u64| Tensor::zeros([count as i64], FLOAT_CPU);
        // 20 bytes, which three ranks cannot divide: 10, 13 and 15 of them are those of the others.
        let of_others = [10, 13, 15][size as usize - 2];
        done(group.all_reduce(&numbers(5), Reduction::Sum));
        is_sent("sum", 2 * of_others);
        done(group.all_reduce(&numbers(5), Reduction::Maximum));
        is_sent("maximum", 2 * of_others);
        done(group.broadcast(&numbers(5), 0));
        is_sent("broadcast", of_others);
        done(group.all_gather(&numbers(3 * size), &numbers(3)));
        is_sent("all-gather", 4 * 3 * (size - 1));
        done(group.reduce_scatter(&numbers(3), &numbers(3 * size)));
        is_sent("reduce-scatter", 4 * 3 * (size - 1));

        let (next, previous) = ((rank + 1) % size as u32, (rank + size as u32 - 1) % size as u32);
        let sent = numbers(7);
        let sending = group.send(&sent, next, 0).unwrap();
        is_sent("send", 4 * 7);
        done(group.receive(&numbers(7), previous, 0));
        sending.wait().unwrap();
        is_sent("receive", 0);
        group.barrier().unwrap();
        is_sent("barrier", 0);

        let other = group.counted_apart();
        for group in [group, &group.clone(), &other] {
            done(group.all_reduce(&numbers(1000), Reduction::Sum));
        }
        let of_one = 2 * (4000 * (size - 1) / size);
        is_sent("two sums of two handles", 2 * of_one);
        assert_eq!(other.take_sent_bytes(), of_one, "it counts apart");
        is_sent("nothing", 0);
    });
}

#[test]
fn a_rank_that_is_alone_sends_nothing_and_keeps_its_numbers() {
    let group = Group::alone();
    let (tensor, whole, part) =
        (counting(3, 4, Kind::Float), counting(0, 4, Kind::Float), counting(5, 4, Kind::Float));
    done(group.all_reduce(&tensor, Reduction::Sum));
    done(group.broadcast(&tensor, 0));
    assert_eq!(values(&tensor), numbers(3..7));
    done(group.all_gather(&whole, &part));
    assert_eq!(values(&whole), numbers(5..9));
    done(group.reduce_scatter(&tensor, &whole));
    assert_eq!(values(&tensor), numbers(5..9));
    assert_eq!(group.take_sent_bytes(), 0);
}

/// A transfer for which one has to wait this long.
struct Slow(Duration);

impl Transfer for Slow {
    fn wait(self: Box<Self>) -> SumMade {
        let_pass(self.0, "a transfer takes time");
        Ok(None)
    }
}

#[test]
fn waits_are_added_up_until_they_are_taken() {
    let begin = Nanos::monotonic_now();
    let group = Observed::group(|_: &Tensor| Ok(Slow(Duration::from_millis(2))));
    for _ in 0..3 {
        done(group.all_reduce(&counting(0, 1, Kind::Float), Reduction::Sum));
    }
    let waited = group.take_waited();
    assert!(Nanos(6_000_000) <= waited && waited <= Nanos::monotonic_now() - begin, "{waited}");
    assert_eq!(group.take_waited(), Nanos::ZERO);
}

#[test]
fn many_collectives_are_under_way_at_once_and_each_knows_when_it_ended() {
    with_ranks(2, |group, _| {
        let tensors: Vec<_> = (0..20).map(|i| counting(i, 1000, Kind::Double)).collect();
        let begin = Nanos::monotonic_now();
        let sums = tensors.iter().map(|tensor| group.all_reduce(tensor, Reduction::Sum).unwrap());
        for work in sums.collect::<Vec<_>>().into_iter().rev() {
            let end = work.wait().unwrap().expect("Gloo tells");
            assert!(begin <= end && end <= Nanos::monotonic_now());
        }
        for (i, tensor) in tensors.iter().enumerate() {
            assert_eq!(tensor.double_value(&[7]), 2.0 * (i as f64 + 7.0));
        }
    });
}

#[test]
fn all_ranks_start_from_what_the_first_one_holds_whatever_its_layout() {
    let state = with_ranks(3, |group, _| {
        let start = f64::from(group.rank());
        let tensors = [
            channels_last(&Tensor::full([4, 3, 2, 2], start, FLOAT_CPU)).unwrap(),
            Tensor::full([5], start, FLOAT_CPU).set_requires_grad(true),
            Tensor::full([], start as i64, (Kind::Int64, Device::Cpu)),
        ];
        group.copy_from_first(tensors.iter()).unwrap();
        tensors.map(|tensor| (tensor.sum(Kind::Double).double_value(&[]), tensor.stride()))
    });
    for tensors in state {
        assert!(tensors.iter().all(|(sum, _)| *sum == 0.0), "{tensors:?}");
        assert_eq!(tensors[0].1, [12, 1, 6, 3], "channels-last, as before");
    }
}

#[test]
fn ranks_whose_peer_has_gone_do_not_wait_for_it() {
    for size in [2, 3, 4] {
        let errors = with_ranks(size, |group, _| {
            let tensor = counting(0, 1000, Kind::Float);
            done(group.all_reduce(&tensor, Reduction::Sum));
            if group.rank() == size - 1 {
                return None;
            }
            let sum = group.all_reduce(&tensor, Reduction::Sum);
            Some(sum.and_then(Work::wait).unwrap_err().to_string())
        });
        assert_eq!(errors.iter().flatten().count() as u32, size - 1);
        for error in errors.into_iter().flatten() {
            assert!(error.contains("127.0.0.1"), "it names the connection: {error}");
            let is_timeout =
                ["timed out", "timeout"].iter().any(|words| error.to_lowercase().contains(words));
            assert!(!is_timeout, "{error}");
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_waited_for_until_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let (begin, timeout) = (Instant::now(), Duration::from_millis(100));
    let met = meet(&folder.path().join("rendezvous"), 0, 2, timeout);
    assert!(begin.elapsed() >= timeout);
    let error = met.err().expect("the other rank does not come").to_string();
    assert!(error.to_lowercase().contains("timeout"), "{error}");
}

#[test]
fn a_file_that_was_met_in_before_is_refused() {
    let refusals = with_ranks(2, |group, file| {
        group.barrier().unwrap();
        // The last rank to leave removes the file, but the file of killed ranks stays.
        let left = file.with_extension(group.rank().to_string());
        fs::copy(&file, &left).unwrap();
        let refusal = meet(&left, group.rank(), 2, LONG).err().map(|error| error.to_string());
        group.barrier().unwrap();
        refusal.expect("the file is not new")
    });
    for (rank, refusal) in refusals.iter().enumerate() {
        assert!(refusal.contains(&format!("a rank {rank} has been here before")), "{refusal}");
    }
}

#[test]
fn a_tensor_with_gaps_in_memory_is_not_moved() {
    with_ranks(2, |group, _| {
        let columns = Tensor::ones([4, 4], FLOAT_CPU).narrow(1, 0, 2);
        let Err(error) = group.all_reduce(&columns, Reduction::Sum) else {
            panic!("it would be taken for what it is not")
        };
        assert!(error.to_string().contains("gaps in memory"), "{error}");
        group.barrier().unwrap();
    });
}

#[test]
fn no_other_machine_can_reach_a_rank() {
    with_ranks(2, |group, _| {
        let process = Process::myself().unwrap();
        let sockets: Vec<u64> = process
            .fd()
            .unwrap()
            .flatten()
            .filter_map(|fd| if let FDTarget::Socket(inode) = fd.target { Some(inode) } else { None })
            .collect();
        let tcp = process.tcp().unwrap().into_iter().chain(process.tcp6().unwrap());
        let own: Vec<_> = tcp.filter(|entry| sockets.contains(&entry.inode)).collect();
        assert!(!own.is_empty() && own.iter().all(|entry| entry.local_address.ip().is_loopback()), "{own:?}");
        group.barrier().unwrap();
    });
}
