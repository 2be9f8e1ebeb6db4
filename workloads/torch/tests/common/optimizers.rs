//! Every optimizer of the catalog, with settings that show in a few updates.

use schema::catalog::Optimizer;

pub(crate) const OPTIMIZERS: [(&str, Optimizer); 4] = [
    ("sgd", Optimizer::Sgd { learning_rate: 0.05, momentum: 0.0, weight_decay: 0.01 }),
    ("momentum", Optimizer::Sgd { learning_rate: 0.05, momentum: 0.9, weight_decay: 0.01 }),
    (
        "adam",
        Optimizer::Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.1 },
    ),
    (
        "adamw",
        Optimizer::Adamw { learning_rate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.1 },
    ),
];
