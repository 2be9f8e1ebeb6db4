//! The parameters that are moved together.

use tch::{TchError, Tensor, no_grad};

use crate::{
    group::{Group, Work},
    nn::parameters::Entry,
    shim::{
        autograd::{clear_gradients, keep_gradient_in},
        storage,
    },
};

/// Shards begin at multiples of this number, so that the fused kernels process whole vectors of each.
const LINE: i64 = 16;

/// A part of a parameter in a shard: numbers in the order of the parameter's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// The full name of the parameter.
    pub(crate) parameter: String,
    /// The first of its numbers, and how many there are.
    pub(crate) first: i64,
    pub(crate) count: i64,
    /// The place of the first one in the shard.
    pub(crate) place: i64,
}

/// Parameters in one line of numbers, padded so that it can be cut into equal shards.
pub(super) struct Unit {
    members: Vec<Member>,
    rank: i64,
    /// The line of all parameters. Without memory while they are with other ranks.
    flat: Tensor,
    bytes: usize,
    /// The part of the line that this rank updates: its own memory if parameters are divided, else a view of `flat`.
    shard: Tensor,
    presence: Presence,
    /// The line of all gradients, from the first one of a pass until it is reduced.
    gradients: Option<Tensor>,
    /// Number of members that have their gradient in this pass.
    complete: usize,
}

struct Member {
    name: String,
    parameter: Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// The place of its first number in the line.
    first: i64,
    count: i64,
}

/// Whether the parameters of all ranks are here.
enum Presence {
    Here,
    Coming(Work),
    Away,
}

impl Unit {
    /// Moves parameters of one kind on one device into a line. If `divides`, all but the shard is given back.
    pub(super) fn new(members: &[&Entry], rank: u32, ranks: u32, divides: bool) -> Result<Self, TchError> {
        let mut first = 0;
        let members: Vec<Member> = members
            .iter()
            .map(|entry| {
                let (name, parameter) = (entry.name().to_owned(), entry.tensor().shallow_clone());
                let count = parameter.numel() as i64;
                let (shape, strides) = (parameter.size(), parameter.stride());
                let member = Member { name, parameter, shape, strides, first, count };
                first += count;
                member
            })
            .collect();
        let (rank, ranks) = (i64::from(rank), i64::from(ranks));
        let each = (first + ranks - 1) / ranks;
        let each = (each + LINE - 1) / LINE * LINE;
        let like = &members.first().expect("a unit has a parameter").parameter;
        let kind = like.f_kind()?;
        let flat = Tensor::f_zeros([each * ranks], (kind, like.device()))?;
        no_grad(|| {
            for member in &members {
                let mut place = member.place_in(&flat)?;
                place.f_copy_(&member.parameter)?;
                member.parameter.shallow_clone().f_set_data(&place)?;
            }
            Ok::<_, TchError>(())
        })?;
        let own = flat.f_narrow(0, rank * each, each)?;
        let shard = if divides { own.f_detach_copy()? } else { own };
        let bytes = (each * ranks) as usize * kind.elt_size_in_bytes();
        let mut unit = Self {
            members,
            rank,
            flat,
            bytes,
            shard,
            presence: Presence::Here,
            gradients: None,
            complete: 0,
        };
        if divides {
            unit.release()?;
        }
        Ok(unit)
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.members.iter().map(|member| &member.parameter)
    }

    pub(super) fn shard(&self) -> &Tensor {
        &self.shard
    }

    pub(super) fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// Bytes of the line.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the line while it has memory.
    #[cfg(test)]
    pub(super) fn gathered_bytes(&self) -> usize {
        if matches!(self.presence, Presence::Away) { 0 } else { self.bytes }
    }

    /// Bytes of the parameters that are in the shards of other ranks.
    pub(super) fn bytes_elsewhere(&self) -> u64 {
        let all: i64 = self.members.iter().map(|member| member.count).sum();
        let here: i64 = self.pieces().iter().map(|piece| piece.count).sum();
        (all - here) as u64 * self.flat.kind().elt_size_in_bytes() as u64
    }

    pub(super) fn tensors(&self) -> Vec<Tensor> {
        vec![self.flat.shallow_clone(), self.shard.shallow_clone()]
    }

    /// The parts of parameters in the shard.
    pub(super) fn pieces(&self) -> Vec<Shard> {
        let each = self.shard.numel() as i64;
        let (begin, end) = (self.rank * each, (self.rank + 1) * each);
        let piece = |member: &Member| {
            let (from, to) = (member.first.max(begin), (member.first + member.count).min(end));
            (from < to).then(|| Shard {
                parameter: member.name.clone(),
                first: from - member.first,
                count: to - from,
                place: from - begin,
            })
        };
        self.members.iter().filter_map(piece).collect()
    }

    /// A backward pass has added to the gradient of a member, which moves to its place in the line.
    pub(super) fn added(&mut self, member: usize) -> Result<(), TchError> {
        let line = self.gradients()?.shallow_clone();
        let place = self.members[member].place_in(&line)?;
        keep_gradient_in(&self.members[member].parameter, &place)?;
        self.complete += 1;
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete == self.members.len()
    }

    /// The line of gradients. It begins as zeros.
    pub(super) fn gradients(&mut self) -> Result<&Tensor, TchError> {
        if self.gradients.is_none() {
            let options = (self.flat.f_kind()?, self.flat.device());
            self.gradients = Some(Tensor::f_zeros([self.flat.numel() as i64], options)?);
        }
        Ok(self.gradients.as_ref().expect("it was just made"))
    }

    /// Adds the sum over ranks of the shard's gradients, and gives those of all members back.
    pub(super) fn reduced(&mut self, part: &Tensor) -> Result<(), TchError> {
        let mut sum = self.shard.f_grad()?;
        if sum.defined() {
            no_grad(|| sum.f_add_(part).map(drop))?;
        } else {
            keep_gradient_in(&self.shard, part)?;
        }
        let parameters: Vec<_> = self.parameters().map(Tensor::shallow_clone).collect();
        clear_gradients(&parameters)?;
        // A thread of Gloo may keep the line for longer.
        self.gradients.take().map_or(Ok(()), |line| storage::free(&line))
    }

    /// A backward pass has ended.
    pub(super) fn end_pass(&mut self) {
        self.complete = 0;
    }

    /// Begins to gather the parameters unless they are here or on their way.
    pub(super) fn expect(&mut self, group: &Group) -> Result<(), TchError> {
        if matches!(self.presence, Presence::Away) {
            storage::allocate(&self.flat, self.bytes)?;
            self.presence = Presence::Coming(group.all_gather(&self.flat, &self.shard)?);
        }
        Ok(())
    }

    /// Waits for the parameters, which are on their way.
    pub(super) fn need(&mut self) -> Result<(), TchError> {
        match std::mem::replace(&mut self.presence, Presence::Here) {
            Presence::Coming(work) => work.wait().map(drop),
            Presence::Here => Ok(()),
            Presence::Away => unreachable!("they were asked for"),
        }
    }

    /// Gives the memory of the line back.
    pub(super) fn release(&mut self) -> Result<(), TchError> {
        match std::mem::replace(&mut self.presence, Presence::Away) {
            Presence::Away => return Ok(()),
            Presence::Coming(work) => drop(work.wait()?),
            Presence::Here => {}
        }
        storage::free(&self.flat)
    }
}

impl Member {
    /// The view of the member in a line like that of the parameters.
    fn place_in(&self, line: &Tensor) -> Result<Tensor, TchError> {
        line.f_as_strided(&self.shape, &self.strides, self.first)
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::{
        nn::{init::Init, parameters::Parameters},
        shim::storage::Storage,
    };

    #[test]
    fn a_reduced_line_has_no_memory_whoever_keeps_it() {
        let mut parameters = Parameters::new(Device::Cpu);
        let _weight = parameters.root().parameter("weight", &[40], Init::ONES).unwrap();
        let entries: Vec<_> = parameters.trainable("").collect();
        let mut unit = Unit::new(&entries, 0, 2, false).unwrap();
        // As a thread of Gloo does.
        let kept = unit.gradients().unwrap().shallow_clone();
        assert_eq!(Storage::of(&kept).unwrap().0.bytes, 4 * 64, "40 numbers, in two shards of 32");
        for sum in [3.0, 6.0] {
            unit.reduced(&Tensor::full([32], 3.0, (Kind::Float, Device::Cpu))).unwrap();
            assert_eq!(unit.shard().grad().double_value(&[31]), sum);
        }
        assert_eq!(Storage::of(&kept).unwrap().0.bytes, 0);
    }
}
