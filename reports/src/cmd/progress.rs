//! Shows how many figures are drawn, on a terminal.

use cli::progress;
use indicatif::{ProgressBar, ProgressStyle};

pub(super) fn of_figures(count: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(count as u64), progress::target());
    let style = ProgressStyle::with_template("{pos} of {len} figures {wide_bar}");
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
