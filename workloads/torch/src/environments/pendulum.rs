//! Pendulum-v1: <https://gymnasium.farama.org/environments/classic_control/pendulum/>.

use std::f64::consts::{PI, TAU};

use fastrand::Rng;

use super::Outcome;

/// A rod on a motor that is too weak to lift it at once. The reward is larger near upright, at low speed
/// and with low torque, and never above 0. An episode has 200 actions of 50 ms.
pub struct Pendulum {
    /// From upright, in rad.
    angle: f64,
    /// In rad/s.
    turning: f64,
    actions: u32,
}

impl Pendulum {
    /// Cosine and sine of the angle, and the angular speed.
    pub const OBSERVATION: usize = 3;
    /// Torques of an action.
    pub const ACTION: usize = 1;
    /// The strongest torque in N m; larger ones are clipped.
    pub const TORQUE_MAX: f32 = 2.0;
    /// The time limit, and the only end of an episode.
    pub const ACTIONS_MAX: u32 = 200;

    /// An episode that begins at an angle (rad from upright) and an angular speed (rad/s).
    pub fn at(angle: f64, turning: f64) -> Self {
        Self { angle, turning, actions: 0 }
    }

    /// An episode that begins at a random angle and a low speed.
    pub fn random(rng: &mut Rng) -> Self {
        const TURNING_MAX: f64 = 1.0;
        let mut uniform = |bound: f64| bound * (2.0 * rng.f64() - 1.0);
        Self::at(uniform(PI), uniform(TURNING_MAX))
    }

    /// What decides the rest of the episode: the angle (rad from upright), the angular speed (rad/s) and the actions so far.
    pub fn state(&self) -> ([f64; 2], u32) {
        ([self.angle, self.turning], self.actions)
    }

    /// The episode of which [`Pendulum::state`] gave this.
    pub fn resumed([angle, turning]: [f64; 2], actions: u32) -> Self {
        Self { angle, turning, actions }
    }

    pub fn observation(&self) -> [f32; Self::OBSERVATION] {
        [self.angle.cos(), self.angle.sin(), self.turning].map(|value| value as f32)
    }

    /// Applies a torque (N m) for 50 ms.
    pub fn step(&mut self, torque: f32) -> Outcome<{ Self::OBSERVATION }> {
        const GRAVITY: f64 = 10.0;
        const ROD_KG: f64 = 1.0;
        const ROD_M: f64 = 1.0;
        const STEP_S: f64 = 0.05;
        const TURNING_MAX: f64 = 8.0;

        let torque = f64::from(torque.clamp(-Self::TORQUE_MAX, Self::TORQUE_MAX));
        // Between -pi and pi.
        let lean = (self.angle + PI).rem_euclid(TAU) - PI;
        let cost = lean * lean + 0.1 * self.turning * self.turning + 0.001 * torque * torque;
        let acceleration =
            3.0 * GRAVITY / (2.0 * ROD_M) * self.angle.sin() + 3.0 / (ROD_KG * ROD_M * ROD_M) * torque;
        self.turning = (self.turning + acceleration * STEP_S).clamp(-TURNING_MAX, TURNING_MAX);
        self.angle += self.turning * STEP_S;
        self.actions += 1;
        Outcome {
            observation: self.observation(),
            reward: -cost as f32,
            terminated: false,
            truncated: self.actions >= Self::ACTIONS_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trajectories_are_those_of_gymnasium() {
        // gymnasium 1.4.0, Pendulum-v1 from these states: torque, observation, reward. Excessive torque and
        // speed are clipped.
        let cases = [
            (
                Pendulum::at(3.0, -0.5),
                vec![
                    (2.0, [-0.989_317_1, 0.145_779_31, -0.094_159_99], -9.029),
                    (-1.0, [-0.988_311_95, 0.152_445_21, -0.134_825_51], -8.973_66),
                    (0.5, [-0.988_723_75, 0.149_751_08, 0.054_508_4], -8.933_503),
                    (3.0, [-0.991_949_44, 0.126_634_5, 0.466_821_7], -8.952_03),
                    (-2.5, [-0.993_522_05, 0.113_639_53, 0.261_797_58], -9.113_709),
                ],
            ),
            (
                Pendulum::at(1.0, 7.9),
                vec![
                    (2.0, [0.169_967_14, 0.985_449_73, 8.0], -7.245),
                    (2.0, [-0.227_202_09, 0.973_847_6, 8.0], -8.364),
                ],
            ),
        ];
        for (mut environment, expected) in cases {
            for (torque, observation, reward) in expected {
                let outcome: Outcome<3> = environment.step(torque);
                for (ours, theirs) in outcome.observation.into_iter().zip(observation) {
                    assert!(
                        (ours - theirs).abs() < 1e-5_f32,
                        "{:?} for {observation:?}",
                        outcome.observation
                    );
                }
                assert!((outcome.reward - reward).abs() < 1e-5, "{} for {reward}", outcome.reward);
                assert!(!outcome.ended());
            }
        }
    }

    #[test]
    fn the_worst_reward_is_that_of_hanging_at_full_speed_and_torque_and_the_best_is_upright_rest() {
        // Upright is an equilibrium.
        assert_eq!(Pendulum::at(0.0, 0.0).step(0.0).reward, 0.0);
        assert_eq!(Pendulum::at(0.0, 0.0).step(0.0).observation, [1.0, 0.0, 0.0]);
        let worst = (PI * PI + 0.1 * 64.0 + 0.001 * 4.0) as f32;
        assert!((Pendulum::at(PI, 8.0).step(-2.0).reward + worst).abs() < 1e-5);
        let mut rng = Rng::with_seed(1);
        let mut environment = Pendulum::random(&mut rng);
        for action in 1..=Pendulum::ACTIONS_MAX {
            let outcome = environment.step(4.0 * rng.f32() - 2.0);
            assert!((-worst..=0.0).contains(&outcome.reward), "{}", outcome.reward);
            assert_eq!(outcome.ended(), action == Pendulum::ACTIONS_MAX);
            assert!(!outcome.terminated);
        }
    }

    #[test]
    fn without_torque_a_small_swing_has_the_period_of_a_rod() {
        // A rod of length l swings about its end with 2 pi sqrt(2 l / (3 g)) = 1.62 s.
        let mut environment = Pendulum::at(PI + 0.01, 0.0);
        let crossings: Vec<u32> = (0..100)
            .filter(|_| {
                let before = environment.turning;
                environment.step(0.0);
                before < 0.0 && environment.turning >= 0.0
            })
            .collect();
        let period = f64::from(crossings[2] - crossings[0]) / 2.0 * 0.05;
        assert!((period - TAU * (2.0_f64 / 30.0).sqrt()).abs() < 0.05, "{period}");
    }

    #[test]
    fn episodes_begin_at_every_angle_and_a_seed_gives_the_same_ones() {
        let starts = |seed| {
            let mut rng = Rng::with_seed(seed);
            let start = || {
                let Pendulum { angle, turning, .. } = Pendulum::random(&mut rng);
                [angle, turning]
            };
            std::iter::repeat_with(start).take(100).collect::<Vec<_>>()
        };
        assert_eq!(starts(1), starts(1));
        assert_ne!(starts(1), starts(2));
        let most = |index: usize| starts(1).iter().fold(0.0_f64, |most, start| most.max(start[index].abs()));
        assert!((3.0..=PI).contains(&most(0)) && (0.9..=1.0).contains(&most(1)));
    }
}
