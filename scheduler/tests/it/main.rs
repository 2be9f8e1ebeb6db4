//! Tests of the engine through the loop that every command uses, with simulated clusters; and of the
//! testbed, with synthetic workers and no libtorch.

mod actions;
mod admission;
mod antman;
mod bench;
mod conformance;
mod cpus;
mod elastic_baselines;
mod endings;
mod exec;
mod invariants;
mod losses;
mod lucid;
mod moves;
mod neighbours;
mod packing;
mod placement;
mod planted;
mod policies;
mod queueing;
mod random_runs;
mod replay;
mod restless;
mod rubick;
mod scripted;
mod scripts;
mod slow;
mod support;
mod suspension;
mod switches;
mod synergy;
mod testbed;
mod throttle;
mod turns;
mod varied;
mod virtual_clusters;
