//! CartPole-v1: <https://gymnasium.farama.org/environments/classic_control/cart_pole/>, after Barto, Sutton and
//! Anderson, 1983, with the equations of Florian, 2007.

use fastrand::Rng;

use super::Outcome;

/// A pole on a cart that is pushed left or right once every 20 ms. Each push earns 1, until the pole leans by more than
/// 12 degrees, the cart is more than 2.4 m from the middle, or 500 pushes are made.
pub struct CartPole {
    /// Of the cart in m and m/s, of the pole in rad and rad/s.
    state: [f64; 4],
    pushes: u32,
}

impl CartPole {
    /// Position and speed of the cart, angle and angular speed of the pole.
    pub const OBSERVATION: usize = 4;
    /// Push to the left is 0, to the right is 1.
    pub const ACTIONS: usize = 2;
    /// The time limit of an episode.
    pub const PUSHES_MAX: u32 = 500;

    /// An episode that begins in `state`.
    pub fn at(state: [f64; Self::OBSERVATION]) -> Self {
        Self { state, pushes: 0 }
    }

    /// An episode that begins near the upright pole at rest.
    pub fn random(rng: &mut Rng) -> Self {
        const SPREAD: f64 = 0.05;
        Self::at([(); Self::OBSERVATION].map(|()| SPREAD * (2.0 * rng.f64() - 1.0)))
    }

    /// What decides the rest of the episode: the numbers of the observation in full precision, and the pushes so far.
    pub fn state(&self) -> ([f64; Self::OBSERVATION], u32) {
        (self.state, self.pushes)
    }

    /// The episode of which [`CartPole::state`] gave this.
    pub fn resumed(state: [f64; Self::OBSERVATION], pushes: u32) -> Self {
        Self { state, pushes }
    }

    pub fn observation(&self) -> [f32; Self::OBSERVATION] {
        self.state.map(|value| value as f32)
    }

    /// Pushes for 20 ms, integrated in one step by Euler's method.
    pub fn step(&mut self, action: usize) -> Outcome<{ Self::OBSERVATION }> {
        const GRAVITY: f64 = 9.8;
        const CART_KG: f64 = 1.0;
        const POLE_KG: f64 = 0.1;
        const HALF_POLE_M: f64 = 0.5;
        const FORCE_N: f64 = 10.0;
        const STEP_S: f64 = 0.02;
        const TOTAL_KG: f64 = CART_KG + POLE_KG;
        const ANGLE_MAX: f64 = 12.0 * std::f64::consts::TAU / 360.0;
        const POSITION_MAX: f64 = 2.4;

        debug_assert!(action < Self::ACTIONS);
        let force = if action == 1 { FORCE_N } else { -FORCE_N };
        let [position, speed, angle, turning] = self.state;
        let (sine, cosine) = angle.sin_cos();
        let push = (force + POLE_KG * HALF_POLE_M * turning * turning * sine) / TOTAL_KG;
        let angular = (GRAVITY * sine - cosine * push)
            / (HALF_POLE_M * (4.0 / 3.0 - POLE_KG * cosine * cosine / TOTAL_KG));
        let linear = push - POLE_KG * HALF_POLE_M * angular * cosine / TOTAL_KG;
        self.state = [
            position + STEP_S * speed,
            speed + STEP_S * linear,
            angle + STEP_S * turning,
            turning + STEP_S * angular,
        ];
        self.pushes += 1;

        let [position, _, angle, _] = self.state;
        Outcome {
            observation: self.observation(),
            reward: 1.0,
            terminated: position.abs() > POSITION_MAX || angle.abs() > ANGLE_MAX,
            truncated: self.pushes >= Self::PUSHES_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trajectory_is_that_of_gymnasium() {
        // gymnasium 1.4.0, CartPole-v1 from this state.
        let mut environment = CartPole::at([0.01, -0.02, 0.03, 0.04]);
        let expected = [
            (1, [0.009_6, 0.174_679_19, 0.030_8, -0.243_068_72]),
            (0, [0.013_093_584, -0.020_868_849, 0.025_938_626, 0.059_168]),
            (0, [0.012_676_207, -0.216_352_92, 0.027_121_985, 0.359_920_56]),
            (1, [0.008_349_148, -0.021_626_798, 0.034_320_395, 0.075_911_7]),
            (1, [0.007_916_612, 0.172_986_76, 0.035_838_63, -0.205_748_51]),
            (1, [0.011_376_347, 0.367_578_4, 0.031_723_66, -0.486_914_2]),
        ];
        for (action, observation) in expected {
            let outcome = environment.step(action);
            for (ours, theirs) in outcome.observation.into_iter().zip(observation) {
                assert!((ours - theirs).abs() < 1e-6, "{:?} for {observation:?}", outcome.observation);
            }
            assert!(outcome.reward == 1.0 && !outcome.ended());
        }
    }

    #[test]
    fn the_accelerations_solve_the_equations_of_motion() {
        // Lagrange's equations of a cart and a rod of half length l: (M + m) a + m l (b cos - w^2 sin) = F and
        // m l a cos + 4/3 m l^2 b = m g l sin.
        for [angle, turning, force] in [[0.0, 0.0, 10.0], [0.1, -2.0, -10.0], [-0.2, 3.0, 10.0]] {
            let mut environment = CartPole::at([0.3, -0.7, angle, turning]);
            environment.step(usize::from(force > 0.0));
            let [position, speed, next_angle, next_turning] = environment.state;
            let (a, b) = ((speed + 0.7) / 0.02, (next_turning - turning) / 0.02);
            let (m, l) = (0.1, 0.5);
            assert!(
                (1.1 * a + m * l * (b * angle.cos() - turning * turning * angle.sin()) - force).abs() < 1e-9
            );
            assert!((a * angle.cos() + 4.0 / 3.0 * l * b - 9.8 * angle.sin()).abs() < 1e-9);
            assert!((position - (0.3 - 0.7 * 0.02)).abs() < 1e-12);
            assert!((next_angle - (angle + turning * 0.02)).abs() < 1e-12);
        }
    }

    #[test]
    fn an_episode_ends_by_its_angle_its_position_or_its_time_limit() {
        let mut falling = CartPole::at([0.0; 4]);
        let pushes = (1..).find(|_| falling.step(1).terminated).unwrap();
        assert!((8..=11).contains(&pushes), "a pole pushed one way falls at once, here after {pushes}");
        assert!(CartPole::at([2.39, 1.0, 0.0, 0.0]).step(0).terminated);
        assert!(CartPole::at([-2.39, -1.0, 0.0, 0.0]).step(1).terminated);
        assert!(!CartPole::at([2.39, 0.0, 0.0, 0.0]).step(0).ended());

        // Pushes against the lean keep the pole up for as long as the limit allows.
        let mut balanced = CartPole::at([0.0; 4]);
        let last = (1..=CartPole::PUSHES_MAX)
            .map(|push| {
                let [position, speed, angle, turning] = balanced.state;
                let lean = angle + 0.5 * turning + 0.05 * position + 0.1 * speed;
                (push, balanced.step(usize::from(lean > 0.0)))
            })
            .find(|(_, outcome)| outcome.ended());
        let (pushes, outcome) = last.unwrap();
        assert_eq!((pushes, outcome.terminated), (CartPole::PUSHES_MAX, false));
    }

    #[test]
    fn episodes_begin_near_the_upright_pole_and_a_seed_gives_the_same_ones() {
        let starts = |seed| {
            let mut rng = Rng::with_seed(seed);
            std::iter::repeat_with(|| CartPole::random(&mut rng).state).take(100).collect::<Vec<_>>()
        };
        assert_eq!(starts(1), starts(1));
        assert_ne!(starts(1), starts(2));
        let largest = starts(1).into_iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
        assert!((0.045..=0.05).contains(&largest), "{largest}");
    }
}
