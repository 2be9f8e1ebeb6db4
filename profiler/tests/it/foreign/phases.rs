//! Where the time of a step of a program goes.

use schema::wire::Event;

use super::{events_of, exits, row, with_program};

#[test]
fn a_row_has_the_phases_that_the_hook_sees() {
    let program = "from torch.utils.data import DataLoader
def batches():
    for number in range(60):
        time.sleep(0.004)
        yield number
for batch in DataLoader(batches()):
    torch.autograd.backward(lambda: time.sleep(0.003))
    time.sleep(0.001)
    optimizer.step()";
    let Some(door) = with_program(program) else { return };
    exits(0, &door, "single --device cpu:0 --repeats 1 --out r --", &["python3", "train.py"]);
    let row = row(&door);
    let [data, backward, optimizer] = [row.data_ns_median, row.backward_ns_median, row.optimizer_ns_median]
        .map(|ns| ns.expect("it is seen"));
    assert!(data >= 4_000_000 && backward >= 3_000_000, "{row:?}");
    assert!(optimizer > 0, "{row:?}");
    for event in events_of(&door, &row.launch, 0) {
        let Event::Step(step) = event else { continue };
        let phases = step.phases.expect("the host's clock knows them");
        let seen = [phases.data_ns, phases.backward_ns, phases.optimizer_ns].into_iter().flatten();
        // The rest has a sleep of a millisecond.
        assert!(step.dur_ns.0 >= seen.map(|ns| ns.0).sum::<u64>() + 1_000_000, "{phases:?}");
    }
    assert_eq!((row.forward_ns_median, row.sync_total_ns_median), (None, None));
}
