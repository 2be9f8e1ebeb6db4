//! Plans for tests, which other rooms include by the path of this file.

use proptest::prelude::*;
use schema::plan::{Plan, Precision};

pub(crate) fn any_plan() -> impl Strategy<Value = Plan> {
    let degree = prop_oneof![Just(1u16), 1..=64u16];
    (degree.clone(), degree.clone(), degree.clone(), 0..=3u8, degree, any::<(bool, bool, bool)>())
        .prop_map(|(dp, tp, pp, zero, ga, (gc, offload, bf16))| Plan {
            dp,
            tp,
            pp,
            zero,
            ga,
            gc,
            offload,
            precision: if bf16 { Precision::Bf16 } else { Precision::Fp32 },
        })
        .prop_filter("zero needs dp and is not combined with tp or pp", |plan| {
            plan.to_string().parse::<Plan>().is_ok()
        })
}
