"""PPO (Schulman et al., 2017) in CartPole-v1, with the networks and names of Stable-Baselines3.

As in torch-worker, the next rollout is made during the updates on this one, with some interactions per update.
"""

import copy
import math
from typing import Iterator

import numpy as np
import torch
from environments import CartPole
from torch import nn
from torch.nn import functional as F
from wyrand import Rng

from .reference import Batch, Reference, Update

DISCOUNT = 0.99
LAMBDA = 0.95
OBSERVATION = 4
ACTIONS = 2


class Model(Reference):
    def __init__(self, hidden: list[int], rollout: int, epochs: int):
        super().__init__()
        self.rollout, self.epochs = rollout, epochs
        self.mlp_extractor = nn.ModuleDict({"policy_net": hidden_layers(hidden), "value_net": hidden_layers(hidden)})
        self.action_net = nn.Linear(hidden[-1], ACTIONS)
        self.value_net = nn.Linear(hidden[-1], 1)

    def updates(self) -> list[Update]:
        return [Update(self, self.loss, gradient_norm_max=0.5)]

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.action_net(self.mlp_extractor["policy_net"](observations))
        values = self.value_net(self.mlp_extractor["value_net"](observations))
        return logits.float(), values.float().squeeze(1)

    def loss(self, observations: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits, values = self(observations)
        actions, log_probabilities, advantages, returns = targets.unbind(1)
        now = F.log_softmax(logits, -1).gather(1, actions.long().unsqueeze(1)).squeeze(1)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (now - log_probabilities).exp()
        surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        return 0.5 * F.mse_loss(values, returns) - surrogate

    def experience(self, seed: int, samples: int) -> Iterator[Batch]:
        if self.rollout % samples != 0:
            raise SystemExit(f"a rollout of {self.rollout} cannot be cut into batches of {samples}")
        return Rollouts(self, seed).batches(samples)


def hidden_layers(widths: list[int]) -> nn.Sequential:
    layers = []
    for inputs, outputs in zip([OBSERVATION, *widths], widths):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers)


class Rollouts:
    """Interactions of a policy that becomes a copy of the learning one with each rollout."""

    def __init__(self, model: Model, seed: int):
        self.model, self.behaviour = model, copy.deepcopy(model)
        self.device = next(model.parameters()).device
        self.rng = Rng(seed)
        self.environment = CartPole(self.rng)
        # For each interaction: observation, action, log probability, value; and the outcome.
        self.rows: list[tuple] = []
        self.outcomes: list[tuple[float, bool]] = []

    def batches(self, samples: int) -> Iterator[Batch]:
        length, epochs = self.model.rollout, self.model.epochs
        order, taken = np.arange(length), 0
        for _ in range(length):
            self.interact()
        while True:
            rollout = self.turn()
            for taken in range(0, epochs * length, samples):
                if taken % length == 0:
                    self.rng.shuffle(order)
                rows = rollout[order[taken % length : taken % length + samples]]
                for _ in range((taken + samples) // epochs - taken // epochs):
                    self.interact()
                batch = torch.from_numpy(rows).to(self.device)
                yield batch[:, :OBSERVATION], batch[:, OBSERVATION:]

    def interact(self) -> None:
        observation = self.environment.observation()
        *logits, value = self.judge(observation)
        most = max(logits)
        log_sum = math.log(sum(math.exp(logit - most) for logit in logits)) + most
        action, left = 0, self.rng.f32() - math.exp(logits[0] - log_sum)
        while left >= 0.0 and action < ACTIONS - 1:
            action += 1
            left -= math.exp(logits[action] - log_sum)
        reward, terminated, truncated = self.environment.step(action)
        if truncated and not terminated:
            reward += DISCOUNT * self.judge(self.environment.observation())[-1]
        self.rows.append((*observation, action, logits[action] - log_sum, value))
        self.outcomes.append((reward, terminated or truncated))
        if terminated or truncated:
            self.environment = CartPole(self.rng)

    @torch.no_grad()
    def judge(self, observation: tuple[float, ...]) -> list[float]:
        """The logits of the actions, then the value."""
        logits, values = self.behaviour(torch.tensor([observation], dtype=torch.float32, device=self.device))
        return torch.cat([logits.flatten(), values]).tolist()

    def turn(self) -> np.ndarray:
        """The completed rollout: observations, then targets, in the columns of a batch."""
        rollout = np.array(self.rows, dtype=np.float32)
        next_value, next_advantage = self.judge(self.environment.observation())[-1], 0.0
        for index in reversed(range(len(rollout))):
            reward, ended = self.outcomes[index]
            value, goes_on = self.rows[index][-1], 0.0 if ended else 1.0
            error = reward + DISCOUNT * goes_on * next_value - value
            next_value, next_advantage = value, error + DISCOUNT * LAMBDA * goes_on * next_advantage
            rollout[index, -1] = next_advantage
        returns = rollout[:, -1] + np.array([row[-1] for row in self.rows], dtype=np.float32)
        self.rows, self.outcomes = [], []
        self.behaviour.load_state_dict(self.model.state_dict())
        return np.concatenate([rollout, returns[:, None]], axis=1)
