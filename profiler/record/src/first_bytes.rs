//! Tells text in UTF-8 from other files by their first bytes.

use std::path::Path;

use crate::rows::RowError;

/// First bytes of formats that are no text, their names, and what to do about them.
const NO_TEXT: [(&[u8], &str, &str); 4] = [
    (b"PK\x03\x04", "a zip archive or a workbook", "unpack it, or save its table as CSV"),
    (b"PAR1", "Parquet", "write it as CSV, for example with pandas"),
    (b"BZh", "compressed with bzip2", "unpack it with `bzip2 -d`"),
    (b"\xfd7zXZ", "compressed with xz", "unpack it with `xz -d`"),
];

/// First bytes of formats that only an import reads.
const PACKED: [(&[u8], &str, &str); 2] = [
    (GZIP, "compressed with gzip", "unpack it with `gzip -d`"),
    (ZSTD, "compressed with zstd", "unpack it with `zstd -d`"),
];

/// The first bytes of gzip.
pub const GZIP: &[u8] = &[0x1f, 0x8b];
/// The first bytes of a frame of zstd.
pub const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Checks that a table of Tandem is neither compressed nor in UTF-16, nor no text at all.
///
/// # Errors
/// The format of the file, and what to do about it.
pub fn check_plain(file: &Path, bytes: &[u8]) -> Result<(), RowError> {
    let utf_16 = utf_16(bytes).map(|_| ("UTF-16", "save it as UTF-8"));
    let of_bytes = NO_TEXT.iter().chain(&PACKED).find(|(magic, ..)| bytes.starts_with(magic));
    match of_bytes.map(|(_, name, remedy)| (*name, *remedy)).or(utf_16) {
        Some((name, remedy)) => Err(no_text(file, name, remedy)),
        None => Ok(()),
    }
}

/// Checks that a file that begins with these bytes may be text that is packed.
///
/// # Errors
/// The format of the file, and what to do about it.
pub fn check_packed(file: &Path, start: &[u8]) -> Result<(), RowError> {
    match NO_TEXT.iter().find(|(magic, ..)| start.starts_with(magic)) {
        Some((_, name, remedy)) => Err(no_text(file, name, remedy)),
        None => Ok(()),
    }
}

fn no_text(file: &Path, name: &str, remedy: &str) -> RowError {
    RowError::Row { file: file.into(), line: 1, message: format!("this is {name}; {remedy}") }
}

/// Makes a unit of UTF-16 of its two bytes.
pub type UnitOfBytes = fn([u8; 2]) -> u16;

/// The length of the byte order mark of UTF-16, and the order of its bytes. A text without a mark begins with two characters of ASCII.
pub fn utf_16(bytes: &[u8]) -> Option<(usize, UnitOfBytes)> {
    match *bytes {
        [0xff, 0xfe, ..] => Some((2, u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Some((2, u16::from_be_bytes)),
        [first, 0, second, 0, ..] if first != 0 && second != 0 => Some((0, u16::from_le_bytes)),
        [0, first, 0, second, ..] if first != 0 && second != 0 => Some((0, u16::from_be_bytes)),
        _ => None,
    }
}
