//! What the ranks of a job do together in one update: one place that knows which of it a plan has.

use tch::{Device, TchError, Tensor};

use crate::{
    optimizer::GradientNorm,
    pipeline::{Cut, Passage},
    step::Execution,
    synchronize::{GradientSync, Synchronized},
    ties::{Tied, Ties},
    workload::Workload,
    world::World,
    zero::{Shard, Sharded, Stage},
};

/// The part of one update that concerns several ranks.
pub(crate) struct Parallel {
    /// The tensors that the optimizer of this rank moves.
    updated: Vec<Tensor>,
    /// The parameters whose gradients are summed over data-parallel ranks alone.
    untied: Vec<Tensor>,
    gradients: Gradients,
    ties: Option<Ties>,
    passage: Option<Passage>,
    norm: GradientNorm,
}

/// How data-parallel ranks get the gradients of the whole batch.
enum Gradients {
    /// There is one data-parallel rank.
    Own,
    /// All ranks get all of them. Absent while the job is paused.
    Summed(Option<GradientSync>),
    /// Each rank gets those of its shard.
    Sharded(Sharded),
}

impl Parallel {
    /// The part of update number `index` of `workload`. ZeRO moves the parameters.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(
        workload: &mut dyn Workload,
        index: usize,
        execution: &Execution,
        world: &World,
        cut: Option<&Cut>,
    ) -> Result<Self, TchError> {
        let prefix = workload.updates()[index].parameter_prefix;
        let stages_of = |links: &[usize]| -> Vec<u32> {
            let stages = cut.map_or(&[][..], |cut| &cut.stages);
            let uses = |stage: &usize| links.iter().any(|link| stages[*stage].contains(link));
            (0..stages.len()).filter(uses).map(|stage| stage as u32).collect()
        };
        let (mut updated, mut untied, mut tied, mut counted) = (vec![], vec![], vec![], vec![]);
        for entry in workload.parameters().trainable(prefix) {
            let (parameter, stages) = (entry.tensor().shallow_clone(), stages_of(entry.links()));
            let is_first = stages.first().is_none_or(|first| *first == world.at.stage);
            counted.push(is_first && (entry.slice().is_some() || world.at.tensor == 0));
            updated.push(parameter.shallow_clone());
            if stages.len() > 1 {
                tied.push(Tied { parameter, stages });
            } else {
                untied.push(parameter);
            }
        }
        let gradients = match (world.mesh.data, Stage::of(execution.zero)) {
            (1, _) => Gradients::Own,
            (_, None) => Gradients::Summed(Some(GradientSync::new(&untied, world.data.clone())?)),
            (_, Some(stage)) => {
                let (data, gather) = (world.data.clone(), world.gather.clone());
                untied.clear();
                let sharded = Sharded::new(stage, workload.parameters(), data, gather)?;
                if let Some(ends) = sharded.ends() {
                    let chain = workload.supervised_mut().expect("such a plan is refused for others");
                    chain.chain_mut().set_ends(ends);
                }
                updated = sharded.shards();
                Gradients::Sharded(sharded)
            }
        };
        let norm = match &gradients {
            Gradients::Sharded(_) => {
                let counted = vec![true; updated.len()];
                GradientNorm::Shared { all: world.all.clone(), counted, copies: 1 }
            }
            _ if world.mesh.tensor * world.mesh.stages == 1 => GradientNorm::Own,
            _ => GradientNorm::Shared { all: world.all.clone(), counted, copies: world.mesh.data },
        };
        let ties = (!tied.is_empty()).then(|| Ties::new(tied, world.ties.clone(), world.data.clone()));
        let mut parallel = Self { updated, untied, gradients, ties, passage: None, norm };
        parallel.set_cut(cut, world, execution.device);
        Ok(parallel)
    }

    /// Passes the carries of this cut between stages from here on.
    pub(crate) fn set_cut(&mut self, cut: Option<&Cut>, world: &World, device: Device) {
        self.passage = cut.map(|cut| {
            let (forward, backward) = (world.forward.clone(), world.backward.clone());
            Passage::new(cut, world.at.stage as usize, forward, backward, device)
        });
    }

    /// The tensors that the optimizer of this rank moves: all of its parameters in their order, or its shards.
    pub(crate) fn updated(&self) -> Vec<Tensor> {
        self.updated.iter().map(Tensor::shallow_clone).collect()
    }

    /// The pieces of parameters in each tensor that the optimizer moves; `None` if these are parameters.
    pub(crate) fn pieces(&self) -> Option<Vec<Vec<Shard>>> {
        if let Gradients::Sharded(sharded) = &self.gradients { Some(sharded.pieces()) } else { None }
    }

    /// Whether a rank keeps its shards of the parameters alone between steps.
    pub(crate) fn divides_parameters(&self) -> bool {
        if let Gradients::Sharded(sharded) = &self.gradients { sharded.divides_parameters() } else { false }
    }

    /// The tensors that parameters lie in, if they are divided.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        if let Gradients::Sharded(sharded) = &self.gradients { sharded.tensors() } else { Vec::new() }
    }

    /// See [`Sharded::most_gathered`].
    #[cfg(test)]
    pub(crate) fn most_gathered(&self) -> Option<(usize, Vec<usize>)> {
        if let Gradients::Sharded(sharded) = &self.gradients { Some(sharded.most_gathered()) } else { None }
    }

    /// Bytes of the parameters of this update that other ranks hold between steps.
    pub(crate) fn bytes_elsewhere(&self) -> u64 {
        if let Gradients::Sharded(sharded) = &self.gradients { sharded.bytes_elsewhere() } else { 0 }
    }

    /// Whether parameters are gathered.
    pub(crate) fn gathers(&self) -> bool {
        matches!(self.gradients, Gradients::Sharded(_))
    }

    /// The ends of this stage, if the model is cut.
    pub(crate) fn passage(&mut self) -> Option<&mut Passage> {
        self.passage.as_mut()
    }

    /// How the norm of all gradients is found.
    pub(crate) fn norm(&self) -> &GradientNorm {
        &self.norm
    }

    /// Frees the memory in which small gradients are summed.
    pub(crate) fn drop_buckets(&mut self) {
        if let Gradients::Summed(sync) = &mut self.gradients {
            *sync = None;
        }
    }

    /// Allocates that memory again.
    pub(crate) fn make_buckets(&mut self, world: &World) -> Result<(), TchError> {
        if let Gradients::Summed(sync @ None) = &mut self.gradients {
            *sync = Some(GradientSync::new(&self.untied, world.data.clone())?);
        }
        Ok(())
    }

    /// To be called before each backward pass; `is_last` says that gradients will be complete after it.
    pub(crate) fn before_backward(&mut self, is_last: bool) {
        match &mut self.gradients {
            Gradients::Own => {}
            Gradients::Summed(sync) => {
                sync.as_mut().expect("a paused job takes no steps").before_backward(is_last);
            }
            Gradients::Sharded(sharded) => sharded.before_backward(is_last),
        }
    }

    /// To be called after each backward pass.
    pub(crate) fn after_backward(&mut self) -> Result<(), TchError> {
        if let Gradients::Sharded(sharded) = &mut self.gradients { sharded.after_backward() } else { Ok(()) }
    }

    /// To be called after the last backward pass: the tensors that the optimizer moves have their gradients then. `None` if
    /// no other rank has gradients of the same parameters.
    pub(crate) fn finish(&mut self) -> Result<Option<Synchronized>, TchError> {
        let synchronized = match &mut self.gradients {
            Gradients::Own => None,
            Gradients::Summed(sync) => Some(sync.as_mut().expect("a paused job takes no steps").finish()?),
            Gradients::Sharded(sharded) => Some(sharded.finish()),
        };
        let Some(ties) = &self.ties else { return Ok(synchronized) };
        ties.sum()?;
        // The sum over stages has no time of its own.
        Ok(synchronized.or(Some(Synchronized { total: None })))
    }

    /// To be called when the optimizer has moved its tensors.
    pub(crate) fn after_update(&mut self) -> Result<(), TchError> {
        if let Gradients::Sharded(sharded) = &mut self.gradients { sharded.updated() } else { Ok(()) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
