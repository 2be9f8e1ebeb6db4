//! Where the time of a step of a program goes.

use super::{exits, row, with_program};

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
    let rest = row.step_ns_median.expect("it has steps").saturating_sub(data + backward + optimizer);
    assert!(rest >= 500_000, "{row:?}");
    assert_eq!((row.forward_ns_median, row.sync_total_ns_median), (None, None));
}
