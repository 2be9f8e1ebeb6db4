"""TD3 (Fujimoto et al., ICML 2018) in Pendulum-v1, with the networks and names of Stable-Baselines3."""

import copy
from typing import Iterator

import numpy as np
import torch
from environments import Pendulum
from torch import nn
from torch.nn import functional as F
from wyrand import Rng, below, normals, units

from .reference import Batch, Reference, Update

OBSERVATION = 3
ACTION = 1
CRITICS = ("qf0", "qf1")
SHARE = 0.005


class Model(Reference):
    def __init__(self, hidden: list[int], replay: int, random: int, policy_delay: int):
        super().__init__()
        self.replay, self.random, self.policy_delay = replay, random, policy_delay
        self.actor = nn.ModuleDict({"mu": perceptron(OBSERVATION, hidden, ACTION)})
        self.critic = nn.ModuleDict({name: perceptron(OBSERVATION + ACTION, hidden, 1) for name in CRITICS})
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.critic_updates = 0

    def updates(self) -> list[Update]:
        actor_is_due = lambda: self.critic_updates % self.policy_delay == 0  # noqa: E731
        return [
            Update(self.critic, self.critic_loss, after=self.count),
            Update(self.actor, self.actor_loss, is_due=actor_is_due, after=self.follow),
        ]

    def act(self, actor: nn.ModuleDict, observations: torch.Tensor) -> torch.Tensor:
        return actor["mu"](observations).tanh()

    def critic_loss(self, pairs: torch.Tensor, outcomes: torch.Tensor) -> torch.Tensor:
        observations, rewards, goes_on, noise = outcomes.split([OBSERVATION, 1, 1, 1], dim=1)
        with torch.no_grad():
            actions = (self.act(self.actor_target, observations) + noise).clamp(-1.0, 1.0)
            following = torch.cat([observations, actions], 1)
            smaller = torch.minimum(*(self.critic_target[name](following) for name in CRITICS)).float()
            target = smaller * goes_on * 0.99 + rewards
        first, second = (F.mse_loss(self.critic[name](pairs).float(), target) for name in CRITICS)
        return first + second

    def actor_loss(self, pairs: torch.Tensor, outcomes: torch.Tensor) -> torch.Tensor:
        observations = pairs[:, :OBSERVATION]
        chosen = torch.cat([observations, self.act(self.actor, observations)], 1)
        return -self.critic[CRITICS[0]](chosen).float().mean()

    def count(self) -> None:
        self.critic_updates += 1

    @torch.no_grad()
    def follow(self) -> None:
        for target, leader in ((self.critic_target, self.critic), (self.actor_target, self.actor)):
            torch._foreach_lerp_(list(target.parameters()), list(leader.parameters()), SHARE)

    def experience(self, seed: int, samples: int) -> Iterator[Batch]:
        return Replay(self, seed).batches(samples)


def perceptron(inputs: int, hidden: list[int], outputs: int) -> nn.Sequential:
    layers = []
    for before, after in zip([inputs, *hidden], hidden):
        layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], outputs))


class Replay:
    """The newest transitions: observation and action, then the observation that followed, reward, 1 as nothing ends."""

    def __init__(self, model: Model, seed: int):
        self.model, self.device = model, next(model.parameters()).device
        self.rng = Rng(seed)
        self.environment = Pendulum(self.rng)
        self.transitions = np.zeros((model.replay, OBSERVATION + ACTION + OBSERVATION + 2), dtype=np.float32)
        self.made = 0
        for _ in range(model.random):
            self.transit(2.0 * self.rng.f32() - 1.0)

    def batches(self, samples: int) -> Iterator[Batch]:
        while True:
            self.interact()
            drawn = self.rng.integers(3 * samples).reshape(samples, 3)
            kept = np.uint64(min(self.made, len(self.transitions)))
            rows = self.transitions[below(drawn[:, 0], kept)]
            noise = (0.2 * normals(units(drawn[:, 1]), units(drawn[:, 2]))).clip(-0.5, 0.5)
            rows = np.concatenate([rows, noise[:, None].astype(np.float32)], axis=1)
            batch = torch.from_numpy(rows).to(self.device)
            yield batch[:, : OBSERVATION + ACTION], batch[:, OBSERVATION + ACTION :]

    @torch.no_grad()
    def interact(self) -> None:
        observation = torch.tensor([self.environment.observation()], dtype=torch.float32, device=self.device)
        action = self.model.act(self.model.actor, observation).item()
        radius, turn = units(self.rng.integers(2))
        self.transit(min(max(action + 0.1 * float(normals(radius, turn)), -1.0), 1.0))

    def transit(self, action: float) -> None:
        observation = self.environment.observation()
        reward, terminated, truncated = self.environment.step(action * Pendulum.TORQUE_MAX)
        following = self.environment.observation()
        row = (*observation, action, *following, reward, 0.0 if terminated else 1.0)
        self.transitions[self.made % len(self.transitions)] = row
        self.made += 1
        if terminated or truncated:
            self.environment = Pendulum(self.rng)
