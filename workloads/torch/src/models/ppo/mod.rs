//! Proximal policy optimisation (Schulman et al., 2017) in CartPole-v1, with the networks, names and default settings
//! of Stable-Baselines3: a step is one minibatch update. [`rollouts`] says how the interactions are spread over steps.

mod rollouts;

use std::rc::Rc;

use schema::catalog::{self, Optimizer};
use tch::{Device, Kind, TchError, Tensor};

use self::rollouts::{Columns, Rollouts};
use crate::{
    environments::CartPole,
    nn::{
        dense::Linear,
        init::Init,
        loss::mean_squared_error,
        parameters::{Parameters, Scope},
        perceptron::Perceptron,
        precision::at_least_fp32,
    },
    workload::{Batch, Block, DataStream, Update, Workload},
};

/// Both networks, and how they are trained together.
pub(super) struct Ppo {
    parameters: Parameters,
    networks: Rc<ActorCritic>,
    /// Interactions of one policy.
    rollout: usize,
    epochs: usize,
    update: [Update; 1],
}

/// The policy and the value of an observation; they share nothing.
struct ActorCritic {
    /// Gives the logits of the actions.
    policy: Perceptron,
    /// Gives the discounted rewards to come.
    value: Perceptron,
}

/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &catalog::Ppo,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Ppo, TchError> {
    let catalog::Ppo { hidden, rollout, epochs } = model;
    let mut widths = vec![CartPole::OBSERVATION as i64];
    widths.extend(hidden.iter().copied().map(i64::from));
    let mut root = parameters.root();
    let mut extractor = root.part("mlp_extractor");
    let mut policy = hidden_layers(extractor.part("policy_net"), &widths)?;
    let mut value = hidden_layers(extractor.part("value_net"), &widths)?;

    let width = *widths.last().expect("the observation's width is there");
    // Small logits: at first all actions are nearly as likely.
    let (even, unit) = (Init::Orthogonal { gain: 0.01 }, Init::Orthogonal { gain: 1.0 });
    policy.push(Linear::with_init(root.part("action_net"), width, CartPole::ACTIONS as i64, even)?);
    value.push(Linear::with_init(root.part("value_net"), width, 1, unit)?);
    let networks = ActorCritic { policy: Perceptron::new(policy, tanh), value: Perceptron::new(value, tanh) };
    Ok(Ppo {
        parameters,
        networks: Rc::new(networks),
        rollout: *rollout as usize,
        epochs: *epochs as usize,
        update: [Update::of_everything(optimizer)],
    })
}

fn hidden_layers(mut scope: Scope<'_>, widths: &[i64]) -> Result<Vec<Linear>, TchError> {
    let init = Init::Orthogonal { gain: std::f64::consts::SQRT_2 };
    let pairs = widths.windows(2).enumerate();
    pairs.map(|(index, pair)| Linear::with_init(scope.part(2 * index), pair[0], pair[1], init)).collect()
}

fn tanh(mut activation: Tensor) -> Result<Tensor, TchError> {
    activation.f_tanh_()
}

impl ActorCritic {
    /// The kind of numbers that it computes with.
    fn kind(&self) -> Kind {
        self.policy.kind()
    }

    /// Logits `[samples, actions]` and values `[samples]`, in fp32 at least, also where autocast computed them in bf16.
    fn forward(&self, observations: &Tensor) -> Result<(Tensor, Tensor), TchError> {
        let logits = at_least_fp32(&self.policy.forward(observations)?)?;
        let values = at_least_fp32(&self.value.forward(observations)?)?;
        Ok((logits, values.f_squeeze_dim(1)?))
    }

    /// A copy that acts while this one learns, and its registry. It is no part of the model.
    fn frozen(&self, mut unsaved: Parameters) -> Result<(Self, Parameters), TchError> {
        let mut root = unsaved.root();
        let policy = self.policy.frozen(root.part("policy"))?;
        let value = self.value.frozen(root.part("value"))?;
        Ok((Self { policy, value }, unsaved))
    }

    /// Makes a frozen one equal to `leader`.
    fn become_equal(&self, leader: &Self) -> Result<(), TchError> {
        self.policy.follow(&leader.policy, 1.0)?;
        self.value.follow(&leader.value, 1.0)
    }
}

impl Workload for Ppo {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.update
    }

    /// The clipped surrogate objective and the error of the values, equation 9 of the paper without its bonus for
    /// entropy, whose weight is 0 by default. Advantages are normalised over the micro-batch, but in an exact model, where
    /// no sample depends on others.
    ///
    /// It falls as the values learn: normalised advantages leave the first term near zero.
    fn loss(&self, _update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        const CLIP: f64 = 0.2;
        const VALUE_WEIGHT: f64 = 0.5;
        let (logits, values) = self.networks.forward(&batch.inputs)?;
        let Columns { actions, log_probabilities, advantages, returns } = Columns::of(&batch.targets)?;
        let chosen = actions.f_to_kind(Kind::Int64)?.f_unsqueeze(1)?;
        let now = logits.f_log_softmax(-1, None)?.f_gather(1, &chosen, false)?.f_squeeze_dim(1)?;

        let advantages = if self.parameters.is_exact() { advantages } else { normalised(&advantages)? };
        let ratio = now.f_sub(&log_probabilities)?.f_exp()?;
        let clipped = ratio.f_clamp(1.0 - CLIP, 1.0 + CLIP)?;
        let surrogate = ratio.f_mul(&advantages)?.f_minimum(&clipped.f_mul(&advantages)?)?.f_mean(None)?;
        let value_loss = mean_squared_error(&values, &returns)?;
        value_loss.f_mul_scalar(VALUE_WEIGHT)?.f_sub(&surrogate)
    }

    fn gradient_norm_max(&self, _update: usize) -> Option<f64> {
        Some(0.5)
    }

    fn experience(&self, seed: u64, device: Device) -> anyhow::Result<Option<Box<dyn DataStream>>> {
        let (networks, unsaved) = (Rc::clone(&self.networks), self.parameters.beside());
        Ok(Some(Box::new(Rollouts::new(networks, unsaved, self.rollout, self.epochs, seed, device)?)))
    }
}

/// With mean 0 and standard deviation 1; a single one, which has no deviation, stays.
fn normalised(advantages: &Tensor) -> Result<Tensor, TchError> {
    const EPSILON: f64 = 1e-8;
    if advantages.numel() == 1 {
        return Ok(advantages.shallow_clone());
    }
    let deviation = advantages.f_std(true)?.f_add_scalar(EPSILON)?;
    advantages.f_sub(&advantages.f_mean(None)?)?.f_div(&deviation)
}
