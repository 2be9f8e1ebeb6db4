//! Counts the multiply-adds of matrix products and convolutions while a model runs.
//!
//! `flops_per_sample` of the catalog is computed once, by a test, and written down there. Training never
//! counts. The count follows PyTorch's `torch.utils.flop_counter`: two operations per multiply-add, the
//! full square of attention scores although half of them are masked, and only matrix products.

use std::cell::Cell;

thread_local! {
    /// `None` outside of [`count`], where layers do not even look at the shapes of their inputs.
    static MULTIPLY_ADDS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `forward` and returns its result with the floating-point operations its layers made on this thread.
pub fn count<T>(forward: impl FnOnce() -> T) -> (T, u64) {
    let outer = MULTIPLY_ADDS.replace(Some(0));
    let result = forward();
    let multiply_adds = MULTIPLY_ADDS.replace(outer).expect("only this function ends a count");
    (result, 2 * multiply_adds)
}

/// Adds to the running count, if there is one.
pub(super) fn add(multiply_adds: impl FnOnce() -> i64) {
    if let Some(sum) = MULTIPLY_ADDS.get() {
        let more = u64::try_from(multiply_adds()).expect("products of sizes are not negative");
        MULTIPLY_ADDS.set(Some(sum + more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_inside_is_counted_and_counts_nest() {
        add(|| unreachable!("no count is running"));
        let ((inner, ()), outer) = count(|| {
            add(|| 3);
            let ((), inner) = count(|| add(|| 5));
            (inner, add(|| 7))
        });
        assert_eq!((inner, outer), (10, 20));
    }
}
