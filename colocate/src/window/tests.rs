use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const VISIT: Window = Window { start: Nanos(0), end: Nanos(10_000 * MS) };

/// Steps of these lengths in ms, one after the other from `start_ms` on.
fn steps(start_ms: u64, lengths_ms: impl IntoIterator<Item = u64>) -> LaunchActivity {
    let mut end = start_ms * MS;
    LaunchActivity::Steps(
        lengths_ms
            .into_iter()
            .map(|ms| {
                end += ms * MS;
                Step { end: Nanos(end), dur_ns: ms * MS }
            })
            .collect(),
    )
}

fn flat(start_ms: u64, length_ms: u64, count: usize) -> LaunchActivity {
    steps(start_ms, std::iter::repeat_n(length_ms, count))
}

fn window(start_ms: u64, end_ms: u64) -> Window {
    Window { start: Nanos(start_ms * MS), end: Nanos(end_ms * MS) }
}

fn indices(part: &SteadyPart) -> Vec<usize> {
    part.steps.iter().map(|used| used.step).collect()
}

#[test]
fn only_what_all_members_share_counts() {
    // One runs from 0 to 1000 ms, the other from 300 to 900 ms.
    let parts = common(&[vec![flat(0, 10, 100)], vec![flat(300, 20, 30)]], VISIT, &[]).expect("they overlap");
    assert_eq!(parts[0].windows, [(0, window(300, 900))]);
    assert_eq!(indices(&parts[0]), (30..90).collect::<Vec<_>>());
    assert_eq!((parts[0].window_ns, parts[1].window_ns), (600 * MS, 600 * MS));
    assert_eq!(indices(&parts[1]), (0..30).collect::<Vec<_>>());
    assert!(parts.iter().all(|part| part.class.is_steady()));
}

#[test]
fn the_warm_up_of_one_member_counts_of_none() {
    let late = steps(0, [100, 100, 100].into_iter().chain(std::iter::repeat_n(20, 30)));
    let parts = common(&[vec![flat(0, 10, 100)], vec![late]], VISIT, &[]).expect("they overlap");
    let start = parts[1].windows[0].1.start;
    // Where a level begins is known to the width of the filter that finds it.
    assert!((Nanos(300 * MS)..=Nanos(400 * MS)).contains(&start), "{start:?}");
    assert_eq!(parts[0].windows, [(0, Window { start, end: Nanos(900 * MS) })]);
}

#[test]
fn a_member_that_turned_slow_is_known_by_its_class() {
    let lengths = |first_ms| std::iter::repeat_n(first_ms, 20).chain(std::iter::repeat_n(20, 60));
    for (first_ms, class) in [(20, Class::Flat), (30, Class::WarmUp), (10, Class::Slowdown)] {
        let parts = common(&[vec![steps(0, lengths(first_ms))], vec![flat(0, 10, 200)]], VISIT, &[]);
        let classes: Vec<Class> = parts.expect("they overlap").iter().map(|part| part.class).collect();
        assert_eq!(classes, [class, Class::Flat], "{first_ms} ms");
    }
}

#[test]
fn the_window_of_a_member_begins_and_ends_with_its_own_steps() {
    let parts = common(&[vec![flat(0, 10, 100)], vec![flat(105, 30, 21)]], VISIT, &[]).expect("they overlap");
    assert_eq!(parts[0].windows, [(0, window(110, 730))]);
    assert_eq!(parts[1].windows, [(0, window(105, 735))]);
    assert_eq!((parts[0].steps.len(), parts[1].steps.len()), (62, 21));
}

#[test]
fn warm_up_before_the_barrier_and_what_follows_the_end_do_not_count() {
    let visit = window(200, 500);
    let parts = common(&[vec![flat(0, 10, 100)], vec![flat(0, 10, 100)]], visit, &[]).expect("they overlap");
    for part in parts {
        assert_eq!((indices(&part), part.window_ns), ((20..50).collect(), 300 * MS));
    }
}

#[test]
fn time_held_is_part_of_a_step_except_before_the_first() {
    // Ten steps of 10 ms from the barrier on, 100 ms held, and 40 more.
    let LaunchActivity::Steps(mut held) = flat(0, 10, 10) else { unreachable!() };
    let LaunchActivity::Steps(more) = flat(200, 10, 40) else { unreachable!() };
    held.extend(more);
    let parts = common(&[vec![LaunchActivity::Steps(held)], vec![flat(0, 5, 200)]], VISIT, &[])
        .expect("they overlap");
    assert_eq!(parts[0].window_ns, 600 * MS);
    assert_eq!(parts[0].steps[10].length_ns, 110 * MS);
    assert_eq!(parts[0].steps.iter().map(|used| used.length_ns).sum::<u64>(), parts[0].window_ns);
}

#[test]
fn a_member_that_was_started_again_counts_where_it_ran() {
    let looped = vec![flat(0, 10, 30), flat(400, 10, 30)];
    let parts = common(&[looped, vec![flat(0, 10, 100)]], VISIT, &[]).expect("they overlap");
    assert_eq!(parts[0].windows, [(0, window(0, 300)), (1, window(400, 700))]);
    assert_eq!((parts[0].window_ns, parts[0].steps.len()), (600 * MS, 60));
    assert_eq!(parts[1].windows, [(0, window(0, 300)), (0, window(400, 700))]);
    assert_eq!(indices(&parts[1]), (0..30).chain(40..70).collect::<Vec<_>>());
}

#[test]
fn a_program_without_steps_is_there_from_its_start_to_its_end() {
    let program =
        vec![LaunchActivity::Outside(window(100, 350)), LaunchActivity::Outside(window(400, 20_000))];
    let parts = common(&[program, vec![flat(0, 10, 100)]], VISIT, &[]).expect("they overlap");
    assert_eq!(parts[0].windows, [(0, window(100, 350)), (1, window(400, 1_000))]);
    assert_eq!((parts[1].steps.len(), parts[1].window_ns), (85, 850 * MS));
}

#[test]
fn members_that_were_never_there_together_have_no_window() {
    assert_eq!(common(&[vec![flat(0, 10, 30)], vec![flat(300, 10, 30)]], VISIT, &[]), None);
    assert_eq!(common(&[vec![flat(0, 10, 30)], vec![]], VISIT, &[]), None);
    assert_eq!(
        common(&[vec![flat(0, 500, 1)], vec![flat(100, 10, 20)]], VISIT, &[]),
        None,
        "no step fits in"
    );
    assert_eq!(common(&[], VISIT, &[]), None);
}

/// Two members in turns: two steps of 10 ms for the first, one of 30 ms for the second, 1 ms to switch.
fn in_turns(count: u64) -> (Vec<Vec<LaunchActivity>>, Vec<Turn>) {
    let (mut first, mut second, mut turns) = (Vec::new(), Vec::new(), Vec::new());
    let step = |end: u64, ms: u64| Step { end: Nanos(end * MS), dur_ns: ms * MS };
    let turn = |seat, from: u64, to: u64| Turn {
        seat,
        start_mono_ns: Nanos(from * MS),
        end_mono_ns: Nanos(to * MS),
    };
    for round in 0..count {
        let at = round * 52;
        first.extend([step(at + 10, 10), step(at + 20, 10)]);
        second.push(step(at + 51, 30));
        turns.extend([turn(0, at, at + 21), turn(1, at + 21, at + 52)]);
    }
    (vec![vec![LaunchActivity::Steps(first)], vec![LaunchActivity::Steps(second)]], turns)
}

#[test]
fn turns_count_in_whole_rounds() {
    let (members, mut turns) = in_turns(30);
    // A turn without its counterpart is no round.
    turns.push(Turn { seat: 0, start_mono_ns: Nanos(1_560 * MS), end_mono_ns: Nanos(1_600 * MS) });
    let parts = common(&members, VISIT, &turns).expect("thirty rounds");
    for (part, steps) in parts.iter().zip([60, 30]) {
        assert_eq!((part.windows.clone(), part.steps.len()), (vec![(0, window(0, 1_560))], steps));
        assert_eq!(part.window_ns, 1_560 * MS);
    }
    // 26 and 52 ms a step, where they take 10 and 30 alone: a round of 52 holds 50 of work.
    let throughput: f64 = [(0, 10), (1, 30)]
        .map(|(seat, alone): (usize, u64)| {
            (alone * MS * parts[seat].steps.len() as u64) as f64 / parts[seat].window_ns as f64
        })
        .iter()
        .sum();
    assert!((throughput - 50.0 / 52.0).abs() < 1e-12, "{throughput}");
}

#[test]
fn rounds_in_which_a_member_warms_up_do_not_count() {
    let (mut members, turns) = in_turns(40);
    let LaunchActivity::Steps(steps) = &mut members[0][0] else { unreachable!() };
    for (step, dur_ms) in steps.iter_mut().zip([18, 17, 16, 18, 17, 16]) {
        step.dur_ns = dur_ms * MS;
    }
    let parts = common(&members, VISIT, &turns).expect("forty rounds");
    assert_eq!(parts[0].windows[0].1.start, Nanos(52 * 3 * MS));
    assert_eq!((parts[0].steps.len(), parts[1].steps.len()), (74, 37));
}

#[test]
fn one_turn_each_is_one_round() {
    let turn = |seat, from: u64, to: u64| Turn {
        seat,
        start_mono_ns: Nanos(from * MS),
        end_mono_ns: Nanos(to * MS),
    };
    let members = vec![vec![flat(1, 10, 50)], vec![flat(502, 20, 40)]];
    let parts = common(&members, VISIT, &[turn(0, 0, 502), turn(1, 502, 1_304)]).expect("a round");
    for (part, steps) in parts.iter().zip([50, 40]) {
        assert_eq!((part.steps.len(), part.window_ns), (steps, 1_304 * MS));
    }
    assert_eq!(common(&members, VISIT, &[turn(0, 0, 502)]), None, "the other had no turn");
}

fn any_member() -> impl Strategy<Value = Vec<LaunchActivity>> {
    let launch = (1u64..40, 20usize..120).prop_map(|(length_ms, count)| (length_ms, count));
    (0u64..300, prop::collection::vec(launch, 1..3)).prop_map(|(start, launches)| {
        let mut at = start;
        launches
            .into_iter()
            .map(|(length_ms, count)| {
                let launch = flat(at, length_ms, count);
                at += length_ms * count as u64 + 50;
                launch
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn the_order_of_seats_does_not_matter(members in prop::collection::vec(any_member(), 2..5)) {
        let mut reversed = members.clone();
        reversed.reverse();
        let parts = common(&members, VISIT, &[]);
        let other = common(&reversed, VISIT, &[]).map(|mut parts| { parts.reverse(); parts });
        prop_assert_eq!(parts, other);
    }

    #[test]
    fn a_window_holds_its_steps_and_nothing_else(members in prop::collection::vec(any_member(), 1..4)) {
        for part in common(&members, VISIT, &[]).into_iter().flatten() {
            prop_assert_eq!(part.window_ns, part.windows.iter().map(|(_, window)| window.length().0).sum::<u64>());
            prop_assert_eq!(part.window_ns, part.steps.iter().map(|used| used.length_ns).sum::<u64>());
        }
    }

    #[test]
    fn twins_have_the_same_window(member in any_member()) {
        let parts = common(&[member.clone(), member], VISIT, &[]).expect("they run at the same time");
        prop_assert_eq!(&parts[0], &parts[1]);
    }
}
