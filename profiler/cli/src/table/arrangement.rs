//! Which columns of a table are printed in a terminal, and how wide each of them is.

/// The widest content of a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) width: usize,
    pub(super) is_text: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayLeaveOut {
    /// Columns from the right, up to a last column of text.
    FromTheRight,
    Nothing,
}

/// The columns that are printed, and the width of the content of each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    pub(super) columns: Vec<usize>,
    pub(super) widths: Vec<usize>,
}

/// The spaces beside the content of a column, one on each side.
const PADDING: usize = 2;

/// A broken text of this width reads well.
const READABLE_TEXT: usize = 20;

/// A broken text of this width can still be read.
const NARROW_TEXT: usize = 12;

/// The number of columns at the left for which texts become narrow before one of these columns is left out.
const LEADING: usize = 4;

/// The first column says what a row is about, and a last column of text what to think of it, so both stay.
pub(super) fn arrange(extents: &[Extent], width: usize, may_leave_out: MayLeaveOut) -> Arrangement {
    // The space to the right of the last column is not printed.
    let width = width + 1;
    let trailing = usize::from(extents.last().is_some_and(|last| last.is_text));
    let mut columns: Vec<usize> = (0..extents.len()).collect();
    let mut widths = Vec::new();
    for (text, fewest) in [(READABLE_TEXT, LEADING), (NARROW_TEXT, 1)] {
        if !widths.is_empty() && taken(&columns, &widths) <= width {
            break;
        }
        widths = extents.iter().enumerate().map(|(index, own)| least(index, *own, text, width)).collect();
        while may_leave_out == MayLeaveOut::FromTheRight
            && taken(&columns, &widths) > width
            && columns.len() > fewest + trailing
        {
            columns.remove(columns.len() - 1 - trailing);
        }
    }
    // The narrowest broken text receives the remaining space, so that broken texts have similar numbers of lines.
    for _ in taken(&columns, &widths)..width {
        let broken = columns.iter().copied().filter(|&index| widths[index] < extents[index].width);
        let Some(narrowest) = broken.min_by_key(|&index| widths[index]) else { break };
        widths[narrowest] += 1;
    }
    Arrangement { widths: columns.iter().map(|&index| widths[index]).collect(), columns }
}

/// The least width of a column whose broken texts are this wide.
fn least(index: usize, Extent { width: own, is_text }: Extent, text: usize, table: usize) -> usize {
    match (index, is_text) {
        // Names are broken only if they would take more than half of the table.
        (0, _) => own.min(table / 2),
        (_, true) => own.min(text),
        (_, false) => own,
    }
}

fn taken(columns: &[usize], widths: &[usize]) -> usize {
    columns.iter().map(|&index| widths[index] + PADDING).sum()
}
