//! Pausing: a job leaves its device to another one, and comes back.

use std::collections::HashMap;

use procfs::process::Process;
use schema::{units::Nanos, wire::FailureKind};
use tch::{Device, TchError, Tensor, no_grad};

use crate::{
    failure::Failure,
    shim::{
        memory::{give_back_unused, tensor_memory},
        storage::Storage,
        transfer::{to_device, to_host, wait_for},
    },
    step::Trainer,
};

/// A job that has left its device.
pub struct Paused {
    device: Device,
    /// Handles of all its tensors, which are now in host memory.
    away: Vec<Tensor>,
}

/// The effect of a pause.
pub struct Left {
    pub dur: Nanos,
    /// Memory that others can use now: on a GPU the memory that its allocator returned to CUDA; on a CPU,
    /// where tensors are in host memory already, the amount by which the process shrank.
    pub bytes_freed: u64,
}

impl Paused {
    /// Moves everything that `trainer` keeps on its device to host memory, and releases the freed memory.
    /// Memory of CUDA and its libraries, above all the context, stays.
    ///
    /// The job must be at rest, and no step can be issued before [`Paused::resume`].
    ///
    /// # Errors
    /// Out of host memory, or an error of the device.
    pub fn new(trainer: &mut Trainer) -> Result<(Self, Left), Failure> {
        let begin = Nanos::monotonic_now();
        let device = trainer.device();
        let before = bytes_taken(device)?;
        trainer.drop_buckets();
        let away = if device == Device::Cpu {
            Vec::new()
        } else {
            trainer.tensors().into_iter().filter(|tensor| tensor.device() == device).collect()
        };
        // The copy is page-locked, and PyTorch keeps that memory for the next pause, because allocating it
        // is the slow part.
        relocate(&away, to_host)?;
        wait_for(device)?;
        give_back_unused(device)?;
        let bytes_freed = before.saturating_sub(bytes_taken(device)?);
        Ok((Self { device, away }, Left { dur: Nanos::monotonic_now() - begin, bytes_freed }))
    }

    /// Moves everything back and returns the duration.
    ///
    /// # Errors
    /// Out of the device's memory, or another error of it.
    pub fn resume(self, trainer: &mut Trainer) -> Result<Nanos, Failure> {
        let begin = Nanos::monotonic_now();
        let Self { device, away } = self;
        relocate(&away, |memory| to_device(memory.shallow_clone(), device))?;
        trainer.make_buckets()?;
        wait_for(device)?;
        Ok(Nanos::monotonic_now() - begin)
    }
}

/// Bytes that the process has allocated of the memory for tensors of `device`.
fn bytes_taken(device: Device) -> Result<u64, Failure> {
    match tensor_memory(device)?.reserved_bytes {
        Some(reserved) => Ok(reserved),
        None => resident_bytes(),
    }
}

fn resident_bytes() -> Result<u64, Failure> {
    let resident = Process::myself().and_then(|process| process.statm()).map(|pages| pages.resident);
    let pages = resident.map_err(|error| Failure::new(FailureKind::Internal, format!("/proc: {error}")))?;
    Ok(pages * procfs::page_size())
}

/// Moves each of `tensors` to other memory, which `copy` makes from its whole storage as a line of numbers.
///
/// All handles of a tensor see it there. Layouts stay, and so does sharing: tensors that shared a storage,
/// as tied weights or the weights of a recurrent layer, share it again, and it is copied once. `tensors`
/// should contain all tensors of a storage, because the storage is freed when no tensor is left in it.
fn relocate(tensors: &[Tensor], copy: impl Fn(&Tensor) -> Result<Tensor, TchError>) -> Result<(), TchError> {
    // All storages are looked up before the first move, because a tensor may occur twice, and freed memory
    // may be reused.
    let storages = tensors.iter().map(Storage::of).collect::<Result<Vec<_>, _>>()?;
    let mut copies: HashMap<Storage, Tensor> = HashMap::new();
    no_grad(|| {
        for (tensor, (storage, first)) in tensors.iter().zip(storages) {
            // A tensor that is with other ranks has no memory here.
            if storage.bytes == 0 {
                continue;
            }
            let kind = tensor.f_kind()?;
            let copied = match copies.get(&storage) {
                Some(copied) => copied.shallow_clone(),
                None => {
                    let numbers = (storage.bytes / kind.elt_size_in_bytes()) as i64;
                    let copied = copy(&tensor.f_detach()?.f_as_strided([numbers], [1], 0)?)?;
                    copies.insert(storage, copied.shallow_clone());
                    copied
                }
            };
            let moved = copied.f_view_dtype(kind)?.f_as_strided(tensor.size(), tensor.stride(), first)?;
            tensor.shallow_clone().f_set_data(&moved)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;
    use std::thread;

    use schema::{catalog::Optimizer, mesh::Mesh};

    use crate::{nn::channels_last, parallel::tests::Case, step::tests::trainer_of, world::World};

    /// Other memory of the CPU, as that of a device is for a job on one.
    fn copy(memory: &Tensor) -> Result<Tensor, TchError> {
        const NON_BLOCKING: bool = false;
        const ALSO_WHERE_IT_IS: bool = true;
        memory.f_to_device_(Device::Cpu, memory.f_kind()?, NON_BLOCKING, ALSO_WHERE_IT_IS)
    }

    fn addresses(tensors: &[Tensor]) -> Vec<usize> {
        tensors.iter().map(|tensor| tensor.data_ptr() as usize).collect()
    }

    #[test]
    fn tensors_move_with_their_handles_layouts_and_common_memory() {
        let numbers = |shape: &[i64]| {
            let count = shape.iter().product::<i64>();
            Tensor::arange(count, (Kind::Float, Device::Cpu)).view(shape).set_requires_grad(true)
        };
        let weight = channels_last(&numbers(&[4, 3, 2, 2])).unwrap().detach().set_requires_grad(true);
        let line = numbers(&[10]).detach();
        // The weights of a recurrent layer are an example, which cuDNN needs in one piece.
        let parts = [line.narrow(0, 0, 4), line.narrow(0, 4, 6).view([2, 3])].map(|part| part.detach());
        let table = Tensor::ones([3, 5], (Kind::Bool, Device::Cpu));
        let scalar = Tensor::from(7i64);
        let [first, second] = &parts;
        let tensors = [&weight, first, second, &table, &scalar, &weight].map(Tensor::shallow_clone);
        let (before, values) = (addresses(&tensors), tensors.each_ref().map(|tensor| tensor.detach().copy()));
        let strides = tensors.each_ref().map(Tensor::stride);

        let mut copied = Vec::new();
        let bytes = std::cell::RefCell::new(&mut copied);
        relocate(&tensors, |memory| {
            bytes.borrow_mut().push(memory.numel() * memory.kind().elt_size_in_bytes());
            copy(memory)
        })
        .unwrap();

        assert_eq!(copied, [4 * 48, 4 * 10, 15, 8], "each piece of memory once");
        assert!(addresses(&tensors).iter().zip(&before).all(|(now, before)| now != before));
        for (tensor, value) in tensors.iter().zip(&values) {
            assert_eq!((tensor, tensor.kind()), (value, value.kind()));
        }
        assert_eq!(tensors.each_ref().map(Tensor::stride), strides);
        assert_eq!(weight.data_ptr(), tensors[0].data_ptr(), "an older handle sees it");
        assert_eq!(tensors[0].data_ptr(), tensors[5].data_ptr());
        assert!(weight.requires_grad() && weight.is_leaf());
        assert_eq!(
            second.data_ptr() as usize,
            first.data_ptr() as usize + 4 * 4,
            "they lie side by side again"
        );
    }

    #[test]
    fn a_model_whose_tensors_moved_trains_on_to_the_bit() {
        // A tied weight, a table, layouts of convolutions and buffers. None has dropout.
        for name in ["gpt2-mini", "llama-mini", "resnet18-mini"] {
            let mut trainer = trainer_of(name, 2);
            let initial: Vec<_> = trainer.tensors().iter().map(|tensor| tensor.detach().copy()).collect();
            let train = |trainer: &mut Trainer, steps: usize| {
                let step = |_| {
                    trainer.issue().unwrap();
                    trainer.completed(0).unwrap().unwrap().loss
                };
                (0..steps).map(step).collect::<Vec<f64>>()
            };
            let whole = train(&mut trainer, 4);

            for (tensor, initial) in trainer.tensors().iter().zip(&initial) {
                no_grad(|| tensor.shallow_clone().copy_(initial));
            }
            trainer.data_mut().seek(0).unwrap();
            let mut again = train(&mut trainer, 2);
            let before = addresses(&trainer.tensors());
            relocate(&trainer.tensors(), copy).unwrap();
            let after = addresses(&trainer.tensors());
            assert!(after.iter().zip(&before).all(|(after, before)| after != before), "{name}");
            again.extend(train(&mut trainer, 2));
            assert_eq!(again, whole, "{name}");
        }
    }

    /// Under SGD a constant factor in the gradients after a pause changes losses as much as one in the rate does.
    fn sgd(learning_rate: f64) -> Optimizer {
        Optimizer::Sgd { learning_rate, momentum: 0.9, weight_decay: 1e-4 }
    }

    /// The loss of a job in each of four steps, between which every rank is paused and its tensors are moved.
    fn losses_with_a_pause(case: Case<'_>) -> Vec<f64> {
        let rank = |world| {
            tch::set_num_threads(1);
            let mut trainer = case.trainer(world);
            let step = |trainer: &mut Trainer| {
                trainer.issue().unwrap();
                trainer.completed(0).unwrap().unwrap().loss
            };
            let mut losses: Vec<f64> = (0..2).map(|_| step(&mut trainer)).collect();
            let (paused, _) = Paused::new(&mut trainer).unwrap();
            relocate(&trainer.tensors(), copy).unwrap();
            paused.resume(&mut trainer).unwrap();
            losses.extend((0..2).map(|_| step(&mut trainer)));
            losses
        };
        let rank = &rank;
        let of_ranks: Vec<Vec<f64>> = thread::scope(|scope| {
            let worlds = World::threads(Mesh::of(&case.plan)).into_iter();
            let ranks: Vec<_> = worlds.map(|world| scope.spawn(move || rank(world))).collect();
            ranks.into_iter().map(|rank| rank.join().expect("its reason is above")).collect()
        });
        let with_loss: Vec<_> = of_ranks.iter().filter(|losses| !losses[0].is_nan()).collect();
        let mean =
            |step: usize| with_loss.iter().map(|losses| losses[step]).sum::<f64>() / with_loss.len() as f64;
        (0..4).map(mean).collect()
    }

    #[test]
    fn ranks_whose_tensors_moved_train_on_as_one_rank_does() {
        let case = |plan: &str, optimizer| {
            let plan = plan.parse().expect("canonical");
            Case { model: "gpt2", optimizer, plan, is_exact: true, is_clipped: false }
        };
        let apart = |ours: &[f64], expected: &[f64]| {
            assert_eq!(ours.len(), expected.len());
            ours.iter().zip(expected).map(|(ours, expected)| (ours - expected).abs()).fold(0.0, f64::max)
        };
        let expected = case("dp1", sgd(0.02)).losses(4);
        let doubled = apart(&case("dp1", sgd(0.04)).losses(4), &expected);
        assert!(doubled > 1e-3, "gradients that are twice as large show: {doubled}");
        for plan in ["dp1", "dp2", "dp2-ga2", "dp2-zero1", "dp2-zero2-ga2", "dp2-zero3-gc", "tp2", "pp2-ga2"]
        {
            let apart = apart(&losses_with_a_pause(case(plan, sgd(0.02))), &expected);
            assert!(apart < 1e-9, "{plan}: {apart}");
        }
    }

    #[test]
    fn pausing_on_a_cpu_moves_nothing() {
        let mut trainer = trainer_of("neumf", 2);
        let before = addresses(&trainer.tensors());
        let (paused, left) = Paused::new(&mut trainer).unwrap();
        assert!(left.dur.0 > 0);
        assert!(paused.resume(&mut trainer).unwrap().0 > 0);
        assert_eq!(addresses(&trainer.tensors()), before);
    }
}
