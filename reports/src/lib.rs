//! The library behind the program `report`: it reads the files of runs, and makes figures, pages and tables of them. It computes
//! no prediction; what needs a model is in a file of the run.

pub mod activity;
pub mod alone;
pub mod answers;
pub mod canvas;
pub mod chart;
pub mod cmd;
pub mod colours;
pub mod compare;
pub mod decimate;
pub mod doubt;
pub mod figure;
pub mod figures;
pub mod files;
pub mod fitted;
pub mod history;
pub mod page;
pub mod phrases;
pub mod planes;
pub mod report;
pub mod run;
pub mod scheduled;
pub mod serve;
pub mod shapes;
pub mod splice;
pub mod step_figure;
pub mod steps;
pub mod table;
