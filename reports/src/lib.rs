//! The library behind the program `report`: it reads the files of runs, and makes figures, pages and tables of them. It computes
//! no prediction; what needs a model is in a file of the run.

pub mod cmd;

mod alone;
mod chart;
mod colours;
mod decimate;
mod figure;
mod figures;
mod planes;
mod run;
mod step_figure;
mod steps;
mod table;
