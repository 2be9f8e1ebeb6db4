//! Scheduling policies. A policy is a function of its view: it does no I/O, reads no clock and draws no random numbers.
//!
//! To add one, write a file that implements [`engine::policy::Policy`] and has a [`Declaration`], and name both below: the module, and the
//! declaration in [`POLICIES`]. No other code depends on the list of policies. What policies have in common is in [`kit`].
//!
//! A policy is built before the inputs of a run are read. It prepares itself on its first view, which has all that is known before
//! the run: the topology, the model (`View::model`), the costs of switches and the jobs of an earlier run (`View::known`). These
//! do not change during a run, but for a model that learns: `Change::Believed` names the jobs for which it predicts other times. A
//! policy therefore makes its estimators once, keeps them in an `Option` that is empty before the first decision, and asks the view
//! again for everything else, because it cannot keep references to it.

mod antman;
mod declaration;
mod elastic_fifo;
mod fifo;
mod gandiva;
mod gavel;
mod gittins;
mod horus;
pub mod kit;
mod las;
mod list;
mod lucid;
mod optimus;
mod packing_fifo;
mod pollux_fixed_batch;
mod qssf;
mod rubick;
mod sia;
mod sjf;
mod srsf;
mod srtf;
mod synergy;
mod tandem;
mod themis;
mod tiresias;

pub use declaration::{Declaration, Uses};
pub use kit::settings::Setting;
pub use list::{build, find, lacking, resizes, split};

/// All policies, in the order in which users read them.
pub const POLICIES: &[&Declaration] = &[
    &fifo::FIFO,
    &fifo::BACKFILL,
    &sjf::SJF,
    &sjf::BACKFILL,
    &qssf::QSSF,
    &qssf::BACKFILL,
    &srtf::SRTF,
    &srsf::SRSF,
    &las::LAS,
    &gittins::GITTINS,
    &themis::THEMIS,
    &gavel::GAVEL,
    &tiresias::TIRESIAS,
    &horus::HORUS,
    &packing_fifo::PACKING_FIFO,
    &synergy::SYNERGY,
    &antman::ANTMAN,
    &elastic_fifo::ELASTIC_FIFO,
    &optimus::OPTIMUS,
    &sia::SIA,
    &pollux_fixed_batch::POLLUX_FIXED_BATCH,
    &rubick::RUBICK,
    &lucid::LUCID,
    &gandiva::GANDIVA,
    &tandem::TANDEM,
];
