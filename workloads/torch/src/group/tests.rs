//! Ranks as threads of one process, each with its own handle on the group, connected by real sockets.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use procfs::process::{FDTarget, Process};
use schema::units::Nanos;
use tch::{Kind, kind::FLOAT_CPU};

use super::*;
use crate::nn::channels_last;

/// The longest wait for a rank that does not come.
const TIMEOUT: Duration = Duration::from_secs(60);

fn meet(rendezvous: &Path, rank: u32, size: u32, timeout: Duration) -> Result<Group, TchError> {
    Group::meet(rendezvous, rank, size, Collectives::Gloo, Device::Cpu, timeout)
}

/// The results of `size` ranks in order, and the file in which they met.
fn with_ranks<T: Send>(size: u32, of_rank: impl Fn(Group, PathBuf) -> T + Sync) -> Vec<T> {
    let folder = tempfile::tempdir().unwrap();
    let (file, of_rank) = (&folder.path().join("rendezvous"), &of_rank);
    thread::scope(|scope| {
        let rank =
            |rank| scope.spawn(move || of_rank(meet(file, rank, size, TIMEOUT).unwrap(), file.clone()));
        let ranks: Vec<_> = (0..size).map(rank).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
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
    for size in [2, 3, 4] {
        with_ranks(size, |group, _| {
            let rank = group.rank();
            for kind in [Kind::Float, Kind::Double, Kind::BFloat16] {
                let context = format!("rank {rank} of {size}, {kind:?}");
                let ranks_sum: u32 = (0..size).sum();

                let tensor = counting(10 * rank, 5, kind);
                done(group.all_reduce_sum(&tensor));
                assert_eq!(values(&tensor), numbers((0..5).map(|i| size * i + 10 * ranks_sum)), "{context}");

                let tensor = counting(10 * rank, 3, kind);
                done(group.broadcast(&tensor, size - 1));
                assert_eq!(values(&tensor), numbers((0..3).map(|i| 10 * (size - 1) + i)), "{context}");

                let whole = Tensor::zeros([i64::from(2 * size)], (kind, Device::Cpu));
                done(group.all_gather(&whole, &counting(2 * rank, 2, kind)));
                assert_eq!(values(&whole), numbers(0..2 * size), "{context}");

                let part = Tensor::zeros([2], (kind, Device::Cpu));
                done(group.reduce_scatter_sum(&part, &counting(rank, 2 * size, kind)));
                let sum = |i| size * (2 * rank + i) + ranks_sum;
                assert_eq!(values(&part), numbers([sum(0), sum(1)]), "{context}");

                // Each rank sends to the next one, the second of two tensors first.
                let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
                let sent = [counting(rank, 4, kind), counting(20 + rank, 4, kind)];
                let received = [0, 1].map(|_| Tensor::zeros([4], (kind, Device::Cpu)));
                let sending = [1, 0].map(|tag| group.send(&sent[tag], next, tag as u32).unwrap());
                for tag in [0, 1] {
                    done(group.recv(&received[tag], previous, tag as u32));
                    let first = 20 * tag as u32 + previous;
                    assert_eq!(values(&received[tag]), numbers(first..first + 4), "{context}");
                }
                sending.into_iter().for_each(|work| work.wait().unwrap());
                group.barrier().unwrap();
            }
        });
    }
}

#[test]
fn many_collectives_are_under_way_at_once_and_each_knows_when_it_ended() {
    with_ranks(2, |group, _| {
        let tensors: Vec<_> = (0..20).map(|i| counting(i, 1000, Kind::Double)).collect();
        let begin = Nanos::monotonic_now();
        let under_way: Vec<_> = tensors.iter().map(|tensor| group.all_reduce_sum(tensor).unwrap()).collect();
        for work in under_way.into_iter().rev() {
            while !work.is_done() {
                thread::yield_now();
            }
            let end = work.finished_at().expect("Gloo tells");
            assert!(begin <= end && end <= Nanos::monotonic_now());
            work.wait().unwrap();
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
        let waited = with_ranks(size, |group, _| {
            let tensor = counting(0, 1000, Kind::Float);
            done(group.all_reduce_sum(&tensor));
            let begin = Nanos::monotonic_now();
            if group.rank() == size - 1 {
                return None;
            }
            let error = group.all_reduce_sum(&tensor).and_then(|work| work.wait()).unwrap_err();
            Some((error.to_string(), Nanos::monotonic_now() - begin))
        });
        assert_eq!(waited.iter().flatten().count() as u32, size - 1);
        for (error, waited) in waited.into_iter().flatten() {
            assert!(waited < Nanos(5 * Nanos::SECOND.0), "{waited}: {error}");
            assert!(error.contains("127.0.0.1"), "it names the connection: {error}");
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_waited_for_until_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let met = meet(&folder.path().join("rendezvous"), 0, 2, Duration::from_millis(100));
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
        let refusal = meet(&left, group.rank(), 2, TIMEOUT).err().map(|error| error.to_string());
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
        let Err(error) = group.all_reduce_sum(&columns) else {
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
