//! How wide a table may be.

use std::{env, io};

use terminal_size::{Width, terminal_size_of};

/// The width of a table that no terminal shows.
const DEFAULT_WIDTH: usize = 80;

/// The columns of the terminal of stdout, or else those of the variable `COLUMNS`, with which a user gives a pipe or a file its width.
pub(super) fn of_stdout() -> usize {
    let terminal = terminal_size_of(io::stdout()).map(|(Width(columns), _)| usize::from(columns));
    let variable = || env::var("COLUMNS").ok()?.parse().ok();
    let is_wide = |columns: &usize| *columns > 0;
    terminal.filter(is_wide).or_else(|| variable().filter(is_wide)).unwrap_or(DEFAULT_WIDTH)
}
