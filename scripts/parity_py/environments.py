"""CartPole-v1 and Pendulum-v1 with Gymnasium's equations, as torch-worker has them."""

import math

from wyrand import Rng


class CartPole:
    PUSHES_MAX = 500

    def __init__(self, rng: Rng):
        self.state = tuple(0.05 * (2.0 * rng.f64() - 1.0) for _ in range(4))
        self.pushes = 0

    def observation(self) -> tuple[float, ...]:
        return self.state

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Returns the reward, whether the episode ended by itself, and whether the time limit was reached."""
        position, speed, angle, turning = self.state
        sine, cosine = math.sin(angle), math.cos(angle)
        push = ((10.0 if action == 1 else -10.0) + 0.05 * turning * turning * sine) / 1.1
        angular = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
        linear = push - 0.05 * angular * cosine / 1.1
        position, angle = position + 0.02 * speed, angle + 0.02 * turning
        self.state = (position, speed + 0.02 * linear, angle, turning + 0.02 * angular)
        self.pushes += 1
        return 1.0, abs(position) > 2.4 or abs(angle) > math.radians(12.0), self.pushes >= self.PUSHES_MAX


class Pendulum:
    TORQUE_MAX = 2.0
    ACTIONS_MAX = 200

    def __init__(self, rng: Rng):
        self.angle = math.pi * (2.0 * rng.f64() - 1.0)
        self.turning = 2.0 * rng.f64() - 1.0
        self.actions = 0

    def observation(self) -> tuple[float, float, float]:
        return math.cos(self.angle), math.sin(self.angle), self.turning

    def step(self, torque: float) -> tuple[float, bool, bool]:
        """As that of the other."""
        torque = min(max(torque, -self.TORQUE_MAX), self.TORQUE_MAX)
        lean = (self.angle + math.pi) % (2.0 * math.pi) - math.pi
        cost = lean * lean + 0.1 * self.turning * self.turning + 0.001 * torque * torque
        turning = self.turning + (15.0 * math.sin(self.angle) + 3.0 * torque) * 0.05
        self.turning = min(max(turning, -8.0), 8.0)
        self.angle += self.turning * 0.05
        self.actions += 1
        return -cost, False, self.actions >= self.ACTIONS_MAX
